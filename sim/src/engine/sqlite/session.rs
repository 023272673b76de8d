//! What a connection is doing: its transaction, its locks, the request in flight.

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Reply, TransactionStatus};

use super::image::Image;
use crate::database::Request;
use crate::world::Digest;

/// How strongly a connection holds the file ("File Locking And Concurrency In SQLite Version 3",
/// section 3). In a write-ahead log `Shared` is a read mark and `Reserved` the write lock; the others
/// do not occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Lock {
    /// Nothing.
    #[default]
    None,
    /// Reads.
    Shared,
    /// Means to write; others may still begin to read.
    Reserved,
    /// Waits for readers to end; nobody may begin to read.
    Pending,
    /// Writes into the file.
    Exclusive,
}

/// An open savepoint.
#[derive(Clone, Debug)]
pub(super) struct Savepoint {
    pub(super) name: Arc<str>,
    /// The own image when it was set; `None` if nothing was changed yet.
    pub(super) work: Option<Image>,
}

/// What a connection has set with `PRAGMA`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Settings {
    pub(super) busy_timeout_ms: i64,
    pub(super) foreign_keys: bool,
    /// Until the end of the transaction.
    pub(super) defer_foreign_keys: bool,
    /// Without effect between connections that share no cache.
    pub(super) read_uncommitted: bool,
    pub(super) synchronous: Synchronous,
}

/// `PRAGMA synchronous`, which decides what a power loss may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Synchronous(pub(super) u8);

/// What `last_insert_rowid()`, `changes()` and `total_changes()` tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Counts {
    pub(super) last_insert_rowid: i64,
    pub(super) changes: i64,
    pub(super) total_changes: i64,
}

/// What a waiting connection polls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Need {
    /// To read.
    Read,
    /// To write.
    Write,
    /// That all readers are gone.
    Alone,
}

/// A request that was begun and waits.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) request: Request,
    /// For a script: the replies of the statements before the one that waits.
    pub(super) replies: Vec<Reply>,
    /// The statement has done its work and waits to commit; this is its reply.
    pub(super) finished: Option<Reply>,
    pub(super) need: Need,
    /// When the busy handler was first called in this statement.
    pub(super) since_micros: i64,
}

/// The state of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionState {
    pub(super) lock: Lock,
    /// What it reads, and the number of the commit that made it; present from `Shared` on.
    pub(super) snapshot: Option<(Rc<Image>, u64)>,
    /// What it has made of it; present once something was changed.
    pub(super) work: Option<Image>,
    /// It has written pages, even if a savepoint took back what was on them: the commit writes.
    pub(super) dirty: bool,
    /// After `BEGIN` or an outermost `SAVEPOINT`.
    pub(super) in_transaction: bool,
    /// The transaction was begun by its first savepoint, and is committed by releasing it.
    pub(super) begun_by_savepoint: bool,
    pub(super) savepoints: Vec<Savepoint>,
    pub(super) settings: Settings,
    pub(super) counts: Counts,
    pub(super) flight: Option<Rc<Flight>>,
    /// The connection was closed or killed.
    pub(super) gone: Option<Rc<DbError>>,
    /// The journal mode that it found when it read the file last; from then on it keeps a
    /// write-ahead log open.
    pub(super) seen_wal: Option<bool>,
}

impl SessionState {
    /// What its statements read: its own image, else its snapshot, else what is committed.
    pub(super) fn image<'i>(&'i self, committed: &'i Rc<Image>) -> &'i Image {
        match (&self.work, &self.snapshot) {
            (Some(work), _) => work,
            (None, Some((image, _))) => image,
            (None, None) => committed,
        }
    }

    pub(super) fn status(&self) -> TransactionStatus {
        match self.in_transaction {
            true => TransactionStatus::InTransaction,
            false => TransactionStatus::Idle,
        }
    }

    /// Ends the transaction without a trace of what it did.
    pub(super) fn release(&mut self) {
        self.lock = Lock::None;
        self.snapshot = None;
        self.work = None;
        self.dirty = false;
        self.in_transaction = false;
        self.begun_by_savepoint = false;
        self.savepoints.clear();
        self.settings.defer_foreign_keys = false;
    }

    /// Adds what decides the connection's future. `committed` is the number of the last commit;
    /// `exact` counts what `changes()` and its like tell.
    pub(super) fn digest(&self, committed: u64, exact: bool, digest: &mut Digest) {
        if self.gone.is_some() {
            digest.word(1);
            return;
        }
        self.lock.hash(digest);
        if let Some((image, version)) = &self.snapshot {
            digest.wide(image.digest());
            // Whether it is old decides whether it can write.
            (*version == committed).hash(digest);
        }
        if let Some(work) = &self.work {
            digest.wide(work.digest());
        }
        (self.in_transaction, self.begun_by_savepoint, self.dirty).hash(digest);
        for savepoint in &self.savepoints {
            savepoint.name.hash(digest);
            if let Some(work) = &savepoint.work {
                digest.wide(work.digest());
            }
        }
        self.settings.hash(digest);
        self.seen_wal.hash(digest);
        if exact {
            self.counts.hash(digest);
        }
        if let Some(flight) = &self.flight {
            flight.request.hash(digest);
            flight.replies.hash(digest);
            flight.finished.hash(digest);
            flight.need.hash(digest);
            digest.write_i64(flight.since_micros);
        }
    }
}
