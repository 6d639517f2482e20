//! Trees from all terminals at once on a network with symmetries: those of one root, or of one of each kind, and their images.
//!
//! Trees for all roots that are as good as any can be averaged over a group of symmetries, and then those of one root of each kind
//! say what all do. The images of its trees load all arcs that symmetries lead to each other, an *orbit*, alike. So what has to be
//! found are trees from these roots that together cross the arcs of each orbit no more often than its capacity allows: a linear
//! program with a row for each orbit, of which there are some dozens however many terminals there are. Its columns are trees, one
//! of each root, since all roots send as much. Of trees that are used both ways it does not matter where the root is, and
//! one root is enough. The cheapest tree at its prices is the one that is missing (column generation). So there is a tree for each orbit at most,
//! mostly one or two in all.
//!
//! All numbers are integers over a common denominator (Edmonds 1967, Bareiss 1968); whatever becomes too large for them ends
//! the search without an answer. The answer is held against the capacities arc by arc.

use crate::cheapest;
use crate::network::{Arc, Network, Tree};
use crate::ratio::{Ratio, gcd};
use crate::symmetry::Symmetry;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Trees from the roots that stand for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Representative {
    /// What the trees of all terminals reach together, in the unit of the network.
    pub rate: Ratio,
    /// Weights, and capacities of arcs, are in units of this part of the unit.
    pub factor: u64,
    /// The arcs that the trees use, with the switches that they pass and what all trees load on them.
    pub arcs: Vec<Arc>,
    /// Trees.
    pub trees: Vec<Tree>,
}

/// Trees that are asked for at most.
const ROUNDS: usize = 300;

/// Trees whose images from all terminals are as fast as trees can be, or as `enough`, for the whole vector. With
/// `both_ways`, data also comes back along the trees, on a network whose capacities are equal both ways. None if numbers become
/// too large, or symmetries do not load orbits alike.
pub fn trees(network: &Network, symmetry: &Symmetry, both_ways: bool, enough: Ratio) -> Option<Representative> {
    let links = Links::new(network, symmetry, both_ways)?;
    let mut program = Program::new(&links.totals);
    let mut columns: Vec<Column> = Vec::new();
    let most = *links.totals.iter().max()?;
    let mut prices: Vec<i128> = links.totals.iter().map(|total| i128::from(most.saturating_mul(64) / total)).collect();
    for round in 0.. {
        if round > ROUNDS {
            return None;
        }
        if let Some(row) = prices.iter().position(|&price| price < 0) {
            let entering: Vec<i128> = program.inverse.iter().map(|of| of[row]).collect();
            program.pivot(&entering, None)?;
        } else {
            let column = links.cheapest(&prices)?;
            if round > 0 {
                let cost =
                    column.crosses.iter().zip(&prices).try_fold(0i128, |sum, (&times, &price)| {
                        sum.checked_add(i128::from(times).checked_mul(price)?)
                    })?;
                if cost >= program.denominator {
                    break;
                }
            }
            let entering = program.image(&column.crosses)?;
            program.pivot(&entering, Some(columns.len()))?;
            columns.push(column);
        }
        prices = program.prices()?;
        let Ratio { num, den } = program.value()?;
        if Ratio::new(num.checked_mul(links.roots().len() as u64)?, den) >= enough {
            break;
        }
    }
    links.written(&program, &columns)
}

/// Trees of all terminals: the images of those of some.
pub fn expanded(of: &Representative, symmetry: &Symmetry) -> Representative {
    let mut numbers: BTreeMap<(u32, u32, Vec<u32>), u32> = BTreeMap::new();
    let (mut arcs, mut trees): (Vec<Arc>, Vec<Tree>) = (Vec::new(), Vec::new());
    for images in &symmetry.images {
        let at = |node: u32| images[node as usize];
        let places: Vec<u32> = of
            .arcs
            .iter()
            .map(|arc| {
                let via: Vec<u32> = arc.via.iter().map(|&switch| at(switch)).collect();
                let next = arcs.len() as u32;
                let number = *numbers.entry((at(arc.from), at(arc.to), via.clone())).or_insert(next);
                if number == next {
                    arcs.push(Arc { from: at(arc.from), to: at(arc.to), capacity: 0, via });
                }
                arcs[number as usize].capacity += arc.capacity;
                number
            })
            .collect();
        trees.extend(of.trees.iter().map(|tree| Tree {
            root: at(tree.root),
            weight: tree.weight,
            arcs: tree.arcs.iter().map(|&arc| places[arc as usize]).collect(),
        }));
    }
    Representative { rate: of.rate, factor: of.factor, arcs, trees }
}

/// A tree from each root.
struct Column {
    /// Per root and terminal, its parent; that of the root is itself.
    parents: Vec<Vec<u32>>,
    /// Per kind of terminals, those of the root's: per terminal, the links of the path from the root.
    paths: Vec<Vec<Vec<u32>>>,
    /// Per orbit, how many of its links are crossed.
    crosses: Vec<u64>,
}

/// Links of a network, and their orbits.
struct Links<'a> {
    network: &'a Network,
    symmetry: &'a Symmetry,
    both_ways: bool,
    /// From, to, capacity.
    links: Vec<(u32, u32, u64)>,
    numbers: BTreeMap<(u32, u32), u32>,
    leaving: Vec<Vec<u32>>,
    orbit: Vec<u32>,
    /// Per orbit, that of the links the other way.
    opposite: Vec<u32>,
    /// Per orbit, its capacity.
    totals: Vec<u64>,
    /// Per symmetry and terminal, which one is led there.
    back: Vec<Vec<u32>>,
}

impl<'a> Links<'a> {
    fn new(network: &'a Network, symmetry: &'a Symmetry, both_ways: bool) -> Option<Links<'a>> {
        let mut joined: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for arc in &network.arcs {
            *joined.entry((arc.from, arc.to)).or_default() += arc.capacity;
        }
        let links: Vec<(u32, u32, u64)> = joined.iter().map(|(&(from, to), &c)| (from, to, c)).collect();
        let numbers: BTreeMap<(u32, u32), u32> = joined.keys().copied().zip(0..).collect();
        let mut leaving = vec![Vec::new(); network.nodes as usize];
        for (number, &(from, _, _)) in (0u32..).zip(&links) {
            leaving[from as usize].push(number);
        }
        let orbit = orbits(&links, &numbers, &symmetry.generators)?;
        let count = orbit.iter().max().map_or(0, |most| *most as usize + 1);
        let (mut totals, mut opposite) = (vec![0; count], vec![0; count]);
        for (&(from, to, capacity), &of) in links.iter().zip(&orbit) {
            totals[of as usize] += capacity;
            if both_ways {
                opposite[of as usize] = orbit[*numbers.get(&(to, from))? as usize];
            }
        }
        let terminals = network.terminals as usize;
        let back = symmetry.images.iter().map(|images| {
            let mut back = vec![0; terminals];
            for (terminal, &to) in (0u32..).zip(&images[..terminals]) {
                back[to as usize] = terminal;
            }
            back
        });
        let back = back.collect();
        Some(Links { network, symmetry, both_ways, links, numbers, leaving, orbit, opposite, totals, back })
    }

    /// The roots of trees: one of each kind, or any if data goes along trees both ways.
    fn roots(&self) -> &[u32] {
        if self.both_ways { &self.symmetry.roots[..1] } else { &self.symmetry.roots }
    }

    /// What a terminal is led from: its kind, and which terminal is led to another one when the root of that kind is led to it.
    fn way(&self, a: u32, b: u32) -> (usize, usize) {
        let (kind, member) = self.symmetry.from[a as usize];
        (kind as usize, self.back[member as usize][b as usize] as usize)
    }

    /// The cheapest trees at these prices of orbits; of equal ones, shallow ones.
    fn cheapest(&self, prices: &[i128]) -> Option<Column> {
        let common = prices.iter().fold(0, |common, &price| divisor(common, price)).max(1);
        let each: Vec<i64> = (0..prices.len())
            .map(|orbit| {
                let back = if self.both_ways { prices[self.opposite[orbit] as usize] } else { 0 };
                // Sums over all links of a tree stay countable.
                i64::try_from(prices[orbit].checked_add(back)? / common).ok().filter(|&price| price < 1 << 40)
            })
            .collect::<Option<_>>()?;
        let found = self.symmetry.roots.iter().map(|&root| self.paths(root, &each)).collect::<Option<Vec<_>>>()?;
        let (paths, costs): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let crossed = |path: &Vec<u32>| {
            let mut orbits: Vec<u32> = path.iter().map(|&link| self.orbit[link as usize]).collect();
            orbits.sort_unstable();
            orbits
        };
        let crossed: Vec<Vec<Vec<u32>>> = paths.iter().map(|of| of.iter().map(crossed).collect()).collect();
        let mut kinds: Vec<&Vec<u32>> = crossed.iter().flatten().collect();
        kinds.sort_unstable();
        kinds.dedup();
        let number = |of: &Vec<u32>| kinds.binary_search(&of).unwrap_or(0);
        let numbers: Vec<Vec<usize>> = crossed.iter().map(|of| of.iter().map(number).collect()).collect();
        let mut column = Column { parents: Vec::new(), paths, crosses: vec![0; prices.len()] };
        for &root in self.roots() {
            let mut parents = self.tree(root, &costs)?;
            made_shallow(&mut parents, root, |a, b| {
                let (kind, there) = self.way(a, b);
                numbers[kind][there]
            });
            for (b, &a) in (0..).zip(&parents).filter(|&(b, _)| b != root) {
                let (kind, there) = self.way(a, b);
                for &orbit in &crossed[kind][there] {
                    column.crosses[orbit as usize] += 1;
                    if self.both_ways {
                        column.crosses[self.opposite[orbit as usize] as usize] += 1;
                    }
                }
            }
            column.parents.push(parents);
        }
        Some(column)
    }

    /// The parents in the cheapest tree from a terminal, by what paths from roots cost.
    fn tree(&self, root: u32, costs: &[Vec<i64>]) -> Option<Vec<u32>> {
        let terminals = self.network.terminals;
        let others = move |a: u32| (0..terminals).filter(move |&b| b != root && a != b);
        let pairs = (0..terminals).flat_map(move |a| others(a).map(move |b| (a, b)));
        let cost = |(a, b)| {
            let (kind, there) = self.way(a, b);
            (a, b, costs[kind][there])
        };
        let chosen = cheapest::of_arcs(terminals as usize, root, pairs.clone().map(cost))?;
        let mut wanted = vec![false; terminals as usize * (terminals as usize - 1)];
        for arc in chosen {
            wanted[arc as usize] = true;
        }
        let mut parents = vec![root; terminals as usize];
        for ((a, b), _) in pairs.zip(wanted).filter(|(_, wanted)| *wanted) {
            parents[b as usize] = a;
        }
        Some(parents)
    }

    /// The cheapest paths from a terminal to each other one over switches alone, of equal ones the shortest, and their costs.
    fn paths(&self, root: u32, each: &[i64]) -> Option<(Vec<Vec<u32>>, Vec<i64>)> {
        let nodes = self.network.nodes as usize;
        let mut best: Vec<Option<(i64, u32, u32)>> = vec![None; nodes];
        let mut done = vec![false; nodes];
        let mut waiting = BinaryHeap::from([Reverse((0i64, 0u32, root))]);
        while let Some(Reverse((cost, hops, node))) = waiting.pop() {
            if std::mem::replace(&mut done[node as usize], true) || (node != root && node < self.network.terminals) {
                continue;
            }
            for &link in &self.leaving[node as usize] {
                let to = self.links[link as usize].1;
                let next = (cost + each[self.orbit[link as usize] as usize], hops + 1, link);
                if !done[to as usize] && best[to as usize].is_none_or(|before| next < before) {
                    best[to as usize] = Some(next);
                    waiting.push(Reverse((next.0, next.1, to)));
                }
            }
        }
        let terminals = self.network.terminals as usize;
        let mut paths = vec![Vec::new(); terminals];
        let mut costs = vec![i64::MAX >> 12; terminals];
        for terminal in (0..terminals).filter(|&terminal| terminal != root as usize) {
            let Some((cost, _, _)) = best[terminal] else { continue };
            costs[terminal] = cost;
            let mut at = terminal;
            while at != root as usize {
                let link = best[at]?.2;
                paths[terminal].push(link);
                at = self.links[link as usize].0 as usize;
            }
            paths[terminal].reverse();
        }
        Some((paths, costs))
    }

    /// The trees of the program's solution, if their images fit.
    fn written(&self, program: &Program, columns: &[Column]) -> Option<Representative> {
        let images = self.symmetry.images.len() as u32;
        let chosen: Vec<(&Column, Ratio)> = program.solution(columns, images)?;
        let factor = chosen.iter().try_fold(1u64, |factor, (_, w)| (factor / gcd(factor, w.den)).checked_mul(w.den))?;
        let mut numbers: BTreeMap<(u32, u32, Vec<u32>), u32> = BTreeMap::new();
        let (mut arcs, mut trees): (Vec<Arc>, Vec<Tree>) = (Vec::new(), Vec::new());
        let mut load = vec![0u64; self.links.len()];
        for (column, weight) in &chosen {
            let weight = weight.num.checked_mul(factor / weight.den)?;
            for (&root, parents) in self.roots().iter().zip(&column.parents) {
                let mut tree = vec![Vec::new(); parents.len()];
                for (b, &a) in (0..).zip(parents).filter(|&(b, _)| b != root) {
                    let (kind, there) = self.way(a, b);
                    let path = &column.paths[kind][there];
                    if path.is_empty() {
                        return None;
                    }
                    let images = &self.symmetry.images[self.symmetry.from[a as usize].1 as usize];
                    let mut via = Vec::new();
                    for &link in path {
                        let (from, to, _) = self.links[link as usize];
                        let (from, to) = (images[from as usize], images[to as usize]);
                        load[*self.numbers.get(&(from, to))? as usize] += weight;
                        via.push(to);
                    }
                    via.pop();
                    let next = arcs.len() as u32;
                    let number = *numbers.entry((a, b, via.clone())).or_insert(next);
                    if number == next {
                        arcs.push(Arc { from: a, to: b, capacity: 0, via });
                    }
                    arcs[number as usize].capacity += weight;
                    tree[a as usize].push((b, number));
                }
                trees.push(Tree { root, weight, arcs: from_root(root, &tree)? });
            }
        }
        let weight: u64 = trees.iter().map(|tree| tree.weight).sum();
        let rate = Ratio::new(weight.checked_mul(u64::from(images))?, factor);
        self.fits(&load, factor)?.then_some(Representative { rate, factor, arcs, trees })
    }

    /// Whether every link can carry what the images of the trees put on it, whose own load is given.
    fn fits(&self, load: &[u64], factor: u64) -> Option<bool> {
        let mut sum = vec![0u128; load.len()];
        for images in &self.symmetry.images {
            for (&(from, to, _), &carried) in self.links.iter().zip(load).filter(|(_, carried)| **carried > 0) {
                let (from, to) = (images[from as usize], images[to as usize]);
                sum[*self.numbers.get(&(from, to))? as usize] += u128::from(carried);
                if self.both_ways {
                    sum[*self.numbers.get(&(to, from))? as usize] += u128::from(carried);
                }
            }
        }
        let fit = |(&(_, _, capacity), &carried): (&(u32, u32, u64), &u128)| {
            carried <= u128::from(capacity) * u128::from(factor)
        };
        Some(self.links.iter().zip(&sum).all(fit))
    }
}

/// The arcs of a tree, each after the one that leads to where it begins; of each node its children and the arcs to them are given.
fn from_root(root: u32, children: &[Vec<(u32, u32)>]) -> Option<Vec<u32>> {
    let mut order = Vec::new();
    let mut waiting = VecDeque::from([root]);
    while let Some(node) = waiting.pop_front() {
        for &(to, number) in &children[node as usize] {
            order.push(number);
            waiting.push_back(to);
        }
    }
    (order.len() + 1 == children.len()).then_some(order)
}

/// Of each link, the orbit that permutations make.
fn orbits(links: &[(u32, u32, u64)], numbers: &BTreeMap<(u32, u32), u32>, generators: &[Vec<u32>]) -> Option<Vec<u32>> {
    const UNKNOWN: u32 = u32::MAX;
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); links.len()];
    for images in generators {
        for (number, &(from, to, _)) in (0u32..).zip(links) {
            let image = *numbers.get(&(images[from as usize], images[to as usize]))?;
            next[number as usize].push(image);
            next[image as usize].push(number);
        }
    }
    let (mut orbit, mut count) = (vec![UNKNOWN; links.len()], 0);
    for start in 0..links.len() {
        if orbit[start] != UNKNOWN {
            continue;
        }
        let mut waiting = vec![start as u32];
        orbit[start] = count;
        while let Some(link) = waiting.pop() {
            for &image in &next[link as usize] {
                if orbit[image as usize] == UNKNOWN {
                    orbit[image as usize] = count;
                    waiting.push(image);
                }
            }
        }
        count += 1;
    }
    Some(orbit)
}

/// Hangs nodes of a tree closer to its root, where the arc is of the same kind.
fn made_shallow(parents: &mut [u32], root: u32, kind: impl Fn(u32, u32) -> usize) {
    let nodes = parents.len() as u32;
    loop {
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
        for node in (0..nodes).filter(|&node| node != root) {
            children[parents[node as usize] as usize].push(node);
        }
        let (mut depth, mut order, mut at) = (vec![0u32; nodes as usize], vec![root], 0);
        while let Some(&node) = order.get(at) {
            at += 1;
            for &child in &children[node as usize] {
                depth[child as usize] = depth[node as usize] + 1;
                order.push(child);
            }
        }
        let mut moved = false;
        for &node in &order[1..] {
            let old = kind(parents[node as usize], node);
            // Of what is below the node nothing is closer to the root than the node was.
            let mut closer = order.iter().take_while(|&&parent| depth[parent as usize] + 1 < depth[node as usize]);
            if let Some(&parent) = closer.find(|&&parent| kind(parent, node) == old) {
                parents[node as usize] = parent;
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

/// A linear program: weights of trees that cross the links of each orbit so often, as large in sum as capacities allow.
struct Program {
    /// The inverse of the basis, times the denominator.
    inverse: Vec<Vec<i128>>,
    /// The values of the basis, times the denominator.
    values: Vec<i128>,
    denominator: i128,
    /// The trees of the basis; none for what an orbit has left.
    basis: Vec<Option<usize>>,
}

impl Program {
    fn new(totals: &[u64]) -> Program {
        let rows = totals.len();
        let unit = |row: usize| (0..rows).map(|column| i128::from(column == row)).collect();
        let inverse = (0..rows).map(unit).collect();
        let values = totals.iter().map(|&total| i128::from(total)).collect();
        Program { inverse, values, denominator: 1, basis: vec![None; rows] }
    }

    /// A column in terms of the basis, times the denominator.
    fn image(&self, column: &[u64]) -> Option<Vec<i128>> {
        let row = |row: &Vec<i128>| {
            row.iter().zip(column).try_fold(0i128, |sum, (&a, &b)| sum.checked_add(a.checked_mul(i128::from(b))?))
        };
        self.inverse.iter().map(row).collect()
    }

    /// Takes a column into the basis, for the one that limits it.
    fn pivot(&mut self, entering: &[i128], tree: Option<usize>) -> Option<()> {
        let mut leaves: Option<usize> = None;
        for row in (0..entering.len()).filter(|&row| entering[row] > 0) {
            let less = match leaves {
                None => true,
                Some(best) => {
                    self.values[row].checked_mul(entering[best])? < self.values[best].checked_mul(entering[row])?
                }
            };
            if less {
                leaves = Some(row);
            }
        }
        let leaves = leaves?;
        let (by, over) = (entering[leaves], self.denominator);
        let (pivot, value) = (self.inverse[leaves].clone(), self.values[leaves]);
        // Divisions leave no rest: all numbers are determinants.
        let step =
            |old: i128, times: i128, of: i128| Some(old.checked_mul(by)?.checked_sub(times.checked_mul(of)?)? / over);
        for row in (0..entering.len()).filter(|&row| row != leaves) {
            for (old, &of) in self.inverse[row].iter_mut().zip(&pivot) {
                *old = step(*old, entering[row], of)?;
            }
            self.values[row] = step(self.values[row], entering[row], value)?;
        }
        self.denominator = by;
        self.basis[leaves] = tree;
        Some(())
    }

    /// What a link of each orbit costs, times the denominator.
    fn prices(&self) -> Option<Vec<i128>> {
        let mut prices = vec![0i128; self.basis.len()];
        for (row, _) in self.inverse.iter().zip(&self.basis).filter(|(_, tree)| tree.is_some()) {
            for (price, &of) in prices.iter_mut().zip(row) {
                *price = price.checked_add(of)?;
            }
        }
        Some(prices)
    }

    /// The sum of all weights.
    fn value(&self) -> Option<Ratio> {
        let trees = self.values.iter().zip(&self.basis).filter(|(_, tree)| tree.is_some());
        let sum = trees.map(|(value, _)| value).try_fold(0i128, |sum, &value| sum.checked_add(value))?;
        ratio(sum, self.denominator)
    }

    /// Trees with their weights, if they have so many images.
    fn solution<'c>(&self, columns: &'c [Column], images: u32) -> Option<Vec<(&'c Column, Ratio)>> {
        let trees = self.values.iter().zip(&self.basis).filter(|(value, _)| **value > 0);
        let of = |(&value, &tree): (&i128, &Option<usize>)| {
            tree.map(|tree| Some((&columns[tree], ratio(value, self.denominator.checked_mul(i128::from(images))?)?)))
        };
        trees.filter_map(of).collect()
    }
}

/// The greatest common divisor of numbers that are not negative.
const fn divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn ratio(num: i128, den: i128) -> Option<Ratio> {
    let common = divisor(num, den).max(1);
    Some(Ratio::new(u64::try_from(num / common).ok()?, u64::try_from(den / common).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{both, dgx1, star};
    use crate::{orientation, rate};
    use proptest::prelude::*;

    /// Trees of all terminals: whether they span, and what they load on each link.
    fn check(network: &Network, both_ways: bool) -> Option<Ratio> {
        let symmetry = Symmetry::of(network)?;
        let one = trees(network, &symmetry, both_ways, Ratio::whole(u64::MAX))?;
        let all = expanded(&one, &symmetry);
        let mut left: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for arc in &network.arcs {
            *left.entry((arc.from, arc.to)).or_default() += arc.capacity * all.factor;
        }
        let mut weight = vec![0; network.terminals as usize];
        for tree in &all.trees {
            let mut has = vec![false; network.terminals as usize];
            has[tree.root as usize] = true;
            weight[tree.root as usize] += tree.weight;
            for &arc in &tree.arcs {
                let Arc { from, to, via, .. } = &all.arcs[arc as usize];
                assert!(has[*from as usize] && !std::mem::replace(&mut has[*to as usize], true));
                let nodes = [&[*from], &via[..], &[*to]].concat();
                for hop in nodes.windows(2) {
                    *left.get_mut(&(hop[0], hop[1])).unwrap() -= tree.weight;
                    if both_ways {
                        *left.get_mut(&(hop[1], hop[0])).unwrap() -= tree.weight;
                    }
                }
            }
            assert!(!has.contains(&false));
        }
        assert!(both_ways || weight.iter().all(|&w| w == weight[0]));
        if !both_ways {
            let Ratio { num, den } = rate::from_all_alike(network, &symmetry.roots).unwrap().unwrap().rate;
            assert_eq!(rate::from_all(network).unwrap().unwrap().rate, Ratio::new(num, den));
        }
        let rate = Ratio::new(weight.iter().sum(), all.factor);
        assert_eq!(rate, one.rate);
        Some(rate)
    }

    fn of_all(network: &Network) -> Ratio {
        let Ratio { num, den } = rate::from_all(network).unwrap().unwrap().rate;
        Ratio::new(num * u64::from(network.terminals), den)
    }

    #[test]
    fn machines() {
        assert_eq!(check(&star(16, 6), false), Some(Ratio::new(96, 15)));
        assert_eq!(check(&star(16, 6), true), Some(Ratio::new(48, 15)));
        assert_eq!(check(&dgx1(1), false), Some(of_all(&dgx1(1))));
        assert_eq!(check(&dgx1(1), true), Some(Ratio::new(16, 7)));
        // Of two kinds of GPUs.
        assert_eq!(check(&dgx1(2), false), Some(of_all(&dgx1(2))));
        assert_eq!(check(&dgx1(2), true), Some(Ratio::new(24, 7)));
    }

    #[test]
    fn servers_of_pairs_that_share_a_card() {
        // Two GPUs at a switch with a card, which is on a rail; four GPUs on a server's switch.
        for count in [2, 3, 5] {
            let all = 4 * count;
            let pairs = |gpu: u32| all + count + gpu / 2;
            let links = (0..all).flat_map(|gpu| [(gpu, all + gpu / 4, 60), (gpu, pairs(gpu), 13)]);
            let rails = (0..all / 2).map(|pair| (all + count + pair, all + count + all / 2 + pair % 2, 12));
            let links: Vec<_> = links.chain(rails).collect();
            let network = Network::new(all + count + all / 2 + 2, all, both(&links)).unwrap();
            assert_eq!(check(&network, false), Some(of_all(&network)));
            let Ratio { num, den } = of_all(&network);
            assert_eq!(check(&network, true), Some(Ratio::new(num, 2 * den)));
        }
    }

    proptest! {
        /// On circulant networks of unequal distances, the best rate of all trees is reached.
        #[test]
        fn circulants(nodes in 2u32..9, capacity in prop::collection::vec(0u64..4, 8), step in 1u32..8) {
            let name = |node: u32| if nodes % 2 == 1 && step % 2 == 0 { (node * 2) % nodes } else { node };
            let arcs = (0..nodes).flat_map(|a| (1..nodes).map(move |d| (a, d)));
            let arcs: Vec<Arc> =
                arcs.map(|(a, d)| Arc::new(name(a), name((a + d) % nodes), capacity[d as usize - 1])).collect();
            let network = Network::new(nodes, nodes, arcs.clone()).unwrap();
            if let Some(reached) = check(&network, false) {
                prop_assert_eq!(reached, of_all(&network));
            }
            let even = Network::new(nodes, nodes, network.reversed().arcs.into_iter().chain(arcs)).unwrap();
            if let Some(reached) = check(&even, true) {
                let found = orientation::trees(&even).unwrap().unwrap();
                prop_assert!(reached <= rate::both_ways(&even).unwrap().unwrap().rate);
                prop_assert_eq!(reached, rate::both_ways(&even).unwrap().unwrap().rate, "{:?}", found.rate);
            }
        }
    }
}
