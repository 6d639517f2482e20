//! First-come first-served servers and the accounting of waits.
//!
//! A server with a rate serves one piece of work after the other. What finds it busy waits, and that
//! wait is the server's: doubling the server makes it vanish. Busy time and waits are summed over all
//! NPUs; an NPU's own state is only the time at which its server falls idle.

use crate::loggp::{Crossing, LogGp, Train};
use syncline_core::{Bytes, Ps, Rate};

/// Busy time and waits of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    /// Its name in results.
    pub name: &'static str,
    /// Servers of one NPU.
    pub servers: u32,
    /// Busy time, summed over servers and NPUs. (Sums over many exceed 64 bits.)
    pub busy: u128,
    /// Time that work waited for it, summed.
    pub wait: u128,
    /// Time from the beginning of a piece of work until its result is there, summed: for a bus with latency more
    /// than its busy time.
    pub transfer: u128,
    /// Pieces of work.
    pub served: u64,
}

impl ResourceUse {
    /// A resource that has not been used.
    pub fn new(name: &'static str, servers: u32) -> ResourceUse {
        ResourceUse { name, servers, busy: 0, wait: 0, transfer: 0, served: 0 }
    }

    /// Adds servers beside these, and what they did.
    pub fn join(&mut self, other: &ResourceUse) {
        self.servers += other.servers;
        self.busy += other.busy;
        self.wait += other.wait;
        self.transfer += other.transfer;
        self.served += other.served;
    }

    /// Accounts a piece of work.
    #[inline]
    pub fn serve(&mut self, wait: Ps, busy: Ps) {
        self.wait += u128::from(wait.0);
        self.busy += u128::from(busy.0);
        self.transfer += u128::from(busy.0);
        self.served += 1;
    }
}

/// One server per NPU, with a rate; a bus if it has a protocol.
#[derive(Clone, Debug)]
pub struct RateServer {
    rate: Rate,
    protocol: Option<LogGp>,
    free: Vec<Ps>,
    /// With a protocol, per NPU: bytes of the message that was the last to begin.
    begun: Vec<u64>,
    /// What it did.
    pub usage: ResourceUse,
}

impl RateServer {
    /// Servers of `npus` NPUs.
    pub fn new(name: &'static str, rate: Rate, npus: u32) -> RateServer {
        let (free, begun) = (vec![Ps::ZERO; npus as usize], Vec::new());
        RateServer { rate, protocol: None, free, begun, usage: ResourceUse::new(name, 1) }
    }

    /// The same with the costs of a bus.
    #[must_use]
    pub fn with_protocol(self, protocol: Option<LogGp>) -> RateServer {
        let begun = vec![0; if protocol.is_some() { self.free.len() } else { 0 }];
        RateServer { protocol, begun, ..self }
    }

    /// Serves `size` bytes that are there at `ready`; returns when they are done.
    #[inline]
    pub fn serve(&mut self, npu: usize, ready: Ps, size: Bytes) -> Ps {
        if self.protocol.is_some() {
            return self.transfer(npu, Train::at(ready), size).last;
        }
        let start = ready.max(self.free[npu]);
        let busy = self.rate.time(size);
        self.usage.serve(start - ready, busy);
        self.free[npu] = start + busy;
        start + busy
    }

    /// Serves the next `size` bytes of a stream that are there at `ready`: those that find the bus busy go on with the
    /// message that is on it, until it is as long as messages may be.
    pub fn stream(&mut self, npu: usize, ready: Ps, size: Bytes) -> Ps {
        let Some(protocol) = self.protocol.filter(|_| self.free[npu] > ready) else {
            return self.serve(npu, ready, size);
        };
        let room = protocol.message.map_or(u64::MAX, |longest| longest.0.saturating_sub(self.begun[npu]));
        let more = size.min(Bytes(room));
        let mut done = ready;
        if more > Bytes::ZERO || size == Bytes::ZERO {
            let crossing = protocol.go_on(self.rate, self.free[npu], more);
            self.begun[npu] += more.0;
            done = self.account(npu, ready, crossing);
        }
        match Bytes(size.0 - more.0) {
            Bytes::ZERO => done,
            rest => self.transfer(npu, Train::at(ready), rest).last,
        }
    }

    /// Serves `size` bytes that come as a train of messages.
    pub fn transfer(&mut self, npu: usize, ready: Train, size: Bytes) -> Train {
        let Some(protocol) = self.protocol else { return Train::at(self.serve(npu, ready.last, size)) };
        let crossing = protocol.cross(self.rate, self.free[npu], ready, size);
        let longest = protocol.message.unwrap_or(size).0.max(1);
        self.begun[npu] = size.0.saturating_sub(1) % longest + size.0.min(1);
        self.account(npu, ready.first, crossing);
        crossing.done
    }

    /// Takes the bus for a transfer that was ready at `ready`; returns when the last of it is across.
    fn account(&mut self, npu: usize, ready: Ps, crossing: Crossing) -> Ps {
        let Crossing { start, free, busy, done } = crossing;
        self.usage.wait += u128::from((start - ready).0);
        self.usage.busy += u128::from(busy.0);
        self.usage.transfer += u128::from((done.last - start).0);
        self.usage.served += 1;
        self.free[npu] = free;
        done.last
    }
}

/// Several equal servers per NPU, each taking one piece of work at a time.
#[derive(Clone, Debug)]
pub struct PoolServer {
    servers: usize,
    free: Vec<Ps>,
    /// What they did.
    pub usage: ResourceUse,
}

impl PoolServer {
    /// `servers` servers on each of `npus` NPUs.
    pub fn new(name: &'static str, servers: u32, npus: u32) -> PoolServer {
        let count = servers as usize * npus as usize;
        PoolServer { servers: servers as usize, free: vec![Ps::ZERO; count], usage: ResourceUse::new(name, servers) }
    }

    /// The server that falls idle first, and when.
    #[inline]
    pub fn earliest(&self, npu: usize) -> (usize, Ps) {
        let mine = &self.free[npu * self.servers..][..self.servers];
        let mut best = (0, mine[0]);
        for (i, &free) in mine.iter().enumerate().skip(1) {
            if free < best.1 {
                best = (i, free);
            }
        }
        best
    }

    /// Occupies a server from `start` for `busy`.
    #[inline]
    pub fn occupy(&mut self, npu: usize, server: usize, start: Ps, busy: Ps) {
        self.free[npu * self.servers + server] = start + busy;
        self.usage.serve(Ps::ZERO, busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_queues_and_the_wait_is_the_servers() {
        let mut s = RateServer::new("memory", Rate::new(1_000_000_000_000).unwrap(), 2);
        assert_eq!(s.serve(0, Ps(10), Bytes(5)), Ps(15));
        assert_eq!(s.serve(0, Ps(12), Bytes(5)), Ps(20));
        assert_eq!(s.serve(1, Ps(12), Bytes(5)), Ps(17));
        assert_eq!((s.usage.busy, s.usage.wait, s.usage.served), (15, 3, 3));
    }

    #[test]
    fn a_pool_gives_its_first_idle_server() {
        let mut s = PoolServer::new("alu", 2, 1);
        s.occupy(0, 0, Ps(0), Ps(10));
        assert_eq!(s.earliest(0), (1, Ps(0)));
        s.occupy(0, 1, Ps(0), Ps(4));
        assert_eq!(s.earliest(0), (1, Ps(4)));
    }
}
