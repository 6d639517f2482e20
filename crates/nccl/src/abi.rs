//! What NCCL 2.21.5 passes between program and library: sizes, offsets and codes, as facts.
//!
//! Later versions append members to [`Config`], whose `size` says which are there. `tests/interface.rs` compares the
//! layouts with what a C compiler makes of `include/syncline_nccl.h`.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version whose interface is offered, as `ncclGetVersion` tells it: 2.21.5.
pub const VERSION: c_int = 22_105;

/// What a program holds for a communicator (`ncclComm_t`).
pub type Comm = *mut c_void;
/// A stream of CUDA (`cudaStream_t`).
pub type Stream = *mut c_void;
/// A window of a communicator (`ncclWindow_t`, since 2.27).
pub type Window = *mut c_void;

/// `ncclUniqueId`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueIdBytes {
    /// Opaque bytes.
    pub internal: [u8; 128],
}

/// `ncclConfig_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of the structure that the program was compiled with.
    pub size: usize,
    /// [`CONFIG_MAGIC`].
    pub magic: c_uint,
    /// The version that the program was compiled with.
    pub version: c_uint,
    /// Whether calls may return `ncclInProgress`: they may if 0.
    pub blocking: c_int,
    /// Settings of NCCL's kernels, which no executor of Syncline has.
    pub cga_cluster_size: c_int,
    /// As above.
    pub min_ctas: c_int,
    /// As above.
    pub max_ctas: c_int,
    /// The network that NCCL is to use.
    pub net_name: *const c_char,
    /// Whether parts of a split communicator share its resources.
    pub split_share: c_int,
}

/// The mark of a [`Config`].
pub const CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// A number in a [`Config`] that has not been set.
pub const UNDEFINED: c_int = c_int::MIN;

/// `ncclSimInfo_t` (since 2.22).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SimInfo {
    /// Bytes of the structure that the program was compiled with.
    pub size: usize,
    /// `0x74685283`.
    pub magic: c_uint,
    /// The version that the program was compiled with.
    pub version: c_uint,
    /// In microseconds.
    pub estimated_time: f32,
}

/// `ncclResult_t`.
pub mod result {
    use std::ffi::c_int;

    /// The call is done.
    pub const SUCCESS: c_int = 0;
    /// CUDA has failed.
    pub const CUDA: c_int = 1;
    /// The operating system has refused something.
    pub const SYSTEM: c_int = 2;
    /// A defect of the library.
    pub const INTERNAL: c_int = 3;
    /// An argument has a value that is not accepted.
    pub const INVALID_ARGUMENT: c_int = 4;
    /// The call is not allowed here.
    pub const INVALID_USAGE: c_int = 5;
    /// Another rank has failed.
    pub const REMOTE: c_int = 6;
    /// The call is under way.
    pub const IN_PROGRESS: c_int = 7;
    /// The call has taken too long (since 2.29).
    pub const TIMEOUT: c_int = 8;
}

/// A color that makes no communicator (`NCCL_SPLIT_NOCOLOR`).
pub const NO_COLOR: c_int = -1;
/// The first code of `ncclRedOp_t` that `ncclRedOpCreatePreMulSum` gives.
pub const FIRST_OWN_REDUCTION: c_int = 5;
