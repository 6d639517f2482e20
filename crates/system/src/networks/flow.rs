//! [`syncline_network::Flow`].

use super::{BuildNetwork, NetworkModel, NetworkNeeds};
use serde::Deserialize;
use std::sync::Arc;
use syncline_network::Flow;
use syncline_topology::Fabric;

/// Messages as flows, which share links max-min fairly.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {}

impl NetworkModel for FlowSpec {
    fn link_bytes(&self) -> u64 {
        420
    }
}

impl BuildNetwork for FlowSpec {
    type Network = Flow<Arc<dyn Fabric>>;

    fn build(&self, fabric: Arc<dyn Fabric>, needs: &NetworkNeeds) -> Self::Network {
        Flow::new(fabric, needs.window)
    }
}
