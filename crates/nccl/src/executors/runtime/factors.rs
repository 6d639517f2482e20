//! Reductions that a program makes with `ncclRedOpCreatePreMulSum`: a code stands for a factor.

use crate::abi::FIRST_OWN_REDUCTION;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use syncline_runtime::value::{DataType, Scalar};

/// What inputs are multiplied by.
#[derive(Clone, Copy)]
pub(super) enum Factor {
    /// It is known.
    Value(Scalar),
    /// It is in memory of a GPU, where each call reads it.
    OnGpu(DataType, u64),
}

/// The factors of a communicator, by the code of the reduction.
#[derive(Default)]
pub(super) struct Factors(Mutex<BTreeMap<c_int, Factor>>);

impl Factors {
    /// Makes a reduction that multiplies by a factor. Codes are unlike those of other communicators.
    pub(super) fn add(&self, factor: Factor) -> c_int {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        const CODES: u32 = c_int::MAX as u32 - FIRST_OWN_REDUCTION as u32;
        let mut factors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let code = FIRST_OWN_REDUCTION + (NEXT.fetch_add(1, Ordering::Relaxed) % CODES) as c_int;
            if let Entry::Vacant(entry) = factors.entry(code) {
                entry.insert(factor);
                return code;
            }
        }
    }

    /// The factor of a reduction.
    pub(super) fn get(&self, code: c_int) -> Option<Factor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&code).copied()
    }

    /// Forgets a reduction. Returns whether there was one.
    pub(super) fn remove(&self, code: c_int) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&code).is_some()
    }
}
