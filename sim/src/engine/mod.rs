//! The simulated servers.

pub mod innodb;
pub mod postgres;
pub mod sqlite;
