//! Queries.

use std::sync::Arc;

use rowlock_model::{DbError, Value};

use super::call::sort_key;
use super::conditions;
use super::group::Regroup;
use super::names::Level;
use super::rules::{self, Typed};
use super::{Clause, Lowering, VisibleCte};
use crate::loose::ast::{self, Item, Node, NodeKind};
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::plan::TableUse;
use crate::loose::query::{
    Body, Cte, CteBody, Grouping, OutputColumn, Query, RangeKind, Select, SortBy, SortKey, Source,
};

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
                let left = self.arm(left, query.at)?;
                let right = self.arm(right, query.at)?;
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
        if !query.locks.is_empty() && !matches!(lowered.body, Body::Select(_)) {
            return errors::unsupported("a locking clause on this query", query.locks[0].at);
        }
        Ok(lowered)
    }

    /// `LIMIT`: a number or a parameter on MySQL, any expression on SQLite.
    pub(super) fn limit(&mut self, node: &Node) -> Result<Expr, DbError> {
        if !self.is_sqlite() && !matches!(node.kind, NodeKind::Integer(_) | NodeKind::Param(_)) {
            return Err(errors::syntax(self.dialect, self.text, node.at, node.end));
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
                    let first = self.arm(left, cte.query.at)?;
                    let columns = self.renamed(first.columns.clone(), &cte.columns, cte.name.at)?;
                    self.ctes.push(VisibleCte {
                        name: cte.name.name.clone(),
                        id,
                        columns: columns.clone(),
                    });
                    let next = self.arm(right, cte.query.at)?;
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
                    let columns = self.renamed(query.columns.clone(), &cte.columns, cte.name.at)?;
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
    fn arm(&mut self, body: &ast::Body, at: usize) -> Result<Query, DbError> {
        if let ast::Body::Query(query) = body {
            return self.query(query);
        }
        self.query(&ast::Query {
            with: Vec::new(),
            recursive: false,
            body: body.clone(),
            order: Vec::new(),
            limit: None,
            offset: None,
            locks: Vec::new(),
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
    fn sort_by_columns(
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
    fn position(
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

    fn select(&mut self, select: &ast::Select, query: &ast::Query) -> Result<Query, DbError> {
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
        let sort = self.sort_select(query, &mut targets, visible, select.distinct)?;
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
            let position = if let NodeKind::Integer(text) = &key.expr.kind {
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

fn plain_query(body: Body, columns: Vec<OutputColumn>, sort: Vec<SortKey>) -> Query {
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
