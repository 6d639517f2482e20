//! At which of the host's addresses the bootstrap server and the data plane listen.

use super::options::Options;
use super::{Cause, Failure};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    interface: String,
    index: u32,
    ip: IpAddr,
}

/// The address to listen at, with port 0 (any).
///
/// It is `options.address` if there is one. Else it is the first address of an interface that `options.interfaces`
/// allows; else the first that is not the loopback's and not of a bridge of containers (`docker`, `virbr`); else
/// 127.0.0.1. Addresses of IPv4 come before those of IPv6, those of IPv6 that are link-local last, and otherwise they
/// are in the order of the interfaces' numbers.
///
/// # Errors
/// [`Cause::Argument`], if the address is none, or no interface that is allowed has one.
pub(crate) fn choose(options: &Options) -> Result<SocketAddr, Failure> {
    if let Some(text) = &options.address {
        let ip: IpAddr = text.trim().parse().map_err(|_| {
            Failure::new(
                Cause::Argument,
                format!("the address {text:?} to listen at is neither one of IPv4 nor of IPv6"),
            )
        })?;
        if ip.is_unspecified() {
            let message = format!("the address {text} to listen at has to be one that other ranks can connect to");
            return Err(Failure::new(Cause::Argument, message));
        }
        return Ok(SocketAddr::new(ip, 0));
    }
    // A system that does not tell its addresses (a sandbox) is used by itself alone.
    let mut candidates = addresses().unwrap_or_default();
    candidates.sort_by_key(|candidate| {
        let family = match candidate.ip {
            IpAddr::V4(_) => 0,
            IpAddr::V6(ip) if !ip.is_unicast_link_local() => 1,
            IpAddr::V6(_) => 2,
        };
        (family, candidate.index)
    });
    let chosen = match &options.interfaces {
        Some(pattern) => {
            Some(candidates.iter().find(|candidate| allows(pattern, &candidate.interface)).ok_or_else(|| {
                let mut names: Vec<_> = candidates.iter().map(|candidate| candidate.interface.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                Failure::new(
                    Cause::Argument,
                    format!(
                        "no interface that is up and has an address fits {pattern:?}: there are {}",
                        names.join(", ")
                    ),
                )
            })?)
        }
        None => candidates.iter().find(|candidate| {
            !candidate.ip.is_loopback()
                && !["docker", "virbr"].iter().any(|bridge| candidate.interface.starts_with(bridge))
        }),
    };
    Ok(match chosen {
        None => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        Some(Candidate { ip: IpAddr::V6(ip), index, .. }) if ip.is_unicast_link_local() => {
            SocketAddr::V6(SocketAddrV6::new(*ip, 0, 0, *index))
        }
        Some(candidate) => SocketAddr::new(candidate.ip, 0),
    })
}

/// Whether a pattern of interfaces allows a name. See [`Options::interfaces`].
fn allows(pattern: &str, name: &str) -> bool {
    let (rest, wanted) = match pattern.strip_prefix('^') {
        Some(rest) => (rest, false),
        None => (pattern, true),
    };
    let (names, whole) = match rest.strip_prefix('=') {
        Some(names) => (names, true),
        None => (rest, false),
    };
    let listed = names.split(',').map(str::trim).filter(|listed| !listed.is_empty()).any(|listed| {
        // NCCL writes a port behind a name, which means nothing here.
        let listed = listed.split(':').next().unwrap_or(listed);
        if whole { name == listed } else { name.starts_with(listed) }
    });
    listed == wanted
}

/// All addresses of the host, by rtnetlink(7).
fn addresses() -> rustix::io::Result<Vec<Candidate>> {
    /// `RTM_GETADDR` asks for addresses, with `NLM_F_REQUEST | NLM_F_DUMP` for all.
    const REQUEST: (u16, u16) = (22, 0x301);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::new();
    request.extend_from_slice(&24_u32.to_ne_bytes());
    request.extend_from_slice(&REQUEST.0.to_ne_bytes());
    request.extend_from_slice(&REQUEST.1.to_ne_bytes());
    // Number and port of the request, and an `ifaddrmsg` of zeros: any family, any interface.
    request.extend_from_slice(&[0; 16]);
    send(&socket, &request, SendFlags::empty())?;
    let mut found = Vec::new();
    let mut answer = vec![0; 64 << 10];
    loop {
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        if length == 0 || !read_answer(&answer[..length], &mut found) {
            break;
        }
    }
    // Their interfaces' names, by number.
    found.retain_mut(|candidate: &mut Candidate| match netdevice::index_to_name(&socket, candidate.index) {
        Ok(name) => {
            candidate.interface = name;
            true
        }
        Err(_) => false,
    });
    Ok(found)
}

/// Reads a datagram of answers. Returns whether more are to come.
fn read_answer(mut answer: &[u8], found: &mut Vec<Candidate>) -> bool {
    /// The types of messages that end a dump and that hold an address.
    const ERROR: u16 = 2;
    const DONE: u16 = 3;
    const NEW_ADDRESS: u16 = 20;
    while answer.len() >= 16 {
        let length = u32::from_ne_bytes([answer[0], answer[1], answer[2], answer[3]]) as usize;
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        if kind == DONE || kind == ERROR || length < 16 || length > answer.len() {
            return false;
        }
        if kind == NEW_ADDRESS {
            found.extend(read_address(&answer[16..length]));
        }
        answer = &answer[length.next_multiple_of(4).min(answer.len())..];
    }
    true
}

/// Reads an `ifaddrmsg` and its attributes.
fn read_address(message: &[u8]) -> Option<Candidate> {
    /// The peer's address, for an interface to a single peer the only one that every interface has; and the own
    /// address.
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    let head = message.get(..8)?;
    let index = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
    let mut rest = &message[8..];
    let (mut address, mut local) = (None, None);
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = u16::from_ne_bytes([rest[2], rest[3]]);
        let value = rest.get(4..length)?;
        let ip = match value.len() {
            4 => <[u8; 4]>::try_from(value).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
            16 => <[u8; 16]>::try_from(value).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))),
            _ => None,
        };
        match kind {
            ADDRESS => address = ip,
            LOCAL => local = ip,
            _ => {}
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Some(Candidate { interface: String::new(), index, ip: local.or(address)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_of_interfaces_are_those_of_nccl() {
        for (pattern, name, allowed) in [
            ("eth", "eth0", true),
            ("eth,ib", "ib3", true),
            ("eth", "beth0", false),
            ("=eth0", "eth0", true),
            ("=eth0", "eth01", false),
            ("=eth0:5000", "eth0", true),
            ("^docker,lo", "lo", false),
            ("^docker,lo", "eth0", true),
            ("^=eth0", "eth0", false),
            ("^=eth0", "eth01", true),
        ] {
            assert_eq!(allows(pattern, name), allowed, "{pattern} {name}");
        }
    }

    #[test]
    fn the_loopback_interface_can_be_asked_for() {
        let options = Options { interfaces: Some("=lo".to_owned()), ..Options::default() };
        assert!(choose(&options).unwrap().ip().is_loopback());
        let options = Options { interfaces: Some("=none-such".to_owned()), ..Options::default() };
        assert!(choose(&options).unwrap_err().message.contains("none-such"));
        let options = Options { address: Some("::1".to_owned()), ..Options::default() };
        assert_eq!(choose(&options).unwrap(), "[::1]:0".parse().unwrap());
    }

    proptest! {
        #[test]
        fn any_answer_of_the_system_is_survived(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            kind in 0_u16..32,
        ) {
            let mut message = bytes;
            if message.len() >= 16 {
                let length = message.len() as u32;
                message[..4].copy_from_slice(&length.to_ne_bytes());
                message[4..6].copy_from_slice(&kind.to_ne_bytes());
            }
            read_answer(&message, &mut Vec::new());
        }
    }
}
