//! What cannot work is refused, or fails with who waits for what.

use crate::support::{ace_spec, ace_torus, all_reduce, dim, dims, ideal, packet, run};
use syncline_system::spec::{AceSpec, DeadlockRule, EndpointSpec, NetworkSpec, Spec};
use syncline_system::{RunError, check, run as run_json, run_spec};

fn refusal(spec: &Spec) -> String {
    match run_spec(spec, None) {
        Err(RunError::Spec(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// The number that a message says would be accepted.
fn accepted(message: &str) -> u64 {
    let number = message.split("accepted: ").nth(1).and_then(|m| m.split(' ').next());
    number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no number in {message}"))
}

fn with_ace(change: impl FnOnce(&mut AceSpec)) -> Spec {
    let mut ace = ace_spec();
    change(&mut ace);
    all_reduce(ace_torus([4, 4, 4]), EndpointSpec::Ace(ace), 1 << 20)
}

#[test]
fn a_small_sram_is_refused_with_the_least_that_works() {
    let message = refusal(&with_ace(|a| a.sram_bytes = 100_000));
    let needed: u64 = message
        .split("accepted: ")
        .nth(1)
        .and_then(|m| m.split(' ').next())
        .expect("a number")
        .parse()
        .expect("a number");
    assert!(needed > 100_000, "{message}");
    run(&with_ace(|a| a.sram_bytes = needed));
    refusal(&with_ace(|a| a.sram_bytes = needed - 64));
}

#[test]
fn impossible_descriptions_are_refused() {
    assert!(refusal(&with_ace(|a| a.fsms = 3)).contains("accepted: 4 or more"));
    assert!(refusal(&with_ace(|a| a.clock_hz = 0)).contains("clock_hz"));
    assert!(refusal(&all_reduce(vec![], ideal(), 1)).contains("at least one dimension"));
    assert!(refusal(&all_reduce(vec![dim(0, 1, 1)], ideal(), 1)).contains("no nodes"));
    assert!(refusal(&all_reduce(vec![dim(4, 0, 1)], ideal(), 1)).contains("a link needs a rate"));
    assert!(refusal(&all_reduce(vec![dim(1 << 16, 1, 1), dim(1 << 16, 1, 1)], ideal(), 1)).contains("nodes"));
    let mut spec = all_reduce(vec![dim(4, 1, 1)], ideal(), 1);
    spec.output.trace_npus = vec![4];
    assert!(refusal(&spec).contains("there is no NPU 4"));
    let mut spec = all_reduce(vec![dim(4, 1, 1)], ideal(), 1);
    spec.network = NetworkSpec::Packet {
        packet_bytes: 0,
        buffer_packets: None,
        deadlock_rule: DeadlockRule::Bubble,
        trains: true,
    };
    refusal(&spec);
    assert!(matches!(run_json("{"), Err(RunError::Spec(_))));
    assert!(matches!(check("{"), Err(RunError::Spec(_))));
    assert!(matches!(run_json(r#"{"fabricc": []}"#), Err(RunError::Spec(m)) if m.contains("fabricc")));
}

#[test]
fn more_time_or_bytes_than_can_be_counted_are_refused() {
    for endpoint in [ideal(), crate::support::baseline(), crate::support::ace()] {
        let spec = all_reduce(vec![dim(4, 1_000_000, 1)], endpoint.clone(), u64::MAX / 2);
        assert!(refusal(&spec).contains("bytes; accepted"));
        let mut spec = all_reduce(vec![dim(4, 1, 1)], endpoint, 1 << 50);
        dims(&mut spec)[0].rate_bytes_per_s = 1;
        assert!(refusal(&spec).contains("days of simulated time"));
        dims(&mut spec)[0].rate_bytes_per_s = 1 << 40;
        dims(&mut spec)[0].latency_ps = u64::MAX;
        assert!(refusal(&spec).contains("days of simulated time"));
    }
}

/// FSMs that run ahead of their neighbours fill input buffers. Too small a buffer is refused; the smallest
/// that is accepted drains under every rule.
#[test]
fn the_smallest_buffers_suffice() {
    for (rule, fsms) in [(DeadlockRule::Bubble, 64), (DeadlockRule::Dateline, 16), (DeadlockRule::None, 256)] {
        let mut spec = with_ace(|a| a.fsms = fsms);
        let network = |buffer| NetworkSpec::Packet {
            packet_bytes: 256,
            buffer_packets: Some(buffer),
            deadlock_rule: rule,
            trains: true,
        };
        spec.network = network(2);
        let smallest = accepted(&refusal(&spec)) as u32 / 256;
        spec.network = network(smallest - 1);
        refusal(&spec);
        spec.network = network(smallest);
        run(&spec);
        spec.network = packet(true);
        run(&spec);
    }
}
