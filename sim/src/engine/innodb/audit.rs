//! What the explorer asks of a server about transactions and leftovers, beside running statements.

use std::sync::Arc;

use rowlock_model::TransactionStatus;
use rowlock_model::schedule::SessionId;

use super::InnoDb;
use super::key::Key;
use super::shape::IndexId;
use super::store::Store;
use crate::database::StatementId;
use crate::loose::catalog::TableId;
use crate::trace::Trace;

impl InnoDb {
    /// The text of a prepared statement.
    pub(super) fn text_of(&self, statement: StatementId) -> Arc<str> {
        Arc::clone(&self.texts[statement.0 as usize])
    }

    /// Whether a transaction is open: begun, or by a statement without autocommit.
    pub(super) fn is_in_transaction(&self, session: SessionId) -> bool {
        self.store.session(session).status() != TransactionStatus::Idle
    }

    /// An open transaction, locks of `GET_LOCK` and `LOCK TABLES`.
    pub(super) fn kept_by(&self, session: SessionId) -> Vec<String> {
        let mut kept = Vec::new();
        if self.is_in_transaction(session) {
            kept.push("an open transaction".to_owned());
        }
        let locks = self.store.user_locks().iter();
        for (name, _, _) in locks.filter(|(_, by, granted)| *by == session && *granted) {
            kept.push(format!("the lock '{name}'"));
        }
        for name in self.store.session(session).locked_tables.keys() {
            kept.push(format!("LOCK TABLES on {name}"));
        }
        kept
    }

    /// The stored tables that everybody sees.
    pub(super) fn user_tables(&self) -> Vec<String> {
        let tables = self.store.schema().by_name();
        tables
            .filter(|shape| !shape.table.temporary)
            .map(|shape| format!("`{}`", shape.table.name.replace('`', "``")))
            .collect()
    }
}

impl Store {
    /// The newest version of a row is about to be taken back.
    pub(super) fn trace_undone(&mut self, table: TableId, index: IndexId, key: &Key) {
        let Some(record) = self.records(index).get(key) else {
            return;
        };
        let ended = record.newest.deleted;
        let version = match ended {
            true => record.older.first().unwrap_or(&record.newest),
            false => &record.newest,
        };
        let row = version.row.clone();
        self.world.trace.push(Trace::Undone {
            table: table.0,
            row,
            ended,
        });
    }
}
