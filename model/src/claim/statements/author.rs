//! What the texts of all forms have in common.

use std::sync::Arc;

use super::super::mutation::Mutation;
use super::super::table::{DeclarationError, Form, InstantType, Table};
use super::super::text::{Arg, Writer};
use super::super::token::{Clock, TokenRule};
use super::{Rules, fence_column};
use crate::Dialect;

/// Writes the texts for one table.
pub(super) struct Author<'t> {
    pub(super) dialect: Dialect,
    pub(super) table: &'t Table,
    pub(super) rules: Rules,
    /// Lease form: the column that proves which claim this is.
    pub(super) fence: Option<&'t Arc<str>>,
    instants: InstantType,
}

impl<'t> Author<'t> {
    pub(super) fn new(
        dialect: Dialect,
        table: &'t Table,
        rules: Rules,
    ) -> Result<Author<'t>, DeclarationError> {
        table.validate(dialect)?;
        let is_lease = rules.form == Form::Lease;
        if is_lease && rules.token == TokenRule::Expiry && rules.clock == Clock::Database {
            return Err(DeclarationError::Refused(
                "a lease on the database's clock needs a fenced token: its end is not known to \
                 the client"
                    .into(),
            ));
        }
        let fence = match rules.form {
            Form::Lease => fence_column(table, rules.token)?,
            Form::RowLock | Form::Advisory => None,
        };
        Ok(Author {
            dialect,
            table,
            rules,
            fence,
            instants: table.instants_on(dialect),
        })
    }

    pub(super) fn lease_column(&self) -> Result<&'t Arc<str>, DeclarationError> {
        self.table
            .locked_until
            .as_ref()
            .ok_or(DeclarationError::Missing {
                needs: "the lease form",
                role: "locked_until",
            })
    }

    pub(super) fn writer(&self) -> Writer {
        Writer::new(self.dialect)
    }

    pub(super) fn mutated(&self, mutation: Mutation) -> bool {
        self.rules.mutation == Some(mutation)
    }

    pub(super) fn table_name(&self, w: &mut Writer) {
        if let Some(schema) = &self.table.schema {
            w.name(schema).raw(".");
        }
        w.name(&self.table.name);
    }

    /// The database's clock, as a value of the instant columns: as the statement began, or `live`,
    /// when the row is written (PostgreSQL only; the others freeze it).
    fn server_clock(&self, w: &mut Writer, live: bool) {
        // Not `now()`: that is the start of the transaction, and a handler may run for long.
        let postgres = match live {
            true => "clock_timestamp()",
            false => "statement_timestamp()",
        };
        match (self.dialect, self.instants) {
            (Dialect::Postgres, InstantType::WithTimeZone) => w.raw(postgres),
            (Dialect::Postgres, InstantType::WithoutTimeZone) => {
                w.raw("(").raw(postgres).raw(" AT TIME ZONE 'UTC')")
            }
            (Dialect::Postgres, InstantType::Microseconds) => w
                .raw("(extract(epoch FROM ")
                .raw(postgres)
                .raw(") * 1000000)::bigint"),
            (Dialect::MySql | Dialect::MariaDb, InstantType::Microseconds) => {
                w.raw("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
            }
            (Dialect::MySql | Dialect::MariaDb, _) => w.raw("UTC_TIMESTAMP(6)"),
            // Milliseconds: what SQLite's clock has.
            (Dialect::Sqlite, _) => {
                w.raw("(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000)")
            }
        };
    }

    /// The present instant, as a value of the instant columns.
    pub(super) fn now(&self, w: &mut Writer) {
        match self.rules.clock {
            Clock::Host => {
                w.arg(Arg::Now);
            }
            Clock::Database => self.server_clock(w, false),
        }
    }

    /// The database's clock and a length of time, given as an interval or in microseconds.
    pub(super) fn later(&self, w: &mut Writer, live: bool, interval: Arg, micros: Arg) {
        self.server_clock(w, live);
        match (self.dialect, self.instants) {
            (Dialect::Postgres, InstantType::WithTimeZone | InstantType::WithoutTimeZone) => {
                w.raw(" + ").arg(interval)
            }
            (Dialect::MySql | Dialect::MariaDb, InstantType::WithoutTimeZone) => {
                w.raw(" + INTERVAL ").arg(micros).raw(" MICROSECOND")
            }
            _ => w.raw(" + ").arg(micros),
        };
    }

    /// The end of a lease that begins now.
    pub(super) fn expiry(&self, w: &mut Writer) {
        match self.rules.clock {
            Clock::Host => {
                w.arg(Arg::Expiry);
            }
            // Read when the row is written, so that a wait inside the statement costs nothing.
            Clock::Database => self.later(w, true, Arg::Lease, Arg::LeaseMicros),
        }
    }

    /// The columns of a claimed row: id, those of the order, counters, payload.
    pub(super) fn columns(&self) -> Vec<&'t Arc<str>> {
        let table = self.table;
        let roles = [&table.priority, &table.retry_after, &table.attempt];
        let mut columns = vec![&table.id];
        columns.extend(roles.into_iter().flatten());
        columns.extend(
            self.fence
                .filter(|fence| table.fence.as_ref() == Some(fence)),
        );
        columns.extend(&table.payload);
        columns
    }

    /// The columns that count claims.
    pub(super) fn counted(&self) -> Vec<&'t Arc<str>> {
        let attempt = self.table.attempt.as_ref();
        let fence = self.fence.filter(|fence| Some(*fence) != attempt);
        attempt.into_iter().chain(fence).collect()
    }

    /// The columns of a claimed row after the claim has counted, as they were before it.
    pub(super) fn columns_before(&self, w: &mut Writer, alias: &str) {
        let counted = self.counted();
        w.list(", ", self.columns(), |w, column| {
            w.column(alias, column);
            if counted.contains(&column) {
                w.raw(" - 1 AS ").name(column);
            }
        });
    }

    /// Conditions on the group and on being unfinished; the first one begins with `word`. Returns
    /// the word of the next one.
    pub(super) fn unfinished(&self, w: &mut Writer, mut word: &'static str) -> &'static str {
        if let Some(group) = &self.table.group {
            w.raw(word).name(group).raw(" = ").arg(Arg::Group);
            word = " AND ";
        }
        if let Some(processed_at) = &self.table.processed_at {
            w.raw(word).name(processed_at).raw(" IS NULL");
            word = " AND ";
        }
        word
    }

    /// Conditions that the row is claimable; the first one begins with `word`. Returns the word of
    /// the next one.
    pub(super) fn claimable(&self, w: &mut Writer, word: &'static str) -> &'static str {
        let table = self.table;
        let mut word = self.unfinished(w, word);
        if let Some(due) = &table.retry_after {
            w.raw(word).raw("(").name(due).raw(" IS NULL OR ");
            w.name(due).raw(" <= ");
            self.now(w);
            w.raw(")");
            word = " AND ";
        }
        // A table may have leases and be claimed by row locks as well; then both must be respected.
        if let Some(lease) = &table.locked_until
            && !self.mutated(Mutation::ClaimWithoutLease)
        {
            self.lease_free(w, word, lease);
            word = " AND ";
        }
        word
    }

    /// The condition that no lease runs.
    pub(super) fn lease_free(&self, w: &mut Writer, word: &str, lease: &str) {
        w.raw(word).raw("(").name(lease).raw(" IS NULL OR ");
        w.name(lease).raw(" <= ");
        self.now(w);
        w.raw(")");
    }

    /// ` ORDER BY` the claim order, on columns of `alias`.
    pub(super) fn order(&self, w: &mut Writer, alias: &str) {
        w.raw(" ORDER BY ");
        w.list(", ", self.table.order(), |w, column| {
            w.column(alias, column);
        });
    }

    /// ` WHERE` the row is the one that is held.
    pub(super) fn held(&self, w: &mut Writer, by_id_only: bool) {
        w.raw(" WHERE ")
            .name(&self.table.id)
            .raw(" = ")
            .arg(Arg::Id);
        let Some(locked_until) = &self.table.locked_until else {
            return;
        };
        if by_id_only || self.rules.form != Form::Lease {
            return;
        }
        match self.fence {
            Some(fence) => {
                w.raw(" AND ").name(fence).raw(" = ").arg(Arg::Fence);
                // Given back and not claimed again: the number is still the last holder's.
                w.raw(" AND ").name(locked_until).raw(" IS NOT NULL");
            }
            None => {
                w.raw(" AND ").name(locked_until);
                w.raw(" = ").arg(Arg::HeldExpiry);
            }
        }
    }
}
