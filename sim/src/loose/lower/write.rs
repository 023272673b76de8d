//! `INSERT`, `REPLACE`, `UPDATE`, `DELETE`.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

use super::names::Level;
use super::{Clause, Lowered, Lowering, conditions, eliminate};
use crate::loose::ast::{self, Ident, Item, Node, NodeKind, TableRef};
use crate::loose::catalog::Table;
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::plan::{Assignment, Delete, PlanKind, TableUse, Update};
use crate::loose::query::{Body, OutputColumn, Query, RangeKind, SortKey, Source};
use crate::loose::walk;

/// Which column of a table a name in an `INSERT` or `SET` list is.
pub(super) enum Target {
    Column(usize),
    Rowid,
}

impl Lowering<'_> {
    pub(super) fn target(&self, table: &Table, name: &Ident) -> Option<Target> {
        if let Some(column) = table.column(&name.name) {
            return Some(Target::Column(column));
        }
        let is = |word: &str| name.name.eq_ignore_ascii_case(word);
        let rowid =
            self.is_sqlite() && !table.without_rowid && (is("rowid") || is("oid") || is("_rowid_"));
        rowid.then_some(Target::Rowid)
    }

    /// `SET` lists of one or more tables.
    pub(super) fn assignments(
        &mut self,
        set: &[ast::Assignment],
    ) -> Result<Vec<Assignment>, DbError> {
        let mut lowered = Vec::new();
        for assignment in set {
            if let [path] = &assignment.columns[..] {
                let value = self.expr(&assignment.value)?.expr;
                lowered.push(self.assignment(path, value)?);
                continue;
            }
            let NodeKind::Row(values) = &assignment.value.kind else {
                return errors::unsupported(
                    "assigning a sub-select to several columns",
                    assignment.value.at,
                );
            };
            if values.len() != assignment.columns.len() {
                let message = format!(
                    "{} columns assigned {} values",
                    assignment.columns.len(),
                    values.len()
                );
                return Err(errors::sqlite(1, message).at(assignment.value.at));
            }
            for (path, value) in assignment.columns.iter().zip(values) {
                let value = self.expr(value)?.expr;
                lowered.push(self.assignment(path, value)?);
            }
        }
        Ok(lowered)
    }

    fn assignment(&mut self, path: &[Ident], value: Expr) -> Result<Assignment, DbError> {
        let Some((column, qualifier)) = path.split_last() else {
            return errors::unsupported("an empty name", 0);
        };
        let mut found = None;
        let sqlite = self.is_sqlite();
        let only = self.level().only_qualified.clone();
        let range = &self.levels.last().expect("inside a level").range;
        for (i, entry) in range.iter().enumerate() {
            // SQLite assigns to the target only.
            if (sqlite && i > 0) || only.contains(&i) {
                continue;
            }
            if qualifier.last().is_some_and(|q| q.name != entry.alias) {
                continue;
            }
            let RangeKind::Table(table) = &entry.kind else {
                continue;
            };
            if let Some(target) = self.target(table, column) {
                if let Target::Column(c) = target
                    && table.columns[c].generated.is_some()
                {
                    let message = format!("cannot UPDATE generated column \"{}\"", column.name);
                    return Err(errors::sqlite(1, message).at(column.at));
                }
                found = Some(Assignment {
                    entry: i,
                    column: match target {
                        Target::Column(c) => Some(c),
                        Target::Rowid => None,
                    },
                    value: value.clone(),
                });
                break;
            }
        }
        match found {
            Some(assignment) => Ok(assignment),
            None => Err(self.no_such_column(&column.name, column.at)),
        }
    }

    pub(super) fn returning(
        &mut self,
        items: Option<&[Item]>,
        at: usize,
    ) -> Result<(Option<Vec<Expr>>, Vec<OutputColumn>), DbError> {
        let Some(items) = items else {
            return Ok((None, Vec::new()));
        };
        self.level().no_aggregates = true;
        let lowered = self.items(items, at);
        self.level().no_aggregates = false;
        let (targets, columns) = lowered?;
        let exprs = targets.into_iter().map(|target| target.expr).collect();
        Ok((Some(exprs), columns))
    }

    /// The filter of a write.
    pub(super) fn filter(
        &mut self,
        filter: Option<&Node>,
    ) -> Result<Vec<crate::loose::query::Conjunct>, DbError> {
        match filter {
            Some(filter) => {
                self.level().no_aggregates = true;
                let lowered = self.in_clause(Clause::Where, |l| l.conjuncts(filter));
                self.level().no_aggregates = false;
                lowered
            }
            None => Ok(Vec::new()),
        }
    }

    fn order(&mut self, order: &[ast::Order]) -> Result<Vec<SortKey>, DbError> {
        self.in_clause(Clause::Order, |l| {
            order.iter().map(|key| l.order_key(key)).collect()
        })
    }

    pub(super) fn update(&mut self, update: &ast::Update) -> Result<Lowered, DbError> {
        self.in_write = true;
        self.withs.push(Vec::new());
        let lowered = self.in_level(Level::default(), |l| {
            l.with(&update.with, update.recursive)?;
            l.update_in_level(update)
        });
        let with = self.withs.pop().unwrap_or_default();
        let (mut lowered, columns) = lowered?;
        lowered.with = with;
        Ok((PlanKind::Update(Box::new(lowered)), columns, "UPDATE"))
    }

    fn update_in_level(
        &mut self,
        update: &ast::Update,
    ) -> Result<(Update, Vec<OutputColumn>), DbError> {
        let items: Vec<TableRef> = update.tables.iter().chain(&update.from).cloned().collect();
        let from = self.from(&items)?;
        let set = self.assignments(&update.set)?;
        let filter = self.filter(update.filter.as_ref())?;
        let sort = self.order(&update.order)?;
        let limit = match &update.limit {
            Some(limit) => Some(self.limit(limit)?),
            None => None,
        };
        let count = self.level().range.len();
        if count > 1 && (!sort.is_empty() || limit.is_some()) {
            let wrong = match sort.is_empty() {
                false => "ORDER BY",
                true => "LIMIT",
            };
            let message = format!("Incorrect usage of UPDATE and {wrong}");
            return Err(errors::mysql(1221, "HY000", message).at(update.at));
        }
        let mut targets: Vec<usize> = set.iter().map(|a| a.entry).collect();
        targets.sort_unstable();
        targets.dedup();
        // RETURNING reads the target only.
        let rest = self.level().range.split_off(1.min(count));
        let (returning, output) = self.returning(update.returning.as_deref(), update.at)?;
        self.level().range.extend(rest);
        let mut exprs: Vec<&Expr> = set.iter().map(|a| &a.value).collect();
        exprs.extend(filter.iter().map(|c| &c.expr));
        self.refuse_targets(&exprs, &targets)?;
        let used = used_by(&exprs);
        let source = self.write_source(from, filter, &targets, &used)?;
        let lowered = Update {
            with: Vec::new(),
            source,
            targets,
            set,
            or: update.or,
            sort,
            limit,
            returning,
        };
        Ok((lowered, output))
    }

    pub(super) fn delete(&mut self, delete: &ast::Delete) -> Result<Lowered, DbError> {
        self.in_write = true;
        self.withs.push(Vec::new());
        let lowered = self.in_level(Level::default(), |l| {
            l.with(&delete.with, delete.recursive)?;
            l.delete_in_level(delete)
        });
        let with = self.withs.pop().unwrap_or_default();
        let (mut lowered, columns) = lowered?;
        lowered.with = with;
        Ok((PlanKind::Delete(Box::new(lowered)), columns, "DELETE"))
    }

    fn delete_in_level(
        &mut self,
        delete: &ast::Delete,
    ) -> Result<(Delete, Vec<OutputColumn>), DbError> {
        let from = self.from(&delete.from)?;
        let targets = match delete.targets.is_empty() {
            true => vec![0],
            false => self.delete_targets(&delete.targets)?,
        };
        let filter = self.filter(delete.filter.as_ref())?;
        let sort = self.order(&delete.order)?;
        let limit = match &delete.limit {
            Some(limit) => Some(self.limit(limit)?),
            None => None,
        };
        if !delete.targets.is_empty() && (!sort.is_empty() || limit.is_some()) {
            return Err(errors::syntax(self.dialect, &self.text, self.end, self.end));
        }
        let (returning, output) = self.returning(delete.returning.as_deref(), delete.at)?;
        let exprs: Vec<&Expr> = filter.iter().map(|c| &c.expr).collect();
        self.refuse_targets(&exprs, &targets)?;
        let used = used_by(&exprs);
        let source = self.write_source(from, filter, &targets, &used)?;
        let lowered = Delete {
            with: Vec::new(),
            source,
            targets,
            ignore: delete.ignore,
            sort,
            limit,
            returning,
        };
        Ok((lowered, output))
    }

    fn delete_targets(&mut self, names: &[ast::TableName]) -> Result<Vec<usize>, DbError> {
        let mut targets = Vec::new();
        for name in names {
            let range = &self.level().range;
            match range.iter().position(|e| e.alias == name.name.name) {
                Some(target) => targets.push(target),
                None => {
                    let message = format!("Unknown table '{}' in MULTI DELETE", name.name.name);
                    return Err(errors::mysql(1109, "42S02", message).at(name.name.at));
                }
            }
        }
        Ok(targets)
    }

    /// The source of a write: conditions found, targets noted.
    fn write_source(
        &mut self,
        from: Option<crate::loose::query::From>,
        filter: Vec<crate::loose::query::Conjunct>,
        targets: &[usize],
        used: &[(usize, u32)],
    ) -> Result<Source, DbError> {
        let level = std::mem::take(self.level());
        let mut source = Source {
            range: level.range,
            from,
            filter,
        };
        conditions::fill(&mut source);
        if self.dialect == Dialect::MariaDb {
            let written = targets.iter().fold(0, |all, target| all | (1 << target));
            let read = used.iter().fold(0, |all, (entry, _)| all | (1 << entry));
            eliminate::of_source(&mut source, written | read);
        }
        conditions::note(&mut source, used);
        let mut joined = Vec::new();
        walk::source(&mut source, 0, &mut |expr, depth| {
            if let Expr::Column {
                level,
                entry,
                column,
            } = expr
                && *level == depth
            {
                joined.push((*entry as usize, *column));
            }
            true
        });
        conditions::note(&mut source, &joined);
        for target in targets {
            let entry = &mut source.range[*target];
            entry.used_columns = u64::MAX;
            match &entry.kind {
                RangeKind::Table(table) => {
                    let table = Arc::clone(table);
                    self.touch(&table, TableUse::Write);
                }
                _ => {
                    let shown = &entry.alias;
                    return Err(errors::mysql(
                        1288,
                        "HY000",
                        format!("The target table {shown} of the UPDATE is not updatable"),
                    )
                    .at(entry.position));
                }
            }
        }
        Ok(source)
    }

    /// MySQL does not let a sub-select read the table that the statement changes.
    fn refuse_targets(&mut self, exprs: &[&Expr], targets: &[usize]) -> Result<(), DbError> {
        if self.dialect != Dialect::MySql {
            return Ok(());
        }
        let range = &self.level().range;
        let mut ids = Vec::new();
        let mut name = None;
        for target in targets {
            if let RangeKind::Table(table) = &range[*target].kind {
                ids.push(table.id);
                name.get_or_insert((range[*target].alias.clone(), range[*target].position));
            }
        }
        let Some((name, at)) = name else {
            return Ok(());
        };
        let ident = Ident {
            name,
            at,
            double_quoted: false,
        };
        for expr in exprs {
            self.refuse_target(expr, &ids, &ident)?;
        }
        Ok(())
    }

    pub(super) fn refuse_target(
        &self,
        expr: &Expr,
        ids: &[crate::loose::catalog::TableId],
        name: &Ident,
    ) -> Result<(), DbError> {
        let mut reads = false;
        walk::expr(&mut expr.clone(), 0, &mut |inner, _| {
            let plan = match inner {
                Expr::Subquery(plan) | Expr::Exists(plan) => Some(&**plan),
                Expr::AnyOfRows { plan, .. } => Some(&**plan),
                _ => None,
            };
            if let Some(plan) = plan {
                reads |= reads_directly(&plan.query, ids);
            }
            true
        });
        match reads {
            true => Err(errors::mysql(
                1093,
                "HY000",
                format!(
                    "You can't specify target table '{}' for update in FROM clause",
                    name.name
                ),
            )
            .at(name.at)),
            false => Ok(()),
        }
    }
}

/// Columns of level 0 that expressions read.
fn used_by(exprs: &[&Expr]) -> Vec<(usize, u32)> {
    let mut used = Vec::new();
    for expr in exprs {
        walk::expr(&mut (*expr).clone(), 0, &mut |inner, depth| {
            if let Expr::Column {
                level,
                entry,
                column,
            } = inner
                && *level == depth
            {
                used.push((*entry as usize, *column));
            }
            true
        });
    }
    used
}

/// Whether a query reads one of the tables without a materialised derived table in between.
fn reads_directly(query: &Query, ids: &[crate::loose::catalog::TableId]) -> bool {
    match &query.body {
        Body::Select(select) => select.source.range.iter().any(|entry| match &entry.kind {
            RangeKind::Table(table) => ids.contains(&table.id),
            _ => false,
        }),
        Body::Values(_) => false,
        Body::Set { left, right, .. } => reads_directly(left, ids) || reads_directly(right, ids),
    }
}
