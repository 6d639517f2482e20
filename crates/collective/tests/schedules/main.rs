//! Verification of schedules that are written out step by step.

mod broken;
mod build;
mod exchanged;
mod exported;
mod imported;
mod json;
mod mutations;
mod oracle;
mod rooted;
mod valid;
mod wholes;
