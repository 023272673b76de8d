//! The retry loop around a transaction.
//!
//! A transaction that lost against another one is run again, all of it, from its first statement.
//! Three things go wrong in loops that are written by hand, and are taken care of here:
//!
//! * state that the first attempt left in memory: [`Work::reset`] runs before every attempt;
//! * an error that the work swallows: the *first* error of an attempt decides, not the last
//!   (PostgreSQL answers 25P02 to everything after it), and a `COMMIT` answered by `ROLLBACK` is a
//!   failure;
//! * a connection lost at `COMMIT`: whether it took effect is not known, and so it is not repeated.

use std::future::Future;
use std::time::Duration;

use crate::{Batch, DbError, Dialect, ErrorClass, Host, Isolation, Reply, Session, Value};

/// What a transaction does between its begin and its commit.
pub trait Work<S: Session>: Send {
    /// What it gives to the caller, once committed.
    type Output: Send;
    /// Why it may refuse by itself.
    type Refusal: Send;

    /// Forgets what an earlier attempt left in memory. Runs before every attempt, the first
    /// included.
    fn reset(&mut self);

    /// Runs the statements. Must neither begin nor end the transaction.
    fn run(
        &mut self,
        session: &mut Watched<'_, S>,
    ) -> impl Future<Output = Result<Self::Output, Stop<Self::Refusal>>> + Send;
}

/// Why the work of a transaction stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop<R> {
    /// A statement was refused.
    Database(DbError),
    /// The work itself refuses; the transaction is rolled back and not repeated.
    Refused(R),
}

impl<R> From<DbError> for Stop<R> {
    fn from(error: DbError) -> Stop<R> {
        Stop::Database(error)
    }
}

/// Why a transaction was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError<R> {
    /// Refused by the work itself; rolled back.
    #[error("refused by the transaction itself")]
    Refused(R),
    /// Refused by the database, and not because of another transaction; rolled back.
    #[error(transparent)]
    Database(DbError),
    /// Lost against other transactions in every attempt; rolled back. Try later.
    #[error("gave up after {attempts} attempts: {last}{}", detail(last))]
    Exhausted {
        /// How often it was tried.
        attempts: u32,
        /// The last error.
        last: DbError,
    },
    /// The connection was lost at the commit: it is not known whether it took effect.
    #[error("the connection was lost at the commit, the outcome is not known: {0}")]
    Ambiguous(DbError),
    /// A statement had failed, its error was not passed on, and the commit rolled back.
    #[error("the transaction had failed and was rolled back: {0}")]
    RolledBack(DbError),
}

/// The DETAIL of a conflict, in which the server says with what. That of a constraint is left out:
/// it has values in it.
fn detail(error: &DbError) -> String {
    let conflict = matches!(
        error.class,
        ErrorClass::Serialization | ErrorClass::Deadlock
    );
    match &error.detail {
        Some(detail) if conflict => format!(" ({detail})"),
        _ => String::new(),
    }
}

/// How often, and after which pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, at least one.
    pub attempts: u32,
    /// The longest pause before the second attempt; it doubles with each further one.
    pub first_pause: Duration,
    /// The longest pause at all.
    pub longest_pause: Duration,
    /// Whether a lock that was not to be had in time (`NOWAIT`, lock timeouts) is tried again.
    pub contention: bool,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 10,
            first_pause: Duration::from_millis(40),
            longest_pause: Duration::from_secs(1),
            contention: false,
        }
    }
}

impl RetryPolicy {
    /// What is repeated on this database: lost races everywhere (40001, 40P01; 1213, 3058, 1020;
    /// SQLite 517), and where the database has no other word for a writer in the way, that as well.
    ///
    /// | | PostgreSQL | MySQL, MariaDB | SQLite |
    /// | --- | --- | --- | --- |
    /// | a lock was not to be had in time | 55P03: no, somebody set a limit | 1205: yes | 5, 6: yes |
    ///
    /// 1205 undoes the statement only: the loop rolls back before it runs the work again.
    pub fn on(dialect: Dialect) -> RetryPolicy {
        RetryPolicy {
            contention: dialect != Dialect::Postgres,
            ..RetryPolicy::default()
        }
    }

    /// Whether an attempt that failed with this error may succeed when it is repeated.
    pub fn repeats(&self, class: ErrorClass) -> bool {
        match class {
            ErrorClass::Serialization | ErrorClass::Deadlock | ErrorClass::ConnectionLost => true,
            ErrorClass::Contention => self.contention,
            _ => false,
        }
    }

    /// The pause after attempt `attempt` (from 1) has failed: exponential, with the upper half of
    /// it drawn from `random`, so that those who collided do not collide again.
    pub fn pause(&self, attempt: u32, random: u64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(20);
        let longest = self.first_pause.saturating_mul(1 << doublings);
        let longest = longest.min(self.longest_pause);
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        let half = micros / 2;
        Duration::from_micros(half + random % (micros - half + 1))
    }
}

/// A session that remembers the first error since it was made.
#[derive(Debug)]
pub struct Watched<'a, S> {
    session: &'a mut S,
    first: Option<DbError>,
}

impl<S: Session> Session for Watched<'_, S> {
    fn dialect(&self) -> Dialect {
        self.session.dialect()
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        let result = self.session.exec(sql, args).await;
        if let Err(error) = &result {
            self.first.get_or_insert_with(|| error.clone());
        }
        result
    }

    async fn batch(&mut self, sql: &str) -> Result<Batch, DbError> {
        let result = self.session.batch(sql).await;
        let error = match &result {
            Ok(batch) => batch.error.as_ref(),
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            self.first.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// The session belongs to the loop: nothing is closed.
    async fn close(self) -> Result<(), DbError> {
        Ok(())
    }
}

/// The statements that begin a transaction, at the session's default level if none is given.
pub(crate) fn begin(dialect: Dialect, isolation: Option<Isolation>) -> Vec<String> {
    let level = isolation.map(|level| level.name().to_uppercase());
    match (dialect, level) {
        (Dialect::Postgres, None) => vec!["BEGIN".to_owned()],
        (Dialect::Postgres, Some(level)) => vec![format!("BEGIN ISOLATION LEVEL {level}")],
        (Dialect::MySql | Dialect::MariaDb, None) => vec!["START TRANSACTION".to_owned()],
        (Dialect::MySql | Dialect::MariaDb, Some(level)) => vec![
            format!("SET TRANSACTION ISOLATION LEVEL {level}"),
            "START TRANSACTION".to_owned(),
        ],
        // Deferred transactions that write later fail without waiting (SQLITE_BUSY_SNAPSHOT).
        (Dialect::Sqlite, _) => vec!["BEGIN IMMEDIATE".to_owned()],
    }
}

/// How one attempt ended without a commit.
enum Failed<R> {
    Refused(R),
    /// The first error; the transaction is not committed.
    Error(DbError),
    /// The work said it was done, but the commit rolled back.
    RolledBack(DbError),
    Ambiguous(DbError),
}

/// Runs `work` in a transaction on `session` until it commits, at `isolation` or the session's
/// default. A connection lost before the commit is replaced by a new one.
///
/// # Errors
/// See [`TransactionError`]. No transaction is open on the session afterwards.
pub async fn transaction<H: Host, W: Work<H::Session>>(
    host: &H,
    session: &mut H::Session,
    policy: &RetryPolicy,
    isolation: Option<Isolation>,
    work: &mut W,
) -> Result<W::Output, TransactionError<W::Refusal>> {
    let mut attempt = 1;
    loop {
        let (last, gives_up) = match run_once(session, isolation, work).await {
            Ok(output) => return Ok(output),
            Err(Failed::Refused(refusal)) => return Err(TransactionError::Refused(refusal)),
            Err(Failed::Ambiguous(error)) => return Err(TransactionError::Ambiguous(error)),
            Err(Failed::RolledBack(error)) => {
                if !policy.repeats(error.class) {
                    return Err(TransactionError::RolledBack(error));
                }
                (error, false)
            }
            Err(Failed::Error(error)) => {
                let gives_up = !policy.repeats(error.class);
                (error, gives_up)
            }
        };
        if gives_up {
            return Err(TransactionError::Database(last));
        }
        if attempt >= policy.attempts {
            return Err(TransactionError::Exhausted {
                attempts: attempt,
                last,
            });
        }
        host.sleep(policy.pause(attempt, host.random())).await;
        if last.class == ErrorClass::ConnectionLost {
            *session = host.connect().await.map_err(TransactionError::Database)?;
        }
        attempt += 1;
    }
}

/// One attempt, ended one way or the other.
async fn run_once<S: Session, W: Work<S>>(
    session: &mut S,
    isolation: Option<Isolation>,
    work: &mut W,
) -> Result<W::Output, Failed<W::Refusal>> {
    work.reset();
    for statement in begin(session.dialect(), isolation) {
        session.exec(&statement, &[]).await.map_err(Failed::Error)?;
    }
    let mut watched = Watched {
        session,
        first: None,
    };
    let result = work.run(&mut watched).await;
    let Watched { session, first } = watched;
    match result {
        Ok(output) => commit(session, first).await.map(|()| output),
        Err(stop) => {
            let failed = match stop {
                Stop::Refused(refusal) => Failed::Refused(refusal),
                Stop::Database(error) => Failed::Error(first.unwrap_or(error)),
            };
            Err(roll_back(session, failed).await)
        }
    }
}

async fn commit<S: Session, R>(session: &mut S, first: Option<DbError>) -> Result<(), Failed<R>> {
    match session.exec("COMMIT", &[]).await {
        Ok(reply) if &*reply.tag == "ROLLBACK" => {
            Err(Failed::RolledBack(first.unwrap_or_else(|| {
                DbError::postgres("25P02", "COMMIT was answered by ROLLBACK")
            })))
        }
        Ok(_) => Ok(()),
        Err(error) if error.class == ErrorClass::ConnectionLost => Err(Failed::Ambiguous(error)),
        Err(error) => Err(roll_back(session, Failed::Error(error)).await),
    }
}

/// Rolls back, whatever the error was: some errors undo only the statement, and a transaction that
/// goes on after one of those would commit half of its work. A connection that is lost here was
/// lost before the commit, which is the same.
async fn roll_back<S: Session, R>(session: &mut S, failed: Failed<R>) -> Failed<R> {
    let lost = |error: &DbError| error.class == ErrorClass::ConnectionLost;
    if matches!(&failed, Failed::Error(error) if lost(error)) {
        return failed;
    }
    match (session.exec("ROLLBACK", &[]).await, failed) {
        // The session must not be used again: let the loop replace it.
        (Err(error), Failed::Error(_)) if lost(&error) => Failed::Error(error),
        (_, failed) => failed,
    }
}

#[cfg(all(test, not(loom)))]
#[path = "retry_tests.rs"]
mod tests;
