//! What a simulation returns. What each field of the summary says is declared here once; columns of tables are declared
//! where they are filled ([`crate::tables`]).

use serde::Serialize;
use syncline_core::table::Table;

syncline_core::record! {
    /// The headline numbers of a run. Per-NPU numbers are those of the slowest NPU (all are equal on a
    /// symmetric fabric), named in `npu`.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct Summary {
        /// NPUs of the machine.
        pub npus: u32 as Count,
        /// NPUs that were simulated, each of which represents those that are like it.
        pub simulated_npus: u32 as Count,
        /// Reason why the run was not folded, if it was not.
        pub unfolded: Option<String> as Text,
        /// Number of the slowest NPU, from which the numbers of a single NPU are taken.
        pub npu: u32 as Index,
        /// Length of the run.
        pub total_ps: u64 as Picoseconds,
        /// Training iterations; 0 for a collective on its own.
        pub iterations: u32 as Count,
        /// Times at which the main stream ended the iterations, each on the last NPU to do so.
        pub iteration_ends_ps: Vec<u64> as Picoseconds,
        /// What one more iteration costs, from this run or, if that was requested, from a longer one.
        pub steady: Option<Steady> as Record,
        /// Time that the main stream of the compute engine was busy, over all iterations.
        pub compute_ps: u64 as Picoseconds,
        /// Time that the main stream would have been busy with nothing beside it; less only where contention is dynamic.
        pub compute_alone_ps: u64 as Picoseconds,
        /// Time that the main stream of the compute engine waited for communication, over all iterations.
        pub exposed_ps: u64 as Picoseconds,
        /// Time from the end of the main stream to the end of a training run with tail drain, which waits for collectives
        /// and background compute. Compute, exposed communication, bubbles, waits for the background and this add up to
        /// the total, but for the time before the NPU began.
        pub drain_ps: u64 as Picoseconds,
        /// Time that the background stream of the compute engine was busy, over all iterations.
        pub background_compute_ps: u64 as Picoseconds,
        /// Time that the background stream would have been busy with nothing beside it.
        pub background_compute_alone_ps: u64 as Picoseconds,
        /// Time that the main stream waited for the background stream, over all iterations.
        pub background_wait_ps: u64 as Picoseconds,
        /// Time that the main stream waited for messages of NPUs of other classes, over all iterations.
        pub bubble_ps: u64 as Picoseconds,
        /// What the NPUs of each class did, if there are several classes; the slowest of each stands for it.
        pub classes: Vec<ClassSummary> as Record,
        /// Exposed communication by the collective that ended the wait.
        pub exposed_by: Vec<Exposed> as Record,
        /// Forward passes and back-propagations of the first NPU's main stream, in the order of time.
        pub passes: Vec<PassSummary> as Record,
        /// Steps of a chunk, over all of its phases.
        pub steps: u32 as Count,
        /// Chunks of all collectives of an NPU.
        pub chunks: u64 as Count,
        /// Totals of the network.
        pub network: NetworkSummary as Record,
        /// Totals of the endpoints.
        pub endpoint: EndpointSummary as Record,
        /// Events that the engine handled.
        pub events: u64 as Count,
        /// Time that no schedule of a single collective can beat.
        pub lower_bound_ps: u64 as Picoseconds,
        /// Reason why no schedule can be faster than the lower bound.
        pub lower_bound_by: String as Text,
        /// What switches do with switch offload, and what is left to the NPUs.
        pub offloaded: Option<String> as Text,
        /// Remarks on the result, for people.
        pub warnings: Vec<String> as Text,
    }
}

syncline_core::record! {
    /// What one more iteration costs ([`crate::steady`]).
    #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
    pub struct Steady {
        /// Time that one more iteration takes.
        pub iteration_ps: f64 as Picoseconds,
        /// Iterations that were simulated to know it.
        pub iterations: u32 as Count,
        /// Whether the last iterations took equally long; if not, the time of one more is a mean.
        pub settled: bool as Truth,
    }
}

syncline_core::record! {
    /// What the NPUs of a class did.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct ClassSummary {
        /// Name of the class.
        pub name: String as Text,
        /// NPUs of the class.
        pub npus: u64 as Count,
        /// Number of the NPU of the class that ended its main stream last, from which the times are taken.
        pub npu: u32 as Index,
        /// Length of the run, from the time when the NPU began.
        pub total_ps: u64 as Picoseconds,
        /// Time that the main stream was busy.
        pub compute_ps: u64 as Picoseconds,
        /// Time that the main stream waited for collectives, and for messages of its own class.
        pub exposed_ps: u64 as Picoseconds,
        /// Time that the main stream waited for messages of other classes.
        pub bubble_ps: u64 as Picoseconds,
        /// Time that the main stream waited for other streams.
        pub background_wait_ps: u64 as Picoseconds,
        /// Time from the end of the main stream to the end of the run. The times before add up to the length with this.
        pub drain_ps: u64 as Picoseconds,
    }
}

syncline_core::record! {
    /// A pass of an iteration on the first NPU.
    #[derive(Clone, Debug, Serialize)]
    pub struct PassSummary {
        /// Number of the iteration.
        pub iteration: u32 as Index,
        /// Direction of the pass: forward or backward.
        pub pass: &'static str as Text,
        /// Time at which the first kernel of the pass began.
        pub from_ps: u64 as Picoseconds,
        /// Time at which the last kernel of the pass ended.
        pub to_ps: u64 as Picoseconds,
        /// Time of the pass in which an ACE held a chunk, to a window's resolution; 0 for other endpoints.
        pub engine_active_ps: u64 as Picoseconds,
    }
}

syncline_core::record! {
    /// Exposed time of one collective.
    #[derive(Clone, Debug, Serialize)]
    pub struct Exposed {
        /// Layer to which the collective belongs.
        pub layer: String as Text,
        /// Pass that issued the collective.
        pub pass: String as Text,
        /// Time that the main stream waited for the collective, over all iterations.
        pub exposed_ps: u64 as Picoseconds,
    }
}

syncline_core::record! {
    /// Totals of the network.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct NetworkSummary {
        /// Payload on all links, counted once for each link that it crosses, on the backend ethernet with headers and
        /// acknowledgements.
        pub link_bytes: u128 as Bytes,
        /// Bytes that NPUs, and switches that reduce and copy, put into the network; what endpoints forward is included, and
        /// with prices of a model of software what its protocols add.
        pub injected_bytes: u64 as Bytes,
        /// Injected bytes that were delivered.
        pub delivered_bytes: u64 as Bytes,
        /// Payload that was lost on its way.
        pub dropped_bytes: u64 as Bytes,
        /// Payload that was sent again.
        pub resent_bytes: u64 as Bytes,
        /// Directed links of the machine.
        pub links: u64 as Count,
        /// Share of the run in which links were busy, the mean of all links.
        pub mean_link_utilisation: f64 as Share,
        /// Packets on all links, counted once for each link that they cross; messages if the backend has no packets.
        pub packet_hops: u64 as Count,
    }
}

syncline_core::record! {
    /// Totals of the endpoints.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct EndpointSummary {
        /// Main-memory bytes that communication read, over all NPUs.
        pub memory_read_bytes: u64 as Bytes,
        /// Main-memory bytes that communication wrote, over all NPUs.
        pub memory_write_bytes: u64 as Bytes,
        /// Data loaded from main memory into the SRAM of ACEs, over all NPUs.
        pub loaded_bytes: u64 as Bytes,
        /// Payload of the job in the messages that NPUs sent of their own, over all NPUs; not what they forward for others, and
        /// not what headers and protocols add.
        pub sent_bytes: u64 as Bytes,
        /// Payload that switches sent as sums and copies, over all switches that reduce.
        pub sent_by_switches_bytes: u64 as Bytes,
        /// Payload that endpoints forwarded for others, once for each link after the first, over all NPUs.
        pub transit_bytes: u64 as Bytes,
        /// Resources of the endpoint: how long each was busy, and how long work waited for it.
        pub resources: Vec<ResourceSummary> as Record,
        /// Partitions of an ACE's SRAM, or the memory of a switch that reduces.
        pub partitions: Vec<PartitionSummary> as Record,
        /// Most state machines of one NPU's ACE that were busy at once.
        pub fsm_peak: u32 as Count,
        /// State machines of an ACE; 0 for other endpoints.
        pub fsms: u32 as Count,
        /// State machines of an ACE by phase; none for other endpoints.
        pub phases: Vec<PhaseFsmsSummary> as Record,
        /// Where chunks and messages spend their time.
        pub breakdown: Breakdown as Record,
    }
}

syncline_core::record! {
    /// Where chunks and messages spend their time, summed over all NPUs (first version of the ACE paper, Fig. 11).
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct Breakdown {
        /// Chunks that were started, over all NPUs.
        pub chunks: u64 as Count,
        /// Time of chunks from the issue of their collective to their start.
        pub chunk_queue_ps: u128 as Picoseconds,
        /// Messages that were handed to the network, over all NPUs.
        pub messages: u64 as Count,
        /// Time that messages waited for the buses to memory and to the network.
        pub bus_queue_ps: u128 as Picoseconds,
        /// Time that messages took to cross the buses to memory and to the network.
        pub bus_transfer_ps: u128 as Picoseconds,
        /// Time of messages from being handed to the network to their arrival.
        pub network_ps: u128 as Picoseconds,
    }
}

syncline_core::record! {
    /// A resource of the endpoint, over all NPUs.
    #[derive(Clone, Debug, Serialize)]
    pub struct ResourceSummary {
        /// Name of the resource, such as memory, sm or bus_tx.
        pub resource: String as Text,
        /// Servers that one NPU has of the resource.
        pub servers: u32 as Count,
        /// Time that servers were busy, added up over all servers and NPUs.
        pub busy_ps: u128 as Picoseconds,
        /// Time that work waited for the resource, added up over everything that waited.
        pub wait_ps: u128 as Picoseconds,
        /// Time from the beginning of work to its result, added up; for a bus with latency this exceeds its busy time.
        pub transfer_ps: u128 as Picoseconds,
        /// Number of pieces of work that the resource served.
        pub served: u64 as Count,
    }
}

syncline_core::record! {
    /// A partition of the ACE SRAM, over all NPUs.
    #[derive(Clone, Debug, Serialize)]
    pub struct PartitionSummary {
        /// Phase that the partition feeds, or terminal.
        pub phase: String as Text,
        /// Size of the partition.
        pub capacity_bytes: u64 as Bytes,
        /// Most that one NPU ever held in the partition.
        pub peak_bytes: u64 as Bytes,
    }
}

syncline_core::record! {
    /// The FSMs of an ACE that run a phase. Kinds of collectives share those of their phases.
    #[derive(Clone, Debug, Serialize)]
    pub struct PhaseFsmsSummary {
        /// Name of the phase.
        pub phase: String as Text,
        /// State machines of an NPU that can run the phase.
        pub fsms: u32 as Count,
        /// Most state machines of one NPU that were ever busy with the phase at once.
        pub fsm_peak: u32 as Count,
    }
}

/// Everything a run returns.
#[derive(Clone, Debug)]
pub struct Results {
    /// The headline.
    pub summary: Summary,
    /// The tables, declared in [`crate::tables`].
    pub tables: Vec<Table>,
}
