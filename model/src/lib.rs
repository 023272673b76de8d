//! The vocabulary of Rowlock and the code under test.
//!
//! Everything here is free of I/O, clocks and async runtimes: the same types and the same claim
//! and guard code are used by the simulator (`rowlock-sim`) and by live servers (`rowlock-real`).
//!
//! * [`Session`] and [`Host`] are *the seam*: one open connection, and the process around it.
//! * [`Value`], [`Reply`] and [`DbError`] are what goes through it.
//! * [`claim`], [`guard`], [`retry`] and [`paths`] are code that services run and the explorer checks.
//! * [`schedule`] names every choice that an explorer can make, [`verdict`] what it concludes.

pub mod claim;
pub mod dialect;
pub mod error;
#[cfg(all(test, not(loom)))]
pub(crate) mod fake;
pub mod guarantee;
pub mod guard;
pub mod outcome;
pub mod paths;
pub mod retry;
pub mod schedule;
pub mod session;
pub mod sync;
pub mod value;
pub mod verdict;

pub use dialect::{Dialect, Isolation};
pub use error::{DbError, ErrorClass};
pub use guarantee::Guarantee;
pub use outcome::Outcome;
pub use session::{
    Batch, Column, Elapsed, Host, Notice, Reply, Row, Session, Task, TransactionStatus,
};
pub use value::Value;
