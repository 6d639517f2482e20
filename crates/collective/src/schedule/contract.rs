//! What collectives promise: how large their buffers are, which of them share memory in place, what
//! each rank starts with and what it must end with.
//!
//! With `N` ranks, a vector of `C` chunks and shares of `f = C / N`:
//!
//! | collective | input | output | output chunk `j` of rank `r` must be | in place |
//! |---|---|---|---|---|
//! | allreduce | C | C | chunk `j` of all | the same |
//! | reduce | C | C, at the root | chunk `j` of all | the same |
//! | broadcast | C, at the root | C | chunk `j` of the root | the same |
//! | alltoall | C | C | chunk `r f + j mod f` of rank `j / f` | the same |
//! | allgather | f | C | chunk `j mod f` of rank `j / f` | input is the rank's share of output |
//! | gather | f | C, at the root | chunk `j mod f` of rank `j / f` | as allgather |
//! | reduce_scatter | C | f | chunk `r f + j` of all | output is the rank's share of input |
//! | scatter | C, at the root | f | chunk `r f + j` of the root | as reduce_scatter |
//!
//! Buffers that share memory with another may be given as 0 chunks, as MSCCL's compiler does.

use super::form::{Collective, Location, ScheduleRank};
use crate::program::Buffer;
use crate::rank::Rank;
use crate::verify::data::{From, Promise};
use crate::verify::findings::{Findings, Kind, Remark, Site};
use std::ops::Range;

/// The promise of a collective for given ranks and sizes.
#[derive(Clone, Debug)]
pub struct Contract {
    collective: Collective,
    /// Chunks of the whole vector.
    pub size: u32,
    share: u32,
    memory: Vec<Memory>,
}

/// Where the buffers of a rank lie: first cell and number of chunks. Cells are numbered through all
/// ranks; in place, two buffers have cells in common.
#[derive(Clone, Copy, Debug)]
struct Memory {
    input: (u32, u32),
    output: (u32, u32),
    scratch: (u32, u32),
}

/// Where input and output lie in each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferRelation {
    /// Both hold the vector.
    Same,
    /// The input is a share of the output.
    Gathers,
    /// The output is a share of the input.
    Scatters,
}

impl Contract {
    /// The contract for `ranks`, which are in order. What does not fit goes to `errors`; the contract is
    /// `None` if something does not.
    pub fn new(
        collective: Collective,
        in_place: bool,
        ranks: &[&ScheduleRank],
        errors: &mut Findings,
    ) -> Option<Contract> {
        let relation = relation(collective);
        let count = ranks.len() as u32;
        let whole = |r: &&ScheduleRank| match relation {
            BufferRelation::Same => r.input_chunks.max(r.output_chunks),
            BufferRelation::Gathers => r.output_chunks,
            BufferRelation::Scatters => r.input_chunks,
        };
        let size = ranks.iter().map(whole).max().unwrap_or(0);
        let cut = relation != BufferRelation::Same || collective == Collective::AllToAll;
        if size == 0 {
            let buffer = if relation == BufferRelation::Gathers { "output" } else { "input" };
            errors.add(Kind::Sizes, Site::ALL, format!("no rank has an {buffer} buffer"));
            return None;
        }
        if cut && size % count != 0 {
            let message =
                format!("the {} vector of {size} chunks does not divide among {count} ranks", collective.name());
            errors.add(Kind::Sizes, Site::ALL, Remark::accepting(message, format!("a multiple of {count}")));
            return None;
        }
        let share = if cut { size / count } else { size };
        let mut contract = Contract { collective, size, share, memory: Vec::with_capacity(ranks.len()) };
        let before = errors.list.len();
        let mut end = 0;
        for rank in ranks {
            contract.check_sizes(rank, in_place, errors);
            let memory = contract.memory(rank, in_place, end);
            end = memory.scratch.0 + memory.scratch.1;
            contract.memory.push(memory);
        }
        (errors.list.len() == before).then_some(contract)
    }

    fn check_sizes(&self, rank: &ScheduleRank, in_place: bool, errors: &mut Findings) {
        let relation = relation(self.collective);
        let input = if relation == BufferRelation::Gathers { self.share } else { self.size };
        let output = if relation == BufferRelation::Scatters { self.share } else { self.size };
        let inside_output = in_place && relation != BufferRelation::Scatters && rank.output_chunks > 0;
        let inside_input = in_place && relation != BufferRelation::Gathers && rank.input_chunks > 0;
        let only_at_root = matches!(self.collective, Collective::Broadcast | Collective::Scatter);
        let result_at_root = matches!(self.collective, Collective::Reduce | Collective::Gather);
        let buffers = [
            ("input", rank.input_chunks, input, inside_output || only_at_root),
            ("output", rank.output_chunks, output, inside_input || result_at_root),
        ];
        for (name, given, wanted, optional) in buffers {
            if given != wanted && !(optional && given == 0) {
                let or_none = if optional { " or 0" } else { "" };
                let accepted = format!(
                    "{wanted}{or_none} for {}{} of {} chunks",
                    if in_place { "in-place " } else { "" },
                    self.collective.name(),
                    self.size
                );
                let remark = Remark::accepting(format!("the {name} buffer has {given} chunks"), accepted);
                errors.add(Kind::Sizes, Site::rank(Rank(rank.id)), remark);
            }
        }
    }

    fn memory(&self, rank: &ScheduleRank, in_place: bool, start: u32) -> Memory {
        let whole = (start, self.size);
        let share = (start + rank.id * self.share, self.share);
        let (input, output) = match relation(self.collective) {
            BufferRelation::Same if in_place && rank.input_chunks.max(rank.output_chunks) > 0 => (whole, whole),
            BufferRelation::Gathers if in_place && rank.output_chunks > 0 => (share, whole),
            BufferRelation::Scatters if in_place && rank.input_chunks > 0 => (whole, share),
            _ => ((start, rank.input_chunks), (start + rank.input_chunks, rank.output_chunks)),
        };
        let end = (input.0 + input.1).max(output.0 + output.1);
        Memory { input, output, scratch: (end, rank.scratch_chunks) }
    }

    /// Chunks of a buffer, those that it shares with another included.
    pub fn len(&self, rank: Rank, buffer: Buffer) -> u32 {
        self.buffer(rank, buffer).1
    }

    /// The cell of a place.
    pub fn cell(&self, rank: Rank, location: Location) -> u32 {
        self.buffer(rank, location.buffer).0 + location.offset
    }

    /// The cells of a rank.
    pub fn cells_of(&self, rank: Rank) -> Range<u32> {
        let memory = &self.memory[rank.index()];
        memory.input.0.min(memory.output.0)..memory.scratch.0 + memory.scratch.1
    }

    /// Cells of all ranks.
    pub fn cells(&self) -> u32 {
        self.memory.last().map_or(0, |m| m.scratch.0 + m.scratch.1)
    }

    /// What people call a cell of a rank.
    pub fn location(&self, rank: Rank, cell: u32) -> Location {
        let holds = |&(start, len): &(u32, u32)| (start..start + len).contains(&cell);
        let memory = &self.memory[rank.index()];
        let buffers =
            [(Buffer::Input, memory.input), (Buffer::Output, memory.output), (Buffer::Scratch, memory.scratch)];
        let (buffer, start) =
            buffers.into_iter().find(|b| holds(&b.1)).map_or((Buffer::Scratch, cell), |b| (b.0, b.1.0));
        Location { buffer, offset: cell - start }
    }

    /// The chunk of the own input that a rank starts with, if it does, for every chunk of its input.
    pub fn start(&self, rank: Rank) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (start, len) = self.memory[rank.index()].input;
        (0..len).map(move |chunk| (start + chunk, chunk))
    }

    /// The cells of the output of a rank, and what each must hold in the end: a chunk of the inputs, by its number there.
    /// Nothing, where the collective promises nothing.
    pub fn end(&self, rank: Rank, root: Rank) -> impl Iterator<Item = (u32, Promise)> + use<> {
        let promised = rank == root || !matches!(self.collective, Collective::Reduce | Collective::Gather);
        let (start, len) = self.memory[rank.index()].output;
        let (collective, share) = (self.collective, self.share);
        let wanted = move |j: u32| match collective {
            Collective::AllReduce | Collective::Reduce => (j, From::All),
            Collective::Broadcast => (j, From::One(root)),
            Collective::AllGather | Collective::Gather => (j % share, From::One(Rank(j / share))),
            Collective::ReduceScatter => (rank.0 * share + j, From::All),
            Collective::Scatter => (rank.0 * share + j, From::One(root)),
            Collective::AllToAll | Collective::Custom => (rank.0 * share + j % share, From::One(Rank(j / share))),
        };
        (0..if promised { len } else { 0 }).map(move |j| {
            let (chunk, from) = wanted(j);
            (start + j, Promise { rank, nth: j, chunk, from })
        })
    }

    /// What a chunk of a rank's input is in the vector: in an all-to-all the rank whose vector it belongs to, else 0, and the
    /// chunk's number in the vector.
    pub fn in_vector(&self, chunk: u32, rank: Rank) -> (u32, u32) {
        match (self.collective, relation(self.collective)) {
            (Collective::AllToAll, _) => (rank.0, chunk),
            (_, BufferRelation::Gathers) => (0, rank.0 * self.share + chunk),
            _ => (0, chunk),
        }
    }

    /// Whether results are sums.
    pub fn is_summed(&self) -> bool {
        matches!(self.collective, Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce)
    }

    /// A place in the buffer that holds the whole vector of an in-place collective, whichever of the two names it has; a
    /// place in scratch stays where it is.
    pub fn in_whole(&self, rank: Rank, Location { buffer, offset }: Location) -> Location {
        let (whole, part) = match relation(self.collective) {
            BufferRelation::Gathers => (Buffer::Output, Buffer::Input),
            BufferRelation::Same | BufferRelation::Scatters => (Buffer::Input, Buffer::Output),
        };
        let before = if relation(self.collective) == BufferRelation::Same { 0 } else { rank.0 * self.share };
        match buffer {
            _ if buffer == part => Location { buffer: whole, offset: before + offset },
            _ => Location { buffer, offset },
        }
    }

    /// Whether what the root starts with is distributed (else the root collects).
    pub fn sends_from_root(&self) -> bool {
        matches!(self.collective, Collective::Broadcast | Collective::Scatter)
    }

    /// Whether `rank` has room for what the root starts or ends with.
    pub fn can_be_root(&self, rank: Rank) -> bool {
        let memory = &self.memory[rank.index()];
        let buffer = if self.sends_from_root() { memory.input } else { memory.output };
        buffer.1 == self.size
    }

    fn buffer(&self, rank: Rank, buffer: Buffer) -> (u32, u32) {
        let memory = &self.memory[rank.index()];
        match buffer {
            Buffer::Input => memory.input,
            Buffer::Output => memory.output,
            Buffer::Scratch => memory.scratch,
        }
    }
}

fn relation(collective: Collective) -> BufferRelation {
    match collective {
        Collective::AllGather | Collective::Gather => BufferRelation::Gathers,
        Collective::ReduceScatter | Collective::Scatter => BufferRelation::Scatters,
        _ => BufferRelation::Same,
    }
}
