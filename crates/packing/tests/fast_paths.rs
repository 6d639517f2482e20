//! Faster ways to trees, held against the slow ones on random networks.

use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_packing::symmetry::Symmetry;
use syncline_packing::{Arc, Network, Ratio, exact, orbits, rate, request, switches};

/// Servers of GPUs on a switch, and of pairs of GPUs at a switch with a card, which is on a rail or on the one switch of all
/// cards; under other names.
fn cluster(
    servers: u32,
    pairs: u32,
    within: u64,
    card: u64,
    rails: bool,
    unit: u64,
    name: impl Fn(u32) -> u32,
) -> Network {
    let gpus = servers * pairs * 2;
    let (halves, tops) = (servers * pairs, if rails { pairs } else { 1 });
    let mut links = Vec::new();
    for gpu in 0..gpus {
        links.push((name(gpu), gpus + gpu / (2 * pairs), within));
        links.push((name(gpu), gpus + servers + gpu / 2, card));
    }
    for half in 0..halves {
        links.push((gpus + servers + half, gpus + servers + halves + half % tops, card));
    }
    let arcs = links.iter().flat_map(|&(a, b, c)| [Arc::new(a, b, c * unit), Arc::new(b, a, c * unit)]);
    Network::new(gpus + servers + halves + tops, gpus, arcs).unwrap()
}

/// Nodes under other names: terminals are those of a list, and what follows them those of another one.
fn renamed(network: &Network, terminals: &[u32], switches: &[u32]) -> Network {
    let name = |node: u32| match terminals.get(node as usize) {
        Some(&terminal) => terminal,
        None => network.terminals + switches[(node - network.terminals) as usize],
    };
    let arcs = network.arcs.iter().map(|arc| Arc::new(name(arc.from), name(arc.to), arc.capacity));
    Network::new(network.nodes, network.terminals, arcs).unwrap()
}

fn shuffled(count: u32) -> impl Strategy<Value = Vec<u32>> {
    Just((0..count).collect::<Vec<u32>>()).prop_shuffle()
}

/// Racks of trays, as those of GB200 GPUs: all GPUs of a rack on a switch, pairs of them at one of a tray's two processors, each of
/// which has two cards, on rails of their own.
fn racks(racks: u32, trays: u32) -> Network {
    let gpus = racks * trays * 4;
    let (processors, cards) = (gpus + racks, gpus + racks + gpus / 2);
    let rails = cards + gpus;
    let links = (0..gpus).flat_map(|gpu| {
        let (processor, card) = (processors + gpu / 2, cards + gpu);
        [(gpu, gpus + gpu / (trays * 4), 90), (gpu, processor, 20), (processor, card, 5), (card, rails + gpu % 4, 5)]
    });
    let arcs = links.flat_map(|(a, b, c)| [Arc::new(a, b, c), Arc::new(b, a, c)]);
    Network::new(rails + 4, gpus, arcs).unwrap()
}

/// DGX-1Vs: pairs of GPUs share a card, and GPUs are of two kinds, at the ends of a quad's double links and in their middle.
fn dgx1v(servers: u32) -> Network {
    let gpus = 8 * servers;
    let around = |ring: [u32; 8], c| (0..8).map(move |i| (ring[i], ring[(i + 1) % 8], c));
    let links = around([0, 3, 2, 1, 5, 6, 7, 4], 2).chain(around([0, 1, 3, 7, 5, 4, 6, 2], 1));
    let links: Vec<_> = links.collect();
    let within =
        (0..servers).flat_map(|server| links.iter().map(move |&(a, b, c)| (8 * server + a, 8 * server + b, c)));
    let cards = (0..gpus).map(|gpu| (gpu, gpus + gpu / 2, 1));
    let rails = (0..gpus / 2).map(|card| (gpus + card, gpus + gpus / 2 + card % 4, 1));
    let arcs = within.chain(cards).chain(rails).flat_map(|(a, b, c)| [Arc::new(a, b, c), Arc::new(b, a, c)]);
    Network::new(gpus + gpus / 2 + 4, gpus, arcs).unwrap()
}

fn asked(network: &Network, task: &Value) -> Value {
    let arcs: Vec<_> = network.arcs.iter().map(|arc| (arc.from, arc.to, arc.capacity)).collect();
    let request = json!({"nodes": network.nodes, "terminals": network.terminals, "arcs": arcs, "task": task});
    serde_json::from_str(&request::answer(&request.to_string()).unwrap()).unwrap()
}

fn ratio(of: &Value) -> Ratio {
    Ratio::new(of["num"].as_u64().unwrap(), of["den"].as_u64().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Trees of one root, by symmetries, are as good as those of all roots that were found without.
    #[test]
    fn symmetries_lose_nothing(
        servers in 2u32..5, pairs in 1u32..4, within in 1u64..9, card in 1u64..9,
        rails in any::<bool>(), unit in prop::sample::select(vec![1u64, 7, 1_234_567]), step in 1u32..24,
    ) {
        let gpus = servers * pairs * 2;
        let step = (step..).find(|&s| (1..=gpus).filter(|d| gpus % d == 0 && s % d == 0).count() == 1).unwrap();
        let network = cluster(servers, pairs, within, card, rails, unit, |gpu| gpu * step % gpus);
        let symmetry = Symmetry::of(&network).expect("all GPUs are alike");
        for (kind, both) in [("from-all", false), ("both-ways", true)] {
            let slow = asked(&network, &json!({"kind": kind}));
            let fast = orbits::trees(&network, &symmetry, both, Ratio::whole(u64::MAX));
            prop_assert_eq!(fast.map(|found| found.rate), Some(ratio(&slow["rate"])), "{}", kind);
        }
        let all = rate::from_all(&network).unwrap().unwrap();
        prop_assert_eq!(rate::from_all_alike(&network, &symmetry.roots).unwrap().unwrap().rate, all.rate);
    }

    /// Symmetries of racks are found whatever nodes are called, as many as there are; of DGX-1Vs there may be fewer. They lose nothing.
    #[test]
    fn names_decide_nothing(
        (network, dgx, terminals, switches) in (2u32..4, 1u32..4, any::<bool>()).prop_flat_map(|(count, trays, dgx)| {
            let network = if dgx { dgx1v(count) } else { racks(count, trays) };
            let names = (shuffled(network.terminals), shuffled(network.nodes - network.terminals));
            names.prop_map(move |(terminals, switches)| (network.clone(), dgx, terminals, switches))
        }),
    ) {
        let other = renamed(&network, &terminals, &switches);
        let symmetry = Symmetry::of(&other);
        prop_assert!(dgx || symmetry.as_ref().is_some_and(|found| found.roots.len() == 1));
        let Some(symmetry) = symmetry else { return Ok(()) };
        for (kind, both) in [("from-all", false), ("both-ways", true)] {
            let slow = asked(&network, &json!({"kind": kind}));
            let fast = orbits::trees(&other, &symmetry, both, Ratio::whole(u64::MAX));
            prop_assert!(dgx || fast.is_some());
            prop_assert!(fast.is_none_or(|found| found.rate == ratio(&slow["rate"])), "{}", kind);
        }
    }

    /// So are those of networks that consist of equal parts around a ring, whatever is in them, if they are found at all.
    #[test]
    fn parts_around_a_ring(
        (parts, of_part, capacity, terminals, switches) in (2u32..5, 1u32..4, 0u32..2).prop_flat_map(|(parts, of_part, more)| {
            let nodes = of_part + more;
            let capacity = prop::collection::vec(0u64..4, (nodes * nodes * parts) as usize);
            (Just(parts), Just(of_part), capacity, shuffled(parts * of_part), shuffled(parts * more))
        }),
    ) {
        let nodes = of_part + switches.len() as u32 / parts;
        let number = |part: u32, node: u32| {
            if node < of_part { part * of_part + node } else { parts * of_part + part * (nodes - of_part) + node - of_part }
        };
        let ends = (0..parts * nodes).flat_map(|a| (0..parts * nodes).map(move |b| (a, b)));
        let arcs = ends.filter(|(a, b)| a != b).flat_map(|(a, b)| {
            let further = (b / nodes + parts - a / nodes) % parts;
            let carries = capacity[((further * nodes + a % nodes) * nodes + b % nodes) as usize];
            let [a, b] = [a, b].map(|node| number(node / nodes, node % nodes));
            [Arc::new(a, b, carries), Arc::new(b, a, carries)]
        });
        let network = Network::new(parts * nodes, parts * of_part, arcs).unwrap();
        let network = renamed(&network, &terminals, &switches);
        let symmetry = Symmetry::of(&network).expect("one at least");
        if network.components().len() == 1 && network.terminals > 1 {
            let slow = asked(&network, &json!({"kind": "from-all"}));
            let fast = orbits::trees(&network, &symmetry, false, Ratio::whole(u64::MAX));
            prop_assert!(fast.is_none_or(|found| found.rate == ratio(&slow["rate"])));
            let alike = rate::from_all_alike(&network, &symmetry.roots).unwrap().unwrap();
            prop_assert_eq!(Some(alike.rate), rate::from_all(&network).unwrap().map(|limit| limit.rate));
        }
    }

    /// Rings in place of fair crossbars, and all switches at once, keep the rate from every root.
    #[test]
    fn rings_lose_nothing(
        terminals in 2u32..7, matrix in prop::collection::vec(0u64..6, 45), unit in prop::sample::select(vec![1u64, 11]),
    ) {
        let pairs = (0u32..10).flat_map(|a| (0..a).map(move |b| (a, b)));
        let arcs = pairs.zip(matrix).flat_map(|((a, b), c)| [Arc::new(a, b, c * unit), Arc::new(b, a, c * unit)]);
        let network = Network::new(10, terminals, arcs).unwrap();
        for root in 0..terminals {
            let (few, many) = (json!({"kind": "from-root", "root": root, "few": true}), json!({"kind": "from-root", "root": root}));
            let (few, many) = (asked(&network, &few), asked(&network, &many));
            prop_assert_eq!(&few["rate"], &many["rate"]);
            prop_assert_eq!(&few["best"], &many["best"]);
        }
    }
}

/// Of many terminals with unequal links, as in a list of links, over two layers of switches.
#[test]
fn many_unequal_terminals() {
    let gpus = 96;
    let width = |gpu: u32| 3 + u64::from(gpu % 5);
    let links = (0..gpus).map(|gpu| (gpu, gpus + gpu / 8, width(gpu)));
    let leaves = (0..gpus / 8).map(|leaf| {
        let below: u64 = (8 * leaf..8 * leaf + 8).map(width).sum();
        (gpus + leaf, gpus + gpus / 8, below)
    });
    let arcs: Vec<Arc> = links.chain(leaves).flat_map(|(a, b, c)| [Arc::new(a, b, c), Arc::new(b, a, c)]).collect();
    let network = Network::new(gpus + gpus / 8 + 1, gpus, arcs).unwrap();
    assert_eq!(Symmetry::of(&network), None);
    for root in [0, 7, 95] {
        let best = rate::from_root(&network, root).unwrap().rate.num;
        assert_eq!(best, 3);
        let split = switches::removed(&network, &[(root, best)]);
        let trees = exact::trees(&split.network, &[(root, best * split.factor)]).unwrap();
        assert_eq!(trees.iter().map(|tree| tree.weight).sum::<u64>(), best * split.factor);
    }
}

/// Without a way from one half to the other there are no trees, however many terminals there are.
#[test]
fn many_terminals_apart() {
    let arcs: Vec<Arc> =
        (0..300u32).flat_map(|gpu| [Arc::new(gpu, 300 + gpu / 150, 2), Arc::new(300 + gpu / 150, gpu, 2)]).collect();
    let network = Network::new(302, 300, arcs).unwrap();
    for task in [json!({"kind": "from-root", "root": 3}), json!({"kind": "from-all"})] {
        let answer = asked(&network, &task);
        assert_eq!(ratio(&answer["rate"]), Ratio::ZERO);
        assert_eq!(ratio(&answer["best"]["rate"]), Ratio::ZERO);
        assert_eq!(answer["trees"], json!([]));
        assert_eq!(answer["components"].as_array().unwrap().len(), 2);
    }
}
