//! `pgrowlocks`: who has locked which rows of a table, read from the rows themselves.

use rowlock_model::{Row, Value};

use super::unpacked;
use crate::engine::postgres::exec::function::unqualified;
use crate::engine::postgres::exec::{Exec, Stop};
use crate::engine::postgres::{LockMode, LockedRow, errors, pid};
use crate::plan::catalog::{Catalog as _, Relation};

impl Exec<'_> {
    /// The rows of `pgrowlocks` for the table of this name.
    pub(in crate::engine::postgres::exec) fn row_locks(
        &mut self,
        name: &Value,
    ) -> Result<Vec<Row>, Stop> {
        let Value::Text(name) = name else {
            // The function is strict.
            return Ok(Vec::new());
        };
        let name = unqualified(name);
        let Some(Relation::Table(table)) = self.schema.relation(None, &name) else {
            return Err(errors::undefined_table(&name).into());
        };
        self.lock_relation(table.id, LockMode::AccessShare)?;
        self.store.view_is_read();
        let Exec {
            run,
            store,
            session,
            snapshot,
            ..
        } = self;
        let recorded = run.once_value(|| {
            let rows = store.locked_rows(*session, snapshot, table.id);
            Ok(Value::Array(rows.iter().map(row).collect()))
        })?;
        Ok(unpacked(recorded))
    }
}

fn row(locked: &LockedRow) -> Value {
    let (page, item) = locked.place;
    let members = &locked.members;
    let ids = members.iter().map(|(xid, ..)| Value::Int(i64::from(xid.0)));
    let modes = members.iter().map(|(_, mode, _)| Value::text(*mode));
    let pids = members.iter().map(|(.., session)| match session {
        Some(session) => Value::Int(pid(*session)),
        None => Value::Int(0),
    });
    Value::Array(
        [
            Value::text(format!("({page},{item})")),
            Value::Int(i64::from(locked.locker)),
            Value::Bool(locked.multi),
            Value::Array(ids.collect()),
            Value::Array(modes.collect()),
            Value::Array(pids.collect()),
        ]
        .into(),
    )
}
