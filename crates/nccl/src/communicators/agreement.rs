//! Which executor serves a communicator: all ranks decide it together when the communicator is made.
//!
//! Ranks meet in a session of the bootstrap. Each proposes what its environment asks for and what it finds, and as
//! all see the same proposals, all come to the same decision. Whether there is an NCCL is told only where one is needed, since
//! looking for it may load it. Rank 0 then makes the id with which the executor itself begins, and hands it to the others.

use crate::abi::UniqueIdBytes;
use crate::device::Device;
use crate::error::Error;
use crate::executors::nccl;
use serde::{Deserialize, Serialize};
use syncline_runtime::bootstrap::{Failure, Options, Session, UniqueId};
use syncline_runtime::device::Gpu;

/// What a rank proposes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Proposal {
    device: Device,
    /// Where the GPU is on the PCI bus that Syncline can use, or why there is none.
    gpu: Result<String, String>,
}

/// Which executor serves a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// The runtime, on memory of the host.
    Host,
    /// The runtime, on memory of GPUs.
    Cuda,
    /// NCCL itself, if there is one, and why.
    Nccl {
        /// Why Syncline does not serve.
        reason: String,
    },
}

/// What ranks have agreed on, with what the executor begins with.
pub(crate) enum Agreed {
    /// The runtime, on memory of the host.
    Host(UniqueId),
    /// The runtime, on memory of GPUs.
    Cuda { id: UniqueId, gpu: Gpu },
    /// NCCL itself.
    Nccl(UniqueIdBytes),
}

/// Decides, by rank.
fn decide(proposals: &[Proposal]) -> Result<Decision, Error> {
    let device = proposals[0].device;
    if let Some(other) = proposals.iter().position(|proposal| proposal.device != device) {
        let [of_first, of_other] = [0, other].map(|rank| proposals[rank].device.name());
        return Err(Error::usage(format!(
            "SYNCLINE_DEVICE is {of_first} for rank 0 and {of_other} for rank {other}; accepted: the same for all ranks"
        )));
    }
    let missing = |(rank, proposal): (usize, &Proposal)| Some((rank, proposal.gpu.as_ref().err()?.clone()));
    Ok(match (device, proposals.iter().enumerate().find_map(missing)) {
        (Device::Cpu, _) => Decision::Host,
        (Device::Nccl, _) => Decision::Nccl { reason: nccl::ASKED_FOR.into() },
        (Device::Cuda, None) => Decision::Cuda,
        (Device::Cuda, Some((rank, why))) => {
            Decision::Nccl { reason: format!("Syncline cannot serve the GPU of rank {rank} ({why})") }
        }
    })
}

/// The version of NCCL that all ranks have, as a text, out of the codes that they have found, or why they found none.
fn one_version(found: &[Result<i32, String>], reason: &str) -> Result<String, Error> {
    let mut versions = Vec::new();
    for (rank, found) in found.iter().enumerate() {
        match found {
            Ok(version) => versions.push(*version),
            Err(why) => {
                return Err(Error::usage(format!(
                    "no executor: {reason}, and rank {rank} finds no NCCL ({why}); accepted: SYNCLINE_DEVICE=cpu on \
                     all ranks for buffers in memory of the host, or an NCCL on all (SYNCLINE_NCCL_LIBRARY names it)"
                )));
            }
        }
    }
    if let Some(other) = versions.iter().position(|version| *version != versions[0]) {
        let [of_first, of_other] = [0, other].map(|rank| nccl::version_text(versions[rank]));
        return Err(Error::usage(format!(
            "no executor: {reason}, and rank 0 finds NCCL {of_first} but rank {other} NCCL {of_other}; accepted: one \
             version on all ranks"
        )));
    }
    Ok(nccl::version_text(versions[0]))
}

/// Agrees with all ranks that join with an id. The context is that of CUDA that was current at the call of the program.
pub(crate) fn agree(
    id: &UniqueId,
    rank: u32,
    ranks: u32,
    options: &Options,
    context: Option<usize>,
) -> Result<Agreed, Error> {
    let ours = |failure: Failure| Error::of_failure(&failure, rank);
    let device = Device::from_environment()?;
    let gpu = match device {
        Device::Cuda => Gpu::of_context(context).map_err(|failure| failure.message),
        Device::Cpu | Device::Nccl => Err("not looked for".into()),
    };
    let proposal = Proposal { device, gpu: gpu.as_ref().map(|gpu| gpu.bus_id().to_owned()).map_err(String::clone) };
    let text = serde_json::to_vec(&proposal).map_err(unreadable)?;
    let session = Session::join(id, rank, ranks, &text, Box::new(|| ()), options).map_err(ours)?;
    let proposals: Vec<Proposal> = session
        .publications()
        .iter()
        .map(|text| serde_json::from_slice(text).map_err(unreadable))
        .collect::<Result<_, _>>()?;
    let decision = decide(&proposals)?;
    if let Decision::Nccl { reason } = &decision {
        let found = nccl::library().map(|library| library.version()).map_err(str::to_owned);
        let told = session.exchange(&serde_json::to_vec(&found).map_err(unreadable)?).map_err(ours)?;
        let told: Vec<Result<i32, String>> =
            told.iter().map(|text| serde_json::from_slice(text).map_err(unreadable)).collect::<Result<_, _>>()?;
        let version = one_version(&told, reason)?;
        if rank == 0 {
            crate::log::fallback(&nccl::fallback_text(&version, ranks, reason));
        }
    }
    let made = if rank == 0 { begin(&decision, options) } else { Ok(Vec::new()) };
    let part = serde_json::to_vec(&made.map_err(|error| (error.code, error.message))).map_err(unreadable)?;
    let parts = session.exchange(&part).map_err(ours)?;
    let made: Result<Vec<u8>, (i32, String)> = serde_json::from_slice(&parts[0]).map_err(unreadable)?;
    let bytes = made.map_err(|(code, message)| Error::new(code, format!("rank 0 has failed to begin: {message}")))?;
    let bytes: [u8; 128] = bytes.try_into().map_err(|_| unreadable("an id of another length"))?;
    Ok(match (decision, gpu) {
        (Decision::Host, _) => Agreed::Host(UniqueId::from_bytes(&bytes).map_err(ours)?),
        (Decision::Cuda, Ok(gpu)) => {
            let id = UniqueId::from_bytes(&bytes).map_err(ours)?;
            Agreed::Cuda { id, gpu }
        }
        (Decision::Cuda, Err(why)) => return Err(unreadable(why)),
        (Decision::Nccl { .. }, _) => Agreed::Nccl(UniqueIdBytes { internal: bytes }),
    })
}

/// Makes the id with which the executor begins.
fn begin(decision: &Decision, options: &Options) -> Result<Vec<u8>, Error> {
    match decision {
        Decision::Host | Decision::Cuda => {
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

    fn proposal(device: Device, gpu: Result<&str, &str>) -> Proposal {
        Proposal { device, gpu: gpu.map(str::to_owned).map_err(str::to_owned) }
    }

    #[test]
    fn all_ranks_on_the_host_are_served_by_the_runtime() {
        let decided = decide(&[proposal(Device::Cpu, Err("")), proposal(Device::Cpu, Err(""))]);
        assert_eq!(decided.unwrap(), Decision::Host);
    }

    #[test]
    fn ranks_on_gpus_are_served_by_the_runtime_if_all_can_be() {
        let with = |gpu| proposal(Device::Cuda, gpu);
        assert_eq!(decide(&[with(Ok("0000:3b:00.0")), with(Ok("0000:3b:00.0"))]).unwrap(), Decision::Cuda);
        let decided = decide(&[with(Ok("0000:3b:00.0")), with(Err("too old"))]).unwrap();
        let Decision::Nccl { reason } = decided else { panic!("NCCL serves") };
        assert_eq!(reason, "Syncline cannot serve the GPU of rank 1 (too old)");
        let decided = decide(&[proposal(Device::Nccl, Ok("0000:3b:00.0"))]).unwrap();
        assert_eq!(decided, Decision::Nccl { reason: nccl::ASKED_FOR.into() });
    }

    #[test]
    fn nccl_is_one_on_all_ranks() {
        assert_eq!(one_version(&[Ok(22105), Ok(22105)], "").unwrap(), "2.21.5");
        let error = one_version(&[Ok(22105), Err("no such file".into())], "a reason").unwrap_err();
        assert!(error.message.contains("a reason, and rank 1 finds no NCCL (no such file)"), "{error:?}");
        let error = one_version(&[Ok(22105), Ok(22203)], "").unwrap_err();
        assert!(error.message.contains("2.21.5 but rank 1 NCCL 2.22.3"), "{error:?}");
    }

    #[test]
    fn ranks_on_different_devices_are_refused() {
        let error = decide(&[proposal(Device::Cuda, Ok("")), proposal(Device::Cpu, Err(""))]).unwrap_err();
        assert_eq!(error.code, result::INVALID_USAGE);
        assert!(error.message.contains("cuda for rank 0 and cpu for rank 1"), "{error:?}");
    }
}
