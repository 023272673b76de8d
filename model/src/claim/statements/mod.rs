//! The statements of the claim forms, written once for a table.
//!
//! Claimable is: of the group, unfinished, due, and (lease form) free. Claim order is priority,
//! due instant, id; each part only if the table has the column.

mod advisory;
mod author;
mod claim;
mod fifo;
mod settle;

use std::sync::Arc;

use super::mutation::Mutation;
use super::settle::Settlement;
use super::table::{DeclarationError, Form, Table};
use super::text::{OfIds, Statement};
use super::token::{Clock, TokenRule};
use crate::Dialect;
use author::Author;

pub use fifo::FifoGuard;
pub(super) use fifo::Guard;

/// What the texts of one form depend on besides the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) form: Form,
    /// Lease form: what a settlement must match. The locks of the other forms are proof.
    pub(super) token: TokenRule,
    pub(super) clock: Clock,
    pub(super) fifo: Option<FifoGuard>,
    pub(super) mutation: Option<Mutation>,
}

impl Rules {
    pub(super) fn of(form: Form) -> Rules {
        Rules {
            form,
            token: TokenRule::default(),
            clock: Clock::default(),
            fifo: None,
            mutation: None,
        }
    }
}

/// The statements for each kind of settlement: run in one transaction, the last one hits the row
/// if it is still ours. No statement: nothing is to be written. `None`: the table cannot do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settlements {
    done: Vec<Statement>,
    retry: Vec<Statement>,
    retry_after: Option<Vec<Statement>>,
    dead_letter: Option<Vec<Statement>>,
}

impl Settlements {
    /// The statements that carry out `settlement`.
    pub(super) fn statements(
        &self,
        settlement: Settlement,
    ) -> Result<&[Statement], DeclarationError> {
        let missing = |needs, role| DeclarationError::Missing { needs, role };
        match settlement {
            Settlement::Ack | Settlement::Drop => Ok(&self.done),
            Settlement::Retry => Ok(&self.retry),
            Settlement::RetryAfter(_) => match &self.retry_after {
                Some(statements) => Ok(statements),
                None => Err(missing("a retry after some time", "retry_after")),
            },
            Settlement::DeadLetter => match &self.dead_letter {
                Some(statements) => Ok(statements),
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
    pub(super) guard: Option<Guard>,
}

/// The texts of the lease form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseStatements {
    pub(super) claim: LeaseClaim,
    pub(super) extend: Statement,
    /// Asks whether the lease is held, and locks the row if it is.
    pub(super) prove: Statement,
    pub(super) settle: Settlements,
    pub(super) guard: Option<Guard>,
}

/// How the lease form claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseClaim {
    /// One statement: chooses the rows, writes the lease, answers with the rows as they were.
    Single(Statement),
    /// A transaction: `lock` chooses and locks rows, `stamp` writes their leases. For databases whose
    /// `UPDATE` returns nothing.
    Stamped {
        /// Chooses and locks.
        lock: Statement,
        /// Writes the leases.
        stamp: OfIds,
    },
}

/// The texts of the advisory form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AdvisoryStatements {
    /// Rows that may be claimed, as id and key (`row_id`, `row_key`), in claim order.
    pub(super) candidates: Statement,
    /// Whether the candidates leave out those whose key somebody holds.
    pub(super) probes: bool,
    /// Takes the lock of a key without waiting; `None`: locks are kept in the process.
    pub(super) lock: Option<Statement>,
    /// Gives it back; true if it was held.
    pub(super) unlock: Option<Statement>,
    /// Takes a row whose key is locked, if it is still claimable.
    pub(super) take: Take,
    pub(super) settle: Settlements,
}

/// How the advisory form takes a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Take {
    /// Counts the attempt, if that is a statement of its own: it hits the row, or the row is gone.
    pub(super) count: Option<Statement>,
    /// Answers with the row as it was before it was counted.
    pub(super) read: Statement,
}

impl RowLockStatements {
    pub(super) fn new(
        dialect: Dialect,
        table: &Table,
        rules: Rules,
    ) -> Result<RowLockStatements, DeclarationError> {
        if dialect == Dialect::Sqlite {
            return Err(DeclarationError::Refused(
                "sqlite has no statements for the row lock form: it locks databases, not rows; \
                 use the lease form or the advisory form"
                    .into(),
            ));
        }
        let author = Author::new(dialect, table, rules)?;
        Ok(RowLockStatements {
            claim: author.lock_rows(),
            settle: author.settlements(),
            guard: author.guard()?,
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
            claim: author.claim_lease(locked_until)?,
            extend: author.extend(locked_until),
            prove: author.prove(locked_until),
            settle: author.settlements(),
            guard: author.guard()?,
        })
    }
}

impl AdvisoryStatements {
    pub(super) fn new(
        dialect: Dialect,
        table: &Table,
        rules: Rules,
        probe: bool,
    ) -> Result<AdvisoryStatements, DeclarationError> {
        let author = Author::new(dialect, table, rules)?;
        let key = author.key()?;
        Ok(AdvisoryStatements {
            candidates: author.candidates(&key, probe),
            probes: probe && dialect != Dialect::Sqlite,
            lock: author.lock_key(),
            unlock: author.unlock_key(),
            take: author.take(),
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
