//! What the backend has counted, as tables of a run.

use super::Ethernet;
use syncline_core::table::{Declaration, Declared, Table};
use syncline_core::{NodeId, Ps};
use syncline_topology::{Fabric, all_links};

syncline_core::table! {
    /// One row: what the transport did, over all connections.
    "transport" => Totals {
        /// Connections that were used.
        connections: Vec<i64> as Count,
        /// Segments that were sent, those that were sent again included.
        segments_sent: Vec<i64> as Count,
        /// Segments that were sent again.
        retransmissions: Vec<i64> as Count,
        /// Bytes of payload that were sent again.
        retransmitted_bytes: Vec<i64> as Bytes,
        /// Retransmission timers that expired.
        rto_events: Vec<i64> as Count,
        /// Connections on which one did.
        flows_with_rto: Vec<i64> as Count,
        /// Fast recoveries that began.
        fast_recoveries: Vec<i64> as Count,
        /// Frames that found no room, acknowledgements included.
        drops: Vec<i64> as Count,
        /// Frames that switches marked.
        marks: Vec<i64> as Count,
        /// Frames that outputs of switches took, acknowledgements included.
        packets_forwarded: Vec<i64> as Count,
        /// Bytes on the wire of what outputs of switches took.
        forwarded_bytes: Vec<i64> as Bytes,
        /// The longest queue at any output of a switch.
        max_queue_bytes: Vec<i64> as Bytes,
        /// Round trips that were measured.
        rtt_samples: Vec<i64> as Count,
        /// The time that half of them did not exceed; null if there are none.
        rtt_p50_ps: Vec<Option<i64>> as Picoseconds,
        /// The time that 99 of 100 did not exceed; null if there are none.
        rtt_p99_ps: Vec<Option<i64>> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every link: the queue before it.
    "queues" => Queues {
        /// The node at whose output the queue is.
        node: Vec<String> as Text,
        /// The output port of that node.
        port: Vec<String> as Text,
        /// Frames that the queue took.
        frames: Vec<i64> as Count,
        /// Bytes on the wire that the queue took.
        sent_bytes: Vec<i64> as Bytes,
        /// Frames that found no room, or got lost behind the queue.
        drops: Vec<i64> as Count,
        /// Bytes on the wire of frames that were dropped or lost.
        dropped_bytes: Vec<i64> as Bytes,
        /// Frames that were marked.
        marks: Vec<i64> as Count,
        /// The longest that the queue was.
        peak_bytes: Vec<i64> as Bytes,
        /// Time that a byte waited, on average.
        mean_wait_ps: Vec<i64> as Picoseconds,
    }
}

/// The tables.
pub fn all() -> Vec<&'static Declaration> {
    vec![Totals::DECLARATION, Queues::DECLARATION]
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Fills them.
pub fn fill<F: Fabric>(net: &Ethernet<F>) -> Vec<Table> {
    vec![totals(net).into_table(), queues(net).into_table()]
}

fn totals<F: Fabric>(net: &Ethernet<F>) -> Totals {
    let switches = || net.links[net.first_switch_link as usize..].iter().map(|link| link.counts);
    let percentile = |percent| net.trips.percentile(percent).map(|Ps(time)| number(time));
    let all = || net.links.iter().map(|link| link.counts);
    Totals {
        connections: vec![net.lines.len() as i64],
        segments_sent: vec![number(net.counts.segments)],
        retransmissions: vec![number(net.counts.resent)],
        retransmitted_bytes: vec![number(net.counts.resent_bytes)],
        rto_events: vec![number(net.counts.timeouts)],
        flows_with_rto: vec![number(net.counts.connections_with_timeout)],
        fast_recoveries: vec![number(net.counts.recoveries)],
        drops: vec![number(all().map(|c| c.drops).sum())],
        marks: vec![number(all().map(|c| c.marks).sum())],
        packets_forwarded: vec![number(switches().map(|c| c.frames).sum())],
        forwarded_bytes: vec![number(switches().map(|c| c.bytes).sum())],
        max_queue_bytes: vec![number(switches().map(|c| c.peak).max().unwrap_or(0))],
        rtt_samples: vec![number(net.trips.total())],
        rtt_p50_ps: vec![percentile(50)],
        rtt_p99_ps: vec![percentile(99)],
    }
}

fn queues<F: Fabric>(net: &Ethernet<F>) -> Queues {
    let mut table = Queues::default();
    for ((node, port), link) in all_links(&net.fabric).zip(&net.links) {
        let counts = link.counts;
        table.node.push(net.fabric.node_name(NodeId(node.0)));
        table.port.push(net.fabric.port_name(node, port));
        table.frames.push(number(counts.frames));
        table.sent_bytes.push(number(counts.bytes));
        table.drops.push(number(counts.drops));
        table.dropped_bytes.push(number(counts.dropped_bytes));
        table.marks.push(number(counts.marks));
        table.peak_bytes.push(number(counts.peak));
        let mean = counts.waited.checked_div(counts.bytes.into()).unwrap_or(0);
        table.mean_wait_ps.push(i64::try_from(mean).unwrap_or(i64::MAX));
    }
    table
}
