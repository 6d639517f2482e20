//! Check sums of headers.

/// The Internet check sum (RFC 1071) of bytes, the first of which is at an even place.
pub fn internet(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
    let mut sum: u32 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The check sum of Ethernet, which that of RoCE is as well (IEEE 802.3, section 3.2.9), of bytes that come in parts.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// That of nothing.
    pub const fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// With further bytes.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Crc32 {
        let byte = |crc: u32, byte: &u8| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
        };
        Crc32(bytes.iter().fold(self.0, byte))
    }

    /// The check sum.
    pub const fn sum(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3, and the check value of the polynomial.
    #[test]
    fn published_examples() {
        assert_eq!(internet(&[&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(internet(&[&[1, 2, 3]]), !0x0402);
        assert_eq!(Crc32::new().with(b"1234").with(b"56789").sum(), 0xcbf4_3926);
    }
}
