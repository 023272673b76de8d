//! Tests of the claim forms with a scripted host: every failure at every call.

mod advisory;
mod fifo;
mod lease;
mod row_lock;
mod slots;
mod texts;

use super::*;
use crate::fake::{FakeHost, affected, rows};
use crate::{DbError, Dialect, Host, Reply, Value};

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// 2026-11-30 12:00:00.25 UTC.
const NOW: i64 = 1_796_040_000 * SECOND + 250_000;

/// A table with every role.
fn full() -> Table {
    Table::new("job", "id")
        .group("kind")
        .priority("priority")
        .retry_after("due")
        .processed_at("done_at")
        .attempt("attempt")
        .payload(["body"])
}

/// A table with an id, an attempt and a payload.
fn small() -> Table {
    Table::new("job", "id").attempt("attempt").payload(["body"])
}

fn lost() -> DbError {
    DbError::connection_lost("reset by peer")
}

fn refused() -> DbError {
    DbError::postgres("55P03", "canceling statement due to lock timeout")
}
