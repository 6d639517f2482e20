//! When NPUs begin: at time zero, or later by an offset of their own and by a random time (*jitter*), as the hosts of a
//! cluster do.

use crate::errors::RunError;
use crate::spec::{Spec, StartSpec};
use std::collections::BTreeMap;
use syncline_core::random::RandomStream;
use syncline_core::{NodeId, Ps, Refusal};

/// What tells the random numbers of begins from those of others: "start" in ASCII.
const ENTITY: u64 = 0x73_74_61_72_74;

/// Refuses offsets of what is none of the machine's `npus` NPUs, of an NPU that has one already, and times beyond the end
/// of simulated time.
///
/// # Errors
/// [`RunError::Spec`] with the field.
pub fn check(spec: &Spec, npus: u32) -> Result<(), RunError> {
    const FIELD: &str = "start.offsets";
    let StartSpec { offsets, jitter_ps } = &spec.start;
    let mut named: Vec<u32> = offsets.iter().map(|offset| offset.0).collect();
    named.sort_unstable();
    if let Some(&npu) = named.last().filter(|&&npu| npu >= npus) {
        return Err(RunError::no_such_npu(FIELD, npu, npus));
    }
    if let Some(twice) = named.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Refusal::of(FIELD, format!("NPU {} has two", twice[0])).accepting("one offset per NPU").into());
    }
    let late = offsets.iter().find(|offset| offset.1 > Ps::HORIZON.0);
    let late = late.map(|(npu, _)| (FIELD, format!("NPU {npu} begins")));
    let late = late.or_else(|| (*jitter_ps > Ps::HORIZON.0).then(|| ("start.jitter_ps", "NPUs may begin".to_owned())));
    match late {
        Some((field, begins)) => {
            let refusal = Refusal::of(field, format!("{begins} after the end of simulated time"));
            Err(refusal.accepting("up to 106 days").into())
        }
        None => Ok(()),
    }
}

/// The NPUs of a machine that begin later than time zero, and when.
pub fn later(spec: &Spec, npus: u32) -> impl Iterator<Item = (NodeId, Ps)> {
    let StartSpec { offsets, jitter_ps } = &spec.start;
    let offsets: BTreeMap<u32, u64> = offsets.iter().copied().collect();
    let (seed, jitter) = (spec.seed, *jitter_ps);
    let all = if jitter > 1 { 0..npus } else { 0..0 };
    let drawn = all.map(move |npu| (npu, RandomStream::new(seed, &[ENTITY, npu.into()]).below(0, jitter)));
    let mut begins = offsets;
    for (npu, time) in drawn {
        *begins.entry(npu).or_default() += time; // both at most the end of simulated time
    }
    begins.into_iter().filter(|begin| begin.1 > 0).map(|(npu, at)| (NodeId(npu), Ps(at)))
}
