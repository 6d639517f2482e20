//! Symmetries of a network: permutations of its nodes that keep every capacity and lead a terminal to any other one, or to as many
//! others as they can.
//!
//! They are looked for by refining colours. Two copies of the network are coloured alike, a node of the first one and what is
//! to be its image get a colour of their own, and nodes are told apart by the colours around them until nothing changes
//! (Weisfeiler and Leman 1968; McKay 1981). If a colour then has more nodes in one copy than in the other, there is no such
//! symmetry; nodes that are alone with their colour have found their image; of others one is chosen.
//!
//! Choices are made so that the symmetries are a group of which no member but one leads a terminal to itself. It grows by a factor
//! each time, with a permutation that commutes with all members and moves the terminals that they have joined in cycles of equal
//! length: the GPUs of every server in a cycle, then the servers. It begins with the terminals that few others look like: those
//! that belong together most closely, whatever their numbers are. In such a group, the image of a terminal looks from there as
//! that of any other terminal that it leads to looks from the other one, which leaves few choices; some more are tried where
//! none of them leads on. Where terminals are of several kinds, as the GPUs at the ends and in the middle of a DGX-1V's quads, the
//! group has as many members as there are terminals of each. A network may have symmetries that are not found. What is found is
//! checked arc by arc.

use crate::network::Network;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Permutations of all nodes, a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symmetry {
    /// Images of each node, for each of the permutations.
    pub images: Vec<Vec<u32>>,
    /// Permutations of which the others are products.
    pub generators: Vec<Vec<u32>>,
    /// Terminals, the first of those that the permutations lead to each other.
    pub roots: Vec<u32>,
    /// For each terminal, the places of its root and of the one permutation that leads there from the root.
    pub from: Vec<(u32, u32)>,
}

/// Permutations that are tried at most, times terminals; with many terminals each takes long.
const TRIES: usize = 100_000;
/// The least and the largest number of them.
const FEWEST_TRIES: usize = 64;
const MOST_TRIES: usize = 1000;
const NONE: u32 = u32::MAX;
/// Most kinds of terminals. With more, it would take no less time to look for trees of all terminals.
pub const MOST_ROOTS: usize = 16;

impl Symmetry {
    /// The largest group of symmetries that is found, if terminals are of few kinds by it.
    pub fn of(network: &Network) -> Option<Symmetry> {
        let sides = Sides::new(network);
        let terminals = network.terminals as usize;
        let identity: Vec<u32> = (0..network.nodes).collect();
        let mut growing = Growing {
            sides: &sides,
            base: sides.refined()?,
            away: sides.away(0),
            tries: (TRIES / terminals).clamp(FEWEST_TRIES, MOST_TRIES),
            best: (Vec::new(), Vec::new()),
        };
        growing.whole(vec![identity], Vec::new());
        let (images, generators) = growing.best;
        Symmetry::of_group(terminals, images, generators).filter(|symmetry| symmetry.roots.len() <= MOST_ROOTS)
    }

    /// A group of which no two members lead a terminal to the same one.
    fn of_group(terminals: usize, images: Vec<Vec<u32>>, generators: Vec<Vec<u32>>) -> Option<Symmetry> {
        let (mut roots, mut from) = (Vec::new(), vec![(NONE, NONE); terminals]);
        for terminal in 0..terminals as u32 {
            if from[terminal as usize].0 == NONE {
                for (member, leads) in (0..).zip(&images) {
                    let there = &mut from[leads[terminal as usize] as usize];
                    if there.0 != NONE {
                        return None;
                    }
                    *there = (roots.len() as u32, member);
                }
                roots.push(terminal);
            }
        }
        Some(Symmetry { images, generators, roots, from })
    }
}

/// Permutations that commute, one for each terminal that they lead a terminal to.
type Group = Vec<Vec<u32>>;

/// A group in the making.
struct Growing<'a> {
    sides: &'a Sides<'a>,
    /// The coarsest colours.
    base: Colours,
    /// Distances from terminal 0.
    away: Vec<u32>,
    /// Permutations that may still be tried.
    tries: usize,
    /// The largest group so far, and its generators.
    best: (Group, Vec<Vec<u32>>),
}

impl Growing<'_> {
    /// The group with more generators until it leads to every terminal; if it does not, none. A generator after which there are no
    /// others is given up for another one: of three pairs, two may have changed places, and the third one has nobody left.
    fn whole(&mut self, group: Group, generators: Vec<Vec<u32>>) -> Option<()> {
        let terminals = self.sides.network.terminals as usize;
        if group.len() > self.best.0.len() {
            self.best = (group.clone(), generators.clone());
        }
        if group.len() == terminals {
            return Some(());
        }
        for target in self.targets(&group) {
            let blocks = terminals / group.len();
            let divisors = (2..=blocks).filter(|length| blocks.is_multiple_of(*length));
            let mut seen = Vec::new();
            // The length that comes about by itself is mostly a good one.
            for length in std::iter::once(None).chain(divisors.map(Some)) {
                if length.is_some_and(|length| seen.contains(&length)) {
                    continue;
                }
                self.tries = self.tries.checked_sub(1)?;
                let Some((generator, length)) = Search::run(self.sides, &self.base, &group, target, length) else {
                    continue;
                };
                seen.push(length);
                if self.sides.keeps(&generator)
                    && let Some(larger) = grown(&group, &generator, length, terminals)
                {
                    let more = [&generators[..], &[generator]].concat();
                    if self.whole(larger, more).is_some() {
                        return Some(());
                    }
                }
            }
        }
        None
    }

    /// Terminals that the group does not lead to yet, those first that few look like, and then the nearest ones. Of those that look
    /// alike from terminal 0, one.
    fn targets(&self, group: &[Vec<u32>]) -> Vec<u32> {
        let mut reached = vec![false; self.sides.network.terminals as usize];
        for member in group {
            reached[member[0] as usize] = true;
        }
        let colours = self.sides.looks(&self.base, 0);
        let mut alike: BTreeMap<u32, u32> = BTreeMap::new();
        for &colour in &colours[..reached.len()] {
            *alike.entry(colour).or_default() += 1;
        }
        let mut targets: Vec<u32> =
            (0..self.sides.network.terminals).filter(|&terminal| !reached[terminal as usize]).collect();
        targets.retain(|&terminal| self.base.of[terminal as usize] == self.base.of[0]);
        targets.sort_by_key(|&terminal| {
            let at = terminal as usize;
            (alike.get(&colours[at]), self.away[at], terminal)
        });
        let mut seen = Vec::new();
        targets.retain(|&terminal| {
            let looks = (self.away[terminal as usize], colours[terminal as usize]);
            let new = !seen.contains(&looks);
            seen.push(looks);
            new
        });
        targets
    }
}

/// A group with one more generator, whose cycles of blocks have a length; none if it is no group, or if two members lead a terminal
/// to the same one.
fn grown(group: &[Vec<u32>], generator: &[u32], length: usize, terminals: usize) -> Option<Group> {
    let begun = group.len();
    if begun * length > terminals {
        return None;
    }
    let mut group = group.to_vec();
    let mut reached = vec![false; terminals];
    for member in &group {
        reached[member[0] as usize] = true;
    }
    for _ in 1..length {
        for member in group.len() - begun..group.len() {
            let next: Vec<u32> = group[member].iter().map(|&node| generator[node as usize]).collect();
            if std::mem::replace(reached.get_mut(next[0] as usize)?, true) {
                return None;
            }
            group.push(next);
        }
    }
    // Cycles of other lengths beside these would not close, and what has been made would be no group.
    let closes: Vec<u32> = group[group.len() - begun].iter().map(|&node| generator[node as usize]).collect();
    if !group[..begun].contains(&closes) {
        return None;
    }
    let mut led_by = vec![NONE; terminals];
    for terminal in 0..terminals {
        for member in &group {
            if std::mem::replace(&mut led_by[member[terminal] as usize], terminal as u32) == terminal as u32 {
                return None;
            }
        }
    }
    Some(group)
}

/// The network, and its arcs at each node: whether they leave it, their capacity, and the other end.
struct Sides<'a> {
    network: &'a Network,
    around: Vec<Vec<(bool, u64, u32)>>,
    capacity: BTreeMap<(u32, u32), u64>,
    /// See `looks`; found where it is asked for.
    looks: Vec<OnceCell<Vec<u32>>>,
    /// The same in ascending order.
    sorted: Vec<OnceCell<Vec<u32>>>,
}

impl Sides<'_> {
    fn new(network: &Network) -> Sides<'_> {
        let mut capacity: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for arc in &network.arcs {
            *capacity.entry((arc.from, arc.to)).or_default() += arc.capacity;
        }
        let mut around = vec![Vec::new(); network.nodes as usize];
        for (&(from, to), &carries) in &capacity {
            around[from as usize].push((true, carries, to));
            around[to as usize].push((false, carries, from));
        }
        let looks = vec![OnceCell::new(); network.nodes as usize];
        Sides { network, around, capacity, sorted: looks.clone(), looks }
    }

    /// How all nodes look from one: their colours once it has its own. What looks alike from two nodes has the same number, since
    /// numbers follow from colours alone.
    fn looks(&self, base: &Colours, from: u32) -> &[u32] {
        self.looks[from as usize].get_or_init(|| {
            let nodes = self.around.len();
            let (mut colours, mut dirty) = (base.clone(), Vec::new());
            if colours.members[colours.of[from as usize] as usize].len() > 2 {
                colours.recolour(self, &[from, from + nodes as u32], &mut dirty);
                // Both copies are the same.
                let _ = colours.refine(self, dirty);
            }
            colours.of.truncate(nodes);
            colours.of
        })
    }

    /// What is seen from a node, whichever nodes they are: what looks different leads to no symmetry.
    fn kind(&self, base: &Colours, from: u32) -> &[u32] {
        self.sorted[from as usize].get_or_init(|| {
            let mut seen = self.looks(base, from).to_vec();
            seen.sort_unstable();
            seen
        })
    }

    /// Whether a permutation of the nodes leads terminals to terminals and keeps all capacities.
    fn keeps(&self, images: &[u32]) -> bool {
        let mut seen = vec![false; images.len()];
        let once = images.iter().all(|&to| seen.get_mut(to as usize).is_some_and(|s| !std::mem::replace(s, true)));
        let terminals = self.network.terminals;
        let kinds = (0..).zip(images).all(|(node, &to)| (node < terminals) == (to < terminals));
        let arc = |(&(from, to), carries): (&(u32, u32), &u64)| {
            self.capacity.get(&(images[from as usize], images[to as usize])) == Some(carries)
        };
        once && kinds && self.capacity.iter().all(arc)
    }

    /// Distances from a node over arcs either way.
    fn away(&self, start: u32) -> Vec<u32> {
        let mut away = vec![NONE; self.around.len()];
        away[start as usize] = 0;
        let (mut order, mut at) = (vec![start], 0);
        while let Some(&node) = order.get(at) {
            at += 1;
            for &(_, _, next) in &self.around[node as usize] {
                if away[next as usize] == NONE {
                    away[next as usize] = away[node as usize] + 1;
                    order.push(next);
                }
            }
        }
        away
    }

    /// The coarsest colours of both copies.
    fn refined(&self) -> Option<Colours> {
        let nodes = self.around.len();
        let kind = |node: usize| u32::from(node % nodes >= self.network.terminals as usize);
        let mut colours = Colours { of: (0..2 * nodes).map(kind).collect(), members: vec![Vec::new(); 2] };
        for node in 0..2 * nodes {
            let colour = colours.of[node];
            colours.members[colour as usize].push(node as u32);
        }
        let all: Vec<u32> = (0..2 * nodes as u32).collect();
        colours.refine(self, all)?;
        Some(colours)
    }
}

/// What is around a node: whether an arc leaves it, its capacity, and the colour of the other end.
type Seen = Vec<(bool, u64, u32)>;

/// Colours of the nodes of two copies of a network; node `n` of the second one is `nodes + n`.
#[derive(Clone)]
struct Colours {
    of: Vec<u32>,
    /// Nodes of each colour.
    members: Vec<Vec<u32>>,
}

impl Colours {
    /// Gives nodes of one colour another one, and names their neighbours.
    fn recolour(&mut self, sides: &Sides, nodes: &[u32], dirty: &mut Vec<u32>) {
        let (count, fresh) = (sides.around.len() as u32, self.members.len() as u32);
        let old = self.of[nodes[0] as usize] as usize;
        for &node in nodes {
            self.of[node as usize] = fresh;
            let copy = node / count * count;
            dirty.extend(sides.around[(node % count) as usize].iter().map(|&(_, _, next)| next + copy));
        }
        let of = &self.of;
        self.members[old].retain(|&node| of[node as usize] != fresh);
        self.members.push(nodes.to_vec());
    }

    /// Tells nodes apart by what is around them, beginning with some, until nothing changes. None if a colour has more nodes
    /// in one copy than in the other.
    fn refine(&mut self, sides: &Sides, mut dirty: Vec<u32>) -> Option<()> {
        let count = sides.around.len() as u32;
        while !dirty.is_empty() {
            dirty.sort_unstable();
            dirty.dedup();
            let mut groups: BTreeMap<u32, BTreeMap<Seen, Vec<u32>>> = BTreeMap::new();
            for &node in &dirty {
                let colour = self.of[node as usize];
                if self.members[colour as usize].len() == 1 {
                    return None;
                }
                let copy = node / count * count;
                let mut sees: Seen = sides.around[(node % count) as usize]
                    .iter()
                    .map(|&(leaves, carries, next)| (leaves, carries, self.of[(next + copy) as usize]))
                    .collect();
                sees.sort_unstable();
                groups.entry(colour).or_default().entry(sees).or_default().push(node);
            }
            dirty.clear();
            for (colour, parts) in groups {
                let touched: usize = parts.values().map(Vec::len).sum();
                // Those that see what they saw before keep their colour; if all see something else, one part does.
                let keeps = usize::from(touched == self.members[colour as usize].len());
                for part in parts.values().skip(keeps) {
                    if 2 * part.iter().filter(|&&node| node < count).count() != part.len() {
                        return None;
                    }
                    self.recolour(sides, part, &mut dirty);
                }
            }
        }
        Some(())
    }
}

/// A permutation in the making.
struct Search<'a> {
    sides: &'a Sides<'a>,
    base: &'a Colours,
    /// How the image of a terminal looks from there, for each kind of terminals that is known.
    looks: Vec<(&'a [u32], u32)>,
    group: &'a [Vec<u32>],
    colours: Colours,
    images: Vec<u32>,
    /// Per node, whether it is an image.
    taken: Vec<bool>,
    /// Per node, the least one that members of the group lead it to.
    block: Vec<u32>,
}

impl<'a> Search<'a> {
    /// A permutation that leads terminal 0 to `target` and commutes with the group, and the length of its cycles of blocks, which
    /// may be given.
    fn run(
        sides: &'a Sides<'a>,
        base: &'a Colours,
        group: &'a [Vec<u32>],
        target: u32,
        length: Option<usize>,
    ) -> Option<(Vec<u32>, usize)> {
        let nodes = sides.around.len();
        let block = (0..nodes).map(|node| group.iter().map(|member| member[node]).min().unwrap_or(NONE)).collect();
        let (images, taken) = (vec![NONE; nodes], vec![false; nodes]);
        let looks = vec![(sides.kind(base, 0), sides.looks(base, 0)[target as usize])];
        let mut search = Search { sides, base, looks, group, colours: base.clone(), images, taken, block };
        search.lead(0, target)?;
        search.learn();
        let given = length;
        let length = search.cycle(0, given)?;
        if given.is_some_and(|given| given != length) {
            return None;
        }
        for node in 0..nodes as u32 {
            if search.images[node as usize] == NONE {
                search.cycle(node, Some(length))?;
            }
        }
        Some((search.images, length))
    }

    /// Notes how images look from terminals that have only one left, for each kind. The terminals around the first one mostly do, and
    /// those around others have to follow them: servers that are moved in different ways do not change places later.
    fn learn(&mut self) {
        let nodes = self.images.len() as u32;
        for at in 0..self.sides.network.terminals {
            let members = &self.colours.members[self.colours.of[at as usize] as usize];
            if let (2, Some(&to)) = (members.len(), members.iter().find(|&&node| node >= nodes)) {
                let kind = self.sides.kind(self.base, at);
                if self.looks.iter().all(|known| known.0 != kind) {
                    self.looks.push((kind, self.sides.looks(self.base, at)[(to - nodes) as usize]));
                }
            }
        }
    }

    /// Makes a node the image of another one, and all that follows from it.
    fn lead(&mut self, node: u32, to: u32) -> Option<()> {
        let nodes = self.images.len() as u32;
        for member in self.group {
            let (a, b) = (member[node as usize], member[to as usize]);
            if self.images[a as usize] == b {
                continue;
            }
            if self.images[a as usize] != NONE || std::mem::replace(&mut self.taken[b as usize], true) {
                return None;
            }
            self.images[a as usize] = b;
            let colour = self.colours.of[a as usize];
            if colour != self.colours.of[(b + nodes) as usize] {
                return None;
            }
            if self.colours.members[colour as usize].len() > 2 {
                let mut dirty = Vec::new();
                self.colours.recolour(self.sides, &[a, b + nodes], &mut dirty);
                self.colours.refine(self.sides, dirty)?;
            }
        }
        Some(())
    }

    /// Follows a node from image to image until the cycle closes, after `length` blocks if that is given.
    fn cycle(&mut self, start: u32, length: Option<usize>) -> Option<usize> {
        let nodes = self.images.len() as u32;
        let (mut at, mut steps) = (start, 0);
        let mut visited = vec![false; self.images.len()];
        visited[self.block[start as usize] as usize] = true;
        loop {
            steps += 1;
            if self.images[at as usize] == NONE {
                let colour = self.colours.of[at as usize] as usize;
                let images =
                    self.colours.members[colour].iter().filter(|&&node| node >= nodes).map(|node| node - nodes);
                let mut free: Vec<u32> = images.filter(|&to| !self.taken[to as usize]).collect();
                let chooses = free.len() > 1 && at < self.sides.network.terminals;
                let known = self.looks.iter().find(|looks| chooses && looks.0 == self.sides.kind(self.base, at));
                if let Some(&(_, looks)) = known {
                    free.retain(|&to| self.sides.looks(self.base, at)[to as usize] == looks);
                }
                let close = length.is_none_or(|length| steps == length);
                let new = |to: &u32| !visited[self.block[*to as usize] as usize];
                let home = free.contains(&start);
                let next = if free.len() == 1 {
                    free[0]
                } else if length.is_some() && close && home {
                    start
                } else if at == start && steps == 1 && at >= self.sides.network.terminals && home {
                    // A switch stays where it is if it can.
                    start
                } else {
                    let away = self.sides.away(at);
                    free.sort_by_key(|&to| (!new(&to), away[to as usize], to));
                    *free
                        .first()
                        .filter(|&to| new(to))
                        .or_else(|| free.iter().find(|to| **to == start))
                        .or(free.first())?
                };
                if chooses && known.is_none() {
                    self.looks.push((self.sides.kind(self.base, at), self.sides.looks(self.base, at)[next as usize]));
                }
                self.lead(at, next)?;
            }
            at = self.images[at as usize];
            if self.block[at as usize] == self.block[start as usize] {
                return Some(steps);
            }
            visited[self.block[at as usize] as usize] = true;
            if steps > self.images.len() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{both, dgx1, star};
    use proptest::prelude::*;

    /// Checks that there are symmetries for so many kinds of terminals, and that they are symmetries.
    fn check_kinds(network: &Network, kinds: usize) {
        let symmetry = Symmetry::of(network).expect("symmetries");
        let sides = Sides::new(network);
        assert_eq!(symmetry.roots.len(), kinds);
        assert_eq!(symmetry.images.len() * kinds, network.terminals as usize);
        assert!(symmetry.images.iter().all(|images| sides.keeps(images)));
        for (terminal, &(root, member)) in (0u32..).zip(&symmetry.from) {
            assert_eq!(symmetry.images[member as usize][symmetry.roots[root as usize] as usize], terminal);
        }
    }

    fn check(network: &Network) {
        check_kinds(network, 1);
    }

    /// Servers of GPUs on a switch, with a card for each GPU on the rail of its place.
    pub fn servers(count: u32, gpus: u32, order: impl Fn(u32) -> u32) -> Network {
        let all = count * gpus;
        let links: Vec<_> = (0..all)
            .flat_map(|gpu| [(order(gpu), all + gpu / gpus, 9), (order(gpu), all + count + gpu % gpus, 1)])
            .collect();
        Network::new(all + count + gpus, all, both(&links)).unwrap()
    }

    #[test]
    fn machines_have_symmetries() {
        check(&star(5, 3));
        check(&star(16, 3));
        check(&servers(4, 8, |gpu| gpu));
        check(&servers(3, 5, |gpu| gpu * 4 % 15));
        check(&dgx1(1));
    }

    /// Pairs of GPUs at a switch with a card, which is on a rail or on the one switch of all cards, on a switch of their server that
    /// is as near. Two pairs may change places, and of three one is left.
    #[test]
    fn pairs_within_servers() {
        for (count, pairs, rails) in (2..5).flat_map(|c| (2..5).flat_map(move |p| [(c, p, false), (c, p, true)])) {
            let all = 2 * count * pairs;
            for step in (1..all).filter(|step| (2..=all).all(|d| all % d != 0 || step % d != 0)) {
                let name = |gpu: u32| gpu * step % all;
                let (half, top) = (all + count, all + count + all / 2);
                let links = (0..all)
                    .flat_map(|gpu| [(name(gpu), all + gpu / (2 * pairs), 1), (name(gpu), half + gpu / 2, 1)])
                    .chain((0..all / 2).map(|pair| (half + pair, top + if rails { pair % pairs } else { 0 }, 1)));
                let links: Vec<_> = links.collect();
                check(&Network::new(top + pairs, all, both(&links)).unwrap());
            }
        }
    }

    #[test]
    fn terminals_of_several_kinds() {
        // The one in the middle stays where it is, so that the group has no more than one member.
        check_kinds(&Network::new(3, 3, both(&[(0, 1, 1), (1, 2, 1)])).unwrap(), 3);
        check_kinds(&Network::new(4, 4, both(&[(0, 1, 1), (1, 2, 1), (2, 3, 1)])).unwrap(), 2);
        // All terminals have the same degree, but some lie in a triangle and others in a square.
        let links = [(0, 1, 1), (1, 2, 1), (2, 0, 1), (3, 4, 1), (4, 5, 1), (5, 6, 1), (6, 3, 1)];
        check_kinds(&Network::new(7, 7, both(&links)).unwrap(), 7);
        // Pairs of double links that are next to each other and in the middle of a quad, or at its ends.
        check_kinds(&dgx1(2), 2);
    }

    proptest! {
        /// A circulant network has symmetries, whatever its nodes are called.
        #[test]
        fn circulants(nodes in 2u32..12, capacity in prop::collection::vec(0u64..3, 11), seed in 1u32..12) {
            let name = |node: u32| (0..nodes).cycle().skip(seed as usize).step_by(1).nth(node as usize).unwrap();
            let arcs = (0..nodes).flat_map(|a| (1..nodes).map(move |d| (a, d)));
            let arcs = arcs.map(|(a, d)| crate::Arc::new(name(a), name((a + d) % nodes), capacity[d as usize - 1]));
            let network = Network::new(nodes, nodes, arcs).unwrap();
            if let Some(symmetry) = Symmetry::of(&network) {
                let sides = Sides::new(&network);
                prop_assert!(symmetry.images.iter().all(|images| sides.keeps(images)));
            }
        }
    }
}
