//! The functions of NCCL.
//!
//! [`lifecycle`] makes and leaves communicators, [`queries`] tells about them, [`collectives`] has what moves data,
//! [`newer`] what came after 2.21.5, and [`own`] what NCCL does not have. [`entry`] is the way in.

mod collectives;
mod entry;
mod lifecycle;
mod newer;
mod own;
mod queries;
