//! PostgreSQL 15.
//!
//! The lower half, [`Store`], keeps rows, transactions and locks; see `README.md` beside this file
//! for its rules. The upper half runs statements on it.

mod access;
mod alter_index;
mod audit;
mod catalog;
mod control;
mod database;
mod errors;
mod exec;
mod heap;
mod index;
mod journal;
mod lock;
mod notify;
mod object;
mod order;
mod pause;
mod prepared;
mod role;
mod row_lock;
mod row_order;
mod sequence;
mod session;
mod settings;
mod snapshot;
mod ssi;
mod statement;
mod store;
mod transaction;
mod version;
mod way;
mod write;
mod xact;
mod xmax;

#[cfg(test)]
mod tests;

pub use self::catalog::Catalog;
pub use self::database::{DeadlockTimer, Postgres};
pub use self::heap::{Heap, Items};
pub use self::index::{Index, IndexEntry, IndexShape, Key as IndexKeyValues};
pub use self::journal::{Entry, Run, Stop, Suspended};
pub use self::lock::{
    AdvisoryKey, Deadlock, DeadlockCheck, HeldLock, LockMode, LockQueue, LockScope, Modes, Tag,
    WaitPolicy, WaitRecord, Waiter, conflicts, mode_name,
};
pub use self::notify::Message;
pub use self::object::{Counters, Key, Object};
pub use self::order::{compare_keys, compare_values};
pub use self::prepared::Prepared;
pub use self::row_lock::{Follow, LockOutcome, RowLock};
pub use self::session::SessionState;
pub use self::snapshot::Snapshot;
pub use self::ssi::{Filled, ReadLock, Ssi};
use self::ssi::{Searched, first_buckets};
pub use self::store::Store;
pub use self::transaction::pid;
pub use self::version::{Birth, Death, Hold, Holder, Version, VersionId};
pub use self::write::{UniqueCheck, WriteOutcome};
pub use self::xact::{Level, Owner, Xact};
pub use self::xmax::{LockedRow, Mark, Xmax};
pub use crate::plan::catalog::RelationId as RelId;

/// A transaction id. Handed out at a transaction's or savepoint's first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Xid(pub u32);
