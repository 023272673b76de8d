//! Calls of trigger functions (manual, "Trigger Functions").

use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::super::trigger::Firing;
use super::super::{Exec, Stop};
use super::frame::{Datum, Frame, Record, Shape, Slot, columns_of};
use super::{Body, Entered, Outcome};
use crate::engine::postgres::errors;
use crate::plan::catalog::Timing;
use crate::plan::types::Type;

impl Exec<'_> {
    /// Calls the function of a trigger: the row that it returns.
    pub(in crate::engine::postgres::exec) fn call_trigger(
        &mut self,
        firing: Firing<'_>,
    ) -> Result<Option<Row>, Stop> {
        let Some(routine) = self.schema.routines.get(&firing.trigger.routine) else {
            return Err(DbError::postgres("42883", "the function of a trigger is gone").into());
        };
        let routine = Arc::clone(routine);
        let Body::Plpgsql(block) = &routine.body else {
            return Err(DbError::unsupported("a trigger function in SQL", None).into());
        };
        let opened = match self.open_frame() {
            Entered::Now(opened) => opened,
            Entered::Before(Outcome::Row(row)) => return Ok(row),
            Entered::Before(other) => panic!("the journal has {other:?} where a trigger fires"),
        };
        let row = self.deeper(|exec| {
            let mut frame = Frame::new(&routine, Vec::new());
            frame.state.slots.extend(variables(firing));
            exec.whole_block(&mut frame, block)?;
            exec.trigger_result(&frame, firing)
        })?;
        self.close_frame(&opened, Outcome::Row(row.clone()));
        Ok(row)
    }

    fn trigger_result(
        &mut self,
        frame: &Frame<'_>,
        firing: Firing<'_>,
    ) -> Result<Option<Row>, Stop> {
        let Some((returned, _)) = &frame.state.returned else {
            return Err(errors::no_return().into());
        };
        let ignored = firing.trigger.timing == Timing::After || !firing.trigger.each_row;
        match returned {
            Datum::Value(Value::Null) | Datum::Record(None | Some(Record { row: None, .. })) => {
                Ok(None)
            }
            Datum::Record(Some(_)) if ignored => Ok(None),
            Datum::Record(Some(Record {
                columns,
                row: Some(row),
            })) => {
                let wanted = columns_of(firing.table);
                if wanted.len() != columns.len() {
                    return Err(DbError::postgres(
                        "42804",
                        "returned row structure does not match the structure of the triggering table",
                    )
                    .into());
                }
                let mut values = Vec::with_capacity(wanted.len());
                for ((value, from), to) in row.iter().zip(columns.iter()).zip(wanted.iter()) {
                    values.push(self.assignable(value, from.ty, to.ty.into())?);
                }
                Ok(Some(Exec::stored_values(firing.table, &values.into())))
            }
            Datum::Value(_) => Err(DbError::postgres(
                "42804",
                "cannot return non-composite value from function returning composite type",
            )
            .into()),
        }
    }
}

/// `NEW`, `OLD` and `TG_*`.
fn variables(firing: Firing<'_>) -> Vec<Slot> {
    let trigger = firing.trigger;
    let columns = columns_of(firing.table);
    let row = |name: &str, row: Option<Row>| Slot {
        shape: Shape::Row(Arc::clone(&columns)),
        value: Datum::Record(Some(Record {
            columns: Arc::clone(&columns),
            row: row.map(|row| Exec::live_values(firing.table, &row)),
        })),
        ..Slot::value(name, Type::Record, Value::Null)
    };
    // Generated columns are computed after these triggers.
    let new = firing.new.map(|new| {
        let mut new = new.to_vec();
        for (value, column) in new.iter_mut().zip(&firing.table.columns) {
            if column.generated.is_some() && trigger.timing == Timing::Before {
                *value = Value::Null;
            }
        }
        new.into()
    });
    let text = |name: &str, value: &str| Slot::value(name, Type::Text, Value::text(value));
    let table = &firing.table.name;
    vec![
        row("new", new),
        row("old", firing.old.map(Row::clone)),
        Slot::value(
            "tg_name",
            Type::Name,
            Value::Text(Arc::clone(&trigger.name)),
        ),
        text(
            "tg_when",
            match trigger.timing {
                Timing::Before => "BEFORE",
                Timing::After => "AFTER",
            },
        ),
        text(
            "tg_level",
            if trigger.each_row { "ROW" } else { "STATEMENT" },
        ),
        text("tg_op", firing.action.name()),
        Slot::value(
            "tg_relid",
            Type::Oid,
            Value::Int(i64::from(firing.table.id.0)),
        ),
        Slot::value("tg_relname", Type::Name, Value::Text(Arc::clone(table))),
        Slot::value("tg_table_name", Type::Name, Value::Text(Arc::clone(table))),
        Slot::value("tg_table_schema", Type::Name, Value::text("public")),
        Slot::value("tg_nargs", Type::Int4, Value::Int(0)),
        Slot::value("tg_argv", Type::Array(&Type::Text), Value::Array([].into())),
    ]
}
