//! The claims of the row-lock form and of the lease form, and the extension of a lease.

use std::sync::Arc;

use super::super::mutation::Mutation;
use super::super::table::DeclarationError;
use super::super::text::{Arg, OfIds, Statement, Writer};
use super::LeaseClaim;
use super::author::Author;
use crate::Dialect;

impl Author<'_> {
    /// `SELECT` of the first claimable rows in claim order, locked or not. Of a FIFO queue only the
    /// head.
    fn select_claimable(&self, w: &mut Writer, columns: &[&Arc<str>], lock: bool) {
        w.raw("SELECT ").list(", ", columns, |w, column| {
            w.name(column);
        });
        w.raw(" FROM ");
        self.table_name(w);
        let word = self.head(w, " WHERE ");
        self.claimable(w, word);
        self.order(w, "");
        w.raw(" LIMIT ").arg(Arg::Limit);
        if lock {
            w.raw(" FOR UPDATE SKIP LOCKED");
        }
    }

    /// The claim of the row-lock form.
    pub(super) fn lock_rows(&self) -> Statement {
        let mut w = self.writer();
        let lock = !self.mutated(Mutation::ClaimWithoutLock);
        self.select_claimable(&mut w, &self.columns(), lock);
        w.finish()
    }

    /// The claim of the lease form: lock, write the lease, answer with the rows as they were.
    pub(super) fn claim_lease(&self, locked_until: &str) -> Result<LeaseClaim, DeclarationError> {
        let subquery = match self.rules.mutation {
            Some(Mutation::LimitInSubquery) => Some(("IN", true)),
            Some(Mutation::PredicateOnlyInSubquery) => Some(("=", false)),
            _ => None,
        };
        match (self.dialect, subquery) {
            (Dialect::Postgres, None) => Ok(LeaseClaim::Single(self.claim_in_one(locked_until))),
            (Dialect::Postgres, Some((operator, lock))) => Ok(LeaseClaim::Single(
                self.claim_by_subquery(locked_until, operator, lock),
            )),
            (_, Some(_)) => Err(DeclarationError::Refused(
                "this mutation is a claim in one statement, of postgres only".into(),
            )),
            // One writer at a time: nothing changes between the choice and the update.
            (Dialect::Sqlite, None) => Ok(LeaseClaim::Single(self.claim_by_subquery(
                locked_until,
                "IN",
                false,
            ))),
            (Dialect::MySql | Dialect::MariaDb, None) => Ok(self.claim_stamped(locked_until)),
        }
    }

    /// PostgreSQL. The locking select stands in a CTE, which is run once: behind `IN` it may be run
    /// again for each row, and the limit with it.
    fn claim_in_one(&self, locked_until: &str) -> Statement {
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

    /// MySQL and MariaDB: a locking select, then an update of the rows that it locked.
    fn claim_stamped(&self, locked_until: &str) -> LeaseClaim {
        let mut lock = self.writer();
        self.select_claimable(&mut lock, &self.columns(), true);
        let mut before = self.writer();
        self.stamp(&mut before, locked_until);
        before.raw(" WHERE ").column("target", &self.table.id);
        let mut after = self.writer();
        if !self.mutated(Mutation::ClaimWithoutLease) {
            self.lease_free(&mut after, " AND ", locked_until);
        }
        LeaseClaim::Stamped {
            lock: lock.finish(),
            stamp: OfIds {
                before: before.finish(),
                after: after.finish(),
            },
        }
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

    /// One update with the choice of the rows behind its condition: right on SQLite, a mistake on
    /// PostgreSQL.
    fn claim_by_subquery(&self, locked_until: &str, operator: &str, lock: bool) -> Statement {
        let id = &self.table.id;
        let mut w = self.writer();
        self.stamp(&mut w, locked_until);
        w.raw(" WHERE ").column("target", id);
        w.raw(" ").raw(operator).raw(" (");
        self.select_claimable(&mut w, &[id], lock);
        w.raw(") RETURNING ");
        // SQLite's RETURNING does not know the alias of the updated table.
        let alias = match self.dialect {
            Dialect::Sqlite => "",
            _ => "target",
        };
        self.columns_before(&mut w, alias);
        w.finish()
    }

    /// Extends a lease that is held.
    pub(super) fn extend(&self, locked_until: &str) -> Statement {
        let mut w = self.writer();
        w.raw("UPDATE ");
        self.table_name(&mut w);
        w.raw(" SET ").name(locked_until).raw(" = ");
        if self.fence.is_some() {
            // A clock that stepped back must not shorten the lease. With the expiry as the token
            // the client has to know the new value, and cannot leave it to the server.
            w.raw(match self.dialect {
                Dialect::Sqlite => "max(",
                _ => "greatest(",
            });
            w.name(locked_until).raw(", ");
            self.expiry(&mut w);
            w.raw(")");
        } else {
            self.expiry(&mut w);
        }
        self.held(&mut w, self.mutated(Mutation::ExtendWithoutToken));
        w.finish()
    }

    /// Finds the row if its lease is held, and locks it until the end of the transaction.
    ///
    /// A select, not an update of the lease to itself: such an update hits 0 rows for a client of
    /// MySQL that counts changed rows.
    pub(super) fn prove(&self, locked_until: &str) -> Statement {
        let mut w = self.writer();
        if self.dialect == Dialect::Sqlite {
            // Takes the lock of the database; SQLite counts what it matched.
            w.raw("UPDATE ");
            self.table_name(&mut w);
            w.raw(" SET ").name(locked_until).raw(" = ");
            w.name(locked_until);
            self.held(&mut w, false);
            w.raw(" RETURNING ").name(&self.table.id);
            return w.finish();
        }
        w.raw("SELECT ").name(&self.table.id).raw(" FROM ");
        self.table_name(&mut w);
        self.held(&mut w, false);
        w.raw(" FOR UPDATE");
        w.finish()
    }
}
