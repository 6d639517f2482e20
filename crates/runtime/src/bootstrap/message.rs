//! What ranks and server tell each other.

use super::calls::Entry;
use super::codec::{Malformed, Put, Take};
use super::process::Process;
use super::token::{TOKEN_BYTES, VERSION};
use super::{Cause, Failure, Signature};

/// The most bytes that a rank may publish.
pub const PUBLICATION_BYTES: usize = 64 << 10;

/// Every connection begins with these bytes.
const HELLO: [u8; 4] = *b"SYNC";
/// Bytes at the front of a [`Hello`] that are the same in all versions: magic, version, token, rank and ranks.
pub(crate) const FRONT: usize = 4 + 2 + TOKEN_BYTES + 4 + 4;
/// The longest text of a call that is sent. Longer ones are cut.
const TEXT_BYTES: usize = 512;

/// The front of the first message of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub version: u16,
    pub token: [u8; TOKEN_BYTES],
    pub rank: u32,
    pub ranks: u32,
}

/// The first message of a rank, by which it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub front: Front,
    pub process: Process,
    /// How long it waits for others to join, and in a call, in milliseconds.
    pub join_ms: u64,
    pub call_ms: u64,
    pub publication: Vec<u8>,
}

impl Front {
    /// Of this version.
    pub fn new(token: [u8; TOKEN_BYTES], rank: u32, ranks: u32) -> Front {
        Front { version: VERSION, token, rank, ranks }
    }

    pub fn put(&self, put: &mut Put) {
        put.raw(&HELLO).u16(self.version).raw(&self.token).u32(self.rank).u32(self.ranks);
    }

    pub fn take(take: &mut Take) -> Result<Front, Malformed> {
        if take.array()? != HELLO {
            return Err(Malformed);
        }
        Ok(Front { version: take.u16()?, token: take.array()?, rank: take.u32()?, ranks: take.u32()? })
    }
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let mut put = Put::default();
        self.front.put(&mut put);
        self.process.put(&mut put);
        put.u64(self.join_ms).u64(self.call_ms).bytes(&self.publication);
        put.0
    }

    pub fn decode(content: &[u8]) -> Result<Hello, Malformed> {
        let mut take = Take(content);
        let hello = Hello {
            front: Front::take(&mut take)?,
            process: Process::take(&mut take)?,
            join_ms: take.u64()?,
            call_ms: take.u64()?,
            publication: take.bytes()?.to_vec(),
        };
        take.end()?;
        Ok(hello)
    }
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// To get on in a call of all ranks, perhaps for a certain one.
    Call { call: u32, on: Option<u32> },
    /// For a point-to-point message from or to a peer. The second number changes whenever something moves.
    Message { peer: u32, progress: u64 },
}

/// What a rank tells the server once it has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FromRank {
    /// Its part of an all-gather.
    Exchange { number: u32, bytes: Vec<u8> },
    /// It has waited for longer than is usual.
    Waiting(Wait),
    /// It does not wait in this call any more.
    Done { call: u32 },
    /// What it knows of a call, how many calls it has made, and how often something has moved.
    Answer { call: u32, entry: Entry, next: u32, progress: u64 },
    /// An answer to an inquiry that is about no call.
    Here,
    /// It has found something wrong.
    Report(Failure),
    /// It has no more calls to make. With the number of the next call, and the last calls that it has made.
    Leave { next: u32, calls: Vec<(u32, Signature)> },
    /// It gives the communicator up.
    Abort,
}

/// What the server tells a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FromServer {
    /// All have joined, and these in the process of the server. The publications follow.
    Welcome { process: Process, ranks_of_process: Vec<u32> },
    /// What a rank has published.
    Publication { rank: u32, bytes: Vec<u8> },
    /// A rank's part of an all-gather.
    Exchanged { rank: u32, number: u32, bytes: Vec<u8> },
    /// What does the rank know of this call? Or only: is it there?
    Inquire { call: Option<u32> },
    /// It has been heard that the rank waits.
    Heard,
    /// A rank has said goodbye.
    Left { rank: u32 },
    /// The communicator has failed.
    Verdict(Failure),
}

impl FromRank {
    pub fn encode(&self) -> Vec<u8> {
        let mut put = Put::default();
        match self {
            FromRank::Exchange { number, bytes } => {
                put.u8(1).u32(*number).bytes(bytes);
            }
            FromRank::Waiting(Wait::Call { call, on }) => {
                put.u8(2).u32(*call).option(*on);
            }
            FromRank::Waiting(Wait::Message { peer, progress }) => {
                put.u8(3).u32(*peer).u64(*progress);
            }
            FromRank::Done { call } => {
                put.u8(4).u32(*call);
            }
            FromRank::Answer { call, entry, next, progress } => {
                put.u8(5).u32(*call).u32(*next).u64(*progress);
                put_entry(&mut put, entry);
            }
            FromRank::Here => {
                put.u8(6);
            }
            FromRank::Report(failure) => put_failure(put.u8(7), failure),
            FromRank::Leave { next, calls } => {
                put.u8(8).u32(*next).u32(calls.len() as u32);
                for (number, signature) in calls {
                    put.u32(*number);
                    put_signature(&mut put, signature);
                }
            }
            FromRank::Abort => {
                put.u8(9);
            }
        }
        put.0
    }

    pub fn decode(content: &[u8]) -> Result<FromRank, Malformed> {
        let mut take = Take(content);
        let message = match take.u8()? {
            1 => FromRank::Exchange { number: take.u32()?, bytes: take.bytes()?.to_vec() },
            2 => FromRank::Waiting(Wait::Call { call: take.u32()?, on: take.option()? }),
            3 => FromRank::Waiting(Wait::Message { peer: take.u32()?, progress: take.u64()? }),
            4 => FromRank::Done { call: take.u32()? },
            5 => {
                let (call, next, progress) = (take.u32()?, take.u32()?, take.u64()?);
                FromRank::Answer { call, entry: take_entry(&mut take)?, next, progress }
            }
            6 => FromRank::Here,
            7 => FromRank::Report(take_failure(&mut take)?),
            8 => {
                let (next, count) = (take.u32()?, take.u32()?);
                let mut calls = Vec::new();
                for _ in 0..count {
                    calls.push((take.u32()?, take_signature(&mut take)?));
                }
                FromRank::Leave { next, calls }
            }
            9 => FromRank::Abort,
            _ => return Err(Malformed),
        };
        take.end()?;
        Ok(message)
    }
}

impl FromServer {
    pub fn encode(&self) -> Vec<u8> {
        let mut put = Put::default();
        match self {
            FromServer::Welcome { process, ranks_of_process } => {
                process.put(put.u8(1));
                put.u32(ranks_of_process.len() as u32);
                for &rank in ranks_of_process {
                    put.u32(rank);
                }
            }
            FromServer::Publication { rank, bytes } => {
                put.u8(2).u32(*rank).bytes(bytes);
            }
            FromServer::Exchanged { rank, number, bytes } => {
                put.u8(3).u32(*rank).u32(*number).bytes(bytes);
            }
            FromServer::Inquire { call } => {
                put.u8(4).option(*call);
            }
            FromServer::Heard => {
                put.u8(5);
            }
            FromServer::Left { rank } => {
                put.u8(6).u32(*rank);
            }
            FromServer::Verdict(failure) => put_failure(put.u8(7), failure),
        }
        put.0
    }

    pub fn decode(content: &[u8]) -> Result<FromServer, Malformed> {
        let mut take = Take(content);
        let message = match take.u8()? {
            1 => {
                let (process, count) = (Process::take(&mut take)?, take.u32()?);
                let mut ranks_of_process = Vec::new();
                for _ in 0..count {
                    ranks_of_process.push(take.u32()?);
                }
                FromServer::Welcome { process, ranks_of_process }
            }
            2 => FromServer::Publication { rank: take.u32()?, bytes: take.bytes()?.to_vec() },
            3 => FromServer::Exchanged { rank: take.u32()?, number: take.u32()?, bytes: take.bytes()?.to_vec() },
            4 => FromServer::Inquire { call: take.option()? },
            5 => FromServer::Heard,
            6 => FromServer::Left { rank: take.u32()? },
            7 => FromServer::Verdict(take_failure(&mut take)?),
            _ => return Err(Malformed),
        };
        take.end()?;
        Ok(message)
    }
}

/// A text, cut to what may be sent.
fn put_text(put: &mut Put, text: &str, most: usize) {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put.bytes(&text.as_bytes()[..end]);
}

fn put_signature(put: &mut Put, signature: &Signature) {
    put.u64(signature.digest);
    put_text(put, &signature.text, TEXT_BYTES);
}

fn take_signature(take: &mut Take) -> Result<Signature, Malformed> {
    Ok(Signature { digest: take.u64()?, text: take.text()? })
}

fn put_entry(put: &mut Put, entry: &Entry) {
    match entry {
        Entry::NotBegun => {
            put.u8(0);
        }
        Entry::Begun { signature, ended } => put_signature(put.u8(if *ended { 2 } else { 1 }), signature),
        Entry::Forgotten => {
            put.u8(3);
        }
    }
}

fn take_entry(take: &mut Take) -> Result<Entry, Malformed> {
    match take.u8()? {
        0 => Ok(Entry::NotBegun),
        kind @ (1 | 2) => Ok(Entry::Begun { signature: take_signature(take)?, ended: kind == 2 }),
        3 => Ok(Entry::Forgotten),
        _ => Err(Malformed),
    }
}

const CAUSES: [Cause; 7] =
    [Cause::Died, Cause::TimedOut, Cause::Mismatch, Cause::Aborted, Cause::System, Cause::Argument, Cause::Device];

fn put_failure(put: &mut Put, failure: &Failure) {
    let cause = CAUSES.iter().position(|&cause| cause == failure.cause).expect("the list has all causes");
    put.u8(cause as u8).option(failure.rank).option(failure.call);
    put_text(put, &failure.message, 16 * TEXT_BYTES);
}

fn take_failure(take: &mut Take) -> Result<Failure, Malformed> {
    let cause = *CAUSES.get(usize::from(take.u8()?)).ok_or(Malformed)?;
    Ok(Failure { cause, rank: take.option()?, call: take.option()?, message: take.text()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn signatures() -> impl Strategy<Value = Signature> {
        (".{0,60}", any::<u64>()).prop_map(|(text, digest)| Signature { text, digest })
    }

    fn entries() -> impl Strategy<Value = Entry> {
        prop_oneof![
            Just(Entry::NotBegun),
            Just(Entry::Forgotten),
            (signatures(), any::<bool>()).prop_map(|(signature, ended)| Entry::Begun { signature, ended }),
        ]
    }

    fn failures() -> impl Strategy<Value = Failure> {
        (0..CAUSES.len(), any::<Option<u32>>(), any::<Option<u32>>(), ".{0,100}")
            .prop_map(|(cause, rank, call, message)| Failure { cause: CAUSES[cause], rank, call, message })
    }

    fn processes() -> impl Strategy<Value = Process> {
        any::<[u8; 20]>().prop_map(|bytes| Process::take(&mut Take(&bytes)).unwrap())
    }

    fn from_ranks() -> impl Strategy<Value = FromRank> {
        prop_oneof![
            (any::<u32>(), vec(any::<u8>(), 0..200)).prop_map(|(number, bytes)| FromRank::Exchange { number, bytes }),
            (any::<u32>(), any::<Option<u32>>()).prop_map(|(call, on)| FromRank::Waiting(Wait::Call { call, on })),
            (any::<u32>(), any::<u64>())
                .prop_map(|(peer, progress)| FromRank::Waiting(Wait::Message { peer, progress })),
            any::<u32>().prop_map(|call| FromRank::Done { call }),
            (any::<u32>(), entries(), any::<u32>(), any::<u64>())
                .prop_map(|(call, entry, next, progress)| FromRank::Answer { call, entry, next, progress }),
            Just(FromRank::Here),
            failures().prop_map(FromRank::Report),
            (any::<u32>(), vec((any::<u32>(), signatures()), 0..4))
                .prop_map(|(next, calls)| FromRank::Leave { next, calls }),
            Just(FromRank::Abort),
        ]
    }

    fn from_servers() -> impl Strategy<Value = FromServer> {
        prop_oneof![
            (processes(), vec(any::<u32>(), 0..9))
                .prop_map(|(process, ranks_of_process)| FromServer::Welcome { process, ranks_of_process }),
            (any::<u32>(), vec(any::<u8>(), 0..200)).prop_map(|(rank, bytes)| FromServer::Publication { rank, bytes }),
            (any::<u32>(), any::<u32>(), vec(any::<u8>(), 0..200))
                .prop_map(|(rank, number, bytes)| FromServer::Exchanged { rank, number, bytes }),
            any::<Option<u32>>().prop_map(|call| FromServer::Inquire { call }),
            Just(FromServer::Heard),
            any::<u32>().prop_map(|rank| FromServer::Left { rank }),
            failures().prop_map(FromServer::Verdict),
        ]
    }

    fn hellos() -> impl Strategy<Value = Hello> {
        (any::<[u8; 32]>(), any::<[u32; 2]>(), processes(), any::<[u64; 2]>(), vec(any::<u8>(), 0..200)).prop_map(
            |(token, [rank, ranks], process, [join_ms, call_ms], publication)| Hello {
                front: Front::new(token, rank, ranks),
                process,
                join_ms,
                call_ms,
                publication,
            },
        )
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(rank in from_ranks(), server in from_servers(), hello in hellos()) {
            prop_assert_eq!(FromRank::decode(&rank.encode()), Ok(rank));
            prop_assert_eq!(FromServer::decode(&server.encode()), Ok(server));
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in vec(any::<u8>(), 0..200),
            rank in from_ranks(),
            server in from_servers(),
            hello in hellos(),
            place in any::<usize>(),
            value in any::<u8>(),
            cut in any::<usize>(),
        ) {
            let changed = |mut bytes: Vec<u8>| {
                let place = place % bytes.len();
                bytes[place] = value;
                if cut.is_multiple_of(3) {
                    bytes.truncate(cut % bytes.len());
                }
                bytes
            };
            for bytes in [bytes.clone(), changed(rank.encode()), changed(server.encode()), changed(hello.encode())] {
                let _ = FromRank::decode(&bytes);
                let _ = FromServer::decode(&bytes);
                let _ = Hello::decode(&bytes);
            }
        }

        #[test]
        fn long_texts_are_cut_between_characters(text in "\\PC{400,700}") {
            let entry = Entry::Begun { signature: Signature { text: text.clone(), digest: 1 }, ended: false };
            let read = FromRank::decode(&FromRank::Answer { call: 0, entry, next: 1, progress: 0 }.encode()).unwrap();
            let FromRank::Answer { entry: Entry::Begun { signature, .. }, .. } = read else { panic!("{read:?}") };
            prop_assert!(signature.text.len() <= TEXT_BYTES && text.starts_with(&signature.text));
        }
    }
}
