//! Finds out why a call does not end, from what ranks say about it. It reads no clock and no socket: times are
//! arguments.
//!
//! For every matter that a rank waits in there is a case. While there is one, all ranks are asked about it again and
//! again; each has one open inquiry for a case at most. A case is closed when nobody waits in it any more.

use super::calls::Entry;
use super::message::Wait;
use super::texts::{ranks as names, verb, with_article};
use super::{Cause, Failure, Signature};
use crate::clock::seconds;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often ranks are asked, and the court looks at its cases.
const PERIOD: Duration = Duration::from_millis(50);
/// How long an announcement holds. It is made again each 100 ms.
const FRESH: Duration = Duration::from_secs(1);
/// Who has not answered an inquiry for so long is silent: stopped, or out of reach.
const SILENT: Duration = Duration::from_secs(1);
/// Who has not answered for so long may turn out to be silent, so that others are not blamed yet.
const SLOW: Duration = Duration::from_millis(200);
/// How long ranks that have not made a call are waited for when others have made different ones, so as to know the
/// majority.
const UNDECIDED: Duration = Duration::from_millis(300);
/// How long messages of a peer that has left may still be on their way.
const ON_THE_WAY: Duration = Duration::from_millis(500);
/// How long a difference that a rank reports is looked for in the logs.
const LOOK_FOR: Duration = Duration::from_secs(1);
/// A rank that waits in more matters at once is not listened to.
const WAITS: usize = 64;

/// The court of a communicator.
pub(crate) struct Court {
    timeout: Duration,
    ranks: Vec<Standing>,
    cases: BTreeMap<Matter, Case>,
    /// A difference that a rank has seen, and until when to look for it in the logs.
    suspicion: Option<(Failure, Instant)>,
    looked: Option<Instant>,
}

/// What a rank may wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Matter {
    Call(u32),
    Message { waiter: u32, peer: u32 },
}

/// What is known of a rank.
#[derive(Default)]
struct Standing {
    next: u32,
    progress: u64,
    /// Since when it has owed an answer.
    owes: Option<Instant>,
    /// It has left, after these calls.
    left: Option<BTreeMap<u32, Signature>>,
    waits: BTreeMap<Matter, Waiting>,
}

/// That a rank waits.
struct Waiting {
    on: Option<u32>,
    progress: u64,
    announced: Instant,
}

/// What is known of a matter.
struct Case {
    entries: Vec<Option<Entry>>,
    /// Which ranks have been asked and have not answered.
    open: Vec<bool>,
    inquired: Option<Instant>,
    /// What counts as a movement if it changes, and when that was last.
    state: Vec<(u8, u32, u64)>,
    still_since: Instant,
    differ_since: Option<Instant>,
}

impl Court {
    pub fn new(ranks: u32, timeout: Duration) -> Court {
        let ranks = (0..ranks).map(|_| Standing::default()).collect();
        Court { timeout, ranks, cases: BTreeMap::new(), suspicion: None, looked: None }
    }

    /// A rank has announced that it waits.
    pub fn wait(&mut self, rank: u32, wait: Wait, now: Instant) {
        let (matter, on, progress) = match wait {
            Wait::Call { call, on } => (Matter::Call(call), on, 0),
            Wait::Message { peer, progress } => (Matter::Message { waiter: rank, peer }, Some(peer), progress),
        };
        if on.is_some_and(|on| on as usize >= self.ranks.len()) {
            return;
        }
        let waits = &mut self.ranks[rank as usize].waits;
        if waits.len() < WAITS || waits.contains_key(&matter) {
            waits.insert(matter, Waiting { on, progress, announced: now });
            self.open(matter, now);
        }
    }

    /// A rank does not wait in a call any more.
    pub fn done(&mut self, rank: u32, call: u32) {
        self.ranks[rank as usize].waits.remove(&Matter::Call(call));
    }

    /// Something has come from a rank: it is neither stopped nor out of reach.
    pub fn heard(&mut self, rank: u32) {
        self.ranks[rank as usize].owes = None;
    }

    /// A rank has answered that it is there.
    pub fn here(&mut self, rank: u32) {
        for (matter, case) in &mut self.cases {
            if matches!(matter, Matter::Message { .. }) {
                case.open[rank as usize] = false;
            }
        }
    }

    /// A rank has answered what it knows of a call.
    pub fn answer(&mut self, rank: u32, call: u32, entry: Entry, next: u32, progress: u64) {
        let standing = &mut self.ranks[rank as usize];
        (standing.next, standing.progress) = (next, progress);
        if let Some(case) = self.cases.get_mut(&Matter::Call(call)) {
            case.entries[rank as usize] = Some(entry);
            case.open[rank as usize] = false;
        }
    }

    /// A rank has left.
    pub fn leave(&mut self, rank: u32, next: u32, calls: Vec<(u32, Signature)>) {
        let standing = &mut self.ranks[rank as usize];
        *standing = Standing { next, left: Some(calls.into_iter().collect()), ..Standing::default() };
        for case in self.cases.values_mut() {
            case.open[rank as usize] = false;
        }
    }

    /// A rank reports a failure. Returns it, unless it is a difference between calls, of which the logs may tell more.
    pub fn report(&mut self, failure: Failure, now: Instant) -> Option<Failure> {
        match (failure.cause, failure.call) {
            (Cause::Mismatch, Some(call)) => {
                if self.suspicion.is_none() {
                    self.suspicion = Some((failure, now + LOOK_FOR));
                    self.open(Matter::Call(call), now);
                }
                None
            }
            _ => Some(failure),
        }
    }

    fn open(&mut self, matter: Matter, now: Instant) {
        let ranks = self.ranks.len();
        self.cases.entry(matter).or_insert_with(|| Case {
            entries: vec![None; ranks],
            open: vec![false; ranks],
            inquired: None,
            state: Vec::new(),
            still_since: now,
            differ_since: None,
        });
    }

    /// When to look again.
    pub fn next_look(&self, now: Instant) -> Option<Instant> {
        (!self.cases.is_empty()).then(|| now + PERIOD)
    }

    /// Closes cases, and returns whom to ask about which call; about none, if it is only to say whether it is there.
    pub fn inquiries(&mut self, now: Instant) -> Vec<(u32, Option<u32>)> {
        self.forgive(now);
        for standing in &mut self.ranks {
            standing.waits.retain(|_, waiting| now - waiting.announced < FRESH);
        }
        let suspected = self.suspicion.as_ref().and_then(|(failure, _)| failure.call);
        let ranks = &self.ranks;
        self.cases.retain(|matter, _| {
            ranks.iter().any(|standing| standing.waits.contains_key(matter))
                || matches!(matter, Matter::Call(call) if Some(*call) == suspected)
        });
        let mut inquiries = Vec::new();
        for (matter, case) in &mut self.cases {
            if case.inquired.is_some_and(|inquired| now - inquired < PERIOD) {
                continue;
            }
            case.inquired = Some(now);
            for (rank, standing) in self.ranks.iter_mut().enumerate() {
                let (asks, call) = match *matter {
                    Matter::Call(call) => (true, Some(call)),
                    Matter::Message { waiter, peer } => ([waiter, peer].contains(&(rank as u32)), None),
                };
                if !asks || standing.left.is_some() {
                    continue;
                }
                standing.owes.get_or_insert(now);
                if !std::mem::replace(&mut case.open[rank], true) {
                    inquiries.push((rank as u32, call));
                }
            }
        }
        inquiries
    }

    /// Whoever has been stopped itself must not count that time against others.
    fn forgive(&mut self, now: Instant) {
        let gap = self.looked.map_or(Duration::ZERO, |looked| now - looked);
        self.looked = (!self.cases.is_empty()).then_some(now);
        if gap < SILENT {
            return;
        }
        for standing in &mut self.ranks {
            standing.owes = None;
            for waiting in standing.waits.values_mut() {
                waiting.announced = now;
            }
        }
        for case in self.cases.values_mut() {
            case.still_since += gap;
        }
    }

    /// The failure of the communicator, if it is certain by now.
    pub fn verdict(&mut self, now: Instant) -> Option<Failure> {
        let mut verdict = None;
        for (&matter, case) in &mut self.cases {
            let found = match matter {
                Matter::Call(call) => case.judge_call(call, &self.ranks, self.timeout, now),
                Matter::Message { waiter, peer } => case.judge_message(waiter, peer, &self.ranks, self.timeout, now),
            };
            verdict = verdict.or(found);
        }
        let reported =
            || self.suspicion.as_ref().filter(|(_, until)| now >= *until).map(|(failure, _)| failure.clone());
        verdict.or_else(reported)
    }
}

impl Case {
    fn judge_call(&mut self, call: u32, ranks: &[Standing], timeout: Duration, now: Instant) -> Option<Failure> {
        let groups = self.groups(call, ranks);
        if groups.len() > 1 {
            let differ_since = *self.differ_since.get_or_insert(now);
            let undecided = ranks
                .iter()
                .zip(&self.entries)
                .any(|(standing, entry)| standing.left.is_none() && matches!(entry, None | Some(Entry::NotBegun)));
            return (!undecided || now - differ_since >= UNDECIDED).then(|| mismatch(call, &groups));
        }
        let call_text = match groups.values().next() {
            Some((text, _)) => format!("call {call} ({})", with_article(text)),
            None => format!("call {call}"),
        };
        if groups.is_empty() && now - self.still_since < SLOW {
            // Nobody has said yet what call it is.
            return None;
        }
        let gone = which(ranks, |rank| ranks[rank].left.is_some() && ranks[rank].next <= call);
        if let [first, ..] = gone[..] {
            let has = verb(gone.len(), "has", "have");
            let message = format!("{} {has} left the communicator without making {call_text}", names(&gone));
            return Some(Failure::new(Cause::Aborted, message).of_rank(first).in_call(call));
        }
        let state = ranks.iter().zip(&self.entries).map(|(standing, entry)| match entry {
            _ if standing.left.is_some() => (4, 0, 0),
            None => (0, 0, 0),
            Some(Entry::NotBegun) => (1, standing.next, standing.progress),
            Some(Entry::Begun { ended: false, .. }) => (2, standing.next, standing.progress),
            Some(Entry::Begun { ended: true, .. } | Entry::Forgotten) => (3, 0, 0),
        });
        if !self.still_for(state.collect(), timeout, now) {
            return None;
        }
        self.blame(call, &call_text, ranks, timeout, now).map(|failure| failure.in_call(call))
    }

    /// Who has made which call: by digest, the text and the ranks.
    fn groups(&self, call: u32, ranks: &[Standing]) -> BTreeMap<u64, (String, Vec<u32>)> {
        let mut groups: BTreeMap<u64, (String, Vec<u32>)> = BTreeMap::new();
        for (rank, standing) in ranks.iter().enumerate() {
            let left = standing.left.as_ref().and_then(|calls| calls.get(&call));
            let made = match &self.entries[rank] {
                Some(Entry::Begun { signature, .. }) => Some(signature),
                _ => left,
            };
            if let Some(signature) = made {
                let group = groups.entry(signature.digest).or_insert_with(|| (signature.text.clone(), Vec::new()));
                group.1.push(rank as u32);
            }
        }
        groups
    }

    /// Takes note of a state, and says whether it has been the same for the timeout.
    fn still_for(&mut self, state: Vec<(u8, u32, u64)>, timeout: Duration, now: Instant) -> bool {
        if state != self.state {
            // The first one is no movement.
            if !self.state.is_empty() {
                self.still_since = now;
            }
            self.state = state;
        }
        now - self.still_since >= timeout
    }

    fn blame(
        &self,
        call: u32,
        call_text: &str,
        ranks: &[Standing],
        timeout: Duration,
        now: Instant,
    ) -> Option<Failure> {
        match silence(ranks, now) {
            Silence::Undecided => return None,
            Silence::Of(failure_ranks) => return Some(silent(&failure_ranks, &format!("in {call_text}"))),
            Silence::Nobody => {}
        }
        let timeout = seconds(timeout);
        let unknown =
            ranks.iter().zip(&self.entries).any(|(standing, entry)| standing.left.is_none() && entry.is_none());
        if unknown {
            return None;
        }
        let absent = which(ranks, |rank| matches!(self.entries[rank], Some(Entry::NotBegun)));
        if let [first, ..] = absent[..] {
            let has = verb(absent.len(), "has", "have");
            let message = format!("{} {has} not made {call_text} within {timeout}", names(&absent));
            return Some(Failure::new(Cause::TimedOut, message).of_rank(first));
        }
        // Whom the first waiter waits for, whom that one waits for, and so on, to one who waits for nobody, or in a
        // circle.
        let matter = Matter::Call(call);
        let waited_for = |rank: usize| ranks[rank].waits.get(&matter).and_then(|waiting| waiting.on);
        let waiter = (0..ranks.len()).find(|&rank| ranks[rank].waits.contains_key(&matter))?;
        let mut last = waited_for(waiter);
        for _ in 0..ranks.len() {
            last = last.and_then(|rank| waited_for(rank as usize)).or(last);
        }
        let still = format!("{call_text} has made no progress for {timeout}");
        Some(match last {
            Some(rank) => Failure::new(Cause::TimedOut, format!("{still}, and waits for rank {rank}")).of_rank(rank),
            None => Failure::new(Cause::TimedOut, format!("{still}, and rank {waiter} still waits")),
        })
    }

    fn judge_message(
        &mut self,
        waiter: u32,
        peer: u32,
        ranks: &[Standing],
        timeout: Duration,
        now: Instant,
    ) -> Option<Failure> {
        let waiting = ranks[waiter as usize].waits.get(&Matter::Message { waiter, peer })?;
        let late = self.still_for(vec![(0, 0, waiting.progress)], timeout, now);
        let about = format!("that rank {waiter} waits for in a point-to-point message");
        if ranks[peer as usize].left.is_some() && now - self.still_since >= ON_THE_WAY {
            let message = format!("rank {peer}, {about}, has left the communicator");
            return Some(Failure::new(Cause::Aborted, message).of_rank(peer));
        }
        if !late {
            return None;
        }
        match silence(ranks, now) {
            Silence::Undecided => None,
            Silence::Of(silent_ranks) if silent_ranks.contains(&peer) => {
                Some(silent(&[peer], &format!("to rank {waiter}, which waits for a point-to-point message")))
            }
            _ => {
                let message = format!("rank {peer}, {about}, has taken no part in it for {}", seconds(timeout));
                Some(Failure::new(Cause::TimedOut, message).of_rank(peer))
            }
        }
    }
}

/// The ranks of which something is true.
fn which(ranks: &[Standing], is: impl Fn(usize) -> bool) -> Vec<u32> {
    (0..ranks.len()).filter(|&rank| is(rank)).map(|rank| rank as u32).collect()
}

/// Who does not answer.
enum Silence {
    Nobody,
    /// Some are slow to answer.
    Undecided,
    Of(Vec<u32>),
}

fn silence(ranks: &[Standing], now: Instant) -> Silence {
    let owing = |least: Duration| which(ranks, |rank| ranks[rank].owes.is_some_and(|since| now - since >= least));
    let (silent, slow) = (owing(SILENT), owing(SLOW));
    if silent.len() < slow.len() {
        Silence::Undecided
    } else if silent.is_empty() {
        Silence::Nobody
    } else {
        Silence::Of(silent)
    }
}

fn silent(ranks: &[u32], when: &str) -> Failure {
    let (does, its) = if ranks.len() == 1 {
        ("does not answer", "its process is stopped or its host is unreachable")
    } else {
        ("do not answer", "their processes are stopped or their hosts are unreachable")
    };
    Failure::new(Cause::TimedOut, format!("{} {does} ({its}) {when}", names(ranks))).of_rank(ranks[0])
}

/// The failure of ranks that have made different calls: the smaller groups are to blame, unless there is no largest
/// one.
fn mismatch(call: u32, groups: &BTreeMap<u64, (String, Vec<u32>)>) -> Failure {
    let mut groups: Vec<&(String, Vec<u32>)> = groups.values().collect();
    groups.sort_by_key(|(_, ranks)| (std::cmp::Reverse(ranks.len()), ranks[0]));
    let asked = |text: &str| {
        let same_texts = groups.iter().filter(|(other, _)| other == text).count();
        format!("{}{}", with_article(text), if same_texts > 1 { " of another kind" } else { "" })
    };
    let mut sentence = String::new();
    let largest = groups[0].1.len();
    let (rank, blamed) =
        if largest > groups[1].1.len() { (Some(groups[1].1[0]), &groups[1..]) } else { (None, &groups[..]) };
    for (index, (text, ranks)) in blamed.iter().enumerate() {
        let text = asked(text);
        if index == 0 {
            sentence = format!("{} asked for {text} in call {call}", names(ranks));
        } else {
            sentence += &format!(", {} for {text}", names(ranks));
        }
    }
    if rank.is_some() {
        let others = verb(largest, "other", "others");
        sentence += &format!(", where {largest} {others} asked for {}", asked(&groups[0].0));
    }
    Failure { rank, ..Failure::new(Cause::Mismatch, sentence).in_call(call) }
}

#[cfg(test)]
mod tests;
