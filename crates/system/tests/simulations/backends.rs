//! What every network backend promises, held against all that descriptions can name and that of the tests.

use crate::lossy_network::LossySpec;
use crate::support::{all_reduce, dim, ideal};
use std::sync::Arc;
use syncline_core::{Bytes, EventQueue, NodeId, PortId, Ps, Wait};
use syncline_network::{Delivery, Message, NetOut, Network, Route, TrafficClass};
use syncline_system::machine::Machine;
use syncline_system::networks::{BuildNetwork, NetworkNeeds, WithNetwork};
use syncline_system::spec::NetworkSpec;
use syncline_topology::Fabric;

/// A message of 4,000 bytes from NPU 1 to its neighbour, of which the sender feeds so many.
struct Feed(u64);

impl WithNetwork for Feed {
    type Output = (Vec<Wait>, bool);

    fn with<B: BuildNetwork>(self, network: &B) -> Self::Output {
        let spec = all_reduce(vec![dim(4, 100, 500_000)], ideal(), 0);
        let fabric: Arc<dyn Fabric> = Machine::new(&spec).unwrap_or_else(|error| panic!("{error}")).fabric();
        let needs = NetworkNeeds {
            buffer_packets: 8,
            classes: 1,
            transit: false,
            turns: false,
            in_rounds: false,
            by_precedence: false,
            window: Ps(1_000_000).into(),
            seed: 0,
            changes: vec![],
            attributes: vec![],
        };
        network.check(&*fabric, &needs).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut net = network.build(fabric, &needs);
        let (mut queue, mut out) = (EventQueue::new(), Vec::new());
        let message = Message {
            src: NodeId(1),
            route: Route::Port(PortId(0)),
            queue: 0,
            len: Bytes(4_000),
            class: TrafficClass::default(),
            delivery: Delivery::Whole,
            tag: 7,
            receipt: None,
        };
        let id = net.open(message);
        let mut left = self.0;
        while left > 0 {
            let packet = left.min(256);
            net.feed(Ps::ZERO, id, Bytes(packet), &mut queue);
            left -= packet;
        }
        while let Some((now, _, event)) = queue.pop() {
            net.handle(now, event, &mut queue, &mut out);
        }
        let arrived = |report: &NetOut| matches!(report, NetOut::Arrived { tag: 7, last: true, .. });
        (net.waits(), out.iter().any(arrived) && net.books().are_settled())
    }
}

/// A run that cannot go on says who waits for whom, whatever backend it has.
#[test]
fn every_backend_lists_messages_that_cannot_go_on() {
    const SMOOTH: LossySpec =
        LossySpec { packet: 256, lost_of_100: 0, timeout: Ps(1), most_tries: 1, window: u64::MAX };
    let on_all = |fed| {
        let outcomes = NetworkSpec::all().into_iter().map(|network| (format!("{network:?}"), network.with(Feed(fed))));
        outcomes.chain([("the lossy one".into(), Feed(fed).with(&SMOOTH))]).collect::<Vec<_>>()
    };
    for (network, (waits, arrived)) in on_all(4_000) {
        assert!(arrived && waits.is_empty(), "{network}: {waits:?}");
    }
    for fed in [0, 256, 3_840] {
        for (network, (waits, arrived)) in on_all(fed) {
            assert!(!arrived, "{network} with {fed} B");
            let names_sender = |wait: &Wait| wait.who.contains("NPU 1") || wait.what.contains("NPU 1");
            assert!(waits.iter().any(names_sender), "{network} with {fed} B: {waits:?}");
        }
    }
}
