//! How a rank finds the others, and by which transport it reaches each.

use crate::bootstrap::process::{Process, random};
use crate::bootstrap::{Cause, Failure, Options, Session, UniqueId};
use crate::transport::Peer;
use crate::transport::shared::{Neighbour, Segment, Token};
use crate::transport::tcp::{Listener, Network};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a rank publishes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Publication {
    /// Equal where processes see each other's numbers.
    host: u64,
    process: u32,
    /// The number of the file of its segment in the process, and the token in it.
    file: i32,
    token: Token,
    /// Where ranks of other hosts connect.
    address: SocketAddr,
}

/// What a rank has when all have joined.
pub(super) struct Joined {
    pub(super) session: Arc<Session>,
    /// The connections to ranks of other hosts, if there are any.
    pub(super) network: Option<Network>,
    pub(super) segment: Arc<Segment>,
    pub(super) peers: Vec<Arc<dyn Peer>>,
    pub(super) neighbours: u32,
    /// Whether all ranks are on this host, however they reach each other.
    pub(super) is_one_host: bool,
}

/// Joins, and opens what peers share.
pub(super) fn join(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Result<Joined, Failure> {
    let token: Token =
        random().map_err(|error| Failure::new(Cause::System, format!("there are no random numbers: {error}")))?;
    let segment = Arc::new(Segment::create(ranks, &token)?);
    let listener = Listener::open(options)?;
    let this = Process::this();
    let publication = Publication {
        host: this.host(),
        process: this.pid(),
        file: segment.number(),
        token,
        address: listener.address(),
    };
    let text = serde_json::to_vec(&publication).map_err(|error| Failure::new(Cause::System, error.to_string()))?;
    let bell = segment.clone();
    let session = Arc::new(Session::join(id, rank, ranks, &text, Box::new(move || bell.bell().ring()), options)?);
    let published: Vec<Publication> = session
        .publications()
        .iter()
        .map(|text| serde_json::from_slice(text).map_err(|error| unreadable(&error.to_string())))
        .collect::<Result<_, _>>()?;
    // Both sides have to see each other's memory; else they use no memory in either direction.
    let open = |(peer, theirs): (usize, &Publication)| match peer {
        _ if peer == rank as usize => Some(segment.clone()),
        _ if !options.uses_shared_memory || theirs.host != publication.host => None,
        _ => Segment::of_process(theirs.process, theirs.file, &theirs.token).map(Arc::new),
    };
    let opened: Vec<Option<Arc<Segment>>> = published.iter().enumerate().map(open).collect();
    let sees: Vec<u8> = opened.iter().map(|segment| u8::from(segment.is_some())).collect();
    let seen_by = session.exchange(&sees)?;
    let shares = |peer: usize| opened[peer].is_some() && seen_by[peer].get(rank as usize) == Some(&1);
    let far: BTreeMap<u32, SocketAddr> = (0..ranks)
        .filter(|&peer| !shares(peer as usize))
        .map(|peer| (peer, published[peer as usize].address))
        .collect();
    let neighbours = ranks - far.len() as u32;
    let network = if far.is_empty() {
        None
    } else {
        let bell = segment.clone();
        Some(Network::connect(listener, &session, &far, Box::new(move || bell.bell().ring()), options)?)
    };
    let mut peers: Vec<Arc<dyn Peer>> = Vec::new();
    for (peer, theirs) in (0..).zip(&opened) {
        let remote = network.as_ref().and_then(|network| network.peer(peer));
        peers.push(match (remote, theirs) {
            (Some(remote), _) => remote,
            (None, Some(theirs)) => Arc::new(Neighbour::new((rank, segment.clone()), (peer, theirs.clone()))),
            (None, None) => {
                let message = format!("rank {peer} cannot be reached from rank {rank}");
                return Err(Failure::new(Cause::System, message).of_rank(peer));
            }
        });
    }
    let is_one_host = published.iter().all(|theirs| theirs.host == publication.host);
    Ok(Joined { session, network, segment, peers, neighbours, is_one_host })
}

fn unreadable(error: &str) -> Failure {
    Failure::new(Cause::System, format!("a rank has published what cannot be read: {error}"))
}
