//! Messages over TCP: whatever is sent arrives, in order and unchanged, and what is not read holds nothing else up.

use crate::support::{all_reduce, each, failure_of, now, options, sessions, wait_for_failure};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use syncline_runtime::bootstrap::{Cause, Failure, Options, Session, UniqueId};
use syncline_runtime::transport::Lane;
use syncline_runtime::transport::bell::Bell;
use syncline_runtime::transport::ring::{Label, Reader, SLOT_BYTES, SLOTS, Writer};
use syncline_runtime::transport::tcp::{Listener, Network};

/// A rank with connections to all others.
pub struct Rank {
    pub session: Arc<Session>,
    network: Network,
    bell: Arc<Bell>,
}

impl Rank {
    fn join(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Result<Rank, Failure> {
        let listener = Listener::open(options)?;
        let bell = Arc::new(Bell::default());
        let (of_session, of_network) = (Arc::clone(&bell), Arc::clone(&bell));
        let address = listener.address().to_string();
        let wake = Box::new(move || of_session.ring());
        let session = Arc::new(Session::join(id, rank, ranks, address.as_bytes(), wake, options)?);
        let addresses = session.publications().iter().map(|text| std::str::from_utf8(text).unwrap().parse().unwrap());
        let mut peers: BTreeMap<u32, SocketAddr> = (0..).zip(addresses).collect();
        peers.remove(&rank);
        let network = Network::connect(listener, &session, &peers, Box::new(move || of_network.ring()), options)?;
        Ok(Rank { session, network, bell })
    }

    fn peers(&self) -> impl Iterator<Item = u32> {
        let rank = self.session.rank();
        (0..self.session.ranks()).filter(move |&peer| peer != rank)
    }

    /// Does something until it is done, and sleeps whenever it does nothing.
    fn work(&self, mut step: impl FnMut() -> Work) {
        loop {
            let count = self.bell.count();
            match step() {
                Work::Done => return,
                Work::Some => {}
                Work::None => {
                    assert_eq!(self.session.failure(), None);
                    self.bell.sleep(count, Duration::from_secs(5));
                }
            }
        }
    }

    fn close(self) {
        self.network.drain();
        self.session.leave();
    }
}

enum Work {
    Done,
    Some,
    None,
}

/// What a rank sends to another on a lane: numbered messages whose sizes and contents follow from who sends them.
#[derive(Clone, Copy)]
struct Stream {
    from: u32,
    to: u32,
    lane: Lane,
    seed: u64,
}

impl Stream {
    fn mixed(self, number: u32) -> u64 {
        let mut value = self.seed ^ u64::from(self.from) << 48 ^ u64::from(self.to) << 40 ^ u64::from(self.lane) << 24;
        value ^= u64::from(number);
        for _ in 0..3 {
            value = (value ^ value >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        value
    }

    fn label(self, number: u32) -> Label {
        let mixed = self.mixed(number);
        let bytes = match mixed % 8 {
            0 => 0,
            1..4 => mixed >> 8 & 0x3ff,
            4..6 => mixed >> 8 & 0x3fff,
            6 => (mixed >> 8) % (SLOT_BYTES as u64 + 1),
            _ => SLOT_BYTES as u64,
        };
        Label {
            bytes: bytes as u32,
            call: number,
            digest: mixed,
            chunk: mixed as u32,
            phase: self.lane,
            thread: !self.lane,
            pc: (mixed >> 32) as u32,
        }
    }

    fn byte(self, label: &Label, place: usize) -> u8 {
        (label.digest as usize).wrapping_add(place.wrapping_mul(167)) as u8
    }

    /// Puts messages into a ring as long as there is room and some are left. Returns whether there were any.
    fn write(self, writer: &mut Writer, sent: &mut u32, messages: u32) -> bool {
        let mut any = false;
        while *sent < messages && writer.room() > 0 {
            let label = self.label(*sent);
            let payload = writer.payload();
            for place in 0..label.bytes as usize {
                // SAFETY: the payload has room for SLOT_BYTES, which is not exceeded.
                unsafe { payload.add(place).write(self.byte(&label, place)) };
            }
            writer.publish(label);
            *sent += 1;
            any = true;
        }
        any
    }

    /// Takes one message from a ring, if there is one, and compares it with what was sent.
    fn read(self, reader: &mut Reader, received: &mut u32) -> bool {
        let Some((label, payload)) = reader.first() else { return false };
        assert_eq!(label, self.label(*received));
        // SAFETY: the slot is filled with so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(payload.as_ptr(), label.bytes as usize) };
        let wrong = bytes.iter().enumerate().find(|&(place, &byte)| byte != self.byte(&label, place));
        assert_eq!(wrong, None, "message {received} from {} to {} on lane {}", self.from, self.to, self.lane);
        reader.free();
        *received += 1;
        true
    }
}

/// Exchanges messages with all peers on many lanes, some of which are read late.
fn exchange(rank: &Rank, lanes: Lane, messages: u32, seed: u64) {
    let me = rank.session.rank();
    let mut outgoing = Vec::new();
    let mut incoming = Vec::new();
    for peer in rank.peers() {
        let connection = rank.network.peer(peer).unwrap();
        for lane in 0..lanes {
            // Some rings are made before anything can have come, some only when something has.
            let reader = (lane % 3 != 2).then(|| connection.inbound(lane).unwrap());
            let stream = Stream { from: peer, to: me, lane, seed };
            incoming.push((stream, Arc::clone(&connection), reader, 0));
            let stream = Stream { from: me, to: peer, lane, seed };
            outgoing.push((stream, Arc::clone(&connection), connection.outbound(lane).unwrap(), 0));
        }
    }
    let mut step = 0_u64;
    rank.work(|| {
        step += 1;
        let mut some = false;
        for (stream, peer, writer, sent) in &mut outgoing {
            if stream.write(writer, sent, messages) {
                peer.notify();
                some = true;
            }
        }
        let quick_done = incoming.iter().all(|(stream, _, _, received)| stream.lane == 1 || *received == messages);
        for (stream, peer, reader, received) in &mut incoming {
            // Lane 1 is not read at all before all others are done, others now and then not.
            if (stream.lane == 1 && !quick_done) || stream.mixed(step as u32) % 4 == 0 {
                some |= stream.lane != 1 || quick_done;
                continue;
            }
            let reader = reader.get_or_insert_with(|| peer.inbound(stream.lane).unwrap());
            if stream.read(reader, received) {
                peer.notify();
                some = true;
            }
        }
        let done = outgoing.iter().all(|(.., sent)| *sent == messages)
            && incoming.iter().all(|(.., received)| *received == messages);
        match (done, some) {
            (true, _) => Work::Done,
            (false, true) => Work::Some,
            (false, false) => Work::None,
        }
    });
}

/// A rank that another process has started: exchanges messages with all others, and waits for a fault.
pub fn rank_process(id: &UniqueId, rank: u32, ranks: u32, options: &Options) {
    let rank = exchange_with_process(id, rank, ranks, options);
    println!("\nexchanged");
    let failure = wait_in_a_call(&rank);
    println!("\nfailed {}", serde_json::to_string(&failure).unwrap());
}

/// The same without a word.
pub fn exchange_with_process(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Rank {
    let rank = Rank::join(id, rank, ranks, options).unwrap();
    exchange(&rank, 5, 60, 1);
    rank
}

/// Waits in call 0 for a fault.
pub fn wait_in_a_call(rank: &Rank) -> Failure {
    rank.session.begin(0, all_reduce(4)).unwrap();
    wait_for_failure(&rank.session, 0, None)
}

#[test]
fn messages_on_many_lanes_arrive_as_they_were_sent() {
    for (ranks, lanes, messages) in [(2, 1, 400), (2, 17, 60), (4, 5, 60)] {
        let options = options(20_000, 20_000);
        let id = UniqueId::create(&options).unwrap();
        each(ranks, |rank| {
            let rank = Rank::join(&id, rank, ranks, &options).unwrap();
            exchange(&rank, lanes, messages, u64::from(lanes));
            let peer = rank.network.peer((rank.session.rank() + 1) % ranks).unwrap();
            assert_eq!(peer.outbound(0).err().unwrap().cause, Cause::Argument, "a ring has two writers");
            assert_eq!(peer.name(), "TCP");
            rank.close();
        });
    }
}

#[test]
fn what_was_sent_before_a_goodbye_arrives_after_it() {
    let options = options(20_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    each(2, |number| {
        let rank = Rank::join(&id, number, 2, &options).unwrap();
        let peer = rank.network.peer(1 - number).unwrap();
        let stream = Stream { from: 0, to: 1, lane: 3, seed: 5 };
        if number == 0 {
            let mut sent = 0;
            let mut writer = peer.outbound(3).unwrap();
            stream.write(&mut writer, &mut sent, SLOTS);
            assert_eq!(sent, SLOTS);
            peer.notify();
            rank.close();
        } else {
            thread::sleep(Duration::from_millis(800));
            let (mut reader, mut received) = (peer.inbound(3).unwrap(), 0);
            rank.work(|| match stream.read(&mut reader, &mut received) {
                true if received == SLOTS => Work::Done,
                true => Work::Some,
                false => Work::None,
            });
            assert_eq!(rank.session.failure(), None);
        }
    });
}

#[test]
fn a_connection_that_breaks_is_reported() {
    let options = options(20_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let failures = each(3, |number| {
        let rank = Rank::join(&id, number, 3, &options).unwrap();
        if number == 1 {
            // Its connections are closed, but it has not left.
            let Rank { session, network, .. } = rank;
            drop(network);
            return failure_of(&session);
        }
        failure_of(&rank.session)
    });
    assert_eq!((failures[0].cause, failures[0].rank), (Cause::Died, Some(1)));
    assert!(failures[0].message.contains("rank"), "{}", failures[0]);
    assert!(failures.iter().all(|failure| *failure == failures[0]));
}

#[test]
fn a_peer_that_never_connects_is_named() {
    let options = options(20_000, 400);
    let mut all = sessions(2, &options);
    let other = all.pop().unwrap();
    let session = Arc::new(all.pop().unwrap());
    let listener = Listener::open(&options).unwrap();
    let (at, peers) = (listener.address(), BTreeMap::from([(1, "127.0.0.1:1".parse().unwrap())]));
    // A connection that is none of the peer's.
    let mut stranger = TcpStream::connect(at).unwrap();
    stranger.write_all(&[b'x'; 100]).unwrap();
    let failure = Network::connect(listener, &session, &peers, Box::new(|| {}), &options).err().unwrap();
    assert_eq!((failure.cause, failure.rank), (Cause::TimedOut, Some(1)));
    assert_eq!(failure.message, "rank 1 has not connected to rank 0 within 0.4 s");
    assert!(TcpStream::connect(at).is_err(), "it still listens");
    // Nobody waits for who has left.
    other.leave();
    let options = crate::support::options(20_000, 600_000);
    let failure = Network::connect(Listener::open(&options).unwrap(), &session, &peers, Box::new(|| {}), &options);
    assert_eq!(failure.err().map(|failure| (failure.cause, failure.rank)), Some((Cause::Aborted, Some(1))));
}

/// A rank 0 with its network, and the raw connection of a rank 1 that has presented itself.
fn with_raw_peer(token_flip: u8) -> (Result<Rank, Failure>, TcpStream, Session) {
    let options = options(20_000, if token_flip == 0 { 10_000 } else { 400 });
    let id = UniqueId::create(&options).unwrap();
    let first = thread::spawn(move || Rank::join(&id, 0, 2, &options));
    let options = crate::support::options(20_000, 10_000);
    let second = Session::join(&id, 1, 2, b"127.0.0.1:1", Box::new(|| {}), &options).unwrap();
    let at: SocketAddr = std::str::from_utf8(&second.publications()[0]).unwrap().parse().unwrap();
    let mut raw = TcpStream::connect(at).unwrap();
    let mut token = id.as_bytes()[40..72].to_vec();
    token[31] ^= token_flip;
    let greeting = [b"SYND\x01\0", &token[..], &1_u32.to_le_bytes(), &0_u32.to_le_bytes()].concat();
    raw.write_all(&greeting).unwrap();
    (first.join().unwrap(), raw, second)
}

#[test]
fn a_peer_without_the_token_is_refused() {
    let (rank, mut raw, _second) = with_raw_peer(1);
    let failure = rank.err().unwrap();
    assert_eq!(failure.message, "rank 1 has not connected to rank 0 within 0.4 s");
    let mut answer = Vec::new();
    // Closed or reset: in any case without a byte.
    let _ = raw.read_to_end(&mut answer);
    assert_eq!(answer, b"");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_from_a_peer_are_survived(
        picks in vec((0_usize..3, any::<u16>(), 0_u32..3000, any::<usize>(), any::<u8>(), any::<bool>()), 1..12),
        rest in vec(any::<u8>(), 0..64),
    ) {
        let (rank, mut raw, _second) = with_raw_peer(0);
        let rank = rank.unwrap();
        let _outbound = rank.network.peer(1).unwrap().outbound(0).unwrap();
        for (kind, lane, bytes, place, value, whole) in picks {
            let mut frame = match kind {
                0 => [&[2, 0][..], &(lane % 2).to_le_bytes(), &1_u32.to_le_bytes()].concat(),
                _ => {
                    let payload = vec![5; bytes as usize];
                    [&[1, 0][..], &(lane % 8).to_le_bytes(), &bytes.to_le_bytes(), &[9; 24], &payload].concat()
                }
            };
            if !whole {
                let place = place % frame.len().min(40);
                frame[place] = value;
            }
            let _ = raw.write_all(&frame);
        }
        let _ = raw.write_all(&rest);
        drop(raw);
        // The peer's session is alive, so that the connection is what is reported: as broken, or for what came over it.
        let failure = failure_of(&rank.session);
        prop_assert!([Cause::Died, Cause::System].contains(&failure.cause), "{}", failure);
        prop_assert_eq!(failure.rank, Some(1));
    }
}

#[test]
#[ignore = "measures"]
fn how_fast_messages_go_over_loopback() {
    for (lanes, bytes, messages) in [(1, SLOT_BYTES, 20_000), (4, SLOT_BYTES, 20_000), (1, 8, 100_000)] {
        let options = options(20_000, 20_000);
        let id = UniqueId::create(&options).unwrap();
        each(2, |number| {
            let rank = Rank::join(&id, number, 2, &options).unwrap();
            let peer = rank.network.peer(1 - number).unwrap();
            let label = Label { bytes: bytes as u32, ..Label::default() };
            let mut writers: Vec<_> = (0..lanes).map(|lane| peer.outbound(lane).unwrap()).collect();
            let mut readers: Vec<_> = (0..lanes).map(|lane| peer.inbound(lane).unwrap()).collect();
            rank.session.exchange(b"").unwrap();
            let began = now();
            let mut count = 0;
            rank.work(|| {
                let before = count;
                for lane in 0..lanes as usize {
                    while number == 0 && count < messages && writers[lane].room() > 0 {
                        writers[lane].publish(label);
                        count += 1;
                    }
                    while number == 1 && readers[lane].first().is_some() {
                        readers[lane].free();
                        count += 1;
                    }
                }
                if count > before {
                    peer.notify();
                }
                if count == messages {
                    Work::Done
                } else if count > before {
                    Work::Some
                } else {
                    Work::None
                }
            });
            if number == 1 {
                let seconds = began.elapsed().as_secs_f64();
                let rate = bytes as f64 * f64::from(messages) / seconds / 1e9;
                println!(
                    "{lanes} lanes of {bytes} bytes: {rate:.2} GB/s, {:.1} us each",
                    seconds / f64::from(messages) * 1e6
                );
            }
            rank.close();
        });
    }
    // What a bare connection does, for comparison.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let writer = thread::spawn(move || {
        let mut stream = TcpStream::connect(at).unwrap();
        for _ in 0..20_000 {
            stream.write_all(&[1; SLOT_BYTES]).unwrap();
        }
    });
    let (mut stream, _) = listener.accept().unwrap();
    let (began, mut buffer) = (now(), vec![0; SLOT_BYTES]);
    for _ in 0..20_000 {
        stream.read_exact(&mut buffer).unwrap();
    }
    println!("a bare connection: {:.2} GB/s", 20_000.0 * SLOT_BYTES as f64 / began.elapsed().as_secs_f64() / 1e9);
    writer.join().unwrap();
    // There and back again.
    let options = options(20_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    each(2, |number| {
        let rank = Rank::join(&id, number, 2, &options).unwrap();
        let peer = rank.network.peer(1 - number).unwrap();
        let (mut writer, mut reader) = (peer.outbound(0).unwrap(), peer.inbound(0).unwrap());
        rank.session.exchange(b"").unwrap();
        let began = now();
        for _ in 0..10_000 {
            if number == 0 {
                writer.publish(Label { bytes: 8, ..Label::default() });
                peer.notify();
            }
            rank.work(|| if reader.first().is_some() { Work::Done } else { Work::None });
            reader.free();
            if number == 1 {
                writer.publish(Label { bytes: 8, ..Label::default() });
            }
            peer.notify();
        }
        if number == 0 {
            println!("there and back again: {:.1} us", began.elapsed().as_secs_f64() * 1e6 / 10_000.0);
        }
        rank.close();
    });
}
