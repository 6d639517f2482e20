//! What is verified: a plan, the ranks that carry it out, and what their connections hold.

use super::buffering::Buffering;
use super::cuts::Cuts;
use super::data::{Run, Value};
use super::findings::{Findings, Kind, Remark, Site};
use super::held::Held;
use super::layout::Layout;
use super::line::{LineNames, Steps};
use super::machine::{Machine, StepId};
use super::pass::Pass;
use super::{order, race};
use crate::kind::Kind as Collective;
use crate::plan::{Phase, PhaseId, Plan};
use crate::program::Program;
use crate::rank::{LineRank, Rank};
use syncline_core::Grid;

/// The ranks of a product of dimensions, and the programs they run.
pub struct Verifier<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Where the ranks stand.
    pub grid: Grid,
    /// Elements of the chunk. In an all-to-all sizes play no part.
    pub elements: u64,
    /// What connections hold.
    pub buffering: Buffering,
    /// The program of each phase.
    pub programs: Vec<Program>,
}

/// A program on lines whose vectors are equally long.
struct Lowered {
    layout: Layout,
    machine: Machine,
    order: Vec<StepId>,
}

impl<'a> Verifier<'a> {
    /// A verifier for a plan on a grid of these `sizes`, whose rings all go up (or all down).
    pub fn new(plan: &'a Plan, sizes: &[u32], elements: u64, up: bool, buffering: Buffering) -> Verifier<'a> {
        let programs = plan.phase_ids().map(|p| plan.program(p, up)).collect();
        Verifier { plan, grid: Grid::new(sizes.iter().copied()), elements, buffering, programs }
    }

    /// Runs the plan. Elements that no step tells apart are carried out as one; where that finds something, the findings are those
    /// of [`Verifier::by_element`].
    ///
    /// # Errors
    /// What has been found, up to the first phase in which something is.
    ///
    /// # Panics
    /// If there is not one program per phase, or there is more data than can be numbered.
    pub fn verify(&self) -> Result<(), Findings> {
        match self.by_parts() {
            Some(Ok(())) => Ok(()),
            _ => self.by_element(),
        }
    }

    /// Runs the plan on every element by itself, which is slow and needs no argument. It names what it finds.
    ///
    /// # Errors
    /// As [`Verifier::verify`].
    ///
    /// # Panics
    /// As [`Verifier::verify`].
    pub fn by_element(&self) -> Result<(), Findings> {
        let mut findings = self.sizes();
        let pass = self.pass(None);
        let mut held = Held::new(&pass);
        for phase in self.plan.phase_ids() {
            if findings.is_empty() {
                match self.steps(phase) {
                    Ok(steps) => pass.carry_out(phase, &steps, &mut held, &mut findings),
                    Err(remark) => findings.add(Kind::TooLarge, Site::ALL.in_phase(Some(phase)), remark),
                }
            }
        }
        pass.verdict(&held, findings)
    }

    /// Runs the plan on one element of each part of the vector that steps treat alike. The verdict is that of
    /// [`Verifier::by_element`]; what is said of elements is about parts. None where steps work on more than blocks of one vector.
    ///
    /// # Panics
    /// As [`Verifier::verify`].
    pub fn by_parts(&self) -> Option<Result<(), Findings>> {
        let mut findings = self.sizes();
        if !findings.is_empty() {
            return None;
        }
        let steps = self.plan.phase_ids().map(|phase| self.steps(phase)).collect::<Result<Vec<_>, _>>().ok()?;
        let cuts = self.pass(None).cuts(&steps)?;
        let pass = self.pass(Some(&cuts));
        let mut held = Held::new(&pass);
        for (phase, steps) in self.plan.phase_ids().zip(&steps) {
            if findings.is_empty() {
                pass.carry_out(phase, steps, &mut held, &mut findings);
            }
        }
        Some(pass.verdict(&held, findings))
    }

    /// Programs that are not of their phase's size.
    fn sizes(&self) -> Findings {
        assert_eq!(self.programs.len(), self.plan.phases().len(), "one program per phase");
        let mut findings = Findings::default();
        for (id, (program, expected)) in self.plan.phase_ids().zip(self.programs.iter().zip(self.plan.phases())) {
            if let Err(remark) = check_size(program, expected) {
                findings.add(Kind::Sizes, Site::ALL.in_phase(Some(id)), remark);
            }
        }
        findings
    }

    fn steps(&self, id: PhaseId) -> Result<Steps<'_>, Remark> {
        Steps::new(&self.programs[id.index()], self.plan.phases()[id.index()].kind)
    }

    fn pass<'p>(&'p self, cuts: Option<&'p Cuts>) -> Pass<'p> {
        let Verifier { plan, grid, elements, buffering, programs } = self;
        let elements = cuts.map_or(*elements, Cuts::count);
        Pass { plan, grid, buffering: *buffering, programs, elements, whole: self.elements, cuts }
    }
}

impl Pass<'_> {
    /// What is found when everything has been carried out.
    fn verdict(&self, held: &Held, mut findings: Findings) -> Result<(), Findings> {
        if findings.is_empty() {
            held.check(self, &mut findings);
        }
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }

    /// Carries out a phase, line by line.
    fn carry_out(&self, id: PhaseId, steps: &Steps<'_>, held: &mut Held, findings: &mut Findings) {
        let phase = self.plan.phases()[id.index()];
        let leads = |&rank: &Rank| self.coordinate(rank, phase.dim) == 0 && self.takes_part(rank, id);
        // Lines differ in nothing but the length of their vectors, of which there are few.
        let mut lowered: Vec<(u32, Lowered)> = Vec::new();
        let mut memory = Vec::new();
        for (line, first) in (0..).zip(self.all().filter(leads)) {
            let members = (0..phase.ranks).map(|there| self.peer(first, phase.dim, LineRank(there)));
            let switch = self.programs[id.index()].has_switch().then_some(Rank(self.ranks() + line));
            let ranks: Vec<Rank> = members.chain(switch).collect();
            let part = held.part(self, first, id);
            let at = lowered.iter().position(|(len, _)| *len == part.len).unwrap_or(lowered.len());
            if at == lowered.len() {
                let names = LineNames { phase: id, ranks: &ranks, layout: None, part };
                let Some(line) = self.lower(steps, names, findings) else { return };
                lowered.push((part.len, line));
            }
            let Lowered { layout, machine, order } = &lowered[at].1;
            let names = LineNames { phase: id, ranks: &ranks, layout: Some(layout), part };
            memory.clear();
            memory.resize(ranks.len() * layout.cells() as usize, Value::NOTHING);
            let members = &ranks[..phase.ranks as usize];
            let moves = held.moves(self, &phase, part, layout);
            held.load(&moves, members, layout, &mut memory);
            let mut run = Run { machine, memory: &mut memory, sets: &mut held.sets, names: &names };
            if !run.perform(order, |_, _, _, _| (), findings) {
                return;
            }
            held.store(&moves, members, layout, &memory);
        }
    }

    /// Lays a program out on a line, and finds an order for its steps that leaves no races. What is wrong goes to `findings`.
    fn lower(&self, steps: &Steps<'_>, names: LineNames<'_>, findings: &mut Findings) -> Option<Lowered> {
        let layout = match steps.layout(names.part.len, self.cuts) {
            Ok(layout) => layout,
            Err((kind, remark)) => {
                findings.add(kind, Site::ALL.in_phase(Some(names.phase)), remark);
                return None;
            }
        };
        let names = LineNames { layout: Some(&layout), ..names };
        let shared = matches!(self.buffering, Buffering::SharedSlots(_));
        let machine = steps.lower(&layout, shared, &names, findings);
        if !findings.is_empty() {
            return None;
        }
        let order = order::find(&machine, self.buffering, &names, findings)?;
        race::find(&machine, &order, &names, findings);
        findings.is_empty().then_some(Lowered { layout, machine, order })
    }

    /// The parts that stand for elements in phases with these steps, if steps say on what they work by blocks of one vector
    /// alone.
    fn cuts(&self, steps: &[Steps<'_>]) -> Option<Cuts> {
        let elements = self.elements;
        let is_whole = |rank| self.plan.phase_ids().all(|phase| self.vector(rank, phase) == (0, elements));
        if self.plan.kind() == Collective::AllToAll || elements > u64::from(u32::MAX) || !self.all().all(is_whole) {
            return None;
        }
        Cuts::new(elements, |marks| {
            for (first, len) in self.all().flat_map(|rank| self.ends(rank)) {
                marks.at(first);
                marks.at(first + len);
            }
            steps.iter().all(|of_phase| of_phase.mark(marks))
        })
    }
}

/// Whether a program is for as many ranks as its phase has, and cuts what they exchange into equal parts for all of them.
fn check_size(program: &Program, phase: &Phase) -> Result<(), Remark> {
    let (ranks, parts) = (program.ranks(), program.parts());
    if ranks != phase.ranks {
        return Err(Remark::accepting(format!("the program is for {ranks} ranks"), phase.ranks.to_string()));
    }
    if phase.kind == Collective::AllToAll && (parts == 0 || !parts.is_multiple_of(ranks)) {
        let message = format!("{parts} blocks are not as many for each of {ranks} ranks");
        return Err(Remark::accepting(message, format!("a multiple of {ranks}")));
    }
    Ok(())
}
