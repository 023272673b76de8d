//! Simulated databases by name.

use rowlock_sim::engine::postgres::Postgres;

/// An empty database on a simulated PostgreSQL server.
pub fn postgres() -> Postgres {
    Postgres::default()
}
