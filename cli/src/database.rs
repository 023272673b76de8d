//! Simulated databases by name.

use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::engine::sqlite::Sqlite;

/// An empty database on a simulated PostgreSQL server.
pub fn postgres() -> Postgres {
    Postgres::default()
}

/// An empty file on simulated SQLite, with a rollback journal (`PRAGMA journal_mode = wal` in the
/// set-up makes that a write-ahead log).
pub fn sqlite() -> Sqlite {
    Sqlite::default()
}
