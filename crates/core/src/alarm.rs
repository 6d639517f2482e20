//! A timer that is set anew while an earlier setting is still in the event queue.
//!
//! Events cannot be removed from the queue. So an [`Alarm`] remembers when it has to fire, and only the event at that time
//! counts: all others belong to earlier settings. Two settings to the same time need not be distinguished if their events
//! have the same key: the event that comes first is used.

use crate::units::Ps;

/// When a timer is to fire. It holds a time only; whoever sets it puts the event into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// [`Ps::MAX`] if it is not set.
    due: Ps,
}

impl Default for Alarm {
    fn default() -> Self {
        Alarm { due: Ps::MAX }
    }
}

impl Alarm {
    /// Sets it to `time` unless it fires no later anyway. If so, an event at that time has to be put into the queue.
    #[inline(always)]
    #[must_use = "an event has to be put into the queue"]
    pub fn set_earlier(&mut self, time: Ps) -> bool {
        let sooner = time < self.due;
        if sooner {
            self.due = time;
        }
        sooner
    }

    /// Sets it to `time`, later ones included, or to never if that is [`Ps::MAX`]. If so, and the time is another one than
    /// before, an event at that time has to be put into the queue.
    #[inline]
    #[must_use = "an event has to be put into the queue"]
    pub fn set(&mut self, time: Ps) -> bool {
        std::mem::replace(&mut self.due, time) != time && time != Ps::MAX
    }

    /// An event of the alarm has come. If it is the one that counts, the alarm is no longer set.
    #[inline(always)]
    #[must_use = "events of superseded settings mean nothing"]
    pub fn fires(&mut self, now: Ps) -> bool {
        let counts = self.due == now;
        if counts {
            self.due = Ps::MAX;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_earlier_time_supersedes_a_later_one() {
        let mut alarm = Alarm::default();
        assert!(!alarm.fires(Ps(0)) && !alarm.set_earlier(Ps::MAX));
        assert!(alarm.set_earlier(Ps(9)) && !alarm.set_earlier(Ps(9)) && !alarm.set_earlier(Ps(10)));
        assert!(alarm.set_earlier(Ps(5)));
        assert!(alarm.fires(Ps(5)), "the last setting");
        assert!(!alarm.fires(Ps(5)) && !alarm.fires(Ps(9)), "the first one is superseded");
    }

    #[test]
    fn a_later_time_supersedes_an_earlier_one() {
        let mut alarm = Alarm::default();
        assert!(alarm.set(Ps(5)) && alarm.set(Ps(9)) && !alarm.set(Ps(9)));
        assert!(!alarm.fires(Ps(5)) && alarm.fires(Ps(9)));
        assert!(alarm.set(Ps(9)), "it can be set to the time at which it has just fired");
        assert!(!alarm.set(Ps::MAX) && !alarm.fires(Ps(9)));
    }

    proptest! {
        /// Against a timer whose events can be taken out of the queue: it fires at the same times.
        #[test]
        fn fires_when_it_was_last_set_to(settings in prop::collection::vec((1u64..6, 0u64..8, any::<bool>()), 0..60)) {
            let (mut alarm, mut queue, mut fired) = (Alarm::default(), Vec::new(), Vec::new());
            let (mut single, mut expected) = (None, Vec::new());
            let mut now = 0;
            for (pause, delay, sooner) in settings.into_iter().chain([(100, 0, false)]) {
                for time in now..now + pause {
                    let events = queue.iter().filter(|at| **at == time).count();
                    fired.extend((0..events).filter(|_| alarm.fires(Ps(time))).map(|_| time));
                    queue.retain(|at| *at != time);
                    expected.extend(single.take_if(|at| *at == time));
                }
                now += pause;
                let time = now + delay;
                if if sooner { alarm.set_earlier(Ps(time)) } else { alarm.set(Ps(time)) } {
                    queue.push(time);
                }
                single = Some(if sooner { single.map_or(time, |at: u64| at.min(time)) } else { time });
            }
            prop_assert_eq!(fired, expected);
        }
    }
}
