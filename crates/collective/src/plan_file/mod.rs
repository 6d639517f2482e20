//! Plans in files: the JSON of `syncline-plan`, version 2, in which every algorithm can be written down and comes back equal.
//!
//! ```text
//!   Plan of an algorithm ── write ──▶ PlanForm (JSON) ── read ──▶ WrittenPlan ── plan ──▶ Plan with written programs
//!   Schedule (MSCCL XML, version 1 of the JSON) ── imported ──────────┘           │
//!   Schedule ◀────────────────────────────── msccl ────────────────────────────────┘
//! ```
//!
//! A plan says how an all-reduce is composed over the dimensions of a grid of ranks ([`Composition`]), and for each
//! dimension which program its lines follow. Programs are threads of loops of steps ([`Written`](crate::Written)). Where
//! ranks go around a ring, the fabric has lanes for that (directions, parallel links, orders of its own), and a plan has a
//! program for either direction. What the plan leaves open is what it leaves open for built-in algorithms, too: chunks, how
//! many of them are in flight, and how they take turns on lanes.

pub mod form;
pub mod msccl;
pub mod read;
pub mod recognise;
pub mod verify;
pub mod write;

pub use form::PlanForm;
pub use recognise::recognised;

use crate::kind::Kind;
use crate::plan::{Algorithm, Axis, Composition, Plan, PlanError, PlanRequest, WrittenPhase};
use crate::program::Program;
use crate::program::written::TooLarge;
use crate::rank::Rank;
use crate::schedule::imported::Imported;

/// A plan whose programs are written, for any order of dimensions.
#[derive(Clone, Debug)]
pub struct WrittenPlan {
    /// What people call it.
    pub name: String,
    /// What it achieves.
    pub kind: Kind,
    /// The root of a rooted collective.
    pub root: Rank,
    /// The ranks as a grid, the first dimension innermost.
    pub grid: Vec<u32>,
    /// How an all-reduce is composed over its dimensions.
    pub composition: Composition,
    /// Whether every chunk goes through the dimensions in an order of its own, which balances them.
    pub balanced: bool,
    /// Whether the blocks of every step follow one another, so that their length is known whatever the size.
    pub regular: bool,
    /// Whether it is an imported schedule, which has been carried out on symbols.
    pub is_schedule: bool,
    /// What lines along a dimension do for a collective of a phase.
    pub programs: Vec<LineProgram>,
}

/// What the lines along a dimension do in phases of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProgram {
    /// What it achieves.
    pub kind: Kind,
    /// The dimension.
    pub dim: u8,
    /// The program.
    pub phase: WrittenPhase,
}

impl WrittenPlan {
    /// The plan of an imported schedule: one phase, on the line of all ranks.
    pub fn of_imported(name: &str, imported: Imported) -> WrittenPlan {
        let Imported { kind, root, program, regular } = imported;
        let grid = vec![program.ranks()];
        let program = Program::from(program);
        let phase = WrittenPhase { around: false, up: program.clone(), down: program };
        let programs = vec![LineProgram { kind, dim: 0, phase }];
        let composition = Composition::PerDimension;
        WrittenPlan {
            name: name.into(),
            kind,
            root,
            grid,
            composition,
            balanced: false,
            regular,
            is_schedule: true,
            programs,
        }
    }

    /// The same, carried out for so many parts of the vector one after the other by each thread, as MSCCL's runtime loops
    /// in each thread block; only an imported schedule can be.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn looped(mut self, times: u32) -> Result<WrittenPlan, TooLarge> {
        for LineProgram { kind, phase, .. } in &mut self.programs {
            let Program::Written(written) = &phase.up else { continue };
            let share = match kind {
                Kind::AllReduce | Kind::Broadcast | Kind::Reduce => written.parts(),
                _ => written.parts() / written.ranks(),
            };
            let (program, is_regular) = written.looped(times, share)?;
            self.regular &= is_regular;
            phase.up = program.into();
            phase.down = phase.up.clone();
        }
        Ok(self)
    }

    /// The plan, with the dimensions in an order.
    ///
    /// # Errors
    /// A [`PlanError`]; [`PlanError::NoProgram`] if a phase has none.
    pub fn plan(&self, order: Option<&[u8]>) -> Result<Plan, PlanError> {
        let axes: Vec<Axis> = self.grid.iter().map(|&size| Axis { size, algorithm: Algorithm::Written }).collect();
        let (kind, composition, root) = (self.kind, self.composition, self.root);
        let plan = Plan::new(PlanRequest { kind, composition, axes: &axes, root, order })?;
        let program = |phase: &crate::plan::Phase| {
            let found = self.programs.iter().find(|p| (p.kind, p.dim) == (phase.kind, phase.dim));
            let found = found.filter(|p| p.phase.up.ranks() == phase.ranks && p.phase.down.ranks() == phase.ranks);
            let missing = PlanError::NoProgram { kind: phase.kind, dim: phase.dim, ranks: phase.ranks };
            found.map(|p| p.phase.clone()).ok_or(missing)
        };
        let written = plan.phases().iter().map(program).collect::<Result<_, _>>()?;
        Ok(plan.with_programs(written))
    }
}
