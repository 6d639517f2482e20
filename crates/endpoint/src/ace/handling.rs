//! What a packet needs of the engine.

use syncline_collective::Op;

/// What a packet needs of the engine, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handling {
    /// Local data is read.
    pub reads: bool,
    /// It is added to local data.
    pub reduces: bool,
    /// It is kept.
    pub stores: bool,
    /// It leaves through a port.
    pub sends: bool,
}

impl Handling {
    /// On its way to another NPU.
    pub const PASS: Handling = Handling { reads: false, reduces: false, stores: false, sends: true };

    /// What a step of a program needs.
    pub const fn of(op: Op) -> Handling {
        Handling { reads: op.reads_local(), reduces: op.reduces(), stores: op.stores(), sends: op.sends() }
    }
}
