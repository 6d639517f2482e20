//! Attention in one kernel: blocks of queries on SMs.
//!
//! A thread block takes `block` queries of a head and goes through all keys that they attend to, so that a head has
//! `ceil(queries / block)` of them (Dao: "FlashAttention-2", 2023, section 3.2). Causality leaves each about half of the keys, and a
//! diagonal of scores that are computed and masked; `fill` are the keys that it could have gone through in that time and
//! while it begins and ends. Blocks of causal attention differ in length, and SMs end at different times: `tail` of the longest
//! block is what they wait for each other.
//!
//! ```text
//!   keys'   = (keys + block) / 2 + fill   if causal, else keys
//!   work    = 2 block terms               operations for a key: terms are the features of all products of the kernel
//!   rate    = sustained * d / (d + reuse) * peak / sms,    d features of a head
//!   t       = start + work (heads blocks keys' / sms + tail longest) / rate
//! ```
//!
//! Grouped queries share keys and values, which they read from a cache: they change bytes and not operations.

use crate::kernel_kind::AttentionKernel;
use crate::parameters::{NpuError, require_positive};
use serde::Deserialize;
use syncline_core::units::PS_PER_S;

/// The constants of a library; pairs are of forward and backward.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Queries of a block.
    pub block: u32,
    /// The fraction of its peak rate that an SM would reach with endless heads and keys.
    pub sustained: [f64; 2],
    /// Features of a head at which half of it is reached.
    pub reuse: f64,
    /// Keys that a causal block could have gone through while it masks, begins and ends.
    pub fill: [f64; 2],
    /// The part of the longest block for which SMs wait at the end.
    pub tail: f64,
    /// What passes before blocks begin.
    pub start_ps: u64,
}

impl Attention {
    /// Refuses what describes no library.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if something is zero that must not be.
    pub fn checked(self) -> Result<Attention, NpuError> {
        let [forward, backward] = self.sustained;
        require_positive(&[("block", self.block.into()), ("sustained", forward), ("sustained", backward)])?;
        for (field, value) in
            [("reuse", self.reuse), ("fill", self.fill[0]), ("fill", self.fill[1]), ("tail", self.tail)]
        {
            if value != 0.0 {
                require_positive(&[(field, value)])?;
            }
        }
        Ok(self)
    }

    /// Seconds of a kernel with so many terms for each score, on SMs that do `per_sm` operations per second.
    pub fn seconds(&self, of: AttentionKernel, terms: u64, per_sm: f64, sms: u32) -> f64 {
        let pass = usize::from(of.backward);
        let (block, keys, head) = (f64::from(self.block), of.keys as f64, of.head_size as f64);
        let fill = if of.causal { self.fill[pass] } else { 0.0 };
        let average = if of.causal { (keys + block) / 2.0 } else { keys } + fill;
        let blocks = of.heads as f64 * of.queries.div_ceil(self.block.into()) as f64;
        let rate = per_sm * self.sustained[pass] * head / (head + self.reuse);
        let through = blocks * average / f64::from(sms) + self.tail * (keys + fill);
        self.start_ps as f64 / PS_PER_S as f64 + 2.0 * block * terms as f64 * through / rate
    }
}
