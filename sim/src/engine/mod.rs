//! The simulated servers.

pub mod postgres;
