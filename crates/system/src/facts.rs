//! What the engine says of itself: what can be asked for, what tables hold, and where its limits are.
//!
//! A column is declared here, with its unit and its meaning, and nowhere else: tables are made of declared columns
//! ([`crate::results::Table::new`]), and whoever shows or keeps them asks for what is declared ([`describe`]).

use crate::endpoints::EndpointSpec;
use crate::networks::NetworkSpec;
use crate::spec::AlgorithmSpec;
use serde::Serialize;
use syncline_collective::{Algorithm, Kind};
use syncline_network::LINKS_OF_AN_EVENT;
use syncline_workload::models::MODELS;

/// What a column counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Nothing: it holds names.
    #[serde(rename = "name")]
    Name,
    /// A place in a list, from zero.
    #[serde(rename = "index")]
    Index,
    /// Things.
    #[serde(rename = "count")]
    Count,
    /// Picoseconds.
    #[serde(rename = "ps")]
    Ps,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Parts of one.
    #[serde(rename = "share")]
    Share,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Text.
    Text,
    /// Whole numbers.
    Int,
    /// Whole numbers, or nothing: the time of what never happened.
    OptionalInt,
    /// Numbers.
    Float,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnFacts {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What its values are.
    pub values: Values,
    /// What it means, as a phrase.
    pub meaning: &'static str,
    /// Whether tables may lack it.
    pub optional: bool,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableFacts {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub row: &'static str,
    /// Its columns, in order.
    pub columns: &'static [ColumnFacts],
}

const fn column(name: &'static str, unit: Unit, values: Values, meaning: &'static str) -> ColumnFacts {
    ColumnFacts { name, unit, values, meaning, optional: false }
}

const fn text(name: &'static str, meaning: &'static str) -> ColumnFacts {
    column(name, Unit::Name, Values::Text, meaning)
}

const fn index(name: &'static str, meaning: &'static str) -> ColumnFacts {
    column(name, Unit::Index, Values::Int, meaning)
}

const fn count(name: &'static str, meaning: &'static str) -> ColumnFacts {
    column(name, Unit::Count, Values::Int, meaning)
}

const fn bytes(name: &'static str, meaning: &'static str) -> ColumnFacts {
    column(name, Unit::Bytes, Values::Int, meaning)
}

const fn ps(name: &'static str, meaning: &'static str) -> ColumnFacts {
    column(name, Unit::Ps, Values::Int, meaning)
}

const fn ps_if_any(name: &'static str, meaning: &'static str) -> ColumnFacts {
    column(name, Unit::Ps, Values::OptionalInt, meaning)
}

const fn share(name: &'static str, meaning: &'static str) -> ColumnFacts {
    column(name, Unit::Share, Values::Float, meaning)
}

const fn of_dimension(name: &'static str, meaning: &'static str) -> ColumnFacts {
    ColumnFacts { optional: true, ..share(name, meaning) }
}

/// The tables of a run, in order.
pub const TABLES: &[TableFacts] = &[
    TableFacts {
        name: "layers",
        row: "a layer of the model",
        columns: &[
            index("index", "place of the layer in the model"),
            text("layer", "name of the layer"),
            count("params", "parameters of the layer"),
            bytes("gradient_bytes", "gradients of the layer on an NPU"),
            ps("forward_ps", "compute of its forward pass in an iteration, with nothing beside it"),
            ps("input_grad_ps", "compute of its input gradients in an iteration, with nothing beside it"),
            ps("weight_grad_ps", "compute of its weight gradients in an iteration, with nothing beside it"),
            ps("update_ps", "compute of its weight update in an iteration, with nothing beside it"),
            ps("compute_ps", "busy time of the main stream with the layer, over all iterations"),
            count("collectives", "collectives of the layer, over all iterations"),
            bytes("comm_bytes", "bytes of these collectives"),
            ps_if_any("raw_latency_ps", "mean time from the issue of one of its collectives to its end"),
            ps_if_any("queue_ps", "mean time from the issue of one of its collectives to the start of its first chunk"),
            ps("exposed_ps", "time that the training loop waited for its collectives, over all iterations"),
        ],
    },
    TableFacts {
        name: "collectives",
        row: "a collective of an iteration",
        columns: &[
            index("id", "place of the collective in the order of issue"),
            text("layer", "name of the layer that asks for it"),
            text("pass", "pass of the training loop that asks for it"),
            index("iteration", "iteration to which it belongs"),
            text("kind", "kind of the collective"),
            bytes("bytes", "size of the collective"),
            count("chunks", "chunks that it was cut into"),
            ps_if_any("issued_ps", "time at which the first NPU issued it"),
            ps_if_any("started_ps", "time at which its first chunk started"),
            ps_if_any("completed_ps", "time at which its last chunk was complete on all NPUs"),
            ps("exposed_ps", "time that the training loop waited for it"),
        ],
    },
    TableFacts {
        name: "phases",
        row: "a phase of a collective, over all chunks of the first NPU",
        columns: &[
            index("phase", "place of the phase in the plan of the collective"),
            text("name", "what the phase does, and along which dimension"),
            index("dim", "dimension of the topology along which it runs"),
            count("chunks", "chunks that passed through it"),
            ps("queue_ps", "time that chunks waited for the phase to begin, summed"),
            ps("active_ps", "time that chunks were in the phase, summed"),
            count("fsms", "finite state machines of an ACE that can run the phase; none of other endpoints"),
            count("fsm_peak", "most of these that were busy with it at once"),
        ],
    },
    TableFacts {
        name: "links",
        row: "a directed link",
        columns: &[
            index("node", "node that sends through the link"),
            count("copies", "links of the machine for which it stands"),
            text("port", "name of the port of that node"),
            index("dim", "dimension, or class of links, to which it belongs"),
            bytes("bytes", "bytes that it carried"),
            ps("busy_ps", "time that it was busy"),
        ],
    },
    TableFacts {
        name: "resources",
        row: "a resource of the endpoints, over all NPUs",
        columns: &[
            text("resource", "name of the resource"),
            count("servers", "servers of it on an NPU"),
            ps("busy_ps", "time that servers were busy, summed"),
            ps("wait_ps", "time that work waited for it, summed"),
            ps("transfer_ps", "time from the beginning of work to its result, summed"),
            count("served", "pieces of work that it served"),
        ],
    },
    TableFacts {
        name: "windows",
        row: "a window of time",
        columns: &[
            index("window", "place of the window in the run"),
            ps("start_ps", "time at which it begins"),
            share("compute", "time that the first NPU computed"),
            share("links", "time that links were busy, over all links"),
            of_dimension("link_dim0", "time that links of dimension 0 were busy"),
            of_dimension("link_dim1", "time that links of dimension 1 were busy"),
            of_dimension("link_dim2", "time that links of dimension 2 were busy"),
            of_dimension("link_dim3", "time that links of dimension 3 were busy"),
            of_dimension("link_dim4", "time that links of dimension 4 were busy"),
            of_dimension("link_dim5", "time that links of dimension 5 were busy"),
            of_dimension("link_dim6", "time that links of dimension 6 were busy"),
            of_dimension("link_dim7", "time that links of dimension 7 were busy"),
            share("ace_active", "time that the ACE of the first NPU held a chunk"),
            column("sram_bytes", Unit::Bytes, Values::Float, "mean number of bytes in the SRAM of that ACE"),
            column("fsm_busy", Unit::Count, Values::Float, "mean number of its finite state machines that were busy"),
        ],
    },
    TableFacts {
        name: "sram",
        row: "a partition of the SRAM of the first NPU's ACE in a window of time",
        columns: &[
            index("window", "place of the window in the run"),
            ps("start_ps", "time at which it begins"),
            index("partition", "place of the partition in the list of the summary"),
            bytes("capacity_bytes", "size of the partition"),
            column("mean_bytes", Unit::Bytes, Values::Float, "mean number of bytes that it held"),
            bytes("peak_bytes", "most bytes that it held"),
        ],
    },
    TableFacts {
        name: "slices",
        row: "something that a traced NPU did from one time to another",
        columns: &[
            index("npu", "number of the traced NPU"),
            text("track", "track of a time line; what is on one track does not overlap"),
            text("name", "what was done"),
            ps("start_ps", "time at which it began"),
            ps("end_ps", "time at which it ended"),
        ],
    },
];

/// The declaration of a table.
///
/// # Panics
/// If there is none of this name.
pub fn table(name: &str) -> &'static TableFacts {
    TABLES.iter().find(|table| table.name == name).unwrap_or_else(|| panic!("a table {name} is not declared"))
}

#[derive(Serialize)]
struct AlgorithmFacts {
    name: AlgorithmSpec,
    /// Whether it may do something else along each dimension.
    composes: bool,
    /// The kinds of collectives that it has phases for.
    kinds: Vec<&'static str>,
}

#[derive(Serialize)]
struct KindFacts {
    name: &'static str,
    has_root: bool,
}

#[derive(Serialize)]
struct EndpointFacts {
    name: &'static str,
    kinds: Vec<&'static str>,
}

#[derive(Serialize)]
struct ModelFacts {
    name: &'static str,
    description: &'static str,
    has_sequence: bool,
}

#[derive(Serialize)]
struct Facts {
    kinds: Vec<KindFacts>,
    algorithms: Vec<AlgorithmFacts>,
    networks: Vec<&'static str>,
    endpoints: Vec<EndpointFacts>,
    models: Vec<ModelFacts>,
    tables: &'static [TableFacts],
    /// Links of routes that are looked up in the time of an event.
    links_of_an_event: u64,
}

fn names(kinds: impl IntoIterator<Item = Kind>) -> Vec<&'static str> {
    kinds.into_iter().map(Kind::name).collect()
}

/// What the engine says of itself, as JSON.
pub fn describe() -> String {
    let algorithm = |name: AlgorithmSpec| {
        let program = name.everywhere();
        let has = |kind: &Kind| program.is_none_or(|program| program.supports(*kind));
        AlgorithmFacts { name, composes: program.is_none(), kinds: names(Kind::ALL.into_iter().filter(has)) }
    };
    let facts = Facts {
        kinds: Kind::ALL.iter().map(|kind| KindFacts { name: kind.name(), has_root: kind.is_rooted() }).collect(),
        algorithms: AlgorithmSpec::ALL.into_iter().map(algorithm).collect(),
        networks: NetworkSpec::all().iter().map(NetworkSpec::name).collect(),
        endpoints: EndpointSpec::all()
            .iter()
            .map(|e| EndpointFacts { name: e.name(), kinds: names(e.model().kinds().iter().copied()) })
            .collect(),
        models: MODELS
            .iter()
            .map(|m| ModelFacts { name: m.name, description: m.description, has_sequence: m.has_sequence })
            .collect(),
        tables: TABLES,
        links_of_an_event: LINKS_OF_AN_EVENT,
    };
    serde_json::to_string(&facts).unwrap_or_else(|error| unreachable!("facts are plain data: {error}"))
}

impl AlgorithmSpec {
    /// What it does along every dimension; `None` if that depends on the dimension.
    pub fn everywhere(self) -> Option<Algorithm> {
        match self {
            AlgorithmSpec::Ring => Some(Algorithm::Ring),
            AlgorithmSpec::Direct => Some(Algorithm::Direct),
            AlgorithmSpec::HalvingDoubling => Some(Algorithm::HalvingDoubling),
            AlgorithmSpec::DoubleBinaryTree => Some(Algorithm::DoubleBinaryTree { slices: 1 }),
            AlgorithmSpec::OneHopTrees => Some(Algorithm::OneHopTrees { slices: 1 }),
            AlgorithmSpec::InSwitch => Some(Algorithm::InSwitch { slices: 1, slots: 1 }),
            AlgorithmSpec::Hierarchical
            | AlgorithmSpec::AceFourPhase
            | AlgorithmSpec::HierarchicalOptimal
            | AlgorithmSpec::SixPhase
            | AlgorithmSpec::Themis => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_plain_meaning_and_a_unit_that_its_name_agrees_with() {
        for table in TABLES {
            for (i, column) in table.columns.iter().enumerate() {
                let ColumnFacts { name, unit, values, meaning, .. } = *column;
                assert!(meaning.split(' ').count() > 1 && !meaning.ends_with('.'), "{name}: {meaning}");
                assert_eq!(name.ends_with("_ps"), unit == Unit::Ps, "{name}");
                assert_eq!(name.ends_with("bytes"), unit == Unit::Bytes, "{name}");
                assert_eq!(values == Values::Text, unit == Unit::Name, "{name}");
                assert!(table.columns[..i].iter().all(|before| before.name != name), "{name} twice");
            }
        }
    }

    #[test]
    fn facts_are_json() {
        let facts: serde_json::Value = serde_json::from_str(&describe()).expect("JSON");
        let names = |part: &str| -> Vec<String> {
            let entries = facts[part].as_array().expect("a list").iter();
            entries.filter_map(|e| e["name"].as_str().or(e.as_str()).map(String::from)).collect()
        };
        for (part, name) in [
            ("kinds", "all-to-all"),
            ("algorithms", "hierarchical-optimal"),
            ("networks", "packet"),
            ("endpoints", "switch-offload"),
            ("models", "resnet50"),
            ("tables", "slices"),
        ] {
            assert!(names(part).iter().any(|known| known == name), "{name} in {part}");
        }
        assert_eq!(names("networks").len(), NetworkSpec::all().len());
    }
}
