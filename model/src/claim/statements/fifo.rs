//! FIFO queues: only the first unfinished row is claimed, and only while no other one is in work.

use super::super::mutation::Mutation;
use super::super::table::{DeclarationError, Form};
use super::super::text::{Arg, Statement, Writer};
use super::author::Author;
use crate::Dialect;

/// What keeps two claimers of a FIFO queue apart while they look for its head.
///
/// Without a guard, a row that is inserted in front of a head in work is the next claimer's head.
/// SQLite needs none: a claim is one statement, and there is one writer at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FifoGuard {
    /// A lock on the name of the queue, held until the end of the claim's transaction: an advisory
    /// lock on PostgreSQL, a named lock on MySQL and MariaDB.
    #[default]
    Lock,
    /// MySQL and MariaDB: the unfinished rows are counted twice in one statement, the second time
    /// leaving out those that are locked; the queue is free if the counts are equal. Needs no lock
    /// of its own, but a row that is committed between the two counts makes up for one that is in
    /// work. Offered to show the difference.
    Counts,
}

/// The statements of a guard, on the connection of the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Guard {
    /// Answers true if the queue is ours. Runs after the transaction has begun.
    pub(in super::super) take: Statement,
    /// Gives the guard back after the transaction; `None`: the transaction's end does.
    pub(in super::super) release: Option<Statement>,
}

impl Author<'_> {
    fn is_fifo(&self) -> bool {
        self.rules.fifo.is_some()
    }

    /// The condition that the row is the head of its queue, and (lease form) that no lease of the
    /// queue runs. Neither sub-select locks: the lock falls on the head alone, so that a head in
    /// work yields an empty claim.
    pub(super) fn head(&self, w: &mut Writer, word: &'static str) -> &'static str {
        if !self.is_fifo() {
            return word;
        }
        let id = &self.table.id;
        w.raw(word).name(id).raw(" = (SELECT ").name(id);
        w.raw(" FROM ");
        self.table_name(w);
        self.unfinished(w, " WHERE ");
        self.order(w, "");
        w.raw(" LIMIT 1)");
        if let (Form::Lease, Some(lease)) = (self.rules.form, &self.table.locked_until) {
            w.raw(" AND NOT EXISTS (SELECT 1 FROM ");
            self.table_name(w);
            let word = self.unfinished(w, " WHERE ");
            w.raw(word).name(lease).raw(" > ");
            self.now(w);
            w.raw(")");
        }
        " AND "
    }

    /// The guard of a FIFO queue.
    pub(super) fn guard(&self) -> Result<Option<Guard>, DeclarationError> {
        let Some(guard) = self.rules.fifo else {
            return Ok(None);
        };
        let refused = |why: &str| Err(DeclarationError::Refused(why.into()));
        if self.dialect == Dialect::Sqlite || self.mutated(Mutation::FifoWithoutGuard) {
            return Ok(None);
        }
        match (self.dialect, guard) {
            (Dialect::Postgres, FifoGuard::Counts) => refused(
                "the guard by two counts is one of mysql and mariadb; postgres has a lock for it",
            ),
            // Services that spell one table differently would lock different keys.
            (Dialect::Postgres, FifoGuard::Lock)
                if self.table.schema.is_none() && !self.mutated(Mutation::FifoKeyAsDescribed) =>
            {
                refused(
                    "a FIFO queue on postgres names the schema of its table, so that every \
                         service locks the same key",
                )
            }
            (Dialect::Postgres, FifoGuard::Lock) => Ok(Some(Guard {
                take: self.one(|w| {
                    w.raw("SELECT pg_try_advisory_xact_lock(hashtextextended(");
                    w.arg(Arg::QueueKey).raw(", 0)) AS free");
                }),
                release: None,
            })),
            (_, FifoGuard::Lock) => Ok(Some(Guard {
                take: self.one(|w| {
                    w.raw("SELECT GET_LOCK(");
                    queue_name(w);
                    w.raw(", 0) AS free");
                }),
                release: Some(self.one(|w| {
                    w.raw("SELECT RELEASE_LOCK(");
                    queue_name(w);
                    w.raw(") AS free");
                })),
            })),
            (_, FifoGuard::Counts) => Ok(Some(Guard {
                take: self.one(|w| {
                    w.raw("SELECT (");
                    self.count(w);
                    w.raw(") = (");
                    self.count(w);
                    w.raw(" FOR UPDATE SKIP LOCKED) AS free");
                }),
                release: None,
            })),
        }
    }

    fn one(&self, write: impl FnOnce(&mut Writer)) -> Statement {
        let mut w = self.writer();
        write(&mut w);
        w.finish()
    }

    fn count(&self, w: &mut Writer) {
        w.raw("SELECT COUNT(*) FROM ");
        self.table_name(w);
        self.unfinished(w, " WHERE ");
    }
}

/// The named lock of a queue: hashed, because names are short and compared without case.
fn queue_name(w: &mut Writer) {
    w.raw("SHA2(CONCAT(DATABASE(), '.', ").arg(Arg::QueueKey);
    w.raw("), 256)");
}
