//! Sessions on MySQL and MariaDB.
//!
//! Counts of affected rows are those of changed rows, as the server counts unless it is asked for
//! matched rows (`CLIENT_FOUND_ROWS`). sqlx always asks, and so do JDBC and some others; see
//! [`MySqlTarget::with_found_rows`].

mod decode;
mod packet;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rowlock_model::{
    Batch, DbError, Dialect, ErrorClass, Isolation, Reply, TransactionStatus, Value,
};
use rowlock_scenarios::sqltext;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions, Connection, Executor};

use crate::directory::PrivateDirectory;
use crate::error::{self, UrlError};
use crate::session::{Link, in_time, show_target};
use crate::statement::tag_of;
use crate::tap::{Endpoint, Tap};
use decode::Format;
use packet::{Greeting, Packet, Splitter};

/// Where and as whom to connect.
#[derive(Clone)]
pub struct MySqlTarget {
    options: MySqlConnectOptions,
    endpoint: Endpoint,
    isolation: Option<Isolation>,
    found_rows: bool,
}

impl std::fmt::Debug for MySqlTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show_target(
            f,
            "MySqlTarget",
            &self.endpoint,
            self.options.get_database(),
        )
    }
}

impl MySqlTarget {
    /// From a URL (`mysql://user:password@host:port/database`).
    ///
    /// # Errors
    /// The URL cannot be understood, or asks for TLS, which this build does not have. The error
    /// never repeats the URL.
    pub fn from_url(url: &str) -> Result<MySqlTarget, UrlError> {
        let options = MySqlConnectOptions::from_str(url).map_err(|_| UrlError::Malformed)?;
        let needs_tls = matches!(
            options.get_ssl_mode(),
            MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
        );
        if needs_tls {
            return Err(UrlError::Tls);
        }
        Ok(MySqlTarget::from_options(options))
    }

    /// A server that listens on a socket.
    pub fn on_socket(socket: impl AsRef<Path>, user: &str) -> MySqlTarget {
        let options = MySqlConnectOptions::new().socket(socket).username(user);
        MySqlTarget::from_options(options)
    }

    fn from_options(options: MySqlConnectOptions) -> MySqlTarget {
        let endpoint = match options.get_socket() {
            Some(socket) => Endpoint::Socket(PathBuf::from(socket)),
            None => Endpoint::Tcp(options.get_host().to_owned(), options.get_port()),
        };
        MySqlTarget {
            options: options
                .disable_statement_logging()
                // The server's own modes; sqlx would add to them.
                .pipes_as_concat(false)
                .no_engine_substitution(false),
            endpoint,
            isolation: None,
            found_rows: false,
        }
    }

    /// The database to connect to.
    pub fn database(&self) -> Option<&str> {
        self.options.get_database()
    }

    /// The same server, another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> MySqlTarget {
        let mut target = self.clone();
        target.options = target.options.database(database);
        target
    }

    /// The same with a default isolation level.
    #[must_use]
    pub fn with_isolation(&self, isolation: Isolation) -> MySqlTarget {
        let mut target = self.clone();
        target.isolation = Some(isolation);
        target
    }

    /// The same, whose `UPDATE` counts the rows that it matched instead of those that it changed
    /// (`CLIENT_FOUND_ROWS` of the protocol).
    #[must_use]
    pub fn with_found_rows(&self, found_rows: bool) -> MySqlTarget {
        let mut target = self.clone();
        target.found_rows = found_rows;
        target
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<MySqlLink, DbError> {
        in_time(MySqlLink::open(self)).await
    }
}

/// One connection: sqlx, and the record of what the server sends.
#[derive(Debug)]
pub(crate) struct MySqlLink {
    connection: MySqlConnection,
    tap: Arc<Tap<Packet>>,
    greeting: Greeting,
    dialect: Dialect,
    status: TransactionStatus,
    broken: bool,
}

impl MySqlLink {
    async fn open(target: &MySqlTarget) -> Result<MySqlLink, DbError> {
        let directory = PrivateDirectory::create("tap").map_err(error::of_io)?;
        let socket = directory.path().join("s");
        let greet = match target.found_rows {
            true => |_: &mut [u8]| {},
            false => packet::count_changed_rows,
        };
        let tap = Tap::open::<Splitter>(&target.endpoint, &socket, greet)
            .await
            .map_err(error::of_io)?;
        let options = target
            .options
            .clone()
            .socket(&socket)
            .ssl_mode(MySqlSslMode::Disabled);
        let connected = MySqlConnection::connect_with(&options).await;
        let packets = tap.take();
        let connection = match connected {
            Ok(connection) => connection,
            Err(failure) => {
                return Err(last_error(&packets).unwrap_or_else(|| error::of_sqlx(&failure)));
            }
        };
        let greeting = packets.first().map(|p| packet::greeting(&p.body));
        let greeting = greeting.unwrap_or_default();
        let dialect = match greeting.version.contains("MariaDB") {
            true => Dialect::MariaDb,
            false => Dialect::MySql,
        };
        let mut link = MySqlLink {
            connection,
            tap,
            greeting,
            dialect,
            status: TransactionStatus::Idle,
            broken: false,
        };
        if let Some(isolation) = target.isolation {
            let level = isolation.name();
            let sql = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            link.exec(&sql, &[]).await?;
        }
        Ok(link)
    }

    /// The number of the connection, for `KILL`.
    pub(crate) fn connection_id(&self) -> u32 {
        self.greeting.connection_id
    }

    /// `MariaDB 10.11.14`.
    pub(crate) fn version(&self) -> String {
        let number = self.greeting.version.split('-').next().unwrap_or("");
        match self.dialect {
            Dialect::MariaDb => format!("MariaDB {number}"),
            _ => format!("MySQL {number}"),
        }
    }

    /// Sends one request and gives the packets of its answer.
    async fn request(
        &mut self,
        sql: &str,
        args: Option<MySqlArguments>,
    ) -> Result<Vec<Packet>, DbError> {
        if self.broken || self.tap.ended() {
            return Err(self.lost());
        }
        // Left over from what sqlx did by itself. A reason for the end of the session would have
        // ended it.
        self.tap.take();
        let text = AssertSqlSafe(sql.to_owned());
        let result = match args {
            None => self.connection.execute(sqlx::raw_sql(text)).await,
            Some(args) => {
                let query = sqlx::query_with(text, args).persistent(true);
                self.connection.execute(query).await
            }
        };
        match result {
            Ok(_) => Ok(self.tap.take()),
            Err(sqlx::Error::Database(_)) => Ok(self.tap.take()),
            // Too many or too few arguments: nothing was run.
            Err(sqlx::Error::Protocol(message)) if message.contains("parameters") => {
                Err(DbError::new(
                    ErrorClass::Invalid,
                    "1210",
                    "Incorrect arguments to EXECUTE",
                ))
            }
            Err(_) => {
                self.broken = true;
                Err(self.lost())
            }
        }
    }

    /// Why the connection is gone: what the server said last, if it said anything.
    fn lost(&self) -> DbError {
        let mut error = last_error(&self.tap.messages())
            .unwrap_or_else(|| DbError::connection_lost("Lost connection to server during query"));
        error.class = ErrorClass::ConnectionLost;
        error
    }

    fn batch_of(&mut self, packets: &[Packet], format: Format, tags: &[Arc<str>]) -> Batch {
        let batch = packet::batch(
            packet::last_answer(packets),
            self.greeting.deprecate_eof,
            format,
            tags,
            self.status,
        );
        self.status = batch.status;
        batch
    }
}

/// The error that the server sent last.
fn last_error(packets: &[Packet]) -> Option<DbError> {
    packets
        .iter()
        .rev()
        .find(|p| p.body.first() == Some(&0xff))
        .map(|p| packet::error(&p.body))
}

/// Adds an argument, typed by its variant; decimals and times go as text, which the server converts.
fn bind(arguments: &mut MySqlArguments, value: &Value) -> Result<(), DbError> {
    let added = match value {
        Value::Null => arguments.add(None::<i64>),
        Value::Bool(b) => arguments.add(i64::from(*b)),
        Value::Int(i) => arguments.add(*i),
        Value::Float(x) => arguments.add(*x),
        Value::Bytes(bytes) => arguments.add(bytes.to_vec()),
        Value::Text(_)
        | Value::Decimal(_)
        | Value::Date(_)
        | Value::Time(_)
        | Value::Timestamp(_) => arguments.add(value.to_string()),
        Value::TimestampTz(micros) => arguments.add(Value::Timestamp(*micros).to_string()),
        Value::Interval { .. } | Value::Array(_) => {
            return Err(DbError::new(
                ErrorClass::Invalid,
                "1210",
                "MySQL has neither intervals nor arrays as arguments",
            ));
        }
    };
    added.map_err(|cause| DbError::new(ErrorClass::Invalid, "1210", cause.to_string()))
}

impl Link for MySqlLink {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        // As on PostgreSQL: the server refuses to prepare more than one statement.
        let is_single = sqltext::statements(sql, self.dialect).len() <= 1;
        let (packets, format) = if args.is_empty() && is_single {
            (self.request(sql, None).await?, Format::Text)
        } else {
            let mut arguments = MySqlArguments::default();
            for value in args {
                bind(&mut arguments, value)?;
            }
            (self.request(sql, Some(arguments)).await?, Format::Binary)
        };
        let mut batch = self.batch_of(&packets, format, &[tag_of(sql, self.dialect)]);
        if let Some(error) = batch.error {
            return Err(error);
        }
        // A procedure gives several results; its own is the last.
        Ok(batch.replies.pop().unwrap_or_default())
    }

    async fn batch(&mut self, sql: &str) -> Result<Batch, DbError> {
        let tags: Vec<Arc<str>> = sqltext::statements(sql, self.dialect)
            .into_iter()
            .map(|range| tag_of(&sql[range], self.dialect))
            .collect();
        if tags.is_empty() {
            return Ok(Batch::default());
        }
        let packets = self.request(sql, None).await?;
        let batch = self.batch_of(&packets, Format::Text, &tags);
        match batch.error {
            Some(error) if error.class == ErrorClass::ConnectionLost => Err(error),
            _ => Ok(batch),
        }
    }

    async fn close(self) -> Result<(), DbError> {
        if self.tap.ended() {
            return Err(self.lost());
        }
        self.connection
            .close()
            .await
            .map_err(|failure| error::of_sqlx(&failure))
    }
}
