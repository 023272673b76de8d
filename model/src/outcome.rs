//! The outcome of a step in one line, as scenario and schedule files write it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{DbError, Reply};

/// What became of one step, reduced to what files compare.
///
/// | text | meaning |
/// | --- | --- |
/// | `ok` | done; the statement neither returns nor counts rows |
/// | `3 affected` | rows changed |
/// | `0 rows`, `1 row (1, x)`, `2 rows (1) (2)` | rows returned, in order |
/// | `error 23505` | refused with this code |
/// | `waits` | blocked |
/// | `pauses` | before a row lock, in row granularity |
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Completed.
    Done(Reply),
    /// Refused.
    Failed(DbError),
    /// Blocked, behind these sessions (their labels, sorted; empty if not known).
    Waits(Vec<String>),
    /// It pauses before it locks this row (`job (0,2)`: table and place; empty if not known).
    Pauses(String),
}

impl Outcome {
    /// From what a session returned.
    pub fn of(result: &Result<Reply, DbError>) -> Outcome {
        match result {
            Ok(reply) => Outcome::Done(reply.clone()),
            Err(error) => Outcome::Failed(error.clone()),
        }
    }
}

/// Whether a command tag counts the rows that it changed.
fn counts_rows(tag: &str) -> bool {
    matches!(tag, "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "REPLACE")
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done(reply) if !reply.columns.is_empty() => {
                let n = reply.rows.len();
                write!(f, "{n} row{}", if n == 1 { "" } else { "s" })?;
                for row in reply.rows.iter() {
                    f.write_str(" (")?;
                    for (i, value) in row.iter().enumerate() {
                        if i > 0 {
                            f.write_str(", ")?;
                        }
                        write!(f, "{value}")?;
                    }
                    f.write_str(")")?;
                }
                Ok(())
            }
            Outcome::Done(reply) if counts_rows(&reply.tag) => {
                write!(f, "{} affected", reply.affected)
            }
            Outcome::Done(_) => f.write_str("ok"),
            Outcome::Failed(error) => write!(f, "error {}", error.code),
            Outcome::Waits(_) => f.write_str("waits"),
            Outcome::Pauses(_) => f.write_str("pauses"),
        }
    }
}
