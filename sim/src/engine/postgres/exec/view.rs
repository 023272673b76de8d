//! The system views that are modelled: `pg_locks`, `pg_prepared_xacts` and `pg_stat_activity`.
//!
//! Reading one is a volatile read: a statement that waits and goes on sees what it saw.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Row, Value};

use super::{Exec, Stop};
use crate::engine::postgres::lock::mode_name;
use crate::engine::postgres::prepared::is_seat;
use crate::engine::postgres::session::{Block, SessionState, Waiting};
use crate::engine::postgres::{
    AdvisoryKey, HeldLock, LockMode, Prepared, ReadLock, RelId, Tag, pid,
};
use crate::plan::catalog::{RelationId, VirtualTable};
use crate::plan::types::Type;

/// Name, number and columns of each view.
type Definition = (&'static str, u32, &'static [(&'static str, Type)]);

const VIEWS: [Definition; 3] = [
    (
        "pg_locks",
        12_143,
        &[
            ("locktype", Type::Text),
            ("database", Type::Oid),
            ("relation", Type::Oid),
            ("page", Type::Int4),
            ("tuple", Type::Int2),
            ("virtualxid", Type::Text),
            ("transactionid", Type::Xid),
            ("classid", Type::Oid),
            ("objid", Type::Oid),
            ("objsubid", Type::Int2),
            ("virtualtransaction", Type::Text),
            ("pid", Type::Int4),
            ("mode", Type::Text),
            ("granted", Type::Bool),
            ("fastpath", Type::Bool),
            ("waitstart", Type::TimestampTz),
        ],
    ),
    (
        "pg_prepared_xacts",
        12_090,
        &[
            ("transaction", Type::Xid),
            ("gid", Type::Text),
            ("prepared", Type::TimestampTz),
            ("owner", Type::Name),
            ("database", Type::Name),
        ],
    ),
    (
        "pg_stat_activity",
        12_216,
        &[
            ("datid", Type::Oid),
            ("datname", Type::Name),
            ("pid", Type::Int4),
            ("leader_pid", Type::Int4),
            ("usesysid", Type::Oid),
            ("usename", Type::Name),
            ("application_name", Type::Text),
            ("client_addr", Type::Text),
            ("client_hostname", Type::Text),
            ("client_port", Type::Int4),
            ("backend_start", Type::TimestampTz),
            ("xact_start", Type::TimestampTz),
            ("query_start", Type::TimestampTz),
            ("state_change", Type::TimestampTz),
            ("wait_event_type", Type::Text),
            ("wait_event", Type::Text),
            ("state", Type::Text),
            ("backend_xid", Type::Xid),
            ("backend_xmin", Type::Xid),
            ("query_id", Type::Int8),
            ("query", Type::Text),
            ("backend_type", Type::Text),
        ],
    ),
];

/// The number of the only database, as `pg_locks.database` shows it.
const DATABASE: i64 = 5;

/// The view with a name.
pub(crate) fn view(name: &str) -> Option<Arc<VirtualTable>> {
    let (name, _, columns) = VIEWS.iter().find(|(n, ..)| *n == name)?;
    Some(Arc::new(VirtualTable {
        name: (*name).into(),
        columns: columns.iter().map(|(n, ty)| ((*n).into(), *ty)).collect(),
    }))
}

/// The number of a view.
pub(crate) fn view_id(name: &str) -> Option<RelId> {
    let (_, id, _) = VIEWS.iter().find(|(n, ..)| *n == name)?;
    Some(RelationId(*id))
}

/// The name of a view by its number.
pub(crate) fn view_name(id: RelId) -> Option<Arc<str>> {
    let (name, ..) = VIEWS.iter().find(|(_, n, _)| *n == id.0)?;
    Some((*name).into())
}

impl Exec<'_> {
    /// The rows of a view now.
    pub(super) fn view_rows(&mut self, view: &VirtualTable) -> Result<Vec<Row>, Stop> {
        let recorded = self.run.once_value(|| {
            let rows: Vec<Value> = match &*view.name {
                "pg_locks" => {
                    let locks = self.store.locks();
                    let reads = self.store.read_locks();
                    let held = locks
                        .iter()
                        .map(|lock| lock_row(lock, self.store.beginner(lock.session)));
                    held.chain(reads.iter().map(read_lock_row)).collect()
                }
                "pg_prepared_xacts" => self.store.prepared().iter().map(prepared_row).collect(),
                _ => (0..self.store.session_count())
                    .map(SessionId)
                    .filter(|s| self.store.session(*s).gone.is_none())
                    .map(|s| {
                        let active = s == self.session;
                        activity_row(s, self.store.session(s), active)
                    })
                    .collect(),
            };
            Ok(Value::Array(rows.into()))
        })?;
        let Value::Array(rows) = recorded else {
            unreachable!("a view was recorded as {recorded:?}")
        };
        Ok(rows
            .iter()
            .map(|row| match row {
                Value::Array(row) => Arc::clone(row),
                other => unreachable!("a view's row was recorded as {other:?}"),
            })
            .collect())
    }
}

/// `beginner`: the session that began the transaction that has the lock.
fn lock_row(lock: &HeldLock, beginner: SessionId) -> Value {
    let int = |n: u32| Value::Int(i64::from(n));
    let mut row = vec![Value::Null; 16];
    let database = Value::Int(DATABASE);
    row[0] = Value::text(match lock.tag {
        Tag::Relation(rel) => {
            row[1] = database;
            row[2] = int(rel.0);
            "relation"
        }
        Tag::Tuple(rel, version) => {
            row[1] = database;
            row[2] = int(rel.0);
            row[3] = Value::Int(0);
            row[4] = int(version.0);
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
    row[10] = virtual_xid(beginner);
    row[11] = process(lock.session, is_seat(lock.session));
    row[12] = Value::text(mode_name(lock.mode));
    row[13] = Value::Bool(lock.granted);
    row[14] =
        Value::Bool(matches!(lock.tag, Tag::Relation(_)) && lock.mode <= LockMode::RowExclusive);
    Value::Array(row.into())
}

fn read_lock_row(lock: &ReadLock) -> Value {
    let int = |n: u32| Value::Int(i64::from(n));
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

fn prepared_row(prepared: &Prepared) -> Value {
    let row = [
        Value::Int(i64::from(prepared.xid.0)),
        Value::Text(Arc::clone(&prepared.identifier)),
        Value::TimestampTz(prepared.at_micros),
        Value::text("postgres"),
        Value::text("rowlock"),
    ];
    Value::Array(row.into())
}

fn virtual_xid(session: SessionId) -> Value {
    Value::text(format!("{}/1", u32::from(session.0) + 3))
}

fn activity_row(session: SessionId, state: &SessionState, active: bool) -> Value {
    let mut row = vec![Value::Null; 22];
    row[0] = Value::Int(DATABASE);
    row[1] = Value::text("rowlock");
    row[2] = Value::Int(pid(session));
    row[4] = Value::Int(10);
    row[5] = Value::text("postgres");
    row[6] = state
        .settings
        .get()
        .show("application_name")
        .map_or(Value::Null, Value::Text);
    row[9] = Value::Int(-1);
    if let Some(transaction) = &state.transaction {
        row[11] = Value::TimestampTz(transaction.start_micros);
    }
    let waits = state.flight.as_ref().map(|flight| match flight.waiting {
        Waiting::Lock => ("Lock", "transactionid"),
        Waiting::Safety => ("IPC", "SafeSnapshot"),
        Waiting::Sleep(_) => ("Timeout", "PgSleep"),
        Waiting::Nothing(_) => ("Client", "ClientRead"),
    });
    let (kind, event) = match waits {
        Some((kind, event)) => (Some(kind), Some(event)),
        None if active => (None, None),
        None => (Some("Client"), Some("ClientRead")),
    };
    row[14] = kind.map_or(Value::Null, Value::text);
    row[15] = event.map_or(Value::Null, Value::text);
    row[16] = Value::text(if active || state.flight.is_some() {
        "active"
    } else {
        match state.block {
            Block::Idle | Block::Implicit => "idle",
            Block::Open => "idle in transaction",
            Block::Failed => "idle in transaction (aborted)",
        }
    });
    row[20] = Value::text("");
    row[21] = Value::text("client backend");
    Value::Array(row.into())
}
