//! What the explorer asks of a server about transactions and leftovers, beside running statements.

use std::sync::Arc;

use rowlock_model::TransactionStatus;
use rowlock_model::schedule::SessionId;

use super::{AdvisoryKey, Postgres, Tag};
use crate::database::StatementId;

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
