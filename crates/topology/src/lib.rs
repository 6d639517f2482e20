//! NPUs, switches and the links between them.
//!
//! A [`Fabric`] is what the models above see: nodes with numbered ports, where each port leads and what
//! its link can do. [`Product`] is a product of dimensions (rings, fully connected groups, switches),
//! [`Graph`] a fabric of any shape.

pub mod cut;
pub mod exchange;
pub mod fabric;
pub mod graph;
pub mod paths;
pub mod product;
pub mod quotient;
pub mod rings;
pub mod routing;
pub mod symmetry;

pub use fabric::{Fabric, LinkSpec, all_links};
pub use graph::{Graph, GraphError, GraphLink, GraphNode};
pub use paths::{Hop, Paths};
pub use product::{Block, Dimension, PortUse, Product, ProductError, Way};
pub use quotient::Quotient;
pub use routing::Routing;
