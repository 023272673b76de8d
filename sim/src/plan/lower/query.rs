//! Queries: `WITH`, set operations, `ORDER BY`, `LIMIT`, row locks.

use std::ops::ControlFlow;
use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;
use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier, visit_relations};

use super::names::{Level, Place};
use super::{
    CteList, CteSource, Lowered, Lowering, Typed, VisibleCte, absent, error, ident, place,
    unsupported,
};
use crate::plan::PlanKind;
use crate::plan::expr::{Expr, Volatility};
use crate::plan::query::{
    Body, Cte, CteBody, OutputColumn, Query, RangeKind, RowLock, Select, SetOp, SortKey,
};
use crate::plan::types::coerce::{Context, common_type};
use crate::plan::types::{Declared, Type};
use crate::plan::walk;
use crate::sql::control::TableLockMode;
use crate::sql::locks::{self, Lock};

/// The parts of a query around its body.
pub(super) struct Tail<'a> {
    pub(super) order: &'a [ast::OrderByExpr],
    limit: Option<&'a ast::Expr>,
    with_ties: bool,
    offset: Option<&'a ast::Expr>,
    pub(super) locks: Vec<Lock>,
}

impl Tail<'_> {
    fn none() -> Tail<'static> {
        Tail {
            order: &[],
            limit: None,
            with_ties: false,
            offset: None,
            locks: Vec::new(),
        }
    }
}

/// Takes a query apart, refusing what is not modelled.
fn read_tail(query: &ast::Query, at: usize) -> Result<Tail<'_>, DbError> {
    let ast::Query {
        with: _,
        body: _,
        order_by,
        limit_clause,
        fetch,
        locks: lock_clauses,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    absent(for_clause.is_some(), "FOR XML and its like", at)?;
    absent(settings.is_some(), "SETTINGS", at)?;
    absent(format_clause.is_some(), "FORMAT", at)?;
    absent(!pipe_operators.is_empty(), "pipe operators", at)?;
    let mut tail = Tail::none();
    if let Some(ast::OrderBy { kind, interpolate }) = order_by {
        absent(interpolate.is_some(), "INTERPOLATE", at)?;
        match kind {
            ast::OrderByKind::Expressions(list) => tail.order = list,
            ast::OrderByKind::All(_) => return unsupported("ORDER BY ALL", at),
        }
    }
    match limit_clause {
        None => {}
        Some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) => {
            absent(!limit_by.is_empty(), "LIMIT BY", at)?;
            tail.limit = limit.as_ref();
            tail.offset = offset.as_ref().map(|o| &o.value);
        }
        Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
            return error("42601", "LIMIT #,# syntax is not supported", at);
        }
    }
    if let Some(ast::Fetch {
        with_ties,
        percent,
        quantity,
    }) = fetch
    {
        absent(*percent, "FETCH .. PERCENT", at)?;
        absent(quantity.is_none(), "FETCH without a number", at)?;
        tail.with_ties = *with_ties;
        tail.limit = quantity.as_ref();
    }
    for clause in lock_clauses {
        match locks::read_back(clause) {
            Some(lock) => tail.locks.push(lock),
            None => return unsupported("this lock clause", at),
        }
    }
    Ok(tail)
}

impl<'c> Lowering<'c> {
    /// A query. `expected` are types for literals without one in the select list.
    pub(super) fn query(
        &mut self,
        query: &ast::Query,
        expected: &[Declared],
    ) -> Result<Query, DbError> {
        self.query_keeping(query, expected, false)
    }

    /// As [`query`](Self::query); with `open`, literals without a type keep none.
    fn query_keeping(
        &mut self,
        query: &ast::Query,
        expected: &[Declared],
        open: bool,
    ) -> Result<Query, DbError> {
        let at = place(query, self.begin);
        let tail = read_tail(query, at)?;
        self.with_ctes(|this| {
            this.in_level(Level::new(Place::Targets), |this| {
                let with = this.ctes(query.with.as_ref(), query)?;
                let mut lowered = this.body(&query.body, &tail, expected, open)?;
                lowered.with = with;
                Ok(lowered)
            })
        })
    }

    /// The body of a query, inside its level.
    fn body(
        &mut self,
        body: &SetExpr,
        tail: &Tail<'_>,
        expected: &[Declared],
        open: bool,
    ) -> Result<Query, DbError> {
        let mut query = match body {
            SetExpr::Select(select) => self.select(select, tail, expected, open)?,
            SetExpr::Query(inner) => {
                // Parentheses: the clauses around them apply to the result.
                let inner = self.query_keeping(inner, expected, open)?;
                self.parenthesised(inner, tail)?
            }
            SetExpr::Values(values) => self.values(values, tail, expected, open)?,
            SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => self.set_operation(left, *op, *set_quantifier, right, tail)?,
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) => {
                return unsupported("a data-modifying statement here", self.begin);
            }
            SetExpr::Merge(_) => {
                return error("0A000", "MERGE not supported in WITH query", self.begin);
            }
            SetExpr::Table(_) => return unsupported("TABLE inside a query", self.begin),
        };
        self.limits(&mut query, tail)?;
        Ok(query)
    }

    /// `LIMIT` and `OFFSET`.
    fn limits(&mut self, query: &mut Query, tail: &Tail<'_>) -> Result<(), DbError> {
        for (tree, what, slot) in [
            (tail.limit, "LIMIT", &mut query.limit),
            (tail.offset, "OFFSET", &mut query.offset),
        ] {
            let Some(tree) = tree else { continue };
            let typed = self.at_place(Place::Clause(what), |this| this.expr(tree))?;
            let at = typed.at;
            // Rows are counted in bigint; other numbers are converted as on assignment.
            let ty = typed.ty;
            let Some(typed) = self.coerce(typed, Type::Int8, Context::Assignment)? else {
                return error(
                    "42804",
                    format!(
                        "argument of {what} must be type bigint, not type {}",
                        self.type_name(ty)
                    ),
                    at,
                );
            };
            if walk::entries_used(&typed.expr) != 0 {
                return error(
                    "42P10",
                    format!("argument of {what} must not contain variables"),
                    at,
                );
            }
            *slot = Some(typed.expr);
        }
        query.with_ties = tail.with_ties;
        if tail.with_ties && query.sort.is_empty() {
            return error(
                "42601",
                "WITH TIES cannot be specified without ORDER BY clause",
                self.begin,
            );
        }
        Ok(())
    }

    /// `(query) ORDER BY ..`: the query itself if nothing follows it.
    fn parenthesised(&mut self, inner: Query, tail: &Tail<'_>) -> Result<Query, DbError> {
        let columns = inner.columns.clone();
        if !tail.locks.is_empty() {
            return unsupported("a row lock on a query in parentheses", self.begin);
        }
        // A query of its own, read as `SELECT * FROM (inner)`.
        let entry = super::names::entry(
            "",
            RangeKind::Subquery(Box::new(inner)),
            columns.clone(),
            self.begin,
        );
        let declared = columns.iter().map(|c| Declared::from(c.ty)).collect();
        let level = self.level();
        level.names = level.add(entry, declared);
        let names = level.names.columns.clone();
        let source = crate::plan::query::Source {
            range: std::mem::take(&mut level.range),
            from: Some(crate::plan::query::From::Entry(0)),
            filter: Vec::new(),
            ways: None,
            rerun: None,
        };
        let sort = self.sort_by_columns(tail.order, &columns)?;
        Ok(Query {
            with: Vec::new(),
            body: Body::Select(Box::new(Select {
                source,
                grouping: None,
                windows: Vec::new(),
                targets: names.iter().map(|c| c.expr.clone()).collect(),
                target_types: columns.iter().map(|c| c.ty).collect(),
                distinct: crate::plan::query::Distinct::No,
            })),
            columns,
            sort,
            limit: None,
            with_ties: false,
            offset: None,
            locks: Vec::new(),
        })
    }

    fn values(
        &mut self,
        values: &ast::Values,
        tail: &Tail<'_>,
        expected: &[Declared],
        open: bool,
    ) -> Result<Query, DbError> {
        let ast::Values {
            explicit_row,
            value_keyword,
            rows,
        } = values;
        absent(*explicit_row || *value_keyword, "VALUES ROW", self.begin)?;
        let mut lowered: Vec<Vec<Typed>> = Vec::with_capacity(rows.len());
        for row in rows {
            let mut typed = Vec::with_capacity(row.content.len());
            for tree in &row.content {
                typed.push(self.at_place(Place::Clause("VALUES"), |this| this.expr(tree))?);
            }
            if lowered
                .first()
                .is_some_and(|first| first.len() != typed.len())
            {
                let at = typed.first().map_or(self.begin, |t| t.at);
                return error("42601", "VALUES lists must all be the same length", at);
            }
            lowered.push(typed);
        }
        if !tail.locks.is_empty() {
            return Err(DbError::postgres(
                "0A000",
                format!(
                    "{} cannot be applied to VALUES",
                    locks::name_of(tail.locks[0].strength)
                ),
            ));
        }
        let width = lowered.first().map_or(0, Vec::len);
        let mut columns = Vec::with_capacity(width);
        for i in 0..width {
            let mut column: Vec<Typed> = lowered.iter().map(|row| row[i].clone()).collect();
            let all_open = column.iter().all(Typed::is_open);
            let ty = match expected.get(i) {
                Some(declared) if all_open => {
                    for typed in &mut column {
                        let plain = typed.clone();
                        *typed = self
                            .coerce(typed.clone(), *declared, Context::Assignment)?
                            .unwrap_or(plain);
                    }
                    declared.ty
                }
                _ if all_open && open => Type::Unknown,
                _ => {
                    let (unified, ty) = self.unify(column, "VALUES")?;
                    column = unified;
                    ty
                }
            };
            for (row, typed) in lowered.iter_mut().zip(column) {
                row[i] = typed;
            }
            columns.push(OutputColumn {
                name: format!("column{}", i + 1).into(),
                ty,
            });
        }
        let sort = self.sort_by_columns(tail.order, &columns)?;
        Ok(Query {
            with: Vec::new(),
            body: Body::Values(
                lowered
                    .into_iter()
                    .map(|row| row.into_iter().map(|t| t.expr).collect())
                    .collect(),
            ),
            columns,
            sort,
            limit: None,
            with_ties: false,
            offset: None,
            locks: Vec::new(),
        })
    }

    fn set_operation(
        &mut self,
        left: &SetExpr,
        op: SetOperator,
        quantifier: SetQuantifier,
        right: &SetExpr,
        tail: &Tail<'_>,
    ) -> Result<Query, DbError> {
        let (op, name) = match op {
            SetOperator::Union => (SetOp::Union, "UNION"),
            SetOperator::Intersect => (SetOp::Intersect, "INTERSECT"),
            SetOperator::Except => (SetOp::Except, "EXCEPT"),
            SetOperator::Minus => return unsupported("MINUS", self.begin),
        };
        let all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::None | SetQuantifier::Distinct => false,
            _ => return unsupported("UNION BY NAME", self.begin),
        };
        if let Some(lock) = tail.locks.first() {
            return Err(DbError::postgres(
                "0A000",
                format!(
                    "{} is not allowed with UNION/INTERSECT/EXCEPT",
                    locks::name_of(lock.strength)
                ),
            ));
        }
        let mut left_query = self.arm(left)?;
        let mut right_query = self.arm(right)?;
        if left_query.columns.len() != right_query.columns.len() {
            return error(
                "42601",
                format!("each {name} query must have the same number of columns"),
                column_place(right, 0).unwrap_or(self.begin),
            );
        }
        for i in 0..left_query.columns.len() {
            let (a, b) = (left_query.columns[i].ty, right_query.columns[i].ty);
            let ty = match common_type(&[a, b]) {
                Ok(ty) => ty,
                Err((a, b)) => {
                    return error(
                        "42804",
                        format!(
                            "{name} types {} and {} cannot be matched",
                            self.type_name(a),
                            self.type_name(b)
                        ),
                        column_place(right, i).unwrap_or(self.begin),
                    );
                }
            };
            for (query, arm) in [(&mut left_query, left), (&mut right_query, right)] {
                let at = column_place(arm, i).unwrap_or(self.begin);
                convert_column(query, i, ty.into(), at, self)?;
            }
        }
        let columns = left_query.columns.clone();
        let sort = self.sort_by_columns(tail.order, &columns)?;
        Ok(Query {
            with: Vec::new(),
            body: Body::Set {
                op,
                all,
                left: Box::new(left_query),
                right: Box::new(right_query),
            },
            columns,
            sort,
            limit: None,
            with_ties: false,
            offset: None,
            locks: Vec::new(),
        })
    }

    /// An arm of a set operation, in its own level; literals without a type keep none.
    fn arm(&mut self, arm: &SetExpr) -> Result<Query, DbError> {
        if let SetExpr::Query(query) = arm {
            let tail = read_tail(query, place(&**query, self.begin))?;
            if let Some(lock) = tail.locks.first() {
                return Err(DbError::postgres(
                    "0A000",
                    format!(
                        "{} is not allowed with UNION/INTERSECT/EXCEPT",
                        locks::name_of(lock.strength)
                    ),
                ));
            }
            return self.query_keeping(query, &[], true);
        }
        self.in_level(Level::new(Place::Targets), |this| {
            this.body(arm, &Tail::none(), &[], true)
        })
    }

    /// `ORDER BY` where only the result's columns can be named.
    fn sort_by_columns(
        &mut self,
        order: &[ast::OrderByExpr],
        columns: &[OutputColumn],
    ) -> Result<Vec<SortKey>, DbError> {
        let mut sort = Vec::with_capacity(order.len());
        for key in order {
            let ast::OrderByExpr {
                expr,
                options,
                with_fill,
            } = key;
            let at = place(expr, self.begin);
            absent(with_fill.is_some(), "WITH FILL", at)?;
            let target = match expr {
                ast::Expr::Identifier(name) => {
                    let name = ident(name);
                    match columns.iter().position(|c| *c.name == *name) {
                        Some(i) => i,
                        None => {
                            return error("42703", format!("column \"{name}\" does not exist"), at);
                        }
                    }
                }
                other => match self.position(other, columns.len(), "ORDER BY")? {
                    Some(i) => i,
                    None => {
                        return error(
                            "0A000",
                            "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                            at,
                        );
                    }
                },
            };
            sort.push(self.sort_options(options, target, columns[target].ty, at)?);
        }
        Ok(sort)
    }

    /// A number in `ORDER BY` or `GROUP BY` is the position of a column.
    pub(super) fn position(
        &self,
        tree: &ast::Expr,
        columns: usize,
        what: &str,
    ) -> Result<Option<usize>, DbError> {
        let ast::Expr::Value(value) = tree else {
            return Ok(None);
        };
        let at = place(tree, self.begin);
        match &value.value {
            ast::Value::Number(text, false) => match text.parse::<usize>() {
                Ok(n) if (1..=columns).contains(&n) => Ok(Some(n - 1)),
                Ok(_) => error(
                    "42P10",
                    format!("{what} position {text} is not in select list"),
                    at,
                ),
                Err(_) => error("42601", format!("non-integer constant in {what}"), at),
            },
            ast::Value::Placeholder(_) => Ok(None),
            _ => error("42601", format!("non-integer constant in {what}"), at),
        }
    }

    /// The common table expressions of a `WITH`; those that are computed once are returned.
    pub(super) fn ctes(
        &mut self,
        with: Option<&ast::With>,
        whole: &ast::Query,
    ) -> Result<CteList, DbError> {
        let Some(ast::With {
            with_token: _,
            recursive,
            cte_tables,
        }) = with
        else {
            return Ok(Vec::new());
        };
        let mut list = Vec::new();
        for (i, cte) in cte_tables.iter().enumerate() {
            let name = ident(&cte.alias.name);
            let at = crate::sql::tokens::start_of(cte.alias.name.span);
            if cte_tables[..i].iter().any(|c| ident(&c.alias.name) == name) {
                return error(
                    "42712",
                    format!("WITH query name \"{name}\" specified more than once"),
                    at,
                );
            }
            if let Some(cte) = self.cte(cte, &name, *recursive, whole)? {
                list.push(cte);
            }
        }
        Ok(list)
    }

    fn cte(
        &mut self,
        cte: &ast::Cte,
        name: &str,
        recursive: bool,
        whole: &ast::Query,
    ) -> Result<Option<Cte>, DbError> {
        let ast::Cte {
            alias,
            query,
            from,
            materialized,
            closing_paren_token: _,
        } = cte;
        let at = crate::sql::tokens::start_of(alias.name.span);
        absent(from.is_some(), "FROM in WITH", at)?;
        absent(alias.at.is_some(), "AT in an alias", at)?;
        if let SetExpr::Insert(tree) | SetExpr::Update(tree) | SetExpr::Delete(tree) = &*query.body
        {
            if self.levels.len() > 1 {
                return error(
                    "0A000",
                    "WITH clause containing a data-modifying statement must be at the top level",
                    at,
                );
            }
            return self.write_cte(name, tree, query, alias).map(Some);
        }
        if recursive && mentions(query, name) > 0 {
            return self.recursive_cte(name, query, alias).map(Some);
        }
        // Seen once and free of side effects: the server puts it in place of the reference.
        let lowered = self.query(query, &[])?;
        if walk::outermost(&lowered) > 0 {
            return unsupported("a common table expression that reads an outer query", at);
        }
        let plain = is_plain(&lowered);
        let uses = mentions(whole, name);
        let inline = match materialized {
            Some(ast::CteAsMaterialized::Materialized) => false,
            Some(ast::CteAsMaterialized::NotMaterialized) => plain,
            None => plain && uses <= 1,
        };
        let columns = renamed(&lowered.columns, alias, at)?;
        if inline {
            self.ctes.push(VisibleCte {
                name: name.into(),
                columns,
                source: CteSource::Inline {
                    query: query.clone(),
                    ctes: self.ctes.len(),
                    levels: self.levels.len(),
                },
            });
            return Ok(None);
        }
        let id = self.next_cte();
        self.ctes.push(VisibleCte {
            name: name.into(),
            columns: columns.clone(),
            source: CteSource::Once(id),
        });
        Ok(Some(Cte {
            id,
            name: name.into(),
            body: CteBody::Query(Box::new(lowered)),
            columns,
        }))
    }

    fn write_cte(
        &mut self,
        name: &str,
        tree: &ast::Statement,
        query: &ast::Query,
        alias: &ast::TableAlias,
    ) -> Result<Cte, DbError> {
        let at = crate::sql::tokens::start_of(alias.name.span);
        let (write, columns) = self.with_ctes(|this| {
            let inner = this.in_level(Level::new(Place::Targets), |this| {
                this.ctes(query.with.as_ref(), query)
            })?;
            absent(!inner.is_empty(), "WITH inside a data-modifying WITH", at)?;
            let (write, columns, _) = this.write(tree, Vec::new())?;
            Ok((write, columns))
        })?;
        let columns = renamed(&columns, alias, at)?;
        let id = self.next_cte();
        self.ctes.push(VisibleCte {
            name: name.into(),
            columns: columns.clone(),
            source: CteSource::Once(id),
        });
        Ok(Cte {
            id,
            name: name.into(),
            body: CteBody::Write(Box::new(write)),
            columns,
        })
    }

    fn recursive_cte(
        &mut self,
        name: &str,
        query: &ast::Query,
        alias: &ast::TableAlias,
    ) -> Result<Cte, DbError> {
        let at = crate::sql::tokens::start_of(alias.name.span);
        let SetExpr::SetOperation {
            left,
            op: SetOperator::Union,
            set_quantifier,
            right,
        } = &*query.body
        else {
            return error(
                "42P19",
                format!(
                    "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
                ),
                at,
            );
        };
        let tail = read_tail(query, at)?;
        let plain = query.with.is_none()
            && tail.order.is_empty()
            && tail.limit.is_none()
            && tail.offset.is_none()
            && tail.locks.is_empty();
        absent(!plain, "clauses around a recursive query", at)?;
        let mut first = self.arm(left)?;
        for i in 0..first.columns.len() {
            if first.columns[i].ty == Type::Unknown {
                convert_column(&mut first, i, Type::Text.into(), at, self)?;
            }
        }
        let columns = renamed(&first.columns, alias, at)?;
        let id = self.next_cte();
        self.ctes.push(VisibleCte {
            name: name.into(),
            columns: columns.clone(),
            source: CteSource::Once(id),
        });
        let mut next = self.arm(right)?;
        if next.columns.len() != columns.len() {
            return error(
                "42601",
                "each UNION query must have the same number of columns",
                at,
            );
        }
        for (i, column) in columns.iter().enumerate() {
            let ty = next.columns[i].ty;
            if ty == Type::Unknown {
                convert_column(&mut next, i, column.ty.into(), at, self)?;
            } else if ty != column.ty {
                return error(
                    "42804",
                    format!(
                        "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                        i + 1,
                        self.type_name(column.ty),
                        self.type_name(ty)
                    ),
                    at,
                );
            }
        }
        Ok(Cte {
            id,
            name: name.into(),
            body: CteBody::Recursive {
                first: Box::new(first),
                next: Box::new(next),
                all: *set_quantifier == SetQuantifier::All,
            },
            columns,
        })
    }

    /// `WITH .. INSERT / UPDATE / DELETE` at the top.
    pub(super) fn write_with_ctes(
        &mut self,
        query: &ast::Query,
    ) -> Result<Option<Lowered>, DbError> {
        let (SetExpr::Insert(tree)
        | SetExpr::Update(tree)
        | SetExpr::Delete(tree)
        | SetExpr::Merge(tree)) = &*query.body
        else {
            return Ok(None);
        };
        let tail = read_tail(query, self.begin)?;
        let bare = tail.order.is_empty()
            && tail.limit.is_none()
            && tail.offset.is_none()
            && tail.locks.is_empty();
        absent(
            !bare,
            "clauses after a data-modifying statement",
            self.begin,
        )?;
        self.with_ctes(|this| {
            // The level of the statement itself, which its WITH stands in.
            let with = this.in_level(Level::new(Place::Targets), |this| {
                this.ctes(query.with.as_ref(), query)
            })?;
            let (write, columns, tag) = this.write(tree, with)?;
            Ok(Some((PlanKind::Write(Box::new(write)), columns, tag)))
        })
    }

    /// Resolves the lock clauses of a `SELECT` whose level is the innermost.
    pub(super) fn row_locks(
        &mut self,
        clauses: &[Lock],
        nullable: &[usize],
    ) -> Result<Vec<RowLock>, DbError> {
        let mut found: Vec<RowLock> = Vec::new();
        for clause in clauses {
            let what = locks::name_of(clause.strength);
            let entries: Vec<usize> = if clause.of.is_empty() {
                (0..self.level().range.len()).collect()
            } else {
                let mut entries = Vec::new();
                for (name, at) in &clause.of {
                    let level = self.level();
                    let entry = level.range.iter().position(|e| *e.alias == **name);
                    match entry {
                        Some(entry) => entries.push(entry),
                        None => {
                            return error(
                                "42P01",
                                format!(
                                    "relation \"{name}\" in {what} clause not found in FROM clause"
                                ),
                                *at,
                            );
                        }
                    }
                }
                entries
            };
            for entry in entries {
                self.row_lock(clause, entry, nullable, &mut found)?;
            }
        }
        found.sort_by_key(|l| l.entry);
        Ok(found)
    }

    fn row_lock(
        &mut self,
        clause: &Lock,
        entry: usize,
        nullable: &[usize],
        found: &mut Vec<RowLock>,
    ) -> Result<(), DbError> {
        let what = locks::name_of(clause.strength);
        let named = clause
            .of
            .iter()
            .find(|(name, _)| **name == *self.level().range[entry].alias);
        let at = named.map(|(_, at)| *at);
        let refuse = |kind: &str| match at {
            Some(at) => error("0A000", format!("{what} cannot be applied to {kind}"), at),
            None => Ok(()),
        };
        if self.level().inlined.contains(&entry) {
            return refuse("a WITH query");
        }
        match &mut self.level().range[entry].kind {
            RangeKind::Table(table) => {
                let table = table.clone();
                if nullable.contains(&entry) {
                    return Err(DbError::postgres(
                        "0A000",
                        format!("{what} cannot be applied to the nullable side of an outer join"),
                    ));
                }
                self.lock(&table, TableLockMode::RowShare);
                match found.iter_mut().find(|l| l.entry == entry) {
                    Some(lock) => {
                        lock.strength = lock.strength.max(clause.strength);
                        lock.busy = lock.busy.max(clause.busy);
                    }
                    None => found.push(RowLock {
                        entry,
                        strength: clause.strength,
                        busy: clause.busy,
                    }),
                }
                Ok(())
            }
            // The lock goes into the sub-query, onto all of its tables.
            RangeKind::Subquery(_) => {
                let pushed = Lock {
                    of: Vec::new(),
                    ..clause.clone()
                };
                self.push_lock(entry, &pushed)
            }
            RangeKind::Function { .. } | RangeKind::Routine { .. } => refuse("a function"),
            RangeKind::Cte(_) => refuse("a WITH query"),
            RangeKind::Virtual(_) | RangeKind::Sequence(_) => {
                unsupported("a row lock on this relation", clause.position)
            }
        }
    }

    /// Puts a lock on every table of a sub-query in `FROM`.
    fn push_lock(&mut self, entry: usize, clause: &Lock) -> Result<(), DbError> {
        let what = locks::name_of(clause.strength);
        let RangeKind::Subquery(query) = &mut self.level().range[entry].kind else {
            return Ok(());
        };
        let mut query = std::mem::replace(&mut **query, empty_query());
        let result = self.lock_query(&mut query, clause, what);
        if let RangeKind::Subquery(slot) = &mut self.level().range[entry].kind {
            **slot = query;
        }
        result
    }

    fn lock_query(&mut self, query: &mut Query, clause: &Lock, what: &str) -> Result<(), DbError> {
        let not_allowed = |with: &str| {
            Err(DbError::postgres(
                "0A000",
                format!("{what} is not allowed with {with}"),
            ))
        };
        let select = match &mut query.body {
            Body::Select(select) => select,
            Body::Set { .. } => return not_allowed("UNION/INTERSECT/EXCEPT"),
            // VALUES has no rows to lock.
            Body::Values(_) => return Ok(()),
        };
        if select.distinct != crate::plan::query::Distinct::No {
            return not_allowed("DISTINCT clause");
        }
        if let Some(grouping) = &select.grouping {
            return not_allowed(if grouping.explicit {
                "GROUP BY clause"
            } else {
                "aggregate functions"
            });
        }
        for (i, entry) in select.source.range.iter_mut().enumerate() {
            match &mut entry.kind {
                RangeKind::Table(table) => {
                    let table = table.clone();
                    self.lock(&table, TableLockMode::RowShare);
                    match query.locks.iter_mut().find(|l| l.entry == i) {
                        Some(lock) => {
                            lock.strength = lock.strength.max(clause.strength);
                            lock.busy = lock.busy.max(clause.busy);
                        }
                        None => query.locks.push(RowLock {
                            entry: i,
                            strength: clause.strength,
                            busy: clause.busy,
                        }),
                    }
                }
                RangeKind::Subquery(inner) => self.lock_query(inner, clause, what)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn empty_query() -> Query {
    Query {
        with: Vec::new(),
        body: Body::Values(Vec::new()),
        columns: Vec::new(),
        sort: Vec::new(),
        limit: None,
        with_ties: false,
        offset: None,
        locks: Vec::new(),
    }
}

/// A query that may be put in place of a reference: no locks, no volatile functions.
fn is_plain(query: &Query) -> bool {
    let mut plain = query.locks.is_empty();
    walk::query(&mut query.clone(), 0, &mut |e, _| {
        if let Expr::Routine { routine, .. } = e {
            plain &= routine.volatility != Volatility::Volatile;
        }
        if let Expr::Host { function, .. } = e {
            plain &= function.volatility() != Volatility::Volatile;
        }
        true
    });
    plain
}

/// How often a query mentions a relation of this bare name.
fn mentions(query: &ast::Query, name: &str) -> usize {
    let mut count = 0;
    let _ = visit_relations(query, |relation| {
        if let [part] = relation.0.as_slice()
            && part.as_ident().is_some_and(|i| ident(i) == name)
        {
            count += 1;
        }
        ControlFlow::<()>::Continue(())
    });
    count
}

/// Columns with the names that an alias gives them.
pub(super) fn renamed(
    columns: &[OutputColumn],
    alias: &ast::TableAlias,
    at: usize,
) -> Result<Vec<OutputColumn>, DbError> {
    if alias.columns.len() > columns.len() {
        return Err(DbError::postgres(
            "42P10",
            format!(
                "table \"{}\" has {} columns available but {} columns specified",
                ident(&alias.name),
                columns.len(),
                alias.columns.len()
            ),
        ));
    }
    let mut out = columns.to_vec();
    for (column, ast::TableAliasColumnDef { name, data_type }) in out.iter_mut().zip(&alias.columns)
    {
        absent(data_type.is_some(), "a column definition list", at)?;
        column.name = Arc::from(ident(name));
    }
    Ok(out)
}

/// Where the expression of a column begins, in the first arm that has a list of them.
pub(super) fn column_place(body: &SetExpr, column: usize) -> Option<usize> {
    let node = match body {
        SetExpr::Select(select) => match select.projection.get(column)? {
            ast::SelectItem::UnnamedExpr(e) | ast::SelectItem::ExprWithAlias { expr: e, .. } => e,
            _ => return None,
        },
        SetExpr::Values(values) => values.rows.first()?.content.get(column)?,
        SetExpr::Query(query) => return column_place(&query.body, column),
        SetExpr::SetOperation { left, .. } => return column_place(left, column),
        _ => return None,
    };
    Some(place(node, 0))
}

/// Converts one column of a query to another type, in every arm.
///
/// # Errors
/// A literal is not a value of the type.
pub(super) fn convert_column(
    query: &mut Query,
    column: usize,
    ty: Declared,
    at: usize,
    lowering: &mut Lowering<'_>,
) -> Result<(), DbError> {
    let from = query.columns[column].ty;
    if from == ty.ty {
        return Ok(());
    }
    let mut convert = |expr: &mut Expr| -> Result<(), DbError> {
        let typed = Typed::new(expr.clone(), from, at);
        if let Some(typed) = lowering.coerce(typed, ty, Context::Implicit)? {
            *expr = typed.expr;
        }
        Ok(())
    };
    match &mut query.body {
        Body::Select(select) => {
            convert(&mut select.targets[column])?;
            select.target_types[column] = ty.ty;
        }
        Body::Values(rows) => {
            for row in rows {
                convert(&mut row[column])?;
            }
        }
        Body::Set { left, right, .. } => {
            convert_column(left, column, ty, at, lowering)?;
            convert_column(right, column, ty, at, lowering)?;
        }
    }
    query.columns[column].ty = ty.ty;
    for key in query.sort.iter_mut().filter(|k| k.target == column) {
        key.ty = ty.ty;
        key.by = lowering.comparison(ty.ty);
    }
    Ok(())
}
