//! Compositions of phases over the dimensions of a group.
//!
//! The ranks of a group form a grid, the first dimension innermost. A [`Plan`] lists the phases of a
//! collective. In each phase a rank works together with those that differ from it along one dimension,
//! its coordinate there being its number in the phase, on the bytes that it is responsible for.
//! Reduce-scatter and scatter narrow these bytes to the rank's share, all-gather and gather widen them
//! again, so all lines of a phase work on their own part of the vector:
//!
//! | composition | all-reduce over dimensions 0, 1, 2 | bytes sent per byte by rings of sizes L, V, H |
//! |---|---|---|
//! | per dimension | AR 0, AR 1, AR 2 | 2(L-1)/L + 2(V-1)/V + 2(H-1)/H |
//! | local first (ACE section V) | RS 0, AR 1, AR 2, AG 0 | 2(L-1)/L + (2(V-1)/V + 2(H-1)/H) / L |
//! | all scattered (tutorial's 6 phases) | RS 0, RS 1, RS 2, AG 2, AG 1, AG 0 | 2(LVH-1)/(LVH) |
//!
//! Reduce-scatter and all-gather alone go through the dimensions inwards and outwards, or in a given
//! order (Themis gives each chunk its own). An all-to-all goes through the dimensions in order, each
//! time exchanging everything that has to move along that dimension. Rooted collectives spread from the
//! root along the outermost dimension first and collect along it last, so that the slow outer links
//! are crossed once; ranks that are not yet, or no longer, concerned have no steps. Dimensions of one
//! rank have no phase.

use crate::kind::Kind;
use crate::program::direct::ServingOrder;
use crate::program::in_switch::InSwitch;
use crate::program::{Posting, Program};
use crate::rank::{LineRank, Rank};
pub use crate::split::Split;
use syncline_core::{Bytes, Grid, Id, id_type};

id_type!(
    /// A plan of those that a run has.
    PlanId: u8
);

id_type!(
    /// A phase by its place in its plan; their number stands for what is after the last one.
    PhaseId: u8
);

/// Most phases that a plan may have; endpoints keep a counter per phase.
pub const MAX_PHASES: usize = 16;

/// What a phase does along its dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A ring; all-to-all is relayed by neighbours.
    Ring,
    /// The rooted collectives of a ring: a chain, whose broadcast and reduce are pipelined.
    Chain {
        /// Blocks of the pipeline, at least 1.
        slices: u32,
    },
    /// Every rank to every other at once.
    Direct,
    /// Recursive halving and doubling; binomial trees for rooted collectives.
    HalvingDoubling,
    /// Two complementary binary trees, pipelined.
    DoubleBinaryTree {
        /// Blocks of each tree's pipeline, at least 1.
        slices: u32,
    },
    /// A tree of depth one per rank, pipelined.
    OneHopTrees {
        /// Blocks of each tree's pipeline, at least 1.
        slices: u32,
    },
    /// Through a switch that reduces and copies.
    InSwitch {
        /// Pieces of the vector where it is not scattered, at least 1.
        slices: u32,
        /// Pieces of a line that the switch holds at once, at least 1.
        slots: u8,
    },
    /// What is written in a plan.
    Written,
}

impl Algorithm {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
            Algorithm::Chain { .. } => "chain",
            Algorithm::Direct => "direct",
            Algorithm::HalvingDoubling => "halving-doubling",
            Algorithm::DoubleBinaryTree { .. } => "double-binary-tree",
            Algorithm::OneHopTrees { .. } => "one-hop-trees",
            Algorithm::InSwitch { .. } => "in-switch",
            Algorithm::Written => "written",
        }
    }

    /// Whether there is a program for a collective.
    pub const fn supports(self, kind: Kind) -> bool {
        match self {
            Algorithm::Ring => !kind.is_rooted(),
            Algorithm::Chain { .. } => kind.is_rooted(),
            Algorithm::Direct | Algorithm::Written => true,
            Algorithm::HalvingDoubling => !matches!(kind, Kind::AllToAll),
            Algorithm::DoubleBinaryTree { .. } | Algorithm::OneHopTrees { .. } => {
                matches!(kind, Kind::AllReduce | Kind::Broadcast | Kind::Reduce)
            }
            Algorithm::InSwitch { .. } => !matches!(kind, Kind::AllToAll | Kind::Gather | Kind::Scatter),
        }
    }

    /// Whether messages go from neighbour to neighbour of a ring, so that the lanes of the ring matter.
    pub const fn goes_round(self) -> bool {
        matches!(self, Algorithm::Ring | Algorithm::Chain { .. })
    }

    /// The blocks of its pipeline, if it has one.
    pub const fn slices(self) -> Option<u32> {
        match self {
            Algorithm::Chain { slices }
            | Algorithm::DoubleBinaryTree { slices }
            | Algorithm::OneHopTrees { slices } => Some(slices),
            Algorithm::InSwitch { slots: 0, .. } => Some(0),
            Algorithm::InSwitch { slices, .. } => Some(slices),
            Algorithm::Ring | Algorithm::Direct | Algorithm::HalvingDoubling | Algorithm::Written => None,
        }
    }

    /// One of each that computes its steps, with pipelines of `slices` slices.
    pub const fn all(slices: u32) -> [Algorithm; 7] {
        [
            Algorithm::Ring,
            Algorithm::Chain { slices },
            Algorithm::Direct,
            Algorithm::HalvingDoubling,
            Algorithm::DoubleBinaryTree { slices },
            Algorithm::OneHopTrees { slices },
            Algorithm::InSwitch { slices, slots: 2 },
        ]
    }
}

/// How an all-reduce is composed over dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Composition {
    /// An all-reduce of everything in each dimension in turn.
    PerDimension,
    /// Reduce-scatter in the first dimension, all-reduce of the share in each other, all-gather in the
    /// first: three phases on two dimensions, the ACE paper's four on three.
    LocalFirst,
    /// Reduce-scatter in every dimension, then all-gather in the reverse order.
    AllScattered,
}

/// A dimension of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Ranks along it.
    pub size: u32,
    /// What phases along it do.
    pub algorithm: Algorithm,
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What the lines do.
    pub kind: Kind,
    /// How.
    pub algorithm: Algorithm,
    /// The dimension along which lines lie.
    pub dim: u8,
    /// Ranks of a line.
    pub ranks: u32,
    /// The root's number in its line.
    pub root: LineRank,
    /// How many phases narrow the vector before the blocks of this phase are cut from it.
    depth: u8,
    /// A rank takes part if it has the root's coordinate in all dimensions from this place in [`Plan::order`] on.
    at_root_from: u8,
}

/// The phases of a collective on a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    kind: Kind,
    phases: Vec<Phase>,
    /// Dimensions and sizes in the order in which phases narrow the vector.
    scattered: Vec<(u8, u32)>,
    /// Dimensions of more than one rank, in the order in which the collective goes through them.
    order: Vec<u8>,
    /// Coordinates of the root.
    root: Vec<u32>,
    /// Where the ranks of a line stand on a grid of their own, the order in which each serves the others.
    serving_order: Option<ServingOrder>,
    /// The order in which each rank of a direct algorithm posts its messages.
    posting: Posting,
    /// The programs of phases that are written, by phase.
    written: Vec<WrittenPhase>,
}

/// What a phase does whose program is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPhase {
    /// Whether ranks are places of a ring, for which the fabric has lanes: directions, parallel links, orders of its own.
    pub around: bool,
    /// The program, of a ring the one that goes up.
    pub up: Program,
    /// The one that goes down.
    pub down: Program,
}

/// Why a plan cannot be made.
#[expect(missing_docs, reason = "the fields are the values that the message of the variant names")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// More phases than [`MAX_PHASES`].
    TooManyPhases(usize),
    /// An algorithm that has no program for a collective.
    Unsupported { algorithm: Algorithm, kind: Kind },
    /// A root that is no rank.
    NoSuchRoot { root: Rank, ranks: u32 },
    /// A pipeline without slices.
    NoSlices { algorithm: Algorithm },
    /// A written plan that has no program of so many ranks for a phase.
    NoProgram { kind: Kind, dim: u8, ranks: u32 },
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The collective.
    pub kind: Kind,
    /// The composition of an all-reduce.
    pub composition: Composition,
    /// The dimensions, the first one innermost.
    pub axes: &'a [Axis],
    /// The root of a rooted collective.
    pub root: Rank,
    /// The order in which dimensions are gone through, innermost first if `None`; those of one rank
    /// may be left out.
    pub order: Option<&'a [u8]>,
}

impl Plan {
    /// Makes a plan.
    ///
    /// # Errors
    /// A [`PlanError`].
    ///
    /// # Panics
    /// If there are more than 255 dimensions, or their sizes are those of no [`Grid`].
    pub fn new(request: PlanRequest<'_>) -> Result<Plan, PlanError> {
        let PlanRequest { kind, composition, axes, root, order } = request;
        let grid = Grid::new(axes.iter().map(|a| a.size));
        if root.0 >= grid.ranks() {
            return Err(PlanError::NoSuchRoot { root, ranks: grid.ranks() });
        }
        let coordinates: Vec<u32> = grid.coordinates(root.0).collect();
        let count = u8::try_from(axes.len()).expect("a grid of up to 255 dimensions");
        let inwards: Vec<u8> = order.map_or_else(|| (0..count).collect(), <[u8]>::to_vec);
        let mut dims: Vec<(u8, u32)> =
            inwards.into_iter().map(|d| (d, axes[usize::from(d)].size)).filter(|d| d.1 > 1).collect();
        if matches!(kind, Kind::Broadcast | Kind::Scatter | Kind::Reduce | Kind::Gather) {
            dims.reverse(); // outermost first
        }
        let dims = &dims[..];
        let (inner, outer) = dims.split_at(dims.len().min(1));
        let scattered = match (kind, composition) {
            (Kind::AllReduce, Composition::PerDimension) => &[],
            (Kind::AllReduce, Composition::LocalFirst) => inner,
            (Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather | Kind::Scatter | Kind::Gather, _) => dims,
            (Kind::AllToAll | Kind::Broadcast | Kind::Reduce, _) => &[],
        };
        let phase_at = |kind, (dim, ranks): (u8, u32), depth: usize, at_root_from: usize| {
            let axis = axes[usize::from(dim)];
            let root = LineRank(coordinates[usize::from(dim)]);
            let (depth, at_root_from) = (depth as u8, at_root_from as u8); // both up to the number of dimensions
            Phase { kind, algorithm: axis.algorithm, dim, ranks, root, depth, at_root_from }
        };
        let phase = |kind, dim, depth| phase_at(kind, dim, depth, dims.len());
        let scatter = |kind| scattered.iter().enumerate().map(move |(i, &d)| phase(kind, d, i));
        let gather = |kind| scattered.iter().enumerate().rev().map(move |(i, &d)| phase(kind, d, i));
        // Before dimension i is reached, only ranks that agree with the root in it and all later ones have data.
        let spread = |narrows: bool| (0..dims.len()).map(move |i| (dims[i], if narrows { i } else { 0 }, i + 1));
        let phases: Vec<Phase> = match (kind, composition) {
            (Kind::ReduceScatter, _) => scatter(kind).collect(),
            (Kind::AllGather, _) => gather(kind).collect(),
            (Kind::AllReduce, Composition::PerDimension) => dims.iter().map(|&d| phase(kind, d, 0)).collect(),
            (Kind::AllReduce, Composition::LocalFirst) => {
                let across = outer.iter().map(|&d| phase(kind, d, 1));
                scatter(Kind::ReduceScatter).chain(across).chain(gather(Kind::AllGather)).collect()
            }
            (Kind::AllReduce, Composition::AllScattered) => {
                scatter(Kind::ReduceScatter).chain(gather(Kind::AllGather)).collect()
            }
            (Kind::AllToAll, _) => dims.iter().map(|&d| phase(kind, d, 0)).collect(),
            (Kind::Broadcast, _) => spread(false).map(|(d, depth, at)| phase_at(kind, d, depth, at)).collect(),
            (Kind::Scatter, _) => spread(true).map(|(d, depth, at)| phase_at(kind, d, depth, at)).collect(),
            (Kind::Reduce, _) => spread(false).rev().map(|(d, depth, at)| phase_at(kind, d, depth, at)).collect(),
            (Kind::Gather, _) => spread(true).rev().map(|(d, depth, at)| phase_at(kind, d, depth, at)).collect(),
        };
        if phases.len() > MAX_PHASES {
            return Err(PlanError::TooManyPhases(phases.len()));
        }
        if let Some(p) = phases.iter().find(|p| !p.algorithm.supports(p.kind)) {
            return Err(PlanError::Unsupported { algorithm: p.algorithm, kind: p.kind });
        }
        if let Some(p) = phases.iter().find(|p| p.algorithm.slices() == Some(0)) {
            return Err(PlanError::NoSlices { algorithm: p.algorithm });
        }
        let order = dims.iter().map(|d| d.0).collect();
        Ok(Plan {
            kind,
            scattered: scattered.to_vec(),
            phases,
            order,
            root: coordinates,
            serving_order: None,
            posting: Posting::Rotated,
            written: Vec::new(),
        })
    }

    /// The same with written programs in the place of all that it has, one for each phase.
    ///
    /// # Panics
    /// If there is not one for each phase, of as many ranks.
    #[must_use]
    pub fn written_as(mut self, written: Vec<WrittenPhase>) -> Plan {
        self.phases.iter_mut().for_each(|phase| phase.algorithm = Algorithm::Written);
        self.with_programs(written)
    }

    /// The same with written programs, one for each phase.
    ///
    /// # Panics
    /// If there is not one for each phase, of as many ranks.
    #[must_use]
    pub fn with_programs(mut self, written: Vec<WrittenPhase>) -> Plan {
        assert_eq!(written.len(), self.phases.len(), "one program for each phase");
        for (phase, program) in self.phases.iter().zip(&written) {
            assert!([&program.up, &program.down].iter().all(|p| p.ranks() == phase.ranks), "programs fit their lines");
        }
        for (phase, program) in self.phases.iter_mut().zip(&written) {
            // Who looks for phases that switches take part in looks for the algorithm.
            if let Program::InSwitch(InSwitch { slices, slots, .. }) = program.up {
                phase.algorithm = Algorithm::InSwitch { slices, slots };
            }
        }
        Plan { written, ..self }
    }

    /// The same for a single line of ranks that stand on a grid: direct algorithms go by its distances. `rings` says along
    /// which of its dimensions there are two ways to every rank.
    #[must_use]
    pub fn on_grid(self, sizes: &[u32], rings: &[bool]) -> Plan {
        Plan { serving_order: ServingOrder::new(sizes, rings), ..self }
    }

    /// The same with direct algorithms whose ranks post their messages in this order. Only the rotated order is one by the
    /// distances of a grid.
    #[must_use]
    pub fn posted(self, posting: Posting) -> Plan {
        Plan { posting, ..self }
    }

    /// The same for a single line of ranks that lies along another dimension than the first.
    ///
    /// # Panics
    /// When the collective has a root, whose place on the line would be lost, or there is more than a line.
    #[must_use]
    pub fn along(mut self, dim: u8) -> Plan {
        assert!(!self.kind.is_rooted() && self.root.len() == 1, "a line without a root");
        self.phases.iter_mut().for_each(|p| p.dim = dim);
        self.scattered.iter_mut().for_each(|d| d.0 = dim);
        self
    }

    /// The collective.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The phases in order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The numbers of the phases.
    pub fn phase_ids(&self) -> impl DoubleEndedIterator<Item = PhaseId> + Clone + use<> {
        (0..self.phases.len()).map(PhaseId::from_index) // MAX_PHASES at most
    }

    /// The program of a phase. `up` says which way a ring goes round.
    pub fn program(&self, phase: PhaseId, up: bool) -> Program {
        let Phase { kind, algorithm, ranks, root, .. } = self.phases[phase.index()];
        match algorithm {
            Algorithm::Ring if kind == Kind::AllToAll => Program::Relay { ranks, up },
            Algorithm::Ring => Program::Ring { kind, ranks, up },
            Algorithm::Chain { slices } => Program::Chain { kind, ranks, root, slices, up },
            Algorithm::Direct => match self.serving_order {
                Some(order) if !kind.is_rooted() && order.ranks() == ranks && self.posting == Posting::Rotated => {
                    Program::DirectOnGrid { kind, order }
                }
                _ => Program::Direct { kind, ranks, root, posting: self.posting },
            },
            Algorithm::HalvingDoubling if kind.is_rooted() => Program::Binomial { kind, ranks, root },
            Algorithm::HalvingDoubling => Program::HalvingDoubling { kind, ranks },
            Algorithm::DoubleBinaryTree { slices } => Program::DoubleBinaryTree { kind, ranks, root, slices },
            Algorithm::OneHopTrees { slices } => Program::OneHopTrees { kind, ranks, root, slices },
            Algorithm::InSwitch { slices, slots } => Program::InSwitch(InSwitch { kind, ranks, root, slices, slots }),
            Algorithm::Written => {
                let written = &self.written[phase.index()];
                if up { written.up.clone() } else { written.down.clone() }
            }
        }
    }

    /// Whether messages of a phase go from neighbour to neighbour of a ring, so that the lanes of the ring matter.
    pub fn goes_round(&self, phase: PhaseId) -> bool {
        match self.phases[phase.index()].algorithm {
            Algorithm::Written => self.written[phase.index()].around,
            algorithm => algorithm.goes_round(),
        }
    }

    /// Whether it is a direct all-to-all of a whole group.
    pub fn is_exchange(&self) -> bool {
        let kind = |p| match p {
            Program::Direct { kind, .. } | Program::DirectOnGrid { kind, .. } => Some(kind),
            _ => None,
        };
        self.phases.len() == 1 && kind(self.program(PhaseId(0), true)) == Some(Kind::AllToAll)
    }

    /// Whether a rank has steps in a phase.
    #[inline]
    pub fn takes_part(&self, phase: PhaseId, coordinate: impl Fn(u8) -> u32) -> bool {
        let alike = &self.order[self.phases[phase.index()].at_root_from.into()..];
        alike.iter().all(|&d| coordinate(d) == self.root[usize::from(d)])
    }

    /// The part of a chunk of `len` bytes that a rank works on in `phase`: offset and length. The
    /// blocks of the phase are cut from it. `coordinate(dim)` are the rank's coordinates.
    #[inline]
    pub fn vector(&self, phase: PhaseId, len: Bytes, split: Split, coordinate: impl Fn(u8) -> u32) -> (u64, u64) {
        let depth = usize::from(self.phases[phase.index()].depth);
        self.share(depth, len, split, coordinate)
    }

    fn share(&self, depth: usize, len: Bytes, split: Split, coordinate: impl Fn(u8) -> u32) -> (u64, u64) {
        self.scattered[..depth].iter().fold((0, len.0), |(offset, len), &(dim, ranks)| {
            let (inside, share) = split.share(len, ranks, coordinate(dim));
            (offset + inside, share)
        })
    }

    /// The part of a chunk that a rank holds before the first phase, and after the last: offset and
    /// length. A rank that holds nothing of use has length 0. In an all-to-all both are the whole,
    /// though not the same data.
    pub fn ends(&self, len: Bytes, split: Split, coordinate: impl Fn(u8) -> u32) -> [(u64, u64); 2] {
        let whole = (0, len.0);
        let share = self.share(self.scattered.len(), len, split, &coordinate);
        let is_root = self.root.iter().zip(0..).all(|(&root, d)| coordinate(d) == root);
        let roots = if is_root { whole } else { (0, 0) };
        match self.kind {
            Kind::AllReduce | Kind::AllToAll => [whole; 2],
            Kind::ReduceScatter => [whole, share],
            Kind::AllGather => [share, whole],
            Kind::Broadcast => [roots, whole],
            Kind::Reduce => [whole, roots],
            Kind::Scatter => [roots, share],
            Kind::Gather => [share, roots],
        }
    }

    /// Bytes that a rank holds before `phase`, or after the last one if `phase` is their number.
    pub fn held(&self, phase: PhaseId, len: Bytes, split: Split, coordinate: impl Fn(u8) -> u32) -> u64 {
        let Some(p) = self.phases.get(phase.index()) else { return self.ends(len, split, coordinate)[1].1 };
        let (_, vector) = self.vector(phase, len, split, &coordinate);
        match p.kind {
            Kind::AllGather | Kind::Gather => split.share(vector, p.ranks, coordinate(p.dim)).1,
            _ => vector,
        }
    }

    /// Bytes of which no rank holds more before `phase`, or after the last one if `phase` is their number, of any chunk
    /// that is not longer. Shares are unequal where lengths do not divide.
    pub fn held_at_most(&self, phase: PhaseId, len: Bytes, split: Split) -> u64 {
        let scattered =
            |depth: usize| self.scattered[..depth].iter().fold(len.0, |len, &(_, ranks)| split.largest(len, ranks));
        match (self.phases.get(phase.index()), self.kind) {
            (None, Kind::ReduceScatter | Kind::Scatter) => scattered(self.scattered.len()),
            (None, _) => len.0,
            (Some(p), _) => match p.kind {
                Kind::AllGather | Kind::Gather => split.largest(scattered(p.depth.into()), p.ranks),
                _ => scattered(p.depth.into()),
            },
        }
    }

    /// Into how many parts the first phases that narrow a chunk cut it.
    fn narrowed(&self, depth: u8) -> u64 {
        self.scattered[..usize::from(depth)].iter().fold(1, |parts: u64, d| parts.saturating_mul(d.1.into()))
    }

    /// Into how many parts a chunk is cut at the finest, over all phases.
    pub fn finest(&self) -> u64 {
        self.phases.iter().map(|p| self.narrowed(p.depth).saturating_mul(p.ranks.into())).max().unwrap_or(1)
    }

    /// Rounds of messages of a chunk over all phases, on its longest way.
    pub fn steps(&self) -> u32 {
        self.phase_ids().map(|p| self.program(p, true).rounds()).sum()
    }

    /// A chunk whose length is a multiple of this many elements is cut into equal blocks everywhere.
    pub fn equal_blocks(&self) -> u64 {
        let parts = |p: PhaseId| u64::from(self.program(p, true).parts());
        let each = self.phase_ids().map(|p| self.narrowed(self.phases[p.index()].depth).saturating_mul(parts(p)));
        each.fold(1, lcm)
    }
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Split = Split { element: 1 };

    fn plan(kind: Kind, composition: Composition, sizes: &[u32]) -> Plan {
        let axes: Vec<Axis> = sizes.iter().map(|&size| Axis { size, algorithm: Algorithm::Ring }).collect();
        Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None }).unwrap()
    }

    #[test]
    fn the_four_phases_of_ace() {
        let plan = plan(Kind::AllReduce, Composition::LocalFirst, &[4, 8, 4]);
        let got: Vec<_> = plan.phases().iter().map(|p| (p.kind, p.dim, p.ranks)).collect();
        let (rs, ar, ag) = (Kind::ReduceScatter, Kind::AllReduce, Kind::AllGather);
        assert_eq!(got, [(rs, 0, 4), (ar, 1, 8), (ar, 2, 4), (ag, 0, 4)]);
        let vector = |phase| plan.vector(PhaseId(phase), Bytes(65_536), BYTES, |_| 0).1;
        assert_eq!([vector(0), vector(1), vector(2), vector(3)], [65_536, 16_384, 16_384, 65_536]);
        assert_eq!(plan.equal_blocks(), 32);
    }

    /// Tutorial, "Baseline all-reduce on the hierarchical topologies": 12 MB on 2x2x3 (local,
    /// horizontal, vertical): the data *entering* each phase.
    #[test]
    fn the_six_phases_of_the_tutorial() {
        let plan = plan(Kind::AllReduce, Composition::AllScattered, &[2, 2, 3]);
        let entering = |p: PhaseId| {
            let vector = plan.vector(p, Bytes(12), BYTES, |_| 0).1;
            match plan.phases()[p.index()].kind {
                Kind::AllGather => vector / u64::from(plan.phases()[p.index()].ranks),
                _ => vector,
            }
        };
        assert_eq!(plan.phase_ids().map(entering).collect::<Vec<_>>(), [12, 6, 3, 1, 3, 6]);
        assert_eq!(plan.equal_blocks(), 12);
    }

    #[test]
    fn a_pipeline_needs_a_slice() {
        let algorithm = Algorithm::DoubleBinaryTree { slices: 0 };
        let axes = [Axis { size: 4, algorithm }];
        let (kind, composition) = (Kind::AllReduce, Composition::PerDimension);
        let plan = Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None });
        assert_eq!(plan, Err(PlanError::NoSlices { algorithm }));
    }

    #[test]
    fn dimensions_of_one_rank_have_no_phase() {
        assert_eq!(plan(Kind::AllReduce, Composition::LocalFirst, &[1, 4, 1]).phases().len(), 2);
        assert!(plan(Kind::AllGather, Composition::LocalFirst, &[1]).phases().is_empty());
    }

    /// Dimensions of one rank between those of more do not count, however many they are.
    #[test]
    fn roots_are_found_on_grids_of_many_dimensions() {
        let size = |dim: usize| if [0, 3, 35, 254].contains(&dim) { 2 } else { 1 };
        let axes: Vec<Axis> = (0..255).map(|dim| Axis { size: size(dim), algorithm: Algorithm::Direct }).collect();
        let (kind, composition) = (Kind::Broadcast, Composition::PerDimension);
        let plan = Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None }).unwrap();
        assert_eq!(plan.phases().iter().map(|p| p.dim).collect::<Vec<_>>(), [254, 35, 3, 0]);
        let part = |phase, away: u8| plan.takes_part(PhaseId(phase), |dim| u32::from(dim == away));
        // Whom the root has reached: those that differ from it along the dimensions so far.
        let reached = |phase| [254, 35, 3, 0].map(|away| part(phase, away));
        assert_eq!(reached(0), [true, false, false, false]);
        assert_eq!(reached(1), [true, true, false, false]);
        assert_eq!(reached(3), [true; 4]);
    }

    #[test]
    fn rooted_collectives_cross_the_outer_dimension_once() {
        let axes = [2, 3].map(|size| Axis { size, algorithm: Algorithm::Direct });
        let request = |kind| PlanRequest {
            kind,
            composition: Composition::PerDimension,
            axes: &axes,
            root: Rank(3),
            order: None,
        };
        let broadcast = Plan::new(request(Kind::Broadcast)).unwrap();
        assert_eq!(broadcast.phases().iter().map(|p| (p.dim, p.root.0)).collect::<Vec<_>>(), [(1, 1), (0, 1)]);
        let part = |phase, x, y| broadcast.takes_part(PhaseId(phase), |d| if d == 0 { x } else { y });
        assert!(part(0, 1, 2) && !part(0, 0, 2) && part(1, 0, 2));
        let gather = Plan::new(request(Kind::Gather)).unwrap();
        assert_eq!(gather.phases().iter().map(|p| p.dim).collect::<Vec<_>>(), [0, 1]);
        let scattered = [(0, 6), (0, 6)];
        assert_eq!(gather.ends(Bytes(6), BYTES, |d| [1, 1][usize::from(d)])[1], scattered[0]);
        assert_eq!(gather.ends(Bytes(6), BYTES, |d| [0, 2][usize::from(d)]), [(4, 1), (0, 0)]);
        let no_root = Plan::new(PlanRequest { root: Rank(6), ..request(Kind::Gather) });
        assert_eq!(no_root, Err(PlanError::NoSuchRoot { root: Rank(6), ranks: 6 }));
    }
}
