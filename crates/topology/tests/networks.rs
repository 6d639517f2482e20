//! Networks of switches as graphs: how many ways there are, and which of them routes take.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use syncline_core::{NodeId, PortId, Ps, Rate};
use syncline_topology::{Fabric, Graph, GraphError, GraphLink, GraphNode, LinkSpec, Routing};

const RATE: u64 = 12_500_000_000;

/// Links as pairs of nodes, with class and rate.
type Pairs = Vec<(u32, u32, u8, u64)>;

fn graph(npus: u32, nodes: u32, pairs: &Pairs, routing: Routing) -> Result<Graph, GraphError> {
    let names = (0..nodes).map(|n| GraphNode { name: format!("N{n}"), forwards: true }).collect();
    let both = |&(a, b, class, rate): &(u32, u32, u8, u64)| {
        let (from, to, spec) = (NodeId(a), NodeId(b), LinkSpec::new(Rate::new(rate).unwrap(), Ps(500_000), class));
        [GraphLink { from, to, spec }, GraphLink { from: to, to: from, spec }]
    };
    let everybody: Vec<NodeId> = (0..npus).map(NodeId).collect();
    let classes = ["a", "b"].map(String::from).to_vec();
    Graph::new(names, npus, classes, pairs.iter().flat_map(both).collect(), &everybody)?.with_routing(routing)
}

/// `leaves` leaf switches with `hosts` hosts each, all of them linked to all spines.
fn leaf_spine(leaves: u32, hosts: u32, spines: u32) -> Graph {
    let npus = leaves * hosts;
    let up = (0..npus).map(|host| (host, npus + host / hosts, 0, RATE));
    let across = (0..leaves).flat_map(|leaf| (0..spines).map(move |s| (npus + leaf, npus + leaves + s, 0, RATE)));
    graph(npus, npus + leaves + spines, &up.chain(across).collect(), Routing::ByDestination).unwrap()
}

/// A three-level fat tree of switches with `2 * half` ports, with `wider` times as many hosts at every edge switch.
fn fat_tree(half: u32, wider: u32) -> Graph {
    let (pods, own) = (2 * half, half * wider);
    let npus = pods * half * own;
    let edge = |pod: u32, i: u32| npus + pod * half + i;
    let aggregation = |pod: u32, i: u32| npus + pods * half + pod * half + i;
    let core = |i: u32, j: u32| npus + 2 * pods * half + i * half + j;
    let mut pairs: Pairs = (0..npus).map(|host| (host, npus + host / own, 0, RATE)).collect();
    for (pod, i, j) in (0..pods).flat_map(|pod| (0..half * half).map(move |n| (pod, n / half, n % half))) {
        pairs.push((edge(pod, i), aggregation(pod, j), 0, RATE));
        pairs.push((aggregation(pod, i), core(i, j), 0, RATE));
    }
    graph(npus, npus + 2 * pods * half + half * half, &pairs, Routing::ByDestination).unwrap()
}

/// `groups` super-nodes of `size` NPUs with `switches` local switches each, and one global switch.
fn super_nodes(groups: u32, size: u32, switches: u32, global: u64) -> Result<Graph, GraphError> {
    let npus = groups * size;
    let local = (0..npus).flat_map(|n| (0..switches).map(move |s| (n, npus + n / size * switches + s, 0, RATE)));
    let last = npus + groups * switches;
    let pairs = local.chain((0..npus).map(|n| (n, last, 1, global))).collect();
    graph(npus, last + 1, &pairs, Routing::InGroups { size, class: 0 })
}

/// The links and the nodes of a way, which arrives.
fn followed(fabric: &Graph, (src, dst): (u32, u32), ports: &[PortId]) -> (Vec<u32>, Vec<u32>) {
    let (mut at, mut nodes, mut links) = (NodeId(src), vec![src], Vec::new());
    for port in ports {
        links.push(fabric.first_link(at) + u32::from(port.0));
        at = fabric.next(at, *port).0;
        nodes.push(at.0);
    }
    assert_eq!(at, NodeId(dst), "a way arrives");
    (links, nodes)
}

fn route(fabric: &Graph, src: u32, dst: u32) -> Vec<u32> {
    let mut path = Vec::new();
    fabric.route(NodeId(src), NodeId(dst), &mut path);
    followed(fabric, (src, dst), &path).0
}

/// All ways between two NPUs: valid, distinct, as long as each other, through switches only, the fabric's own first. Returns how
/// many there are and how long they are.
fn all_ways(fabric: &Graph, src: u32, dst: u32) -> (usize, usize) {
    let ways = fabric.routes(NodeId(src), NodeId(dst));
    let mut seen = BTreeSet::new();
    for choice in 0..ways {
        let mut path = Vec::new();
        fabric.route_by(NodeId(src), NodeId(dst), choice, &mut path);
        let (links, nodes) = followed(fabric, (src, dst), &path);
        let inner = nodes.get(1..nodes.len() - 1).unwrap_or_default();
        assert!(inner.iter().all(|&node| node >= fabric.npus()), "hosts do not forward");
        if choice == 0 {
            assert_eq!(links, route(fabric, src, dst), "number 0 is the fabric's own");
        }
        seen.insert(links);
    }
    let lengths: BTreeSet<usize> = seen.iter().map(Vec::len).collect();
    assert_eq!((seen.len(), lengths.len()), (usize::from(ways), 1), "ways are distinct and of one length");
    let mut again = Vec::new();
    fabric.route_by(NodeId(src), NodeId(dst), ways, &mut again);
    assert_eq!(followed(fabric, (src, dst), &again).0, route(fabric, src, dst), "numbers begin again");
    (usize::from(ways), lengths.into_iter().next().unwrap_or(0))
}

/// How many of these messages cross each link.
fn loads(fabric: &Graph, pairs: impl Iterator<Item = (u32, u32)>) -> BTreeMap<u32, u32> {
    let mut loads = BTreeMap::new();
    for (src, dst) in pairs {
        route(fabric, src, dst).into_iter().for_each(|link| *loads.entry(link).or_default() += 1);
    }
    loads
}

/// The most messages that a link carries when every host sends to the one `by` numbers further on.
fn most_of_shift(fabric: &Graph, by: u32) -> u32 {
    let npus = fabric.npus();
    loads(fabric, (0..npus).map(|n| (n, (n + by) % npus))).into_values().max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_leaf_spine_has_a_way_over_every_spine(
        leaves in 1u32..7, hosts in 1u32..7, spines in 1u32..7, a in any::<u32>(), b in any::<u32>(),
    ) {
        let fabric = leaf_spine(leaves, hosts, spines);
        let npus = leaves * hosts;
        prop_assert_eq!(fabric.links(), 2 * (npus + leaves * spines));
        let (src, dst) = (a % npus, b % npus);
        let expected = match (src == dst, src / hosts == dst / hosts) {
            (true, _) => (1, 0),
            (false, true) => (1, 2),
            (false, false) => (spines as usize, 4),
        };
        prop_assert_eq!(all_ways(&fabric, src, dst), expected);
    }

    /// With as many spines as hosts at a leaf, nothing is in the way of a shift; with fewer, links up carry what they have to,
    /// and no more.
    #[test]
    fn a_shift_loads_the_links_of_a_leaf_evenly(leaves in 2u32..7, spines in 1u32..7, wider in 1u32..4, by in any::<u32>()) {
        let fabric = leaf_spine(leaves, spines * wider, spines);
        prop_assert!(most_of_shift(&fabric, by % fabric.npus()) <= wider);
    }

    #[test]
    fn a_fat_tree_has_as_many_ways_as_cores(half in 1u32..5, wider in 1u32..3, a in any::<u32>(), b in any::<u32>()) {
        let fabric = fat_tree(half, wider);
        let npus = 2 * half * half * half * wider;
        prop_assert_eq!(fabric.npus(), npus);
        prop_assert_eq!(fabric.links(), 2 * (npus + 2 * 2 * half * half * half));
        let (src, dst) = (a % npus, b % npus);
        let (edge, pod) = (half * wider, half * half * wider);
        let expected = match (src == dst, src / edge == dst / edge, src / pod == dst / pod) {
            (true, ..) => (1, 0),
            (_, true, _) => (1, 2),
            (_, _, true) => (half as usize, 4),
            _ => ((half * half) as usize, 6),
        };
        prop_assert_eq!(all_ways(&fabric, src, dst), expected);
    }

    /// D-mod-k routing on a non-blocking fat tree: whatever the shift, no link carries two messages.
    #[test]
    fn shifts_do_not_collide_on_a_fat_tree(half in 1u32..5, by in any::<u32>()) {
        let fabric = fat_tree(half, 1);
        prop_assert_eq!(most_of_shift(&fabric, 1 + by % (fabric.npus() - 1)), 1);
    }

    /// Half of a fat tree's hosts can send to the other half at once, over as many links into the cores as there are senders.
    #[test]
    fn the_bisection_of_a_fat_tree_is_that_of_its_hosts(half in 1u32..5) {
        let fabric = fat_tree(half, 1);
        let npus = fabric.npus();
        let cores = fabric.nodes() - half * half..fabric.nodes();
        let of_cores: u32 = cores.clone().map(|core| u32::from(fabric.ports(NodeId(core)))).sum();
        prop_assert_eq!(of_cores, npus);
        let across = loads(&fabric, (0..npus / 2).map(|n| (n, n + npus / 2)));
        prop_assert_eq!(across.values().max(), Some(&1));
        let into_cores = across.keys().filter(|&&link| is_into(&fabric, link, &cores)).count();
        prop_assert_eq!(into_cores as u32, npus / 2);
    }

    /// Between members of a super-node: two hops through switch (a + b) mod switches, the only way, however fast the
    /// global switch is. Between super-nodes: two hops over the global switch.
    #[test]
    fn super_nodes_have_one_way_each(
        groups in 1u32..5, size in 2u32..10, faster in any::<bool>(), a in any::<u32>(), b in any::<u32>(),
    ) {
        let (switches, npus) = (size - 1, groups * size);
        let fabric = super_nodes(groups, size, switches, if faster { 20 * RATE } else { RATE / 20 }).unwrap();
        prop_assert_eq!(fabric.links(), 2 * npus * (switches + 1));
        let (src, dst) = (a % npus, b % npus);
        prop_assume!(src != dst);
        prop_assert_eq!(all_ways(&fabric, src, dst), (1, 2));
        let mut path = Vec::new();
        fabric.route(NodeId(src), NodeId(dst), &mut path);
        let through = followed(&fabric, (src, dst), &path).1[1];
        let group = src / size;
        let local = npus + group * switches + (src % size + dst % size) % switches;
        prop_assert_eq!(through, if group == dst / size { local } else { npus + groups * switches });
    }
}

fn is_into(fabric: &Graph, link: u32, nodes: &std::ops::Range<u32>) -> bool {
    let sender = (0..fabric.nodes()).rev().find(|&n| fabric.first_link(NodeId(n)) <= link).unwrap();
    let port = PortId((link - fabric.first_link(NodeId(sender))) as u16);
    nodes.contains(&fabric.next(NodeId(sender), port).0.0)
}

/// The rule of machines does not spread shifts as that of Clos networks does: the test above can fail.
#[test]
fn shifts_collide_where_the_source_chooses() {
    let by_source = fat_tree(3, 1).with_routing(Routing::BySource).unwrap();
    assert!((1..by_source.npus()).any(|by| most_of_shift(&by_source, by) > 1));
}

/// What one member of a super-node of eight sends to the others: those in between have a link that two of their peers
/// share and one that is idle, since none of them is at (a + a) mod 7.
#[test]
fn two_peers_share_a_local_switch() {
    let fabric = super_nodes(1, 8, 7, RATE).unwrap();
    for member in 0..8 {
        let loads = loads(&fabric, (0..8).filter(|&peer| peer != member).map(|peer| (member, peer)));
        let out = |port: u32| loads.get(&(fabric.first_link(NodeId(member)) + port)).copied().unwrap_or(0);
        let mut of_links: Vec<u32> = (0..8).map(out).collect();
        of_links.sort_unstable();
        let expected = if member == 0 || member == 7 { [0, 1, 1, 1, 1, 1, 1, 1] } else { [0, 0, 1, 1, 1, 1, 1, 2] };
        assert_eq!(of_links, expected, "member {member}");
    }
}

#[test]
fn groups_need_links_of_their_class() {
    let pairs = vec![(0, 2, 1, RATE), (1, 2, 1, RATE)];
    let class = |class| graph(2, 3, &pairs, Routing::InGroups { size: 2, class }).err();
    assert_eq!(class(0), Some(GraphError::Disconnected { from: "N1".into(), to: "N0".into() }));
    assert_eq!(class(2), Some(GraphError::NoSuchGroups { size: 2, class: 2 }));
    assert_eq!(class(1), None);
    let of_none = graph(2, 3, &pairs, Routing::InGroups { size: 0, class: 1 });
    assert_eq!(of_none.err(), Some(GraphError::NoSuchGroups { size: 0, class: 1 }));
}

/// Of two ways of as many hops that one is taken on which a probe arrives first, hop by hop: for its latency, for its rate, or
/// for both together.
#[test]
fn of_ways_of_equal_hops_the_fastest_is_taken() {
    let (few, usual, many) = (RATE / 2, RATE, 2 * RATE);
    let (near, far, farthest) = (Ps(1000), Ps(2_000_000), Ps(1_000_000_000));
    for (fast, slow) in [
        ((usual, near), (usual, far)),
        ((many, near), (usual, near)),
        ((many, far), (usual, near)), // which takes 84 us for 1 MiB, more than twice as long
        ((few, near), (usual, farthest)), // where the bytes take 84 us less, and each link 1 ms more
    ] {
        for (own, other) in [(2, 3), (3, 2)] {
            let links = [(own, fast), (other, slow)].into_iter().flat_map(|(switch, (rate, latency))| {
                let spec = LinkSpec::new(Rate::new(rate).unwrap(), latency, 0);
                let link = |from, to| GraphLink { from: NodeId(from), to: NodeId(to), spec };
                [link(0, switch), link(switch, 0), link(1, switch), link(switch, 1)]
            });
            let names = (0..4).map(|n| GraphNode { name: format!("N{n}"), forwards: true }).collect();
            let links: Vec<GraphLink> = links.collect();
            let fabric = Graph::new(names, 2, vec!["a".into()], links, &[NodeId(0), NodeId(1)]).unwrap();
            for (src, dst) in [(0, 1), (1, 0)] {
                let mut path = Vec::new();
                fabric.route(NodeId(src), NodeId(dst), &mut path);
                assert_eq!(followed(&fabric, (src, dst), &path).1, [src, own, dst], "{fast:?} {slow:?}");
                assert_eq!(fabric.routes(NodeId(src), NodeId(dst)), 1, "they are not as good");
            }
        }
    }
}

/// More ways than a byte counts: 256 between the pods of a fat tree of switches with 32 ports. A chain of diamonds has more
/// than 16 bits count.
#[test]
fn ways_beyond_a_byte() {
    let fabric = fat_tree(16, 1);
    assert_eq!(all_ways(&fabric, 0, fabric.npus() - 1), (256, 6));
    let steps = 17;
    let ends = |i: u32| 2 + 3 * i;
    let mut pairs: Pairs = vec![(0, ends(0), 0, RATE), (1, ends(steps), 0, RATE)];
    for (i, middle) in (0..steps).flat_map(|i| [(i, 1), (i, 2)]) {
        pairs.extend([(ends(i), ends(i) + middle, 0, RATE), (ends(i) + middle, ends(i + 1), 0, RATE)]);
    }
    let diamonds = graph(2, ends(steps) + 1, &pairs, Routing::ByDestination).unwrap();
    let way = |choice| {
        let mut path = Vec::new();
        diamonds.route_by(NodeId(0), NodeId(1), choice, &mut path);
        followed(&diamonds, (0, 1), &path).0
    };
    assert_eq!(diamonds.routes(NodeId(0), NodeId(1)), Graph::MAX_WAYS);
    let sampled: BTreeSet<Vec<u32>> = (0..Graph::MAX_WAYS).step_by(101).map(way).collect();
    assert_eq!(sampled.len(), (0..Graph::MAX_WAYS).step_by(101).count());
    assert_eq!(diamonds.choice_over(1), Some(Graph::MAX_WAYS + Graph::MAX_THROUGH + 1));
}

/// Parallel links are ways of their own, also those at a destination's switch.
#[test]
fn parallel_links_are_ways() {
    let pairs = vec![(0, 2, 0, RATE), (0, 2, 0, RATE), (1, 2, 0, RATE), (1, 2, 0, RATE), (1, 2, 0, RATE / 2)];
    let fabric = graph(2, 3, &pairs, Routing::ByDestination).unwrap();
    assert_eq!(all_ways(&fabric, 0, 1), (4, 2));
    let of_machines = graph(2, 3, &pairs, Routing::BySource).unwrap();
    assert_eq!(all_ways(&of_machines, 1, 0), (4, 2));
}

/// A way through named switches, which may be longer than the fabric's own or slower, and what is no way.
#[test]
fn ways_through_named_nodes() {
    // A link, a switch beside it, and two switches in a row.
    let slow = RATE / 2;
    let pairs =
        vec![(0, 1, 0, RATE), (0, 2, 0, slow), (2, 1, 0, slow), (0, 3, 0, RATE), (3, 4, 0, RATE), (4, 1, 0, RATE)];
    let fabric = graph(2, 5, &pairs, Routing::BySource).unwrap();
    let choice = |way: &[u32]| fabric.choice_through(&way.iter().copied().map(NodeId).collect::<Vec<_>>());
    let passed = |src: u32, dst: u32, choice: Option<u16>| {
        let mut path = Vec::new();
        fabric.route_by(NodeId(src), NodeId(dst), choice.expect("there is one"), &mut path);
        (!path.is_empty()).then(|| followed(&fabric, (src, dst), &path).1)
    };
    let [direct, beside, forth, back] = [&[] as &[u32], &[2], &[3, 4], &[4, 3]].map(choice);
    assert_eq!(passed(0, 1, direct), Some(vec![0, 1]));
    assert_eq!(passed(0, 1, beside), Some(vec![0, 2, 1]));
    assert_eq!(passed(1, 0, beside), Some(vec![1, 2, 0]));
    assert_eq!(passed(0, 1, forth), Some(vec![0, 3, 4, 1]));
    assert_eq!(passed(1, 0, back), Some(vec![1, 4, 3, 0]));
    assert_eq!((passed(0, 1, back), passed(1, 0, forth)), (None, None));
    assert_eq!(choice(&[3, 4]), forth, "it is asked for again");
    assert_eq!((choice(&[0]), choice(&[5])), (None, None), "these do not forward");
}
