//! Claiming rows of a table as jobs: the code that services run, and that the explorer checks.
//!
//! | form | what holds a row while its handler runs | what returns the row of a crashed process |
//! | --- | --- | --- |
//! | [`RowLock`] | a row lock of an open transaction | the end of its connection |
//! | [`Lease`] | an instant written into the row | time |
//! | [`Advisory`] | a lock of a session on a key that the row names | the end of its connection |
//!
//! A [`Table`] says which columns there are; a form writes its statements for it once. All of it is
//! generic over [`crate::Host`] and [`crate::Session`] and needs no runtime.
//!
//! Delivery is *at least once*: whatever happens, no row is lost, and a row is settled once; but a
//! handler may run again for the same row, and what it did outside the database with it.

mod advisory;
mod error;
mod keeper;
mod keys;
mod lease;
pub mod mutation;
mod pool;
pub mod promise;
mod row_lock;
mod settle;
mod slot;
mod statements;
mod table;
mod text;
mod token;
mod version;
mod worker;

pub use advisory::{Advisory, AdvisoryDelivery, AdvisoryOptions};
pub use error::{ClaimError, Doing, Next};
pub use keys::{KeyHold, KeyTable};
pub use lease::{Lease, LeaseDelivery, LeaseOptions};
pub use mutation::Mutation;
pub use pool::{Pool, Pooled};
pub use row_lock::{RowLock, RowLockBatch, RowLockOptions, Transaction};
pub use settle::{Job, Settlement};
pub use statements::FifoGuard;
pub use table::{DeclarationError, Form, InstantType, Table};
pub use token::{Clock, LeaseLength, Token, TokenRule};
pub use version::{Version, check_server};
pub use worker::{Handler, Round, advisory_round, lease_round, row_lock_round};

use std::sync::Arc;

use crate::Value;

/// What a FIFO queue locks: the table and the group, as this service names them.
fn queue_key(table: &Table, group: Option<&Value>) -> Arc<str> {
    let schema = table.schema.as_deref().unwrap_or_default();
    let dot = if schema.is_empty() { "" } else { "." };
    let group = group.map(Value::to_string).unwrap_or_default();
    format!("{schema}{dot}{}:{group}", table.name).into()
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
