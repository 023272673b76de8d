//! Scopes and the resolution of column names.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;

use super::{Lowering, Typed, error, ident, unsupported};
use crate::plan::expr::{Aggregate, Expr, SystemColumn, Window};
use crate::plan::query::{OutputColumn, RangeEntry, RangeKind};
use crate::plan::types::{Declared, Modifier, Type};
use crate::sql::tokens::start_of;

/// Where in a query an expression stands: decides whether aggregates are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The select list, `ORDER BY`, `DISTINCT ON`.
    Targets,
    /// `HAVING`.
    Having,
    /// Elsewhere: the name of the clause, as messages give it.
    Clause(&'static str),
}

/// A column that can be named without a table.
#[derive(Clone, Debug)]
pub(super) struct NamedColumn {
    pub(super) name: Arc<str>,
    pub(super) expr: Expr,
    pub(super) ty: Type,
    pub(super) modifier: Option<Modifier>,
}

/// What names mean at a place in a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespace {
    /// In the order of `*`.
    pub(super) columns: Vec<NamedColumn>,
    /// Range-table entries that can qualify a column.
    pub(super) tables: Vec<usize>,
}

impl Namespace {
    pub(super) fn join(mut self, other: Namespace) -> Namespace {
        self.columns.extend(other.columns);
        self.tables.extend(other.tables);
        self
    }
}

/// One level of a statement under construction.
#[derive(Debug)]
pub(super) struct Level {
    /// The range table so far.
    pub(super) range: Vec<RangeEntry>,
    /// Declared types of the entries' columns.
    pub(super) declared: Vec<Vec<Declared>>,
    /// What can be named at the present place.
    pub(super) names: Namespace,
    /// Aggregates found so far.
    pub(super) aggregates: Vec<Aggregate>,
    /// Window functions found so far.
    pub(super) windows: Vec<Window>,
    /// Where we are.
    pub(super) place: Place,
    /// Inside the arguments of an aggregate of this level.
    pub(super) in_aggregate: bool,
    /// The entry of a set-returning function in the select list, which is joined last.
    pub(super) in_targets: Option<usize>,
    /// Entries that stand for common table expressions put in place of a reference.
    pub(super) inlined: Vec<usize>,
    /// Columns that were named outside of aggregates: entry, column, byte.
    pub(super) mentions: Vec<(u32, u32, usize)>,
}

impl Level {
    pub(super) fn new(place: Place) -> Level {
        Level {
            range: Vec::new(),
            declared: Vec::new(),
            names: Namespace::default(),
            aggregates: Vec::new(),
            windows: Vec::new(),
            place,
            in_aggregate: false,
            in_targets: None,
            inlined: Vec::new(),
            mentions: Vec::new(),
        }
    }

    /// Adds an entry; the columns that it makes nameable.
    pub(super) fn add(&mut self, entry: RangeEntry, declared: Vec<Declared>) -> Namespace {
        let index = self.range.len();
        let dropped: Vec<bool> = match &entry.kind {
            RangeKind::Table(table) => table.columns.iter().map(|c| c.dropped).collect(),
            _ => vec![false; entry.columns.len()],
        };
        let columns = entry
            .columns
            .iter()
            .enumerate()
            .filter(|(i, _)| !dropped[*i])
            .map(|(i, c)| NamedColumn {
                name: c.name.clone(),
                expr: Expr::Column {
                    level: 0,
                    entry: index as u32,
                    column: i as u32,
                },
                ty: c.ty,
                modifier: declared.get(i).and_then(|d| d.modifier),
            })
            .collect();
        self.range.push(entry);
        self.declared.push(declared);
        Namespace {
            columns,
            tables: vec![index],
        }
    }
}

/// An entry of the range table without special access.
pub(super) fn entry(
    alias: &str,
    kind: RangeKind,
    columns: Vec<OutputColumn>,
    position: usize,
) -> RangeEntry {
    RangeEntry {
        alias: alias.into(),
        kind,
        columns,
        lateral: false,
        access: crate::plan::query::Access::Sequential,
        paths: Vec::new(),
        only: false,
        members: None,
        position,
    }
}

/// The expression read `by` levels further in.
fn lifted(expr: &Expr, by: u32) -> Expr {
    let mut expr = expr.clone();
    if by > 0 {
        crate::plan::walk::expr(&mut expr, 0, &mut |e, depth| {
            if let Expr::Column { level, .. }
            | Expr::System { level, .. }
            | Expr::Group { level, .. } = e
                && *level >= depth
            {
                *level += by;
            }
            true
        });
    }
    expr
}

impl Lowering<'_> {
    /// A column named without a table.
    pub(super) fn column(&mut self, name: &ast::Ident) -> Result<Typed, DbError> {
        let at = start_of(name.span);
        let folded = ident(name);
        for distance in 0..self.levels.len() {
            let index = self.levels.len() - 1 - distance;
            let level = &self.levels[index];
            let mut found = level.names.columns.iter().filter(|c| *c.name == *folded);
            if let Some(column) = found.next() {
                if found.next().is_some() {
                    return error(
                        "42702",
                        format!("column reference \"{folded}\" is ambiguous"),
                        at,
                    );
                }
                let typed = Typed {
                    expr: lifted(&column.expr, distance as u32),
                    ty: column.ty,
                    modifier: column.modifier,
                    at,
                };
                self.refuse_ambiguous(&folded, at)?;
                self.mention(index, distance, &typed);
                return Ok(typed);
            }
            if let Some(typed) = self.system_column(index, distance, None, &folded, at)? {
                return Ok(typed);
            }
        }
        if let Some(typed) = self.variable(&folded, at)? {
            return Ok(typed);
        }
        if let Some(distance) = self.named_table(&folded) {
            let _ = distance;
            return unsupported("a whole row as a value", at);
        }
        error("42703", format!("column \"{folded}\" does not exist"), at)
    }

    /// Remembers where a column was named, for messages about grouping.
    fn mention(&mut self, index: usize, distance: usize, typed: &Typed) {
        let level = &mut self.levels[index];
        if let Expr::Column {
            entry,
            column,
            level: l,
        } = typed.expr
            && l as usize == distance
            && !level.in_aggregate
        {
            level.mentions.push((entry, column, typed.at));
        }
    }

    fn named_table(&self, name: &str) -> Option<usize> {
        (0..self.levels.len()).find(|distance| {
            let level = &self.levels[self.levels.len() - 1 - distance];
            level
                .names
                .tables
                .iter()
                .any(|t| *level.range[*t].alias == *name)
        })
    }

    /// A column of a named table.
    pub(super) fn qualified(&mut self, parts: &[ast::Ident]) -> Result<Typed, DbError> {
        let at = parts.first().map_or(0, |p| start_of(p.span));
        let (table, column) = match parts {
            [table, column] => (table, column),
            [_, table, column] => (table, column),
            _ => return unsupported("a name of this many parts", at),
        };
        let (table, column) = (ident(table), ident(column));
        let Some((index, distance, entry)) = self.find_table(&table) else {
            if let Some(typed) = self.qualified_variable(&table, &column, at)? {
                return Ok(typed);
            }
            return Err(self.no_such_table(&table, at));
        };
        let level = &self.levels[index];
        let columns = &level.range[entry].columns;
        let dropped = |i: usize| match &level.range[entry].kind {
            RangeKind::Table(t) => t.columns[i].dropped,
            _ => false,
        };
        let mut matching =
            (0..columns.len()).filter(|i| *columns[*i].name == *column && !dropped(*i));
        if let Some(i) = matching.next() {
            if matching.next().is_some() {
                return error(
                    "42702",
                    format!("column reference \"{column}\" is ambiguous"),
                    at,
                );
            }
            let typed = Typed {
                expr: Expr::Column {
                    level: distance as u32,
                    entry: entry as u32,
                    column: i as u32,
                },
                ty: columns[i].ty,
                modifier: level.declared[entry].get(i).and_then(|d| d.modifier),
                at,
            };
            self.mention(index, distance, &typed);
            return Ok(typed);
        }
        if let Some(typed) = self.system_column(index, distance, Some(entry), &column, at)? {
            return Ok(typed);
        }
        error(
            "42703",
            format!("column {table}.{column} does not exist"),
            at,
        )
    }

    /// The level (index and distance) and entry that a qualifier means.
    pub(super) fn find_table(&self, name: &str) -> Option<(usize, usize, usize)> {
        for distance in 0..self.levels.len() {
            let index = self.levels.len() - 1 - distance;
            let level = &self.levels[index];
            for &entry in &level.names.tables {
                if *level.range[entry].alias == *name {
                    return Some((index, distance, entry));
                }
            }
        }
        None
    }

    /// 42P01 for a qualifier: known, but out of sight, or not known at all.
    pub(super) fn no_such_table(&self, name: &str, at: usize) -> DbError {
        let hidden = self.levels.iter().any(|l| {
            l.range
                .iter()
                .any(|e| *e.alias == *name || table_name(e) == Some(name))
        });
        let message = if hidden {
            format!("invalid reference to FROM-clause entry for table \"{name}\"")
        } else {
            format!("missing FROM-clause entry for table \"{name}\"")
        };
        DbError::postgres("42P01", message).at(at)
    }

    /// `ctid` and its like, of one entry or of the only one.
    fn system_column(
        &self,
        index: usize,
        distance: usize,
        entry: Option<usize>,
        name: &str,
        at: usize,
    ) -> Result<Option<Typed>, DbError> {
        let (column, ty) = match name {
            "ctid" => (SystemColumn::Ctid, Type::Tid),
            "xmin" => (SystemColumn::Xmin, Type::Xid),
            "xmax" => (SystemColumn::Xmax, Type::Xid),
            "tableoid" => (SystemColumn::TableOid, Type::Oid),
            "cmin" | "cmax" => return unsupported("cmin and cmax", at),
            _ => return Ok(None),
        };
        let level = &self.levels[index];
        let stored: Vec<usize> = level
            .names
            .tables
            .iter()
            .copied()
            .filter(|t| entry.is_none_or(|e| e == *t))
            .filter(|t| matches!(level.range[*t].kind, RangeKind::Table(_)))
            .collect();
        match stored.as_slice() {
            [] => Ok(None),
            [entry] => Ok(Some(Typed::new(
                Expr::System {
                    level: distance as u32,
                    entry: *entry as u32,
                    column,
                },
                ty,
                at,
            ))),
            _ => error(
                "42702",
                format!("column reference \"{name}\" is ambiguous"),
                at,
            ),
        }
    }
}

/// The name of the stored table behind an entry.
fn table_name(entry: &RangeEntry) -> Option<&str> {
    match &entry.kind {
        RangeKind::Table(table) => Some(&table.name),
        _ => None,
    }
}
