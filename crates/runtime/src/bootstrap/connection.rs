//! Frames over a TCP connection that never blocks.
//!
//! A frame is the length of its content in four bytes (little-endian), and the content. Memory is taken for what has
//! arrived, not for what a length promises.

use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The longest content of a frame, in bytes.
pub(crate) const FRAME_BYTES: usize = 1 << 20;
/// Bytes of a length.
pub(crate) const HEAD: usize = 4;
/// What is read at a time, so that one who sends much does not keep others waiting.
const TURN: usize = 64 << 10;

/// A connection, what has arrived of its next frames, and what has still to be sent.
pub(crate) struct Connection {
    stream: TcpStream,
    incoming: Vec<u8>,
    /// Bytes of `incoming` that are done with.
    taken: usize,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that are sent.
    sent: usize,
}

/// A frame is longer than any may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Connection {
    /// Takes a connection over.
    pub fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A host that is gone is noticed in about a minute, without a call that waits for it. A process that is stopped
        // is not gone: its host answers.
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(10))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(&stream, 5)?;
        Ok(Connection { stream, incoming: Vec::new(), taken: 0, outgoing: Vec::new(), sent: 0 })
    }

    /// Reads what has arrived, up to a limit of what is held unread. Returns whether more may come; not, if the other
    /// side has closed or broken the connection. Frames that have arrived before are still to be taken then.
    pub fn receive(&mut self, most: usize) -> bool {
        self.incoming.drain(..self.taken);
        self.taken = 0;
        let held = self.incoming.len();
        let room = TURN.min(most.saturating_sub(held));
        if room == 0 {
            return true;
        }
        self.incoming.resize(held + room, 0);
        let (length, open) = match self.stream.read(&mut self.incoming[held..]) {
            Ok(0) => (0, false),
            Ok(length) => (length, true),
            Err(error) => (0, matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)),
        };
        self.incoming.truncate(held + length);
        open
    }

    /// What has arrived and is not taken.
    pub fn unread(&self) -> &[u8] {
        &self.incoming[self.taken..]
    }

    /// The content of the next frame, if it is complete.
    pub fn frame(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let Some((head, rest)) = self.incoming[self.taken..].split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > FRAME_BYTES {
            return Err(TooLong);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.taken + HEAD;
        self.taken = start + length;
        Ok(Some(&self.incoming[start..start + length]))
    }

    /// Puts a frame behind what has to be sent.
    pub fn push(&mut self, content: &[u8]) {
        assert!(content.len() <= FRAME_BYTES, "a message of the control plane is longer than {FRAME_BYTES} bytes");
        self.outgoing.extend_from_slice(&(content.len() as u32).to_le_bytes());
        self.outgoing.extend_from_slice(content);
    }

    /// Puts bytes that are no frame behind what has to be sent.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Sends as much as the connection takes. Returns whether it still stands.
    pub fn flush(&mut self) -> bool {
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return false,
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        true
    }

    /// Bytes that have still to be sent.
    pub fn unsent(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// The address of the other side, for messages.
    pub fn peer(&self) -> String {
        self.stream.peer_addr().map_or_else(|_| "an unknown address".to_owned(), |at| at.to_string())
    }

    /// Closes the connection, even if a forked child still holds a copy of it.
    pub fn close(self) {
        // It is closed already, if this fails.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Gives the connection back, for something else than frames.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// Stops listening, even if a forked child still holds a copy of the socket.
pub(crate) fn stop_listening(listener: TcpListener) {
    // It does not listen, if this fails.
    let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
