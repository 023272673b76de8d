//! Simulated databases by name.

use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::pooler::Pooler;

/// An empty database on a simulated PostgreSQL server.
pub fn postgres() -> Postgres {
    Postgres::default()
}

/// The same behind a pooler in transaction mode (PgBouncer) with so many server connections: which
/// of them a transaction gets is open.
pub fn pooled_postgres(connections: u8) -> Pooler<Postgres> {
    Pooler::new(Postgres::default(), connections)
}

/// An empty file on simulated SQLite, with a rollback journal (`PRAGMA journal_mode = wal` in the
/// set-up makes that a write-ahead log).
pub fn sqlite() -> Sqlite {
    Sqlite::default()
}
