//! A live session: a task that owns the connection, and a channel to it.
//!
//! The task is why a dropped future cancels nothing: the statement was handed over, the task goes
//! on with it, and the next request waits in the channel.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rowlock_model::{Batch, DbError, Dialect, Reply, Session, Value};
use tokio::sync::{mpsc, oneshot};

use crate::mysql::MySqlLink;
use crate::postgres::PostgresLink;
use crate::sqlite::SqliteLink;
use crate::tap::Endpoint;

/// A connection that does one thing after another.
pub(crate) trait Link: Send + 'static {
    /// Which database this is.
    fn dialect(&self) -> Dialect;

    /// See [`Session::exec`].
    fn exec(
        &mut self,
        sql: &str,
        args: &[Value],
    ) -> impl Future<Output = Result<Reply, DbError>> + Send;

    /// See [`Session::batch`].
    fn batch(&mut self, sql: &str) -> impl Future<Output = Result<Batch, DbError>> + Send;

    /// See [`Session::close`].
    fn close(self) -> impl Future<Output = Result<(), DbError>> + Send;
}

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a connection to be opened, but not for ever.
pub(crate) async fn in_time<T>(
    opening: impl Future<Output = Result<T, DbError>>,
) -> Result<T, DbError> {
    match tokio::time::timeout(CONNECT_TIMEOUT, opening).await {
        Ok(result) => result,
        Err(_) => Err(DbError::connection_lost(
            "the server did not accept the connection in time",
        )),
    }
}

/// Shows where a target is, without its options: they hold the password.
pub(crate) fn show_target(
    f: &mut std::fmt::Formatter<'_>,
    name: &str,
    endpoint: &Endpoint,
    database: Option<&str>,
) -> std::fmt::Result {
    f.debug_struct(name)
        .field("endpoint", endpoint)
        .field("database", &database)
        .finish_non_exhaustive()
}

enum Command {
    Exec(
        Arc<str>,
        Arc<[Value]>,
        oneshot::Sender<Result<Reply, DbError>>,
    ),
    Batch(Arc<str>, oneshot::Sender<Result<Batch, DbError>>),
    Close(oneshot::Sender<Result<(), DbError>>),
}

/// An answer that is on its way. Dropping it cancels nothing.
pub(crate) type Pending<T> = oneshot::Receiver<Result<T, DbError>>;

/// One open connection to a live server.
#[derive(Debug)]
pub struct RealSession {
    dialect: Dialect,
    backend: i64,
    version: Arc<str>,
    commands: mpsc::UnboundedSender<Command>,
}

impl RealSession {
    pub(crate) fn on_postgres(link: PostgresLink) -> RealSession {
        let (pid, version) = (link.pid().into(), link.version());
        RealSession::start(link, pid, version)
    }

    pub(crate) fn on_sqlite(link: SqliteLink) -> RealSession {
        let version = link.version();
        RealSession::start(link, 0, version)
    }

    pub(crate) fn on_mysql(link: MySqlLink) -> RealSession {
        let (id, version) = (link.connection_id().into(), link.version());
        RealSession::start(link, id, version)
    }

    fn start(link: impl Link, backend: i64, version: String) -> RealSession {
        let (commands, queue) = mpsc::unbounded_channel();
        let dialect = link.dialect();
        tokio::spawn(serve(link, queue));
        RealSession {
            dialect,
            backend,
            version: version.into(),
            commands,
        }
    }

    /// A session that has ended.
    pub(crate) fn closed(dialect: Dialect) -> RealSession {
        RealSession {
            dialect,
            backend: 0,
            version: "".into(),
            commands: mpsc::unbounded_channel().0,
        }
    }

    /// The number by which the server knows this session: the process id of its backend
    /// (PostgreSQL), the connection id (MySQL, MariaDB), 0 (SQLite).
    pub fn backend(&self) -> i64 {
        self.backend
    }

    /// The server's name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Hands over a statement; it is sent as soon as the session is idle.
    pub(crate) fn start_exec(&self, sql: &str, args: &[Value]) -> Pending<Reply> {
        let (answer, pending) = oneshot::channel();
        // If the task is gone, the answer's sender is dropped, and the receiver tells.
        let _ = self
            .commands
            .send(Command::Exec(sql.into(), args.into(), answer));
        pending
    }

    /// Hands over a script; it is sent as soon as the session is idle.
    pub(crate) fn start_batch(&self, sql: &str) -> Pending<Batch> {
        let (answer, pending) = oneshot::channel();
        let _ = self.commands.send(Command::Batch(sql.into(), answer));
        pending
    }
}

/// The task that owns a connection.
async fn serve(mut link: impl Link, mut queue: mpsc::UnboundedReceiver<Command>) {
    while let Some(command) = queue.recv().await {
        // Nobody may listen for an answer any more; the statement was run all the same.
        match command {
            Command::Exec(sql, args, answer) => {
                let _ = answer.send(link.exec(&sql, &args).await);
            }
            Command::Batch(sql, answer) => {
                let _ = answer.send(link.batch(&sql).await);
            }
            Command::Close(answer) => {
                let _ = answer.send(link.close().await);
                return;
            }
        }
    }
    let _ = link.close().await;
}

pub(crate) fn task_gone() -> DbError {
    DbError::connection_lost("the session has ended")
}

impl Session for RealSession {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        self.start_exec(sql, args)
            .await
            .unwrap_or_else(|_| Err(task_gone()))
    }

    async fn batch(&mut self, sql: &str) -> Result<Batch, DbError> {
        self.start_batch(sql)
            .await
            .unwrap_or_else(|_| Err(task_gone()))
    }

    async fn close(self) -> Result<(), DbError> {
        let (answer, pending) = oneshot::channel();
        let _ = self.commands.send(Command::Close(answer));
        pending.await.unwrap_or_else(|_| Err(task_gone()))
    }
}
