//! The model word by word, in floating point and with nothing kept between events: what it is held against.

/// What a step asks for, in the order of arrival: when it arrives, when it is ready to be read, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub at: f64,
    pub write: Option<f64>,
    pub read: f64,
    pub sends: bool,
}

/// A kernel: time alone, rate of memory alone, warps on an SM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    pub alone: f64,
    pub memory: f64,
    pub warps: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub memory: f64,
    pub sm: f64,
    pub sms: f64,
    pub comm_sms: f64,
    pub comm_warps: f64,
}

/// Max-min fair rates of flows with caps, by bisection of the level.
fn share(capacity: f64, caps: &[(f64, f64)]) -> Vec<f64> {
    let total = |level: f64| caps.iter().map(|&(count, cap)| count * cap.min(level)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e6 * capacity);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if total(middle) <= capacity { low = middle } else { high = middle }
    }
    caps.iter().map(|&(_, cap)| cap.min(low)).collect()
}

impl Machine {
    /// Rates of communication on SMs and in memory, and speeds of kernels.
    pub fn rates(&self, busy: [bool; 2], kernels: &[Kernel]) -> ([f64; 2], Vec<f64>) {
        let warps: f64 = kernels.iter().map(|k| k.warps).sum();
        let beside = if busy[0] { self.comm_warps } else { 0.0 };
        let shared = self.comm_sms / (warps + beside);
        let elsewhere = (self.sms - self.comm_sms) / warps;
        let by_sms: Vec<f64> = kernels.iter().map(|k| k.warps * (shared + elsewhere) / self.sms).collect();
        let communication = if busy[0] { self.comm_sms * self.sm * beside / (warps + beside) } else { 0.0 };
        let wanted = |(k, f): (&Kernel, &f64)| (k.warps * self.sms, f * k.memory / (k.warps * self.sms));
        let mut flows: Vec<(f64, f64)> = kernels.iter().zip(&by_sms).map(wanted).collect();
        if busy[1] {
            flows.push((self.comm_warps * self.comm_sms, f64::INFINITY));
        }
        let got = share(self.memory, &flows);
        let speed = |i: usize| if flows[i].1 > 0.0 { by_sms[i] * got[i] / flows[i].1 } else { by_sms[i] };
        let speeds = (0..kernels.len()).map(speed).collect();
        let memory = if busy[1] { got[kernels.len()] * self.comm_warps * self.comm_sms } else { 0.0 };
        ([communication, memory], speeds)
    }

    /// When each step has been read (or written, if it is not read), and when each kernel of each stream ends. A
    /// kernel starts when the one before it ends.
    pub fn run(&self, steps: &[Transfer], streams: &[(f64, Vec<Kernel>); 2]) -> (Vec<f64>, [Vec<f64>; 2]) {
        // Parts: server, step, bytes left, whether it is the write.
        let mut queues: [Vec<(usize, f64, bool)>; 2] = [Vec::new(), Vec::new()];
        for (i, step) in steps.iter().enumerate() {
            step.write.iter().for_each(|&bytes| queues[1].push((i, bytes, true)));
            if step.read > 0.0 {
                queues.iter_mut().for_each(|q| q.push((i, step.read, false)));
            }
        }
        let mut ready: Vec<f64> = steps.iter().map(|s| if s.write.is_some() { f64::INFINITY } else { s.at }).collect();
        let mut done: Vec<f64> = steps.iter().map(|s| s.at).collect();
        let mut left: Vec<Vec<f64>> = streams.iter().map(|s| s.1.iter().map(|k| k.alone).collect()).collect();
        let mut ends = [Vec::new(), Vec::new()];
        let mut now = 0.0;
        loop {
            let start = |&(step, _, write): &(usize, f64, bool)| if write { steps[step].at } else { ready[step] };
            let busy = [0, 1].map(|s| queues[s].first().is_some_and(|part| start(part) <= now));
            let runs: Vec<usize> =
                (0..2).filter(|&s| streams[s].0 <= now && ends[s].len() < streams[s].1.len()).collect();
            let kernels: Vec<Kernel> = runs.iter().map(|&s| streams[s].1[ends[s].len()]).collect();
            let (rates, speeds) = self.rates(busy, &kernels);
            let mut next = f64::INFINITY;
            for s in 0..2 {
                match queues[s].first() {
                    Some(part) if busy[s] => next = next.min(now + part.1 / rates[s]),
                    Some(part) => next = next.min(start(part)),
                    None => {}
                }
                if !runs.contains(&s) && ends[s].is_empty() && !streams[s].1.is_empty() {
                    next = next.min(streams[s].0);
                }
            }
            for (&s, speed) in runs.iter().zip(&speeds) {
                next = next.min(now + left[s][ends[s].len()] / speed);
            }
            if next == f64::INFINITY {
                // A bus that takes no time still keeps messages in order.
                let mut bus: f64 = 0.0;
                for ((_, done), ready) in steps.iter().zip(&mut done).zip(ready).filter(|s| s.0.0.sends) {
                    bus = bus.max(ready);
                    *done = done.max(bus);
                }
                return (done, ends);
            }
            let (time, almost) = (next - now, 1e-9 * next);
            now = next;
            for s in (0..2).filter(|&s| busy[s]) {
                queues[s][0].1 -= rates[s] * time;
                let (step, bytes, write) = queues[s][0];
                if bytes <= rates[s] * almost {
                    queues[s].remove(0);
                    done[step] = now;
                    if write {
                        ready[step] = now;
                    }
                }
            }
            for (&s, speed) in runs.iter().zip(&speeds) {
                let kernel = ends[s].len();
                left[s][kernel] -= speed * time;
                if left[s][kernel] <= speed * almost {
                    ends[s].push(now);
                }
            }
        }
    }
}
