//! FNV-1a with 64 bits (see <http://www.isthe.com/chongo/tech/comp/fnv/>). It guards against accidents only.

/// The digest of nothing.
pub(crate) const NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// The digest of bytes that follow those of a digest.
pub(crate) fn of_more(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The digest of bytes.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    of_more(NOTHING, bytes)
}
