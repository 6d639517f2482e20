//! What a description says of traffic beside that of a run ([`syncline_network::ethernet::background`]).

use serde::Deserialize;
use syncline_core::{NodeId, Ps, Refusal};
use syncline_network::ethernet::background::{LARGEST, Sizes, Source};
use syncline_topology::Fabric;

/// A share of a whole, in millionths.
const WHOLE: u64 = 1_000_000;

/// Where flows come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "arrivals", rename_all = "kebab-case", deny_unknown_fields)]
pub enum BackgroundSpec {
    /// Equal flows at equal distances of time.
    Given {
        /// The sending NPU.
        from: u32,
        /// The receiving NPU.
        to: u32,
        /// Payload of each flow.
        size_bytes: u64,
        /// When the first one begins.
        start_ps: u64,
        /// How many there are.
        count: u64,
        /// The time between two of them.
        every_ps: u64,
    },
    /// Flows that arrive at random, as a Poisson process at each sender.
    Poisson {
        /// The NPUs that send; all of them, if none are named.
        from: Option<Vec<u32>>,
        /// The NPUs that receive; all of them, if none are named.
        to: Option<Vec<u32>>,
        /// The share of the rate of a sender's link that payload takes on average, in millionths.
        load_millionths: u64,
        /// Points of the cumulative distribution of sizes: bytes, and millionths of all flows.
        sizes: Vec<(u64, u64)>,
    },
}

impl BackgroundSpec {
    /// The source of flows, if it is a legal one.
    pub(super) fn source(&self, fabric: &dyn Fabric) -> Option<Source> {
        let nodes = |named: &Option<Vec<u32>>| match named {
            Some(numbers) => numbers.iter().map(|&npu| NodeId(npu)).collect(),
            None => (0..fabric.npus()).map(NodeId).collect(),
        };
        Some(match self {
            &BackgroundSpec::Given { from, to, size_bytes, start_ps, count, every_ps } => Source::Given {
                from: NodeId(from),
                to: NodeId(to),
                len: size_bytes,
                start: Ps(start_ps),
                count,
                every: Ps(every_ps),
            },
            BackgroundSpec::Poisson { from, to, load_millionths, sizes } => Source::Poisson {
                from: nodes(from),
                to: nodes(to),
                load_millionths: *load_millionths,
                sizes: Sizes::new(sizes.clone())?,
            },
        })
    }

    fn check(&self, number: usize, fabric: &dyn Fabric) -> Result<(), Refusal> {
        let refusal =
            |field: &str, message: String| Refusal::of(&format!("network.background.{number}.{field}"), message);
        let exists = |field: &str, npu: u32| match npu < fabric.npus() {
            true => Ok(()),
            false => {
                let accepted = format!("npu 0 to npu {}", fabric.npus() - 1);
                Err(refusal(field, format!("there is no NPU {npu}")).accepting(accepted))
            }
        };
        match self {
            BackgroundSpec::Given { from, to, size_bytes, count, every_ps, .. } => {
                exists("from", *from)?;
                exists("to", *to)?;
                if from == to {
                    return Err(refusal("to", format!("NPU {to} would send to itself")).accepting("another NPU"));
                }
                if !(1..=LARGEST).contains(size_bytes) {
                    let accepted = format!("1 to {LARGEST}");
                    return Err(refusal("size_bytes", format!("a flow of {size_bytes} B")).accepting(accepted));
                }
                if *count > 1 && *every_ps == 0 {
                    return Err(refusal("every_ps", "flows that repeat need a time between them".into()).at_least(1));
                }
            }
            BackgroundSpec::Poisson { from, to, load_millionths, sizes } => {
                from.iter().flatten().try_for_each(|&npu| exists("from", npu))?;
                to.iter().flatten().try_for_each(|&npu| exists("to", npu))?;
                if *load_millionths > WHOLE {
                    let message = "the rate of a link would be exceeded on average".to_string();
                    return Err(refusal("load_millionths", message).accepting(format!("up to {WHOLE}")));
                }
                if Sizes::new(sizes.clone()).is_none() {
                    let message = "these are no points of a cumulative distribution".to_string();
                    let accepted = format!("sizes and millionths that never fall, up to {LARGEST} B and {WHOLE}");
                    return Err(refusal("sizes", message).accepting(accepted));
                }
            }
        }
        Ok(())
    }
}

/// What is wrong with traffic beside that of a run.
pub(super) fn check(specs: &[BackgroundSpec], fabric: &dyn Fabric) -> Result<(), Refusal> {
    specs.iter().enumerate().try_for_each(|(number, spec)| spec.check(number, fabric))
}
