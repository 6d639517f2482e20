//! What the backend has counted, as tables of a run.

use super::Ethernet;
use super::background::Background;
use super::clock::NEVER;
use super::link::Link;
use super::rdma::Roce;
use super::round_trips::RoundTrips;
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
        /// Time in which no frame was on any link until a retransmission timer expired.
        rto_stalled_ps: Vec<i64> as Picoseconds,
        /// Connections on which one did.
        flows_with_rto: Vec<i64> as Count,
        /// Fast recoveries that began.
        fast_recoveries: Vec<i64> as Count,
        /// Frames that found no room, acknowledgements included.
        drops: Vec<i64> as Count,
        /// Frames that switches marked.
        marks: Vec<i64> as Count,
        /// Notifications of marks by receivers with DCQCN.
        notifications: Vec<i64> as Count,
        /// Requests of receivers with RoCE for frames that they miss.
        naks: Vec<i64> as Count,
        /// Frames that receivers with RoCE threw away because earlier ones were missing.
        discards: Vec<i64> as Count,
        /// How often a link was paused by the switch at its end.
        pauses: Vec<i64> as Count,
        /// How long links were paused, all of them together.
        paused_ps: Vec<i64> as Picoseconds,
        /// Frames that outputs of switches took, acknowledgements included.
        packets_forwarded: Vec<i64> as Count,
        /// Bytes on the wire of what outputs of switches took.
        forwarded_bytes: Vec<i64> as Bytes,
        /// The longest queue at any output of a switch.
        max_queue_bytes: Vec<i64> as Bytes,
        /// Flows beside the run that have begun.
        background_flows: Vec<i64> as Count,
        /// Flows beside the run that have arrived completely.
        background_finished: Vec<i64> as Count,
        /// Flows beside the run whose connection was given up.
        background_failed: Vec<i64> as Count,
        /// Flows beside the run that would have been more than a run may have.
        background_left_out: Vec<i64> as Count,
        /// Payload of all flows beside the run that have begun.
        background_bytes: Vec<i64> as Bytes,
        /// Payload of flows beside the run that have arrived completely.
        background_finished_bytes: Vec<i64> as Bytes,
        /// Round trips that were measured.
        rtt_samples: Vec<i64> as Count,
        /// The time that half of them did not exceed; null if there are none.
        rtt_p50_ps: Vec<Option<i64>> as Picoseconds,
        /// The time that 99 of 100 did not exceed; null if there are none.
        rtt_p99_ps: Vec<Option<i64>> as Picoseconds,
        /// The median over connections of their mean round trips, each of the first that was measured in every millisecond.
        flow_rtt_p50_ps: Vec<Option<i64>> as Picoseconds,
        /// The 99th percentile of these.
        flow_rtt_p99_ps: Vec<Option<i64>> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every link: the queue before it.
    "queues" => Queues {
        /// The node at whose output the queue is.
        node: Vec<String> as Text,
        /// The output port of that node.
        port: Vec<String> as Text,
        /// The node that it leads to.
        to: Vec<String> as Text,
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
        /// How long the queue was on average.
        mean_bytes: Vec<i64> as Bytes,
        /// Time that a byte waited, on average.
        mean_wait_ps: Vec<i64> as Picoseconds,
        /// How often the other end of the link asked for a pause.
        pauses: Vec<i64> as Count,
        /// How long it was paused.
        paused_ps: Vec<i64> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every window of equal length: what happened in it.
    "congestion" => Congestion {
        /// When it begins.
        start_ps: Vec<i64> as Picoseconds,
        /// The most bytes that waited at an output of a switch.
        peak_queue_bytes: Vec<i64> as Bytes,
        /// Frames that were dropped or lost.
        drops: Vec<i64> as Count,
        /// Retransmission timers that expired.
        timeouts: Vec<i64> as Count,
        /// Pauses that switches asked for.
        pauses: Vec<i64> as Count,
    }
}

syncline_core::table! {
    /// A row for every length of time that messages took from being written to their arrival, to within one per cent.
    "completions" => Completions {
        /// Whether they are of the run, or flows beside it.
        kind: Vec<String> as Text,
        /// How long it is.
        time_ps: Vec<i64> as Picoseconds,
        /// Messages that took so long.
        messages: Vec<i64> as Count,
    }
}

syncline_core::table! {
    /// A row for every slowdown of messages, to within one per cent.
    "slowdowns" => Slowdowns {
        /// Whether messages are of the run, or flows beside it.
        kind: Vec<String> as Text,
        /// How many times as long they took as alone, with no window that limits them.
        slowdown: Vec<f64> as Ratio,
        /// Messages of which that is so.
        messages: Vec<i64> as Count,
    }
}

syncline_core::table! {
    /// A row for each of the first connections that were used, those of flows beside the run last.
    "flows" => Flows {
        /// Whether it is a connection of the run, or that of a flow beside it.
        kind: Vec<String> as Text,
        /// The node that sends.
        src: Vec<String> as Text,
        /// The node that receives.
        dst: Vec<String> as Text,
        /// Bytes that have arrived in order.
        bytes: Vec<i64> as Bytes,
        /// When it was first written to.
        began_ps: Vec<i64> as Picoseconds,
        /// When its last message was complete; null if none was.
        ended_ps: Vec<Option<i64>> as Picoseconds,
        /// How long a flow beside the run takes alone with no window that limits it; null of other connections.
        alone_ps: Vec<Option<i64>> as Picoseconds,
        /// Segments that were sent again.
        retransmissions: Vec<i64> as Count,
        /// Retransmission timers that expired.
        timeouts: Vec<i64> as Count,
        /// The mean of its round trips, of which the first in each millisecond counts; null if none was measured.
        mean_rtt_ps: Vec<Option<i64>> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every acknowledgement that a watched connection has got, or for every second, fourth and so on of them.
    "watched" => Watched {
        /// The node that sends.
        src: Vec<String> as Text,
        /// The node that receives.
        dst: Vec<String> as Text,
        /// Number of the connection among all.
        connection: Vec<i64> as Index,
        /// When the acknowledgement came.
        time_ps: Vec<i64> as Picoseconds,
        /// The congestion window of TCP.
        cwnd_bytes: Vec<Option<i64>> as Bytes,
        /// The slow-start threshold of TCP; null before there is one.
        ssthresh_bytes: Vec<Option<i64>> as Bytes,
        /// The rate in bytes per second that DCQCN sets.
        rate_bytes_per_s: Vec<Option<i64>> as Count,
        /// Bytes that are not acknowledged.
        flight_bytes: Vec<i64> as Bytes,
        /// The round trip that was measured; null if none was.
        rtt_ps: Vec<Option<i64>> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every port of which what left was recorded.
    "captures" => CapturedPorts {
        /// The node whose port it is, as experiments name it.
        node: Vec<String> as Text,
        /// The output port of that node.
        port: Vec<String> as Text,
        /// Frames that are in the file.
        frames: Vec<i64> as Count,
        /// Frames that left when the file was full.
        left_out: Vec<i64> as Count,
        /// What left in the format of libpcap with nanoseconds.
        file: Vec<Vec<u8>> as Data,
    }
}

/// What is of the run, and what flows beside it.
const OF_RUN: &str = "job";
const BESIDE: &str = "background";

/// The most connections of the table of flows.
const MOST_FLOWS: usize = 1 << 16;

/// The tables.
pub fn all() -> Vec<&'static Declaration> {
    vec![
        Totals::DECLARATION,
        Queues::DECLARATION,
        Congestion::DECLARATION,
        Completions::DECLARATION,
        Slowdowns::DECLARATION,
        Flows::DECLARATION,
        Watched::DECLARATION,
        CapturedPorts::DECLARATION,
    ]
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// For how many NPUs that send one stands on a folded fabric: for the same number each.
fn copies<F: Fabric>(net: &Ethernet<F>) -> u64 {
    net.connections.first().map_or(1, |connection| net.fabric.multiplicity(connection.src))
}

/// Fills them.
pub fn fill<F: Fabric>(net: &Ethernet<F>) -> Vec<Table> {
    let mut completions = Completions::default();
    let mut slowdowns = Slowdowns::default();
    let mut add = |kind: &str, times: &RoundTrips, thousandths: &RoundTrips| {
        for (time, messages) in times.classes() {
            completions.kind.push(kind.into());
            completions.time_ps.push(number(time));
            completions.messages.push(number(messages));
        }
        for (thousandths, messages) in thousandths.classes() {
            slowdowns.kind.push(kind.into());
            slowdowns.slowdown.push(thousandths as f64 / 1000.0);
            slowdowns.messages.push(number(messages));
        }
    };
    let copies = copies(net);
    add(OF_RUN, &net.completions.times(copies), &net.slowdowns.times(copies));
    if let Some(background) = &net.background {
        add(BESIDE, &background.completions, &background.slowdowns);
    }
    let tables = [totals(net).into_table(), queues(net).into_table(), congestion(net).into_table()];
    let of_flows =
        [completions.into_table(), slowdowns.into_table(), flows(net).into_table(), watched(net).into_table()];
    tables.into_iter().chain(of_flows).chain([captures(net).into_table()]).collect()
}

fn captures<F: Fabric>(net: &Ethernet<F>) -> CapturedPorts {
    let mut table = CapturedPorts::default();
    let Some(captures) = &net.captures else { return table };
    let mut all = all_links(&net.fabric).zip(0..);
    for captured in &captures.ports {
        let Some(((node, port), _)) = all.find(|&(_, link)| link == captured.link) else { break };
        let npus = net.fabric.npus();
        let (kind, of_kind) = if node.0 < npus { ("npu", node.0) } else { ("switch", node.0 - npus) };
        table.node.push(format!("{kind} {of_kind}"));
        table.port.push(net.fabric.port_name(node, port));
        table.frames.push(number(captured.frames));
        table.left_out.push(number(captured.left_out));
        table.file.push(captured.file.clone());
    }
    table
}

fn flows<F: Fabric>(net: &Ethernet<F>) -> Flows {
    let mut table = Flows::default();
    let owners = || net.stages.iter().zip(0..).filter(|&(stage, number)| stage.owner == number);
    let of = |beside: bool| owners().map(move |(&stage, _)| (stage, beside));
    let [own, beside] =
        [false, true].map(|beside| of(beside).filter(|(stage, beside)| net.is_flow(stage.owner) == *beside));
    for (stage, is_beside) in own.chain(beside).take(MOST_FLOWS) {
        let lines = &net.lines[stage.owner as usize..=stage.last as usize];
        let last = &net.listeners[stage.last as usize];
        table.kind.push(if is_beside { BESIDE } else { OF_RUN }.into());
        table.src.push(net.fabric.node_name(net.connections[stage.owner as usize].src));
        table.dst.push(net.fabric.node_name(net.ends[stage.owner as usize].0));
        table.bytes.push(number(last.receiver.next));
        table.began_ps.push(number(lines[0].began_at));
        table.ended_ps.push((last.ended_at != NEVER).then(|| number(last.ended_at)));
        let next = net.writes.waiting(&net.messages[stage.owner as usize]).next();
        let len = next.map_or(last.receiver.next, |message| message.len.0);
        table.alone_ps.push(is_beside.then(|| number(net.alone(stage.owner, len))));
        table.retransmissions.push(lines.iter().map(|line| i64::from(line.resent)).sum());
        table.timeouts.push(lines.iter().map(|line| i64::from(line.timeouts)).sum());
        table.mean_rtt_ps.push(lines.iter().find_map(|line| line.trips.mean()).map(|Ps(time)| number(time)));
    }
    table
}

fn watched<F: Fabric>(net: &Ethernet<F>) -> Watched {
    let mut table = Watched::default();
    for (&connection, samples) in &net.samples {
        let owner = net.stages[connection as usize].owner as usize;
        for sample in samples.all() {
            table.src.push(net.fabric.node_name(net.connections[owner].src));
            table.dst.push(net.fabric.node_name(net.ends[owner].0));
            table.connection.push(i64::from(connection));
            table.time_ps.push(number(sample.at));
            table.cwnd_bytes.push(sample.cwnd.map(number));
            table.ssthresh_bytes.push(sample.ssthresh.map(number));
            table.rate_bytes_per_s.push(sample.rate.map(number));
            table.flight_bytes.push(number(sample.flight));
            table.rtt_ps.push(sample.trip.map(number));
        }
    }
    table
}

fn congestion<F: Fabric>(net: &Ethernet<F>) -> Congestion {
    let mut table = Congestion::default();
    let copies = copies(net);
    for (start, window) in net.timeline.all() {
        table.start_ps.push(number(start));
        table.peak_queue_bytes.push(number(window.peak));
        table.drops.push(number(copies * window.drops));
        table.timeouts.push(number(copies * window.timeouts));
        table.pauses.push(number(copies * window.pauses));
    }
    table
}

fn totals<F: Fabric>(net: &Ethernet<F>) -> Totals {
    let copies = copies(net);
    let switches = || net.links[net.first_switch_link as usize..].iter().map(|link| link.counts);
    let mut means = RoundTrips::default();
    net.lines.iter().filter_map(|line| line.trips.mean()).for_each(|mean| means.add(mean));
    let (means, trips) = (means.times(copies), net.trips.times(copies));
    let of_flows = |percent| means.percentile(percent).map(|Ps(time)| number(time));
    let percentile = |percent| trips.percentile(percent).map(|Ps(time)| number(time));
    let all = || net.links.iter().map(Link::exceptional);
    let ports = || net.switching.iter().flat_map(|switching| &switching.ports);
    let background =
        |value: fn(&Background) -> u64| vec![net.background.as_ref().map_or(0, |background| number(value(background)))];
    let count = |value: u64| vec![number(copies * value)];
    let roce = |value: fn(&Roce) -> u64| count(net.roce.as_ref().map_or(0, |roce| value(roce)));
    Totals {
        connections: count(net.lines.len() as u64),
        segments_sent: count(net.counts.segments),
        retransmissions: count(net.counts.resent),
        retransmitted_bytes: count(net.counts.resent_bytes),
        rto_events: count(net.counts.timeouts),
        rto_stalled_ps: vec![number(net.stalled)],
        flows_with_rto: count(net.counts.connections_with_timeout),
        fast_recoveries: count(net.counts.recoveries),
        drops: count(all().map(|c| c.drops).sum()),
        marks: count(all().map(|c| c.marks).sum()),
        notifications: roce(|roce| roce.notifications),
        naks: roce(|roce| roce.naks),
        discards: roce(|roce| roce.responders.iter().map(|responder| responder.discarded).sum()),
        pauses: count(ports().map(|port| port.pauses).sum()),
        paused_ps: count(ports().map(|port| port.paused_until(net.ended.0)).sum()),
        packets_forwarded: count(switches().map(|c| c.frames).sum()),
        forwarded_bytes: count(switches().map(|c| c.bytes).sum()),
        max_queue_bytes: vec![number(switches().map(|c| c.peak).max().unwrap_or(0))],
        background_flows: background(Background::begun),
        background_finished: background(|background| background.finished),
        background_failed: background(|background| background.failed),
        background_left_out: background(|background| background.left_out),
        background_bytes: background(|background| background.begun_bytes),
        background_finished_bytes: background(|background| background.finished_bytes),
        rtt_samples: vec![number(trips.total())],
        rtt_p50_ps: vec![percentile(50)],
        rtt_p99_ps: vec![percentile(99)],
        flow_rtt_p50_ps: vec![of_flows(50)],
        flow_rtt_p99_ps: vec![of_flows(99)],
    }
}

fn queues<F: Fabric>(net: &Ethernet<F>) -> Queues {
    let mut table = Queues::default();
    for (at, ((node, port), link)) in all_links(&net.fabric).zip(&net.links).enumerate() {
        let (counts, exceptions) = (link.counts, link.exceptional());
        table.node.push(net.fabric.node_name(NodeId(node.0)));
        table.port.push(net.fabric.port_name(node, port));
        table.to.push(net.fabric.node_name(net.fabric.next(node, port).0));
        table.frames.push(number(counts.frames));
        table.sent_bytes.push(number(counts.bytes));
        table.drops.push(number(exceptions.drops));
        table.dropped_bytes.push(number(exceptions.dropped_bytes));
        table.marks.push(number(exceptions.marks));
        table.peak_bytes.push(number(counts.peak));
        let long = counts.waited.checked_div(net.ended.0.into()).unwrap_or(0);
        table.mean_bytes.push(i64::try_from(long).unwrap_or(i64::MAX));
        let served = net.switching.as_ref().map(|switching| &switching.ports[at]);
        table.pauses.push(served.map_or(0, |port| number(port.pauses)));
        table.paused_ps.push(served.map_or(0, |port| number(port.paused_until(net.ended.0))));
        let mean = counts.waited.checked_div(counts.bytes.into()).unwrap_or(0);
        table.mean_wait_ps.push(i64::try_from(mean).unwrap_or(i64::MAX));
    }
    table
}
