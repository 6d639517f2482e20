//! C programs that use the library: compiled here, and run as several processes. Without a C compiler the tests pass,
//! with a message.

mod failures;
mod forwarding;
mod gpus;
mod host;
mod interface;
mod support;
