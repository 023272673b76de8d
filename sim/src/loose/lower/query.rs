//! Queries.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect, Value};

use super::aggregate::sort_key;
use super::conditions;
use super::eliminate;
use super::names::Level;
use super::rules::{self};
use super::{Clause, Lowering, VisibleCte};
use crate::loose::ast::{self, Node, NodeKind};
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::query::{Body, Cte, CteBody, OutputColumn, Query, SortBy, SortKey};

impl Lowering<'_> {
    /// A query; opens a level.
    pub(super) fn query(&mut self, query: &ast::Query) -> Result<Query, DbError> {
        let ctes = self.ctes.len();
        self.withs.push(Vec::new());
        let lowered = self.in_level(Level::default(), |l| l.query_in_level(query));
        self.ctes.truncate(ctes);
        let with = self.withs.pop().unwrap_or_default();
        let mut lowered = lowered?;
        lowered.with = with;
        if self.dialect == Dialect::MariaDb {
            eliminate::of_query(&mut lowered);
        }
        conditions::used_columns(&mut lowered);
        Ok(lowered)
    }

    fn query_in_level(&mut self, query: &ast::Query) -> Result<Query, DbError> {
        self.with(&query.with, query.recursive)?;
        let mut lowered = match &query.body {
            ast::Body::Select(select) => self.select(select, query)?,
            ast::Body::Values(rows) => self.values(rows, query)?,
            ast::Body::Set {
                op,
                all,
                left,
                right,
            } => {
                let left = self.arm(left, &[], query.at)?;
                // A locking clause belongs to the query in front of it.
                let locks = match **right {
                    ast::Body::Select(_) => &query.locks[..],
                    _ => &[],
                };
                let right = self.arm(right, locks, query.at)?;
                self.set_operation(*op, *all, left, right, query)?
            }
            ast::Body::Query(inner) => {
                let arm = self.query(inner)?;
                self.around(arm, query)?
            }
        };
        let in_limit = |l: &mut Self, node: &Option<Node>| match node {
            Some(node) => l.limit(node).map(Some),
            None => Ok(None),
        };
        lowered.limit = in_limit(self, &query.limit)?;
        lowered.offset = in_limit(self, &query.offset)?;
        let of_last = matches!(&query.body, ast::Body::Set { right, .. }
            if matches!(**right, ast::Body::Select(_)));
        if !query.locks.is_empty() && !matches!(lowered.body, Body::Select(_)) && !of_last {
            return errors::unsupported("a locking clause on this query", query.locks[0].at);
        }
        Ok(lowered)
    }

    /// `LIMIT`: a number or a parameter on MySQL, any expression on SQLite.
    pub(super) fn limit(&mut self, node: &Node) -> Result<Expr, DbError> {
        if !self.is_sqlite() && !matches!(node.kind, NodeKind::Integer(_) | NodeKind::Param(_)) {
            return Err(errors::syntax(self.dialect, &self.text, node.at, node.end));
        }
        let hidden = std::mem::take(&mut self.level().range);
        let typed = self.expr(node);
        self.level().range = hidden;
        Ok(typed?.expr)
    }

    /// The common table expressions in front of a statement.
    pub(super) fn with(&mut self, list: &[ast::Cte], recursive: bool) -> Result<(), DbError> {
        for cte in list {
            let id = self.next_cte();
            let reads_itself = recursive && mentions(&cte.query, &cte.name.name);
            let (body, columns) = match &cte.query.body {
                ast::Body::Set {
                    op: crate::loose::query::SetOp::Union,
                    all,
                    left,
                    right,
                } if reads_itself => {
                    if !cte.query.order.is_empty() || cte.query.limit.is_some() {
                        return errors::unsupported(
                            "ORDER BY and LIMIT of a recursive query",
                            cte.query.at,
                        );
                    }
                    let first = self.arm(left, &[], cte.query.at)?;
                    let columns = self.renamed(first.columns.clone(), &cte.columns, cte.name.at)?;
                    self.ctes.push(VisibleCte {
                        name: cte.name.name.clone(),
                        id,
                        columns: columns.clone(),
                    });
                    let next = self.arm(right, &[], cte.query.at)?;
                    self.ctes.pop();
                    let by = columns
                        .iter()
                        .map(|c| rules::own_comparison(&c.ty, self.dialect))
                        .collect();
                    let body = CteBody::Recursive {
                        first: Box::new(first),
                        next: Box::new(next),
                        all: *all,
                        by,
                    };
                    (body, columns)
                }
                _ => {
                    let query = self.query(&cte.query)?;
                    let columns = self.columns_of(&query);
                    let columns = self.renamed(columns, &cte.columns, cte.name.at)?;
                    (CteBody::Query(Box::new(query)), columns)
                }
            };
            self.ctes.push(VisibleCte {
                name: cte.name.name.clone(),
                id,
                columns: columns.clone(),
            });
            if let Some(with) = self.withs.last_mut() {
                with.push(Cte {
                    id,
                    name: cte.name.name.clone(),
                    body,
                    columns,
                });
            }
        }
        Ok(())
    }

    /// An arm of a set operation, as a query of its own.
    fn arm(
        &mut self,
        body: &ast::Body,
        locks: &[ast::Locking],
        at: usize,
    ) -> Result<Query, DbError> {
        if let ast::Body::Query(query) = body {
            return self.query(query);
        }
        self.query(&ast::Query {
            into: Vec::new(),
            with: Vec::new(),
            recursive: false,
            body: body.clone(),
            order: Vec::new(),
            limit: None,
            offset: None,
            locks: locks.to_vec(),
            at,
            end: at,
        })
    }

    fn set_operation(
        &mut self,
        op: crate::loose::query::SetOp,
        all: bool,
        left: Query,
        right: Query,
        query: &ast::Query,
    ) -> Result<Query, DbError> {
        if left.columns.len() != right.columns.len() {
            let word = match op {
                crate::loose::query::SetOp::Union if all => "UNION ALL",
                crate::loose::query::SetOp::Union => "UNION",
                crate::loose::query::SetOp::Intersect => "INTERSECT",
                crate::loose::query::SetOp::Except => "EXCEPT",
            };
            return Err(errors::either(
                self.dialect,
                1222,
                "21000",
                "The used SELECT statements have a different number of columns",
                format!(
                    "SELECTs to the left and right of {word} do not have the same number of \
                     result columns"
                ),
            )
            .at(query.at));
        }
        let columns: Vec<OutputColumn> = left
            .columns
            .iter()
            .zip(&right.columns)
            .map(|(l, r)| OutputColumn {
                name: l.name.clone(),
                ty: match self.is_sqlite() {
                    true => l.ty.clone(),
                    false => rules::unite(&l.ty, &r.ty, self.dialect),
                },
            })
            .collect();
        let by = columns
            .iter()
            .map(|c| rules::own_comparison(&c.ty, self.dialect))
            .collect();
        let body = Body::Set {
            op,
            all,
            by,
            left: Box::new(left),
            right: Box::new(right),
        };
        let sort = self.sort_by_columns(&query.order, &columns)?;
        Ok(plain_query(body, columns, sort))
    }

    /// An order or limit around a query in parentheses.
    fn around(&mut self, inner: Query, query: &ast::Query) -> Result<Query, DbError> {
        let columns = inner.columns.clone();
        let by = columns
            .iter()
            .map(|c| rules::own_comparison(&c.ty, self.dialect))
            .collect();
        // UNION ALL with nothing.
        let nothing = Query {
            limit: Some(Expr::Const(Value::Int(0))),
            ..plain_query(
                Body::Values(vec![vec![Expr::Const(Value::Null); columns.len()]]),
                columns.clone(),
                Vec::new(),
            )
        };
        let sort = self.sort_by_columns(&query.order, &columns)?;
        let body = Body::Set {
            op: crate::loose::query::SetOp::Union,
            all: true,
            by,
            left: Box::new(inner),
            right: Box::new(nothing),
        };
        Ok(plain_query(body, columns, sort))
    }

    /// `ORDER BY` over the columns of a result: names and positions only.
    pub(super) fn sort_by_columns(
        &mut self,
        order: &[ast::Order],
        columns: &[OutputColumn],
    ) -> Result<Vec<SortKey>, DbError> {
        let mut sort = Vec::new();
        for key in order {
            let position = match &key.expr.kind {
                NodeKind::Integer(text) => self.position(text, columns.len(), key, sort.len())?,
                NodeKind::Name(parts) if parts.len() == 1 => {
                    let name = &parts[0].name;
                    let found = columns
                        .iter()
                        .position(|c| c.name.eq_ignore_ascii_case(name));
                    match found {
                        Some(position) => position,
                        None => {
                            return self.in_clause(Clause::Order, |l| {
                                Err(l.no_such_column(name, key.expr.at))
                            });
                        }
                    }
                }
                _ => {
                    return errors::unsupported(
                        "an expression in ORDER BY of this query",
                        key.expr.at,
                    );
                }
            };
            let by = rules::own_comparison(&columns[position].ty, self.dialect);
            sort.push(sort_key(SortBy::Target(position), by, key));
        }
        Ok(sort)
    }

    /// A position in `ORDER BY` or `GROUP BY`.
    pub(super) fn position(
        &self,
        text: &str,
        count: usize,
        key: &ast::Order,
        place: usize,
    ) -> Result<usize, DbError> {
        let number: usize = text.parse().unwrap_or(0);
        if (1..=count).contains(&number) {
            return Ok(number - 1);
        }
        let suffix = match place + 1 {
            1 => "st",
            2 => "nd",
            3 => "rd",
            _ => "th",
        };
        Err(errors::either(
            self.dialect,
            1054,
            "42S22",
            format!("Unknown column '{text}' in 'order clause'"),
            format!(
                "{}{suffix} ORDER BY term out of range - should be between 1 and {count}",
                place + 1
            ),
        )
        .at(key.expr.at))
    }

    fn values(&mut self, rows: &[Vec<Node>], query: &ast::Query) -> Result<Query, DbError> {
        let mut lowered = Vec::new();
        let mut columns: Vec<OutputColumn> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let mut values = Vec::new();
            for (k, node) in row.iter().enumerate() {
                let typed = self.expr(node)?;
                if i == 0 {
                    let name: Arc<str> = match self.is_sqlite() {
                        true => format!("column{}", k + 1).into(),
                        false => format!("column_{k}").into(),
                    };
                    columns.push(OutputColumn { name, ty: typed.ty });
                }
                values.push(typed.expr);
            }
            if values.len() != columns.len() {
                return Err(errors::either(
                    self.dialect,
                    1136,
                    "21S01",
                    format!("Column count doesn't match value count at row {}", i + 1),
                    "all VALUES must have the same number of terms",
                )
                .at(query.at));
            }
            lowered.push(values);
        }
        let sort = self.sort_by_columns(&query.order, &columns)?;
        Ok(plain_query(Body::Values(lowered), columns, sort))
    }
}

pub(super) fn plain_query(body: Body, columns: Vec<OutputColumn>, sort: Vec<SortKey>) -> Query {
    Query {
        with: Vec::new(),
        body,
        columns,
        sort,
        limit: None,
        offset: None,
    }
}

/// Whether a query reads a table called `name`.
fn mentions(query: &ast::Query, name: &str) -> bool {
    fn in_ref(item: &ast::TableRef, name: &str) -> bool {
        match item {
            ast::TableRef::Table { name: table, .. } => {
                table.schema.is_none() && table.name.name.eq_ignore_ascii_case(name)
            }
            ast::TableRef::Derived { query, .. } => mentions(query, name),
            ast::TableRef::Join { left, right, .. } => in_ref(left, name) || in_ref(right, name),
        }
    }
    fn in_body(body: &ast::Body, name: &str) -> bool {
        match body {
            ast::Body::Select(select) => select.from.iter().any(|item| in_ref(item, name)),
            ast::Body::Values(_) => false,
            ast::Body::Set { left, right, .. } => in_body(left, name) || in_body(right, name),
            ast::Body::Query(query) => mentions(query, name),
        }
    }
    in_body(&query.body, name)
}
