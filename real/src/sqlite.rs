//! Sessions on SQLite, embedded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use rowlock_model::{Batch, Column, DbError, Dialect, ErrorClass, Reply, Row, Value};
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteError, SqliteJournalMode,
    SqliteRow, SqliteSynchronous,
};
use sqlx::{
    Arguments, AssertSqlSafe, Column as _, ConnectOptions, Connection, Either, Executor, Row as _,
    SqlSafeStr, Statement, TypeInfo, ValueRef,
};

use crate::error;
use crate::session::Link;
use crate::statement::{self, Transaction, tag_of};

/// How SQLite makes changes atomic; a property of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journal {
    /// A rollback journal (`journal_mode = DELETE`), the default: readers block the writer's commit.
    #[default]
    Rollback,
    /// A write-ahead log: readers and the writer do not block each other.
    Wal,
}

/// Which file to open.
#[derive(Clone, Debug)]
pub struct SqliteTarget {
    file: PathBuf,
    busy_timeout: Duration,
}

impl SqliteTarget {
    /// A file, created if missing, with a busy timeout of 0 as in the C interface.
    pub fn file(file: impl AsRef<Path>) -> SqliteTarget {
        SqliteTarget {
            file: file.as_ref().to_owned(),
            busy_timeout: Duration::ZERO,
        }
    }

    /// The same with a busy timeout.
    #[must_use]
    pub fn with_busy_timeout(mut self, busy_timeout: Duration) -> SqliteTarget {
        self.busy_timeout = busy_timeout;
        self
    }

    /// Opens the file.
    pub(crate) async fn connect(&self) -> Result<SqliteLink, DbError> {
        let options = self.options();
        let mut connection = SqliteConnection::connect_with(&options)
            .await
            .map_err(|failure| error_of(&failure))?;
        let rolled_back = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&rolled_back);
        connection
            .lock_handle()
            .await
            .map_err(|failure| error_of(&failure))?
            .set_rollback_hook(move || flag.store(true, Ordering::Relaxed));
        let version = connection
            .fetch_one("SELECT sqlite_version()")
            .await
            .and_then(|row| row.try_get::<String, _>(0))
            .map_err(|failure| error_of(&failure))?;
        Ok(SqliteLink {
            connection,
            rolled_back,
            transaction: Transaction::default(),
            version,
        })
    }

    /// Sets the journal mode of the file, which all later connections find.
    pub(crate) async fn set_journal(&self, journal: Journal) -> Result<(), DbError> {
        let mode = match journal {
            Journal::Rollback => SqliteJournalMode::Delete,
            Journal::Wal => SqliteJournalMode::Wal,
        };
        let options = self.options().journal_mode(mode);
        let connection = SqliteConnection::connect_with(&options)
            .await
            .map_err(|failure| error_of(&failure))?;
        connection
            .close()
            .await
            .map_err(|failure| error_of(&failure))
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.file)
            .create_if_missing(true)
            .busy_timeout(self.busy_timeout)
            // SQLite's own default; sqlx would switch them on.
            .foreign_keys(false)
            .synchronous(SqliteSynchronous::Off)
            .statement_cache_capacity(1)
            .disable_statement_logging()
    }
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct SqliteLink {
    connection: SqliteConnection,
    /// Set by SQLite whenever it rolls back, which some errors make it do by itself.
    rolled_back: Arc<AtomicBool>,
    transaction: Transaction,
    version: String,
}

impl SqliteLink {
    /// `SQLite 3.46.0`.
    pub(crate) fn version(&self) -> String {
        format!("SQLite {}", self.version)
    }

    async fn columns(&mut self, sql: &str) -> Result<Arc<[Column]>, DbError> {
        let text = AssertSqlSafe(sql.to_owned()).into_sql_str();
        let statement = (&mut self.connection)
            .prepare(text)
            .await
            .map_err(|failure| error_of(&failure))?;
        Ok(statement
            .columns()
            .iter()
            .map(|column| Column {
                name: column.name().into(),
                type_name: column.type_info().name().to_lowercase().into(),
            })
            .collect())
    }

    async fn run(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        let tag = tag_of(sql, Dialect::Sqlite);
        let columns = self.columns(sql).await?;
        let mut arguments = SqliteArguments::default();
        for value in args {
            bind(&mut arguments, value)?;
        }
        self.rolled_back.store(false, Ordering::Relaxed);
        let text = AssertSqlSafe(sql.to_owned());
        let query = sqlx::query_with(text, arguments).persistent(false);
        let mut rows: Vec<Row> = Vec::new();
        let mut affected = 0;
        let result = async {
            let mut stream = (&mut self.connection).fetch_many(query);
            while let Some(item) = stream.try_next().await? {
                match item {
                    Either::Left(done) => affected = done.rows_affected(),
                    Either::Right(row) => rows.push(decode(&row)?),
                }
            }
            Ok::<(), sqlx::Error>(())
        }
        .await;
        let rolled_back = self.rolled_back.load(Ordering::Relaxed);
        self.transaction.after(sql, result.is_ok(), rolled_back);
        result.map_err(|failure| error_of(&failure))?;
        // The count of SQLite is that of the last change, whenever that was.
        let changes = matches!(&*tag, "INSERT" | "UPDATE" | "DELETE" | "REPLACE");
        Ok(Reply {
            columns,
            rows: rows.into(),
            affected: if changes { affected } else { 0 },
            tag,
            notices: Arc::default(),
        })
    }
}

fn bind(arguments: &mut SqliteArguments, value: &Value) -> Result<(), DbError> {
    let added = match value {
        Value::Null => arguments.add(None::<i64>),
        Value::Bool(b) => arguments.add(i64::from(*b)),
        Value::Int(i) => arguments.add(*i),
        Value::Float(x) => arguments.add(*x),
        Value::Bytes(bytes) => arguments.add(bytes.to_vec()),
        // SQLite has no such types; text in ISO form is what its own functions read.
        Value::Text(_)
        | Value::Decimal(_)
        | Value::Date(_)
        | Value::Time(_)
        | Value::Timestamp(_) => arguments.add(value.to_string()),
        Value::TimestampTz(micros) => arguments.add(Value::Timestamp(*micros).to_string()),
        Value::Interval { .. } | Value::Array(_) => {
            return Err(DbError::new(
                ErrorClass::Invalid,
                "20",
                "SQLite has neither intervals nor arrays",
            ));
        }
    };
    added.map_err(|cause| DbError::new(ErrorClass::Invalid, "20", cause.to_string()))
}

/// A row by the storage class of each value.
fn decode(row: &SqliteRow) -> Result<Row, sqlx::Error> {
    (0..row.len())
        .map(|i| {
            let raw = row.try_get_raw(i)?;
            if raw.is_null() {
                return Ok(Value::Null);
            }
            let class = raw.type_info().name().to_owned();
            Ok(match class.as_str() {
                "INTEGER" => Value::Int(row.try_get_unchecked(i)?),
                "REAL" => Value::Float(row.try_get_unchecked(i)?),
                "BLOB" => Value::Bytes(row.try_get_unchecked::<Vec<u8>, _>(i)?.into()),
                _ => Value::text(row.try_get_unchecked::<String, _>(i)?),
            })
        })
        .collect()
}

fn error_of(failure: &sqlx::Error) -> DbError {
    let sqlx::Error::Database(database) = failure else {
        return error::of_sqlx(failure);
    };
    let code = database.code().unwrap_or_default();
    let class = ErrorClass::of_sqlite(code.parse().unwrap_or(0));
    let message = match database.try_downcast_ref::<SqliteError>() {
        Some(sqlite) => sqlx::error::DatabaseError::message(sqlite).to_owned(),
        None => database.message().to_owned(),
    };
    DbError::new(class, &code, message)
}

impl Link for SqliteLink {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        self.run(sql, args).await
    }

    async fn batch(&mut self, sql: &str) -> Result<Batch, DbError> {
        let mut batch = Batch::default();
        for statement in statement::split(sql) {
            match self.run(statement, &[]).await {
                Ok(reply) => batch.replies.push(reply),
                Err(error) => {
                    batch.error = Some(error);
                    break;
                }
            }
        }
        batch.status = self.transaction.status();
        Ok(batch)
    }

    async fn close(self) -> Result<(), DbError> {
        self.connection
            .close()
            .await
            .map_err(|failure| error_of(&failure))
    }
}
