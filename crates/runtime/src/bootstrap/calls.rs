//! What a rank remembers of its calls, to answer the server's inquiries.

use super::Signature;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls that are remembered. Ranks are never that far apart, as the rings between them hold a few messages only.
const REMEMBERED: usize = 1024;
/// Calls that a rank which leaves tells the server of.
const LEFT: usize = 64;

/// What a rank asks for in a call, as cheap to keep as can be: the text is made when somebody wants it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// A digest of all that has to be the same on all ranks.
    pub digest: u64,
    /// What `text` needs to know: kind, elements, type, root, or the like.
    pub words: [u64; 4],
    /// Writes [`Signature::text`].
    pub text: fn(&[u64; 4]) -> String,
}

impl Request {
    /// It in full.
    pub fn signature(&self) -> Signature {
        Signature { text: (self.text)(&self.words), digest: self.digest }
    }
}

/// What a rank knows of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has not made it.
    NotBegun,
    /// It has made it, and perhaps finished it.
    Begun { signature: Signature, ended: bool },
    /// It has made it, too long ago to know more.
    Forgotten,
}

/// The log of a rank.
pub(crate) struct Calls {
    log: Mutex<Log>,
    /// How often something has moved in any call.
    progress: AtomicU64,
}

struct Log {
    /// By the number of the call, modulo the number of them.
    calls: Vec<Option<Call>>,
    /// One more than the highest number of a call so far.
    next: u32,
}

#[derive(Clone, Copy)]
struct Call {
    number: u32,
    request: Request,
    ended: bool,
}

impl Calls {
    pub fn new() -> Calls {
        Calls { log: Mutex::new(Log { calls: vec![None; REMEMBERED], next: 0 }), progress: AtomicU64::new(0) }
    }

    pub fn begin(&self, number: u32, request: Request) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.calls[number as usize % REMEMBERED] = Some(Call { number, request, ended: false });
        log.next = log.next.max(number.saturating_add(1));
    }

    pub fn end(&self, number: u32) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = log.calls[number as usize % REMEMBERED].as_mut().filter(|call| call.number == number) {
            call.ended = true;
        }
    }

    pub fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    pub fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// What is known of a call, and the number of the next.
    pub fn entry(&self, number: u32) -> (Entry, u32) {
        let (call, next) = {
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            (log.calls[number as usize % REMEMBERED], log.next)
        };
        // The text is made without the lock, which the rank's own threads want.
        let entry = match call {
            Some(call) if call.number == number => {
                Entry::Begun { signature: call.request.signature(), ended: call.ended }
            }
            _ if number < next => Entry::Forgotten,
            _ => Entry::NotBegun,
        };
        (entry, next)
    }

    /// The last calls with their numbers, and the number of the next.
    pub fn last(&self) -> (Vec<(u32, Signature)>, u32) {
        let (calls, next) = {
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let numbers = (0..log.next).rev().take(LEFT);
            let calls: Vec<Call> = numbers
                .filter_map(|number| log.calls[number as usize % REMEMBERED].filter(|call| call.number == number))
                .collect();
            (calls, log.next)
        };
        (calls.into_iter().map(|call| (call.number, call.request.signature())).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_knows_the_last_calls_and_forgets_older_ones() {
        let calls = Calls::new();
        assert_eq!(calls.entry(0), (Entry::NotBegun, 0));
        let request = |number: u32| Request {
            digest: u64::from(number) + 7,
            words: [u64::from(number), 0, 0, 0],
            text: |words| format!("call of {}", words[0]),
        };
        for number in 0..3000 {
            calls.begin(number, request(number));
        }
        calls.end(2999);
        calls.end(5);
        let signature = |number: u32| Signature { text: format!("call of {number}"), digest: u64::from(number) + 7 };
        assert_eq!(calls.entry(5), (Entry::Forgotten, 3000));
        assert_eq!(calls.entry(1975), (Entry::Forgotten, 3000));
        assert_eq!(calls.entry(1976), (Entry::Begun { signature: signature(1976), ended: false }, 3000));
        assert_eq!(calls.entry(2999), (Entry::Begun { signature: signature(2999), ended: true }, 3000));
        assert_eq!(calls.entry(3000), (Entry::NotBegun, 3000));
        let (last, next) = calls.last();
        assert_eq!((last.len(), next), (LEFT, 3000));
        assert_eq!(last[0], (2999, signature(2999)));
    }
}
