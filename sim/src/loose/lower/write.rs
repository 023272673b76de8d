//! `INSERT`, `REPLACE`, `UPDATE`, `DELETE`.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

use super::names::Level;
use super::{Clause, Lowered, Lowering, conditions};
use crate::loose::ast::{self, Ident, Item, Node, NodeKind, TableRef};
use crate::loose::catalog::{KeyPart, Table};
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::plan::{
    Assignment, Delete, Insert, InsertSource, PlanKind, TableUse, Update, Upsert, UpsertTarget,
};
use crate::loose::query::{Body, OutputColumn, Query, RangeKind, SortKey, Source};
use crate::loose::walk;

/// Which column of a table a name in an `INSERT` or `SET` list is.
enum Target {
    Column(usize),
    Rowid,
}

impl Lowering<'_> {
    pub(super) fn insert(&mut self, insert: &ast::Insert) -> Result<Lowered, DbError> {
        self.in_write = true;
        self.withs.push(Vec::new());
        let lowered = self.in_level(Level::default(), |l| {
            l.with(&insert.with, insert.recursive)?;
            l.insert_in_level(insert)
        });
        let with = self.withs.pop().unwrap_or_default();
        let (mut lowered, columns) = lowered?;
        lowered.with = with;
        let tag = match insert.is_replace {
            true => "REPLACE",
            false => "INSERT",
        };
        Ok((PlanKind::Insert(Box::new(lowered)), columns, tag))
    }

    fn insert_in_level(
        &mut self,
        insert: &ast::Insert,
    ) -> Result<(Insert, Vec<OutputColumn>), DbError> {
        let table = self.table(&insert.table)?;
        self.touch(&table, TableUse::Write);
        let (columns, rowid, width) = self.insert_columns(&table, insert)?;
        let alias = insert
            .alias
            .as_ref()
            .map_or_else(|| table.name.clone(), |a| a.name.clone());
        let own = self.table_entry(&table, alias, insert.table.name.at);
        let source = self.insert_source(insert, &table, width, &own)?;
        self.level().range.push(own);
        let mut new = self.table_entry(&table, "excluded".into(), insert.table.name.at);
        if !self.is_sqlite() {
            new.alias = "".into();
        }
        if let Some((alias, names)) = &insert.new_alias {
            new.alias = alias.name.clone();
            // Names are for the inserted columns, in their order.
            for (name, column) in names.iter().zip(&columns) {
                new.columns[*column].name = name.name.clone();
            }
        }
        self.level().range.push(new);
        self.level().only_qualified = vec![1];
        let mut upserts = Vec::new();
        for upsert in &insert.upserts {
            upserts.push(self.upsert(upsert, &table)?);
        }
        self.level().range.truncate(1);
        let (returning, output) =
            self.returning(insert.returning.as_deref(), insert.table.name.at)?;
        let lowered = Insert {
            with: Vec::new(),
            table,
            columns,
            rowid,
            source,
            or: insert.or,
            upserts,
            returning,
        };
        Ok((lowered, output))
    }

    /// The columns that are given, the place of the rowid among them, and how many values a row has.
    fn insert_columns(
        &mut self,
        table: &Arc<Table>,
        insert: &ast::Insert,
    ) -> Result<(Vec<usize>, Option<usize>, usize), DbError> {
        let names: Vec<&Ident> = match &insert.source {
            ast::InsertSource::Set(set) => set.iter().map(|(name, _)| name).collect(),
            _ => insert.columns.iter().collect(),
        };
        if names.is_empty() {
            let given = |c: &usize| table.columns[*c].generated.is_none() || !self.is_sqlite();
            let columns: Vec<usize> = (0..table.columns.len()).filter(given).collect();
            let width = columns.len();
            return Ok((columns, None, width));
        }
        let mut columns = Vec::new();
        let mut rowid = None;
        for (place, name) in names.iter().enumerate() {
            match self.target(table, name) {
                Some(Target::Column(column)) if columns.contains(&column) => {
                    let shown = &name.name;
                    if !self.is_sqlite() {
                        let message = format!("Column '{shown}' specified twice");
                        return Err(errors::mysql(1110, "42000", message).at(name.at));
                    }
                    return errors::unsupported("a column given twice", name.at);
                }
                Some(Target::Column(column)) => columns.push(column),
                Some(Target::Rowid) => rowid = Some(place),
                None if self.is_sqlite() => {
                    let message = format!("table {} has no column named {}", table.name, name.name);
                    return Err(errors::sqlite(1, message).at(name.at));
                }
                None => return Err(self.no_such_column(&name.name, name.at)),
            }
        }
        Ok((columns, rowid, names.len()))
    }

    fn target(&self, table: &Table, name: &Ident) -> Option<Target> {
        if let Some(column) = table.column(&name.name) {
            return Some(Target::Column(column));
        }
        let is = |word: &str| name.name.eq_ignore_ascii_case(word);
        let rowid =
            self.is_sqlite() && !table.without_rowid && (is("rowid") || is("oid") || is("_rowid_"));
        rowid.then_some(Target::Rowid)
    }

    fn insert_source(
        &mut self,
        insert: &ast::Insert,
        table: &Table,
        width: usize,
        own: &crate::loose::query::RangeEntry,
    ) -> Result<InsertSource, DbError> {
        // MySQL lets values read columns of the row that were assigned before.
        if !self.is_sqlite() {
            self.level().range.push(own.clone());
        }
        let source = match &insert.source {
            ast::InsertSource::Defaults => InsertSource::Defaults,
            ast::InsertSource::Set(set) => {
                let row = set.iter().map(|(_, value)| self.expr(value));
                let row: Result<Vec<_>, _> = row.collect();
                InsertSource::Values(vec![row?.into_iter().map(|value| value.expr).collect()])
            }
            ast::InsertSource::Values(rows) => {
                let mut lowered = Vec::new();
                for (i, row) in rows.iter().enumerate() {
                    if row.is_empty() && !self.is_sqlite() && insert.columns.is_empty() {
                        lowered.push(vec![Expr::Default; width]);
                        continue;
                    }
                    self.check_width(row.len(), width, i, insert, table)?;
                    let values: Result<Vec<_>, _> =
                        row.iter().map(|value| self.expr(value)).collect();
                    lowered.push(values?.into_iter().map(|value| value.expr).collect());
                }
                InsertSource::Values(lowered)
            }
            ast::InsertSource::Query(query) => {
                self.level().range.clear();
                let query = self.query(query)?;
                self.check_width(query.columns.len(), width, 0, insert, table)?;
                InsertSource::Query(Box::new(query))
            }
        };
        self.level().range.clear();
        if let (Dialect::MySql, InsertSource::Values(rows)) = (self.dialect, &source) {
            for value in rows.iter().flatten() {
                self.refuse_target(value, &[table.id], &insert.table.name)?;
            }
        }
        Ok(source)
    }

    fn check_width(
        &self,
        got: usize,
        wanted: usize,
        row: usize,
        insert: &ast::Insert,
        table: &Table,
    ) -> Result<(), DbError> {
        if got == wanted {
            return Ok(());
        }
        let sqlite = match insert.columns.is_empty() {
            true => format!(
                "table {} has {wanted} columns but {got} values were supplied",
                table.name
            ),
            false => format!("{got} values for {wanted} columns"),
        };
        Err(errors::either(
            self.dialect,
            1136,
            "21S01",
            format!("Column count doesn't match value count at row {}", row + 1),
            sqlite,
        )
        .at(insert.table.name.at))
    }

    fn upsert(&mut self, upsert: &ast::Upsert, table: &Arc<Table>) -> Result<Upsert, DbError> {
        let target = match &upsert.target {
            None => UpsertTarget::Any,
            Some(columns) => self.upsert_target(columns, upsert, table)?,
        };
        let set = match &upsert.set {
            Some(set) => Some(self.assignments(set)?),
            None => None,
        };
        let filter = match &upsert.filter {
            Some(filter) => Some(self.in_clause(Clause::Where, |l| l.expr(filter))?.expr),
            None => None,
        };
        Ok(Upsert {
            target,
            set,
            filter,
        })
    }

    fn upsert_target(
        &mut self,
        nodes: &[Node],
        upsert: &ast::Upsert,
        table: &Arc<Table>,
    ) -> Result<UpsertTarget, DbError> {
        let mut parts = Vec::new();
        for node in nodes {
            let node = match &node.kind {
                NodeKind::Collate(inner, _) => inner,
                _ => node,
            };
            parts.push(self.expr(node)?.expr);
        }
        let column = |part: &Expr| match part {
            Expr::Column {
                level: 0,
                entry: 0,
                column,
            } => Some(*column as usize),
            _ => None,
        };
        if parts.len() == 1 {
            let alias = table.rowid_alias.is_some() && column(&parts[0]) == table.rowid_alias;
            if alias || matches!(parts[0], Expr::Rowid { .. }) {
                return Ok(UpsertTarget::Rowid);
            }
        }
        let filter = match &upsert.target_filter {
            Some(filter) => Some(self.expr(filter)?.expr),
            None => None,
        };
        let found = table.indexes.iter().position(|index| {
            let covered = index.keys.iter().all(|key| {
                parts.iter().any(|part| match &key.part {
                    KeyPart::Column(c) => column(part) == Some(*c),
                    KeyPart::Expr(e) => e == part,
                })
            });
            let partial = index.filter.is_none() || index.filter == filter;
            index.unique && index.keys.len() == parts.len() && covered && partial
        });
        match found {
            Some(index) => Ok(UpsertTarget::Index(index)),
            None => Err(errors::sqlite(
                1,
                "ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint",
            )
            .at(upsert.at)),
        }
    }

    /// `SET` lists of one or more tables.
    fn assignments(&mut self, set: &[ast::Assignment]) -> Result<Vec<Assignment>, DbError> {
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

    fn returning(
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
    fn filter(
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
            return Err(errors::syntax(self.dialect, self.text, self.end, self.end));
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

    fn refuse_target(
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
