//! `SYNCLINE_DEVICE`: where a process has its buffers, and who serves them.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::env;
use std::sync::OnceLock;

/// Where the buffers of a process are, and who serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Device {
    /// In memory of the host: `SYNCLINE_DEVICE=cpu`.
    Cpu,
    /// In memory of GPUs.
    Cuda,
    /// In memory of GPUs, for NCCL.
    Nccl,
}

impl Device {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda => "cuda",
            Device::Nccl => "nccl",
        }
    }

    /// What the environment says, when it is asked first.
    pub(crate) fn from_environment() -> Result<Device, Error> {
        static SAID: OnceLock<Result<Device, String>> = OnceLock::new();
        let said = SAID.get_or_init(|| match env::var("SYNCLINE_DEVICE").ok().as_deref() {
            None | Some("" | "cuda") => Ok(Device::Cuda),
            Some("cpu") => Ok(Device::Cpu),
            Some("nccl") => Ok(Device::Nccl),
            Some(other) => Err(format!("{other:?}")),
        });
        said.clone().map_err(|value| Error::argument("SYNCLINE_DEVICE", value, "cpu, cuda, nccl, or unset"))
    }
}
