//! What the explorer asks of a server about transactions and leftovers, beside running statements.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Row, TransactionStatus};

use super::{AdvisoryKey, Birth, Postgres, Store, Tag, VersionId};
use crate::database::StatementId;
use crate::trace::Trace;

impl Postgres {
    /// The text of a prepared statement.
    pub(super) fn text_of(&self, statement: StatementId) -> Arc<str> {
        Arc::clone(&self.texts[statement.0 as usize])
    }

    /// Whether a transaction block is open, failed or not.
    pub(super) fn is_in_transaction(&self, session: SessionId) -> bool {
        self.store.session(session).status() != TransactionStatus::Idle
    }

    /// An open transaction, and advisory locks of the session.
    pub(super) fn kept_by(&self, session: SessionId) -> Vec<String> {
        let mut kept = Vec::new();
        if self.is_in_transaction(session) {
            kept.push("an open transaction".to_owned());
        }
        let mut locks: Vec<String> = Vec::new();
        for (tag, _) in &self.store.xact(session).session_locks {
            locks.push(match tag {
                Tag::Advisory(AdvisoryKey::Big(key)) => format!("the advisory lock {key}"),
                Tag::Advisory(AdvisoryKey::Pair(a, b)) => format!("the advisory lock ({a}, {b})"),
                _ => "a lock of the session".to_owned(),
            });
        }
        locks.sort_unstable();
        locks.dedup();
        kept.extend(locks);
        kept
    }

    /// Tables that have rows of their own.
    pub(super) fn user_tables(&self) -> Vec<String> {
        let (schema, _) = self.store.catalog_unrecorded().view(None);
        let stored = schema.tables.values().filter(|t| t.partitioned.is_none());
        stored
            .map(|table| format!("ONLY \"{}\"", table.name.replace('"', "\"\"")))
            .collect()
    }
}

impl Store {
    /// A row is deleted.
    pub(super) fn trace_end_of_row(&mut self, session: SessionId, version: VersionId) {
        if self.world.trace.is_on() {
            let table = self.version(version).table.0;
            let old = Some(Row::clone(self.row(version)));
            self.world.trace.push(Trace::Write {
                session,
                table,
                old,
                new: None,
            });
        }
    }

    /// Levels of a transaction are rolled back: what they did to these versions is undone.
    pub(super) fn trace_undone(&mut self, session: SessionId, depth: u8, versions: &[VersionId]) {
        if !self.world.trace.is_on() {
            return;
        }
        for id in versions {
            let version = self.version(*id);
            let table = version.table.0;
            let made = matches!(version.birth, Birth::Running { owner, .. }
                if owner.session == session && owner.level >= depth);
            let deleted = version.holders.iter().any(|holder| {
                holder.owner.session == session
                    && holder.owner.level >= depth
                    && matches!(holder.hold, super::Hold::Delete(_) | super::Hold::Move(_))
            });
            let row = Row::clone(self.row(*id));
            if deleted {
                let row = Row::clone(&row);
                self.world.trace.push(Trace::Undone {
                    table,
                    row,
                    ended: true,
                });
            }
            if made {
                self.world.trace.push(Trace::Undone {
                    table,
                    row,
                    ended: false,
                });
            }
        }
    }
}
