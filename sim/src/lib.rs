//! The simulated databases and the explorer. Deterministic, single-threaded, no async runtime.
//!
//! * [`database`] is the interface between an engine and whoever drives it.
//! * [`world`] keeps the state of a server: copied, undone, hashed and watched by one access layer.
//! * [`engine`] has the servers.
//! * [`host`] is the simulated side of the seam: sessions, hosts, tasks.
//! * [`explore`] explores interleavings.
//! * [`actor`] has the processes of scenario files that are written in Rust.
//! * [`scenario`] turns a case of a scenario file into an exploration.
//! * [`pooler`] shares the sessions of a server between transactions of clients.
//! * [`loose`] reads the SQL of MySQL, MariaDB and SQLite.
//! * [`stage`] runs schedules that others decide.
//! * [`mod@bench`] runs PostgreSQL's isolation specs.
//! * [`trace`] is what engines tell of the rows that statements read and write.
//! * [`toy`] is a database of four statements, for tests and benchmarks of the explorer.

pub mod actor;
pub mod bench;
pub mod database;
pub mod engine;
pub mod explore;
pub mod host;
pub mod loose;
mod numbers;
pub mod plan;
pub mod pooler;
pub mod scenario;
pub mod sql;
pub mod stage;
pub mod toy;
pub mod trace;
pub mod world;

pub use numbers::{numbered, numbers_of};
