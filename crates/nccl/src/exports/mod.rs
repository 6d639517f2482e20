//! The functions of NCCL.
//!
//! [`lifecycle`] makes and leaves communicators, [`queries`] tells about them, [`collectives`] has what moves data,
//! and [`newer`] what came after 2.21.5.

mod collectives;
mod lifecycle;
mod newer;
mod queries;
