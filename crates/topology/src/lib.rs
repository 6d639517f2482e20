//! NPUs and the links between them.
//!
//! A [`Topology`] is what a user describes: a product of dimensions, each with its link parameters.
//! A [`Fabric`] is what the models above see: nodes with numbered ports, where each port leads and
//! what its link can do. [`Torus`] is the full fabric of a product of rings; a folded quotient is to
//! implement the same trait, which is why nothing above may ask for more than the trait offers.

pub mod fabric;
pub mod torus;

pub use fabric::{Fabric, LinkSpec, PortUse};
pub use torus::{Dimension, Torus, TorusError};
