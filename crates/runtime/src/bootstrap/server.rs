//! The bootstrap server: one thread that knows all ranks of a communicator, and waits on all their connections with
//! poll(2).

use super::codec::Take;
use super::connection::{Connection, FRAME_BYTES, HEAD, stop_listening};
use super::court::Court;
use super::message::{FRONT, FromRank, FromServer, Front, Hello, PUBLICATION_BYTES};
use super::options::Options;
use super::process::Process;
use super::texts::{ranks as names, verb};
use super::token::{TOKEN_BYTES, VERSION, same_token};
use super::{Cause, Failure};
use crate::clock::{now, poll_limit, seconds};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// The most ranks of a communicator.
const RANKS: u32 = 1 << 16;
/// How long a connection may take to present itself.
const PRESENTATION: Duration = Duration::from_secs(10);
/// Connections that have not presented themselves. If there are more, the oldest is closed.
const STRANGERS: usize = 512;
/// How long the server waits before it accepts again when the system has refused a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest first message.
const HELLO_BYTES: usize = FRONT + 64 + PUBLICATION_BYTES;

/// The state of a server.
pub(crate) struct Server {
    /// While ranks may join.
    listener: Option<TcpListener>,
    accept_after: Instant,
    token: [u8; TOKEN_BYTES],
    process: Process,
    /// When those who have joined do not wait any longer for others, and for how long they have.
    deadline: Instant,
    join_timeout: Duration,
    call_timeout: Duration,
    strangers: VecDeque<Stranger>,
    /// Connections that are told of a failure and closed.
    refused: Vec<Stranger>,
    /// By rank, as many as the first rank says.
    members: Vec<Option<Member>>,
    /// How many have shown the token, and how many ranks there are by what they say, if anyone has said what makes
    /// sense.
    presented: u32,
    expected: Option<u32>,
    failure: Option<Failure>,
    /// Once all have joined.
    court: Option<Court>,
}

/// A connection of which it is not known who it is.
struct Stranger {
    connection: Connection,
    until: Instant,
}

/// A rank that has joined.
struct Member {
    /// None, when it has left or died.
    connection: Option<Connection>,
    process: Process,
    /// Readable when the process has ended.
    watch: Option<OwnedFd>,
    publication: Vec<u8>,
    left: bool,
}

/// What poll(2) waits on.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    Stranger(usize),
    Refused(usize),
    Member(usize),
    Process(usize),
}

impl Server {
    /// Starts the server of a communicator and returns where it listens.
    pub fn start(address: SocketAddr, token: [u8; TOKEN_BYTES], options: &Options) -> Result<SocketAddr, Failure> {
        let refused =
            |error: std::io::Error| Failure::system(&format!("to listen for ranks at {}", address.ip()), error);
        let listener = TcpListener::bind(address).map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        // All ranks of a large communicator may knock at the same moment.
        rustix::net::listen(&listener, 4096).map_err(|error| refused(error.into()))?;
        let now = now();
        let server = Server {
            listener: Some(listener),
            accept_after: now,
            token,
            process: Process::this(),
            deadline: now + options.join_timeout,
            join_timeout: options.join_timeout,
            call_timeout: options.call_timeout,
            strangers: VecDeque::new(),
            refused: Vec::new(),
            members: Vec::new(),
            presented: 0,
            expected: None,
            failure: None,
            court: None,
        };
        thread::Builder::new()
            .name("syncline-server".to_owned())
            .spawn(move || server.run())
            .map_err(|error| Failure::system("a thread for the bootstrap server", error))?;
        Ok(at)
    }

    fn run(mut self) {
        while !self.finished() {
            let ready = self.wait();
            // Connections are taken from the lists by handling others, so that places are valid in descending order
            // only.
            for &(source, flags) in ready.iter().rev() {
                match source {
                    Source::Listener => self.accept(),
                    Source::Stranger(place) => self.hear_stranger(place),
                    Source::Refused(place) => self.hear_refused(place),
                    Source::Member(rank) if flags == PollFlags::OUT => self.flush(rank),
                    Source::Member(rank) => self.hear(rank, false),
                    Source::Process(rank) => self.hear(rank, true),
                }
            }
            self.tick();
        }
    }

    fn finished(&self) -> bool {
        self.listener.is_none()
            && self.refused.is_empty()
            && self.members.iter().flatten().all(|member| member.connection.is_none())
    }

    /// Sleeps until something has come or a time is over.
    fn wait(&self) -> Vec<(Source, PollFlags)> {
        fn interest(connection: &Connection) -> PollFlags {
            if connection.unsent() > 0 { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        }
        let now = now();
        let mut sources = Vec::new();
        let mut polled = Vec::new();
        let mut deadline =
            self.court.as_ref().filter(|_| self.failure.is_none()).and_then(|court| court.next_look(now));
        let mut look_at = |time: Instant| deadline = Some(deadline.map_or(time, |deadline| deadline.min(time)));
        if let Some(listener) = &self.listener {
            look_at(self.deadline);
            if self.accept_after <= now {
                sources.push(Source::Listener);
                polled.push(PollFd::new(listener, PollFlags::IN));
            } else {
                look_at(self.accept_after);
            }
        }
        for (place, stranger) in self.strangers.iter().enumerate() {
            look_at(stranger.until);
            sources.push(Source::Stranger(place));
            polled.push(PollFd::new(&stranger.connection, PollFlags::IN));
        }
        for (place, stranger) in self.refused.iter().enumerate() {
            look_at(stranger.until);
            sources.push(Source::Refused(place));
            polled.push(PollFd::new(&stranger.connection, interest(&stranger.connection)));
        }
        for (rank, member) in self.members.iter().enumerate() {
            let Some(Member { connection: Some(connection), watch, .. }) = member else { continue };
            sources.push(Source::Member(rank));
            polled.push(PollFd::new(connection, interest(connection)));
            if let Some(watch) = watch {
                sources.push(Source::Process(rank));
                polled.push(PollFd::new(watch, PollFlags::IN));
            }
        }
        if poll(&mut polled, poll_limit(now, deadline).as_ref()).is_err() {
            return Vec::new();
        }
        let ready = sources.into_iter().zip(&polled).map(|(source, polled)| (source, polled.revents()));
        ready.filter(|(_, flags)| !flags.is_empty()).collect()
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        match listener.accept() {
            Ok((stream, _)) => {
                if let Ok(connection) = Connection::new(stream) {
                    self.strangers.push_back(Stranger { connection, until: now() + PRESENTATION });
                }
                if self.strangers.len() > STRANGERS {
                    self.strangers.pop_front();
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // No more descriptors, most likely.
            Err(_) => {
                self.strangers.pop_front();
                self.accept_after = now() + PAUSE;
            }
        }
    }

    /// Reads what a stranger sends: up to its token at first, so that it cannot take memory before it has shown that.
    fn hear_stranger(&mut self, place: usize) {
        let Some(stranger) = self.strangers.get_mut(place) else { return };
        let connection = &mut stranger.connection;
        let mut open = true;
        if connection.unread().len() < HEAD + FRONT {
            open = connection.receive(HEAD + FRONT);
        }
        let mut front = None;
        if let Some((head, content)) = connection.unread().split_first_chunk::<HEAD>() {
            let length = u32::from_le_bytes(*head) as usize;
            if !(FRONT..=HELLO_BYTES).contains(&length) {
                self.strangers.remove(place);
                return;
            }
            if content.len() >= FRONT {
                match Front::take(&mut Take(content)) {
                    Ok(read) if same_token(&read.token, &self.token) => front = Some(read),
                    _ => {
                        self.strangers.remove(place);
                        return;
                    }
                }
                open = connection.receive(HEAD + HELLO_BYTES);
            }
        }
        let hello = match (front, connection.frame()) {
            (Some(front), Ok(Some(content))) => Some((front, Hello::decode(content))),
            _ => None,
        };
        if let Some((front, hello)) = hello {
            let stranger = self.strangers.remove(place).expect("it has just been looked at");
            self.introduce(stranger.connection, &front, hello.ok());
        } else if !open {
            self.strangers.remove(place);
        }
    }

    /// A connection has shown the token.
    fn introduce(&mut self, connection: Connection, front: &Front, hello: Option<Hello>) {
        self.presented = self.presented.saturating_add(1);
        let Front { version, rank, ranks, .. } = *front;
        if (1..=RANKS).contains(&ranks) {
            self.expected = self.expected.max(Some(ranks));
        }
        let wrong = if version != VERSION {
            Some(format!(
                "rank {rank} at {} speaks version {version} of the bootstrap protocol, others speak version {VERSION}",
                connection.peer()
            ))
        } else if hello.is_none() {
            Some(format!("rank {rank} at {} has sent a malformed first message", connection.peer()))
        } else if ranks == 0 || ranks > RANKS {
            Some(format!("rank {rank} says that there are {ranks} ranks; there have to be between 1 and {RANKS}"))
        } else if !self.members.is_empty() && self.members.len() != ranks as usize {
            let first = self.members.iter().position(Option::is_some).unwrap_or(0);
            let joined = self.members.len();
            Some(format!("rank {rank} says that there are {ranks} ranks, but rank {first} says {joined}"))
        } else if rank >= ranks {
            Some(format!("rank {rank} is out of range: with {ranks} ranks they are 0 to {}", ranks - 1))
        } else if self.members.get(rank as usize).is_some_and(Option::is_some) {
            Some(format!("two processes have joined as rank {rank}"))
        } else {
            None
        };
        if let Some(message) = wrong {
            self.fail(Failure::new(Cause::Argument, message).of_rank(rank));
        }
        let (None, Some(hello)) = (&self.failure, hello) else {
            self.refuse(connection);
            return;
        };
        if self.members.is_empty() {
            self.members.resize_with(ranks as usize, || None);
            self.deadline = now() + Duration::from_millis(hello.join_ms);
            self.join_timeout = Duration::from_millis(hello.join_ms);
        }
        self.join_timeout = self.join_timeout.min(Duration::from_millis(hello.join_ms));
        self.deadline = self.deadline.min(now() + Duration::from_millis(hello.join_ms));
        self.call_timeout = self.call_timeout.min(Duration::from_millis(hello.call_ms));
        self.members[rank as usize] = Some(Member {
            connection: Some(connection),
            process: hello.process,
            watch: hello.process.watch(),
            publication: hello.publication,
            left: false,
        });
        if self.members.iter().all(Option::is_some) {
            self.open();
        }
    }

    /// Tells a connection that is no member's of the failure.
    fn refuse(&mut self, mut connection: Connection) {
        if let Some(failure) = &self.failure {
            connection.push(&FromServer::Verdict(failure.clone()).encode());
            connection.flush();
            self.refused.push(Stranger { connection, until: now() + PRESENTATION });
        }
    }

    /// Waits for a refused connection to be closed, so that what it has been told is not lost.
    fn hear_refused(&mut self, place: usize) {
        let Some(stranger) = self.refused.get_mut(place) else { return };
        let mut open = stranger.connection.receive(HEAD + FRAME_BYTES) && stranger.connection.flush();
        loop {
            match stranger.connection.frame() {
                Ok(Some(content)) => open &= !matches!(FromRank::decode(content), Ok(FromRank::Leave { .. })),
                Ok(None) => break,
                Err(_) => {
                    open = false;
                    break;
                }
            }
        }
        if !open {
            self.refused.remove(place);
        }
    }

    /// All have joined: nobody else may, and each is told what others have published.
    fn open(&mut self) {
        self.close_doors();
        self.court = Some(Court::new(self.members.len() as u32, self.call_timeout));
        let own = self.members.iter().flatten().enumerate().filter(|(_, member)| member.process == self.process);
        let ranks_of_process = own.map(|(rank, _)| rank as u32).collect();
        self.tell_all(&FromServer::Welcome { process: self.process, ranks_of_process });
        for rank in 0..self.members.len() {
            let bytes = self.members[rank].as_mut().map(|member| std::mem::take(&mut member.publication));
            self.tell_all(&FromServer::Publication { rank: rank as u32, bytes: bytes.unwrap_or_default() });
        }
    }

    /// Nobody can join any more.
    fn close_doors(&mut self) {
        if let Some(listener) = self.listener.take() {
            stop_listening(listener);
        }
        self.strangers.clear();
    }

    fn tell(&mut self, rank: usize, message: &FromServer) {
        if let Some(Some(Member { connection: Some(connection), .. })) = self.members.get_mut(rank) {
            connection.push(&message.encode());
        }
    }

    fn tell_all(&mut self, message: &FromServer) {
        let content = message.encode();
        for connection in self.members.iter_mut().flatten().filter_map(|member| member.connection.as_mut()) {
            connection.push(&content);
        }
    }

    /// The communicator has failed. The first failure is that of all.
    fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            self.tell_all(&FromServer::Verdict(failure.clone()));
            self.failure = Some(failure);
        }
    }

    /// Sends what a member has still to get.
    fn flush(&mut self, rank: usize) {
        if let Some(Some(Member { connection: Some(connection), .. })) = self.members.get_mut(rank)
            && !connection.flush()
        {
            self.hear(rank, true);
        }
    }

    /// Reads what a member sends; all of it, if its process has ended.
    fn hear(&mut self, rank: usize, ended: bool) {
        loop {
            let Some(Some(Member { connection: Some(connection), .. })) = self.members.get_mut(rank) else { return };
            let before = connection.unread().len();
            let open = connection.receive(HEAD + FRAME_BYTES);
            let more = connection.unread().len() > before;
            if let Err(message) = self.take_frames(rank) {
                self.fail(Failure::new(Cause::System, message).of_rank(rank as u32));
                self.drop_member(rank);
                return;
            }
            if !open || (ended && !more) {
                self.lose(rank);
                return;
            }
            if !ended {
                return;
            }
        }
    }

    fn take_frames(&mut self, rank: usize) -> Result<(), String> {
        let malformed = || format!("rank {rank} has sent what is no message of the control plane");
        loop {
            let Some(Some(Member { connection: Some(connection), .. })) = self.members.get_mut(rank) else {
                return Ok(());
            };
            match connection.frame() {
                Ok(Some(content)) => {
                    let message = FromRank::decode(content).map_err(|_| malformed())?;
                    self.obey(rank, message);
                }
                Ok(None) => return Ok(()),
                Err(_) => return Err(malformed()),
            }
        }
    }

    fn obey(&mut self, rank: usize, message: FromRank) {
        let now = now();
        let number = rank as u32;
        match message {
            FromRank::Leave { next, calls } => {
                match &mut self.court {
                    Some(court) => court.leave(number, next, calls),
                    None => {
                        let message = format!("rank {rank} has given up before all ranks have joined");
                        self.fail(Failure::new(Cause::Aborted, message).of_rank(number));
                    }
                }
                if let Some(member) = &mut self.members[rank] {
                    member.left = true;
                }
                // Others know of it before the rank does, whose process may be the server's and end next.
                self.tell_all(&FromServer::Left { rank: number });
                self.send();
                self.drop_member(rank);
                return;
            }
            FromRank::Abort => {
                let message = format!("rank {rank} has aborted the communicator");
                self.fail(Failure::new(Cause::Aborted, message).of_rank(number));
                return;
            }
            _ => {}
        }
        let Some(court) = &mut self.court else { return };
        court.heard(number);
        match message {
            FromRank::Exchange { number: exchange, bytes } => {
                self.tell_all(&FromServer::Exchanged { rank: number, number: exchange, bytes });
            }
            FromRank::Waiting(wait) => {
                court.wait(number, wait, now);
                self.tell(rank, &FromServer::Heard);
            }
            FromRank::Done { call } => court.done(number, call),
            FromRank::Answer { call, entry, next, progress } => court.answer(number, call, entry, next, progress),
            FromRank::Here => court.here(number),
            FromRank::Report(failure) => {
                if let Some(failure) = court.report(failure, now) {
                    self.fail(failure);
                }
            }
            FromRank::Leave { .. } | FromRank::Abort => {}
        }
    }

    fn drop_member(&mut self, rank: usize) {
        if let Some(member) = &mut self.members[rank] {
            if let Some(connection) = member.connection.take() {
                connection.close();
            }
            member.watch = None;
        }
    }

    /// The connection of a member is closed or its process has ended.
    fn lose(&mut self, rank: usize) {
        self.drop_member(rank);
        let left = self.members[rank].as_ref().is_none_or(|member| member.left);
        if !left {
            let joining = if self.court.is_none() { " before all ranks have joined" } else { "" };
            let message =
                format!("rank {rank} has died{joining}: its process has ended, or its host cannot be reached");
            self.fail(Failure::new(Cause::Died, message).of_rank(rank as u32));
        }
    }

    /// Does what time demands, and sends what there is to send.
    fn tick(&mut self) {
        let now = now();
        self.strangers.retain(|stranger| stranger.until > now);
        self.refused.retain(|stranger| stranger.until > now);
        if self.listener.is_some() && now >= self.deadline {
            self.close_doors();
            let missing: Vec<u32> =
                (0..self.members.len()).filter(|&rank| self.members[rank].is_none()).map(|rank| rank as u32).collect();
            if let Some(&first) = missing.first() {
                let has = verb(missing.len(), "has", "have");
                let message = format!("{} {has} not joined within {}", names(&missing), seconds(self.join_timeout));
                self.fail(Failure::new(Cause::TimedOut, message).of_rank(first));
            }
        }
        // A failed communicator is open to those who have still to hear of it.
        if self.failure.is_some() && self.expected.is_some_and(|expected| self.presented >= expected) {
            self.close_doors();
        }
        if let Some(court) = self.court.as_mut().filter(|_| self.failure.is_none()) {
            let inquiries = court.inquiries(now);
            let verdict = court.verdict(now);
            for (rank, call) in inquiries {
                self.tell(rank as usize, &FromServer::Inquire { call });
            }
            if let Some(failure) = verdict {
                self.fail(failure);
            }
        }
        self.send();
    }

    /// Sends what members have still to get, to ranks of this process last: it may end as soon as one of them knows.
    fn send(&mut self) {
        let is_own = |rank: &usize| self.members[*rank].as_ref().is_some_and(|member| member.process == self.process);
        let (own, others): (Vec<usize>, Vec<usize>) = (0..self.members.len()).partition(is_own);
        for rank in others.into_iter().chain(own) {
            let connection = self.members[rank].as_ref().and_then(|member| member.connection.as_ref());
            if connection.is_some_and(|connection| connection.unsent() > 0) {
                self.flush(rank);
            }
        }
    }
}
