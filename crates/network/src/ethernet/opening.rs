//! The backend's part for connections that are opened: their ways, their stages, and how long they take alone.

use super::Ethernet;
use super::config::Balancing;
use super::connection::{Line, Listener, Spread, Stage, Transport};
use super::frame::NONE;
use super::link::Link;
use super::paths::Ways;
use super::roce::receiver::Responder;
use super::roce::sender::Sender as QueuePair;
use super::tcp::sender::Sender;
use super::writes::Writes;
use crate::api::{Connection, Route};
use syncline_core::random::RandomStream;
use syncline_core::{Bytes, NodeId, Ps, Rate};
use syncline_topology::Fabric;

impl<F: Fabric> Ethernet<F> {
    /// The connection of a message, which is opened if it is new.
    pub(super) fn connection(&mut self, mut key: Connection) -> u32 {
        if self.config.connection_per_pair {
            key.queue = 0;
        }
        let (src, way) = (key.src.0 as usize, (key.route, key.queue));
        match self.known[src].binary_search_by_key(&way, |&(route, queue, _)| (route, queue)) {
            Ok(place) => self.known[src][place].2,
            Err(place) => {
                let number = self.open_connection(key, true);
                self.known[src].insert(place, (key.route, key.queue, number));
                number
            }
        }
    }

    /// Opens a connection, which may be watched.
    pub(super) fn open_connection(&mut self, key: Connection, may_be_watched: bool) -> u32 {
        let number = self.lines.len() as u32;
        let (route, spread) = self.balance(key);
        // Few connections have their way in common with others, and to find it again takes more memory than its links.
        let ways = match spread {
            Some(_) => self.paths.of(&self.fabric, key.src, route),
            None => self.paths.lay(&self.fabric, key.src, route),
        };
        let parts = self.parts(ways);
        let watched = may_be_watched && self.config.watched.contains(&(key.src, ways.end.0));
        if let [(is_local, ways)] = parts[..] {
            self.open_line(Stage::only(number, is_local), ways);
            self.lines[number as usize].spread = spread;
            self.lines[number as usize].is_watched = watched;
            self.connections.push(key);
            return number;
        }
        let last = number + parts.len() as u32 - 1;
        for (at, (is_local, ways)) in (number..).zip(parts) {
            let before = if at == number { NONE } else { at - 1 };
            let after = if at == last { NONE } else { at + 1 };
            self.open_line(Stage { is_local, before, after, owner: number, last }, ways);
            self.lines[at as usize].is_watched = watched && !is_local;
            self.connections.push(key);
        }
        number
    }

    /// The parts of a way: within the machine of the sender, between NICs, and within the machine of the receiver.
    pub(super) fn parts(&mut self, ways: Ways) -> Vec<(bool, Ways)> {
        let links: Vec<u32> = self.paths.all(ways.forth).collect();
        let is_local = |link: &u32| self.switching.as_ref().is_some_and(|switching| switching.is_local(*link));
        let remote = |link: &u32| !is_local(link);
        let Some(first) = links.iter().position(remote) else { return vec![(!links.is_empty(), ways)] };
        let last = links.iter().rposition(remote).unwrap_or(first) + 1;
        if first == 0 && last == links.len() {
            return vec![(false, ways)];
        }
        [(true, 0, first), (false, first, last), (true, last, links.len())]
            .into_iter()
            .filter(|&(_, from, to)| from < to)
            .map(|(is_local, from, to)| (is_local, self.paths.part(ways, from, to)))
            .collect()
    }

    pub(super) fn open_line(&mut self, stage: Stage, ways: Ways) {
        let transport = match &mut self.roce {
            Some(roce) if !stage.is_local => {
                let line = self.links.get(ways.forth.first as usize).map_or(Rate::UNLIMITED, Link::rate);
                Transport::Roce(QueuePair::new(&roce.config, line))
            }
            _ => Transport::Tcp(Sender::new(&self.config.tcp, self.round_trip(ways))),
        };
        if let Some(roce) = &mut self.roce {
            roce.responders.push(Responder::default());
        }
        self.lines.push(Line::new(transport, ways));
        self.listeners.push(Listener::new(ways));
        self.messages.push(Writes::NOTHING);
        self.stages.push(stage);
        self.ends.push(ways.end);
        if let Some(passing) = &mut self.passing {
            passing.reach(self.lines.len());
        }
    }

    /// The way of a connection, of several that are equally good; and all of them, if its frames are spread.
    pub(super) fn balance(&mut self, key: Connection) -> (Route, Option<Box<Spread>>) {
        let Route::To(dst) = key.route else { return (key.route, None) };
        let all = self.fabric.routes(key.src, dst);
        if all <= 1 {
            return (key.route, None);
        }
        let between_nics = self.ways_between_nics(key.src, dst, all);
        let ways = between_nics.as_ref().map_or(all, |ways| ways.len() as u16);
        let number = |drawn: u64| between_nics.as_ref().map_or(drawn as u16, |ways| ways[drawn as usize]);
        if ways <= 1 {
            return (Route::By(dst, number(0)), None);
        }
        self.tell_apart("connections draw which of several ways they take");
        let random = RandomStream::new(self.config.seed, &[key.src.0.into(), dst.0.into(), key.queue.into()]);
        let hashed = Route::By(dst, number(random.below(0, ways.into())));
        if self.config.balancing == Balancing::PerConnection {
            return (hashed, None);
        }
        let all = (0..ways).map(|way| self.paths.of(&self.fabric, key.src, Route::By(dst, number(way.into()))).forth);
        let all = all.collect();
        (hashed, Some(Box::new(Spread::new(all, random))))
    }

    /// Of the ways from a node to another one, those that leave the machine and enter the other one by the same NICs as the
    /// fabric's own route. Which NIC a GPU uses is settled on its machine, and the switches between NICs spread connections. `None`
    /// if it is all of them: no link is within a machine, or none leaves it.
    fn ways_between_nics(&self, src: NodeId, dst: NodeId, ways: u16) -> Option<Vec<u16>> {
        let switching = self.switching.as_ref().filter(|switching| switching.has_local())?;
        let mut ports = Vec::new();
        let mut ends = |way| {
            ports.clear();
            self.fabric.route_by(src, dst, way, &mut ports);
            let mut at = src;
            let links = ports.iter().map(|&port| {
                let link = self.fabric.first_link(at) + u32::from(port.0);
                at = self.fabric.next(at, port).0;
                link
            });
            let links: Vec<u32> = links.collect();
            let is_remote = |&link: &u32| !switching.is_local(link);
            let (first, last) = (links.iter().position(is_remote)?, links.iter().rposition(is_remote)?);
            Some((links[..first].to_vec(), links[last + 1..].to_vec()))
        };
        let own = ends(0)?;
        Some((0..ways).filter(|&way| ends(way).as_ref() == Some(&own)).collect())
    }

    /// How long a full segment and its acknowledgement take when nothing else is under way.
    pub(super) fn round_trip(&self, ways: Ways) -> Ps {
        let (full, bare) = (self.config.segment() + self.config.overhead, self.config.overhead);
        let time = |path, size: u32| -> u64 {
            self.paths.all(path).map(|link| self.links[link as usize].alone(size as u16)).sum()
        };
        Ps(time(ways.forth, full) + time(ways.back, bare))
    }

    /// How long a message of a connection takes when nothing else is under way and no window limits it: its frames one after
    /// the other at the slowest link, and one of them on all others.
    pub(super) fn alone(&self, owner: u32, len: u64) -> u64 {
        let segment = u64::from(self.config.segment());
        let mut slowest = 0;
        let mut sum = 0;
        for number in owner..=self.stages[owner as usize].last {
            let overhead = if self.stages[number as usize].is_local { 0 } else { u64::from(self.config.overhead) };
            let (frames, last) = (len.max(1).div_ceil(segment), (len.max(1) - 1) % segment + 1);
            for link in self.paths.all(self.lines[number as usize].forth) {
                let link = &self.links[link as usize];
                sum += link.alone((last + overhead) as u16);
                let bytes = (frames - 1) * (segment + overhead);
                slowest = slowest.max(link.rate().time(Bytes(bytes)).0);
            }
        }
        sum + slowest
    }
}
