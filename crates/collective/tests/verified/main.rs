//! Every plan goes through the symbolic verifier; broken programs of each kind are rejected.

mod broken;
mod buffers;
mod grids;
mod lines;
mod support;
