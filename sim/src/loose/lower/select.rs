//! `SELECT`: its columns, its groups, what sorts it and what it locks.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

use super::aggregate::sort_key;
use super::conditions;
use super::group::Regroup;
use super::query::plain_query;
use super::rules::{self, Typed};
use super::{Clause, Lowering};
use crate::loose::ast::{self, Item, Node, NodeKind};
use crate::loose::errors;
use crate::loose::expr::{Expr, Unary};
use crate::loose::plan::TableUse;
use crate::loose::query::{
    Body, Grouping, OutputColumn, Query, RangeKind, Select, SortBy, SortKey, Source,
};
use crate::loose::walk;

impl Lowering<'_> {
    pub(super) fn select(
        &mut self,
        select: &ast::Select,
        query: &ast::Query,
    ) -> Result<Query, DbError> {
        let from = self.from(&select.from)?;
        self.lock_entries(&query.locks)?;
        let filter = match &select.filter {
            Some(filter) => {
                self.level().no_aggregates = true;
                let filter = self.in_clause(Clause::Where, |l| l.conjuncts(filter));
                self.level().no_aggregates = false;
                filter?
            }
            None => Vec::new(),
        };
        self.level().grouped = !select.group.is_empty();
        let (items, columns) = self.items(&select.items, select.at)?;
        let visible = items.len();
        let names = items.iter().zip(&columns);
        self.level().aliases = names
            .map(|(item, c)| (c.name.clone(), item.clone()))
            .collect();
        let keys = self.group_keys(select, &items)?;
        let having = match &select.having {
            Some(having) => {
                self.level().alias_first = Some(false);
                let having = self.in_clause(Clause::Having, |l| l.expr(having));
                self.level().alias_first = None;
                Some(having?)
            }
            None => None,
        };
        let mut targets = items;
        // MySQL forgets the order of a query that has one row.
        let has_one_row = select.group.is_empty() && !self.level().aggregates.is_empty();
        let sort = match has_one_row && self.dialect == Dialect::MySql {
            true => Vec::new(),
            false => self.sort_select(query, &mut targets, visible, select.distinct)?,
        };
        self.finish_select(
            SelectParts {
                from,
                filter,
                keys,
                having,
                targets,
            },
            select,
            columns,
            sort,
        )
    }

    fn finish_select(
        &mut self,
        parts: SelectParts,
        select: &ast::Select,
        columns: Vec<OutputColumn>,
        sort: Vec<SortKey>,
    ) -> Result<Query, DbError> {
        let level = std::mem::take(self.level());
        let mut source = Source {
            range: level.range,
            from: parts.from,
            filter: parts.filter,
        };
        conditions::fill(&mut source);
        let explicit = !select.group.is_empty();
        let grouped = explicit || !level.aggregates.is_empty() || parts.having.is_some();
        let mut targets: Vec<Expr> = parts.targets.iter().map(|t| t.expr.clone()).collect();
        let mut windows = level.windows;
        let mut grouping = None;
        if grouped {
            let representative = self.representative(&level.aggregates);
            let mut regroup = Regroup {
                keys: parts.keys,
                aggregates: level.aggregates,
                source: &source,
                explicit,
            };
            for (i, target) in targets.iter_mut().enumerate() {
                let at = parts.targets[i].at;
                self.regroup(target, &mut regroup, i + 1, at)?;
            }
            for window in &mut windows {
                let mut problem = Ok(());
                let mut pieces: Vec<&mut Expr> = window.args.iter_mut().collect();
                pieces.extend(window.partition.iter_mut().map(|(key, _)| key));
                for key in &mut window.order {
                    if let SortBy::Expr(by) = &mut key.by {
                        pieces.push(by);
                    }
                }
                for piece in pieces {
                    problem = problem.and(self.regroup(piece, &mut regroup, 1, select.at));
                }
                problem?;
            }
            let mut having = parts.having.map(|having| having.expr);
            if let Some(having) = &mut having {
                self.regroup(having, &mut regroup, 1, select.at)?;
            }
            grouping = Some(Grouping {
                keys: regroup.keys,
                aggregates: regroup.aggregates,
                having,
                explicit,
                representative,
            });
        }
        // What goes through a temporary table comes out with the types of its columns.
        let mut columns = columns;
        let temporary = (select.distinct && grouping.is_none()) || !windows.is_empty();
        if temporary && !self.is_sqlite() {
            for (column, target) in columns.iter_mut().zip(&targets) {
                if reads_rows(target) {
                    column.ty = rules::stored(&column.ty, self.dialect);
                }
            }
        }
        let distinct = select.distinct.then(|| {
            columns
                .iter()
                .map(|c| rules::own_comparison(&c.ty, self.dialect))
                .collect()
        });
        let body = Body::Select(Box::new(Select {
            source,
            grouping,
            windows,
            targets,
            distinct,
        }));
        Ok(plain_query(body, columns, sort))
    }

    /// Applies locking clauses to the entries that they cover.
    fn lock_entries(&mut self, locks: &[ast::Locking]) -> Result<(), DbError> {
        for lock in locks {
            for name in &lock.of {
                let known = self.level().range.iter().any(|e| e.alias == name.name);
                if !known {
                    let shown = &name.name;
                    return Err(errors::mysql(
                        3568,
                        "HY000",
                        format!("Unresolved table name `{shown}` in locking clause."),
                    )
                    .at(name.at));
                }
            }
            let mut touched = Vec::new();
            for entry in &mut self.level().range {
                let named = lock.of.iter().any(|name| name.name == entry.alias);
                if let RangeKind::Table(table) = &entry.kind
                    && (lock.of.is_empty() || named)
                {
                    entry.lock = Some(lock.clause);
                    touched.push(Arc::clone(table));
                }
            }
            for table in touched {
                self.touch(&table, TableUse::LockingRead);
            }
        }
        Ok(())
    }

    /// A select list: the targets and the columns of the answer.
    pub(super) fn items(
        &mut self,
        items: &[Item],
        at: usize,
    ) -> Result<(Vec<Typed>, Vec<OutputColumn>), DbError> {
        let mut targets = Vec::new();
        let mut columns = Vec::new();
        for item in items {
            match item {
                Item::Star(qualifier, star_at) => {
                    let before = targets.len();
                    self.star(qualifier.as_ref(), *star_at, &mut targets, &mut columns);
                    if targets.len() == before {
                        return Err(self.no_star(qualifier.as_ref(), *star_at));
                    }
                }
                Item::Expr(node, alias) => {
                    let typed = self.expr(node)?;
                    let name = match alias {
                        Some(alias) => alias.name.clone(),
                        None => self.column_name(node, &typed),
                    };
                    columns.push(OutputColumn {
                        name,
                        ty: typed.ty.clone(),
                    });
                    targets.push(typed);
                }
            }
        }
        if targets.is_empty() {
            return errors::unsupported("an empty select list", at);
        }
        Ok((targets, columns))
    }

    /// The name of a column without an alias: SQLite names a plain column as the table does, MySQL
    /// as written; everything else is called by its text.
    fn column_name(&mut self, node: &Node, typed: &Typed) -> Arc<str> {
        if let NodeKind::Name(parts) = &node.kind
            && let Some(last) = parts.last()
        {
            if self.is_sqlite()
                && let Expr::Column {
                    level: 0,
                    entry,
                    column,
                } = typed.expr
            {
                let range = &self.level().range;
                return range[entry as usize].columns[column as usize].name.clone();
            }
            return last.name.clone();
        }
        if let NodeKind::Text(text) = &node.kind
            && !self.is_sqlite()
        {
            return text.as_str().into();
        }
        self.text.get(node.at..node.end).unwrap_or_default().into()
    }

    fn no_star(&mut self, qualifier: Option<&ast::Ident>, at: usize) -> DbError {
        let name = qualifier.map_or("*", |q| &*q.name);
        match qualifier {
            Some(_) => errors::either(
                self.dialect,
                1051,
                "42S02",
                format!("Unknown table '{name}'"),
                format!("no such table: {name}"),
            ),
            None => errors::either(
                self.dialect,
                1096,
                "HY000",
                "No tables used",
                "no tables specified",
            ),
        }
        .at(at)
    }

    fn star(
        &mut self,
        qualifier: Option<&ast::Ident>,
        at: usize,
        targets: &mut Vec<Typed>,
        columns: &mut Vec<OutputColumn>,
    ) {
        let sqlite = self.is_sqlite();
        let Some(level) = self.levels.last() else {
            return;
        };
        for (i, entry) in level.range.iter().enumerate() {
            let wanted = match qualifier {
                Some(q) if sqlite => q.name.eq_ignore_ascii_case(&entry.alias),
                Some(q) => q.name == entry.alias,
                None => !level.only_qualified.contains(&i),
            };
            if !wanted {
                continue;
            }
            for (c, column) in entry.columns.iter().enumerate() {
                if qualifier.is_none() && level.merged.contains(&(i, c)) {
                    continue;
                }
                targets.push(Typed {
                    expr: Expr::Column {
                        level: 0,
                        entry: i as u32,
                        column: c as u32,
                    },
                    ty: column.ty.clone(),
                    at,
                });
                columns.push(column.clone());
            }
        }
    }

    fn group_keys(
        &mut self,
        select: &ast::Select,
        items: &[Typed],
    ) -> Result<Vec<(Expr, crate::loose::expr::Comparison)>, DbError> {
        let mut keys = Vec::new();
        for node in &select.group {
            let typed = match &node.kind {
                NodeKind::Integer(text) => {
                    let key = ast::Order {
                        expr: node.clone(),
                        descending: false,
                        nulls_first: None,
                    };
                    let position = self.position(text, items.len(), &key, keys.len())?;
                    items[position].clone()
                }
                _ => {
                    self.level().alias_first = Some(false);
                    self.level().no_aggregates = true;
                    let typed = self.in_clause(Clause::Group, |l| l.expr(node));
                    self.level().alias_first = None;
                    self.level().no_aggregates = false;
                    typed?
                }
            };
            let by = rules::own_comparison(&typed.ty, self.dialect);
            keys.push((typed.expr, by));
        }
        Ok(keys)
    }

    fn sort_select(
        &mut self,
        query: &ast::Query,
        targets: &mut Vec<Typed>,
        visible: usize,
        distinct: bool,
    ) -> Result<Vec<SortKey>, DbError> {
        let mut sort = Vec::new();
        for key in &query.order {
            let number = match &key.expr.kind {
                NodeKind::Integer(text) => Some(text.clone()),
                // MariaDB takes every integer literal for a position.
                NodeKind::Bool(false) if self.dialect == Dialect::MariaDb => Some("0".to_owned()),
                NodeKind::Unary(Unary::Negate, inner) if self.dialect == Dialect::MariaDb => {
                    match &inner.kind {
                        NodeKind::Integer(text) => Some(format!("-{text}")),
                        _ => None,
                    }
                }
                _ => None,
            };
            let position = if let Some(text) = &number {
                self.position(text, visible, key, sort.len())?
            } else {
                self.level().alias_first = Some(true);
                let typed = self.in_clause(Clause::Order, |l| l.expr(&key.expr));
                self.level().alias_first = None;
                let typed = typed?;
                let known = targets.iter().position(|target| {
                    target.expr == typed.expr && target.ty.collation == typed.ty.collation
                });
                match known {
                    Some(position) => position,
                    None if distinct => {
                        return errors::unsupported(
                            "DISTINCT with an order over other expressions",
                            key.expr.at,
                        );
                    }
                    None => {
                        targets.push(typed);
                        targets.len() - 1
                    }
                }
            };
            let by = rules::own_comparison(&targets[position].ty, self.dialect);
            sort.push(sort_key(SortBy::Target(position), by, key));
        }
        Ok(sort)
    }
}

/// The pieces of a select before grouping is resolved.
struct SelectParts {
    from: Option<crate::loose::query::From>,
    filter: Vec<crate::loose::query::Conjunct>,
    keys: Vec<(Expr, crate::loose::expr::Comparison)>,
    having: Option<Typed>,
    targets: Vec<Typed>,
}

/// Whether an expression reads a column of its level: others are computed once.
fn reads_rows(expr: &Expr) -> bool {
    let mut reads = false;
    let mut expr = expr.clone();
    walk::expr(&mut expr, 0, &mut |part, depth| {
        reads |= match part {
            Expr::Column { level, .. } | Expr::Group { level, .. } => *level == depth,
            Expr::Window(_) => true,
            _ => false,
        };
        true
    });
    reads
}
