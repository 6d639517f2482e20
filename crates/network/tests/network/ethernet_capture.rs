//! What leaves by captured ports of Ethernet, in files.

use super::ethernet::{GBPS, Outcome, RDMA, US, incast, roce, run, star};
use syncline_core::table::Values;
use syncline_core::{NodeId, PortId, Ps, Rate};
use syncline_network::ethernet::config::EthernetConfig;
use syncline_network::ethernet::link::Condition;
use syncline_network::ethernet::roce::RoceConfig;
use syncline_network::ethernet::tcp::TcpConfig;

/// A record: when in nanoseconds, and what is kept of a frame of so many bytes.
struct Record {
    at: u64,
    len: u32,
    kept: Vec<u8>,
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The records of each file, in the order of links.
fn files(outcome: &Outcome) -> Vec<Vec<Record>> {
    let Some(Values::Data(files)) = outcome.tables["captures"].values("file") else { panic!("files") };
    files
        .iter()
        .map(|file| {
            assert_eq!((word(file), word(&file[20..])), (0xa1b2_3c4d, 1));
            let (mut rest, mut records) = (&file[24..], Vec::new());
            while !rest.is_empty() {
                let [seconds, nanoseconds, kept, len] = [0, 4, 8, 12].map(|at| word(&rest[at..]));
                let at = u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds);
                let frame;
                (frame, rest) = rest[16..].split_at(kept as usize);
                records.push(Record { at, len, kept: frame.to_vec() });
            }
            records
        })
        .collect()
}

fn tcp(buffer: u64) -> EthernetConfig {
    EthernetConfig { tcp: TcpConfig::RFC, buffer, ..EthernetConfig::NS3 }
}

/// The bytes of the connection that a segment of TCP has: the number of the first one, and how many.
fn segment(record: &Record) -> (u32, u32) {
    let seq = u32::from_be_bytes([record.kept[38], record.kept[39], record.kept[40], record.kept[41]]);
    (seq, record.len - 54)
}

#[test]
fn captures_change_nothing_and_have_what_has_left() {
    let switch = NodeId(4);
    for config in [tcp(20_000), EthernetConfig { buffer: 20_000, ..roce(RoceConfig::DEFAULT, RDMA) }] {
        let captured = vec![(NodeId(1), PortId(0)), (switch, PortId(0)), (switch, PortId(1))];
        let plain = run(star(4, 100, 500_000), config.clone(), &incast(4, 200_000), &[]);
        let recorded = run(star(4, 100, 500_000), EthernetConfig { captured, ..config }, &incast(4, 200_000), &[]);
        assert_eq!(plain.arrivals, recorded.arrivals);
        assert_eq!(plain.tables["queues"], recorded.tables["queues"]);
        let Some(Values::Int(frames)) = recorded.tables["queues"].values("frames") else { panic!("counts") };
        let files = files(&recorded);
        // Everything has left when nothing is under way any more; what found no room is in no file.
        let counts: Vec<i64> = files.iter().map(|records| records.len() as i64).collect();
        assert_eq!(counts, [frames[1], frames[4], frames[5]]);
        assert!(files.iter().all(|records| records.is_sorted_by_key(|record| record.at)));
    }
}

/// Each byte of a connection leaves its host, and what was dropped leaves it again.
#[test]
fn all_bytes_of_a_connection_are_there() {
    let captured = vec![(NodeId(1), PortId(0))];
    let outcome = run(star(6, 100, 500_000), EthernetConfig { captured, ..tcp(20_000) }, &incast(6, 500_000), &[]);
    let [records] = &files(&outcome)[..] else { panic!("a file") };
    let mut seen: Vec<(u32, u32)> = records.iter().map(segment).collect();
    let again = seen.iter().map(|segment| u64::from(segment.1)).sum::<u64>() - 500_000;
    seen.sort_unstable();
    let end = seen.iter().fold(1, |end, &(seq, len)| {
        assert!(seq <= end, "a hole at {end}");
        end.max(seq + len)
    });
    assert_eq!(end, 500_001);
    assert!(again > 0 && outcome.total("transport", "drops") > 0);
}

/// The first bit of a frame leaves when that of the one before it has left completely: 1502 B at 100 Gb/s take 120.16 ns.
#[test]
fn records_are_of_the_time_at_which_frames_begin_to_leave() {
    let captured = vec![(NodeId(0), PortId(0)), (NodeId(2), PortId(1))];
    let outcome =
        run(star(2, 100, 500_000), EthernetConfig { captured, ..tcp(1 << 20) }, &[(0, 1, 2 * 1448, 3 * US)], &[]);
    let files = files(&outcome);
    let times: Vec<Vec<u64>> = files.iter().map(|records| records.iter().map(|record| record.at).collect()).collect();
    assert_eq!(times, [[3000, 3120], [3620, 3740]]);
}

/// A link that goes down loses what is on the wire, which has left; what waits leaves when it is up again.
#[test]
fn what_a_link_loses_has_left() {
    let captured = vec![(NodeId(0), PortId(0))];
    let down = Condition { rate: None, latency: Ps(500_000), loss_millionths: 0 };
    let up = Condition { rate: Rate::new(100 * GBPS), ..down };
    let changes = [(200_000, 0, 0, down), (10 * US, 0, 0, up)];
    let outcome =
        run(star(2, 100, 500_000), EthernetConfig { captured, ..tcp(1 << 20) }, &[(0, 1, 5 * 1448, 0)], &changes);
    let [records] = &files(&outcome)[..] else { panic!("a file") };
    let begun: Vec<(u64, u32)> = records.iter().take(3).map(|record| (record.at, segment(record).0)).collect();
    assert_eq!(begun, [(0, 1), (120, 1449), (10_000, 2897)]);
    assert!(records.iter().skip(3).any(|record| segment(record).0 == 1), "what got lost is sent again");
}
