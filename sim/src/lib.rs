//! The simulated databases and the explorer. Deterministic, single-threaded, no async runtime.
//!
//! * [`database`] is the interface between an engine and whoever drives it.

pub mod database;
pub mod plan;
pub mod sql;
