//! The system views that are modelled: `pg_locks`, `pg_prepared_xacts`, `pg_stat_activity`; and
//! `pgrowlocks`.
//!
//! Reading one is a volatile read: a statement that waits and goes on sees what it saw.

mod activity;
mod locks;
mod row_locks;

use std::sync::Arc;

use rowlock_model::{Row, Value};

use super::{Exec, Stop};
use crate::engine::postgres::lock::SHARED;
use crate::engine::postgres::{LockMode, Prepared, RelId, Tag};
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
    let views = VIEWS.iter().map(|(name, id, _)| (*name, *id));
    let (_, id) = views.chain(SHARED).find(|(n, _)| *n == name)?;
    Some(RelationId(id))
}

/// The name of a view by its number.
pub(crate) fn view_name(id: RelId) -> Option<Arc<str>> {
    let views = VIEWS.iter().map(|(name, id, _)| (*name, *id));
    let (name, _) = views.chain(SHARED).find(|(_, n)| *n == id.0)?;
    Some(name.into())
}

impl Exec<'_> {
    /// The rows of a view now.
    pub(super) fn view_rows(&mut self, view: &VirtualTable) -> Result<Vec<Row>, Stop> {
        self.store.view_is_read();
        let Exec {
            run,
            store,
            session,
            ..
        } = self;
        let recorded = run.once_value(|| {
            let rows: Vec<Value> = match &*view.name {
                "pg_locks" => locks::rows(store),
                "pg_prepared_xacts" => store.prepared().iter().map(prepared_row).collect(),
                _ => activity::rows(store, *session),
            };
            Ok(Value::Array(rows.into()))
        })?;
        Ok(unpacked(recorded))
    }

    /// Whoever looks at views has them locked, and sees that.
    pub(super) fn lock_views(&mut self) {
        let info = Arc::clone(&self.info);
        for view in &info.views {
            let reads = match &**view {
                "pg_stat_activity" => SHARED.map(|(_, id)| RelationId(id)).to_vec(),
                _ => Vec::new(),
            };
            for relation in view_id(view).into_iter().chain(reads) {
                self.store
                    .note_lock(self.session, Tag::Relation(relation), LockMode::AccessShare);
            }
        }
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

/// The rows of a view, as the journal has them.
fn unpacked(recorded: Value) -> Vec<Row> {
    let Value::Array(rows) = recorded else {
        unreachable!("a view was recorded as {recorded:?}")
    };
    rows.iter()
        .map(|row| match row {
            Value::Array(row) => Arc::clone(row),
            other => unreachable!("a view's row was recorded as {other:?}"),
        })
        .collect()
}
