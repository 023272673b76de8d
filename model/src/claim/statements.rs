//! The statements of the claim forms, written once for a table.
//!
//! Claimable is: of the group, unfinished, due, and (lease form) free. Claim order is priority,
//! due instant, id; each part only if the table has the column.

use std::sync::Arc;

use super::mutation::Mutation;
use super::settle::Settlement;
use super::table::{DeadLetter, DeclarationError, InstantType, Table};
use super::text::{Arg, Statement, Writer};
use super::token::{Clock, TokenRule};
use crate::Dialect;

/// What the texts of one form depend on besides the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Lease form: what a settlement must match; `None` in the row-lock form, whose lock is proof.
    pub(super) token: Option<TokenRule>,
    pub(super) clock: Clock,
    pub(super) mutation: Option<Mutation>,
}

/// One statement for each kind of settlement; `None` where the table cannot do it, or where
/// nothing is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settlements {
    done: Statement,
    retry: Option<Statement>,
    retry_after: Option<Statement>,
    dead_letter: Option<Statement>,
}

impl Settlements {
    /// The statement that carries out `settlement`; `None`: leave the row as it is.
    pub(super) fn statement(
        &self,
        settlement: Settlement,
    ) -> Result<Option<&Statement>, DeclarationError> {
        let missing = |needs, role| DeclarationError::Missing { needs, role };
        match settlement {
            Settlement::Ack | Settlement::Drop => Ok(Some(&self.done)),
            Settlement::Retry => Ok(self.retry.as_ref()),
            Settlement::RetryAfter(_) => match &self.retry_after {
                Some(statement) => Ok(Some(statement)),
                None => Err(missing("a retry after some time", "retry_after")),
            },
            Settlement::DeadLetter => match &self.dead_letter {
                Some(statement) => Ok(Some(statement)),
                None => Err(DeclarationError::Refused(
                    "the table names no place for dead letters".into(),
                )),
            },
        }
    }
}

/// The texts of the row-lock form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowLockStatements {
    pub(super) claim: Statement,
    pub(super) settle: Settlements,
}

/// The texts of the lease form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseStatements {
    pub(super) claim: Statement,
    pub(super) extend: Statement,
    pub(super) settle: Settlements,
}

impl RowLockStatements {
    pub(super) fn new(
        dialect: Dialect,
        table: &Table,
        rules: Rules,
    ) -> Result<RowLockStatements, DeclarationError> {
        let author = Author::new(dialect, table, rules)?;
        Ok(RowLockStatements {
            claim: author.lock_rows(),
            settle: author.settlements(),
        })
    }
}

impl LeaseStatements {
    pub(super) fn new(
        dialect: Dialect,
        table: &Table,
        rules: Rules,
    ) -> Result<LeaseStatements, DeclarationError> {
        let author = Author::new(dialect, table, rules)?;
        let locked_until = author.lease_column()?;
        Ok(LeaseStatements {
            claim: author.claim_lease(locked_until),
            extend: author.extend(locked_until),
            settle: author.settlements(),
        })
    }
}

/// The column that proves which claim of a row this is.
pub(super) fn fence_column(
    table: &Table,
    rule: TokenRule,
) -> Result<Option<&Arc<str>>, DeclarationError> {
    match rule {
        TokenRule::Expiry => Ok(None),
        TokenRule::Fenced => match table.fence.as_ref().or(table.attempt.as_ref()) {
            Some(column) => Ok(Some(column)),
            None => Err(DeclarationError::Missing {
                needs: "a fenced token (the safe rule, see `TokenRule`)",
                role: "attempt or fence",
            }),
        },
    }
}

/// Writes the texts for one table.
struct Author<'t> {
    dialect: Dialect,
    table: &'t Table,
    rules: Rules,
    fence: Option<&'t Arc<str>>,
}

impl<'t> Author<'t> {
    fn new(
        dialect: Dialect,
        table: &'t Table,
        rules: Rules,
    ) -> Result<Author<'t>, DeclarationError> {
        table.validate(dialect)?;
        if dialect != Dialect::Postgres {
            return Err(DeclarationError::Refused(
                format!("the claim forms have no statements for {dialect} yet").into(),
            ));
        }
        let fence = match rules.token {
            Some(rule) => fence_column(table, rule)?,
            None => None,
        };
        if rules.token == Some(TokenRule::Expiry) && rules.clock == Clock::Database {
            return Err(DeclarationError::Refused(
                "a lease on the database's clock needs a fenced token: its end is not known to \
                 the client"
                    .into(),
            ));
        }
        Ok(Author {
            dialect,
            table,
            rules,
            fence,
        })
    }

    fn lease_column(&self) -> Result<&'t Arc<str>, DeclarationError> {
        self.table
            .locked_until
            .as_ref()
            .ok_or(DeclarationError::Missing {
                needs: "the lease form",
                role: "locked_until",
            })
    }

    fn writer(&self) -> Writer {
        Writer::new(self.dialect)
    }

    fn mutated(&self, mutation: Mutation) -> bool {
        self.rules.mutation == Some(mutation)
    }

    fn table_name(&self, w: &mut Writer) {
        if let Some(schema) = &self.table.schema {
            w.name(schema).raw(".");
        }
        w.name(&self.table.name);
    }

    /// The present instant, as a value of the instant columns.
    fn now(&self, w: &mut Writer) {
        match (self.rules.clock, self.table.instants) {
            (Clock::Host, _) => w.arg(Arg::Now),
            // Not `now()`: that is the start of the transaction, and a handler may run for long.
            (Clock::Database, InstantType::WithTimeZone) => w.raw("statement_timestamp()"),
            (Clock::Database, InstantType::WithoutTimeZone) => {
                w.raw("(statement_timestamp() AT TIME ZONE 'UTC')")
            }
        };
    }

    /// The columns of a claimed row: id, those of the order, counters, payload.
    fn columns(&self) -> Vec<&'t Arc<str>> {
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

    /// ` WHERE` the row is claimable.
    fn claimable(&self, w: &mut Writer) {
        let table = self.table;
        let mut word = " WHERE ";
        if let Some(group) = &table.group {
            w.raw(word).name(group).raw(" = ").arg(Arg::Group);
            word = " AND ";
        }
        if let Some(processed_at) = &table.processed_at {
            w.raw(word).name(processed_at).raw(" IS NULL");
            word = " AND ";
        }
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
            w.raw(word).raw("(").name(lease).raw(" IS NULL OR ");
            w.name(lease).raw(" <= ");
            self.now(w);
            w.raw(")");
        }
    }

    /// ` ORDER BY` the claim order, on columns of `alias`.
    fn order(&self, w: &mut Writer, alias: &str) {
        w.raw(" ORDER BY ");
        w.list(", ", self.table.order(), |w, column| {
            w.column(alias, column);
        });
    }

    /// `SELECT` of the first claimable rows in claim order, locked or not.
    fn select_claimable(&self, w: &mut Writer, columns: &[&Arc<str>], lock: bool) {
        w.raw("SELECT ").list(", ", columns, |w, column| {
            w.name(column);
        });
        w.raw(" FROM ");
        self.table_name(w);
        self.claimable(w);
        self.order(w, "");
        w.raw(" LIMIT ").arg(Arg::Limit);
        if lock {
            w.raw(" FOR UPDATE SKIP LOCKED");
        }
    }

    /// The claim of the row-lock form.
    fn lock_rows(&self) -> Statement {
        let mut w = self.writer();
        let lock = !self.mutated(Mutation::ClaimWithoutLock);
        self.select_claimable(&mut w, &self.columns(), lock);
        w.finish()
    }

    /// The claim of the lease form: lock, write the lease, answer with the rows as they were.
    ///
    /// The locking select stands in a CTE, which PostgreSQL runs once: behind `IN` it may be run
    /// again for each row, and the limit with it.
    fn claim_lease(&self, locked_until: &str) -> Statement {
        if self.mutated(Mutation::LimitInSubquery) {
            return self.claim_by_subquery(locked_until, "IN", true);
        }
        if self.mutated(Mutation::PredicateOnlyInSubquery) {
            return self.claim_by_subquery(locked_until, "=", false);
        }
        let (id, columns) = (&self.table.id, self.columns());
        let mut w = self.writer();
        w.raw("WITH candidate AS (");
        self.select_claimable(&mut w, &columns, true);
        w.raw("), claimed AS (");
        self.stamp(&mut w, locked_until);
        w.raw(" FROM candidate WHERE ").column("target", id);
        w.raw(" = ").column("candidate", id);
        w.raw(" RETURNING ").column("target", id);
        w.raw(") SELECT ").list(", ", &columns, |w, column| {
            w.column("candidate", column);
        });
        w.raw(" FROM candidate JOIN claimed ON ");
        w.column("claimed", id).raw(" = ").column("candidate", id);
        self.order(&mut w, "candidate");
        w.finish()
    }

    /// `UPDATE` that writes a new lease and counts the claim.
    fn stamp(&self, w: &mut Writer, locked_until: &str) {
        w.raw("UPDATE ");
        self.table_name(w);
        w.raw(" AS target SET ").name(locked_until).raw(" = ");
        self.expiry(w);
        for column in self.counted() {
            w.raw(", ").name(column).raw(" = ");
            w.column("target", column).raw(" + 1");
        }
    }

    /// The columns that count claims.
    fn counted(&self) -> Vec<&'t Arc<str>> {
        let attempt = self.table.attempt.as_ref();
        let fence = self.fence.filter(|fence| Some(*fence) != attempt);
        attempt.into_iter().chain(fence).collect()
    }

    /// The end of a lease that begins now.
    fn expiry(&self, w: &mut Writer) {
        match (self.rules.clock, self.table.instants) {
            (Clock::Host, _) => w.arg(Arg::Expiry),
            // Read when the row is written, so that a wait inside the statement costs nothing.
            (Clock::Database, InstantType::WithTimeZone) => {
                w.raw("clock_timestamp() + ").arg(Arg::Lease)
            }
            (Clock::Database, InstantType::WithoutTimeZone) => w
                .raw("(clock_timestamp() AT TIME ZONE 'UTC') + ")
                .arg(Arg::Lease),
        };
    }

    /// The two mistaken claims that put the choice of the row behind the update's condition.
    fn claim_by_subquery(&self, locked_until: &str, operator: &str, lock: bool) -> Statement {
        let id = &self.table.id;
        let counted = self.counted();
        let mut w = self.writer();
        self.stamp(&mut w, locked_until);
        w.raw(" WHERE ").column("target", id);
        w.raw(" ").raw(operator).raw(" (");
        self.select_claimable(&mut w, &[id], lock);
        w.raw(") RETURNING ")
            .list(", ", self.columns(), |w, column| {
                w.column("target", column);
                if counted.contains(&column) {
                    w.raw(" - 1 AS ").name(column);
                }
            });
        w.finish()
    }

    /// Extends a lease that is held.
    fn extend(&self, locked_until: &str) -> Statement {
        let mut w = self.writer();
        w.raw("UPDATE ");
        self.table_name(&mut w);
        w.raw(" SET ").name(locked_until).raw(" = ");
        if self.fence.is_some() {
            // A clock that stepped back must not shorten the lease. With the expiry as the token
            // the client has to know the new value, and cannot leave it to the server.
            w.raw("greatest(").name(locked_until).raw(", ");
            self.expiry(&mut w);
            w.raw(")");
        } else {
            self.expiry(&mut w);
        }
        self.held(&mut w, self.mutated(Mutation::ExtendWithoutToken));
        w.finish()
    }

    /// ` WHERE` the row is the one that is held.
    fn held(&self, w: &mut Writer, by_id_only: bool) {
        w.raw(" WHERE ")
            .name(&self.table.id)
            .raw(" = ")
            .arg(Arg::Id);
        let Some(locked_until) = &self.table.locked_until else {
            return;
        };
        if by_id_only {
            return;
        }
        match (self.rules.token, self.fence) {
            (Some(_), Some(fence)) => {
                w.raw(" AND ").name(fence).raw(" = ").arg(Arg::Fence);
                // Given back and not claimed again: the number is still the last holder's.
                w.raw(" AND ").name(locked_until).raw(" IS NOT NULL");
            }
            (Some(_), None) => {
                w.raw(" AND ").name(locked_until);
                w.raw(" = ").arg(Arg::HeldExpiry);
            }
            (None, _) => {}
        }
    }

    fn settlements(&self) -> Settlements {
        Settlements {
            done: self.done(),
            retry: self.retry(),
            retry_after: self.retry_after(),
            dead_letter: self.dead_letter(),
        }
    }

    /// Whether settling ends a lease, and does not count the attempt (the claim did).
    fn is_lease(&self) -> bool {
        self.rules.token.is_some()
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
        if let (false, true, Some(attempt)) = (self.is_lease(), count, &self.table.attempt) {
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
        let mut w = self.writer();
        w.raw("DELETE FROM ");
        self.table_name(&mut w);
        self.settled(&mut w);
        w.finish()
    }

    fn retry(&self) -> Option<Statement> {
        (self.is_lease() || self.table.attempt.is_some()).then(|| self.settle_update(None, true))
    }

    fn retry_after(&self) -> Option<Statement> {
        let due = self.table.retry_after.as_ref()?;
        let set = |w: &mut Writer| {
            w.name(due).raw(" = ");
            match self.rules.clock {
                Clock::Host => w.arg(Arg::RetryAt),
                Clock::Database => {
                    self.now(w);
                    w.raw(" + ").arg(Arg::RetryIn)
                }
            };
        };
        Some(self.settle_update(Some(&set), true))
    }

    fn dead_letter(&self) -> Option<Statement> {
        match self.table.dead_letter.as_ref()? {
            DeadLetter::Group(_) => {
                let group = self.table.group.as_ref()?;
                let set = |w: &mut Writer| {
                    w.name(group).raw(" = ").arg(Arg::DeadGroup);
                };
                Some(self.settle_update(Some(&set), false))
            }
            DeadLetter::Table(table) => Some(self.move_to(table)),
        }
    }

    /// Moves the row to the table of dead letters, in one statement.
    fn move_to(&self, dead: &str) -> Statement {
        let columns: Vec<&Arc<str>> = std::iter::once(&self.table.id)
            .chain(&self.table.payload)
            .collect();
        let list = |w: &mut Writer| {
            w.list(", ", &columns, |w, column| {
                w.name(column);
            });
        };
        let mut w = self.writer();
        w.raw("WITH gone AS (DELETE FROM ");
        self.table_name(&mut w);
        self.settled(&mut w);
        w.raw(" RETURNING ");
        list(&mut w);
        w.raw(") INSERT INTO ");
        if let Some(schema) = &self.table.schema {
            w.name(schema).raw(".");
        }
        w.name(dead).raw(" (");
        list(&mut w);
        w.raw(") SELECT ");
        list(&mut w);
        w.raw(" FROM gone");
        w.finish()
    }
}
