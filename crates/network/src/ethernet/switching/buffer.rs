//! The buffer of a switch, and what each of its inputs and outputs may use of it.

use super::Admission;

/// Who may use how much of a switch's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each port has its part.
    PerPort,
    /// A queue may hold so many times what is free (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
    /// Switches", 1998, equation 1), in 256ths.
    Dynamic(u32),
}

/// What has come by a link and waits at the switch that it leads to.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Bytes that wait, without those in the headroom.
    held: u64,
    /// Bytes that came although a pause was asked for.
    late: u64,
    /// Space for these.
    pub headroom: u64,
    /// Whether a pause was asked for.
    pub asked: bool,
    /// How often the link was down.
    pub epoch: u32,
}

impl Input {
    /// Nothing waits.
    pub fn new(headroom: u64) -> Input {
        Input { held: 0, late: 0, headroom, asked: false, epoch: 0 }
    }
}

/// The buffer of a switch.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Bytes of a port.
    per_port: u64,
    /// Bytes of all ports, without headroom.
    total: u64,
    /// Bytes that are used, without headroom.
    used: u64,
}

impl Pool {
    /// An empty buffer for so many ports, of which some is reserved as headroom.
    pub fn new(per_port: u64, ports: u64, reserved: u64) -> Pool {
        Pool { per_port, total: per_port.saturating_mul(ports).saturating_sub(reserved), used: 0 }
    }

    /// What a queue may hold at present.
    pub fn threshold(&self, sharing: Sharing, headroom: u64) -> u64 {
        match sharing {
            Sharing::PerPort => self.per_port.saturating_sub(headroom),
            Sharing::Dynamic(alpha) => {
                let free = u128::from(self.total.saturating_sub(self.used));
                u64::try_from(free * u128::from(alpha) / 256).unwrap_or(u64::MAX)
            }
        }
    }

    /// The same if only so many bytes of the buffer are used.
    pub fn threshold_with(&self, used: u64, sharing: Sharing, headroom: u64) -> u64 {
        Pool { used, ..*self }.threshold(sharing, headroom)
    }

    fn has_room(&self, wire: u64, sharing: Sharing) -> bool {
        sharing == Sharing::PerPort || self.used + wire <= self.total
    }

    /// A frame comes to an output before which `waiting` bytes wait: it is dropped if there is no room.
    pub fn admit(&mut self, waiting: u64, wire: u64, sharing: Sharing) -> Admission {
        if waiting + wire > self.threshold(sharing, 0) || !self.has_room(wire, sharing) {
            return Admission::Refused;
        }
        self.used += wire;
        Admission::Waits
    }

    /// A frame comes by an input whose sender can be told to pause: beyond the threshold it takes headroom.
    pub fn admit_from(&mut self, input: &mut Input, wire: u64, sharing: Sharing) -> Admission {
        if input.held + wire <= self.threshold(sharing, input.headroom) && self.has_room(wire, sharing) {
            self.used += wire;
            input.held += wire;
            return Admission::Waits;
        }
        let fits = input.late + wire <= input.headroom;
        if fits {
            input.late += wire;
        }
        match (fits, input.asked) {
            (false, _) => Admission::Refused,
            (true, false) => Admission::WaitsAndPauses,
            (true, true) => Admission::Waits,
        }
    }

    /// A frame leaves.
    pub fn release(&mut self, wire: u64) {
        self.used -= wire;
    }

    /// A frame leaves that has come by an input, whose headroom is the first to become free. Whether its sender may go on: with
    /// all of the headroom free, and so much to spare that it does not have to pause again at once.
    pub fn release_to(&mut self, input: &mut Input, wire: u64, sharing: Sharing, slack: u64) -> bool {
        let late = wire.min(input.late);
        input.late -= late;
        input.held -= wire - late;
        self.used -= wire - late;
        let clear = input.held == 0 || input.held + slack <= self.threshold(sharing, input.headroom);
        input.asked && input.late == 0 && clear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With alpha = 1 a single queue takes half of the buffer and two take a third each: alpha / (1 + n alpha).
    #[test]
    fn queues_share_as_the_published_rule_says() {
        for (queues, alpha, share) in
            [(1, 256, 1.0 / 2.0), (2, 256, 1.0 / 3.0), (4, 128, 1.0 / 6.0), (1, 1024, 4.0 / 5.0)]
        {
            let mut pool = Pool::new(1_000_000, 3, 0);
            let mut waiting = vec![0; queues];
            for _ in 0..100_000 {
                for queue in &mut waiting {
                    if pool.admit(*queue, 100, Sharing::Dynamic(alpha)) == Admission::Waits {
                        *queue += 100;
                    }
                }
            }
            for queue in waiting {
                let expected = 3e6 * share;
                assert!((queue as f64 - expected).abs() < 500.0, "{queue} {expected}");
            }
        }
    }

    #[test]
    fn a_frame_may_fill_the_buffer_to_the_last_byte() {
        let mut pool = Pool::new(1000, 2, 0);
        assert_eq!(pool.admit(901, 100, Sharing::PerPort), Admission::Refused);
        assert_eq!(pool.admit(900, 100, Sharing::PerPort), Admission::Waits);
        // All of the two ports together, of which the queue may hold as much as is free.
        assert_eq!(pool.admit(0, 1900, Sharing::Dynamic(256)), Admission::Waits);
        assert_eq!(pool.admit(0, 1, Sharing::Dynamic(256)), Admission::Refused);
    }

    /// Where others leave a shared buffer, what an input may hold grows; it does not ask for more while its headroom is in use.
    #[test]
    fn a_sender_goes_on_only_when_all_of_the_headroom_is_free() {
        let sharing = Sharing::Dynamic(256);
        let mut pool = Pool::new(1000, 2, 600);
        let (mut other, mut input) = (Input::new(300), Input::new(300));
        assert_eq!(pool.admit_from(&mut other, 400, sharing), Admission::Waits);
        while pool.admit_from(&mut input, 100, sharing) == Admission::Waits {}
        input.asked = true;
        assert_eq!(pool.admit_from(&mut input, 100, sharing), Admission::Waits);
        assert_eq!((input.held, input.late), (500, 200));
        assert!(!pool.release_to(&mut other, 400, sharing, 200), "it has asked for nothing");
        assert_eq!(pool.threshold(sharing, input.headroom), 900);
        assert!(!pool.release_to(&mut input, 100, sharing, 200), "100 B are in the headroom");
        assert!(pool.release_to(&mut input, 100, sharing, 200));
    }

    #[test]
    fn an_input_pauses_at_its_threshold_and_drops_behind_its_headroom() {
        let mut pool = Pool::new(1000, 2, 600);
        let mut input = Input::new(300);
        let mut admitted = Vec::new();
        for _ in 0..11 {
            let admission = pool.admit_from(&mut input, 100, Sharing::PerPort);
            input.asked |= admission == Admission::WaitsAndPauses;
            admitted.push(admission);
        }
        use Admission::{Refused, Waits, WaitsAndPauses};
        assert_eq!(admitted[..7], [Waits; 7]); // 1000 less the headroom
        assert_eq!(admitted[7..], [WaitsAndPauses, Waits, Waits, Refused]);
        // With 200 to spare below 700.
        let goes_on: Vec<bool> = (0..6).map(|_| pool.release_to(&mut input, 100, Sharing::PerPort, 200)).collect();
        assert_eq!(goes_on, [false, false, false, false, true, true]);
        assert_eq!((input.held, input.late), (400, 0));
    }
}
