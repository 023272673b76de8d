//! The simulated databases and the explorer. Deterministic, single-threaded, no async runtime.
//!
//! * [`database`] is the interface between an engine and whoever drives it.
//! * [`world`] keeps the state of a server: copied, undone, hashed and watched by one access layer.
//! * [`engine`] has the servers.

pub mod database;
pub mod engine;
pub mod plan;
pub mod sql;
pub mod world;
