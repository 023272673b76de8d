//! Claiming rows of a table as jobs: the code that services run, and that the explorer checks.
//!
//! | form | what holds a row while its handler runs | what returns the row of a crashed process |
//! | --- | --- | --- |
//! | [`RowLock`] | a row lock of an open transaction | the end of its connection |
//! | [`Lease`] | an instant written into the row | time |
//!
//! A [`Table`] says which columns there are; a form writes its statements for it once. All of it is
//! generic over [`crate::Host`] and [`crate::Session`] and needs no runtime.
//!
//! Delivery is *at least once*: whatever happens, no row is lost, and a row is settled once; but a
//! handler may run again for the same row, and what it did outside the database with it.

mod error;
mod keeper;
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
mod worker;

pub use error::{ClaimError, Doing, Next};
pub use lease::{Lease, LeaseDelivery, LeaseOptions};
pub use mutation::Mutation;
pub use pool::{Pool, Pooled};
pub use row_lock::{RowLock, RowLockBatch, RowLockOptions, Transaction};
pub use settle::{Job, Settlement};
pub use table::{DeclarationError, InstantType, Table};
pub use token::{Clock, LeaseLength, Token, TokenRule};
pub use worker::{Handler, Round, lease_round, row_lock_round};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
