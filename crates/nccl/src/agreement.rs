//! Which executor serves a communicator: all ranks decide it together when the communicator is made.
//!
//! Ranks meet in a session of the bootstrap. Each proposes what its environment asks for and what it finds, and as
//! all see the same proposals, all come to the same decision. Rank 0 then makes the id with which the executor itself
//! begins, and hands it to the others.
//!
//! An executor for memory of GPUs would be one more [`Decision`], for which ranks on GPUs have what it needs.

use crate::abi::UniqueIdBytes;
use crate::error::Error;
use crate::nccl;
use serde::{Deserialize, Serialize};
use std::env;
use std::sync::OnceLock;
use syncline_runtime::bootstrap::{Failure, Options, Session, UniqueId};

/// Where the buffers of a process are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Device {
    /// In memory of the host: `SYNCLINE_DEVICE=cpu`.
    Cpu,
    /// In memory of GPUs.
    Cuda,
}

impl Device {
    /// What the environment says, when it is asked first.
    pub(crate) fn from_environment() -> Result<Device, Error> {
        static SAID: OnceLock<Result<Device, String>> = OnceLock::new();
        let said = SAID.get_or_init(|| match env::var("SYNCLINE_DEVICE").ok().as_deref() {
            None | Some("" | "cuda") => Ok(Device::Cuda),
            Some("cpu") => Ok(Device::Cpu),
            Some(other) => Err(format!("{other:?}")),
        });
        said.clone().map_err(|value| Error::argument("SYNCLINE_DEVICE", value, "cpu, cuda, or unset"))
    }
}

/// What a rank proposes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Proposal {
    device: Device,
    /// The code of the version of NCCL that it finds, or why it finds none.
    nccl: Result<i32, String>,
}

/// Which executor serves a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// The runtime, on memory of the host.
    Host,
    /// NCCL itself.
    Nccl {
        /// Its version, as a text.
        version: String,
    },
}

/// What ranks have agreed on, with what the executor begins with.
pub(crate) enum Agreed {
    /// The runtime, on memory of the host.
    Host(UniqueId),
    /// NCCL itself.
    Nccl(UniqueIdBytes),
}

/// Decides, by rank.
fn decide(proposals: &[Proposal]) -> Result<Decision, Error> {
    let wrong = |message: String| Err(Error::usage(message));
    let differs = proposals.iter().position(|proposal| proposal.device != proposals[0].device);
    if let Some(other) = differs {
        let [of_first, of_other] =
            [0, other].map(|rank| if proposals[rank].device == Device::Cpu { "cpu" } else { "cuda" });
        return wrong(format!(
            "SYNCLINE_DEVICE is {of_first} for rank 0 and {of_other} for rank {other}; accepted: the same for all ranks"
        ));
    }
    if proposals.iter().all(|proposal| proposal.device == Device::Cpu) {
        return Ok(Decision::Host);
    }
    let reason = nccl::REASON;
    let mut versions = Vec::new();
    for (rank, proposal) in proposals.iter().enumerate() {
        match &proposal.nccl {
            Ok(version) => versions.push(*version),
            Err(why) => {
                return wrong(format!(
                    "no executor: {reason}, and rank {rank} finds no NCCL ({why}); accepted: SYNCLINE_DEVICE=cpu on \
                     all ranks for buffers in memory of the host, or an NCCL on all (SYNCLINE_NCCL_LIBRARY names it)"
                ));
            }
        }
    }
    if let Some(other) = versions.iter().position(|version| *version != versions[0]) {
        let [of_first, of_other] = [0, other].map(|rank| nccl::version_text(versions[rank]));
        return wrong(format!(
            "no executor: {reason}, and rank 0 finds NCCL {of_first} but rank {other} NCCL {of_other}; accepted: one \
             version on all ranks"
        ));
    }
    Ok(Decision::Nccl { version: nccl::version_text(versions[0]) })
}

/// Agrees with all ranks that join with an id.
pub(crate) fn agree(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Result<Agreed, Error> {
    let ours = |failure: Failure| Error::of_failure(&failure, rank);
    let device = Device::from_environment()?;
    let found = || nccl::library().map(|library| library.version()).map_err(str::to_owned);
    let nccl = if device == Device::Cpu { Err("not looked for".into()) } else { found() };
    let text = serde_json::to_vec(&Proposal { device, nccl }).map_err(unreadable)?;
    let session = Session::join(id, rank, ranks, &text, Box::new(|| ()), options).map_err(ours)?;
    let proposals: Vec<Proposal> = session
        .publications()
        .iter()
        .map(|text| serde_json::from_slice(text).map_err(unreadable))
        .collect::<Result<_, _>>()?;
    let decision = decide(&proposals)?;
    let made = if rank == 0 { begin(&decision, options) } else { Ok(Vec::new()) };
    let part = serde_json::to_vec(&made.map_err(|error| (error.code, error.message))).map_err(unreadable)?;
    let parts = session.exchange(&part).map_err(ours)?;
    let made: Result<Vec<u8>, (i32, String)> = serde_json::from_slice(&parts[0]).map_err(unreadable)?;
    let bytes = made.map_err(|(code, message)| Error::new(code, format!("rank 0 has failed to begin: {message}")))?;
    let bytes: [u8; 128] = bytes.try_into().map_err(|_| unreadable("an id of another length"))?;
    if let (0, Decision::Nccl { version }) = (rank, &decision) {
        crate::log::fallback(&nccl::fallback_text(version, ranks));
    }
    Ok(match decision {
        Decision::Host => Agreed::Host(UniqueId::from_bytes(&bytes).map_err(ours)?),
        Decision::Nccl { .. } => Agreed::Nccl(UniqueIdBytes { internal: bytes }),
    })
}

/// Makes the id with which the executor begins.
fn begin(decision: &Decision, options: &Options) -> Result<Vec<u8>, Error> {
    match decision {
        Decision::Host => {
            let id = UniqueId::create(options).map_err(|failure| Error::of_failure(&failure, 0))?;
            Ok(id.as_bytes().to_vec())
        }
        Decision::Nccl { .. } => Ok(nccl::unique_id()?.internal.to_vec()),
    }
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    let message = format!("a rank has sent what cannot be read when the communicator was made: {error}");
    Error::new(crate::abi::result::INTERNAL, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::result;

    fn proposal(device: Device, nccl: Result<i32, &str>) -> Proposal {
        Proposal { device, nccl: nccl.map_err(str::to_owned) }
    }

    #[test]
    fn all_ranks_on_the_host_are_served_by_the_runtime() {
        let decided = decide(&[proposal(Device::Cpu, Err("")), proposal(Device::Cpu, Ok(22105))]);
        assert_eq!(decided.unwrap(), Decision::Host);
    }

    #[test]
    fn ranks_on_gpus_need_one_nccl() {
        let with = |nccl| proposal(Device::Cuda, nccl);
        let Decision::Nccl { version } = decide(&[with(Ok(22105)), with(Ok(22105))]).unwrap() else {
            panic!("NCCL serves GPUs")
        };
        assert_eq!(version, "2.21.5");
        let error = decide(&[with(Ok(22105)), with(Err("no such file"))]).unwrap_err();
        assert!(error.message.contains("rank 1 finds no NCCL (no such file)"), "{error:?}");
        let error = decide(&[with(Ok(22105)), with(Ok(22203))]).unwrap_err();
        assert!(error.message.contains("2.21.5 but rank 1 NCCL 2.22.3"), "{error:?}");
    }

    #[test]
    fn ranks_on_different_devices_are_refused() {
        let error = decide(&[proposal(Device::Cuda, Ok(22105)), proposal(Device::Cpu, Ok(22105))]).unwrap_err();
        assert_eq!(error.code, result::INVALID_USAGE);
        assert!(error.message.contains("cuda for rank 0 and cpu for rank 1"), "{error:?}");
    }
}
