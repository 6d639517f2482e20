//! Connections to the bootstrap server that are none of its ranks.

use crate::support::{all_reduce, each, failure_of, join, now, options, wait_for_failure};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;
use syncline_runtime::bootstrap::{Cause, UniqueId};

/// The front of a first message: magic, version, token, rank and ranks.
fn front(id: &UniqueId, version: u16, rank: u32, ranks: u32) -> Vec<u8> {
    let mut front = b"SYNC".to_vec();
    front.extend_from_slice(&version.to_le_bytes());
    front.extend_from_slice(&id.as_bytes()[40..72]);
    front.extend_from_slice(&rank.to_le_bytes());
    front.extend_from_slice(&ranks.to_le_bytes());
    front
}

/// A whole first message, with an empty publication.
fn hello(id: &UniqueId, rank: u32, ranks: u32) -> Vec<u8> {
    let mut hello = front(id, 1, rank, ranks);
    hello.extend_from_slice(&[7; 20]);
    hello.extend_from_slice(&60_000_u64.to_le_bytes());
    hello.extend_from_slice(&60_000_u64.to_le_bytes());
    hello.extend_from_slice(&0_u32.to_le_bytes());
    hello
}

fn frame(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_le_bytes()[..], content].concat()
}

/// Sends bytes and says what comes back before the connection is closed, or within 2 s.
fn answer(id: &UniqueId, bytes: &[u8]) -> Result<Vec<u8>, std::io::ErrorKind> {
    let mut stream = TcpStream::connect(id.server()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // The server may have closed the connection before all is sent.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => Ok(answer),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(answer),
        Err(error) => Err(error.kind()),
    }
}

#[test]
fn who_does_not_know_the_token_is_closed_without_an_answer() {
    let options = options(10_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let first = thread::spawn(move || join(&id, 0, 2, &options));
    let good = frame(&hello(&id, 1, 2));
    for place in 4..4 + 4 + 2 + 32 {
        // Bytes 8 and 9 are the version, about which the server speaks to who knows the token.
        if !(8..10).contains(&place) {
            let mut wrong = good.clone();
            wrong[place] ^= 1;
            assert_eq!(answer(&id, &wrong), Ok(Vec::new()), "byte {place}");
        }
    }
    assert_eq!(answer(&id, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Ok(Vec::new()));
    assert_eq!(answer(&id, &[0xff; 4096]), Ok(Vec::new()));
    assert!(join(&id, 1, 2, &crate::support::options(10_000, 20_000)).is_ok());
    assert!(first.join().unwrap().is_ok());
}

#[test]
fn slow_and_silent_connections_hold_nobody_up() {
    let options = options(10_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(id.server()).unwrap()).collect();
    let mut slow = TcpStream::connect(id.server()).unwrap();
    slow.write_all(&frame(&hello(&id, 1, 2))[..20]).unwrap();
    let began = now();
    each(2, |rank| assert!(join(&id, rank, 2, &options).is_ok()));
    assert!(began.elapsed() < Duration::from_secs(5));
    drop(silent);
}

#[test]
fn a_rank_of_another_version_is_told_to_all() {
    let options = options(10_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let first = thread::spawn(move || join(&id, 0, 2, &options).err().unwrap());
    // Let it be the first, so that it is known who is of which version.
    thread::sleep(Duration::from_millis(100));
    let told = answer(&id, &frame(&[front(&id, 2, 1, 2), vec![1, 2, 3]].concat())).unwrap();
    let failure = first.join().unwrap();
    assert_eq!((failure.cause, failure.rank), (Cause::Argument, Some(1)));
    assert!(
        failure.message.contains("speaks version 2 of the bootstrap protocol, others speak version 1"),
        "{failure}"
    );
    assert!(told.windows(9).any(|part| part == b"version 2"), "the rank itself is not told");
}

#[test]
fn a_member_that_sends_rubbish_is_named() {
    let options = options(10_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let first = thread::spawn(move || join(&id, 0, 2, &options).unwrap());
    let mut second = TcpStream::connect(id.server()).unwrap();
    second.write_all(&frame(&hello(&id, 1, 2))).unwrap();
    let session = first.join().unwrap();
    second.write_all(&frame(b"\xffrubbish")).unwrap();
    let failure = failure_of(&session);
    assert_eq!((failure.cause, failure.rank), (Cause::System, Some(1)));
    assert_eq!(failure.message, "rank 1 has sent what is no message of the control plane");
}

/// Valid messages of a rank, to be changed.
fn messages() -> Vec<Vec<u8>> {
    let text = b"\x05\x00\x00\x00sum 8";
    vec![
        [&[1, 0, 0, 0, 0, 3, 0, 0, 0][..], b"abc"].concat(),
        vec![2, 5, 0, 0, 0, 1, 0, 0, 0, 0],
        vec![3, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
        vec![4, 5, 0, 0, 0],
        [&[5, 5, 0, 0, 0, 6, 0, 0, 0][..], &[0; 8], &[1], &[3; 8], text].concat(),
        vec![6],
        [&[7, 2, 1, 0, 0, 0, 0, 1, 5, 0, 0, 0][..], text].concat(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_from_strangers_are_survived(
        parts in vec(vec(any::<u8>(), 0..300), 1..8),
        cut in 0_usize..120,
        flip in any::<usize>(),
    ) {
        let options = options(10_000, 20_000);
        let id = UniqueId::create(&options).unwrap();
        let mut streams = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let mut stream = TcpStream::connect(id.server()).unwrap();
            let mut bytes = frame(&hello(&id, 0, 2));
            if number % 2 == 0 {
                // A first message with a wrong token, cut, and followed by something else.
                bytes[10 + flip % 32] ^= 1;
                bytes.truncate(cut);
                bytes.extend_from_slice(part);
            } else {
                bytes = frame(part);
            }
            let _ = stream.write_all(&bytes);
            streams.push(stream);
        }
        let all = each(2, |rank| join(&id, rank, 2, &options));
        prop_assert!(all.iter().all(Result::is_ok), "{:?}", all.iter().find_map(|joined| joined.as_ref().err()));
    }

    #[test]
    fn any_bytes_from_a_member_are_survived(
        picks in vec((0_usize..7, any::<usize>(), any::<u8>(), any::<bool>()), 1..20),
        rest in vec(any::<u8>(), 0..64),
    ) {
        let options = options(60_000, 20_000);
        let id = UniqueId::create(&options).unwrap();
        let first = thread::spawn(move || join(&id, 0, 2, &options).unwrap());
        let mut second = TcpStream::connect(id.server()).unwrap();
        second.write_all(&frame(&hello(&id, 1, 2))).unwrap();
        let session = first.join().unwrap();
        let messages = messages();
        for (pick, place, value, whole) in picks {
            let mut bytes = frame(&messages[pick]);
            if !whole {
                let place = place % bytes.len();
                bytes[place] = value;
            }
            let _ = second.write_all(&bytes);
        }
        let _ = second.write_all(&rest);
        // The server still serves: the death of the member is noticed, if nothing else has been.
        drop(second);
        session.begin(0, all_reduce(4)).unwrap();
        let failure = wait_for_failure(&session, 0, Some(1));
        prop_assert!(failure.message.len() < 20_000);
    }

    #[test]
    fn any_bytes_from_a_server_are_survived(
        parts in vec((0_u8..9, vec(any::<u8>(), 0..60)), 1..10),
        rest in vec(any::<u8>(), 0..64),
    ) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let options = options(10_000, 2000);
        // An id of that address: the one of a server with another.
        let id = UniqueId::create(&crate::support::options(10_000, 50)).unwrap();
        let mut bytes = *id.as_bytes();
        bytes[12..14].copy_from_slice(&listener.local_addr().unwrap().port().to_le_bytes());
        let mixed = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let digest = bytes[..120].iter().fold(0xcbf2_9ce4_8422_2325, mixed);
        bytes[120..].copy_from_slice(&digest.to_le_bytes());
        let id = UniqueId::from_bytes(&bytes).unwrap();
        let rank = thread::spawn(move || join(&id, 0, 2, &options).err());
        let (mut stream, _) = listener.accept().unwrap();
        for (kind, part) in parts {
            let _ = stream.write_all(&frame(&[&[kind][..], &part].concat()));
        }
        let _ = stream.write_all(&rest);
        drop(stream);
        // It has not joined, and neither panicked nor waited in vain.
        prop_assert!(rank.join().unwrap().is_some());
    }
}
