//! Bytes, and where they went.

use crate::support::{ace, ace_spec, ace_torus, all_reduce, baseline, collective_job, endpoints, run};
use syncline_system::Values;
use syncline_system::spec::{CollectiveKindSpec, EndpointSpec};

/// ACE paper, VI-A: 2 B read per byte sent in reduce-scatter and 1 B in all-gather, 1.5 on average.
#[test]
fn the_baseline_reads_one_and_a_half_bytes_per_byte_sent() {
    let e = run(&all_reduce(ace_torus([4, 4, 4]), baseline(), 4 << 20)).summary.endpoint;
    assert_eq!(2 * e.memory_read_bytes, 3 * e.sent_bytes);
    for (collective, per_byte) in [(CollectiveKindSpec::ReduceScatter, 2), (CollectiveKindSpec::AllGather, 1)] {
        let mut spec = all_reduce(ace_torus([4, 4, 4]), baseline(), 4 << 20);
        spec.job = collective_job(collective, 4 << 20);
        let e = run(&spec).summary.endpoint;
        assert_eq!(e.memory_read_bytes, per_byte * e.sent_bytes);
    }
}

/// ACE paper, VI-A: 3/4 + 2 x 6/16 + 3/4 bytes sent per byte loaded.
#[test]
fn ace_sends_two_and_a_quarter_bytes_per_byte_loaded() {
    let s = run(&all_reduce(ace_torus([4, 4, 4]), ace(), 4 << 20)).summary;
    assert_eq!(4 * s.endpoint.sent_bytes, 9 * s.endpoint.loaded_bytes);
    assert_eq!(s.endpoint.loaded_bytes, 64 * (4 << 20));
    assert_eq!(s.endpoint.memory_write_bytes, s.endpoint.loaded_bytes);
}

#[test]
fn every_endpoint_sends_what_the_plan_says() {
    for endpoint in endpoints() {
        let s = run(&all_reduce(ace_torus([4, 8, 4]), endpoint, 1 << 20)).summary;
        let per_npu = (1 << 20) * (2 * 3 * 32 + 2 * 7 * 4 + 2 * 3 * 8) / 128; // 2 3/4 + (2 7/8 + 2 3/4) / 4
        assert_eq!(s.endpoint.sent_bytes, 128 * per_npu);
        assert_eq!(s.network.injected_bytes, s.endpoint.sent_bytes);
        assert_eq!(s.network.delivered_bytes, s.endpoint.sent_bytes);
        assert_eq!(s.network.link_bytes, s.endpoint.sent_bytes.into()); // one hop each
    }
}

#[test]
fn partitions_and_fsms_stay_within_their_limits() {
    for (sram_bytes, fsms) in [(4 << 20, 16), (2 << 20, 8), (8 << 20, 20), (1 << 20, 4), (4 << 20, 64)] {
        let endpoint = EndpointSpec::Ace(syncline_system::spec::AceSpec { sram_bytes, fsms, ..ace_spec() });
        let e = run(&all_reduce(ace_torus([4, 2, 4]), endpoint, 8 << 20)).summary.endpoint;
        assert!(e.fsm_peak <= fsms && e.fsm_peak > 0);
        assert_eq!(e.partitions.len(), 5);
        assert_eq!(e.phases.iter().map(|p| p.fsms).sum::<u32>(), fsms);
        assert!(e.phases.iter().all(|p| p.fsm_peak > 0 && p.fsm_peak <= p.fsms), "{:?}", e.phases);
        assert!(e.phases.iter().map(|p| p.fsm_peak).sum::<u32>() >= e.fsm_peak);
        for p in &e.partitions {
            assert!(p.peak_bytes <= p.capacity_bytes && p.peak_bytes > 0, "{p:?}");
        }
        assert!(e.partitions.iter().map(|p| p.capacity_bytes).sum::<u64>() <= sram_bytes);
    }
}

/// ACE paper, section IV-I: in proportion to bandwidth x initial chunk size, the terminal partition equal to
/// the last: 8 x 4, 1 x 1, 1 x 1, 8 x 1, 8 x 1 of 50.
#[test]
fn the_sram_is_divided_as_published() {
    let e = run(&all_reduce(ace_torus([4, 4, 4]), ace(), 1 << 20)).summary.endpoint;
    let got: Vec<u64> = e.partitions.iter().map(|p| p.capacity_bytes).collect();
    assert_eq!(got, [32, 1, 1, 8, 8].map(|weight| (4u64 << 20) * weight / 50));
}

/// Windows hold all of the links' busy time.
#[test]
fn windows_add_up() {
    let spec = all_reduce(ace_torus([4, 4, 2]), baseline(), 2 << 20);
    let results = run(&spec);
    let table = |name: &str| results.tables.iter().find(|t| t.name == name).expect("a table");
    let column = |t: &str, c: &str| table(t).values(c).expect("a column");
    let (Values::Int(busy), Values::Float(share)) = (column("links", "busy_ps"), column("windows", "links")) else {
        panic!("busy times are integers, shares are not")
    };
    let links = busy.len() as f64;
    let (end, window) = (results.summary.total_ps, spec.output.resolution().window.0);
    let span = |w: usize| (end - w as u64 * window).min(window) as f64;
    let from_windows: f64 = share.iter().enumerate().map(|(w, s)| s * span(w) * links).sum();
    let total = busy.iter().sum::<i64>() as f64;
    assert!((from_windows / total - 1.0).abs() < 1e-9, "{from_windows} against {total}");
}

#[test]
fn a_run_that_decides_on_its_windows_has_some_hundreds_of_them() {
    for bytes in [2 << 10, 50_000, 2 << 20] {
        let mut spec = all_reduce(ace_torus([4, 4, 2]), baseline(), bytes);
        let given = run(&spec);
        spec.output.window_ps = None;
        let results = run(&spec);
        assert_eq!(results.summary.total_ps, given.summary.total_ps, "windows change nothing");
        let windows = results.tables.iter().find(|t| t.name == "windows").expect("a table");
        let (Some(Values::Int(starts)), Some(Values::Float(share))) =
            (windows.values("start_ps"), windows.values("links"))
        else {
            panic!("starts are integers, shares are not")
        };
        assert!((200..=400).contains(&starts.len()), "{bytes} bytes: {} windows", starts.len());
        assert!(share.iter().any(|&s| s > 0.0));
    }
}
