//! What the engine says of itself: which names its descriptions know, what algorithms are, what tables and
//! summaries hold, and the numbers that others reckon with. Python asks for it, and repeats nothing.
//!
//! Nothing is listed here that stands elsewhere: names are those that [`Spec`] reads, and
//! whatever can be asked of a name is asked of the code that acts on it.
//!
//! [`Spec`]: crate::spec::Spec

mod names;

use crate::place::{along, composition, everywhere, is_balanced, is_flat};
use crate::results::Summary;
use crate::spec::{
    AlgorithmSpec, CollectiveKindSpec, ComputeModelSpec, DataflowSpec, DeadlockRule, DimAlgorithmSpec, EndpointSpec,
    ForwardingSpec, FsmSplitSpec, LanesSpec, NetworkSpec, SchedulingSpec, SharingSpec, StrategySpec, TransitSpec,
};
use crate::tables;
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_collective::{Algorithm, Composition, Kind};
use syncline_core::table::{Declaration, Described, Field, Unit};
use syncline_network::api::LINKS_OF_AN_EVENT;
use syncline_topology::Product;
use syncline_workload::Counted;
use syncline_workload::described::{KINDS, Kind as OperatorKind, SizeOf};
use syncline_workload::operators::ELEMENT_BYTES;

/// What the engine says of itself.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The collective operations.
    pub collectives: Vec<CollectiveFacts>,
    /// How ranks work together.
    pub algorithms: Vec<AlgorithmFacts>,
    /// What ranks do along a dimension, of which algorithms are composed.
    pub programs: Vec<ProgramFacts>,
    /// Names of the endpoints.
    pub endpoints: Vec<&'static str>,
    /// The network backends.
    pub networks: Vec<NetworkFacts>,
    /// The kinds of operators of model files.
    pub operators: Vec<OperatorFacts>,
    /// The words that fields of a description take, by the path of the field.
    pub words: BTreeMap<&'static str, Vec<&'static str>>,
    /// The tables that a run may have, in order; those of a backend after those that all runs have.
    pub tables: Vec<&'static Declaration>,
    /// The fields of the summary of a run.
    pub summary: &'static [Field],
    /// Numbers of the engine that others reckon with.
    pub constants: Vec<Constant>,
}

/// A collective operation.
#[derive(Clone, Debug, Serialize)]
pub struct CollectiveFacts {
    /// Its name.
    pub name: &'static str,
    /// Whether one rank, the root, plays a part of its own.
    pub is_rooted: bool,
    /// Whether it adds what ranks have.
    pub is_summed: bool,
}

/// How ranks work together, over all dimensions of a group.
#[derive(Clone, Debug, Serialize)]
pub struct AlgorithmFacts {
    /// Its name.
    pub name: &'static str,
    /// An earlier algorithm of which this is another name.
    pub same_as: Option<&'static str>,
    /// The collectives that it implements.
    pub implements: Vec<&'static str>,
    /// The programs that it may be composed of, a choice for each dimension; none if it does the same in all of them.
    pub composes: Vec<&'static str>,
    /// How it composes an all-reduce over dimensions.
    pub composition: &'static str,
    /// Whether every chunk goes through the dimensions in an order of its own, which balances them.
    pub is_balanced: bool,
    /// Whether it sees a group as a line, even if that is a whole product of dimensions.
    pub is_flat: bool,
}

/// What ranks do along a dimension.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramFacts {
    /// Its name.
    pub name: &'static str,
    /// The collectives that it implements.
    pub implements: Vec<&'static str>,
    /// Those that are cut into slices, of which a description says the number.
    pub pipelined: Vec<&'static str>,
}

/// A network backend.
#[derive(Clone, Debug, Serialize)]
pub struct NetworkFacts {
    /// Its name.
    pub name: &'static str,
    /// Whether messages move in packets.
    pub has_packets: bool,
    /// Whether a link carries no more than it can, however many messages share it.
    pub has_contention: bool,
    /// The attributes of nodes that it knows.
    pub attributes: &'static [&'static str],
}

/// A kind of operators.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorFacts {
    /// Its name.
    pub name: &'static str,
    /// What it does, for people.
    pub description: &'static str,
    /// Its sizes.
    pub sizes: Vec<SizeFacts>,
}

/// A size of an operator.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SizeFacts {
    /// Its name.
    pub name: &'static str,
    /// The least value.
    pub least: u64,
    /// The largest value.
    pub most: u64,
    /// Whether it can be left out.
    pub is_optional: bool,
}

/// A number of the engine that others reckon with.
#[derive(Clone, Debug, Serialize)]
pub struct Constant {
    /// Its name.
    pub name: &'static str,
    /// The number, or numbers.
    pub values: Vec<u64>,
    /// What it is measured in.
    pub unit: Unit,
    /// What it says, in a full phrase.
    pub meaning: &'static str,
}

/// What the engine says of itself.
pub fn describe() -> Facts {
    let backends = names::of_tagged::<NetworkSpec>("backend");
    Facts {
        collectives: Kind::ALL.iter().map(collective).collect(),
        algorithms: algorithms(),
        programs: names::with_values::<DimAlgorithmSpec>().into_iter().map(program).collect(),
        endpoints: names::of_tagged::<EndpointSpec>("kind").to_vec(),
        networks: backends.iter().copied().zip(NetworkSpec::all()).map(network).collect(),
        operators: KINDS.iter().map(operator).collect(),
        words: words(),
        tables: tables(),
        summary: Summary::FIELDS,
        constants: constants(),
    }
}

/// The tables that all runs have, and those of backends. Backends may share a table.
fn tables() -> Vec<&'static Declaration> {
    let mut all = tables::DECLARATIONS.to_vec();
    for table in NetworkSpec::all().iter().flat_map(|network| network.model().tables()) {
        match all.iter().find(|known| known.name == table.name) {
            Some(known) => assert_eq!(*known, table, "two tables of one name"),
            None => all.push(table),
        }
    }
    all
}

fn operator(kind: &OperatorKind) -> OperatorFacts {
    let size = |size: &SizeOf| {
        let (least, most) = size.form.range();
        SizeFacts { name: size.name, least, most, is_optional: size.form.is_optional() }
    };
    OperatorFacts { name: kind.name, description: kind.description, sizes: kind.sizes.iter().map(size).collect() }
}

fn collective(kind: &Kind) -> CollectiveFacts {
    CollectiveFacts { name: kind.name(), is_rooted: kind.is_rooted(), is_summed: kind.is_summed() }
}

fn algorithms() -> Vec<AlgorithmFacts> {
    let all = names::with_values::<AlgorithmSpec>();
    let does =
        |algorithm| (everywhere(algorithm), composition(algorithm), is_balanced(algorithm), is_flat(algorithm, true));
    all.iter()
        .map(|&(name, algorithm)| {
            let first = all.iter().find(|&&(_, other)| does(other) == does(algorithm));
            AlgorithmFacts {
                name,
                same_as: first.map(|&(first, _)| first).filter(|&first| first != name),
                implements: implemented(|kind| match everywhere(algorithm) {
                    Some(dimension) => supports(dimension, kind),
                    // Of what suits the dimensions: rings, and direct exchange.
                    None => [DimAlgorithmSpec::Ring, DimAlgorithmSpec::Direct].iter().all(|&d| supports(d, kind)),
                }),
                composes: match everywhere(algorithm) {
                    Some(_) => Vec::new(),
                    None => names::of::<DimAlgorithmSpec>().to_vec(),
                },
                composition: match composition(algorithm) {
                    Composition::PerDimension => "per-dimension",
                    Composition::LocalFirst => "local-first",
                    Composition::AllScattered => "all-scattered",
                },
                is_balanced: is_balanced(algorithm),
                is_flat: is_flat(algorithm, true),
            }
        })
        .collect()
}

fn program((name, dimension): (&'static str, DimAlgorithmSpec)) -> ProgramFacts {
    let is_pipelined = |kind| along(dimension, kind, 1).is_some_and(|algorithm| algorithm.slices().is_some());
    ProgramFacts {
        name,
        implements: implemented(|kind| supports(dimension, kind)),
        pipelined: implemented(|kind| supports(dimension, kind) && is_pipelined(kind)),
    }
}

/// Whether there is a program along a dimension for a collective.
fn supports(dimension: DimAlgorithmSpec, kind: Kind) -> bool {
    const SWITCHES: Algorithm = Algorithm::InSwitch { slices: 1, slots: 1 };
    along(dimension, kind, 1).unwrap_or(SWITCHES).supports(kind)
}

fn implemented(supports: impl Fn(Kind) -> bool) -> Vec<&'static str> {
    Kind::ALL.iter().filter(|&&kind| supports(kind)).map(|kind| kind.name()).collect()
}

fn network((name, spec): (&'static str, NetworkSpec)) -> NetworkFacts {
    let model = spec.model();
    NetworkFacts {
        name,
        has_packets: model.packet_bytes().is_some(),
        has_contention: model.has_contention(),
        attributes: model.attributes(),
    }
}

fn words() -> BTreeMap<&'static str, Vec<&'static str>> {
    let fields: [(&str, &[&str]); 12] = [
        ("collectives.lanes", names::of::<LanesSpec>()),
        ("collectives.priority", names::of::<CollectiveKindSpec>()),
        ("collectives.scheduling", names::of::<SchedulingSpec>()),
        ("endpoint.forwarding", names::of::<ForwardingSpec>()),
        ("endpoint.fsm_split", names::of::<FsmSplitSpec>()),
        ("endpoint.sharing", names::of::<SharingSpec>()),
        ("endpoint.transit", names::of::<TransitSpec>()),
        ("job.compute.model.dataflow", names::of::<DataflowSpec>()),
        ("job.compute.model.kind", names::of_tagged::<ComputeModelSpec>("kind")),
        ("job.strategy", names::of::<StrategySpec>()),
        ("job.workload.kernels", names::of::<Counted>()),
        ("network.deadlock_rule", names::of::<DeadlockRule>()),
    ];
    fields.into_iter().map(|(field, words)| (field, words.to_vec())).collect()
}

fn constants() -> Vec<Constant> {
    let constant = |name, values: &[u64], unit, meaning| Constant { name, values: values.to_vec(), unit, meaning };
    vec![
        constant(
            "links_of_an_event",
            &[LINKS_OF_AN_EVENT],
            Unit::Count,
            "Links of routes that are looked up in the time of an event.",
        ),
        constant(
            "most_chunks",
            &[syncline_endpoint::message::max_chunks(1) as u64 - 1],
            Unit::Count,
            "Chunks that the collectives of a run may have together.",
        ),
        constant("most_npus", &[Product::MAX_NPUS.into()], Unit::Count, "NPUs that a product of dimensions may have."),
        constant(
            "element_bytes",
            &ELEMENT_BYTES.map(u64::from),
            Unit::Bytes,
            "Widths that elements of a model may have.",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use syncline_core::table::Column;

    fn algorithm(name: &str) -> AlgorithmFacts {
        algorithms().into_iter().find(|a| a.name == name).expect("an algorithm")
    }

    #[test]
    fn algorithms_are_what_plans_make_of_them() {
        assert_eq!(algorithm("halving-doubling").implements.len(), Kind::ALL.len() - 1);
        assert_eq!(algorithm("one-hop-trees").implements, ["all-reduce", "broadcast", "reduce"]);
        assert_eq!(algorithm("themis").implements.len(), Kind::ALL.len());
        assert!(algorithm("ring").composes.is_empty() && algorithm("six-phase").composes.contains(&"in-switch"));
        assert!(algorithm("direct").is_flat && !algorithm("ring").is_flat);
    }

    #[test]
    fn another_name_of_an_algorithm_is_known_as_one() {
        let same: Vec<_> = algorithms().into_iter().filter_map(|a| Some((a.name, a.same_as?))).collect();
        assert_eq!(same, [("hierarchical-optimal", "ace-4-phase")]);
    }

    #[test]
    fn rings_of_collectives_with_a_root_are_pipelined() {
        let programs = describe().programs;
        let of = |name| programs.iter().find(|p| p.name == name).expect("a program");
        assert_eq!(of("ring").pipelined, ["broadcast", "reduce", "gather", "scatter"]);
        assert_eq!(of("double-binary-tree").pipelined, of("double-binary-tree").implements);
        assert_eq!(of("in-switch").pipelined, <[&str; 0]>::default());
    }

    #[test]
    fn names_are_those_that_descriptions_know() {
        let facts = describe();
        assert_eq!(facts.endpoints.len(), EndpointSpec::all().len());
        assert!(facts.endpoints.contains(&"switch-offload"));
        let networks: Vec<_> = facts.networks.iter().map(|n| (n.name, n.has_packets, n.has_contention)).collect();
        assert_eq!(networks.len(), NetworkSpec::all().len());
        for known in [("analytical", false, false), ("flow", false, true), ("packet", true, true)] {
            assert!(networks.contains(&known), "{known:?}");
        }
        assert_eq!(facts.words["collectives.scheduling"], ["fifo", "lifo"]);
        let kinds: Vec<_> = facts.collectives.iter().map(|c| c.name).collect();
        assert_eq!(facts.words["collectives.priority"], kinds);
    }

    fn fields(of: &[Field]) -> Vec<Field> {
        of.iter().flat_map(|field| [vec![*field], fields(field.fields)].concat()).collect()
    }

    #[test]
    fn names_say_what_times_and_sizes_are_measured_in() {
        let columns = tables::DECLARATIONS.iter().flat_map(|table| table.columns).map(|c| (c.name, c.unit));
        for (name, unit) in columns.chain(fields(Summary::FIELDS).iter().map(|f| (f.name, f.unit))) {
            assert_eq!(name.ends_with("_ps"), unit == Unit::Picoseconds, "{name}");
            assert_eq!(name.ends_with("bytes"), unit == Unit::Bytes, "{name}");
        }
    }

    #[test]
    fn names_of_a_table_are_different() {
        for table in tables::DECLARATIONS {
            let names: BTreeSet<&str> = table.columns.iter().map(|Column { name, .. }| *name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
        }
    }

    #[test]
    fn what_has_fields_of_its_own_is_a_record() {
        for field in fields(Summary::FIELDS) {
            assert_eq!(field.fields.is_empty(), field.unit != Unit::Record, "{}", field.name);
        }
    }
}
