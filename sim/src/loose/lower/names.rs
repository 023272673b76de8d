//! Levels of names, and looking names up.

use std::sync::Arc;

use rowlock_model::{DbError, Value};

use super::Lowering;
use super::rules::{self, Typed};
use crate::loose::ast::{Ident, TableName};
use crate::loose::catalog::{Relation, Table};
use crate::loose::errors;
use crate::loose::expr::{Aggregate, Expr, Window};
use crate::loose::query::{Kind, RangeEntry, RangeKind};
use crate::loose::types::{Affinity, DeclaredType};

/// The names of one level.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// The range table so far.
    pub(super) range: Vec<RangeEntry>,
    /// Columns that `USING` has merged into an earlier one: entry and column, hidden from
    /// unqualified names and `*`.
    pub(super) merged: Vec<(usize, usize)>,
    /// Aliases of the select list, with their expressions.
    pub(super) aliases: Vec<(Arc<str>, Typed)>,
    /// Whether names are looked up among aliases, and whether before columns.
    pub(super) alias_first: Option<bool>,
    /// Aggregates met so far.
    pub(super) aggregates: Vec<Aggregate>,
    /// Windows met so far.
    pub(super) windows: Vec<Window>,
    /// Inside the arguments of an aggregate, or where none may stand.
    pub(super) no_aggregates: bool,
    /// It has a `GROUP BY`.
    pub(super) grouped: bool,
    /// Entries whose unqualified columns are hidden (`excluded`, `new`).
    pub(super) only_qualified: Vec<usize>,
}

impl Lowering<'_> {
    /// The relation called so, or the server's error.
    pub(super) fn relation(&mut self, name: &TableName) -> Result<Relation, DbError> {
        let schema = name.schema.as_ref().map(|s| &*s.name);
        match self.catalog.relation(schema, &name.name.name) {
            Some(relation) => Ok(relation),
            None => Err(self.no_such_table(name)),
        }
    }

    pub(super) fn no_such_table(&self, name: &TableName) -> DbError {
        let schema = name
            .schema
            .as_ref()
            .map_or(self.catalog.database(), |s| &*s.name);
        let shown = &name.name.name;
        let sqlite = match &name.schema {
            Some(schema) => format!("no such table: {}.{shown}", schema.name),
            None => format!("no such table: {shown}"),
        };
        errors::either(
            self.dialect,
            1146,
            "42S02",
            format!("Table '{schema}.{shown}' doesn't exist"),
            sqlite,
        )
        .at(name.name.at)
    }

    /// The stored table called so.
    pub(super) fn table(&mut self, name: &TableName) -> Result<Arc<Table>, DbError> {
        match self.relation(name)? {
            Relation::Table(table) => Ok(table),
            Relation::View(_) => errors::unsupported("a view as a target", name.name.at),
            Relation::Virtual(_) => errors::unsupported("changing this table", name.name.at),
        }
    }

    pub(super) fn no_such_column(&self, shown: &str, at: usize) -> DbError {
        errors::either(
            self.dialect,
            1054,
            "42S22",
            format!("Unknown column '{shown}' in '{}'", self.clause.name()),
            format!("no such column: {shown}"),
        )
        .at(at)
    }

    /// A column reference of one to three parts.
    pub(super) fn name(&mut self, parts: &[Ident], at: usize) -> Result<Typed, DbError> {
        let Some((column, qualifier)) = parts.split_last() else {
            return errors::unsupported("an empty name", at);
        };
        // A database in front says nothing more: there is one.
        let qualifier = qualifier.last();
        if let Some(typed) = self.find(qualifier, column, at)? {
            return Ok(typed);
        }
        if self.is_sqlite() && qualifier.is_none() && column.double_quoted {
            let value = Value::Text(column.name.clone());
            return Ok(Typed::new(Expr::Const(value), Kind::Text, self.dialect, at));
        }
        let shown: Vec<&str> = parts.iter().map(|part| &*part.name).collect();
        Err(self.no_such_column(&shown.join("."), at))
    }

    fn find(
        &mut self,
        qualifier: Option<&Ident>,
        column: &Ident,
        at: usize,
    ) -> Result<Option<Typed>, DbError> {
        for (outwards, level) in self.levels.iter().rev().enumerate() {
            let alias = || {
                let mut aliases = level.aliases.iter();
                let found = aliases.find(|(name, _)| name.eq_ignore_ascii_case(&column.name));
                found.map(|(_, typed)| typed.clone())
            };
            let by_alias = outwards == 0 && qualifier.is_none();
            if by_alias
                && level.alias_first == Some(true)
                && let Some(typed) = alias()
            {
                return Ok(Some(Typed { at, ..typed }));
            }
            if let Some(typed) = self.find_in(level, outwards as u32, qualifier, column, at)? {
                return Ok(Some(typed));
            }
            if by_alias
                && level.alias_first == Some(false)
                && let Some(typed) = alias()
            {
                return Ok(Some(Typed { at, ..typed }));
            }
        }
        Ok(None)
    }

    fn find_in(
        &self,
        level: &Level,
        outwards: u32,
        qualifier: Option<&Ident>,
        column: &Ident,
        at: usize,
    ) -> Result<Option<Typed>, DbError> {
        let mut found: Option<Typed> = None;
        for (i, entry) in level.range.iter().enumerate() {
            match qualifier {
                // Aliases of tables depend on case on MySQL; one spelling in two cases is rare and
                // would be an error there only.
                Some(qualifier) if !self.same_table_name(&entry.alias, &qualifier.name) => continue,
                None if level.only_qualified.contains(&i) => continue,
                _ => {}
            }
            let position = entry
                .columns
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(&column.name));
            let typed = match position {
                Some(c) if qualifier.is_none() && level.merged.contains(&(i, c)) => continue,
                Some(c) => Typed {
                    expr: Expr::Column {
                        level: outwards,
                        entry: i as u32,
                        column: c as u32,
                    },
                    ty: entry.columns[c].ty.clone(),
                    at,
                },
                None => continue,
            };
            if found.is_some() {
                let shown = &column.name;
                return Err(errors::either(
                    self.dialect,
                    1052,
                    "23000",
                    format!("Column '{shown}' in {} is ambiguous", self.clause.name()),
                    format!("ambiguous column name: {shown}"),
                )
                .at(at));
            }
            found = Some(typed);
        }
        if found.is_some() || !self.is_sqlite() {
            return Ok(found);
        }
        Ok(self.find_rowid(level, outwards, qualifier, column, at))
    }

    /// `rowid`, `oid`, `_rowid_` of a rowid table, if no column is called so.
    fn find_rowid(
        &self,
        level: &Level,
        outwards: u32,
        qualifier: Option<&Ident>,
        column: &Ident,
        at: usize,
    ) -> Option<Typed> {
        let is = |name: &str| column.name.eq_ignore_ascii_case(name);
        if !is("rowid") && !is("oid") && !is("_rowid_") {
            return None;
        }
        let entry = level.range.iter().enumerate().find_map(|(i, entry)| {
            let named = match qualifier {
                Some(qualifier) => self.same_table_name(&entry.alias, &qualifier.name),
                None => !level.only_qualified.contains(&i),
            };
            let has = matches!(&entry.kind, RangeKind::Table(table) if !table.without_rowid);
            (named && has).then_some(i)
        })?;
        let declared = DeclaredType::Sqlite {
            name: "INTEGER".into(),
            affinity: Affinity::Integer,
        };
        Some(Typed {
            expr: Expr::Rowid {
                level: outwards,
                entry: entry as u32,
            },
            ty: rules::of_column(&declared, crate::loose::types::Collation::Binary),
            at,
        })
    }

    pub(super) fn same_table_name(&self, a: &str, b: &str) -> bool {
        match self.is_sqlite() {
            true => a.eq_ignore_ascii_case(b),
            false => a == b,
        }
    }
}
