//! Which process a rank lives in, and whether that has ended.
//!
//! A connection tells of a death only when the last copy of its socket is closed, and a child that the process has
//! forked holds copies. A process of the same host is therefore watched by a descriptor of the process itself as well
//! (pidfd_open(2)).

use super::codec::{Malformed, Put, Take};
use crate::digest;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// Names a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// A digest of the host's boot and of the name space of process numbers: processes with equal ones see each other's
    /// numbers.
    host: u64,
    /// A number drawn by the process, which a forked child shares.
    nonce: u64,
    pid: u32,
}

/// The number of the calling process.
pub(crate) fn pid() -> u32 {
    getpid().as_raw_nonzero().get().cast_unsigned()
}

/// Random bytes for secrets.
pub(crate) fn random<const N: usize>() -> rustix::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

impl Process {
    /// The calling process.
    pub fn this() -> Process {
        static HOST_AND_NONCE: OnceLock<(u64, u64)> = OnceLock::new();
        let &(host, nonce) = HOST_AND_NONCE.get_or_init(|| {
            let nonce = random().map_or(0, u64::from_le_bytes);
            let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let space = fs::read_link("/proc/self/ns/pid").map(|path| path.into_os_string().into_encoded_bytes());
            // A process that does not know where it is must not be taken for a neighbour of any other.
            let host = match space {
                Ok(space) if !boot.is_empty() => digest::of(&[boot, space].concat()),
                _ => nonce,
            };
            (host, nonce)
        });
        Process { host, nonce, pid: pid() }
    }

    /// Equal where processes see each other's numbers.
    pub fn host(&self) -> u64 {
        self.host
    }

    /// Its number on the host.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A descriptor that becomes readable when the process ends, if it is another one of this host and the system has
    /// such descriptors.
    pub fn watch(&self) -> Option<OwnedFd> {
        let this = Process::this();
        if self.host != this.host || *self == this {
            return None;
        }
        let pid = Pid::from_raw(self.pid.cast_signed())?;
        pidfd_open(pid, PidfdFlags::empty()).ok()
    }

    pub fn put(&self, put: &mut Put) {
        put.u64(self.host).u64(self.nonce).u32(self.pid);
    }

    pub fn take(take: &mut Take) -> Result<Process, Malformed> {
        Ok(Process { host: take.u64()?, nonce: take.u64()?, pid: take.u32()? })
    }
}
