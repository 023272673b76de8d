//! `MERGE`.

use rowlock_model::{DbError, Value};
use sqlparser::ast;

use super::names::Place;
use super::write::is_default;
use super::{CteList, Lowering, absent, error, place, unsupported};
use crate::plan::catalog::{Identity, Table};
use crate::plan::expr::Expr;
use crate::plan::query::{From, Join, OutputColumn, Source};
use crate::plan::write::{Merge, MergeAction, MergeWhen, Write};
use crate::sql::tokens::start_of;

impl Lowering<'_> {
    /// `MERGE INTO target USING source ON .. WHEN ..`, inside its level.
    pub(super) fn merge(
        &mut self,
        merge: &ast::Merge,
        with: CteList,
    ) -> Result<(Write, Vec<OutputColumn>, &'static str), DbError> {
        let ast::Merge {
            merge_token,
            optimizer_hints: _,
            into,
            table,
            source,
            on,
            clauses,
            output,
        } = merge;
        let at = start_of(merge_token.0.span);
        if !into {
            return error("42601", "syntax error at or near \"MERGE\"", at);
        }
        absent(output.is_some(), "RETURNING of MERGE", at)?;
        let target = ast::TableWithJoins {
            relation: table.clone(),
            joins: Vec::new(),
        };
        let table = self.written_table(&target, at)?;
        let target_names = std::mem::take(&mut self.level().names);
        let list = [ast::TableWithJoins {
            relation: source.clone(),
            joins: Vec::new(),
        }];
        let Some(from) = self.from(&list)? else {
            return unsupported("MERGE without a source", at);
        };
        let source_names = std::mem::take(&mut self.level().names);
        let both = target_names.join(source_names.clone());
        self.level().names = both.clone();
        let typed = self.at_place(Place::Clause("JOIN conditions"), |this| this.expr(on))?;
        let on = super::select::conjuncts(self.condition(typed, "JOIN/ON")?);
        let inserts = clauses
            .iter()
            .any(|c| !matches!(c.clause_kind, ast::MergeClauseKind::Matched));
        let mut actions = Vec::with_capacity(clauses.len());
        for clause in clauses {
            let matched = match clause.clause_kind {
                ast::MergeClauseKind::Matched => true,
                ast::MergeClauseKind::NotMatched => false,
                _ => return error("42601", "syntax error in MERGE", at),
            };
            let certain = |when: &MergeWhen| when.matched == matched && when.condition.is_none();
            if actions.iter().any(certain) {
                return error(
                    "42601",
                    "unreachable WHEN clause specified after unconditional WHEN clause",
                    at,
                );
            }
            // Where nothing matched there is no row of the target to name.
            self.level().names = if matched {
                both.clone()
            } else {
                source_names.clone()
            };
            let condition = match &clause.predicate {
                None => None,
                Some(tree) => {
                    let typed = self.at_place(Place::Clause("MERGE WHEN conditions"), |this| {
                        this.expr(tree)
                    })?;
                    Some(self.condition(typed, "WHEN")?)
                }
            };
            let action = self.merge_action(&table, matched, &clause.action, at)?;
            actions.push(MergeWhen {
                matched,
                condition,
                action,
            });
        }
        self.level().names = both;
        let mut source = Source {
            range: std::mem::take(&mut self.level().range),
            from: Some(From::Join {
                kind: if inserts { Join::Left } else { Join::Inner },
                left: Box::new(from),
                right: Box::new(From::Entry(0)),
                on,
            }),
            filter: Vec::new(),
            ways: None,
            rerun: None,
        };
        self.choose_access(&mut source, &[], true);
        let write = Write::Merge(Merge {
            with,
            table,
            source,
            actions,
        });
        Ok((write, Vec::new(), "MERGE"))
    }

    fn merge_action(
        &mut self,
        table: &std::sync::Arc<Table>,
        matched: bool,
        action: &ast::MergeAction,
        at: usize,
    ) -> Result<MergeAction, DbError> {
        match action {
            ast::MergeAction::DoNothing { .. } => Ok(MergeAction::Nothing),
            ast::MergeAction::Delete { .. } if matched => Ok(MergeAction::Delete),
            ast::MergeAction::Update(update) if matched => {
                let ast::MergeUpdateKind::Set(assignments) = &update.kind else {
                    return unsupported("this UPDATE in MERGE", at);
                };
                let odd = update.update_predicate.is_some() || update.delete_predicate.is_some();
                absent(odd, "WHERE in an action of MERGE", at)?;
                let (set, rows) = self.assignments(table, assignments)?;
                absent(!rows.is_empty(), "SET (..) = (SELECT ..) in MERGE", at)?;
                Ok(MergeAction::Update { set })
            }
            ast::MergeAction::Insert(insert) if !matched => {
                absent(
                    insert.insert_predicate.is_some(),
                    "WHERE in an action of MERGE",
                    at,
                )?;
                let ast::MergeInsertKind::Values(values) = &insert.kind else {
                    return unsupported("this INSERT in MERGE", at);
                };
                self.merge_insert(table, &insert.columns, values, at)
            }
            _ => error("42601", "syntax error in an action of MERGE", at),
        }
    }

    fn merge_insert(
        &mut self,
        table: &Table,
        names: &[ast::ObjectName],
        values: &ast::Values,
        at: usize,
    ) -> Result<MergeAction, DbError> {
        let columns = self.insert_columns(table, names)?;
        let [row] = &values.rows[..] else {
            return error("42601", "syntax error in INSERT of MERGE", at);
        };
        self.check_width(row.content.len(), columns.len(), !names.is_empty(), at)?;
        let mut exprs = Vec::with_capacity(table.columns.len());
        for (i, column) in table.columns.iter().enumerate() {
            let given = columns
                .iter()
                .position(|c| *c == i)
                .and_then(|k| row.content.get(k));
            exprs.push(match given {
                Some(tree) if is_default(tree) => self.default_of(column),
                Some(tree) => {
                    let place = place(tree, at);
                    if column.generated.is_some() || column.identity == Some(Identity::Always) {
                        return unsupported("a value for a generated column in MERGE", place);
                    }
                    let typed = self.at_place(Place::Clause("VALUES"), |this| this.expr(tree))?;
                    self.assign(typed, column)?.expr
                }
                None if column.generated.is_some() || column.dropped => Expr::Const(Value::Null),
                None => self.default_of(column),
            });
        }
        Ok(MergeAction::Insert { values: exprs })
    }
}
