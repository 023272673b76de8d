//! Scenario and schedule files, and the stage on which they are run.
//!
//! The formats are described in `docs/scenario.md` and `docs/schedule.md`.

pub mod actor;
pub mod anomaly;
pub mod binding;
pub mod expr;
pub mod monitor;
pub mod mysqltest;
pub mod pinned;
pub mod replay;
pub mod scenario;
pub mod schedule;
pub mod script;
pub mod source;
pub mod spec;
pub mod sqltext;
pub mod stage;

pub use scenario::{Case, Scenario};
pub use source::{FileError, Source};
