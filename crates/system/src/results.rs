//! What a simulation returns.

use crate::facts::{self, Values};
use serde::Serialize;

/// The headline numbers of a run. Per-NPU numbers are those of the slowest NPU (all are equal on a
/// symmetric fabric), named in `npu`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// NPUs of the machine.
    pub npus: u32,
    /// NPUs that were simulated, each standing for those that are like it.
    pub simulated_npus: u32,
    /// Why the run was not folded, if it was not.
    pub unfolded: Option<String>,
    /// The NPU that per-NPU numbers are taken from.
    pub npu: u32,
    /// End of the run.
    pub total_ps: u64,
    /// Training iterations (0 for a collective).
    pub iterations: u32,
    /// When the main stream ended each iteration, on the last NPU to do so.
    pub iteration_ends_ps: Vec<u64>,
    /// What one more iteration costs, as far as the run tells, or a longer one if that was asked for.
    pub steady: Option<Steady>,
    /// Time the main stream of the compute engine was busy.
    pub compute_ps: u64,
    /// What that would have been had nothing run beside it. The same unless contention is dynamic.
    pub compute_alone_ps: u64,
    /// Time the main stream waited for communication.
    pub exposed_ps: u64,
    /// Time from the end of the main stream to the end of a training run, which waits for collectives and background
    /// compute if it is to drain. Total time = compute + exposed + background wait + this.
    pub drain_ps: u64,
    /// Time the background stream was busy.
    pub background_compute_ps: u64,
    /// What that would have been had nothing run beside it.
    pub background_compute_alone_ps: u64,
    /// Time the main stream waited for the background stream.
    pub background_wait_ps: u64,
    /// The same by the collective that ended the wait.
    pub exposed_by: Vec<Exposed>,
    /// Forward passes and back-propagations of the first NPU's main stream, in the order of time.
    pub passes: Vec<PassSummary>,
    /// Phases times steps of one chunk.
    pub steps: u32,
    /// Chunks per NPU.
    pub chunks: u64,
    /// The network.
    pub network: NetworkSummary,
    /// The endpoint.
    pub endpoint: EndpointSummary,
    /// Events handled.
    pub events: u64,
    /// What no schedule of a single collective can beat, and why.
    pub lower_bound_ps: u64,
    /// What forces the bound.
    pub lower_bound_by: String,
    /// Of switch offload: what is done in switches, and what is left to the NPUs.
    pub offloaded: Option<String>,
    /// Remarks on the result, for people.
    pub warnings: Vec<String>,
}

/// What one more iteration costs ([`crate::steady`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// Time that one more iteration takes.
    pub iteration_ps: f64,
    /// Iterations that were simulated to know it.
    pub iterations: u32,
    /// Whether the last iterations took equally long; if not, `iteration_ps` is a mean.
    pub settled: bool,
}

/// A pass of an iteration on the first NPU.
#[derive(Clone, Debug, Serialize)]
pub struct PassSummary {
    /// The iteration.
    pub iteration: u32,
    /// `forward` or `backward`.
    pub pass: &'static str,
    /// When its first kernel began.
    pub from_ps: u64,
    /// When its last kernel ended.
    pub to_ps: u64,
    /// Time in between in which an ACE held at least one chunk, to a window's resolution; 0 for other endpoints.
    pub engine_active_ps: u64,
}

/// Exposed time of one collective.
#[derive(Clone, Debug, Serialize)]
pub struct Exposed {
    /// Layer whose collective it is.
    pub layer: String,
    /// Pass that issued it: `weight_grad` etc.
    pub pass: String,
    /// Exposed time over all iterations.
    pub exposed_ps: u64,
}

/// Totals of the network.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NetworkSummary {
    /// Bytes over all links (a byte over two hops counts twice).
    pub link_bytes: u128,
    /// Bytes injected by all NPUs, what endpoints forward included, and by switches that add and copy.
    pub injected_bytes: u64,
    /// Bytes delivered to all NPUs.
    pub delivered_bytes: u64,
    /// Bytes that were lost on their way.
    pub dropped_bytes: u64,
    /// Bytes that were sent again.
    pub resent_bytes: u64,
    /// Links (directed).
    pub links: u64,
    /// Busy time of all links over (links x total time).
    pub mean_link_utilisation: f64,
    /// Packets times hops.
    pub packet_hops: u64,
}

/// Totals of the endpoints.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EndpointSummary {
    /// Main-memory bytes read for communication, all NPUs.
    pub memory_read_bytes: u64,
    /// Main-memory bytes written for communication, all NPUs.
    pub memory_write_bytes: u64,
    /// Bytes loaded into the SRAM of an ACE, all NPUs.
    pub loaded_bytes: u64,
    /// Bytes that NPUs sent of their own, all NPUs.
    pub sent_bytes: u64,
    /// Bytes sent by switches that add and copy, all of them.
    pub sent_by_switches_bytes: u64,
    /// Bytes that endpoints forwarded for others, once per hop after the first, all NPUs.
    pub transit_bytes: u64,
    /// Per resource: how long it was busy and how long work waited for it.
    pub resources: Vec<ResourceSummary>,
    /// Partitions of the ACE SRAM, or the memory of a switch.
    pub partitions: Vec<PartitionSummary>,
    /// Most FSMs of one NPU that were busy at once, and how many there are.
    pub fsm_peak: u32,
    /// FSMs of an NPU.
    pub fsms: u32,
    /// FSMs of an ACE by phase; of other endpoints none.
    pub phases: Vec<PhaseFsmsSummary>,
    /// Where chunks and messages spend their time.
    pub breakdown: Breakdown,
}

/// Where chunks and messages spend their time, summed over all NPUs (first version of the ACE paper, Fig. 11).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Breakdown {
    /// Chunks that were started.
    pub chunks: u64,
    /// Time from the issue of their collective to their start.
    pub chunk_queue_ps: u128,
    /// Messages handed to the network.
    pub messages: u64,
    /// Time that transfers waited for the buses to memory and to the AFI.
    pub bus_queue_ps: u128,
    /// Time that transfers took to cross them.
    pub bus_transfer_ps: u128,
    /// Time from handing messages to the network to their arrival.
    pub network_ps: u128,
}

/// A resource of the endpoint, over all NPUs.
#[derive(Clone, Debug, Serialize)]
pub struct ResourceSummary {
    /// Its name, e.g. `memory`, `sm`, `bus_tx`, `sram_read`, `alu`, `port_buffer`, `fsm`.
    pub resource: String,
    /// Servers of one NPU.
    pub servers: u32,
    /// Busy time, summed over servers and NPUs.
    pub busy_ps: u128,
    /// Time that work waited for it, summed.
    pub wait_ps: u128,
    /// Time from the beginning of work to its result, summed; of a bus with latency more than its busy time.
    pub transfer_ps: u128,
    /// Pieces of work it served.
    pub served: u64,
}

/// A partition of the ACE SRAM, over all NPUs.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionSummary {
    /// The phase it feeds, or `terminal`.
    pub phase: String,
    /// Its size.
    pub capacity_bytes: u64,
    /// The most that one NPU ever held in it.
    pub peak_bytes: u64,
}

/// The FSMs of an ACE that run a phase. Kinds of collectives share those of their phases.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseFsmsSummary {
    /// The phase.
    pub phase: String,
    /// FSMs of an NPU that can run it.
    pub fsms: u32,
    /// The most of one NPU that were ever busy with it at once.
    pub fsm_peak: u32,
}

/// A named column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers: times in ps, bytes, counts.
    Int(Vec<i64>),
    /// The same where a row may have none: the time of what never happened.
    OptionalInt(Vec<Option<i64>>),
    /// Shares and rates.
    Float(Vec<f64>),
    /// Names.
    Text(Vec<String>),
}

impl Column {
    fn values(&self) -> Values {
        match self {
            Column::Int(_) => Values::Int,
            Column::OptionalInt(_) => Values::OptionalInt,
            Column::Float(_) => Values::Float,
            Column::Text(_) => Values::Text,
        }
    }
}

/// A table: columns of equal length, each of which is declared ([`crate::facts::TABLES`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: Vec<(&'static str, Column)>,
}

impl Table {
    /// A declared table.
    ///
    /// # Panics
    /// If its columns are not those that are declared, in their order, with values of their kind.
    pub fn new(name: &str, columns: Vec<(&'static str, Column)>) -> Table {
        let declared = facts::table(name);
        let mut left = columns.iter().peekable();
        for fact in declared.columns {
            let is_next = left.next_if(|(name, column)| *name == fact.name && column.values() == fact.values).is_some();
            assert!(is_next || fact.optional, "table {name} has no column {}, which is declared", fact.name);
        }
        assert!(left.next().is_none(), "table {name} has columns that are not declared");
        Table { name: declared.name, columns }
    }
}

/// Everything a run returns.
#[derive(Clone, Debug)]
pub struct Results {
    /// The headline.
    pub summary: Summary,
    /// The tables, documented in [`crate::tables`].
    pub tables: Vec<Table>,
}
