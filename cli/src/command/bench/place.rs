//! A throwaway server to measure on, with durability on.

use std::path::PathBuf;
use std::time::Duration;

use rowlock_model::{Dialect, Host, Reply, Session, Value};
use rowlock_real::server::{Flavour, MySqlServer, PostgresServer};
use rowlock_real::{RealHost, RealSession, SqliteTarget};

/// Tests switch durability off; a measurement is of commits that are stored.
const DURABLE: &[&str] = &["ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()"];

/// Rows that one INSERT makes.
const CHUNK: u32 = 500;

/// The server, gone when dropped.
enum Server {
    Postgres(PostgresServer),
    MySql(MySqlServer),
    Sqlite(PathBuf),
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Server::Sqlite(file) = self {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A database to measure on.
pub(super) struct Place {
    pub(super) dialect: Dialect,
    server: Server,
    version: String,
}

impl Place {
    /// Starts a server.
    pub(super) async fn open(dialect: Dialect) -> Result<Place, String> {
        let server = match dialect {
            Dialect::Postgres => PostgresServer::start()
                .map(Server::Postgres)
                .map_err(|e| e.to_string())?,
            Dialect::MySql | Dialect::MariaDb => {
                let flavour = match dialect {
                    Dialect::MySql => Flavour::MySql,
                    _ => Flavour::MariaDb,
                };
                MySqlServer::start(flavour)
                    .map(Server::MySql)
                    .map_err(|e| e.to_string())?
            }
            Dialect::Sqlite => {
                let name = format!("rowlock-bench-{}.db", std::process::id());
                Server::Sqlite(std::env::temp_dir().join(name))
            }
        };
        let mut place = Place {
            dialect,
            server,
            version: String::new(),
        };
        if let Server::MySql(server) = &place.server {
            let mut admin = connect(&RealHost::new("bench", server.target())).await?;
            run(&mut admin, "CREATE DATABASE bench").await?;
            run(&mut admin, "SET GLOBAL innodb_flush_log_at_trx_commit = 1").await?;
        }
        let mut admin = connect(&place.host("bench")).await?;
        let settings = match dialect {
            Dialect::Postgres => DURABLE,
            Dialect::Sqlite => &["PRAGMA journal_mode = WAL"],
            Dialect::MySql | Dialect::MariaDb => &[],
        };
        for sql in settings {
            run(&mut admin, sql).await?;
        }
        let (sql, product) = match dialect {
            Dialect::Postgres => ("SHOW server_version", "PostgreSQL"),
            Dialect::MySql => ("SELECT VERSION()", "MySQL"),
            Dialect::MariaDb => ("SELECT VERSION()", "MariaDB"),
            Dialect::Sqlite => ("SELECT sqlite_version()", "SQLite"),
        };
        let reply = run(&mut admin, sql).await?;
        let version = reply.scalar().and_then(Value::as_str).unwrap_or_default();
        let version = version.split([' ', '-']).next().unwrap_or_default();
        place.version = format!("{product} {version}");
        Ok(place)
    }

    /// Product and version.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// A host of its own for each worker.
    pub(super) fn host(&self, name: &str) -> RealHost {
        match &self.server {
            Server::Postgres(server) => RealHost::new(name, server.target("postgres")),
            Server::MySql(server) => RealHost::new(name, server.target().with_database("bench")),
            Server::Sqlite(file) => {
                let target = SqliteTarget::file(file);
                RealHost::new(name, target.with_busy_timeout(Duration::from_secs(30)))
            }
        }
    }

    /// A fresh table `job` with so many rows, indexed in claim order.
    pub(super) async fn fill(&self, rows: u32) -> Result<(), String> {
        let mut admin = connect(&self.host("bench")).await?;
        let instant = match self.dialect {
            Dialect::Postgres => "timestamptz",
            Dialect::MySql | Dialect::MariaDb => "DATETIME",
            Dialect::Sqlite => "INTEGER",
        };
        run(&mut admin, "DROP TABLE IF EXISTS job").await?;
        let table = format!(
            "CREATE TABLE job (id BIGINT PRIMARY KEY, attempt INT NOT NULL DEFAULT 1, \
             locked_until {instant} NULL, body VARCHAR(100))"
        );
        run(&mut admin, &table).await?;
        let mut next = 1;
        while next <= rows {
            let end = rows.min(next + CHUNK - 1);
            let values: Vec<String> = (next..=end)
                .map(|id| format!("({id}, 'job {id}')"))
                .collect();
            let sql = format!("INSERT INTO job (id, body) VALUES {}", values.join(", "));
            run(&mut admin, &sql).await?;
            next = end + 1;
        }
        if self.dialect == Dialect::Postgres {
            run(&mut admin, "ANALYZE job").await?;
        }
        Ok(())
    }

    /// How many rows are left.
    pub(super) async fn left(&self) -> Result<i64, String> {
        let mut admin = connect(&self.host("bench")).await?;
        let reply = run(&mut admin, "SELECT count(*) FROM job").await?;
        Ok(reply.scalar().and_then(Value::as_int).unwrap_or(-1))
    }
}

/// A session.
pub(super) async fn connect(host: &RealHost) -> Result<RealSession, String> {
    host.connect().await.map_err(|error| error.to_string())
}

/// A statement that must succeed.
pub(super) async fn run(session: &mut RealSession, sql: &str) -> Result<Reply, String> {
    let reply = session.exec(sql, &[]).await;
    reply.map_err(|error| format!("{sql}: {error}"))
}
