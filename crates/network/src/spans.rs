//! When chosen links were busy: spans of time, up to a limit.

use syncline_core::Ps;

/// A time in which a link was busy without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the link.
    pub link: u32,
    /// When it began to be busy.
    pub from: Ps,
    /// When it had nothing more to carry.
    pub to: Ps,
    /// How long it would have been busy at its full rate; more than the span where a backend ignores contention.
    pub busy: Ps,
}

impl Span {
    fn is_full(&self) -> bool {
        self.busy >= self.to - self.from
    }
}

/// The spans of some links.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// By link, the place of its last span among all; `NONE` if it has none yet, and `UNWANTED` if nobody asked for it.
    last: Vec<u32>,
    spans: Vec<Span>,
    limit: usize,
}

const NONE: u32 = u32::MAX;
const UNWANTED: u32 = u32::MAX - 1;

impl Spans {
    /// None yet of these of so many links, and never more than `limit`.
    pub fn new(links: u32, wanted: &[u32], limit: usize) -> Spans {
        let mut last = vec![UNWANTED; links as usize];
        for &link in wanted {
            last[link as usize] = NONE;
        }
        Spans { last, spans: Vec::new(), limit: limit.min(UNWANTED as usize) }
    }

    /// A link was busy for `busy` of the time from `from` to `to`. What goes on where the last span ended makes that
    /// longer, if the link was full all the time; once there are as many as may be, nothing more is noted.
    pub fn add(&mut self, link: u32, from: Ps, to: Ps, busy: Ps) {
        let place = self.last[link as usize];
        if place == UNWANTED || busy == Ps::ZERO {
            return;
        }
        let span = Span { link, from, to, busy };
        if let Some(last) = self.spans.get_mut(place as usize)
            && (last.from..=last.to).contains(&from)
            && last.is_full()
            && span.is_full()
        {
            last.to = last.to.max(to);
            last.busy = Ps(last.busy.0.saturating_add(busy.0));
            return;
        }
        if self.spans.len() < self.limit {
            self.last[link as usize] = self.spans.len() as u32;
            self.spans.push(span);
        }
    }

    /// Adds what was noted elsewhere of the same links.
    pub fn join(&mut self, other: &Spans) {
        for span in &other.spans {
            self.add(span.link, span.from, span.to, span.busy);
        }
    }

    /// The spans link by link in the order of time. Those of a link do not overlap.
    pub fn in_order(&self) -> Vec<Span> {
        let mut sorted = self.spans.clone();
        sorted.sort_by_key(|span| (span.link, span.from, span.to));
        let mut found: Vec<Span> = Vec::with_capacity(sorted.len());
        for span in sorted {
            match found.last_mut() {
                Some(last) if last.link == span.link && span.from < last.to => {
                    last.to = last.to.max(span.to);
                    last.busy = Ps(last.busy.0.saturating_add(span.busy.0));
                }
                _ => found.push(span),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(link: u32, from: u64, to: u64, busy: u64) -> Span {
        Span { link, from: Ps(from), to: Ps(to), busy: Ps(busy) }
    }

    fn noted(limit: usize, added: &[Span]) -> Vec<Span> {
        let mut spans = Spans::new(3, &[0, 2], limit);
        added.iter().for_each(|s| spans.add(s.link, s.from, s.to, s.busy));
        spans.in_order()
    }

    #[test]
    fn what_follows_without_a_pause_is_one_span() {
        let added = [of(0, 0, 5, 5), of(2, 1, 2, 1), of(0, 5, 9, 4), of(0, 10, 11, 1)];
        assert_eq!(noted(9, &added), [of(0, 0, 9, 9), of(0, 10, 11, 1), of(2, 1, 2, 1)]);
    }

    #[test]
    fn spans_of_different_load_stay_apart() {
        assert_eq!(noted(9, &[of(0, 0, 4, 2), of(0, 4, 8, 4)]), [of(0, 0, 4, 2), of(0, 4, 8, 4)]);
    }

    #[test]
    fn links_that_nobody_asked_for_and_idle_times_are_left_out() {
        assert_eq!(noted(9, &[of(1, 0, 4, 4), of(0, 0, 4, 0)]), []);
    }

    /// A backend without contention lets a link carry several messages at a time, and says so in any order.
    #[test]
    fn what_overlaps_is_one_span_with_all_that_was_carried() {
        assert_eq!(
            noted(9, &[of(0, 10, 20, 10), of(0, 5, 15, 10), of(0, 20, 21, 1)]),
            [of(0, 5, 20, 20), of(0, 20, 21, 1)]
        );
    }

    #[test]
    fn beyond_the_limit_nothing_new_is_noted() {
        assert_eq!(noted(1, &[of(0, 0, 1, 1), of(2, 0, 1, 1), of(0, 1, 2, 1)]), [of(0, 0, 2, 2)]);
    }
}
