//! The simulated servers.

pub mod postgres;
pub mod sqlite;
