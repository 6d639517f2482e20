//! Loops over elements in memory, compiled for several sets of instructions.

use super::element::{Divisible, Ordered, Values};
use std::marker::PhantomData;

/// Vector instructions that loops are compiled for. Results do not depend on them, but for the bits of NaNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// What every CPU of the architecture has.
    Basic,
    /// AVX2 and F16C of x86-64.
    Avx2,
}

impl Instructions {
    /// The best that this CPU has.
    pub fn best() -> Instructions {
        if Instructions::Avx2.present() { Instructions::Avx2 } else { Instructions::Basic }
    }

    /// Whether this CPU has them.
    pub fn present(self) -> bool {
        match self {
            Instructions::Basic => true,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
            #[cfg(not(target_arch = "x86_64"))]
            Instructions::Avx2 => false,
        }
    }
}

/// What a loop works on.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub result: *mut u8,
    /// Of loops over pairs.
    pub received: *const u8,
    pub local: *const u8,
    /// Whole elements.
    pub bytes: usize,
    /// What the loop's type says.
    pub constant: Constant,
}

/// A number that all elements share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constant {
    None,
    /// The bytes of an element, from the first.
    Factor([u8; 8]),
    Divisor(u32),
}

/// A loop over all elements of its operands.
pub(super) trait Loop {
    /// # Safety
    /// Operands that the loop uses have `bytes` bytes each. The result is disjoint from the others, or begins where
    /// one of them does.
    unsafe fn run(operands: Operands);
}

/// A compiled loop, with the demands of [`Loop::run`].
pub(super) type Compiled = unsafe fn(Operands);

/// The version of a loop for these instructions, which the CPU must have: one that is compiled for any CPU, or
/// another for AVX2.
pub(super) fn compiled<Basic: Loop, Avx2: Loop>(instructions: Instructions) -> Compiled {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => for_avx2::<Avx2>,
        _ => for_any::<Basic>,
    }
}

unsafe fn for_any<L: Loop>(operands: Operands) {
    // SAFETY: as demanded of the caller.
    unsafe { L::run(operands) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn for_avx2<L: Loop>(operands: Operands) {
    // SAFETY: as demanded of the caller.
    unsafe { L::run(operands) }
}

/// What is done with what was received and what is local.
pub(super) trait Pairing<V>: Copy {
    fn pair(self, received: V, local: V) -> V;
}

/// What is done with what is local alone.
trait Change<V>: Copy {
    fn change(self, local: V) -> V;
}

#[derive(Clone, Copy, Default)]
pub(super) struct Sum;
#[derive(Clone, Copy, Default)]
pub(super) struct Product;
#[derive(Clone, Copy, Default)]
pub(super) struct Larger;
#[derive(Clone, Copy, Default)]
pub(super) struct Smaller;
#[derive(Clone, Copy)]
struct Scaled<V>(V);
#[derive(Clone, Copy)]
struct Divided(u32);

impl<V: Values> Pairing<V> for Sum {
    #[inline(always)]
    fn pair(self, received: V, local: V) -> V {
        received.sum(local)
    }
}

impl<V: Values> Pairing<V> for Product {
    #[inline(always)]
    fn pair(self, received: V, local: V) -> V {
        received.product(local)
    }
}

impl<V: Ordered> Pairing<V> for Larger {
    #[inline(always)]
    fn pair(self, received: V, local: V) -> V {
        received.larger(local)
    }
}

impl<V: Ordered> Pairing<V> for Smaller {
    #[inline(always)]
    fn pair(self, received: V, local: V) -> V {
        received.smaller(local)
    }
}

impl<V: Values> Pairing<V> for Scaled<V> {
    #[inline(always)]
    fn pair(self, received: V, local: V) -> V {
        received.sum(self.change(local))
    }
}

impl<V: Values> Change<V> for Scaled<V> {
    #[inline(always)]
    fn change(self, local: V) -> V {
        local.product(self.0)
    }
}

impl<V: Divisible> Change<V> for Divided {
    #[inline(always)]
    fn change(self, local: V) -> V {
        local.quotient(self.0)
    }
}

/// Combines what was received with what is local, in vectors `V`.
pub(super) struct Pairs<P, V>(PhantomData<(P, V)>);

/// Multiplies what is local by the factor, and adds the product to what was received.
pub(super) struct ScaledSums<V>(PhantomData<V>);

/// Multiplies what is local by the factor.
pub(super) struct Products<V>(PhantomData<V>);

/// Divides what is local.
pub(super) struct Quotients<V>(PhantomData<V>);

impl<P: Pairing<V> + Pairing<V::One> + Default, V: Values> Loop for Pairs<P, V> {
    #[inline(always)]
    unsafe fn run(operands: Operands) {
        // SAFETY: as demanded of the caller.
        unsafe { over_pairs::<V::One, _>(over_pairs::<V, _>(operands, P::default()), P::default()) };
    }
}

impl<V: Values<One: Values>> Loop for ScaledSums<V> {
    #[inline(always)]
    unsafe fn run(operands: Operands) {
        let factor = operands.factor::<V::One>();
        // SAFETY: as demanded of the caller.
        unsafe { over_pairs(over_pairs(operands, Scaled(V::all(factor))), Scaled(factor)) };
    }
}

impl<V: Values<One: Values>> Loop for Products<V> {
    #[inline(always)]
    unsafe fn run(operands: Operands) {
        let factor = operands.factor::<V::One>();
        // SAFETY: as demanded of the caller.
        unsafe { over_locals(over_locals(operands, Scaled(V::all(factor))), Scaled(factor)) };
    }
}

impl<V: Divisible<One: Divisible>> Loop for Quotients<V> {
    #[inline(always)]
    unsafe fn run(operands: Operands) {
        let Constant::Divisor(ranks) = operands.constant else { unreachable!("an average has a divisor") };
        // SAFETY: as demanded of the caller.
        unsafe { over_locals::<V::One, _>(over_locals::<V, _>(operands, Divided(ranks)), Divided(ranks)) };
    }
}

impl Operands {
    /// # Panics
    /// If there is none.
    #[inline(always)]
    fn factor<E: Copy>(&self) -> E {
        let Constant::Factor(bytes) = self.constant else { unreachable!("an operation that scales has a factor") };
        const { assert!(size_of::<E>() <= 8) };
        // SAFETY: an element has no more bytes, and any bits are one.
        unsafe { bytes.as_ptr().cast::<E>().read_unaligned() }
    }

    /// Without the first `bytes`, which may not be more than there are.
    #[inline(always)]
    fn after(self, bytes: usize) -> Operands {
        Operands {
            result: self.result.wrapping_add(bytes),
            received: self.received.wrapping_add(bytes),
            local: self.local.wrapping_add(bytes),
            bytes: self.bytes - bytes,
            constant: self.constant,
        }
    }
}

/// Goes over as many whole `V` as there are; returns what is left. Each is read before its result is written, so that
/// the result may overwrite an operand.
///
/// # Safety
/// That of [`Loop::run`].
#[inline(always)]
unsafe fn over_pairs<V, P: Pairing<V>>(operands: Operands, pairing: P) -> Operands {
    let Operands { result, received, local, bytes, .. } = operands;
    let whole = bytes - bytes % size_of::<V>();
    for at in (0..whole).step_by(size_of::<V>()) {
        // SAFETY: as demanded of the caller, and any bits are a value.
        unsafe {
            let (received, local) = (received.add(at).cast::<V>(), local.add(at).cast::<V>());
            let value = pairing.pair(received.read_unaligned(), local.read_unaligned());
            result.add(at).cast::<V>().write_unaligned(value);
        }
    }
    operands.after(whole)
}

/// Goes over as many whole `V` as there are; returns what is left. Each is read before its result is written.
///
/// # Safety
/// That of [`Loop::run`].
#[inline(always)]
unsafe fn over_locals<V, C: Change<V>>(operands: Operands, change: C) -> Operands {
    let Operands { result, local, bytes, .. } = operands;
    let whole = bytes - bytes % size_of::<V>();
    for at in (0..whole).step_by(size_of::<V>()) {
        // SAFETY: as demanded of the caller, and any bits are a value.
        unsafe {
            result.add(at).cast::<V>().write_unaligned(change.change(local.add(at).cast::<V>().read_unaligned()))
        };
    }
    operands.after(whole)
}
