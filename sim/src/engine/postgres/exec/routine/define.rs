//! `CREATE FUNCTION` and `DROP FUNCTION`.

use std::sync::Arc;

use rowlock_model::DbError;

use super::super::{Exec, Stop};
use crate::engine::postgres::catalog::Edit;
use crate::plan::catalog::Trigger;
use crate::plan::routine::{Routine, RoutineId};

impl Exec<'_> {
    /// Makes a function, or replaces it.
    pub(in crate::engine::postgres::exec) fn create_routine(
        &mut self,
        new: &Routine,
        replace: bool,
    ) -> Result<(), Stop> {
        let known = self.schema.routines.values().find(|r| r.is_same(new));
        let id = match known {
            Some(_) if !replace => {
                return Err(DbError::postgres(
                    "42723",
                    format!(
                        "function \"{}\" already exists with same argument types",
                        new.name
                    ),
                )
                .into());
            }
            Some(known) if known.returns != new.returns => {
                return Err(DbError::postgres(
                    "42P13",
                    "cannot change return type of existing function",
                )
                .into());
            }
            Some(known) => known.id,
            None => RoutineId(self.new_id().0),
        };
        self.edit(Edit::Routine(Arc::new(Routine { id, ..new.clone() })));
        Ok(())
    }

    /// Drops functions, and with `cascade` the triggers that call them.
    pub(in crate::engine::postgres::exec) fn drop_routines(
        &mut self,
        routines: &[Arc<Routine>],
        cascade: bool,
    ) -> Result<(), Stop> {
        for routine in routines {
            let signature = routine.signature();
            let mut users: Vec<(Arc<str>, Arc<str>)> = Vec::new();
            for table in self.schema.tables.values() {
                let calls = |t: &&Trigger| t.routine == routine.id;
                for trigger in table.triggers.iter().filter(calls) {
                    users.push((Arc::clone(&trigger.name), Arc::clone(&table.name)));
                }
            }
            if let Some((trigger, table)) = users.first() {
                if cascade {
                    return Err(DbError::unsupported(
                        "DROP FUNCTION .. CASCADE of a trigger function in use",
                        None,
                    )
                    .into());
                }
                return Err(DbError::postgres(
                    "2BP01",
                    format!("cannot drop function {signature} because other objects depend on it"),
                )
                .with_detail(format!(
                    "trigger {trigger} on table {table} depends on function {signature}"
                ))
                .into());
            }
            self.edit(Edit::DropRoutine(routine.id));
        }
        Ok(())
    }
}
