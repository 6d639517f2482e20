//! [`syncline_network::ethernet`].

use super::background::{self, BackgroundSpec};
use super::{BuildNetwork, LinkChange, NetworkModel, NetworkNeeds};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_core::table::Declaration;
use syncline_core::{NodeId, PortId, Ps, Rate, Refusal};
use syncline_network::ethernet::config::Balancing;
use syncline_network::ethernet::link::{Condition, Marking};
use syncline_network::ethernet::roce::dcqcn::DcqcnConfig;
use syncline_network::ethernet::roce::{Repeat, RoceConfig};
use syncline_network::ethernet::switching::SwitchingConfig;
use syncline_network::ethernet::switching::buffer::Sharing;
use syncline_network::ethernet::tcp::control::ControlKind;
use syncline_network::ethernet::tcp::{Dialect, Recovery, TcpConfig};
use syncline_network::ethernet::{Ethernet, EthernetConfig};
use syncline_topology::Fabric;

/// Bytes of a connection, its way and its place in a map.
const CONNECTION: u64 = 550;
/// Bytes of a frame that waits, with its share of what links chunks of frames.
const FRAME: u64 = 26;

/// The largest frame, in bytes.
const LARGEST_FRAME: u32 = 65_535;

/// The most ports of which what leaves is recorded, and the most names of ports in a message.
const MOST_CAPTURED: usize = 256;
const MOST_NAMES: usize = 12;

/// Switches with output queues, and TCP or RoCE.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EthernetSpec {
    /// Names of classes of links within machines, which lose nothing and have no transport; a fabric need not have all of them.
    pub local_classes: Vec<String>,
    /// Of these, the classes whose links are shared by flows: messages that take no others are not cut into frames, and no event
    /// of its own moves what NICs read and write within machines. None for frames on all links.
    pub flow_classes: Vec<String>,
    /// NPUs between which connections are sampled: sender and receiver.
    pub watched: Vec<(u32, u32)>,
    /// Traffic and records beside the run.
    pub beside: Box<BesideSpec>,
    /// RoCE instead of TCP, of which several settings have no meaning then.
    pub roce: Option<Box<RoceSpec>>,
    /// How links are served frame by frame; `None` for first come, first served, with a buffer for each port.
    pub switching: Option<SwitchingSpec>,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// Bytes of a frame beside its payload.
    pub overhead_bytes: u32,
    /// Bytes that may wait before a link that leaves a switch.
    pub buffer_bytes: u64,
    /// Bytes that may wait before a link that leaves a host; `None` for any number.
    pub nic_queue_bytes: Option<u64>,
    /// How many messages of a host may have been posted without having left; `None` for any number.
    pub outstanding: Option<NonZeroU32>,
    /// Both socket buffers; of RoCE, the most in flight.
    pub window_bytes: u64,
    /// Least retransmission timeout; of RoCE, the timeout.
    pub min_rto_ps: u64,
    /// Granularity of the clock that measures round trips.
    pub clock_granularity_ps: u64,
    /// Timeouts in a row after which a connection is given up.
    pub retries: u32,
    /// Bytes of the first congestion window.
    pub initial_window_bytes: u64,
    /// Full segments for which an acknowledgement waits.
    pub delayed_ack: u32,
    /// How long it waits at most.
    pub delayed_ack_timeout_ps: u64,
    /// Whether acknowledgements say what was received out of order.
    pub sack: bool,
    /// How the window develops during recovery.
    pub recovery: RecoverySpec,
    /// How it develops otherwise.
    pub congestion_control: ControlSpec,
    /// When switches mark frames; senders react to it if they do.
    pub marking: MarkingSpec,
    /// Whether all messages between two NPUs share a connection.
    pub connection_per_pair: bool,
    /// Whether every frame takes another one of several equally good ways, instead of every connection.
    pub sprays: bool,
    /// What is followed where implementations differ.
    pub dialect: DialectSpec,
    /// Whether the window falls back after an idle time.
    pub idle_restart: bool,
}

/// What there is beside a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BesideSpec {
    /// Traffic.
    pub background: Vec<BackgroundSpec>,
    /// Ports of which what leaves is recorded.
    pub captured: Vec<CaptureSpec>,
}

/// Ports of which what leaves is recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureSpec {
    /// What kind of node they are of.
    pub of: NodeKind,
    /// The number of the node among those of its kind.
    pub number: u32,
    /// The name of a port; `None` for all ports that have a transport.
    pub port: Option<String>,
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// An NPU.
    Npu,
    /// Everything else, which forwards.
    Switch,
}

/// What RoCE is like beyond what it has in common with TCP.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoceSpec {
    /// Whether lost frames alone are sent again, instead of everything from the first of them on.
    pub selective_repeat: bool,
    /// What sets the rate of a connection, if anything but its link does.
    pub dcqcn: Option<DcqcnSpec>,
}

/// The parameters of DCQCN.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DcqcnSpec {
    /// Weight of a notification, as a share.
    pub gain: f64,
    /// Least time between two notifications of a receiver.
    pub notification_ps: u64,
    /// Time without notifications after which the estimate of congestion falls.
    pub alpha_timer_ps: u64,
    /// Time after which the rate grows.
    pub rate_timer_ps: u64,
    /// Bytes after which the rate grows.
    pub byte_counter_bytes: u64,
    /// Rounds of fast recovery.
    pub rounds: u32,
    /// Additive increase.
    pub additive_bytes_per_s: u64,
    /// Hyper increase.
    pub hyper_bytes_per_s: u64,
    /// Least rate.
    pub least_bytes_per_s: u64,
}

/// How links are served frame by frame.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchingSpec {
    /// A queue may hold so many 256ths of what is free of a buffer that all ports of a switch share; `None` if each port has its
    /// part.
    pub alpha_256ths: Option<u32>,
    /// Whether full buffers make senders pause.
    pub pauses: bool,
    /// What each input keeps for frames that come nevertheless; `None` for as much as may come.
    pub headroom_bytes: Option<u64>,
    /// Whether a host's port asks its connections in turn.
    pub per_connection: bool,
}

/// How the window develops during recovery.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecoverySpec {
    /// Proportional rate reduction.
    Prr,
    /// Half of what was in flight.
    Classic,
}

/// What is followed where implementations differ.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DialectSpec {
    /// The RFCs.
    Rfc,
    /// ns-3.37.
    Ns3,
}

/// Congestion controls.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlSpec {
    /// RFC 5681.
    Newreno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
}

/// When switches mark frames.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MarkingSpec {
    /// Never.
    None,
    /// Above a number of waiting bytes.
    Step {
        /// That number.
        bytes: u64,
    },
    /// With a probability that grows between two numbers of waiting bytes.
    Red {
        /// The smaller one.
        least_bytes: u64,
        /// The larger one, above which all are marked.
        most_bytes: u64,
        /// The probability just below it, in millionths.
        millionths: u32,
    },
}

impl EthernetSpec {
    fn config(&self, fabric: &dyn Fabric, needs: &NetworkNeeds) -> EthernetConfig {
        let marking = match self.marking {
            MarkingSpec::None => Marking::None,
            MarkingSpec::Step { bytes } => Marking::Step(bytes),
            MarkingSpec::Red { least_bytes, most_bytes, millionths } => {
                Marking::Red { least: least_bytes, most: most_bytes, millionths }
            }
        };
        let tcp = TcpConfig {
            segment: self.segment_bytes,
            window: self.window_bytes,
            initial_window: self.initial_window_bytes,
            min_rto: Ps(self.min_rto_ps),
            granularity: Ps(self.clock_granularity_ps),
            retries: self.retries,
            delayed_ack: self.delayed_ack,
            delayed_ack_timeout: Ps(self.delayed_ack_timeout_ps),
            sack: self.sack,
            recovery: match self.recovery {
                RecoverySpec::Prr => Recovery::Prr,
                RecoverySpec::Classic => Recovery::Classic,
            },
            control: match self.congestion_control {
                ControlSpec::Newreno => ControlKind::NewReno,
                ControlSpec::Cubic => ControlKind::Cubic,
                ControlSpec::Dctcp => ControlKind::Dctcp,
            },
            ecn: marking != Marking::None,
            dialect: match self.dialect {
                DialectSpec::Rfc => Dialect::Rfc,
                DialectSpec::Ns3 => Dialect::Ns3,
            },
            idle_restart: self.idle_restart,
            ..TcpConfig::RFC
        };
        EthernetConfig {
            local_classes: named(fabric, &self.local_classes),
            tcp,
            roce: self.roce.as_deref().map(|roce| self.queue_pairs(roce)),
            switching: self.switching.map(|switching| SwitchingConfig {
                sharing: switching.alpha_256ths.map_or(Sharing::PerPort, Sharing::Dynamic),
                flow_control: switching.pauses,
                headroom: switching.headroom_bytes,
                per_connection: switching.per_connection,
                control_first: self.roce.is_some(),
            }),
            overhead: self.overhead_bytes,
            buffer: self.buffer_bytes,
            nic_buffer: self.nic_queue_bytes.unwrap_or(u64::MAX),
            outstanding: self.outstanding,
            marking,
            connection_per_pair: self.connection_per_pair,
            balancing: if self.sprays { Balancing::PerFrame } else { Balancing::PerConnection },
            background: self.beside.background.iter().filter_map(|spec| spec.source(fabric)).collect(),
            captured: self.captures(fabric).unwrap_or_default(),
            watched: self.watched.iter().map(|&(src, dst)| (NodeId(src), NodeId(dst))).collect(),
            seed: needs.seed,
            window: needs.window,
        }
    }
}

/// The numbers of classes of links, of which a fabric need not have all.
fn named(fabric: &dyn Fabric, names: &[String]) -> Vec<u8> {
    let classes = fabric.class_names();
    (0..classes.len() as u8).filter(|&class| names.contains(&classes[usize::from(class)])).collect()
}

impl EthernetSpec {
    fn queue_pairs(&self, roce: &RoceSpec) -> RoceConfig {
        RoceConfig {
            segment: self.segment_bytes,
            window: self.window_bytes,
            timeout: Ps(self.min_rto_ps),
            retries: self.retries,
            acknowledge_every: self.delayed_ack,
            repeat: if roce.selective_repeat { Repeat::Selective } else { Repeat::GoBackN },
            dcqcn: roce.dcqcn.map(|dcqcn| DcqcnConfig {
                gain: dcqcn.gain,
                notification: Ps(dcqcn.notification_ps),
                alpha_timer: Ps(dcqcn.alpha_timer_ps),
                rate_timer: Ps(dcqcn.rate_timer_ps),
                byte_counter: dcqcn.byte_counter_bytes,
                rounds: dcqcn.rounds,
                additive: dcqcn.additive_bytes_per_s as f64,
                hyper: dcqcn.hyper_bytes_per_s as f64,
                least: dcqcn.least_bytes_per_s as f64,
            }),
        }
    }

    /// What is wrong with RoCE and with how links are served; a frame has so many bytes at most.
    fn check_served(&self, largest: u64) -> Result<(), Refusal> {
        let at_least = |field: &str, value: u64, least: u64, message: &str| match value < least {
            true => Err(Refusal::of(&format!("network.{field}"), message).at_least(least)),
            false => Ok(()),
        };
        if let Some(DcqcnSpec { gain, alpha_timer_ps, rate_timer_ps, byte_counter_bytes, least_bytes_per_s, .. }) =
            self.roce.as_deref().and_then(|roce| roce.dcqcn)
        {
            if !(0.0..=1.0).contains(&gain) {
                let message = format!("a weight of {gain}");
                return Err(Refusal::of("network.roce.dcqcn.gain", message).accepting("a share between 0 and 1"));
            }
            at_least("roce.dcqcn.alpha_timer_ps", alpha_timer_ps, 1, "a timer that expires at once")?;
            at_least("roce.dcqcn.rate_timer_ps", rate_timer_ps, 1, "a timer that expires at once")?;
            at_least("roce.dcqcn.byte_counter_bytes", byte_counter_bytes, 1, "a counter that is always full")?;
            at_least("roce.dcqcn.least_bytes_per_s", least_bytes_per_s, 1, "nothing would ever leave")?;
        }
        let asks = self.switching.is_some_and(|switching| switching.per_connection);
        if self.roce.is_some() && !asks {
            let message = "a port asks queue pairs for frames";
            return Err(Refusal::of("network.switching.per_connection", message).accepting("true"));
        }
        match self.switching {
            Some(SwitchingSpec { alpha_256ths: Some(0), .. }) => {
                Err(Refusal::of("network.switching.alpha_256ths", "no queue may hold anything").at_least(1))
            }
            Some(SwitchingSpec { pauses: true, headroom_bytes: Some(headroom), .. }) => {
                let most = self.buffer_bytes - largest;
                let message = format!("with {headroom} B of headroom a port of {} B holds no frame", self.buffer_bytes);
                let accepted = format!("up to {most}, or a larger buffer");
                let field = "network.switching.headroom_bytes";
                if headroom > most { Err(Refusal::of(field, message).accepting(accepted)) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

impl EthernetSpec {
    /// The ports of which what leaves is recorded.
    fn captures(&self, fabric: &dyn Fabric) -> Result<Vec<(NodeId, PortId)>, Refusal> {
        let mut found = Vec::new();
        let classes = fabric.class_names();
        for (i, CaptureSpec { of, number, port: name }) in self.beside.captured.iter().enumerate() {
            let refusal = |message: String| Refusal::of(&format!("network.captured.{i}"), message);
            let npus = fabric.npus();
            let (before, of_kind, kind) = match of {
                NodeKind::Npu => (0, npus, "npu"),
                NodeKind::Switch => (npus, fabric.nodes() - npus, "switch"),
            };
            if *number >= of_kind {
                let accepted = match of_kind {
                    0 => "an NPU: there are no switches".to_string(),
                    _ => format!("{kind} 0 to {kind} {}", of_kind - 1),
                };
                return Err(refusal(format!("there is no {kind} {number}")).accepting(accepted));
            }
            let node = NodeId(before + number);
            let has_transport =
                |port: &PortId| !self.local_classes.contains(&classes[usize::from(fabric.link(node, *port).class)]);
            let known: Vec<PortId> = (0..fabric.ports(node)).map(PortId).filter(has_transport).collect();
            let before = found.len();
            let is_meant = |port: &&PortId| name.as_ref().is_none_or(|name| fabric.port_name(node, **port) == *name);
            found.extend(known.iter().filter(is_meant).map(|&port| (node, port)));
            if found.len() == before {
                let who = fabric.node_name(node);
                let message = match name {
                    Some(name) => format!("{who} has no port {name:?} with a transport"),
                    None => format!("{who} has no port with a transport"),
                };
                let names: Vec<String> =
                    known.iter().take(MOST_NAMES).map(|&port| fabric.port_name(node, port)).collect();
                let accepted = match names.is_empty() {
                    true => "another node, between machines".to_string(),
                    false if known.len() > names.len() => format!("{} and others", names.join(", ")),
                    false => names.join(", "),
                };
                return Err(refusal(message).accepting(accepted));
            }
        }
        if found.len() > MOST_CAPTURED {
            let message = format!("what leaves by {} ports would be recorded", found.len());
            return Err(Refusal::of("network.captured", message).accepting(format!("up to {MOST_CAPTURED} ports")));
        }
        Ok(found)
    }
}

impl Default for EthernetSpec {
    fn default() -> EthernetSpec {
        EthernetSpec {
            local_classes: Vec::new(),
            flow_classes: Vec::new(),
            watched: Vec::new(),
            beside: Box::default(),
            roce: None,
            switching: None,
            segment_bytes: 1448,
            overhead_bytes: 54,
            buffer_bytes: 1 << 19,
            nic_queue_bytes: None,
            outstanding: None,
            window_bytes: 1 << 19,
            min_rto_ps: 50_000_000_000,
            clock_granularity_ps: 1_000_000,
            retries: 15,
            initial_window_bytes: 14_480,
            delayed_ack: 1,
            delayed_ack_timeout_ps: 40_000_000_000,
            sack: true,
            recovery: RecoverySpec::Prr,
            congestion_control: ControlSpec::Newreno,
            marking: MarkingSpec::None,
            connection_per_pair: false,
            sprays: false,
            dialect: DialectSpec::Rfc,
            idle_restart: true,
        }
    }
}

impl NetworkModel for EthernetSpec {
    fn link_bytes(&self) -> u64 {
        600
    }

    fn keeps_paths(&self) -> bool {
        true
    }

    /// Both ends, and the frames of what was sent of a message and is not acknowledged.
    fn connection_bytes(&self, message: u64) -> u64 {
        let frames = message.min(self.window_bytes).div_ceil(self.segment_bytes.max(1).into());
        CONNECTION + frames * FRAME
    }

    fn unfolded(&self, _: &mut dyn Iterator<Item = (Rate, Ps)>) -> Option<&'static str> {
        let shares = self.switching.is_some_and(|switching| switching.alpha_256ths.is_some());
        if self.roce.is_none() {
            Some("whose frame is lost in a full queue differs from one NPU to the other")
        } else if shares {
            Some("outputs of a switch share its buffer")
        } else if !self.beside.background.is_empty() {
            Some("there is traffic beside the run")
        } else if !self.watched.is_empty() || !self.beside.captured.is_empty() {
            Some("connections are watched, or ports are captured")
        } else {
            None
        }
    }

    fn flow_classes(&self) -> &[String] {
        &self.flow_classes
    }

    fn takes_turns_at_switches(&self) -> bool {
        true
    }

    fn takes_changes(&self) -> bool {
        true
    }

    fn attributes(&self) -> &'static [&'static str] {
        &["buffer_per_port_bytes"]
    }

    fn tables(&self) -> Vec<&'static Declaration> {
        Ethernet::<Arc<dyn Fabric>>::tables()
    }
}

impl BuildNetwork for EthernetSpec {
    type Network = Ethernet<Arc<dyn Fabric>>;

    fn check(&self, fabric: &dyn Fabric, needs: &NetworkNeeds) -> Result<(), Refusal> {
        let at_least = |field: &str, value: u64, least: u64, message: &str| match value < least {
            true => Err(Refusal::of(&format!("network.{field}"), message).at_least(least)),
            false => Ok(()),
        };
        at_least("segment_bytes", self.segment_bytes.into(), 1, "a segment needs bytes")?;
        at_least("overhead_bytes", self.overhead_bytes.into(), 1, "an acknowledgement needs bytes")?;
        // An acknowledgement may have three SACK blocks.
        let largest = self.segment_bytes.max(3 * 8).saturating_add(self.overhead_bytes);
        if largest > LARGEST_FRAME {
            let message = format!("a frame of {largest} B");
            let accepted = format!("segment and overhead of up to {LARGEST_FRAME} B together");
            return Err(Refusal::of("network.segment_bytes", message).accepting(accepted));
        }
        at_least("buffer_bytes", self.buffer_bytes, largest.into(), "a buffer that holds no full frame")?;
        let nic = self.nic_queue_bytes.unwrap_or(u64::MAX);
        at_least("nic_queue_bytes", nic, largest.into(), "a queue that holds no full frame")?;
        at_least("window_bytes", self.window_bytes, self.segment_bytes.into(), "a window that holds no full segment")?;
        at_least("min_rto_ps", self.min_rto_ps, 1, "a timeout that expires at once")?;
        let first = self.initial_window_bytes;
        at_least("initial_window_bytes", first, self.segment_bytes.into(), "nothing could be sent")?;
        at_least("delayed_ack", self.delayed_ack.into(), 1, "an acknowledgement needs a segment")?;
        at_least("delayed_ack_timeout_ps", self.delayed_ack_timeout_ps, 1, "a time that is over at once")?;
        if let MarkingSpec::Red { least_bytes, most_bytes, .. } = self.marking {
            at_least(
                "marking.most_bytes",
                most_bytes,
                least_bytes.saturating_add(1),
                "it is not above the smaller one",
            )?;
        }
        self.check_served(largest.into())?;
        let local = named(fabric, &self.local_classes);
        let is_fluid = |change: &&LinkChange| local.contains(&fabric.link(change.node, change.port).class);
        if let Some(change) = needs.changes.iter().find(is_fluid).filter(|_| !self.flow_classes.is_empty()) {
            let (node, port) = (fabric.node_name(change.node), fabric.port_name(change.node, change.port));
            let message = format!("{node}, {port} changes, which links within machines do not where they are fluid");
            return Err(Refusal::of("network.flow_classes", message).accepting("packets"));
        }
        self.captures(fabric)?;
        background::check(&self.beside.background, fabric)?;
        for (i, stated) in needs.attributes.iter().enumerate() {
            if stated.value < u64::from(largest) {
                let message = format!("a buffer of {} B per port holds no full frame", stated.value);
                return Err(Refusal::of(&format!("attributes.{i}.value"), message).at_least(largest.into()));
            }
        }
        if needs.classes > 1 {
            let message = "this backend has no buffers of their own for rings and direct all-to-alls of an ACE";
            return Err(Refusal::of("endpoint.transit", message).accepting("another backend"));
        }
        Ok(())
    }

    fn build(&self, fabric: Arc<dyn Fabric>, needs: &NetworkNeeds) -> Self::Network {
        let buffers: Vec<_> = needs.attributes.iter().map(|stated| (stated.node, stated.value)).collect();
        let config = self.config(&*fabric, needs);
        let mut network = Ethernet::new(fabric.clone(), config, &buffers);
        if !self.flow_classes.is_empty() {
            let classes = named(&*fabric, &self.flow_classes);
            network = network.with_flows(fabric, classes);
        }
        for change in &needs.changes {
            let to = Condition { rate: change.rate, latency: change.latency, loss_millionths: change.loss_millionths };
            network.change_at(change.at, change.node, change.port, to);
        }
        network
    }
}
