//! `INSERT`, and what it does about duplicates.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

use super::names::Level;
use super::write::Target;
use super::{Clause, Lowered, Lowering};
use crate::loose::ast::{self, Ident, Node, NodeKind};
use crate::loose::catalog::{KeyPart, Table};
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::plan::{Insert, InsertSource, PlanKind, TableUse, Upsert, UpsertTarget};
use crate::loose::query::OutputColumn;

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
        let touched = std::mem::take(&mut self.tables);
        let source = self.insert_source(insert, &table, width, &own)?;
        let read = std::mem::replace(&mut self.tables, touched);
        let reads_target = read.iter().any(|(used, _)| used.id == table.id);
        for (table, what) in &read {
            self.touch(table, *what);
        }
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
            reads_target,
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
                Some(Target::Column(column)) if table.columns[column].generated.is_some() => {
                    let message = format!("cannot INSERT into generated column \"{}\"", name.name);
                    return Err(errors::sqlite(1, message).at(name.at));
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
}
