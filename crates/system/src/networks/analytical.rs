//! [`syncline_network::Analytical`].

use super::{BuildNetwork, NetworkModel, NetworkNeeds};
use serde::Deserialize;
use std::sync::Arc;
use syncline_network::Analytical;
use syncline_topology::Fabric;

/// Messages that do not slow each other down beyond their sender's port.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalyticalSpec {}

impl NetworkModel for AnalyticalSpec {
    fn link_bytes(&self) -> u64 {
        80
    }

    fn has_contention(&self) -> bool {
        false
    }
}

impl BuildNetwork for AnalyticalSpec {
    type Network = Analytical<Arc<dyn Fabric>>;

    fn build(&self, fabric: Arc<dyn Fabric>, needs: &NetworkNeeds) -> Self::Network {
        Analytical::new(fabric, needs.window)
    }
}
