//! How vectors are cut into blocks.

/// How a vector is cut into blocks: never finer than an element, the first blocks one element longer
/// where it does not divide, left-over bytes of a broken element at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bytes of an element, at least 1.
    pub element: u32,
}

impl Split {
    /// Offset and length of part `index` of `parts` of `len` bytes.
    #[inline]
    pub fn share(self, len: u64, parts: u32, index: u32) -> (u64, u64) {
        let (unit, parts, index) = (u64::from(self.element), u64::from(parts), u64::from(index));
        let (elements, broken) = (len / unit, len % unit);
        let (each, longer) = (elements / parts, elements % parts);
        let offset = (index * each + index.min(longer)) * unit;
        let mut share = (each + u64::from(index < longer)) * unit;
        if index + 1 == parts {
            share += broken;
        }
        (offset, share)
    }

    /// Length of the longest of `parts` parts: the first, or the last where that has more than an element's rest.
    #[inline]
    pub fn largest(self, len: u64, parts: u32) -> u64 {
        self.share(len, parts, 0).1.max(self.share(len, parts, parts - 1).1)
    }

    /// Length of `count` consecutive parts from `first` on, wrapping from the last to the first.
    #[inline]
    pub fn run(self, len: u64, parts: u32, first: u32, count: u32) -> u64 {
        let from = |index| if index == parts { len } else { self.share(len, parts, index).0 };
        match first + count {
            _ if count == 1 => self.share(len, parts, first).1,
            _ if count >= parts => len,
            end if end <= parts => from(end) - from(first),
            end => len - from(first) + from(end - parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_cover_the_vector(len in 0u64..10_000, parts in 1u32..40, element in 1u32..9) {
            let split = Split { element };
            let mut end = 0;
            for i in 0..parts {
                let (offset, share) = split.share(len, parts, i);
                if share > 0 {
                    prop_assert_eq!(offset, end);
                    end += share;
                }
                prop_assert!(share.abs_diff(len / u64::from(parts)) <= 2 * u64::from(element));
            }
            prop_assert_eq!(end, len);
        }

        #[test]
        fn parts_are_whole_elements_that_differ_by_one_and_the_last_has_the_rest(
            len in 0u64..10_000, parts in 1u32..40, element in 1u32..9,
        ) {
            let split = Split { element };
            let unit = u64::from(element);
            let shares: Vec<(u64, u64)> = (0..parts).map(|i| split.share(len, parts, i)).collect();
            let mut elements: Vec<u64> = Vec::new();
            for (i, &(offset, share)) in shares.iter().enumerate() {
                let rest = if i + 1 == shares.len() { len % unit } else { 0 };
                prop_assert!(offset % unit == 0 && (share - rest) % unit == 0);
                elements.push((share - rest) / unit);
            }
            prop_assert!(elements.is_sorted_by(|a, b| a >= b) && elements[0] - elements[elements.len() - 1] <= 1);
            prop_assert_eq!(split.largest(len, parts), shares.iter().map(|&(_, share)| share).max().unwrap_or(0));
        }

        #[test]
        fn runs_add_up_their_parts(
            len in 0u64..10_000, parts in 1u32..40, element in 1u32..9, first in any::<u32>(), count in any::<u32>(),
        ) {
            let (split, first, count) = (Split { element }, first % parts, count % (parts + 1));
            let sum: u64 = (first..first + count).map(|i| split.share(len, parts, i % parts).1).sum();
            prop_assert_eq!(split.run(len, parts, first, count), sum);
        }
    }
}
