//! Row versions.

use std::cell::Cell;

use rowlock_model::Row;

use super::{Owner, RelId, RowLock, Xid};
use crate::world::Slot;

/// A row version. Valid while the version exists; see [`Store::row`](super::Store::row).
pub type VersionId = Slot;

/// Who made a version, and whether that is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Birth {
    /// Committed, and every snapshot sees it.
    Settled,
    /// Committed as number `csn`, and some snapshot may not see it.
    Committed(u64),
    /// By a transaction in progress, in its command `cid`.
    Running {
        /// Which one.
        owner: Owner,
        /// In which of its commands.
        cid: u32,
    },
}

/// What a holder does to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Holds a row lock.
    Lock(RowLock),
    /// Has updated it; `RowLock::Update` if a key column changed, else `RowLock::NoKeyUpdate`.
    Update(RowLock, u32),
    /// Has deleted it, in its command of this number.
    Delete(u32),
}

/// A transaction in progress that holds a lock on a version, or has updated or deleted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Which one.
    pub owner: Owner,
    /// Its transaction id at that level when it did so.
    pub xid: Xid,
    /// What it did.
    pub hold: Hold,
}

/// The committed end of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Death {
    /// The commit that ended it.
    pub csn: u64,
    /// The lock that the update or delete took: whoever wants a lock that conflicts with it has to
    /// look at the newer version.
    pub strength: RowLock,
}

/// One version of a row. Its locks and its end are kept in it, as in PostgreSQL's tuple header; a
/// multixact is simply more than one holder.
#[derive(Clone, Debug)]
pub struct Version {
    /// The table.
    pub table: RelId,
    /// Its place: versions of a table lie in ascending order. Not canonical; ranks are.
    pub position: u64,
    /// The stored columns.
    pub row: Row,
    /// The digest of `row`.
    pub row_digest: u128,
    /// Who made it.
    pub birth: Birth,
    /// The transaction id that made it.
    pub xmin: Xid,
    /// Transactions in progress that hold it, by transaction id; at most one update or delete.
    pub holders: Vec<Holder>,
    /// Its committed end, if it has one that some snapshot does not see yet.
    pub death: Option<Death>,
    /// The version that replaced it, if it was updated (by a transaction committed or in progress).
    pub next: Option<VersionId>,
    pub(super) digest: Cell<u128>,
}
