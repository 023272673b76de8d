//! `CREATE TRIGGER` and `DROP TRIGGER`.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;

use super::ddl::done;
use super::from::name_place;
use super::names::{Level, Place};
use super::{Lowered, Lowering, absent, error, ident, unsupported};
use crate::plan::catalog::{Table, Timing, Trigger};
use crate::plan::ddl::{AlterTable, Ddl};
use crate::plan::expr::Expr;
use crate::plan::routine::RoutineId;

impl Lowering<'_> {
    /// `CREATE TRIGGER`.
    pub(super) fn create_trigger(
        &mut self,
        create: &ast::CreateTrigger,
    ) -> Result<Lowered, DbError> {
        let at = name_place(&create.name, self.begin);
        absent(create.is_constraint, "constraint triggers", at)?;
        absent(!create.referencing.is_empty(), "transition tables", at)?;
        let plain = !create.or_alter
            && !create.temporary
            && create.referenced_table_name.is_none()
            && !create.statements_as
            && create.statements.is_none()
            && create.characteristics.is_none();
        absent(!plain, "this form of CREATE TRIGGER", at)?;
        let table = self.existing_table(&create.table_name)?;
        let (_, name) = self.split_name(&create.name, at)?;
        let each_row = matches!(
            &create.trigger_object,
            Some(
                ast::TriggerObjectKind::For(ast::TriggerObject::Row)
                    | ast::TriggerObjectKind::ForEach(ast::TriggerObject::Row)
            )
        );
        absent(
            each_row && table.partitioned.is_some(),
            "row triggers on partitioned tables",
            at,
        )?;
        let timing = match create.period {
            Some(ast::TriggerPeriod::Before) => Timing::Before,
            Some(ast::TriggerPeriod::After) => Timing::After,
            Some(ast::TriggerPeriod::InsteadOf) => {
                return error("42809", format!("\"{}\" is a table", table.name), at);
            }
            _ => return unsupported("this form of CREATE TRIGGER", at),
        };
        let mut trigger = Trigger {
            name: name.into(),
            routine: self.trigger_function(create, at)?,
            timing,
            each_row,
            insert: false,
            update: false,
            delete: false,
            truncate: false,
            columns: Vec::new(),
            when: None,
            enabled: true,
        };
        self.events(&mut trigger, &table, &create.events, at)?;
        if let Some(condition) = &create.condition {
            trigger.when = Some(self.trigger_condition(&trigger, &table, condition, at)?);
        }
        let taken = table.triggers.iter().any(|t| t.name == trigger.name);
        if taken && !create.or_replace {
            return Err(DbError::postgres(
                "42710",
                format!(
                    "trigger \"{}\" for relation \"{}\" already exists",
                    trigger.name, table.name
                ),
            ));
        }
        let actions = vec![AlterTable::AddTrigger(trigger)];
        Ok(done(Ddl::AlterTable { table, actions }, "CREATE TRIGGER"))
    }

    fn trigger_function(
        &self,
        create: &ast::CreateTrigger,
        at: usize,
    ) -> Result<RoutineId, DbError> {
        let Some(body) = &create.exec_body else {
            return unsupported("this form of CREATE TRIGGER", at);
        };
        let given = body.func_desc.args.as_ref().is_some_and(|a| !a.is_empty());
        absent(given, "arguments of a trigger function", at)?;
        let (_, function) = self.split_name(&body.func_desc.name, at)?;
        let routines = self.catalog.routines(&function);
        let Some(routine) = routines.iter().find(|r| r.args.is_empty()) else {
            return Err(DbError::postgres(
                "42883",
                format!("function {function}() does not exist"),
            ));
        };
        if !routine.is_trigger() {
            return Err(DbError::postgres(
                "42P17",
                format!("function {function} must return type trigger"),
            ));
        }
        Ok(routine.id)
    }

    fn events(
        &self,
        trigger: &mut Trigger,
        table: &Table,
        events: &[ast::TriggerEvent],
        at: usize,
    ) -> Result<(), DbError> {
        for event in events {
            match event {
                ast::TriggerEvent::Insert => trigger.insert = true,
                ast::TriggerEvent::Delete => trigger.delete = true,
                ast::TriggerEvent::Truncate if trigger.each_row => {
                    return error(
                        "42809",
                        "TRUNCATE FOR EACH ROW triggers are not supported",
                        at,
                    );
                }
                ast::TriggerEvent::Truncate => trigger.truncate = true,
                ast::TriggerEvent::Update(columns) => {
                    trigger.update = true;
                    for column in columns {
                        let name = ident(column);
                        match table.column(&name) {
                            Some(column) => trigger.columns.push(column),
                            None => {
                                return Err(DbError::postgres(
                                    "42703",
                                    format!(
                                        "column \"{name}\" of relation \"{}\" does not exist",
                                        table.name
                                    ),
                                ));
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// `WHEN (..)`: over the old row at entry 0 and the new one at entry 1.
    fn trigger_condition(
        &mut self,
        trigger: &Trigger,
        table: &Arc<Table>,
        condition: &ast::Expr,
        at: usize,
    ) -> Result<Expr, DbError> {
        let expr = self.in_level(
            Level::new(Place::Clause("trigger WHEN conditions")),
            |this| {
                let (_, old) = this.table_item(table, "old", None, at)?;
                let (_, new) = this.table_item(table, "new", None, at)?;
                // Neither can be meant by a bare column name.
                this.level().names.tables = old.tables.into_iter().chain(new.tables).collect();
                let typed = this.expr(condition)?;
                this.condition(typed, "WHEN")
            },
        )?;
        let used = crate::plan::walk::entries_used(&expr);
        let refused = |message: &str| Err(DbError::postgres("42P17", message));
        if !trigger.each_row && used != 0 {
            return refused("statement trigger's WHEN condition cannot reference column values");
        }
        if trigger.insert && used & 1 != 0 {
            return refused("INSERT trigger's WHEN condition cannot reference OLD values");
        }
        if trigger.delete && used & 2 != 0 {
            return refused("DELETE trigger's WHEN condition cannot reference NEW values");
        }
        Ok(expr)
    }

    /// `DROP TRIGGER`.
    pub(super) fn drop_trigger(&mut self, drop: &ast::DropTrigger) -> Result<Lowered, DbError> {
        let ast::DropTrigger {
            if_exists,
            trigger_name,
            table_name,
            option: _,
        } = drop;
        let at = self.begin;
        let (_, name) = self.split_name(trigger_name, at)?;
        let Some(table_name) = table_name else {
            return unsupported("DROP TRIGGER without a table", at);
        };
        let table = self.existing_table(table_name)?;
        let mut actions = Vec::new();
        if table.triggers.iter().any(|t| *t.name == *name) {
            actions.push(AlterTable::DropTrigger { name: name.into() });
        } else if !if_exists {
            return Err(DbError::postgres(
                "42704",
                format!(
                    "trigger \"{name}\" for table \"{}\" does not exist",
                    table.name
                ),
            ));
        } else {
            return unsupported(
                "DROP TRIGGER IF EXISTS of a trigger that does not exist",
                at,
            );
        }
        Ok(done(Ddl::AlterTable { table, actions }, "DROP TRIGGER"))
    }
}
