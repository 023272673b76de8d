//! Creating a bucket of a key-value store, with two creators at once. PostgreSQL and SQLite.
//!
//! ```sql
//! CREATE TABLE kv (id bigserial PRIMARY KEY, parent_id bigint REFERENCES kv (id) ON DELETE CASCADE,
//!                  key text NOT NULL, value text);   -- a value that is NULL: a bucket
//! CREATE UNIQUE INDEX kv_up ON kv (parent_id, key) WHERE parent_id IS NOT NULL;
//! CREATE UNIQUE INDEX kv_unp ON kv (key) WHERE parent_id IS NULL;
//! ```
//!
//! Invariants: *a lost race is invisible to callers*, and *there is one creator*. A bare INSERT
//! breaks the first one: the loser gets a unique violation, which nobody repeats. An upsert that
//! changes nothing keeps it; the second one holds at REPEATABLE READ and SERIALIZABLE, where the
//! loser is refused, runs again and finds the bucket. At READ COMMITTED both believe to be it.

use std::sync::Arc;

use super::{Inside, ask};
use crate::retry::{Stop, Work};
use crate::{Session, Value};

/// How a bucket is made that was not found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Creation {
    /// `INSERT`.
    Bare,
    /// `INSERT .. ON CONFLICT .. DO UPDATE` on the very index that may fire, with its predicate.
    #[default]
    Upsert,
}

/// Creates a bucket.
#[derive(Clone, Debug)]
pub struct CreateBucket {
    /// The bucket in which it is; `None` at the top.
    pub parent: Option<i64>,
    /// Its key.
    pub key: Arc<str>,
    /// One that is there already will do.
    pub if_not_exists: bool,
    /// How it is made.
    pub creation: Creation,
}

/// A bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its number.
    pub id: i64,
    /// Whether this transaction believes to have made it.
    pub is_new: bool,
}

/// Why there is no new bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// The key is empty.
    #[error("a bucket needs a name")]
    NameRequired,
    /// There is such a bucket.
    #[error("the bucket is there already")]
    Exists,
    /// The key has a value.
    #[error("there is a value of that key")]
    IncompatibleValue,
}

impl<S: Session> Work<S> for CreateBucket {
    type Output = Bucket;
    type Refusal = BucketError;

    fn reset(&mut self) {}

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<Bucket, Stop<BucketError>> {
        if self.key.is_empty() {
            return Err(Stop::Refused(BucketError::NameRequired));
        }
        let key = Value::Text(Arc::clone(&self.key));
        let args: Vec<Value> = self
            .parent
            .map(Value::Int)
            .into_iter()
            .chain([key])
            .collect();
        let found = match self.parent {
            None => "SELECT id, value FROM kv WHERE parent_id IS NULL AND key = $1",
            Some(_) => "SELECT id, value FROM kv WHERE parent_id = $1 AND key = $2",
        };
        let found = ask(session, found, &args).await?;
        if found.rows.is_empty() {
            let made = ask(session, self.insert(), &args).await?;
            return bucket(&made, true);
        }
        let bucket = bucket(&found, false)?;
        match self.if_not_exists {
            true => Ok(bucket),
            false => Err(Stop::Refused(BucketError::Exists)),
        }
    }
}

impl CreateBucket {
    fn insert(&self) -> &'static str {
        match (self.creation, self.parent) {
            (Creation::Bare, None) => "INSERT INTO kv (key) VALUES ($1) RETURNING id, value",
            (Creation::Bare, Some(_)) => {
                "INSERT INTO kv (parent_id, key) VALUES ($1, $2) RETURNING id, value"
            }
            (Creation::Upsert, None) => {
                "INSERT INTO kv (key) VALUES ($1) ON CONFLICT (key) WHERE parent_id IS NULL \
                 DO UPDATE SET key = excluded.key RETURNING id, value"
            }
            (Creation::Upsert, Some(_)) => {
                "INSERT INTO kv (parent_id, key) VALUES ($1, $2) \
                 ON CONFLICT (parent_id, key) WHERE parent_id IS NOT NULL \
                 DO UPDATE SET key = excluded.key RETURNING id, value"
            }
        }
    }
}

/// The bucket in a reply; a row with a value is none.
fn bucket(reply: &crate::Reply, is_new: bool) -> Result<Bucket, Stop<BucketError>> {
    match reply.first("value") {
        Some(Value::Null) | None => Ok(Bucket {
            id: super::number(reply),
            is_new,
        }),
        Some(_) => Err(Stop::Refused(BucketError::IncompatibleValue)),
    }
}
