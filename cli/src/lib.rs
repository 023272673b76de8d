#![doc = include_str!("../../README.md")]

pub use rowlock_model as model;
#[cfg(feature = "live")]
pub use rowlock_real as real;
pub use rowlock_reports as reports;
pub use rowlock_scenarios as scenarios;
pub use rowlock_sim as sim;

mod database;
mod verify;

pub use database::{pooled_postgres, postgres, sqlite};
pub use rowlock_model::verdict::{Bounds, Exploration, Limits, Verdict, Violation};
pub use rowlock_model::{DbError, Dialect, ErrorClass, Host, Isolation, Reply, Session, Value};
pub use rowlock_sim::explore::{
    Control, Explorer, Monitor, Reductions, Remark, Seen, Watch, Worker,
};
pub use verify::Verify;
