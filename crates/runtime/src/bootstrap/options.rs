//! What a user may choose, in the environment.

use super::{Cause, Failure};
use std::env;
use std::time::Duration;

/// Where the bootstrap server listens, and how long ranks wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a call may wait without any progress.
    pub call_timeout: Duration,
    /// How long a rank waits for the others to join.
    pub join_timeout: Duration,
    /// The interfaces whose addresses may be used, as NCCL writes them: prefixes of names with commas between, after
    /// `=` whole names, and after `^` what is not to be used.
    pub interfaces: Option<String>,
    /// The address to listen at, instead of one of an interface: IPv4 or IPv6, without a port.
    pub address: Option<String>,
    /// Whether ranks of a host use its memory; else they use TCP, too.
    pub uses_shared_memory: bool,
    /// Whether payloads between GPUs of a host may go from memory to memory of GPUs; else they go through the host's.
    pub uses_peer_memory: bool,
}

impl Default for Options {
    fn default() -> Options {
        let timeout = Duration::from_secs(600);
        Options {
            call_timeout: timeout,
            join_timeout: timeout,
            interfaces: None,
            address: None,
            uses_shared_memory: true,
            uses_peer_memory: true,
        }
    }
}

impl Options {
    /// What the environment says: `SYNCLINE_TIMEOUT` (seconds, for calls and for joining, 600 unless given),
    /// `SYNCLINE_JOIN_TIMEOUT` (seconds, for joining alone), `SYNCLINE_SOCKET_IFNAME`, `SYNCLINE_ADDRESS`,
    /// `SYNCLINE_TRANSPORT` (`tcp`, or unset) and `SYNCLINE_P2P` (`0`, or `1` as if unset).
    ///
    /// # Errors
    /// A [`Failure`] that names the variable, if a value is not of its form.
    pub fn from_environment() -> Result<Options, Failure> {
        let defaults = Options::default();
        let call_timeout = seconds("SYNCLINE_TIMEOUT")?.unwrap_or(defaults.call_timeout);
        Ok(Options {
            call_timeout,
            join_timeout: seconds("SYNCLINE_JOIN_TIMEOUT")?.unwrap_or(call_timeout),
            interfaces: text("SYNCLINE_SOCKET_IFNAME")?,
            address: text("SYNCLINE_ADDRESS")?,
            uses_shared_memory: match text("SYNCLINE_TRANSPORT")?.as_deref() {
                None => true,
                Some("tcp") => false,
                Some(other) => return Err(unknown("SYNCLINE_TRANSPORT", other, "tcp, or unset")),
            },
            uses_peer_memory: match text("SYNCLINE_P2P")?.as_deref() {
                None | Some("1") => true,
                Some("0") => false,
                Some(other) => return Err(unknown("SYNCLINE_P2P", other, "0, 1, or unset")),
            },
        })
    }
}

fn unknown(name: &str, value: &str, accepted: &str) -> Failure {
    Failure::new(Cause::Argument, format!("{name} is {value:?}; accepted: {accepted}"))
}

fn text(name: &str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::new(Cause::Argument, format!("{name} is not valid UTF-8"))),
    }
}

fn seconds(name: &str) -> Result<Option<Duration>, Failure> {
    /// Longer ones than ten years would overflow clocks.
    const MOST: f64 = 10.0 * 365.0 * 86_400.0;
    let Some(value) = text(name)? else { return Ok(None) };
    match value.trim().parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MOST => Ok(Some(Duration::from_secs_f64(seconds))),
        _ => Err(Failure::new(
            Cause::Argument,
            format!("{name} is {value:?}, but has to be a number of seconds above 0, at most {MOST}"),
        )),
    }
}
