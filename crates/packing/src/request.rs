//! What can be asked, and the answers, as JSON. Capacities and rates are in the unit of whoever asks, such as bytes per second;
//! weights of trees and capacities of the network without switches are in `unit / factor` of it.

use crate::network::{Arc, MOST_CAPACITY, Network, Tree, too_fine};
use crate::rate::{self, Limit};
use crate::ratio::Ratio;
use crate::symmetry::{MOST_ROOTS, Symmetry};
use crate::{cheapest, each, every, exact, multiplicative, orbits, orientation, switches};
use serde::{Deserialize, Serialize};
use syncline_core::Refusal;

/// A question about a network.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Nodes; the first ones are terminals.
    nodes: u32,
    /// Terminals.
    terminals: u32,
    /// Arcs: from, to, capacity.
    arcs: Vec<(u32, u32, u64)>,
    /// What is asked.
    task: Task,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Task {
    /// The best rate from a root, and trees that reach it: with `few`, over switches that are taken apart as rings.
    FromRoot {
        root: u32,
        #[serde(default)]
        few: bool,
    },
    /// The same where each terminal gets a part of its own, and paths instead of trees.
    ToEach { root: u32 },
    /// The same from all roots at once. With `one_root`, trees of all of them are answered as those of one root, if there are
    /// symmetries that make the others of them.
    FromAll {
        #[serde(default)]
        one_root: bool,
    },
    /// The same of trees that are used both ways.
    BothWays {
        #[serde(default)]
        one_root: bool,
    },
    /// Only the best rate, from each terminal as the root; with `each`, of parts for each.
    Rates { each: bool },
    /// Trees that have these weights from these roots, if the network has them; or only whether it has them.
    Given { roots: Vec<(u32, u64)>, trees: bool },
    /// Trees near the best rate from a root, by multiplicative weights.
    Multiplicative { root: u32, epsilon: f64 },
    /// The cheapest tree from a root whose arcs have at least a capacity, for each of several capacities.
    Cheapest { root: u32, costs: Vec<f64>, least: Vec<u64> },
    /// Every tree from a root, if there are no more than so many.
    Every { root: u32, most: usize },
}

/// A rate with its trees.
#[derive(Serialize)]
struct Rates {
    /// The terminals in groups that reach each other.
    components: Vec<Vec<u32>>,
    /// What nothing can exceed; none with a single terminal.
    best: Option<Best>,
    /// What the trees reach.
    rate: Ratio,
    /// See the module's documentation.
    unit: u64,
    factor: u64,
    /// Arcs of the network without switches: from, to, capacity, switches that it passes.
    arcs: Vec<(u32, u32, u64, Vec<u32>)>,
    /// Per arc, the one that leads the other way; only for trees that are used both ways.
    opposite: Vec<Option<u32>>,
    trees: Vec<OneTree>,
    /// If the trees are those of some roots: permutations of the terminals, whose products lead these to every other one.
    generators: Vec<Vec<u32>>,
    /// Of trees from one root over the network as it is: none carries more than this, in the unit of whoever asks.
    widest: Option<u64>,
}

#[derive(Serialize)]
struct Best {
    rate: Ratio,
    /// Sets of nodes that limit the rate.
    sets: Vec<Vec<u32>>,
    /// What enters them.
    capacity: u64,
}

#[derive(Serialize)]
struct OneTree {
    root: u32,
    weight: u64,
    arcs: Vec<u32>,
}

impl From<Tree> for OneTree {
    fn from(Tree { root, weight, arcs }: Tree) -> OneTree {
        OneTree { root, weight, arcs }
    }
}

#[derive(Serialize)]
struct Given {
    /// Sets of nodes into which too little leads for the trees; if there are any, there are no trees.
    violated: Vec<Vec<u32>>,
    trees: Vec<OneTree>,
}

#[derive(Serialize)]
struct Weighted {
    trees: Vec<(Vec<u32>, f64)>,
    rate: f64,
    rounds: u32,
}

#[derive(Serialize)]
struct Cheap {
    /// Arcs of a tree for each of the capacities; none where no tree has it.
    trees: Vec<Option<Vec<u32>>>,
}

#[derive(Serialize)]
struct All {
    /// Arcs of every tree; none if there are too many.
    trees: Option<Vec<Vec<u32>>>,
}

/// Answers a request in JSON with an answer in JSON.
///
/// # Errors
/// A [`Refusal`] if the request is no request, or its network is none.
pub fn answer(request: &str) -> Result<String, Refusal> {
    let request: Request = serde_json::from_str(request).map_err(|e| Refusal::of("", e.to_string()))?;
    let arcs = request.arcs.into_iter().map(|(from, to, capacity)| Arc::new(from, to, capacity));
    let network = Network::new(request.nodes, request.terminals, arcs)?;
    match request.task {
        Task::FromRoot { root, few } => as_text(&from_root(network, inside(root, request.terminals)?, few)?),
        Task::ToEach { root } => as_text(&to_each(network, inside(root, request.terminals)?)?),
        Task::FromAll { one_root } => as_text(&from_all(network, one_root)?),
        Task::BothWays { one_root } => as_text(&both_ways(network, one_root)?),
        Task::Rates { each } => {
            let limit = |root: u32| if each { each::rate(&network, root) } else { Ok(rate::from_root(&network, root)) };
            let rate = |root: u32| Ok(limit(root)?.map_or(Ratio::ZERO, |limit| limit.rate));
            as_text(&(0..network.terminals).map(rate).collect::<Result<Vec<Ratio>, Refusal>>()?)
        }
        Task::Given { roots, trees } => {
            without_switches(&network)?;
            as_text(&given(&network, &roots, trees)?)
        }
        Task::Multiplicative { root, epsilon } => {
            let root = inside(root, request.terminals)?;
            without_switches(&network)?;
            if !(epsilon > 0.0 && epsilon < 1.0) {
                return Err(Refusal::of("task.epsilon", format!("{epsilon} is no share")).accepting("between 0 and 1"));
            }
            let multiplicative::Packing { trees, rate, rounds } = multiplicative::packing(&network, root, epsilon);
            as_text(&Weighted { trees, rate, rounds })
        }
        Task::Cheapest { root, costs, least } => {
            let root = inside(root, request.terminals)?;
            without_switches(&network)?;
            if costs.len() != network.arcs.len() {
                let message = format!("{} costs for {} arcs with capacity", costs.len(), network.arcs.len());
                return Err(Refusal::of("task.costs", message));
            }
            let tree = |&least: &u64| {
                cheapest::arborescence(&network, root, &costs, |arc| network.arcs[arc].capacity >= least)
            };
            as_text(&Cheap { trees: least.iter().map(tree).collect() })
        }
        Task::Every { root, most } => {
            let root = inside(root, request.terminals)?;
            without_switches(&network)?;
            as_text(&All { trees: every::arborescences(&network, root, most) })
        }
    }
}

fn as_text(answer: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(answer).map_err(|e| Refusal::of("", e.to_string()))
}

fn inside(root: u32, terminals: u32) -> Result<u32, Refusal> {
    if root < terminals {
        return Ok(root);
    }
    Err(Refusal::of("task.root", format!("{root} of {terminals} terminals"))
        .accepting(format!("0 to {}", terminals - 1)))
}

fn without_switches(network: &Network) -> Result<(), Refusal> {
    if network.is_without_switches() {
        Ok(())
    } else {
        Err(Refusal::of("nodes", "this is asked of networks without switches"))
    }
}

/// Of more terminals that are not all alike, trees from all of them are not looked for.
pub const MOST_UNLIKE: u32 = 256;

fn from_root(network: Network, root: u32, few: bool) -> Result<Rates, Refusal> {
    let (components, unit) = (network.components(), network.unit());
    let network = network.in_units_of(unit);
    let best = rate::from_root(&network, root);
    let weight = best.as_ref().map_or(0, |limit| limit.rate.num);
    if weight == 0 {
        return Ok(nothing(components, best, unit, &network));
    }
    let manner = if few { switches::Manner::Ring } else { switches::Manner::Fair };
    let split = switches::removed_in(manner, &network, &[(root, weight)]);
    // Less than the best only where a switch can send more than it receives.
    let reached = rate::from_root(&split.network, root).map_or(0, |limit| limit.rate.num).min(weight * split.factor);
    let trees = reaching(&split.network, &[(root, reached)]);
    let widest = rate::widest(&network, root).map(|widest| widest * unit);
    let answer = rates(components, best, unit, 1, (split.network, split.factor), (trees, Vec::new()));
    Ok(Rates { widest, ..answer })
}

fn to_each(network: Network, root: u32) -> Result<Rates, Refusal> {
    let (components, unit) = (network.components(), network.unit());
    let network = network.in_units_of(unit);
    let best = each::rate(&network, root)?;
    let rate = best.as_ref().map_or(Ratio::ZERO, |limit| limit.rate);
    let found = each::paths(&network, root, rate)?;
    let mut answer = rates(components, best, unit, 1, (found.network, found.factor), (found.paths, Vec::new()));
    // Paths carry all parts but the root's own.
    answer.rate = answer.best.as_ref().map_or(Ratio::ZERO, |best| best.rate);
    Ok(answer)
}

fn given(network: &Network, roots: &[(u32, u64)], wanted: bool) -> Result<Given, Refusal> {
    let mut sum = 0u64;
    for &(root, weight) in roots {
        inside(root, network.terminals)?;
        sum = sum.saturating_add(weight);
    }
    if sum > MOST_CAPACITY {
        return Err(too_fine());
    }
    let violated = rate::violated(network, roots);
    let trees = if wanted && violated.is_empty() { reaching(network, roots) } else { Vec::new() };
    Ok(Given { violated, trees: trees.into_iter().map(OneTree::from).collect() })
}

fn from_all(network: Network, one_root: bool) -> Result<Rates, Refusal> {
    let (components, unit) = (network.components(), network.unit());
    let network = network.in_units_of(unit);
    if components.len() > 1 {
        let best = rate::from_all(&network)?;
        return Ok(nothing(components, best, unit, &network));
    }
    if let Some(symmetry) = &symmetry_of(&network)? {
        let best = rate::from_all_alike(&network, &symmetry.roots)?;
        let all = of_all(best.as_ref(), &network);
        if let Some(found) = orbits::trees(&network, symmetry, false, all).filter(|found| found.rate == all) {
            return Ok(alike(components, best, unit, (&network, found), symmetry, (one_root, false)));
        }
        unlike(&network)?;
    }
    let best = rate::from_all(&network)?;
    let Ratio { num, den } = best.as_ref().map_or(Ratio::ZERO, |limit| limit.rate);
    let equal = |weight: u64| (0..network.terminals).map(|root| (root, weight)).collect::<Vec<_>>();
    let split = switches::removed(&network.times(den)?, &equal(num));
    let reached = rate::from_all(&split.network)?.map_or(Ratio::ZERO, |limit| limit.rate);
    let reached = reached.min(Ratio::whole(num * split.factor));
    let finer = split.network.times(reached.den)?;
    let trees = reaching(&finer, &equal(reached.num));
    Ok(rates(components, best, unit, den, (finer, split.factor * reached.den), (trees, Vec::new())))
}

fn both_ways(network: Network, one_root: bool) -> Result<Rates, Refusal> {
    let (components, unit) = (network.components(), network.unit());
    let network = network.in_units_of(unit);
    if components.len() > 1 {
        let best = rate::both_ways(&network)?;
        return Ok(nothing(components, best, unit, &network));
    }
    if let Some(symmetry) = symmetry_of(&network)?.as_ref().filter(|_| orientation::is_even(&network)) {
        let all = rate::from_all_alike(&network, &symmetry.roots)?;
        // Half of what all-gathers reach, and the sets that prove that there is no more, if they prove it.
        let half = of_all(all.as_ref(), &network);
        let half = Ratio::new(half.num, 2 * half.den);
        let sets = all.as_ref().and_then(|limit| rate::images_of(&network, &limit.sets[0], &symmetry.images));
        if let Some(best) = sets.filter(|limit| limit.rate == half)
            && let Some(found) = orbits::trees(&network, symmetry, true, half).filter(|found| found.rate == half)
        {
            return Ok(alike(components, Some(best), unit, (&network, found), symmetry, (one_root, true)));
        }
    }
    unlike(&network)?;
    let best = rate::both_ways(&network)?;
    // Trees of all roots are spread as evenly as those that are used both ways have to be.
    let all = rate::from_all(&network)?.map_or(Ratio::ZERO, |limit| limit.rate);
    let roots: Vec<(u32, u64)> = (0..network.terminals).map(|root| (root, all.num)).collect();
    let split = switches::removed(&network.times(all.den)?, &roots);
    let found = orientation::trees(&split.network)?;
    let reached = found.as_ref().map_or(Ratio::ZERO, |found| found.rate);
    let halves = Ratio::new(all.num * u64::from(network.terminals) * split.factor, 2);
    if halves > reached && orientation::is_even(&network) {
        let equal: Vec<(u32, u64)> = roots.iter().map(|&(root, weight)| (root, weight * split.factor)).collect();
        let halves = orientation::in_halves(&split.network, &equal);
        let packed = (halves.trees, halves.opposite);
        return Ok(rates(components, best, unit, all.den, (halves.network, split.factor * 2), packed));
    }
    let Some(found) = found else {
        return Ok(rates(components, best, unit, all.den, (split.network, split.factor), (Vec::new(), Vec::new())));
    };
    let finer = split.network.times(found.factor)?;
    Ok(rates(components, best, unit, all.den, (finer, split.factor * found.factor), (found.trees, found.opposite)))
}

/// The answer where there are no trees.
fn nothing(components: Vec<Vec<u32>>, best: Option<Limit>, unit: u64, network: &Network) -> Rates {
    let none = Network { nodes: network.terminals, terminals: network.terminals, arcs: Vec::new() };
    rates(components, best, unit, 1, (none, 1), (Vec::new(), Vec::new()))
}

/// Symmetries of a network with many terminals.
///
/// # Errors
/// A [`Refusal`] if there are too many for trees without symmetries.
fn symmetry_of(network: &Network) -> Result<Option<Symmetry>, Refusal> {
    if network.terminals <= switches::MANY_TERMINALS {
        return Ok(None);
    }
    let symmetry = Symmetry::of(network);
    if symmetry.is_none() {
        unlike(network)?;
    }
    Ok(symmetry)
}

/// Refuses more terminals than trees are found for without symmetries.
fn unlike(network: &Network) -> Result<(), Refusal> {
    if network.terminals <= MOST_UNLIKE {
        return Ok(());
    }
    let message =
        format!("trees from all of {} GPUs that are placed in too many ways take too long", network.terminals);
    Err(Refusal::of("nodes", message).accepting(format!(
        "up to {MOST_UNLIKE} GPUs, more of them of up to {MOST_ROOTS} kinds by the machine's symmetries, or a collective with one root"
    )))
}

/// The rate of the whole vector.
fn of_all(limit: Option<&Limit>, network: &Network) -> Ratio {
    limit.map_or(Ratio::ZERO, |limit| Ratio::new(limit.rate.num * u64::from(network.terminals), limit.rate.den))
}

/// The answer of trees that symmetries make of those of one root.
fn alike(
    components: Vec<Vec<u32>>,
    best: Option<Limit>,
    unit: u64,
    (network, found): (&Network, orbits::Representative),
    symmetry: &Symmetry,
    (one_root, both_ways): (bool, bool),
) -> Rates {
    let found = if one_root { found } else { orbits::expanded(&found, symmetry) };
    let used = Network { nodes: network.terminals, terminals: network.terminals, arcs: found.arcs };
    let (used, opposite) = if both_ways { orientation::with_opposites(&used) } else { (used, Vec::new()) };
    let answer = rates(components, best, unit, 1, (used, found.factor), (found.trees, opposite));
    if !one_root {
        return answer;
    }
    let terminals = network.terminals;
    let generators = symmetry.generators.iter().map(|images| images[..terminals as usize].to_vec()).collect();
    let rate = Ratio::new(answer.rate.num * symmetry.images.len() as u64, answer.rate.den);
    Rates { rate, generators, ..answer }
}

/// Trees that are known to exist.
fn reaching(network: &Network, roots: &[(u32, u64)]) -> Vec<Tree> {
    let trees = exact::trees(network, roots);
    assert!(trees.is_some(), "a rate that cuts allow has trees");
    trees.unwrap_or_default()
}

fn rates(
    components: Vec<Vec<u32>>,
    best: Option<Limit>,
    unit: u64,
    coarse: u64,
    (network, fine): (Network, u64),
    (trees, opposite): (Vec<Tree>, Vec<Option<u32>>),
) -> Rates {
    let factor = coarse * fine;
    let weight: u64 = trees.iter().map(|tree| tree.weight).sum();
    let in_units = |ratio: Ratio, factor: u64| {
        let Ratio { num, den } = Ratio::new(unit, ratio.den * factor);
        let Ratio { num: whole, den } = Ratio::new(ratio.num, den);
        Ratio { num: num * whole, den }
    };
    Rates {
        components,
        best: best.map(|Limit { rate, sets, capacity }| Best {
            rate: in_units(rate, 1),
            sets,
            capacity: capacity * unit,
        }),
        rate: in_units(Ratio::whole(weight), factor),
        unit,
        factor,
        arcs: network.arcs.into_iter().map(|arc| (arc.from, arc.to, arc.capacity, arc.via)).collect(),
        opposite,
        trees: trees.into_iter().map(OneTree::from).collect(),
        generators: Vec::new(),
        widest: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_the_unit_of_the_question() {
        let star = r#""nodes": 4, "terminals": 3, "arcs": [[0,3,50],[3,0,50],[1,3,50],[3,1,50],[2,3,50],[3,2,50]]"#;
        let ask = |task: &str| -> serde_json::Value {
            serde_json::from_str(&answer(&format!("{{{star}, \"task\": {task}}}")).unwrap()).unwrap()
        };
        let root = ask(r#"{"kind": "from-root", "root": 1}"#);
        assert_eq!((&root["rate"]["num"], &root["best"]["capacity"]), (&50.into(), &50.into()));
        assert_eq!(ask(r#"{"kind": "rates", "each": false}"#)[2], root["rate"]);
        let each = ask(r#"{"kind": "to-each", "root": 1}"#);
        assert_eq!(ask(r#"{"kind": "rates", "each": true}"#)[2], each["rate"]);
        assert_eq!(
            (&each["rate"]["num"], &each["factor"], &each["trees"][1]["weight"]),
            (&75.into(), &2.into(), &1.into())
        );
        let all = ask(r#"{"kind": "from-all"}"#);
        assert_eq!(all["rate"], serde_json::json!({"num": 75, "den": 1}));
        assert_eq!(all["best"]["rate"], serde_json::json!({"num": 25, "den": 1}));
        let both = ask(r#"{"kind": "both-ways"}"#);
        assert_eq!(both["rate"], serde_json::json!({"num": 75, "den": 2}));
        assert_eq!(both["best"]["rate"], both["rate"]);
    }

    #[test]
    fn trees_of_one_root_stand_for_all() {
        // Ten servers of eight GPUs on a switch, with a card for each GPU on the rail of its place.
        let links = (0..80u32).flat_map(|gpu| [(gpu, 80 + gpu / 8, 9), (gpu, 90 + gpu % 8, 1)]);
        let arcs: Vec<_> = links.flat_map(|(a, b, c)| [(a, b, 7 * c), (b, a, 7 * c)]).collect();
        let ask = |kind: &str, one_root: bool| -> serde_json::Value {
            let task = serde_json::json!({"kind": kind, "one_root": one_root});
            let request = serde_json::json!({"nodes": 98, "terminals": 80, "arcs": arcs, "task": task});
            serde_json::from_str(&answer(&request.to_string()).unwrap()).unwrap()
        };
        for kind in ["from-all", "both-ways"] {
            let (one, all) = (ask(kind, true), ask(kind, false));
            let trees = |of: &serde_json::Value| of["trees"].as_array().unwrap().len();
            assert_eq!(trees(&all), 80 * trees(&one));
            assert_eq!((&one["rate"], &one["best"]), (&all["rate"], &all["best"]));
            assert!(one["generators"].as_array().is_some_and(|of| !of.is_empty()));
            assert_eq!(all["generators"].as_array().map(Vec::len), Some(0));
        }
        // What enters a server, for the 72 GPUs outside of it: 8 * 7 / 72, from each of 80.
        assert_eq!(ask("from-all", true)["rate"], serde_json::json!({"num": 560, "den": 9}));
        assert_eq!(ask("both-ways", true)["rate"], serde_json::json!({"num": 280, "den": 9}));
    }

    #[test]
    fn many_terminals_that_are_not_alike() {
        let arcs: Vec<_> = (0..257u32).flat_map(|gpu| [(gpu, 257, 1 + u64::from(gpu == 3)), (257, gpu, 1)]).collect();
        let task = serde_json::json!({"kind": "from-all"});
        let request = serde_json::json!({"nodes": 258, "terminals": 257, "arcs": arcs, "task": task});
        assert!(answer(&request.to_string()).unwrap_err().message.contains("257 GPUs"));
    }

    #[test]
    fn trees_from_given_roots_or_what_is_in_their_way() {
        let ask = |weight: u64| -> serde_json::Value {
            let network = r#""nodes": 2, "terminals": 2, "arcs": [[0, 1, 2], [1, 0, 1]]"#;
            let request = format!(
                "{{{network}, \"task\": {{\"kind\": \"given\", \"roots\": [[0, 2], [1, {weight}]], \"trees\": true}}}}"
            );
            serde_json::from_str(&answer(&request).unwrap()).unwrap()
        };
        assert_eq!((&ask(1)["violated"], ask(1)["trees"].as_array().unwrap().len()), (&serde_json::json!([]), 2));
        assert_eq!((&ask(2)["violated"], &ask(2)["trees"]), (&serde_json::json!([[0]]), &serde_json::json!([])));
    }

    #[test]
    fn what_is_no_question() {
        for (request, field) in [
            ("{", ""),
            (r#"{"nodes": 2, "terminals": 2, "arcs": [], "task": {"kind": "from-root", "root": 2}}"#, "task.root"),
            (
                r#"{"nodes": 2, "terminals": 1, "arcs": [], "task": {"kind": "cheapest", "root": 0, "costs": [], "least": []}}"#,
                "nodes",
            ),
            (
                r#"{"nodes": 1, "terminals": 1, "arcs": [], "task": {"kind": "multiplicative", "root": 0, "epsilon": 1}}"#,
                "task.epsilon",
            ),
        ] {
            assert_eq!(answer(request).unwrap_err().field.join("."), field);
        }
    }
}
