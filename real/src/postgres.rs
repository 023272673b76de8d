//! Sessions on PostgreSQL.

mod decode;
mod encode;
pub(crate) mod message;
mod types;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rowlock_model::{Batch, DbError, Dialect, ErrorClass, Isolation, Reply, Value};
use rowlock_scenarios::sqltext;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions, Connection, Executor, Row};

use crate::directory::PrivateDirectory;
use crate::error::{self, UrlError};
use crate::session::{Link, in_time, show_target};
use crate::tap::{Endpoint, Tap};
use decode::Format;
use encode::Argument;
use message::{Message, Splitter};
use types::{TypeNames, UserType};

/// The name of a PostgreSQL socket with this port.
const SOCKET_NAME: &str = ".s.PGSQL.1";
const PORT: u16 = 1;

/// Where and as whom to connect.
#[derive(Clone)]
pub struct PostgresTarget {
    options: PgConnectOptions,
    endpoint: Endpoint,
    types: TypeNames,
}

impl std::fmt::Debug for PostgresTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show_target(
            f,
            "PostgresTarget",
            &self.endpoint,
            self.options.get_database(),
        )
    }
}

impl PostgresTarget {
    /// From a URL (`postgres://user:password@host:port/database`).
    ///
    /// # Errors
    /// The URL cannot be understood, or asks for TLS, which this build does not have. The error
    /// never repeats the URL.
    pub fn from_url(url: &str) -> Result<PostgresTarget, UrlError> {
        let options = PgConnectOptions::from_str(url).map_err(|_| UrlError::Malformed)?;
        let needs_tls = matches!(
            options.get_ssl_mode(),
            PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
        );
        if needs_tls {
            return Err(UrlError::Tls);
        }
        Ok(PostgresTarget::from_options(options))
    }

    /// A server that listens on a socket in `directory`.
    pub fn on_socket(directory: &std::path::Path, user: &str, database: &str) -> PostgresTarget {
        let options = PgConnectOptions::new_without_pgpass()
            .socket(directory)
            .port(5432)
            .username(user)
            .database(database);
        PostgresTarget::from_options(options)
    }

    fn from_options(options: PgConnectOptions) -> PostgresTarget {
        let port = options.get_port();
        let in_directory = |directory: &std::path::Path| {
            Endpoint::Socket(directory.join(format!(".s.PGSQL.{port}")))
        };
        let endpoint = match options.get_socket() {
            Some(directory) => in_directory(directory),
            None if options.get_host().starts_with('/') => {
                in_directory(std::path::Path::new(options.get_host()))
            }
            None => Endpoint::Tcp(options.get_host().to_owned(), port),
        };
        PostgresTarget {
            options: options.disable_statement_logging(),
            endpoint,
            types: TypeNames::default(),
        }
    }

    /// The database to connect to.
    pub fn database(&self) -> &str {
        let default = self.options.get_username();
        self.options.get_database().unwrap_or(default)
    }

    /// The same server, another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> PostgresTarget {
        PostgresTarget {
            options: self.options.clone().database(database),
            endpoint: self.endpoint.clone(),
            types: TypeNames::default(),
        }
    }

    /// The same with a server setting that is the session's default, as `RESET` would restore it.
    #[must_use]
    pub fn with_setting(&self, name: &str, value: &str) -> PostgresTarget {
        let mut target = self.clone();
        target.options = target.options.options([(name, value)]);
        target
    }

    /// The same with a default isolation level.
    #[must_use]
    pub fn with_isolation(&self, isolation: Isolation) -> PostgresTarget {
        self.with_setting("default_transaction_isolation", isolation.name())
    }

    /// The same with a name that `pg_stat_activity` shows.
    #[must_use]
    pub fn with_application_name(&self, name: &str) -> PostgresTarget {
        let mut target = self.clone();
        target.options = target.options.application_name(name);
        target
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<PostgresLink, DbError> {
        in_time(PostgresLink::open(self)).await
    }
}

/// One connection: sqlx, and the record of what the server sends.
#[derive(Debug)]
pub(crate) struct PostgresLink {
    connection: PgConnection,
    tap: Arc<Tap<Message>>,
    target: PostgresTarget,
    pid: i32,
    version: String,
    broken: bool,
}

impl PostgresLink {
    async fn open(target: &PostgresTarget) -> Result<PostgresLink, DbError> {
        let directory = PrivateDirectory::create("tap").map_err(error::of_io)?;
        let socket = directory.path().join(SOCKET_NAME);
        let tap = Tap::open::<Splitter>(&target.endpoint, &socket, |_| {})
            .await
            .map_err(error::of_io)?;
        let options = target
            .options
            .clone()
            .socket(directory.path())
            .port(PORT)
            .ssl_mode(PgSslMode::Disable);
        let connection = match PgConnection::connect_with(&options).await {
            Ok(connection) => connection,
            Err(failure) => {
                return Err(
                    server_error(&tap.messages(), "").unwrap_or_else(|| error::of_sqlx(&failure))
                );
            }
        };
        let messages = tap.messages();
        let of_kind = |kind| messages.iter().filter(move |m: &&Message| m.kind == kind);
        let pid = of_kind(message::BACKEND_KEY_DATA)
            .map(|m| message::backend_pid(&m.body))
            .next()
            .unwrap_or(0);
        let version = of_kind(message::PARAMETER_STATUS)
            .map(|m| message::parameter(&m.body))
            .find(|(name, _)| name == "server_version")
            .map_or_else(String::new, |(_, version)| version);
        Ok(PostgresLink {
            connection,
            tap,
            target: target.clone(),
            pid,
            version,
            broken: false,
        })
    }

    /// The process id of the backend.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// `PostgreSQL 15.18`.
    pub(crate) fn version(&self) -> String {
        let number = self.version.split(' ').next().unwrap_or("");
        format!("PostgreSQL {number}")
    }

    /// The same connection, whose answers are read from its record.
    pub(crate) fn into_raw(mut self) -> RawLink {
        let (texts, mut queue) = tokio::sync::mpsc::unbounded_channel::<String>();
        // What the connection was opened and prepared with is of no interest.
        self.tap.take();
        let (tap, pid) = (Arc::clone(&self.tap), self.pid);
        tokio::spawn(async move {
            while let Some(sql) = queue.recv().await {
                // Errors are in the record.
                let _ = self
                    .connection
                    .execute(sqlx::raw_sql(AssertSqlSafe(sql)))
                    .await;
            }
            let _ = self.connection.close().await;
        });
        RawLink { texts, tap, pid }
    }

    /// Sends one request and gives everything that the server answered, up to its readiness.
    ///
    /// # Errors
    /// The connection is gone, or sqlx refused to send the request.
    async fn request(
        &mut self,
        sql: &str,
        args: Option<PgArguments>,
    ) -> Result<Vec<Message>, DbError> {
        self.tap.forget_through(Message::is_ready);
        if self.broken || self.tap.ended() {
            return Err(self.lost(sql));
        }
        let text = AssertSqlSafe(sql.to_owned());
        let is_extended = args.is_some();
        let result = match args {
            None => self.connection.execute(sqlx::raw_sql(text)).await,
            Some(args) => {
                // Looking up a type that it does not know, sqlx overwrites the unnamed statement;
                // so the statement gets a name, and is forgotten below.
                let query = sqlx::query_with(text, args).persistent(true);
                self.connection.execute(query).await
            }
        };
        if let Err(failure) = &result {
            if self.tap.has(Message::is_error) {
                // sqlx returns at the error; readiness, and with it the status, comes after it.
                self.tap.settled(Message::is_ready).await;
            } else if let sqlx::Error::Encode(cause) = failure {
                return Err(DbError::new(
                    ErrorClass::Invalid,
                    "22023",
                    cause.to_string(),
                ));
            } else {
                // Out of step with the server (COPY, for one): never used again.
                self.broken = true;
                if !self.tap.ended() && matches!(failure, sqlx::Error::Protocol(_)) {
                    return Err(DbError::postgres(
                        "08P01",
                        "COPY to or from the client is not supported; the session is closed",
                    ));
                }
                return Err(self.lost(sql));
            }
        }
        let messages = self.tap.messages();
        if !messages.last().is_some_and(Message::is_ready) {
            self.broken = true;
            return Err(self.lost(sql));
        }
        if is_extended {
            // A failure is the connection's, and the next request reports it.
            let _ = self.connection.clear_cached_statements().await;
        }
        self.learn_types(&messages).await;
        Ok(messages)
    }

    /// Why the connection is gone: what the server said last, if it said anything.
    fn lost(&self, sql: &str) -> DbError {
        server_error(&self.tap.messages(), sql).unwrap_or_else(|| {
            DbError::connection_lost("server closed the connection unexpectedly")
        })
    }

    /// Asks for types that are not known by name, over a connection of its own: nothing is ever
    /// sent inside the user's transaction. A type that is not committed yet stays a number.
    async fn learn_types(&self, messages: &[Message]) {
        let missing = messages
            .iter()
            .filter(|m| m.kind == message::ROW_DESCRIPTION)
            .flat_map(|m| message::row_description(&m.body))
            .any(|column| self.target.types.misses(column.oid));
        if missing {
            // Without an answer the columns are named by number; the values come as text.
            let _ = self.ask_for_types().await;
        }
    }

    async fn ask_for_types(&self) -> Result<(), sqlx::Error> {
        let options = self.target.options.clone().ssl_mode(PgSslMode::Disable);
        let mut connection = PgConnection::connect_with(&options).await?;
        let rows = connection
            .fetch_all(sqlx::raw_sql(
                "SELECT oid, typname, typtype, \
                 CASE WHEN typelem <> 0 AND typlen = -1 THEN typelem ELSE 0 END AS item \
                 FROM pg_catalog.pg_type",
            ))
            .await?;
        for row in rows {
            let column = |name: &str| row.try_get_unchecked::<String, _>(name);
            let (Ok(oid), Ok(item)) = (column("oid")?.parse(), column("item")?.parse()) else {
                continue;
            };
            let user_type = UserType {
                name: column("typname")?.into(),
                is_enum: column("typtype")? == "e",
                item: (item != 0).then_some(item),
            };
            self.target.types.learn(oid, user_type);
        }
        connection.close().await
    }
}

/// A connection that is given texts, and whose answers are read from the record of its messages.
#[derive(Debug)]
pub(crate) struct RawLink {
    texts: tokio::sync::mpsc::UnboundedSender<String>,
    tap: Arc<Tap<Message>>,
    pid: i32,
}

impl RawLink {
    /// Sends a text as one message of the simple protocol.
    pub(crate) fn send(&self, sql: &str) {
        // If the connection is gone, its record says so.
        let _ = self.texts.send(sql.to_owned());
    }

    /// The messages that came since the last call.
    pub(crate) fn take(&self) -> Vec<Message> {
        self.tap.take()
    }

    /// Waits, at most for `time`, until messages have come or the connection has ended.
    pub(crate) async fn changed(&self, time: Duration) {
        self.tap.changed(time).await;
    }

    /// Whether the server has closed the connection.
    pub(crate) fn ended(&self) -> bool {
        self.tap.ended()
    }

    /// The process id of the backend.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }
}

/// The last error among the messages.
fn server_error(messages: &[Message], sql: &str) -> Option<DbError> {
    messages
        .iter()
        .rev()
        .find(|m| m.is_error())
        .map(|m| message::error(&m.body, sql))
}

/// The messages that answer an extended query: sqlx first has it described, then perhaps looks up
/// types, then runs it. The description is in the first group, the result in the last one.
fn result_of_extended(messages: Vec<Message>) -> Vec<Message> {
    let mut groups: Vec<Vec<Message>> = vec![Vec::new()];
    for message in messages {
        let ends = message.is_ready();
        if let Some(group) = groups.last_mut() {
            group.push(message);
        }
        if ends {
            groups.push(Vec::new());
        }
    }
    groups.retain(|group| !group.is_empty());
    let last = groups.pop().unwrap_or_default();
    let mut result: Vec<Message> = groups
        .into_iter()
        .next()
        .unwrap_or_default()
        .into_iter()
        .filter(|m| !m.is_ready())
        .collect();
    result.extend(last);
    result
}

impl Link for PostgresLink {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        // What looks like several statements goes by the extended protocol, where the server refuses
        // them; the simple protocol would run them all.
        let is_single = sqltext::statements(sql, Dialect::Postgres).len() <= 1;
        let (messages, format) = if args.is_empty() && is_single {
            (self.request(sql, None).await?, Format::Text)
        } else {
            let mut arguments = PgArguments::default();
            for value in args {
                arguments.add(Argument(value)).map_err(|cause| {
                    DbError::new(ErrorClass::Invalid, "22023", cause.to_string())
                })?;
            }
            let messages = self.request(sql, Some(arguments)).await?;
            (result_of_extended(messages), Format::Binary)
        };
        let mut batch = message::batch(&messages, sql, format, &self.target.types);
        if let Some(error) = batch.error {
            return Err(error);
        }
        // An empty text is answered with nothing at all.
        Ok(batch.replies.pop().unwrap_or_default())
    }

    async fn batch(&mut self, sql: &str) -> Result<Batch, DbError> {
        let messages = self.request(sql, None).await?;
        let batch = message::batch(&messages, sql, Format::Text, &self.target.types);
        match batch.error {
            Some(error) if error.class == ErrorClass::ConnectionLost => Err(error),
            _ => Ok(batch),
        }
    }

    async fn close(self) -> Result<(), DbError> {
        if self.tap.ended() {
            self.tap.forget_through(Message::is_ready);
            return Err(self.lost(""));
        }
        self.connection
            .close()
            .await
            .map_err(|failure| error::of_sqlx(&failure))
    }
}
