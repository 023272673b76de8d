//! What settles a row: with its token (lease form), or under its lock (the others).

use std::sync::Arc;

use super::super::mutation::Mutation;
use super::super::table::{DeadLetter, Form};
use super::super::text::{Arg, Statement, Writer};
use super::super::token::Clock;
use super::Settlements;
use super::author::Author;
use crate::Dialect;

impl Author<'_> {
    pub(super) fn settlements(&self) -> Settlements {
        Settlements {
            done: vec![self.done()],
            retry: self.retry().into_iter().collect(),
            retry_after: self.retry_after().map(|statement| vec![statement]),
            dead_letter: self.dead_letter(),
        }
    }

    /// Whether settling ends a lease.
    fn is_lease(&self) -> bool {
        self.rules.form == Form::Lease
    }

    /// The column that a settlement counts up. In the other forms the claim has counted.
    fn counted_at_settlement(&self) -> Option<&Arc<str>> {
        let attempt = self.table.attempt.as_ref();
        attempt.filter(|_| self.rules.form == Form::RowLock)
    }

    fn settled(&self, w: &mut Writer) {
        self.held(w, self.mutated(Mutation::SettleWithoutToken));
    }

    /// `UPDATE .. SET first`, and with it the end of the lease, or the count of the attempt.
    fn settle_update(&self, first: Option<&dyn Fn(&mut Writer)>, count: bool) -> Statement {
        let mut w = self.writer();
        w.raw("UPDATE ");
        self.table_name(&mut w);
        w.raw(" SET ");
        let mut separator = "";
        if let Some(first) = first {
            first(&mut w);
            separator = ", ";
        }
        if let (true, Some(lease)) = (self.is_lease(), &self.table.locked_until) {
            w.raw(separator).name(lease).raw(" = NULL");
        }
        if let (true, Some(attempt)) = (count, self.counted_at_settlement()) {
            w.raw(separator).name(attempt).raw(" = ");
            w.name(attempt).raw(" + 1");
        }
        self.settled(&mut w);
        w.finish()
    }

    fn done(&self) -> Statement {
        if let Some(processed_at) = &self.table.processed_at {
            let set = |w: &mut Writer| {
                w.name(processed_at).raw(" = ");
                self.now(w);
            };
            return self.settle_update(Some(&set), false);
        }
        self.delete()
    }

    fn delete(&self) -> Statement {
        let mut w = self.writer();
        w.raw("DELETE FROM ");
        self.table_name(&mut w);
        self.settled(&mut w);
        w.finish()
    }

    fn retry(&self) -> Option<Statement> {
        (self.is_lease() || self.counted_at_settlement().is_some())
            .then(|| self.settle_update(None, true))
    }

    fn retry_after(&self) -> Option<Statement> {
        let due = self.table.retry_after.as_ref()?;
        let set = |w: &mut Writer| {
            w.name(due).raw(" = ");
            match self.rules.clock {
                Clock::Host => {
                    w.arg(Arg::RetryAt);
                }
                Clock::Database => self.later(w, false, Arg::RetryIn, Arg::RetryMicros),
            };
        };
        Some(self.settle_update(Some(&set), true))
    }

    fn dead_letter(&self) -> Option<Vec<Statement>> {
        match self.table.dead_letter.as_ref()? {
            DeadLetter::Group(_) => {
                let group = self.table.group.as_ref()?;
                let set = |w: &mut Writer| {
                    w.name(group).raw(" = ").arg(Arg::DeadGroup);
                };
                Some(vec![self.settle_update(Some(&set), false)])
            }
            DeadLetter::Table(table) if self.dialect == Dialect::Postgres => {
                Some(vec![self.move_to(table)])
            }
            DeadLetter::Table(table) => Some(vec![self.copy_to(table), self.delete()]),
        }
    }

    /// The columns that dead letters keep.
    fn kept(&self, w: &mut Writer) {
        let columns = std::iter::once(&self.table.id).chain(&self.table.payload);
        w.list(", ", columns, |w, column| {
            w.name(column);
        });
    }

    /// `INSERT INTO dead (columns) SELECT columns FROM `
    fn insert_into(&self, w: &mut Writer, dead: &str) {
        w.raw("INSERT INTO ");
        if let Some(schema) = &self.table.schema {
            w.name(schema).raw(".");
        }
        w.name(dead).raw(" (");
        self.kept(w);
        w.raw(") SELECT ");
        self.kept(w);
        w.raw(" FROM ");
    }

    /// Moves the row to the table of dead letters, in one statement (PostgreSQL).
    fn move_to(&self, dead: &str) -> Statement {
        let mut w = self.writer();
        w.raw("WITH gone AS (DELETE FROM ");
        self.table_name(&mut w);
        self.settled(&mut w);
        w.raw(" RETURNING ");
        self.kept(&mut w);
        w.raw(") ");
        self.insert_into(&mut w, dead);
        w.raw("gone");
        w.finish()
    }

    /// Copies the row to the table of dead letters; the delete follows.
    fn copy_to(&self, dead: &str) -> Statement {
        let mut w = self.writer();
        self.insert_into(&mut w, dead);
        self.table_name(&mut w);
        self.settled(&mut w);
        w.finish()
    }
}
