//! The advisory form: candidates, the lock of a key, and taking a row under it.

use std::sync::Arc;

use super::super::mutation::Mutation;
use super::super::table::{DeclarationError, KeyPart};
use super::super::text::{Arg, Statement, Writer};
use super::Take;
use super::author::Author;
use crate::Dialect;

impl Author<'_> {
    /// The pieces of the key, checked for the database.
    pub(super) fn key(&self) -> Result<Vec<KeyPart>, DeclarationError> {
        let parts = self.table.key_parts()?;
        let backslash = |part: &KeyPart| matches!(part, KeyPart::Text(t) if t.contains('\\'));
        if matches!(self.dialect, Dialect::MySql | Dialect::MariaDb) && parts.iter().any(backslash)
        {
            return Err(DeclarationError::Refused(
                "an advisory key on mysql and mariadb has no backslash, whose meaning depends on \
                 the mode of the server"
                    .into(),
            ));
        }
        Ok(parts)
    }

    /// The text of the key of a row. Columns that are `NULL` count as empty.
    fn key_text(&self, w: &mut Writer, parts: &[KeyPart]) {
        let write = |w: &mut Writer, part: &KeyPart| {
            match part {
                KeyPart::Text(text) => w.literal(text),
                KeyPart::Column(column) if self.dialect == Dialect::Sqlite => {
                    w.raw("coalesce(").name(column).raw(", '')")
                }
                KeyPart::Column(column) => w.name(column),
            };
        };
        match self.dialect {
            Dialect::Postgres => w.raw("concat(").list(", ", parts, write).raw(")"),
            // CONCAT_WS leaves out what is NULL.
            Dialect::MySql | Dialect::MariaDb => {
                w.raw("CONCAT_WS('', ").list(", ", parts, write).raw(")")
            }
            // `||` makes text of numbers.
            Dialect::Sqlite => w.raw("'' || ").list(" || ", parts, write),
        };
    }

    /// The name of the lock of a row: its key; on MySQL and MariaDB, whose locks belong to the
    /// server, behind the name of the database, and hashed if that is too long for a name.
    fn lock_name(&self, w: &mut Writer, parts: &[KeyPart]) {
        if !matches!(self.dialect, Dialect::MySql | Dialect::MariaDb) {
            return self.key_text(w, parts);
        }
        let full = |w: &mut Writer| {
            // The connection's character set, whatever those of the columns are.
            w.raw("CAST(CONCAT(LOWER(DATABASE()), '.', ");
            self.key_text(w, parts);
            w.raw(") AS CHAR)");
        };
        w.raw("IF(CHAR_LENGTH(");
        full(w);
        w.raw(") <= 64, ");
        full(w);
        w.raw(", SHA2(");
        full(w);
        w.raw(", 256))");
    }

    /// Claimable rows in claim order, as id and name of their lock.
    fn inner_candidates(&self, w: &mut Writer, parts: &[KeyPart]) {
        let table = self.table;
        w.raw("SELECT ").name(&table.id).raw(" AS row_id, ");
        self.lock_name(w, parts);
        w.raw(" AS row_key FROM ");
        self.table_name(w);
        self.claimable(w, " WHERE ");
        self.order(w, "");
    }

    /// The candidates of a claim; with `probe`, without those whose key somebody holds.
    ///
    /// On PostgreSQL the probe takes a shared lock for the length of the statement, above the
    /// ordered select and behind `OFFSET 0`, so that it runs only until the limit is reached. Such a
    /// lock may for that moment turn away another claimer, who then comes back later.
    pub(super) fn candidates(&self, parts: &[KeyPart], probe: bool) -> Statement {
        let mut w = self.writer();
        match (self.dialect, probe) {
            (Dialect::Postgres, true) => {
                w.raw("SELECT row_id, row_key FROM (");
                self.inner_candidates(&mut w, parts);
                w.raw(" OFFSET 0) AS candidate WHERE ");
                w.raw("pg_try_advisory_xact_lock_shared(hashtextextended(row_key, 0)) LIMIT ");
                w.arg(Arg::Limit);
            }
            (Dialect::MySql | Dialect::MariaDb, true) => {
                let table = self.table;
                w.raw("SELECT ").name(&table.id).raw(" AS row_id, ");
                self.lock_name(&mut w, parts);
                w.raw(" AS row_key FROM ");
                self.table_name(&mut w);
                let word = self.claimable(&mut w, " WHERE ");
                w.raw(word).raw("IS_USED_LOCK(");
                self.lock_name(&mut w, parts);
                w.raw(") IS NULL");
                self.order(&mut w, "");
                w.raw(" LIMIT ").arg(Arg::Limit);
            }
            _ => {
                self.inner_candidates(&mut w, parts);
                w.raw(" LIMIT ").arg(Arg::Limit);
            }
        }
        w.finish()
    }

    /// Takes the lock of a key without waiting.
    pub(super) fn lock_key(&self) -> Option<Statement> {
        self.on_key("pg_try_advisory_lock", "GET_LOCK", ", 0", "locked")
    }

    /// Gives the lock of a key back.
    pub(super) fn unlock_key(&self) -> Option<Statement> {
        self.on_key("pg_advisory_unlock", "RELEASE_LOCK", "", "unlocked")
    }

    /// A call with the lock of a key; `more` are further arguments of the MySQL function.
    fn on_key(&self, postgres: &str, mysql: &str, more: &str, answer: &str) -> Option<Statement> {
        let mut w = self.writer();
        w.raw("SELECT ");
        match self.dialect {
            Dialect::Postgres => w
                .raw(postgres)
                .raw("(hashtextextended(")
                .arg(Arg::Key)
                .raw(", 0))"),
            Dialect::MySql | Dialect::MariaDb => {
                w.raw(mysql).raw("(").arg(Arg::Key).raw(more).raw(")")
            }
            Dialect::Sqlite => return None,
        };
        w.raw(" AS ").raw(answer);
        Some(w.finish())
    }

    /// ` WHERE` the row is the one whose key is locked, and still claimable.
    fn still_claimable(&self, w: &mut Writer) {
        w.raw(" WHERE ")
            .name(&self.table.id)
            .raw(" = ")
            .arg(Arg::Id);
        if !self.mutated(Mutation::TakeWithoutCheck) {
            self.claimable(w, " AND ");
        }
    }

    /// Takes a row: it may have been settled between the choice and the lock.
    pub(super) fn take(&self) -> Take {
        let Some(attempt) = &self.table.attempt else {
            // Nothing to count: reading is enough, since the lock is held.
            let mut w = self.writer();
            self.select_row(&mut w);
            self.still_claimable(&mut w);
            return Take {
                count: None,
                read: w.finish(),
            };
        };
        let mut count = self.writer();
        self.count_attempt(&mut count, attempt);
        if matches!(self.dialect, Dialect::Postgres | Dialect::Sqlite) {
            count.raw(" RETURNING ");
            self.columns_before(&mut count, "");
            return Take {
                count: None,
                read: count.finish(),
            };
        }
        let mut read = self.writer();
        self.select_row(&mut read);
        read.raw(" WHERE ")
            .name(&self.table.id)
            .raw(" = ")
            .arg(Arg::Id);
        Take {
            count: Some(count.finish()),
            read: read.finish(),
        }
    }

    fn count_attempt(&self, w: &mut Writer, attempt: &Arc<str>) {
        w.raw("UPDATE ");
        self.table_name(w);
        w.raw(" SET ").name(attempt).raw(" = ");
        w.name(attempt).raw(" + 1");
        self.still_claimable(w);
    }

    fn select_row(&self, w: &mut Writer) {
        w.raw("SELECT ");
        self.columns_before(w, "");
        w.raw(" FROM ");
        self.table_name(w);
    }
}
