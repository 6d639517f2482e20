//! Messages and their waits in words, alike in every backend.

use crate::api::{Connection, Message, Route};
use syncline_core::{Bytes, Wait};
use syncline_topology::Fabric;

/// A message, as people would call it.
pub(crate) fn message(fabric: &impl Fabric, message: &Message) -> String {
    message_on(fabric, message.connection(), message.len)
}

/// A message of `len` bytes on a connection.
pub(crate) fn message_on(fabric: &impl Fabric, connection: Connection, len: Bytes) -> String {
    let src = fabric.node_name(connection.src);
    let way = match connection.route {
        Route::Port(port) => format!("one hop {}", fabric.port_name(connection.src, port)),
        Route::To(dst) => format!("to {}", fabric.node_name(dst)),
        Route::By(dst, choice) => format!("by way {choice} to {}", fabric.node_name(dst)),
    };
    format!("message of {} B from {src} {way}", len.0)
}

/// A message of which only `fed` has been fed.
pub(crate) fn unfed(fabric: &impl Fabric, incomplete: &Message, fed: Bytes) -> Wait {
    let what = format!("its sender to feed {} of its {} B", incomplete.len.0 - fed.0, incomplete.len.0);
    Wait { who: message(fabric, incomplete), what }
}
