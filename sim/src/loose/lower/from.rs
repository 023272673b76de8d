//! `FROM`: the range table and the joins.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

use super::names::Level;
use super::rules::{self, Typed};
use super::{Clause, Lowering, VisibleCte};
use crate::loose::ast::{self, Hint, Ident, JoinKind, TableName, TableRef};
use crate::loose::catalog::{Relation, Table, View};
use crate::loose::errors;
use crate::loose::expr::{Compare, Expr};
use crate::loose::plan::TableUse;
use crate::loose::query::{
    Body, Conjunct, Cte, CteBody, From, HintKind, IndexHint, Join, OutputColumn, Query, RangeEntry,
    RangeKind,
};
use crate::loose::walk;

impl Lowering<'_> {
    /// All items of a `FROM`, joined.
    pub(super) fn from(&mut self, items: &[TableRef]) -> Result<Option<From>, DbError> {
        let mut joined: Option<From> = None;
        for item in items {
            let right = self.table_ref(item)?;
            joined = Some(match joined {
                Some(left) => From::Join {
                    kind: Join::Inner,
                    left: Box::new(left),
                    right: Box::new(right),
                    on: Vec::new(),
                },
                None => right,
            });
        }
        Ok(joined)
    }

    fn table_ref(&mut self, item: &TableRef) -> Result<From, DbError> {
        match item {
            TableRef::Table { name, alias, hints } => {
                let entry = self.named(name, alias.as_ref(), hints)?;
                self.add_entry(entry).map(From::Entry)
            }
            TableRef::Derived {
                query,
                alias,
                columns,
                lateral,
                at,
            } => {
                let name: Arc<str> = alias.as_ref().map_or_else(|| "".into(), |a| a.name.clone());
                let entry = self.derived(query, name, columns, *lateral, *at)?;
                self.add_entry(entry).map(From::Entry)
            }
            TableRef::Join {
                kind,
                left,
                right,
                on,
                using,
                at,
            } => self.join(*kind, (left, right), on.as_ref(), using, *at),
        }
    }

    fn join(
        &mut self,
        kind: JoinKind,
        (left, right): (&TableRef, &TableRef),
        on: Option<&ast::Node>,
        using: &[Ident],
        at: usize,
    ) -> Result<From, DbError> {
        let first = self.level().range.len();
        let left = self.table_ref(left)?;
        let middle = self.level().range.len();
        let right = self.table_ref(right)?;
        let mut conjuncts = Vec::new();
        if let Some(on) = on {
            conjuncts = self.in_clause(Clause::On, |l| l.conjuncts(on))?;
        }
        for column in using {
            let end = self.level().range.len();
            let l = self.using_column(column, first..middle, at)?;
            let r = self.using_column(column, middle..end, at)?;
            let (hidden, _) = match kind {
                JoinKind::Right => (&l, &r),
                _ => (&r, &l),
            };
            if let Expr::Column { entry, column, .. } = hidden.expr {
                self.level().merged.push((entry as usize, column as usize));
            }
            let expr = self.compared(Compare::Eq, l, r);
            conjuncts.push(conjunct(expr));
        }
        let (kind, left, right) = match kind {
            JoinKind::Inner => (Join::Inner, left, right),
            JoinKind::Straight => (Join::Straight, left, right),
            JoinKind::Left => (Join::Left, left, right),
            JoinKind::Right => (Join::Left, right, left),
        };
        Ok(From::Join {
            kind,
            left: Box::new(left),
            right: Box::new(right),
            on: conjuncts,
        })
    }

    fn using_column(
        &mut self,
        column: &Ident,
        entries: std::ops::Range<usize>,
        at: usize,
    ) -> Result<Typed, DbError> {
        let level = self.level();
        for entry in entries {
            let columns = &level.range[entry].columns;
            let position = columns
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(&column.name));
            if let Some(position) = position
                && !level.merged.contains(&(entry, position))
            {
                return Ok(Typed {
                    expr: Expr::Column {
                        level: 0,
                        entry: entry as u32,
                        column: position as u32,
                    },
                    ty: columns[position].ty.clone(),
                    at,
                });
            }
        }
        let shown = &column.name;
        Err(errors::either(
            self.dialect,
            1054,
            "42S22",
            format!("Unknown column '{shown}' in 'from clause'"),
            format!("cannot join using column {shown} - column not present in both tables"),
        )
        .at(column.at))
    }

    /// Adds an entry; names must differ on MySQL.
    pub(super) fn add_entry(&mut self, entry: RangeEntry) -> Result<usize, DbError> {
        let clash = !self.is_sqlite()
            && self
                .level()
                .range
                .iter()
                .any(|other| other.alias == entry.alias);
        if clash {
            let shown = &entry.alias;
            return Err(
                errors::mysql(1066, "42000", format!("Not unique table/alias: '{shown}'"))
                    .at(entry.position),
            );
        }
        let level = self.level();
        level.range.push(entry);
        let number = level.range.len() - 1;
        if number >= 63 {
            return errors::unsupported("this many tables in one FROM", 0);
        }
        Ok(number)
    }

    /// A table, view or common table expression by its name.
    fn named(
        &mut self,
        name: &TableName,
        alias: Option<&Ident>,
        hints: &[Hint],
    ) -> Result<RangeEntry, DbError> {
        let shown = alias.map_or_else(|| name.name.name.clone(), |a| a.name.clone());
        if name.schema.is_none() {
            let same = |cte: &&VisibleCte| cte.name.eq_ignore_ascii_case(&name.name.name);
            if let Some(cte) = self.ctes.iter().rev().find(same).cloned() {
                return Ok(entry(
                    shown,
                    RangeKind::Cte(cte.id),
                    cte.columns,
                    name.name.at,
                ));
            }
        }
        match self.relation(name)? {
            Relation::Table(table) => {
                self.touch(&table, TableUse::Read);
                let mut entry = self.table_entry(&table, shown, name.name.at);
                entry.hints = self.hints(&table, hints)?;
                Ok(entry)
            }
            Relation::Virtual(table) => {
                let columns = table.columns.iter().map(|(name, ty)| OutputColumn {
                    name: name.clone(),
                    ty: rules::of_column(
                        ty,
                        crate::loose::types::Collation::default_of(self.dialect),
                    ),
                });
                let columns = columns.collect();
                Ok(entry(
                    shown,
                    RangeKind::Virtual(table),
                    columns,
                    name.name.at,
                ))
            }
            Relation::View(view) => {
                if !self.views.iter().any(|(known, _)| *known == view.name) {
                    self.views.push((view.name.clone(), self.tables.len()));
                }
                self.view(&view, shown, name.name.at)
            }
        }
    }

    /// The entry of a stored table.
    pub(super) fn table_entry(&self, table: &Arc<Table>, alias: Arc<str>, at: usize) -> RangeEntry {
        let columns = table.columns.iter().map(|column| OutputColumn {
            name: column.name.clone(),
            ty: rules::of_column(&column.ty, column.collation),
        });
        let columns = columns.collect();
        entry(alias, RangeKind::Table(Arc::clone(table)), columns, at)
    }

    /// Positions of the indexes that hints name.
    fn hints(&self, table: &Table, hints: &[Hint]) -> Result<Vec<IndexHint>, DbError> {
        let mut lowered = Vec::new();
        for hint in hints {
            let mut indexes = Vec::new();
            if hint.all {
                indexes = (0..table.indexes.len()).collect();
            }
            for name in &hint.names {
                let Some(index) = table.index(&name.name) else {
                    let shown = &name.name;
                    return Err(errors::either(
                        self.dialect,
                        1176,
                        "42000",
                        format!("Key '{shown}' doesn't exist in table '{}'", table.name),
                        format!("no such index: {shown}"),
                    )
                    .at(name.at));
                };
                indexes.push(index);
            }
            lowered.push(IndexHint {
                kind: match hint.kind {
                    HintKind::Use => HintKind::Use,
                    HintKind::Force => HintKind::Force,
                    HintKind::Ignore => HintKind::Ignore,
                },
                indexes,
            });
        }
        Ok(lowered)
    }

    fn derived(
        &mut self,
        query: &ast::Query,
        name: Arc<str>,
        names: &[Ident],
        lateral: bool,
        at: usize,
    ) -> Result<RangeEntry, DbError> {
        let hidden = match lateral {
            true => Level::default(),
            false => std::mem::take(self.level()),
        };
        let lowered = self.query(query);
        if !lateral {
            *self.level() = hidden;
        }
        let lowered = lowered?;
        let columns = self.renamed(self.columns_of(&lowered), names, at)?;
        if lateral {
            let kind = RangeKind::Subquery(Box::new(lowered));
            return Ok(entry(name, kind, columns, at));
        }
        Ok(self.materialised(lowered, name, columns, at))
    }

    /// An entry over a query that is computed once for each run of the query around it.
    fn materialised(
        &mut self,
        query: Query,
        name: Arc<str>,
        columns: Vec<OutputColumn>,
        at: usize,
    ) -> RangeEntry {
        let id = self.next_cte();
        if let Some(with) = self.withs.last_mut() {
            with.push(Cte {
                id,
                name: name.clone(),
                body: CteBody::Query(Box::new(query)),
                columns: columns.clone(),
            });
        }
        entry(name, RangeKind::Cte(id), columns, at)
    }

    fn view(&mut self, view: &View, alias: Arc<str>, at: usize) -> Result<RangeEntry, DbError> {
        let parsed = crate::loose::parse::parse(&view.query, self.dialect);
        let Some(Ok(parsed)) = parsed.into_iter().next() else {
            return errors::unsupported("a view whose text is no query", at);
        };
        let ast::Statement::Query(tree) = &parsed.tree else {
            return errors::unsupported("a view whose text is no query", at);
        };
        let hidden = std::mem::take(&mut self.levels);
        let ctes = std::mem::take(&mut self.ctes);
        self.levels.push(Level::default());
        // Columns without a name are called like their text.
        let text = std::mem::replace(&mut self.text, Arc::clone(&parsed.text));
        let lowered = self.query(tree);
        self.text = text;
        self.levels = hidden;
        self.ctes = ctes;
        let lowered = lowered?;
        let mut columns = lowered.columns.clone();
        for (column, name) in columns.iter_mut().zip(&view.columns) {
            column.name = name.clone();
        }
        Ok(self.materialised(lowered, alias, columns, at))
    }

    /// The columns of a query that stands in `FROM`: what is computed into a temporary table has the
    /// types of its columns.
    pub(super) fn columns_of(&self, query: &Query) -> Vec<OutputColumn> {
        let merged = match &query.body {
            Body::Select(select) => {
                select.source.from.is_some()
                    && select.grouping.is_none()
                    && select.windows.is_empty()
                    && select.distinct.is_none()
                    && query.limit.is_none()
            }
            _ => false,
        };
        let mut columns = query.columns.clone();
        if !merged && !self.is_sqlite() {
            for column in &mut columns {
                column.ty = rules::stored(&column.ty, self.dialect);
            }
        }
        columns
    }

    /// Columns under the names of a column list.
    pub(super) fn renamed(
        &self,
        mut columns: Vec<OutputColumn>,
        names: &[Ident],
        at: usize,
    ) -> Result<Vec<OutputColumn>, DbError> {
        if names.is_empty() {
            return Ok(columns);
        }
        if names.len() != columns.len() {
            return Err(errors::either(
                self.dialect,
                match self.dialect {
                    Dialect::MariaDb => 4002,
                    _ => 1353,
                },
                "HY000",
                "In definition of view, derived table or common table expression, SELECT list and \
                 column names list have different column counts",
                format!(
                    "table has {} values for {} columns",
                    columns.len(),
                    names.len()
                ),
            )
            .at(at));
        }
        for (column, name) in columns.iter_mut().zip(names) {
            column.name = name.name.clone();
        }
        Ok(columns)
    }

    /// A condition as its conjuncts.
    pub(super) fn conjuncts(&mut self, node: &ast::Node) -> Result<Vec<Conjunct>, DbError> {
        let typed = self.expr(node)?;
        Ok(match typed.expr {
            Expr::And(items) => items.into_iter().map(conjunct).collect(),
            other => vec![conjunct(other)],
        })
    }
}

/// An entry without locks, hints and conditions.
fn entry(
    alias: Arc<str>,
    kind: RangeKind,
    columns: Vec<OutputColumn>,
    position: usize,
) -> RangeEntry {
    RangeEntry {
        alias,
        kind,
        columns,
        lock: None,
        hints: Vec::new(),
        conditions: Vec::new(),
        used_columns: 0,
        position,
    }
}

pub(super) fn conjunct(expr: Expr) -> Conjunct {
    Conjunct {
        uses: walk::entries(&expr),
        has_subselect: walk::reaches_out(&expr),
        expr,
    }
}
