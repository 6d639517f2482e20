//! Whether the text is a schedule at all: consistent numbers, peers that exist, chunks inside
//! their buffers, and for every message a receiver that expects it. Finds everything at once.

use super::contract::Contract;
use super::form::{Collective, Location, Schedule, ScheduleRank, ScheduleStep, ThreadBlock};
use crate::program::Op;
use crate::rank::Rank;
use crate::verify::findings::{Findings, Kind, Remark, Site};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Most ranks of a schedule that is verified.
pub const MAX_RANKS: usize = 1024;
/// Most chunks of a buffer.
pub const MAX_CHUNKS: u32 = 1 << 16;
/// Most chunks of all buffers of all ranks.
pub const MAX_CELLS: u64 = 1 << 24;
/// The highest channel.
pub const MAX_CHANNEL: u32 = 1 << 16;
/// Most steps of all ranks.
pub const MAX_STEPS: usize = 1 << 22;
/// Most steps of a rank, times its thread blocks: what ordering them takes room for.
pub const MAX_CLOCKS: u64 = 1 << 26;
/// Most chunks that all steps together move.
pub const MAX_MOVED: u64 = 1 << 27;

/// One direction of a channel between two ranks: source, destination, channel.
pub type Channel = (Rank, Rank, u32);

/// A schedule that is one, put in order.
#[derive(Debug)]
pub struct Checked<'a> {
    /// The thread blocks of every rank.
    pub ranks: Vec<Vec<&'a ThreadBlock>>,
    /// Sizes, memory and promises.
    pub contract: Contract,
}

/// Checks a schedule; what is wrong goes to `errors`.
pub fn check<'a>(schedule: &'a Schedule, errors: &mut Findings) -> Option<Checked<'a>> {
    check_size(schedule, errors);
    if !errors.is_empty() {
        return None;
    }
    let ranks = in_order(&schedule.ranks, |r| r.id);
    check_ids(&ranks, errors);
    if !errors.is_empty() {
        return None;
    }
    let blocks: Vec<Vec<&ThreadBlock>> = ranks.iter().map(|r| in_order(&r.thread_blocks, |b| b.id)).collect();
    let contract = Contract::new(schedule.collective, schedule.in_place, &ranks, errors);
    for (rank, blocks) in (0..).map(Rank).zip(&blocks) {
        for block in blocks {
            check_peers(rank, block, ranks.len(), errors);
            for step in &block.steps {
                let site = Site::step(rank, block.id, step.id);
                check_operands(schedule.collective, block, step, site, errors);
                check_dependency(blocks, block, step, site, errors);
                if let Some(contract) = &contract {
                    check_bounds(contract, rank, step, site, errors);
                }
            }
        }
    }
    check_messages(&blocks, errors);
    if errors.is_empty() { contract.map(|contract| Checked { ranks: blocks, contract }) } else { None }
}

/// In ascending order of their numbers.
pub(super) fn in_order<T>(items: &[T], id: impl Fn(&T) -> u32) -> Vec<&T> {
    let mut items: Vec<&T> = items.iter().collect();
    items.sort_by_key(|item| id(item));
    items
}

/// Bounds what a verification costs, whatever a file says.
fn check_size(schedule: &Schedule, errors: &mut Findings) {
    let mut add = |site, what: &str, given: u64, most: u64| {
        if given > most {
            errors.add(Kind::TooLarge, site, Remark::accepting(format!("{given} {what}"), format!("up to {most}")));
        }
    };
    add(Site::ALL, "ranks", schedule.ranks.len() as u64, MAX_RANKS as u64);
    let (mut cells, mut steps, mut moved) = (0, 0, 0);
    for rank in &schedule.ranks {
        for (name, chunks) in [
            ("input chunks", rank.input_chunks),
            ("output chunks", rank.output_chunks),
            ("scratch chunks", rank.scratch_chunks),
        ] {
            add(Site::rank(Rank(rank.id)), name, u64::from(chunks), u64::from(MAX_CHUNKS));
            cells += u64::from(chunks);
        }
        let steps_of_rank: u64 = rank.thread_blocks.iter().map(|b| b.steps.len() as u64).sum();
        let clocks = steps_of_rank.saturating_mul(rank.thread_blocks.len() as u64);
        add(Site::rank(Rank(rank.id)), "steps times thread blocks", clocks, MAX_CLOCKS);
        steps += steps_of_rank;
        for block in &rank.thread_blocks {
            add(Site::block(Rank(rank.id), block.id), "as channel", u64::from(block.channel), u64::from(MAX_CHANNEL));
            // A step cannot move more chunks than a buffer has; whatever claims to is out of bounds.
            moved += block.steps.iter().map(|s| u64::from(s.count.min(MAX_CHUNKS))).sum::<u64>();
        }
    }
    add(Site::ALL, "chunks of buffers", cells, MAX_CELLS);
    add(Site::ALL, "steps", steps, MAX_STEPS as u64);
    add(Site::ALL, "chunks moved by steps", moved, MAX_MOVED);
    if schedule.ranks.is_empty() {
        errors.add(Kind::Ids, Site::ALL, "there are no ranks");
    }
}

fn check_ids(ranks: &[&ScheduleRank], errors: &mut Findings) {
    check_numbering(ranks.iter().map(|r| r.id), "rank", |id| Site::rank(Rank(id)), errors);
    for rank in ranks {
        let blocks = in_order(&rank.thread_blocks, |b| b.id);
        check_numbering(blocks.iter().map(|b| b.id), "thread block", |b| Site::block(Rank(rank.id), b), errors);
        for block in blocks {
            for (expected, step) in (0u32..).zip(&block.steps) {
                if step.id != expected {
                    let message = format!("this step is numbered {}", step.id);
                    let remark = Remark::accepting(message, expected.to_string());
                    errors.add(Kind::Ids, Site::step(Rank(rank.id), block.id, step.id), remark);
                    break; // those that follow are shifted as well
                }
            }
        }
    }
}

/// Numbers in ascending order must be 0, 1, 2 and so on; says which is the first that is not.
fn check_numbering(ids: impl Iterator<Item = u32>, what: &str, site: impl Fn(u32) -> Site, errors: &mut Findings) {
    let Some((expected, id)) = (0u32..).zip(ids).find(|(expected, id)| expected != id) else { return };
    let remark = if id < expected {
        Remark::from(format!("there are two of {what} {id}"))
    } else {
        Remark::accepting(format!("{what} {expected} is missing"), "numbers from 0 without gaps")
    };
    errors.add(Kind::Ids, site(id), remark);
}

fn check_peers(rank: Rank, block: &ThreadBlock, ranks: usize, errors: &mut Findings) {
    for (verb, peer) in [("sends to", block.send), ("receives from", block.recv)] {
        let Some(peer) = peer.map(Rank) else { continue };
        let site = Site::block(rank, block.id);
        if peer.index() >= ranks {
            let message = format!("{verb} rank {peer}, which does not exist");
            errors.add(Kind::Peer, site, Remark::accepting(message, format!("0 to {} or nobody", ranks - 1)));
        } else if peer == rank {
            errors.add(Kind::Peer, site, format!("{verb} its own rank {peer}"));
        }
    }
}

fn check_operands(collective: Collective, block: &ThreadBlock, step: &ScheduleStep, site: Site, errors: &mut Findings) {
    let op = step.op;
    let mut add = |kind, remark: Remark| errors.add(kind, site, remark);
    if op.sends() && block.send.is_none() {
        add(Kind::Peer, format!("a step of type {} in a thread block that sends to nobody", op.name()).into());
    }
    if op.receives() && block.recv.is_none() {
        add(Kind::Peer, format!("a step of type {} in a thread block that receives from nobody", op.name()).into());
    }
    if is_signal(step) {
        return;
    }
    for (name, needed, given) in
        [("source", op.reads_local(), step.src.is_some()), ("destination", op.stores(), step.dst.is_some())]
    {
        if needed && !given {
            add(Kind::Operand, format!("a step of type {} needs a {name}", op.name()).into());
        } else if given && !needed {
            add(Kind::Operand, format!("a step of type {} has no {name} of its own rank", op.name()).into());
        }
    }
    if (op == Op::Nop) != (step.count == 0) {
        let accepted = if op == Op::Nop { "0" } else { "1 or more" };
        let message = format!("a step of type {} on {} chunks", op.name(), step.count);
        add(Kind::Operand, Remark::accepting(message, accepted));
    }
    if op == Op::ResidualAdd {
        let message =
            format!("adds a residual (type ra), which is nobody's input and has no place in {}", collective.name());
        add(Kind::Operand, message.into());
    }
}

/// Whether a step sends or receives a message without data, which only orders steps: what remains of the signals of one-sided
/// plans that announce no data.
fn is_signal(step: &ScheduleStep) -> bool {
    matches!(step.op, Op::Send | Op::Recv) && step.count == 0 && step.src.is_none() && step.dst.is_none()
}

fn check_bounds(contract: &Contract, rank: Rank, step: &ScheduleStep, site: Site, errors: &mut Findings) {
    for place in [step.src, step.dst].into_iter().flatten() {
        let len = contract.len(rank, place.buffer);
        if u64::from(place.offset) + u64::from(step.count) > u64::from(len) {
            let message = format!(
                "{} outside the {} buffer of {len} chunks",
                chunks(place, step.count, len),
                place.buffer.name()
            );
            errors.add(Kind::Bounds, site, message);
        }
    }
}

fn chunks(place: Location, count: u32, len: u32) -> String {
    let last = u64::from(place.offset) + u64::from(count.max(1)) - 1;
    if count <= 1 || len == 0 {
        format!("chunk {} is", place.offset)
    } else {
        format!("chunks {} to {last} are", place.offset)
    }
}

fn check_dependency(
    blocks: &[&ThreadBlock],
    block: &ThreadBlock,
    step: &ScheduleStep,
    site: Site,
    errors: &mut Findings,
) {
    let Some(dependency) = step.depends_on else { return };
    let (on_block, on_step) = (dependency.thread_block, dependency.step);
    let waits = format!("waits for step {on_step} of thread block {on_block}");
    let Some(other) = blocks.get(on_block as usize) else {
        let accepted = format!("thread blocks 0 to {}", blocks.len() - 1);
        let remark = Remark::accepting(format!("{waits}, which does not exist"), accepted);
        return errors.add(Kind::Dependency, site, remark);
    };
    if on_step as usize >= other.steps.len() {
        let message = format!("{waits}, which has only {} steps", other.steps.len());
        errors.add(Kind::Dependency, site, message);
    } else if on_block == block.id && on_step >= step.id {
        errors.add(Kind::Dependency, site, format!("{waits}, which comes after it or is itself"));
    }
}

/// The ends of a connection as they are found.
#[derive(Default)]
struct Ends<'a> {
    sender: Option<&'a ThreadBlock>,
    receiver: Option<&'a ThreadBlock>,
}

/// Sends and receives of a connection meet in order, so their numbers and sizes must agree.
fn check_messages(ranks: &[Vec<&ThreadBlock>], errors: &mut Findings) {
    let mut connections: BTreeMap<Channel, Ends<'_>> = BTreeMap::new();
    for (rank, blocks) in (0..).map(Rank).zip(ranks) {
        for block in blocks {
            let out = block.send.map(|to| ((rank, Rank(to), block.channel), true));
            let back = block.recv.map(|from| ((Rank(from), rank, block.channel), false));
            for (connection, sends) in [out, back].into_iter().flatten() {
                let ends = match connections.entry(connection) {
                    Entry::Vacant(vacant) => vacant.insert(Ends::default()),
                    Entry::Occupied(occupied) => occupied.into_mut(),
                };
                let end = if sends { &mut ends.sender } else { &mut ends.receiver };
                if let Some(first) = end {
                    let (verb, peer) = if sends { ("sends to", connection.1) } else { ("receives from", connection.0) };
                    let message =
                        format!("{verb} rank {peer} on channel {}, as thread block {} does", block.channel, first.id);
                    let remark = Remark::accepting(message, "one thread block per peer, direction and channel");
                    errors.add(Kind::Connection, Site::block(rank, block.id), remark);
                } else {
                    *end = Some(block);
                }
            }
        }
    }
    for (&connection, ends) in &connections {
        match_messages(connection, ends, errors);
    }
}

fn match_messages((from, to, channel): Channel, ends: &Ends<'_>, errors: &mut Findings) {
    let steps = |block: Option<&'_ ThreadBlock>, wanted: fn(Op) -> bool| -> Vec<(u32, u32)> {
        let steps = block.map_or(&[][..], |b| &b.steps);
        steps.iter().filter(|s| wanted(s.op)).map(|s| (s.id, s.count)).collect()
    };
    let sends = steps(ends.sender, Op::sends);
    let receives = steps(ends.receiver, Op::receives);
    let name = |end: Option<&ThreadBlock>| end.map_or(0, |b| b.id);
    let on = format!("on channel {channel}");
    for (nth, (send, receive)) in sends.iter().zip(&receives).enumerate() {
        if send.1 != receive.1 {
            let message = format!(
                "receives {} chunks as message {nth} from rank {from} {on}, which step {} of its thread block {} sends \
                 with {} chunks",
                receive.1,
                send.0,
                name(ends.sender),
                send.1
            );
            errors.add(Kind::Count, Site::step(to, name(ends.receiver), receive.0), message);
        }
    }
    if sends.len() > receives.len() {
        let site = Site::step(from, name(ends.sender), sends[receives.len()].0);
        let message = format!(
            "message {} to rank {to} {on} is never received: {} sent, {} received",
            receives.len(),
            sends.len(),
            receives.len()
        );
        errors.add(Kind::Unreceived, site, message);
    } else if receives.len() > sends.len() {
        let site = Site::step(to, name(ends.receiver), receives[sends.len()].0);
        let message = format!(
            "message {} from rank {from} {on} is never sent: {} sent, {} received",
            sends.len(),
            sends.len(),
            receives.len()
        );
        errors.add(Kind::Unsent, site, message);
    }
}
