//! What a description says of how communication and compute share an NPU.

use crate::errors::RunError;
use crate::spec::{BusSpec, EndpointSpec, JobSpec, LoadSpec, Spec};
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

/// The dynamic contention of a description, if it has any.
///
/// # Errors
/// [`RunError::Spec`] if it is none that can be run.
pub fn of(spec: &Spec) -> Result<Option<Contention>, RunError> {
    let beside: &[LoadSpec] = match &spec.job {
        JobSpec::Collective { beside, .. } => beside,
        JobSpec::Training { .. } => &[],
    };
    let EndpointSpec::Baseline { contention: Some(c), memory_bytes_per_s, sm_bytes_per_s, buses, .. } = &spec.endpoint
    else {
        return match beside {
            [] => Ok(None),
            _ => {
                let refusal = Refusal::of("job.beside", "nothing is shared with what runs beside");
                Err(refusal.accepting("dynamic contention").into())
            }
        };
    };
    if *buses != BusSpec::Rate {
        let message = "with dynamic contention messages cost no more than their bytes";
        return Err(Refusal::of("endpoint.buses", message).accepting("rate").into());
    }
    let config = ContentionConfig { sms: c.sms, comm_sms: c.comm_sms, comm_warps: c.comm_warps };
    if c.comm_sms == 0 || c.comm_sms > c.sms || c.sms > 1 << 16 {
        let (few, all) = (c.comm_sms, c.sms);
        let refusal = Refusal::of("endpoint.contention", format!("{few} of {all} SMs"));
        return Err(refusal.accepting("1 to all of up to 65536 SMs").into());
    }
    let warps = beside.iter().map(|load| load.milliwarps).chain([c.kernel_milliwarps, u64::from(c.comm_warps)]);
    if let Some(wrong) = warps.into_iter().find(|w| !(1..=MOST_WARPS).contains(w)) {
        let refusal = Refusal::of("endpoint.contention", format!("{wrong} warps"));
        return Err(refusal.accepting(format!("1 to {MOST_WARPS}")).into());
    }
    if beside.len() > MOST_LOADS {
        let refusal = Refusal::of("job.beside", format!("{} loads", beside.len()));
        return Err(refusal.accepting(format!("up to {MOST_LOADS}")).into());
    }
    for (field, rate) in [("memory_bytes_per_s", *memory_bytes_per_s), ("sm_bytes_per_s", *sm_bytes_per_s)] {
        if !(LEAST_RATE..u64::MAX).contains(&rate) {
            let refusal = Refusal::of(field, format!("{rate} B/s to be shared")).within("endpoint");
            return Err(refusal.accepting("1GB/s or more").into());
        }
    }
    let load = |l: &LoadSpec| Load {
        warps: l.milliwarps,
        memory: Rate::new(l.memory_bytes_per_s).map_or(Share::ZERO, Share::of),
    };
    let loads = beside.iter().map(load).collect();
    Ok(Some(Contention { config, loads, kernel_warps: c.kernel_milliwarps }))
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
