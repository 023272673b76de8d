//! Write paths below SERIALIZABLE, each as it goes wrong and as it is right.
//!
//! They are those of a Lightning node's store, where they were found: [`link_node`] (write skew
//! between opening and closing a channel), [`graph`] (an edge whose node is pruned meanwhile, with a
//! mutex of the process), [`bucket`] (a race between two creators, with partial unique indexes) and
//! [`tower`] (acknowledgements against the close of a channel, with an index that is cached in
//! memory). All of it is code that a service runs, through [`retry::transaction`](crate::retry), and
//! that the explorer checks; what differs between the shapes is a value.
//!
//! What makes two transactions meet that read what the other one writes is [`Touch`].

pub mod bucket;
pub mod cache;
pub mod graph;
pub mod link_node;
pub mod promise;
pub mod tower;

use crate::claim::Pool;
use crate::retry::{RetryPolicy, TransactionError, Watched, Work, transaction};
use crate::{DbError, Dialect, ErrorClass, Host, Isolation, Reply, Session, Value};

/// What a transaction does to a row that others read, so that they meet it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Touch {
    /// Nothing: the two transactions may both commit, each on what it read.
    None,
    /// Locks it (`SELECT .. FOR UPDATE`). Enough where a transaction reads anew after the wait; at
    /// REPEATABLE READ the one that waited goes on with its old snapshot, and nobody notices.
    Lock,
    /// Writes back what is there. On PostgreSQL that is a new version of the row, and the other
    /// transaction is refused at REPEATABLE READ. On MySQL and MariaDB an update that changes nothing
    /// writes nothing.
    SameBytes,
    /// Counts a column up: a new version everywhere.
    #[default]
    Count,
}

/// A row that is touched: its table, its key, a column to write back, and one that counts.
struct Touched<'a> {
    table: &'a str,
    key: (&'a str, Value),
    bytes: &'a str,
    count: &'a str,
}

impl Touch {
    /// Touches a row, if there is one.
    async fn row<S: Session>(self, session: &mut S, row: Touched<'_>) -> Result<(), DbError> {
        let Touched {
            table,
            bytes,
            count,
            ..
        } = row;
        let (key, value) = row.key;
        let sql = match self {
            Touch::None => return Ok(()),
            // SQLite has one writer, and no locks of rows.
            Touch::Lock if session.dialect() == Dialect::Sqlite => return Ok(()),
            Touch::Lock => format!("SELECT {bytes} FROM {table} WHERE {key} = $1 FOR UPDATE"),
            Touch::SameBytes => format!("UPDATE {table} SET {bytes} = {bytes} WHERE {key} = $1"),
            Touch::Count => format!("UPDATE {table} SET {count} = {count} + 1 WHERE {key} = $1"),
        };
        ask(session, &sql, &[value]).await.map(|_| ())
    }
}

/// Sends a statement that is written with the placeholders of PostgreSQL, each of them once and in
/// order.
async fn ask<S: Session>(session: &mut S, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
    if session.dialect() == Dialect::Postgres {
        return session.exec(sql, args).await;
    }
    let mut text = sql.to_owned();
    for number in 1..=args.len() {
        text = text.replacen(&format!("${number}"), "?", 1);
    }
    session.exec(&text, args).await
}

/// The first value of a reply as a number; 0 if there is none.
fn number(reply: &Reply) -> i64 {
    reply.scalar().and_then(Value::as_int).unwrap_or(0)
}

/// Where write paths run: connections, how often a lost transaction is repeated, and at which level.
#[derive(Debug)]
pub struct Store<H: Host> {
    pool: Pool<H>,
    policy: RetryPolicy,
    isolation: Option<Isolation>,
}

impl<H: Host> Clone for Store<H> {
    fn clone(&self) -> Store<H> {
        Store {
            pool: self.pool.clone(),
            policy: self.policy,
            isolation: self.isolation,
        }
    }
}

impl<H: Host> Store<H> {
    /// A store whose transactions run at `isolation`, or at the default of its sessions.
    pub fn new(pool: Pool<H>, policy: RetryPolicy, isolation: Option<Isolation>) -> Store<H> {
        Store {
            pool,
            policy,
            isolation,
        }
    }

    /// The process that the store belongs to.
    pub fn host(&self) -> &H {
        self.pool.host()
    }

    /// Runs a transaction on a connection of the pool.
    ///
    /// # Errors
    /// See [`TransactionError`]; [`TransactionError::Database`] also if there is no connection.
    pub async fn run<W: Work<H::Session>>(
        &self,
        work: &mut W,
    ) -> Result<W::Output, TransactionError<W::Refusal>> {
        let session = self.pool.acquire().await;
        let mut session = session.map_err(TransactionError::Database)?;
        let (host, policy) = (self.pool.host().clone(), self.policy);
        let result = transaction(&host, &mut *session, &policy, self.isolation, work).await;
        let is_lost = match &result {
            Err(TransactionError::Ambiguous(_)) => true,
            Err(TransactionError::Database(error)) => error.class == ErrorClass::ConnectionLost,
            _ => false,
        };
        if !is_lost {
            session.put_back();
        }
        result
    }
}

/// A session inside of a transaction, as works get it.
type Inside<'a, S> = Watched<'a, S>;

#[cfg(all(test, loom))]
mod loom_tests;
