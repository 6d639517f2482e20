//! What runs on one NPU: servers of communication whose rates vary, and kernels.

use super::shares::{ALONE, Rating};
use crate::api::EpOut;
use crate::kernel::{Held, Kernel};
use crate::servers::{RateServer, ResourceUse};
use crate::work_done::WorkDone;
use std::collections::VecDeque;
use syncline_core::share::{Share, Work};
use syncline_core::{Alarm, Bytes, NodeId, Owned, Ps, Schedule};

/// A step of communication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// When what it has received is there.
    pub ready: Ps,
    /// Bytes to be written to memory before, if writes are charged.
    pub write: Option<Bytes>,
    /// Bytes to be read, through SMs and memory.
    pub read: Bytes,
    /// Bytes of its message, while they are read.
    pub send: Option<Bytes>,
    /// The event of its end.
    pub done: Owned<WorkDone>,
}

/// Where NPUs put what they are done with, and what they account.
#[derive(Debug)]
pub(super) struct Outlet {
    pub bus: RateServer,
    pub memory: ResourceUse,
    pub sms: ResourceUse,
    pub outputs: Vec<EpOut>,
}

impl Outlet {
    pub fn new(bus: RateServer) -> Outlet {
        let [memory, sms] = ["memory", "sm"].map(|name| ResourceUse::new(name, 1));
        Outlet { bus, memory, sms, outputs: Vec::new() }
    }
}

/// A step that is not done.
#[derive(Clone, Copy, Debug)]
struct Open {
    done: Owned<WorkDone>,
    /// When it may be read; unknown while it is being written.
    ready: Option<Ps>,
    /// What it has received is there.
    received: Ps,
    /// Servers that have not done their part.
    parts: u8,
    /// When the last of those that have was done.
    until: Ps,
}

/// A part of a step for a server.
#[derive(Clone, Copy, Debug)]
struct Part {
    step: u64,
    left: Work,
    /// When a write may begin; a read may when its step is ready.
    write: Option<Ps>,
}

/// A first-come first-served server whose rate varies.
#[derive(Clone, Debug, Default)]
struct Server {
    rate: Share,
    parts: VecDeque<Part>,
    /// Since when the first part is worked on, and how long it had waited.
    begun: Option<(Ps, Ps)>,
}

/// A stream of kernels.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// The first one runs.
    kernels: VecDeque<Kernel>,
    left: Work,
    speed: Share,
    computing: bool,
}

/// The servers by their place in an NPU.
const SMS: usize = 0;
const MEMORY: usize = 1;
#[derive(Clone, Debug)]
pub(super) struct Npu {
    node: NodeId,
    /// The time that everything below is of.
    now: Ps,
    servers: [Server; 2],
    streams: Vec<Stream>,
    /// The steps from `first` on that are not done, or stand behind one that is not.
    steps: VecDeque<Option<Open>>,
    first: u64,
    /// Steps that send, and are not known to be ready.
    sends: VecDeque<(u64, Bytes)>,
    /// The servers that compete.
    busy: [bool; 2],
    /// The kernels that run, or what is held, are others than when shares were worked out.
    changed: bool,
    /// What all communication that is in flight holds.
    held: Held,
    /// The timer to the next change.
    timer: Alarm,
}

impl Npu {
    pub fn new(node: NodeId) -> Npu {
        Npu {
            node,
            now: Ps::ZERO,
            servers: Default::default(),
            streams: Vec::new(),
            steps: VecDeque::new(),
            first: 0,
            sends: VecDeque::new(),
            busy: [false; 2],
            changed: false,
            held: Held::NOTHING,
            timer: Alarm::default(),
        }
    }

    /// Whether the timer is due; if not, it has been set anew since.
    pub fn is_due(&mut self, now: Ps) -> bool {
        self.timer.fires(now)
    }

    /// Lets time pass, in which nothing changes.
    pub fn advance(&mut self, now: Ps) {
        let time = now - self.now;
        self.now = now;
        for server in self.servers.iter_mut().filter(|s| s.begun.is_some()) {
            if let Some(part) = server.parts.front_mut() {
                part.left = part.left.less(server.rate.work(time));
            }
        }
        for stream in &mut self.streams {
            stream.left = stream.left.less(stream.speed.work(time));
        }
    }

    /// Takes a step on.
    pub fn communicate<Q: Schedule<WorkDone>>(&mut self, step: Transfer, out: &mut Outlet, q: &mut Q) {
        let number = self.first + self.steps.len() as u64;
        let (writes, reads) = (step.write.is_some(), step.read > Bytes::ZERO);
        let mut push = |server: usize, bytes, write| {
            self.servers[server].parts.push_back(Part { step: number, left: Work::of(bytes), write });
        };
        if let Some(bytes) = step.write {
            push(MEMORY, bytes, Some(self.now));
        }
        if reads {
            push(MEMORY, step.read, None);
            push(SMS, step.read, None);
        }
        if let Some(len) = step.send {
            self.sends.push_back((number, len));
        }
        let parts = u8::from(writes) + 2 * u8::from(reads) + u8::from(step.send.is_some());
        let (done, received) = (step.done, step.ready);
        let ready = (!writes).then_some(received);
        self.steps.push_back(Some(Open { done, ready, received, parts, until: received }));
        if parts == 0 {
            self.close(number, q);
        }
        self.send_what_is_ready(out, q);
    }

    /// Starts kernels on a stream that has none.
    pub fn compute(&mut self, stream: u8, kernels: &[Kernel]) {
        let number = usize::from(stream);
        if number >= self.streams.len() {
            self.streams.resize(number + 1, Stream::default());
        }
        let stream = &mut self.streams[number];
        assert!(!stream.computing, "one node per stream at a time");
        stream.kernels.extend(kernels.iter().filter(|k| k.alone > Ps::ZERO));
        stream.computing = true;
        stream.left = stream.kernels.front().map_or(Work::ZERO, |k| ALONE.work(k.alone));
        self.changed = true;
    }

    /// Communication that holds something begins, or ends.
    pub fn hold(&mut self, held: Held, begins: bool) {
        self.held.change(held, begins);
        self.changed = true;
    }

    /// Ends what is done, begins what can begin, and shares the NPU among all that runs.
    pub fn settle<Q: Schedule<WorkDone>>(&mut self, sharing: &mut impl Rating, out: &mut Outlet, q: &mut Q) {
        while self.serve(MEMORY, out, q) | self.serve(SMS, out, q) {}
        for stream in 0..self.streams.len() {
            self.go_on(stream, out);
        }
        let busy = [SMS, MEMORY].map(|s| self.servers[s].begun.is_some());
        if self.changed || busy != self.busy {
            (self.busy, self.changed) = (busy, false);
            self.share(sharing);
        }
        self.arm(q);
    }

    fn open(&mut self, step: u64) -> &mut Open {
        let open = &mut self.steps[(step - self.first) as usize];
        open.as_mut().expect("a step is open as long as a part of it is left")
    }

    /// When a part can begin, if that is known.
    fn start(&self, part: Part) -> Option<Ps> {
        part.write.or_else(|| self.steps[(part.step - self.first) as usize].and_then(|open| open.ready))
    }

    /// Begins or ends the first part of a server, if either is due.
    fn serve<Q: Schedule<WorkDone>>(&mut self, server: usize, out: &mut Outlet, q: &mut Q) -> bool {
        let now = self.now;
        let Some(&part) = self.servers[server].parts.front() else { return false };
        let Some((began, wait)) = self.servers[server].begun else {
            let Some(start) = self.start(part).filter(|&start| start <= now) else { return false };
            self.servers[server].begun = Some((now, now - start));
            return true;
        };
        if part.left > Work::ZERO {
            return false;
        }
        let usage = if server == SMS { &mut out.sms } else { &mut out.memory };
        usage.serve(wait, now - began);
        self.servers[server].begun = None;
        self.servers[server].parts.pop_front();
        if part.write.is_some() {
            let open = self.open(part.step);
            open.ready = Some(open.received.max(now));
        }
        self.part_done(part.step, now, q);
        if part.write.is_some() {
            self.send_what_is_ready(out, q);
        }
        true
    }

    /// Puts messages on the bus, in the order of their steps.
    fn send_what_is_ready<Q: Schedule<WorkDone>>(&mut self, out: &mut Outlet, q: &mut Q) {
        while let Some(&(step, len)) = self.sends.front() {
            let Some(ready) = self.open(step).ready else { return };
            self.sends.pop_front();
            let until = out.bus.serve(self.node.index(), ready, len);
            self.part_done(step, until, q);
        }
    }

    fn part_done<Q: Schedule<WorkDone>>(&mut self, step: u64, until: Ps, q: &mut Q) {
        let open = self.open(step);
        open.until = open.until.max(until);
        open.parts -= 1;
        if open.parts == 0 {
            self.close(step, q);
        }
    }

    /// All parts of a step are done, or will be at a known time.
    fn close<Q: Schedule<WorkDone>>(&mut self, step: u64, q: &mut Q) {
        let Open { done, until, .. } = *self.open(step);
        q.at_for_owner(until.max(self.now), done);
        self.steps[(step - self.first) as usize] = None;
        while self.steps.front().is_some_and(Option::is_none) {
            self.steps.pop_front();
            self.first += 1;
        }
    }

    /// Lets the next kernel of a stream begin if the one before is done.
    fn go_on(&mut self, stream: usize, out: &mut Outlet) {
        let s = &mut self.streams[stream];
        if !s.computing || s.left > Work::ZERO {
            return;
        }
        s.kernels.pop_front();
        self.changed = true;
        match s.kernels.front() {
            Some(kernel) => s.left = ALONE.work(kernel.alone),
            None => {
                (s.computing, s.speed) = (false, Share::ZERO);
                out.outputs.push(EpOut::Computed { npu: self.node, stream: stream as u8 });
            }
        }
    }

    /// Works out all rates.
    fn share(&mut self, sharing: &mut impl Rating) {
        let kernels = self.streams.iter().filter_map(|s| s.kernels.front());
        let rates = sharing.rates(self.busy, self.held, kernels);
        for (server, rate) in self.servers.iter_mut().zip(rates.communication) {
            server.rate = rate;
        }
        for (stream, &speed) in self.streams.iter_mut().filter(|s| !s.kernels.is_empty()).zip(&rates.speeds) {
            stream.speed = speed;
        }
    }

    /// Sets the timer to the next change.
    fn arm<Q: Schedule<WorkDone>>(&mut self, q: &mut Q) {
        let after = |rate: Share, work| rate.time(work).map(|time| self.now + time);
        let of_server = |server: &Server| {
            let part = server.parts.front()?;
            if server.begun.is_some() { after(server.rate, part.left) } else { self.start(*part) }
        };
        let of_stream = |stream: &Stream| if stream.computing { after(stream.speed, stream.left) } else { None };
        let next = self.servers.iter().filter_map(of_server).chain(self.streams.iter().filter_map(of_stream)).min();
        const LATEST: Ps = Ps(Ps::MAX.0 - 1); // beyond the horizon; Ps::MAX means never
        let next = next.map_or(Ps::MAX, |at| at.min(LATEST));
        if self.timer.set(next) {
            // The timer is the NPU's own, whoever asks for it.
            let event = WorkDone::Shares { npu: self.node.0 };
            q.at_for_owner(next, Owned { key: event.key(), event });
        }
    }
}
