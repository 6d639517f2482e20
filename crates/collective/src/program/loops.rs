//! Finds what repeats in a row of steps, so that it can be written once.

use super::step::{Detail, Step};

/// How the numbers in a step change from one repetition of its body to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advance {
    /// The first block, and places in buffers, modulo the blocks of the vector.
    pub blocks: i32,
    /// The rank that blocks come from, modulo the ranks.
    pub origin: i32,
    /// Sender and receiver, modulo the ranks.
    pub peer: i32,
    /// The step that takes the message.
    pub into: u32,
    /// The step that is waited for.
    pub after: u32,
}

/// A step of a body, as it is in the first repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenStep {
    /// What all steps say.
    pub step: Step,
    /// What else it says.
    pub detail: Detail,
    /// What changes from one repetition to the next.
    pub advance: Advance,
}

impl From<Step> for WrittenStep {
    fn from(step: Step) -> WrittenStep {
        WrittenStep { step, detail: Detail::default(), advance: Advance::default() }
    }
}

/// A row of steps that is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// How often; at least once.
    pub times: u32,
    /// The steps of the first repetition; at least one.
    pub steps: Vec<WrittenStep>,
}

/// The longest body that is looked for.
const LONGEST: usize = 64;

/// The same steps as loops. Each loop covers as many steps as any that begins at its place; where several cover as many,
/// the shortest body is taken.
pub fn find(steps: &[WrittenStep], ranks: u32, parts: u32) -> Vec<Loop> {
    let mut loops: Vec<Loop> = Vec::new();
    let mut at = 0;
    while at < steps.len() {
        let rest = &steps[at..];
        let (len, times) = best(rest, ranks, parts);
        if times == 1 {
            // What does not repeat stands together.
            match loops.last_mut().filter(|l| l.times == 1) {
                Some(last) => last.steps.push(rest[0]),
                None => loops.push(Loop { times: 1, steps: vec![rest[0]] }),
            }
        } else {
            let body = (0..len).map(|i| {
                let advance = advance(&rest[i], &rest[i + len], ranks, parts).expect("the body repeats");
                WrittenStep { advance, ..rest[i] }
            });
            loops.push(Loop { times: times as u32, steps: body.collect() });
        }
        at += len * times;
    }
    loops
}

/// The length of the body at the beginning of a row that covers most, and how often it is repeated.
fn best(steps: &[WrittenStep], ranks: u32, parts: u32) -> (usize, usize) {
    let mut best = (1, 1);
    for len in 1..=LONGEST.min(steps.len() / 2) {
        // A body that covers more repeats the first step beyond, too, in the same way as before; most do not.
        let covered = best.0 * best.1;
        let by = |at: usize| advance(&steps[at - len], &steps[at], ranks, parts);
        if covered >= len && (covered == steps.len() || by(covered).is_none()) {
            continue;
        }
        if covered >= 2 * len && by(covered) != by(covered - len) {
            continue;
        }
        let times = times(steps, len, ranks, parts);
        if times > 1 && len * times > best.0 * best.1 {
            best = (len, times);
        }
        if best.0 * best.1 == steps.len() {
            break;
        }
    }
    best
}

/// How often the first `len` steps are repeated.
fn times(steps: &[WrittenStep], len: usize, ranks: u32, parts: u32) -> usize {
    let first: Option<Vec<Advance>> = (0..len).map(|i| advance(&steps[i], &steps[i + len], ranks, parts)).collect();
    let Some(by) = first else { return 1 };
    let continues = |round: usize| {
        let next = (round + 1) * len;
        next + len <= steps.len()
            && (0..len).all(|i| advance(&steps[round * len + i], &steps[next + i], ranks, parts) == Some(by[i]))
    };
    2 + (1..).take_while(|&round| continues(round)).count()
}

/// What changes from a step to one in the next repetition; `None` if that cannot be one.
fn advance(step: &WrittenStep, next: &WrittenStep, ranks: u32, parts: u32) -> Option<Advance> {
    let (a, b) = (step.step, next.step);
    let (da, db) = (step.detail, next.detail);
    let place = |p: Option<super::step::Place>| p.map(|p| p.buffer);
    let alike = a.op == b.op
        && a.blocks.count == b.blocks.count
        && a.into.thread == b.into.thread
        && (da.way, da.pace) == (db.way, db.pace)
        && place(da.src) == place(db.src)
        && place(da.dst) == place(db.dst)
        && da.after.map(|s| s.thread) == db.after.map(|s| s.thread);
    let later = |a: u32, b: u32| b.checked_sub(a);
    if !alike {
        return None;
    }
    let blocks = between(a.blocks.first, b.blocks.first, parts);
    let by = Advance {
        blocks,
        origin: between(a.blocks.origin, b.blocks.origin, ranks),
        peer: between(peer(&a).0, peer(&b).0, ranks),
        into: later(a.into.pc, b.into.pc)?,
        after: match (da.after, db.after) {
            (Some(a), Some(b)) => later(a.pc, b.pc)?,
            _ => 0,
        },
    };
    let moves_alike = |a: u32, b: u32, by: i32, size: u32| between(a, b, size) == by;
    let places = [(da.src, db.src), (da.dst, db.dst)];
    let fits = moves_alike(peer(&a).1, peer(&b).1, by.peer, ranks)
        && places.into_iter().all(|pair| match pair {
            // Places in buffers of another size than the vector may not wrap.
            (Some(a), Some(b)) => i64::from(b.first) - i64::from(a.first) == i64::from(blocks) && b.first < parts,
            _ => true,
        });
    fits.then_some(by)
}

/// Both peers of a step; one that sends or receives only has no other.
fn peer(step: &Step) -> (u32, u32) {
    match (step.op.receives(), step.op.sends()) {
        (true, false) => (step.from.0, step.from.0),
        (false, true) => (step.to.0, step.to.0),
        _ => (step.from.0, step.to.0),
    }
}

/// The way from a number to another one, modulo `size`, the shorter way round.
fn between(a: u32, b: u32, size: u32) -> i32 {
    if a >= size || b >= size {
        return (i64::from(b) - i64::from(a)) as i32;
    }
    let up = (i64::from(b) - i64::from(a)).rem_euclid(i64::from(size));
    (if 2 * up > i64::from(size) { up - i64::from(size) } else { up }) as i32
}
