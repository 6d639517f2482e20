//! The secret of a communicator, and the version of the protocol in which it is told.

/// Bytes of the secret that proves a rank to belong to the communicator.
pub(crate) const TOKEN_BYTES: usize = 32;
/// The version of the protocol between ranks and server.
pub(crate) const VERSION: u16 = 1;

/// Whether two secrets are the same, in a time that does not depend on where they differ.
pub(crate) fn same_token(a: &[u8; TOKEN_BYTES], b: &[u8; TOKEN_BYTES]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| all | std::hint::black_box(a ^ b));
    std::hint::black_box(differences) == 0
}
