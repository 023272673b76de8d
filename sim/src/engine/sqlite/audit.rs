//! What the explorer asks of a database about transactions and leftovers, beside running statements.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;

use super::Sqlite;
use crate::database::StatementId;

impl Sqlite {
    /// The text of a prepared statement.
    pub(super) fn text_of(&self, statement: StatementId) -> Arc<str> {
        Arc::clone(&self.texts[statement.0 as usize])
    }

    /// Whether a transaction is open.
    pub(super) fn is_in_transaction(&self, session: SessionId) -> bool {
        self.session(session).in_transaction
    }

    /// An open transaction: a connection keeps nothing else.
    pub(super) fn kept_by(&self, session: SessionId) -> Vec<String> {
        match self.is_in_transaction(session) {
            true => vec!["an open transaction".to_owned()],
            false => Vec::new(),
        }
    }

    /// The number of the commit whose image a session reads.
    pub(super) fn snapshot_number(&self, session: SessionId) -> u64 {
        let snapshot = &self.session(session).snapshot;
        snapshot
            .as_ref()
            .map_or(self.file().version, |(_, number)| *number)
    }

    /// The tables of the committed schema.
    pub(super) fn user_tables(&self) -> Vec<String> {
        let tables = self.file().image.schema.tables.values();
        tables
            .filter(|table| !table.temporary)
            .map(|table| format!("\"{}\"", table.name.replace('"', "\"\"")))
            .collect()
    }
}
