//! `ALTER TABLE`.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;
use sqlparser::ast::{AlterColumnOperation, AlterTableOperation};

use super::ddl::done;
use super::from::name_place;
use super::table::NewTable;
use super::{Lowered, Lowering, absent, ident, unsupported};
use crate::plan::catalog::Table;
use crate::plan::ddl::{AlterTable, Ddl};

impl Lowering<'_> {
    pub(super) fn alter_table(&mut self, alter: &ast::AlterTable) -> Result<Lowered, DbError> {
        let ast::AlterTable {
            name,
            if_exists,
            only: _,
            operations,
            location,
            on_cluster,
            table_type,
            end_token: _,
        } = alter;
        let at = name_place(name, self.begin);
        absent(*if_exists, "ALTER TABLE IF EXISTS", at)?;
        let foreign = location.is_some() || on_cluster.is_some() || table_type.is_some();
        absent(foreign, "options of other products", at)?;
        let table = self.existing_table(name)?;
        // Later actions see the columns that earlier ones add.
        let mut new = NewTable::of((*table).clone());
        let mut actions = Vec::with_capacity(operations.len());
        for operation in operations {
            self.alter_operation(&mut new, operation, at, &mut actions)?;
        }
        Ok(done(Ddl::AlterTable { table, actions }, "ALTER TABLE"))
    }

    fn alter_operation(
        &mut self,
        new: &mut NewTable,
        operation: &AlterTableOperation,
        at: usize,
        actions: &mut Vec<AlterTable>,
    ) -> Result<(), DbError> {
        let family = !new.table.parents.is_empty()
            || new.table.partitioned.is_some()
            || !self.catalog.children(new.table.id).is_empty();
        let own = matches!(
            operation,
            AlterTableOperation::AttachPartitionOf { .. }
                | AlterTableOperation::DetachPartitionOf { .. }
                | AlterTableOperation::EnableTrigger { .. }
                | AlterTableOperation::DisableTrigger { .. }
                | AlterTableOperation::RenameTable { .. }
        );
        absent(
            family && !own,
            "this ALTER TABLE of a table with parents or children",
            at,
        )?;
        match operation {
            AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists,
                column_def,
                column_position,
            } => {
                absent(column_position.is_some(), "the position of a column", at)?;
                let name = ident(&column_def.name);
                if new.table.column(&name).is_some() {
                    if *if_not_exists {
                        return Ok(());
                    }
                    return Err(DbError::postgres(
                        "42701",
                        format!(
                            "column \"{name}\" of relation \"{}\" already exists",
                            new.table.name
                        ),
                    ));
                }
                let before = Counts::of(new);
                self.added_column(new, column_def)?;
                let column = new.table.columns.last().cloned();
                actions.extend(column.map(|column| AlterTable::AddColumn {
                    column: Box::new(column),
                    sequence: new.sequences.pop(),
                    if_not_exists: *if_not_exists,
                }));
                before.added(new, actions);
            }
            AlterTableOperation::AddConstraint {
                constraint,
                not_valid,
            } => {
                let is_foreign_key = matches!(constraint, ast::TableConstraint::ForeignKey(_));
                absent(
                    *not_valid && !is_foreign_key,
                    "NOT VALID on other constraints than foreign keys",
                    at,
                )?;
                let before = Counts::of(new);
                self.table_constraint(new, constraint)?;
                for key in &mut new.foreign_keys[before.foreign_keys..] {
                    key.validated = !not_valid;
                }
                before.added(new, actions);
            }
            AlterTableOperation::DropColumn {
                has_column_keyword: _,
                column_names,
                if_exists,
                drop_behavior,
            } => {
                for name in column_names {
                    let name = ident(name);
                    match new.table.column(&name) {
                        Some(column) => {
                            new.table.columns[column].dropped = true;
                            actions.push(AlterTable::DropColumn {
                                column,
                                cascade: cascades(*drop_behavior),
                            });
                        }
                        None if *if_exists => {}
                        None => return Err(no_column(&name, &new.table)),
                    }
                }
            }
            AlterTableOperation::EnableTrigger { name }
            | AlterTableOperation::DisableTrigger { name } => {
                let enabled = matches!(operation, AlterTableOperation::EnableTrigger { .. });
                let name = ident(name);
                if !new.table.triggers.iter().any(|t| *t.name == *name) {
                    return Err(DbError::postgres(
                        "42704",
                        format!(
                            "trigger \"{name}\" for table \"{}\" does not exist",
                            new.table.name
                        ),
                    ));
                }
                actions.push(AlterTable::SetTrigger {
                    name: name.into(),
                    enabled,
                });
            }
            AlterTableOperation::AttachPartitionOf {
                partition,
                for_values,
            } => {
                let parent = Arc::new(new.table.clone());
                actions.push(self.attach(&parent, partition, for_values)?);
            }
            AlterTableOperation::DetachPartitionOf { partition, mode } => {
                let parent = Arc::new(new.table.clone());
                actions.push(self.detach(&parent, partition, mode.as_ref())?);
            }
            AlterTableOperation::ValidateConstraint { name } => {
                let name = ident(name);
                let table = &new.table;
                let mut keys = table.foreign_keys.iter();
                if let Some(key) = keys.find(|key| *key.name == *name) {
                    actions.push(AlterTable::Validate {
                        name: name.into(),
                        parent: key.parent,
                    });
                } else if table
                    .indexes
                    .iter()
                    .any(|i| i.constraint && *i.name == *name)
                {
                    return Err(DbError::postgres(
                        "42809",
                        format!(
                            "constraint \"{name}\" of relation \"{}\" is not a foreign key or \
                             check constraint",
                            table.name
                        ),
                    ));
                } else if table.checks.iter().any(|c| *c.name == *name) {
                    return unsupported("ALTER TABLE VALIDATE CONSTRAINT of a CHECK", at);
                } else {
                    return Err(DbError::postgres(
                        "42704",
                        format!(
                            "constraint \"{name}\" of relation \"{}\" does not exist",
                            table.name
                        ),
                    ));
                }
            }
            AlterTableOperation::DropConstraint {
                if_exists,
                name,
                drop_behavior,
            } => {
                let name = ident(name);
                let table = &new.table;
                let exists = table
                    .indexes
                    .iter()
                    .any(|i| i.constraint && *i.name == *name)
                    || table.checks.iter().any(|c| *c.name == *name)
                    || table.foreign_keys.iter().any(|f| *f.name == *name);
                if exists {
                    actions.push(AlterTable::DropConstraint {
                        name: name.into(),
                        cascade: cascades(*drop_behavior),
                    });
                } else if !if_exists {
                    return Err(DbError::postgres(
                        "42704",
                        format!(
                            "constraint \"{name}\" of relation \"{}\" does not exist",
                            table.name
                        ),
                    ));
                }
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let name = ident(column_name);
                let Some(column) = new.table.column(&name) else {
                    return Err(no_column(&name, &new.table));
                };
                let action = self.alter_column(&new.table, column, op, at)?;
                actions.push(action);
            }
            AlterTableOperation::RenameColumn {
                old_column_name,
                new_column_name,
            } => {
                let name = ident(old_column_name);
                let Some(column) = new.table.column(&name) else {
                    return Err(DbError::postgres(
                        "42703",
                        format!("column \"{name}\" does not exist"),
                    ));
                };
                actions.push(AlterTable::RenameColumn {
                    column,
                    name: ident(new_column_name).into(),
                });
            }
            AlterTableOperation::RenameTable {
                table_name: ast::RenameTableNameKind::To(name),
            } => {
                let (_, name) = self.split_name(name, at)?;
                actions.push(AlterTable::RenameTable { name: name.into() });
            }
            other => {
                let text = other.to_string();
                let words: Vec<&str> = text.split_whitespace().take(3).collect();
                return unsupported(format!("ALTER TABLE {}", words.join(" ")), at);
            }
        }
        Ok(())
    }

    fn alter_column(
        &mut self,
        table: &Table,
        column: usize,
        op: &AlterColumnOperation,
        at: usize,
    ) -> Result<AlterTable, DbError> {
        Ok(match op {
            AlterColumnOperation::SetNotNull => AlterTable::SetNotNull {
                column,
                not_null: true,
            },
            AlterColumnOperation::DropNotNull => AlterTable::SetNotNull {
                column,
                not_null: false,
            },
            AlterColumnOperation::SetDefault { value } => AlterTable::SetDefault {
                column,
                default: Some(self.default_expr(&table.columns[column], value)?),
            },
            AlterColumnOperation::DropDefault => AlterTable::SetDefault {
                column,
                default: None,
            },
            _ => return unsupported("this change of a column", at),
        })
    }
}

fn cascades(behavior: Option<ast::DropBehavior>) -> bool {
    matches!(behavior, Some(ast::DropBehavior::Cascade))
}

fn no_column(name: &str, table: &Table) -> DbError {
    DbError::postgres(
        "42703",
        format!(
            "column \"{name}\" of relation \"{}\" does not exist",
            table.name
        ),
    )
}

/// How many constraints there were.
struct Counts {
    indexes: usize,
    checks: Vec<Arc<str>>,
    foreign_keys: usize,
}

impl Counts {
    fn of(new: &NewTable) -> Counts {
        Counts {
            indexes: new.table.indexes.len(),
            checks: new.table.checks.iter().map(|c| c.name.clone()).collect(),
            foreign_keys: new.foreign_keys.len(),
        }
    }

    /// The constraints that were added since, as actions.
    fn added(&self, new: &NewTable, actions: &mut Vec<AlterTable>) {
        for index in &new.table.indexes[self.indexes..] {
            actions.push(AlterTable::AddIndex(Box::new(index.clone())));
        }
        for check in &new.table.checks {
            if !self.checks.contains(&check.name) {
                actions.push(AlterTable::AddCheck(check.clone()));
            }
        }
        for key in &new.foreign_keys[self.foreign_keys..] {
            actions.push(AlterTable::AddForeignKey(key.clone()));
        }
    }
}
