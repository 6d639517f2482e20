//! Whose turn it is among collectives of a communicator that go one after the other (`driver::turns`).

use crate::admission::CollectiveId;

/// Where an NPU is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It does nothing for the communicator.
    #[default]
    Free,
    /// It launches a collective.
    Launching(CollectiveId),
    /// It carries one out.
    Of(CollectiveId),
}

/// Whose turn it is, NPU by NPU.
#[derive(Clone, Debug)]
pub struct Turns(pub(crate) Vec<Turn>);

impl Turns {
    /// Nobody's, on `npus` NPUs.
    pub fn new(npus: u32) -> Turns {
        Turns(vec![Turn::Free; npus as usize])
    }
}
