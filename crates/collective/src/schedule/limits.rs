//! The limits of the MSCCL runtime. A schedule that exceeds them is still a schedule, so they only cause
//! warnings.

use super::form::{Collective, Schedule, ThreadBlock};
use crate::program::{Buffer, Op};
use crate::rank::Rank;
use crate::verify::findings::{Findings, Kind, Site};

/// Bytes of the name.
pub const NAME_BYTES: usize = 63;
/// Channels of all ranks.
pub const CHANNELS: u32 = 32;
/// Thread blocks of a rank.
pub const BLOCKS_PER_RANK: usize = 216;
/// Thread blocks of a rank that send on a channel, or receive on it.
pub const BLOCKS_PER_CHANNEL: usize = 32;
/// Steps of a thread block.
pub const STEPS_PER_BLOCK: usize = 256;
/// Chunks that a step moves.
pub const CHUNKS_PER_STEP: u32 = 71;
/// Messages that a connection holds.
pub const SLOTS: usize = 8;
/// Reductions in a row that wait for nothing.
pub const FUSED_REDUCTIONS: usize = 16;

/// Warns of what the runtime refuses or stumbles over, in a schedule that is one.
pub fn warn(schedule: &Schedule, ranks: &[Vec<&ThreadBlock>], size: u32, warnings: &mut Findings) {
    if schedule.name.len() > NAME_BYTES {
        let message = format!("the name has {} bytes; MSCCL takes up to {NAME_BYTES}", schedule.name.len());
        warnings.add(Kind::Limit, Site::ALL, message);
    }
    warn_of_head(schedule, ranks, size, warnings);
    if !schedule.in_place
        && let Some(site) = first_write_to_input(ranks)
    {
        let message = "writes to the input buffer, which callers of an out-of-place collective expect unchanged";
        warnings.add(Kind::InputWritten, site, message);
    }
    for (rank, blocks) in (0..).map(Rank).zip(ranks) {
        if blocks.len() > BLOCKS_PER_RANK {
            let message = format!("{} thread blocks; MSCCL takes up to {BLOCKS_PER_RANK}", blocks.len());
            warnings.add(Kind::Limit, Site::rank(rank), message);
        }
        warn_of_channels(rank, blocks, warnings);
        for block in blocks {
            warn_of_block(rank, block, warnings);
            for step in &block.steps {
                warn_of_dependency(rank, blocks, block, step.id, warnings);
            }
        }
    }
}

fn warn_of_head(schedule: &Schedule, ranks: &[Vec<&ThreadBlock>], size: u32, warnings: &mut Findings) {
    let channels = ranks.iter().flatten().map(|b| b.channel + 1).max().unwrap_or(0);
    if schedule.channels.is_some_and(|given| given < channels) {
        let message = format!("{} channels are stated, {channels} are used", schedule.channels.unwrap_or(0));
        warnings.add(Kind::Head, Site::ALL, message);
    }
    if channels > CHANNELS {
        warnings.add(Kind::Limit, Site::ALL, format!("{channels} channels; MSCCL takes up to {CHANNELS}"));
    }
    if let Some(given) = schedule.chunks_per_loop
        && given != size
    {
        let message = format!("{given} chunks per loop are stated, the vector has {size}; MSCCL refuses that");
        warnings.add(Kind::Head, Site::ALL, message);
    }
    if matches!(schedule.collective, Collective::Gather | Collective::Scatter) {
        let message = format!("the first MSCCL runtime has no {}; its successor has", schedule.collective.name());
        warnings.add(Kind::Limit, Site::ALL, message);
    }
}

fn warn_of_channels(rank: Rank, blocks: &[&ThreadBlock], warnings: &mut Findings) {
    let mut ends: Vec<(u32, bool)> = blocks
        .iter()
        .flat_map(|b| [b.send.map(|_| (b.channel, true)), b.recv.map(|_| (b.channel, false))])
        .flatten()
        .collect();
    ends.sort_unstable();
    for group in ends.chunk_by(|a, b| a == b).filter(|g| g.len() > BLOCKS_PER_CHANNEL) {
        let (channel, sends) = group[0];
        let verb = if sends { "send" } else { "receive" };
        let message = format!(
            "{} thread blocks {verb} on channel {channel}; MSCCL takes up to {BLOCKS_PER_CHANNEL}",
            group.len()
        );
        warnings.add(Kind::Limit, Site::rank(rank), message);
    }
}

fn warn_of_block(rank: Rank, block: &ThreadBlock, warnings: &mut Findings) {
    if block.steps.len() > STEPS_PER_BLOCK {
        let message = format!("{} steps; MSCCL takes up to {STEPS_PER_BLOCK}", block.steps.len());
        warnings.add(Kind::Limit, Site::block(rank, block.id), message);
    }
    let mut waiting = false;
    for (step, fused) in block.steps.iter().zip(reductions_in_a_row(block)) {
        let site = Site::step(rank, block.id, step.id);
        if step.count > CHUNKS_PER_STEP {
            let message = format!("{} chunks in one step; MSCCL takes up to {CHUNKS_PER_STEP}", step.count);
            warnings.add(Kind::Limit, site, message);
        }
        if fused == FUSED_REDUCTIONS + 1 {
            let message = format!("more than {FUSED_REDUCTIONS} reductions in a row, which MSCCL may fuse");
            warnings.add(Kind::Limit, site, message);
        }
        if step.op != Op::Nop && waiting && step.depends_on.is_none() {
            let message = "follows a nop that waits, and waits for nothing itself; MSCCL refuses that";
            warnings.add(Kind::Chain, site, message);
        }
        waiting = step.op == Op::Nop && (waiting || step.depends_on.is_some());
    }
}

/// For each step, how many reductions there are in a row up to it that wait for nothing.
pub fn reductions_in_a_row(block: &ThreadBlock) -> impl Iterator<Item = usize> {
    block.steps.iter().scan(0, |fused, step| {
        *fused = match (step.op, step.depends_on) {
            (Op::Reduce, Some(_)) => 1,
            (Op::Reduce, None) => *fused + 1,
            _ => 0,
        };
        Some(*fused)
    })
}

/// A step that waits does so until the other thread block announces the step or a later one.
fn warn_of_dependency(rank: Rank, blocks: &[&ThreadBlock], block: &ThreadBlock, step: u32, warnings: &mut Findings) {
    let Some(on) = block.steps[step as usize].depends_on else { return };
    let other = &blocks[on.thread_block as usize].steps;
    let target = &other[on.step as usize];
    if target.has_dependents && target.op != Op::Nop {
        return;
    }
    let later = other[on.step as usize..].iter().find(|s| s.has_dependents && s.op != Op::Nop);
    let message = format!(
        "waits for step {} of thread block {}, which is not marked as having dependents, so that MSCCL waits {}",
        on.step,
        on.thread_block,
        later.map_or("for ever".into(), |s| format!("until step {}", s.id))
    );
    warnings.add(Kind::Unannounced, Site::step(rank, block.id, step), message);
}

fn first_write_to_input(ranks: &[Vec<&ThreadBlock>]) -> Option<Site> {
    (0..).map(Rank).zip(ranks).find_map(|(rank, blocks)| {
        blocks.iter().find_map(|block| {
            let mut steps = block.steps.iter();
            let writes = steps.find(|s| s.dst.is_some_and(|d| d.buffer == Buffer::Input));
            writes.map(|s| Site::step(rank, block.id, s.id))
        })
    })
}
