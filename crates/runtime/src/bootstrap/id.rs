//! The id of a communicator, which one process creates and hands to all ranks.

use super::options::Options;
use super::process::random;
use super::server::Server;
use super::token::{TOKEN_BYTES, VERSION};
use super::{Cause, Failure, address};
use crate::digest;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of an id, as many as NCCL's `ncclUniqueId` has.
pub const ID_BYTES: usize = 128;
const MAGIC: [u8; 8] = *b"SYNCLINE";
/// The digest of all bytes before it is at this place.
const DIGEST: usize = ID_BYTES - 8;

/// Where the bootstrap server of a communicator listens, and the secret that a rank has to know to join.
///
/// The layout, in bytes: 0-7 `SYNCLINE`, 8-9 version, 10 `4` or `6`, 12-13 port, 16-31 address, 32-35 scope of a
/// link-local IPv6 address, 40-71 token, 120-127 digest of 0-119, all others 0; numbers are little-endian. Versions to
/// come keep magic, version, address, token and digest where they are, so that a rank of another version can tell the
/// server that it is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; ID_BYTES]);

impl UniqueId {
    /// A new id. Starts its bootstrap server in a thread of the calling process, which serves one communicator: it ends
    /// when all ranks have left, or when no rank has joined within the join timeout, and stops listening when all ranks
    /// have joined.
    ///
    /// # Errors
    /// A [`Failure`], if the options are wrong or the system refuses to listen at the address.
    pub fn create(options: &Options) -> Result<UniqueId, Failure> {
        let address = address::choose(options)?;
        let token = random().map_err(|error| Failure::system("random bytes for the token of a communicator", error))?;
        let at = Server::start(address, token, options)?;
        Ok(UniqueId::encode(at, &token))
    }

    pub(crate) fn encode(at: SocketAddr, token: &[u8; TOKEN_BYTES]) -> UniqueId {
        let mut bytes = [0; ID_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..14].copy_from_slice(&at.port().to_le_bytes());
        match at {
            SocketAddr::V4(at) => {
                bytes[10] = b'4';
                bytes[16..20].copy_from_slice(&at.ip().octets());
            }
            SocketAddr::V6(at) => {
                bytes[10] = b'6';
                bytes[16..32].copy_from_slice(&at.ip().octets());
                bytes[32..36].copy_from_slice(&at.scope_id().to_le_bytes());
            }
        }
        bytes[40..40 + TOKEN_BYTES].copy_from_slice(token);
        let check = digest::of(&bytes[..DIGEST]);
        bytes[DIGEST..].copy_from_slice(&check.to_le_bytes());
        UniqueId(bytes)
    }

    /// The id with these bytes.
    ///
    /// # Errors
    /// [`Cause::Argument`], if they are not those of an id.
    pub fn from_bytes(bytes: &[u8; ID_BYTES]) -> Result<UniqueId, Failure> {
        let wrong =
            |what: &str| Err(Failure::new(Cause::Argument, format!("the id of the communicator is wrong: {what}")));
        if bytes[..8] != MAGIC {
            return wrong("it does not begin as ids of Syncline do");
        }
        if bytes[DIGEST..] != digest::of(&bytes[..DIGEST]).to_le_bytes() {
            return wrong("its bytes have been changed on the way");
        }
        if bytes[10] != b'4' && bytes[10] != b'6' {
            return wrong("its address is neither of IPv4 nor of IPv6");
        }
        Ok(UniqueId(*bytes))
    }

    /// Its bytes. They hold a secret.
    pub fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Where the bootstrap server listens.
    pub fn server(&self) -> SocketAddr {
        let port = u16::from_le_bytes(self.part(12));
        if self.0[10] == b'4' {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::from(self.part::<4>(16))), port)
        } else {
            SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(self.part::<16>(16)),
                port,
                0,
                u32::from_le_bytes(self.part(32)),
            ))
        }
    }

    /// The secret of the communicator.
    pub(crate) fn token(&self) -> [u8; TOKEN_BYTES] {
        self.part(40)
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.0[at..at + N]);
        part
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueId({}, secret)", self.server())
    }
}
