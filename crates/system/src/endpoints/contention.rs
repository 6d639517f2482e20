//! How communication and compute share an NPU.

use serde::Deserialize;
use syncline_core::share::Share;
use syncline_core::units::PS_PER_S;
use syncline_core::{Bytes, Ps, Rate, Refusal};
use syncline_endpoint::{BaselineConfig, Contended, ContentionConfig, Load};

/// Dynamic contention, as a description has it.
#[derive(Clone, Debug)]
pub struct Contention {
    /// What is shared.
    pub config: ContentionConfig,
    /// What runs on every NPU all the time.
    pub loads: Vec<Load>,
    /// Warps of a kernel of the training loop on an SM, in thousandths.
    pub kernel_warps: u64,
}

/// More warps than an SM has, by far, in thousandths.
const MOST_WARPS: u64 = 1 << 20;
/// Loads beside a collective.
const MOST_LOADS: usize = 1000;
/// Capacities below this could not be shared among all warps.
const LEAST_RATE: u64 = 1_000_000_000;

/// What shares an NPU if a description does not say how.
///
/// # Errors
/// A [`Refusal`] of loads beside a collective.
pub(super) fn none(beside: &[LoadSpec]) -> Result<Option<Contention>, Refusal> {
    match beside {
        [] => Ok(None),
        _ => {
            Err(Refusal::of("job.beside", "static contention shares nothing with loads")
                .accepting("dynamic contention"))
        }
    }
}

/// Dynamic contention ([`syncline_endpoint::contention`]).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentionSpec {
    /// SMs of the NPU.
    pub sms: u32,
    /// SMs that communication occupies.
    pub comm_sms: u32,
    /// Warps of communication on each of them.
    pub comm_warps: u32,
    /// Warps of a kernel of the training loop on each SM, in thousandths.
    pub kernel_milliwarps: u64,
}

/// A load that runs beside a collective from beginning to end.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Its warps on each SM, in thousandths.
    pub milliwarps: u64,
    /// Its traffic with main memory if it runs alone.
    pub memory_bytes_per_s: u64,
}

impl ContentionSpec {
    /// What shares an NPU with such loads, at rates (by field) of what is shared.
    ///
    /// # Errors
    /// A [`Refusal`] of what cannot be shared.
    pub(super) fn with(&self, beside: &[LoadSpec], rates: [(&str, u64); 2]) -> Result<Contention, Refusal> {
        let config = ContentionConfig { sms: self.sms, comm_sms: self.comm_sms, comm_warps: self.comm_warps };
        if config.comm_sms == 0 || config.comm_sms > config.sms || config.sms > 1 << 16 {
            let refusal = Refusal::of(
                "endpoint.contention",
                format!("communication on {} of {} SMs", config.comm_sms, config.sms),
            );
            return Err(refusal.accepting("1 to all of up to 65536 SMs"));
        }
        let of_loads = beside.iter().map(|load| load.milliwarps);
        let mut warps = of_loads.chain([self.kernel_milliwarps, u64::from(self.comm_warps)]);
        if let Some(wrong) = warps.find(|w| !(1..=MOST_WARPS).contains(w)) {
            let refusal = Refusal::of("endpoint.contention", format!("{wrong} warps on an SM"));
            return Err(refusal.accepting(format!("1 to {MOST_WARPS}")));
        }
        if beside.len() > MOST_LOADS {
            let refusal = Refusal::of("job.beside", format!("{} loads beside the collective", beside.len()));
            return Err(refusal.accepting(format!("up to {MOST_LOADS}")));
        }
        for (field, rate) in rates {
            if !(LEAST_RATE..u64::MAX).contains(&rate) {
                let refusal = Refusal::of(field, format!("{rate} B/s to be shared")).within("endpoint");
                return Err(refusal.accepting("1GB/s or more"));
            }
        }
        let load = |l: &LoadSpec| Load {
            warps: l.milliwarps,
            memory: Rate::new(l.memory_bytes_per_s).map_or(Share::ZERO, Share::of),
        };
        let loads = beside.iter().map(load).collect();
        Ok(Contention { config, loads, kernel_warps: self.kernel_milliwarps })
    }
}

impl Contention {
    /// The least rate at which communication is served, in bytes/s, and the most that compute is stretched.
    pub fn at_worst(&self, baseline: BaselineConfig) -> (f64, f64) {
        let (bytes, alone) = (Bytes(1 << 30), Ps(PS_PER_S));
        let times = Contended::at_worst(baseline, self.config, self.loads.clone(), self.kernel_warps, (bytes, alone));
        let Some((communication, kernel)) = times else { return (0.0, f64::INFINITY) };
        (bytes.0 as f64 / communication.as_s(), kernel.as_s())
    }
}
