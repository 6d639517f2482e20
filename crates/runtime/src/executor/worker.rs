//! Who moves and reduces data, where it lies.
//!
//! The state machine of a collective gives work to a [`Worker`]. On memory of the host it is done when the method returns; on a GPU it
//! has been given to a stream, and is done when the event behind it says so.

use crate::bootstrap::Failure;
use crate::value::Arithmetic;
use std::convert::Infallible;
use std::ptr;

/// Chunks that may be under way at once.
pub(crate) const WINDOW: u32 = 4;

/// The memory of a chunk beside the buffers of the caller: what is stored but no result, scratch, and copies of input and output.
/// Pointers of no bytes are null.
pub(crate) type Rooms = [*mut u8; 4];

/// Moves and reduces data.
///
/// All pointers have so many bytes, in memory that the worker reaches; a result begins where one of the others does or does not overlap
/// it. What is given one after the other without [`Worker::on`] in between is done in this order.
pub(crate) trait Worker {
    /// What says that work is done which has been given.
    type Given;

    /// Memory for the chunk that has this place in the window.
    ///
    /// # Errors
    /// A [`Failure`], if there is not as much.
    fn rooms(&mut self, place: u32, sizes: [usize; 4]) -> Result<Rooms, Failure>;

    /// Says which thread of the plan the work is for that follows.
    fn on(&mut self, thread: usize);

    /// Copies; where both are the same, nothing is done.
    ///
    /// # Safety
    /// See [`Worker`].
    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize);

    /// [`Arithmetic::scale`].
    ///
    /// # Safety
    /// See [`Worker`].
    unsafe fn scale(&mut self, to: *mut u8, from: *const u8, bytes: usize);

    /// [`Arithmetic::reduce`], or [`Arithmetic::reduce_scaled`].
    ///
    /// # Safety
    /// See [`Worker`].
    unsafe fn reduce(&mut self, to: *mut u8, received: *const u8, local: *const u8, scaled: bool, bytes: usize);

    /// [`Arithmetic::divide`].
    ///
    /// # Safety
    /// See [`Worker`].
    unsafe fn divide(&mut self, to: *mut u8, bytes: usize);

    /// What has been given since [`Worker::on`]; nothing, if it is done already.
    ///
    /// # Errors
    /// A [`Failure`], if some of it could not be given.
    fn given(&mut self) -> Result<Option<Self::Given>, Failure>;

    /// Whether it is done.
    ///
    /// # Errors
    /// A [`Failure`], if it never will be.
    fn is_done(&mut self, given: &Self::Given) -> Result<bool, Failure>;
}

/// Works on memory of the host.
pub(crate) struct OnHost {
    arithmetic: Arithmetic,
    rooms: [[Vec<u8>; 4]; WINDOW as usize],
}

impl OnHost {
    pub(crate) fn new(arithmetic: Arithmetic) -> OnHost {
        OnHost { arithmetic, rooms: Default::default() }
    }
}

impl Worker for OnHost {
    type Given = Infallible;

    fn rooms(&mut self, place: u32, sizes: [usize; 4]) -> Result<Rooms, Failure> {
        let mut rooms = [ptr::null_mut(); 4];
        for ((room, memory), size) in rooms.iter_mut().zip(&mut self.rooms[place as usize]).zip(sizes) {
            memory.resize(size, 0);
            *room = if size > 0 { memory.as_mut_ptr() } else { ptr::null_mut() };
        }
        Ok(rooms)
    }

    #[inline(always)]
    fn on(&mut self, _thread: usize) {}

    #[inline(always)]
    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(from, to, bytes) };
    }

    #[inline(always)]
    unsafe fn scale(&mut self, to: *mut u8, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.arithmetic.scale(to, from, bytes) };
    }

    #[inline(always)]
    unsafe fn reduce(&mut self, to: *mut u8, received: *const u8, local: *const u8, scaled: bool, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if scaled {
                self.arithmetic.reduce_scaled(to, received, local, bytes);
            } else {
                self.arithmetic.reduce(to, received, local, bytes);
            }
        }
    }

    #[inline(always)]
    unsafe fn divide(&mut self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.arithmetic.divide(to, bytes) };
    }

    #[inline(always)]
    fn given(&mut self) -> Result<Option<Infallible>, Failure> {
        Ok(None)
    }

    fn is_done(&mut self, given: &Infallible) -> Result<bool, Failure> {
        match *given {}
    }
}
