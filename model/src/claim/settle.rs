//! What becomes of a delivery, and what a delivery carries.

use std::sync::Arc;
use std::time::Duration;

use super::error::{ClaimError, Doing};
use super::table::Table;
use super::text::{Statement, Values};
use crate::retry::begin;
use crate::{Column, DbError, ErrorClass, Host, Reply, Row, Session, Value};

/// What becomes of a claimed row.
///
/// | | row-lock form | lease and advisory form |
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

/// Runs the statements of a settlement in a session as it is; how many rows the last one hit, or
/// `None` if there is nothing to write.
pub(super) async fn run_settlement<H: Host, S: Session>(
    host: &H,
    session: &mut S,
    statements: &[Statement],
    values: &Values,
    settlement: Settlement,
) -> Result<Option<u64>, DbError> {
    let mut rows = None;
    for statement in statements {
        host.name_step(settlement.name());
        let reply = session
            .exec(&statement.sql, &statement.bind(values))
            .await?;
        rows = Some(reply.affected);
    }
    Ok(rows)
}

/// Settles in a session of our own and stores that; how many rows were hit, or `None` if there was
/// nothing to write.
///
/// Where a transaction is open (`in_transaction`), an ack ends it, and any other settlement rolls
/// it back first. More than one statement, or one in a transaction, is stored only if it hit
/// exactly one row.
pub(super) async fn send_settlement<H: Host, S: Session>(
    host: &H,
    session: &mut S,
    statements: &[Statement],
    values: &Values,
    settlement: Settlement,
    in_transaction: bool,
) -> Result<Option<u64>, ClaimError> {
    let mut open = in_transaction;
    if open && settlement != Settlement::Ack {
        host.name_step("undo");
        let undone = session.exec("ROLLBACK", &[]).await;
        undone.map_err(ClaimError::Database)?;
        open = false;
    }
    if !open && statements.len() > 1 {
        for statement in begin(session.dialect(), None) {
            host.name_step("begin");
            let begun = session.exec(&statement, &[]).await;
            begun.map_err(ClaimError::Database)?;
        }
        open = true;
    }
    let result = run_settlement(host, session, statements, values, settlement).await;
    if !open {
        return result.map_err(|error| ClaimError::of(Doing::Settle, error));
    }
    match result {
        Ok(rows @ (None | Some(1))) => {
            commit(host, session).await?;
            Ok(rows)
        }
        Ok(rows) => {
            host.name_step("rollback");
            let undone = session.exec("ROLLBACK", &[]).await;
            undone.map_err(ClaimError::Database)?;
            Ok(rows)
        }
        Err(error) => {
            if error.class != ErrorClass::ConnectionLost {
                host.name_step("rollback");
                // If that fails as well, the caller closes the connection.
                let _ = session.exec("ROLLBACK", &[]).await;
            }
            Err(ClaimError::Database(error))
        }
    }
}

/// Commits; an answer of `ROLLBACK` is a failure.
pub(super) async fn commit<H: Host, S: Session>(
    host: &H,
    session: &mut S,
) -> Result<(), ClaimError> {
    host.name_step("commit");
    match session.exec("COMMIT", &[]).await {
        Ok(reply) if &*reply.tag == "ROLLBACK" => Err(ClaimError::RolledBack),
        Ok(_) => Ok(()),
        Err(error) => {
            let lost = error.class == ErrorClass::ConnectionLost;
            if !lost {
                host.name_step("rollback");
                let _ = session.exec("ROLLBACK", &[]).await;
            }
            Err(ClaimError::of(Doing::Commit, error))
        }
    }
}
