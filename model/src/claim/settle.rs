//! What becomes of a delivery, and what a delivery carries.

use std::sync::Arc;
use std::time::Duration;

use super::error::ClaimError;
use super::table::Table;
use crate::{Column, Reply, Row, Value};

/// What becomes of a claimed row.
///
/// | | row-lock form | lease form |
/// | --- | --- | --- |
/// | ack, drop | deleted, or marked as processed | the same |
/// | retry | free at once, attempt + 1 | free at once; the claim has counted |
/// | retry after | due later, attempt + 1 | due later; the claim has counted |
/// | dead letter | another group or table | the same |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// The work is done.
    Ack,
    /// The work shall not be done.
    Drop,
    /// Deliver it again at once.
    Retry,
    /// Deliver it again after this time.
    RetryAfter(Duration),
    /// Nobody can do this: put it aside.
    DeadLetter,
}

impl Settlement {
    /// The name of the step that carries it out, for schedules and reports.
    pub fn name(self) -> &'static str {
        match self {
            Settlement::Ack => "ack",
            Settlement::Drop => "drop",
            Settlement::Retry => "retry",
            Settlement::RetryAfter(_) => "retry-after",
            Settlement::DeadLetter => "dead-letter",
        }
    }
}

/// A claimed row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    id: Value,
    attempt: Option<i64>,
    /// The fencing number before the claim.
    pub(super) fence: Option<i64>,
    columns: Arc<[Column]>,
    row: Row,
}

impl Job {
    /// The value of the id column.
    pub fn id(&self) -> &Value {
        &self.id
    }

    /// Which delivery of the row this is, from 1; `None` if the table does not count.
    pub fn attempt(&self) -> Option<i64> {
        self.attempt
    }

    /// The value of a payload column (also: priority, due instant), by its name in the table.
    pub fn get(&self, column: &str) -> Option<&Value> {
        let index = self.columns.iter().position(|c| &*c.name == column)?;
        self.row.get(index)
    }

    /// The jobs in a reply, in its order.
    pub(super) fn read(
        reply: &Reply,
        table: &Table,
        fence: Option<&Arc<str>>,
    ) -> Result<Vec<Job>, ClaimError> {
        let index = |name: &str| reply.columns.iter().position(|c| &*c.name == name);
        let missing = |name: &str| ClaimError::Contents(format!("no column `{name}`").into());
        let id = index(&table.id).ok_or_else(|| missing(&table.id))?;
        let number = |row: &Row, column: Option<&Arc<str>>| {
            let Some(name) = column else { return Ok(None) };
            let value = index(name).and_then(|i| row.get(i));
            match value.ok_or_else(|| missing(name))?.as_int() {
                Some(number) => Ok(Some(number)),
                None => Err(ClaimError::Contents(
                    format!("column `{name}` has a value that is no integer").into(),
                )),
            }
        };
        let job = |row: &Row| {
            Ok(Job {
                id: row.get(id).cloned().ok_or_else(|| missing(&table.id))?,
                attempt: number(row, table.attempt.as_ref())?,
                fence: number(row, fence)?,
                columns: Arc::clone(&reply.columns),
                row: Arc::clone(row),
            })
        };
        reply.rows.iter().map(job).collect()
    }
}
