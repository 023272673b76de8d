//! `pg_locks`.

use rowlock_model::Value;
use rowlock_model::schedule::SessionId;

use super::DATABASE;
use crate::engine::postgres::lock::{is_shared, mode_name};
use crate::engine::postgres::prepared::is_seat;
use crate::engine::postgres::{AdvisoryKey, HeldLock, ReadLock, Store, Tag, pid};

/// The rows, in the server's order as far as it has one.
pub(super) fn rows(store: &Store) -> Vec<Value> {
    let locks = store.locks();
    let reads = store.read_locks();
    let held = locks.iter().map(|lock| held(store, lock));
    held.chain(reads.iter().map(read)).collect()
}

fn int(n: u32) -> Value {
    Value::Int(i64::from(n))
}

fn held(store: &Store, lock: &HeldLock) -> Value {
    let mut row = vec![Value::Null; 16];
    let database = Value::Int(DATABASE);
    row[0] = Value::text(match lock.tag {
        Tag::Relation(rel) | Tag::Indexes(rel) => {
            row[1] = if is_shared(rel) { int(0) } else { database };
            row[2] = int(rel.0);
            "relation"
        }
        Tag::Tuple(rel, version) => {
            let (page, item) = store.ctid(version);
            row[1] = database;
            row[2] = int(rel.0);
            row[3] = int(page);
            row[4] = int(item);
            "tuple"
        }
        Tag::Transaction(xid) => {
            row[6] = int(xid.0);
            "transactionid"
        }
        Tag::Virtual(session) => {
            row[5] = virtual_xid(session);
            "virtualxid"
        }
        Tag::Advisory(key) => {
            row[1] = database;
            let (class, object, form) = match key {
                AdvisoryKey::Big(key) => ((key as u64 >> 32) as u32, key as u32, 1),
                AdvisoryKey::Pair(a, b) => (a as u32, b as u32, 2),
            };
            row[7] = int(class);
            row[8] = int(object);
            row[9] = Value::Int(form);
            "advisory"
        }
    });
    row[10] = virtual_xid(store.beginner(lock.session));
    row[11] = process(lock.session, is_seat(lock.session));
    row[12] = Value::text(mode_name(lock.mode));
    row[13] = Value::Bool(lock.granted);
    row[14] = Value::Bool(lock.fast);
    if !lock.granted
        && let Some(flight) = &store.session(lock.session).flight
    {
        row[15] = Value::TimestampTz(flight.since_micros);
    }
    Value::Array(row.into())
}

fn read(lock: &ReadLock) -> Value {
    let mut row = vec![Value::Null; 16];
    row[0] = Value::text(match (lock.page, lock.item) {
        (None, _) => "relation",
        (Some(_), None) => "page",
        (Some(_), Some(_)) => "tuple",
    });
    row[1] = Value::Int(DATABASE);
    row[2] = int(lock.relation.0);
    row[3] = lock.page.map_or(Value::Null, int);
    row[4] = lock.item.map_or(Value::Null, int);
    row[10] = virtual_xid(lock.session);
    row[11] = process(lock.session, lock.is_prepared);
    row[12] = Value::text("SIReadLock");
    row[13] = Value::Bool(true);
    row[14] = Value::Bool(false);
    Value::Array(row.into())
}

/// The process that has a lock; a prepared transaction has none.
fn process(session: SessionId, is_prepared: bool) -> Value {
    match is_prepared {
        true => Value::Null,
        false => Value::Int(pid(session)),
    }
}

/// The virtual transaction id. Its second half counts a session's transactions on a server; here it
/// always is the first, so that states can repeat.
fn virtual_xid(session: SessionId) -> Value {
    Value::text(format!("{}/1", u32::from(session.0) + 3))
}
