//! The seam: one open connection, and the process around it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{DbError, Dialect, Value};

/// A column of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Column {
    /// Its name as the server gives it.
    pub name: Arc<str>,
    /// Its type as the server names it, lower case (`int4`, `text`, `timestamptz`, `bigint`).
    pub type_name: Arc<str>,
}

/// A row of a reply, one value a column.
pub type Row = Arc<[Value]>;

/// A notice or warning that came with a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Notice {
    /// `NOTICE`, `WARNING`, ...
    pub severity: Arc<str>,
    /// The text.
    pub message: Arc<str>,
}

/// What one statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reply {
    /// The columns; empty for a statement that returns no rows at all.
    pub columns: Arc<[Column]>,
    /// The rows, in the order in which they came.
    pub rows: Arc<[Row]>,
    /// Rows affected, as the server counts them; 0 where it counts nothing.
    pub affected: u64,
    /// The command tag without its numbers: `SELECT`, `UPDATE`, `COMMIT`. A `COMMIT` that was
    /// answered with the tag `ROLLBACK` did not commit.
    pub tag: Arc<str>,
    /// Notices that came before the end of the statement.
    pub notices: Arc<[Notice]>,
}

impl Reply {
    /// A reply with a command tag and nothing else.
    pub fn tag(tag: &str) -> Reply {
        Reply {
            tag: tag.into(),
            ..Reply::default()
        }
    }

    /// The value in the first row and the named column.
    pub fn first(&self, column: &str) -> Option<&Value> {
        let index = self.columns.iter().position(|c| &*c.name == column)?;
        self.rows.first()?.get(index)
    }

    /// The value in the first row and first column.
    pub fn scalar(&self) -> Option<&Value> {
        self.rows.first()?.first()
    }
}

/// Whether a session is inside a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TransactionStatus {
    /// No transaction is open.
    #[default]
    Idle,
    /// Inside a transaction.
    InTransaction,
    /// Inside a transaction that has failed and accepts only its end.
    Failed,
}

/// What a script sent as one message answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Batch {
    /// One reply for each statement that was completed.
    pub replies: Vec<Reply>,
    /// The error that ended the script, if one did.
    pub error: Option<DbError>,
    /// The session's transaction status afterwards.
    pub status: TransactionStatus,
}

/// One open connection.
///
/// Dropping a future returned by [`exec`](Session::exec) or [`batch`](Session::batch) cancels
/// nothing: the statement goes on in the server, the session stays busy until it ends, and a later
/// call waits for that first.
pub trait Session: Send {
    /// Which database this is.
    fn dialect(&self) -> Dialect;

    /// Sends one statement with its arguments and waits for the reply. Placeholders are those of
    /// the server (`$1` for PostgreSQL, `?` for the others).
    ///
    /// # Errors
    /// What the server answered, or [`crate::ErrorClass::ConnectionLost`].
    fn exec(
        &mut self,
        sql: &str,
        args: &[Value],
    ) -> impl Future<Output = Result<Reply, DbError>> + Send;

    /// Sends a script of any number of statements as one message, without arguments, and waits for
    /// all results up to the first error.
    ///
    /// # Errors
    /// Only the loss of the connection; an error of a statement is part of the [`Batch`].
    fn batch(&mut self, sql: &str) -> impl Future<Output = Result<Batch, DbError>> + Send;

    /// Closes the connection and waits until that is sent. Dropping a session closes it as well.
    ///
    /// # Errors
    /// The connection was gone already.
    fn close(self) -> impl Future<Output = Result<(), DbError>> + Send;
}

/// A task spawned on a [`Host`].
pub trait Task<T>: Send {
    /// Waits for the task's end; `None` if it was aborted.
    fn join(self) -> impl Future<Output = Option<T>> + Send;

    /// Cancels the task at the await where it stands.
    fn abort(&self);
}

/// The time ran out before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the time ran out")]
pub struct Elapsed;

/// The process around the sessions: its clock, its tasks, its randomness.
///
/// In the simulator all of it is state of the world and a choice of the explorer; live it is tokio
/// and the machine's clock.
pub trait Host: Clone + Send + Sync + 'static {
    /// The sessions of this host.
    type Session: Session + 'static;
    /// The tasks of this host.
    type Task<T: Send + 'static>: Task<T>;

    /// Opens a connection to the database that this host was configured with.
    ///
    /// # Errors
    /// The server refused or could not be reached.
    fn connect(&self) -> impl Future<Output = Result<Self::Session, DbError>> + Send;

    /// The host's clock: microseconds since 1970-01-01 00:00:00 UTC. It may differ from the
    /// server's clock, and it may step.
    fn now_micros(&self) -> i64;

    /// Waits for `duration` on the host's clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Waits for `future`, at most for `duration`; the future is dropped when the time runs out.
    fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + Send
    where
        F::Output: Send;

    /// Starts a task of this process. Tasks of one process share memory and die with it.
    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self::Task<T>;

    /// A random number, for jitter.
    fn random(&self) -> u64;

    /// The name of the process: stable, unique among the processes that use one database.
    fn process_name(&self) -> Arc<str>;

    /// Names the next request of the calling task, for schedules, monitors and reports. Without
    /// effect on what is run; live hosts may use it for logs.
    fn name_step(&self, name: &str) {
        let _ = name;
    }

    /// Tells monitors that something happened inside the process (`holds 7`, `sent mail`), without
    /// a request. Live hosts may use it for logs.
    fn note(&self, name: &str, values: &[Value]) {
        let _ = (name, values);
    }
}
