//! Reads plans: their numbers have to fit each other before they mean anything.

use super::form::{LoopForm, NextForm, PlaceForm, PlanForm, ProgramForm, StepForm, VERSION};
use super::{LineProgram, WrittenPlan};
use crate::kind::Kind;
use crate::plan::WrittenPhase;
use crate::program::loops::{Advance, Loop, WrittenStep};
use crate::program::step::{Blocks, Detail, Named, Op, Place, Slot, Step, Way};
use crate::program::written::{Frame, Pacing, TooLarge, Written};
use crate::rank::{LineRank, Rank};
use crate::schedule::form::Collective;
use syncline_core::Refusal;

/// The most ranks of a plan.
pub const MAX_RANKS: u64 = 1 << 20;
/// The most blocks of a vector.
pub const MAX_BLOCKS: u32 = 1 << 24;
/// The most refusals that are listed.
const LISTED: usize = 100;

/// A plan, if its numbers fit each other.
///
/// # Errors
/// All that is wrong, with the path of each field.
pub fn read(form: &PlanForm) -> Result<WrittenPlan, Vec<Refusal>> {
    let mut wrong = Vec::new();
    if form.format != "syncline-plan" {
        wrong.push(
            Refusal::of("format", format!("'{}' is not the format of plans", form.format)).accepting("syncline-plan"),
        );
    }
    if form.version != VERSION {
        let message = format!("version {} of the format is not known", form.version);
        wrong.push(Refusal::of("version", message).accepting(VERSION.to_string()));
    }
    let ranks = form.grid.iter().fold(1u64, |n, &size| n.saturating_mul(size.into()));
    if form.grid.is_empty() || !(1..=MAX_RANKS).contains(&ranks) || form.grid.len() > 32 {
        let message = format!("a grid of {:?} ranks", form.grid);
        wrong.push(
            Refusal::of("grid", message).accepting(format!("1 to 32 dimensions of 1 to {MAX_RANKS} ranks in all")),
        );
        return Err(wrong);
    }
    if u64::from(form.root) >= ranks {
        wrong.push(
            Refusal::of("root", format!("there is no rank {}", form.root)).accepting(format!("0 to {}", ranks - 1)),
        );
    }
    let Some(kind) = form.collective.kind() else {
        wrong.push(not_a_collective());
        return Err(wrong);
    };
    let mut programs = Vec::new();
    for (number, program) in form.programs.iter().enumerate() {
        let found = read_program(form, program);
        let within = |refusal: Refusal| refusal.within(&format!("programs.{number}"));
        match found {
            Ok(program) => programs.push(program),
            Err(refusals) => wrong.extend(refusals.into_iter().map(within)),
        }
    }
    wrong.truncate(LISTED);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok(WrittenPlan {
        name: form.name.clone(),
        kind,
        root: Rank(form.root),
        grid: form.grid.clone(),
        composition: form.composition.into(),
        balanced: form.balanced,
        regular: true,
        is_schedule: false,
        programs,
    })
}

fn not_a_collective() -> Refusal {
    let accepted = "allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter";
    Refusal::of("collective", "nothing says what a custom collective must achieve").accepting(accepted)
}

fn read_program(plan: &PlanForm, form: &ProgramForm) -> Result<LineProgram, Vec<Refusal>> {
    let one =
        |field: &str, message: String, accepted: String| Err(vec![Refusal::of(field, message).accepting(accepted)]);
    let Some(&ranks) = plan.grid.get(usize::from(form.dim)) else {
        let last = plan.grid.len() - 1;
        return one("dim", format!("the grid has no dimension {}", form.dim), format!("0 to {last}"));
    };
    if !(1..=MAX_BLOCKS).contains(&form.blocks) {
        return one("blocks", format!("{} blocks", form.blocks), format!("1 to {MAX_BLOCKS}"));
    }
    let Some(kind) = form.collective.kind() else { return Err(vec![not_a_collective()]) };
    // Of a ring, blocks are those of places, unless they are slices of what all have in the end or in the beginning.
    let of_ranks = kind == Kind::AllToAll || form.around && !matches!(kind, Kind::Broadcast | Kind::Reduce);
    if of_ranks && !form.blocks.is_multiple_of(ranks) {
        let message = format!("{} blocks do not divide among {ranks} ranks", form.blocks);
        return one("blocks", message, format!("a multiple of {ranks}"));
    }
    if form.rotates && (form.switch || !form.blocks.is_multiple_of(ranks)) {
        return one(
            "rotates",
            "ranks cannot do the same, each from its own place".into(),
            format!("a multiple of {ranks} blocks and no switch"),
        );
    }
    let reader = Reader { form, ranks, wrong: Vec::new(), named: Named::default() };
    let (up, named) = reader.read("ranks", &form.ranks)?;
    let down = match &form.down {
        None => up.clone(),
        Some(down) => Reader { form, ranks, wrong: Vec::new(), named }.read("down", down)?.0,
    };
    let phase = WrittenPhase { around: form.around, up: up.into(), down: down.into() };
    Ok(LineProgram { kind, dim: form.dim, phase })
}

struct Reader<'a> {
    form: &'a ProgramForm,
    ranks: u32,
    wrong: Vec<Refusal>,
    /// What ways have named so far.
    named: Named,
}

impl Reader<'_> {
    fn read(mut self, field: &str, given: &[Vec<Vec<LoopForm>>]) -> Result<(Written, Named), Vec<Refusal>> {
        let all = self.ranks + u32::from(self.form.switch);
        let wanted = if self.form.rotates { 1 } else { all };
        if given.len() as u64 != u64::from(wanted) {
            let message = format!("the steps of {} ranks are written", given.len());
            return Err(vec![Refusal::of(field, message).accepting(wanted.to_string())]);
        }
        let mut ranks: Vec<Vec<Vec<Loop>>> = Vec::with_capacity(given.len());
        for (rank, threads) in (0u32..).zip(given) {
            let mut read = Vec::with_capacity(threads.len());
            for (thread, loops) in threads.iter().enumerate() {
                let at = |n: usize| format!("{field}.{rank}.{thread}.{n}");
                read.push(loops.iter().enumerate().map(|(n, form)| self.read_loop(rank, form, &at(n))).collect());
            }
            ranks.push(read);
        }
        if !self.wrong.is_empty() {
            return Err(self.wrong);
        }
        let form = self.form;
        let frame = Frame {
            parts: form.blocks,
            has_switch: form.switch,
            pacing: Pacing { one_by_one: form.one_by_one, spreads: form.spreads, queues: form.queues },
            named: self.named.clone(),
        };
        let written = if form.rotates {
            let first = &ranks[0];
            let turned = (0..self.ranks).map(|rank| {
                first.iter().map(move |loops| loops.iter().map(move |l| turned(l, rank, self.ranks, form.blocks, form)))
            });
            Written::new(frame, turned)
        } else {
            Written::new(frame, ranks)
        };
        let too_large = |error: TooLarge| error.refusal().within(field);
        written.map(|written| (written, self.named)).map_err(|error| vec![too_large(error)])
    }

    fn read_loop(&mut self, rank: u32, form: &LoopForm, at: &str) -> Loop {
        if form.times == 0 || form.steps.is_empty() {
            self.refuse(
                format!("{at}.times"),
                "a loop that does nothing".into(),
                "1 or more times 1 or more steps".into(),
            );
        }
        let steps =
            form.steps.iter().enumerate().map(|(n, step)| self.read_step(rank, step, &format!("{at}.steps.{n}")));
        Loop { times: form.times, steps: steps.collect() }
    }

    fn refuse(&mut self, field: String, message: String, accepted: String) {
        if self.wrong.len() < LISTED {
            self.wrong.push(Refusal::of(&field, message).accepting(accepted));
        }
    }

    fn read_step(&mut self, rank: u32, form: &StepForm, at: &str) -> WrittenStep {
        let op = form.op;
        let peers = self.ranks + u32::from(self.form.switch);
        let blocks = self.form.blocks;
        let field = |name: &str| format!("{at}.{name}");
        if form.block >= blocks || form.count > blocks {
            let message = format!("{} blocks from {} on", form.count, form.block);
            self.refuse(field("block"), message, format!("blocks 0 to {} of the vector", blocks - 1));
        }
        if form.origin >= self.ranks {
            self.refuse(
                field("origin"),
                format!("there is no rank {}", form.origin),
                format!("0 to {}", self.ranks - 1),
            );
        }
        let receiver = (form.to, op.sends());
        for (name, (peer, needed)) in [("from", (form.from, op.receives())), ("to", receiver)] {
            match peer {
                Some(peer) if needed && (peer >= peers || peer == rank) => {
                    self.refuse(
                        field(name),
                        format!("rank {peer} cannot be the peer"),
                        format!("0 to {}, not its own rank", peers - 1),
                    );
                }
                Some(_) if !needed => {
                    self.refuse(field(name), format!("a step of type {} has no such peer", op.name()), "none".into());
                }
                None if needed => {
                    self.refuse(
                        field(name),
                        format!("a step of type {} needs this peer", op.name()),
                        format!("0 to {}", peers - 1),
                    );
                }
                _ => {}
            }
        }
        if op.sends() != form.into.is_some() {
            let message = format!("a step of type {} and what takes its message", op.name());
            self.refuse(field("into"), message, if op.sends() { "thread and step".into() } else { "none".into() });
        }
        if form.way.is_some() && (!op.sends() || self.form.around) {
            let message = "a way for what is not sent, or goes over the lanes of a ring".to_string();
            self.refuse(field("way"), message, "none".into());
        }
        if form.pace.is_some() && !op.sends() {
            self.refuse(field("pace"), format!("a step of type {} sends nothing", op.name()), "none".into());
        }
        if op == Op::Nop && form.after.is_none() {
            self.refuse(field("after"), "a nop that waits for nothing".into(), "thread and step".into());
        }
        let way = form.way.as_ref().map_or(Way::Route, |way| way.way(&mut self.named));
        let place = |p: PlaceForm| Place { buffer: p.buffer, first: p.block };
        let next = form.next.unwrap_or_default();
        let NextForm { block, origin, peer, into, after } = next;
        let slot = |(thread, pc): (u16, u32)| Slot { thread, pc };
        let step = Step {
            op,
            blocks: Blocks { origin: form.origin, first: form.block, count: form.count },
            from: LineRank(form.from.unwrap_or(0)),
            to: LineRank(form.to.unwrap_or(0)),
            into: form.into.map(slot).unwrap_or_default(),
        };
        WrittenStep {
            step: step.normal(),
            detail: Detail {
                after: form.after.map(slot),
                way,
                pace: form.pace,
                src: form.src.map(place),
                dst: form.dst.map(place),
            },
            advance: Advance { blocks: block, origin, peer, into, after },
        }
    }
}

/// The loop of rank 0 as another rank has it that does the same from its own place.
fn turned(first: &Loop, rank: u32, ranks: u32, blocks: u32, form: &ProgramForm) -> Loop {
    let each = blocks / ranks;
    let add = |number: u32, by: u32, size: u32| ((u64::from(number) + u64::from(by)) % u64::from(size)) as u32;
    let exchange = form.collective == Collective::AllToAll;
    let step = |written: &WrittenStep| {
        let Step { op, blocks: b, from, to, into } = written.step;
        let peer = |r: LineRank| if op.is_local() { r } else { LineRank(add(r.0, rank, ranks)) };
        let origin = if exchange { add(b.origin, rank, ranks) } else { b.origin };
        let b = Blocks { origin, first: add(b.first, rank * each, blocks), count: b.count };
        WrittenStep { step: Step { op, blocks: b, from: peer(from), to: peer(to), into }, ..*written }
    };
    Loop { times: first.times, steps: first.steps.iter().map(step).collect() }
}
