//! `ON CONFLICT`.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;

use super::names::{Place, entry};
use super::{Lowering, error, ident, unsupported};
use crate::plan::catalog::{Index, Table};
use crate::plan::expr::Expr;
use crate::plan::query::{OutputColumn, RangeKind};
use crate::plan::write::{ConflictAction, OnConflict};
use crate::sql::arbiter;

impl Lowering<'_> {
    /// `ON CONFLICT` of an insert whose target is entry 0 of the innermost level.
    pub(super) fn on_conflict(
        &mut self,
        table: &Arc<Table>,
        conflict: &ast::OnConflict,
        at: usize,
    ) -> Result<OnConflict, DbError> {
        let ast::OnConflict {
            conflict_target,
            action,
        } = conflict;
        let arbiters = match conflict_target {
            None => Vec::new(),
            Some(target) => {
                // The server looks through all indexes of the table, and keeps their locks.
                self.lock_target(table, true);
                self.arbiters(table, target, at)?
            }
        };
        let action = match action {
            ast::OnConflictAction::DoNothing => ConflictAction::Nothing,
            ast::OnConflictAction::DoUpdate(update) => {
                if conflict_target.is_none() {
                    return error(
                        "42601",
                        "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                        self.text
                            .to_ascii_lowercase()
                            .rfind("on conflict")
                            .unwrap_or(at),
                    );
                }
                self.do_update(table, update)?
            }
        };
        Ok(OnConflict { arbiters, action })
    }

    /// `DO UPDATE`, which sees the existing row and `excluded`.
    fn do_update(
        &mut self,
        table: &Arc<Table>,
        update: &ast::DoUpdate,
    ) -> Result<ConflictAction, DbError> {
        let ast::DoUpdate {
            assignments,
            selection,
        } = update;
        let target = self.level().names.clone();
        let columns: Vec<OutputColumn> = table
            .columns
            .iter()
            .map(|c| OutputColumn {
                name: c.name.clone(),
                ty: c.declared.ty,
            })
            .collect();
        let declared = table.columns.iter().map(|c| c.declared).collect();
        let begin = self.begin;
        let level = self.level();
        let names = level.add(
            entry("excluded", RangeKind::Table(table.clone()), columns, begin),
            declared,
        );
        level.names = target.clone().join(names);
        let (set, rows) = self.assignments(table, assignments)?;
        if !rows.is_empty() {
            return unsupported(
                "a multiple assignment from a sub-select in ON CONFLICT",
                self.begin,
            );
        }
        let filter = match selection {
            Some(tree) => {
                let typed = self.at_place(Place::Clause("WHERE"), |this| this.expr(tree))?;
                Some(self.condition(typed, "WHERE")?)
            }
            None => None,
        };
        let level = self.level();
        level.range.pop();
        level.declared.pop();
        level.names = target;
        Ok(ConflictAction::Update { set, filter })
    }

    /// The unique indexes that a conflict target means.
    fn arbiters(
        &mut self,
        table: &Arc<Table>,
        target: &ast::ConflictTarget,
        at: usize,
    ) -> Result<Vec<usize>, DbError> {
        let (columns, predicate) = match target {
            ast::ConflictTarget::OnConstraint(name) => {
                let name = name
                    .0
                    .last()
                    .and_then(|p| p.as_ident())
                    .map(ident)
                    .unwrap_or_default();
                return match table
                    .indexes
                    .iter()
                    .position(|i| i.constraint && *i.name == *name)
                {
                    Some(i) if table.indexes[i].deferrable => error(
                        "55000",
                        "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
                        at,
                    ),
                    Some(i) => Ok(vec![i]),
                    None => Err(DbError::postgres(
                        "42704",
                        format!(
                            "constraint \"{name}\" for table \"{}\" does not exist",
                            table.name
                        ),
                    )),
                };
            }
            ast::ConflictTarget::Columns { columns, predicate } => (columns, predicate),
        };
        let mut wanted = Vec::with_capacity(columns.len());
        for name in columns {
            // The server points at the parenthesis.
            let list = columns
                .first()
                .map_or(at, |c| crate::sql::tokens::start_of(c.span));
            let list = self.parenthesis_before(list);
            let expr = match arbiter::read_back(name, self.text) {
                Some(tree) => {
                    self.at_place(Place::Clause("ON CONFLICT"), |this| this.expr(&tree))?
                }
                None => self.column(name).map_err(|e| e.at(list))?,
            };
            wanted.push(expr.expr);
        }
        let predicate = match predicate {
            Some(tree) => {
                let typed = self.at_place(Place::Clause("WHERE"), |this| this.expr(tree))?;
                Some(self.condition(typed, "WHERE")?)
            }
            None => None,
        };
        let found: Vec<usize> = table
            .indexes
            .iter()
            .enumerate()
            .filter(|(_, index)| arbitrates(index, &wanted, predicate.as_ref()))
            .map(|(i, _)| i)
            .collect();
        if found.iter().any(|i| table.indexes[*i].deferrable) {
            return Err(DbError::postgres(
                "55000",
                "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
            ));
        }
        if found.is_empty() {
            return Err(DbError::postgres(
                "42P10",
                "there is no unique or exclusion constraint matching the ON CONFLICT specification",
            ));
        }
        Ok(found)
    }
}

/// Whether an index has exactly these keys, and a predicate that the given one implies.
fn arbitrates(index: &Index, wanted: &[Expr], predicate: Option<&Expr>) -> bool {
    let keys_match = index.keys.iter().all(|k| wanted.contains(&k.expr))
        && wanted
            .iter()
            .all(|w| index.keys.iter().any(|k| k.expr == *w));
    if !index.unique || !keys_match {
        return false;
    }
    match (&index.predicate, predicate) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(needed), Some(given)) => super::access::implies(&[given], needed, 0),
    }
}
