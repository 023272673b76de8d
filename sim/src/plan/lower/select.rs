//! `SELECT`.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;

use super::names::Place;
use super::query::Tail;
use super::series;
use super::{Lowering, Typed, absent, column, error, ident, place, unsupported};
use crate::plan::cost::OrderKey;
use crate::plan::expr::Expr;
use crate::plan::query::{
    Body, Conjunct, Distinct, From, Grouping, OutputColumn, Query, Select, SortKey, Source,
};
use crate::plan::types::coerce::Context;
use crate::plan::types::{Declared, Type};
use crate::plan::walk;
use crate::sql::locks;
use crate::sql::tokens::start_of;

/// A select list: expressions with their names.
#[derive(Default)]
struct Targets {
    list: Vec<Typed>,
    names: Vec<Arc<str>>,
}

impl Targets {
    fn push(&mut self, typed: Typed, name: Arc<str>) {
        self.list.push(typed);
        self.names.push(name);
    }
}

impl Lowering<'_> {
    /// A `SELECT`, inside its level.
    pub(super) fn select(
        &mut self,
        select: &ast::Select,
        tail: &Tail<'_>,
        expected: &[Declared],
        open: bool,
    ) -> Result<Query, DbError> {
        let at = place(select, self.begin);
        refuse_foreign(select, at)?;
        // Row locks are refused on what is there: functions in the select list.
        let movable = tail.locks.is_empty();
        let moved = movable.then(|| series::moved_into_from(select)).flatten();
        let select = moved.as_ref().unwrap_or(select);
        let from = self.from(&select.from)?;
        let filter = self.filter(select.selection.as_ref())?;
        let mut targets = self.targets(&select.projection)?;
        self.settle_targets(&mut targets, expected, open)?;
        let visible = targets.list.len();
        let keys = self.group_keys(&select.group_by, &targets)?;
        let having = match &select.having {
            Some(tree) => {
                let typed = self.at_place(Place::Having, |this| this.expr(tree))?;
                Some(self.condition(typed, "HAVING")?)
            }
            None => None,
        };
        let mut sort = self.sort(tail.order, &mut targets, visible)?;
        let distinct = self.distinct(select.distinct.as_ref(), &mut targets, visible, &mut sort)?;
        let explicit = keys.is_some();
        self.refuse_locks(tail, select, explicit)?;
        let mut exprs: Vec<Expr> = targets.list.iter().map(|t| t.expr.clone()).collect();
        let grouped = explicit || having.is_some() || !self.level().aggregates.is_empty();
        let from = match self.level().in_targets {
            None => from,
            Some(_) if grouped => return unsupported("a set-returning function over groups", at),
            Some(entry) => Some(match from {
                None => From::Entry(entry),
                Some(left) => From::Join {
                    kind: crate::plan::query::Join::Cross,
                    left: Box::new(left),
                    right: Box::new(From::Entry(entry)),
                    on: Vec::new(),
                },
            }),
        };
        let grouping: Option<Grouping> = if grouped {
            Some(self.group(keys.unwrap_or_default(), explicit, having, &mut exprs)?)
        } else {
            None
        };
        let nullable = from.as_ref().map(nullable_entries).unwrap_or_default();
        let locks = self.row_locks(&tail.locks, &nullable)?;
        let level = self.level();
        let mut source = Source {
            range: std::mem::take(&mut level.range),
            from,
            filter,
            ways: None,
            rerun: None,
        };
        let windows = std::mem::take(&mut level.windows);
        let streams = grouping.is_none() && windows.is_empty() && distinct == Distinct::No;
        let order: Vec<OrderKey> = sort
            .iter()
            .filter(|_| streams)
            .map(|key| OrderKey {
                expr: exprs[key.target].clone(),
                descending: key.descending,
                nulls_first: key.nulls_first,
            })
            .collect();
        self.choose_access(&mut source, &order, !locks.is_empty());
        let columns = targets.list[..visible]
            .iter()
            .zip(&targets.names)
            .map(|(t, name)| OutputColumn {
                name: name.clone(),
                ty: t.ty,
            })
            .collect();
        Ok(Query {
            with: Vec::new(),
            body: Body::Select(Box::new(Select {
                source,
                grouping,
                windows,
                target_types: targets.list.iter().map(|t| t.ty).collect(),
                targets: exprs,
                distinct,
            })),
            columns,
            sort,
            limit: None,
            with_ties: false,
            offset: None,
            locks,
        })
    }

    /// A condition as conjuncts.
    pub(super) fn filter(&mut self, tree: Option<&ast::Expr>) -> Result<Vec<Conjunct>, DbError> {
        let Some(tree) = tree else {
            return Ok(Vec::new());
        };
        let typed = self.at_place(Place::Clause("WHERE"), |this| this.expr(tree))?;
        let expr = self.condition(typed, "WHERE")?;
        Ok(conjuncts(expr))
    }

    fn targets(&mut self, projection: &[ast::SelectItem]) -> Result<Targets, DbError> {
        let mut targets = Targets::default();
        for item in projection {
            match item {
                ast::SelectItem::UnnamedExpr(tree) => {
                    let typed = self.select_item(tree)?;
                    targets.push(typed, column::name_of(tree).into());
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    let typed = self.select_item(expr)?;
                    targets.push(typed, ident(alias).into());
                }
                ast::SelectItem::Wildcard(options) => {
                    let at = start_of(options.wildcard_token.0.span);
                    refuse_options(options, at)?;
                    self.star(&mut targets, at)?;
                }
                ast::SelectItem::QualifiedWildcard(kind, options) => {
                    self.qualified_star(kind, options, &mut targets)?;
                }
                ast::SelectItem::ExprWithAliases { expr, .. } => {
                    return unsupported("several aliases", place(expr, self.begin));
                }
            }
        }
        Ok(targets)
    }

    /// An expression of the select list. One that is a set-returning function is a further item of
    /// `FROM`, joined to the rows that passed.
    fn select_item(&mut self, tree: &ast::Expr) -> Result<Typed, DbError> {
        let ast::Expr::Function(f) = tree else {
            return self.expr(tree);
        };
        let name = f.name.to_string().to_ascii_lowercase();
        if !matches!(name.as_str(), "generate_series" | "unnest") {
            return self.expr(tree);
        }
        let at = place(tree, self.begin);
        if self.level().place != Place::Targets || self.level().in_targets.is_some() {
            return unsupported("this set-returning function in a list", at);
        }
        let ast::FunctionArguments::List(list) = &f.args else {
            return unsupported("this call", at);
        };
        let index = self.level().range.len();
        self.function_item(&f.name, &list.args, false, None, at)?;
        self.level().in_targets = Some(index);
        let ty = self.level().range[index].columns[0].ty;
        let expr = Expr::Column {
            level: 0,
            entry: index as u32,
            column: 0,
        };
        Ok(Typed::new(expr, ty, at))
    }

    /// `RETURNING`: the same list, without aggregates.
    pub(super) fn returning_list(
        &mut self,
        items: &[ast::SelectItem],
    ) -> Result<(Vec<Expr>, Vec<OutputColumn>), DbError> {
        let mut targets = self.at_place(Place::Clause("RETURNING"), |this| this.targets(items))?;
        self.settle_targets(&mut targets, &[], false)?;
        let columns = targets
            .list
            .iter()
            .zip(targets.names)
            .map(|(t, name)| OutputColumn { name, ty: t.ty })
            .collect();
        Ok((targets.list.into_iter().map(|t| t.expr).collect(), columns))
    }

    fn star(&mut self, targets: &mut Targets, at: usize) -> Result<(), DbError> {
        let level = self.level();
        if level.names.tables.is_empty() {
            return error(
                "42601",
                "SELECT * with no tables specified is not valid",
                at,
            );
        }
        for column in level.names.columns.clone() {
            let typed = Typed {
                expr: column.expr,
                ty: column.ty,
                modifier: column.modifier,
                at,
            };
            self.note(&typed);
            targets.push(typed, column.name);
        }
        Ok(())
    }

    fn note(&mut self, typed: &Typed) {
        if let Expr::Column {
            level: 0,
            entry,
            column,
        } = typed.expr
        {
            self.level().mentions.push((entry, column, typed.at));
        }
    }

    fn qualified_star(
        &mut self,
        kind: &ast::SelectItemQualifiedWildcardKind,
        options: &ast::WildcardAdditionalOptions,
        targets: &mut Targets,
    ) -> Result<(), DbError> {
        let ast::SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
            return unsupported("(expression).*", self.begin);
        };
        let part = name.0.last().and_then(|p| p.as_ident());
        let at = part.map_or(self.begin, |p| start_of(p.span));
        refuse_options(options, at)?;
        let table = part.map(ident).unwrap_or_default();
        let Some((index, distance, entry)) = self.find_table(&table) else {
            if let Some(part) = part
                && let Some(fields) = self.variable_fields(part)?
            {
                for (typed, name) in fields {
                    targets.push(typed, name);
                }
                return Ok(());
            }
            return Err(self.no_such_table(&table, at));
        };
        let level = &self.levels[index];
        let found = level.range[entry].clone();
        let declared = level.declared[entry].clone();
        let dropped = |i: usize| match &found.kind {
            crate::plan::query::RangeKind::Table(t) => t.columns[i].dropped,
            _ => false,
        };
        for (i, column) in found
            .columns
            .iter()
            .enumerate()
            .filter(|(i, _)| !dropped(*i))
        {
            let typed = Typed {
                expr: Expr::Column {
                    level: distance as u32,
                    entry: entry as u32,
                    column: i as u32,
                },
                ty: column.ty,
                modifier: declared.get(i).and_then(|d| d.modifier),
                at,
            };
            self.note(&typed);
            targets.push(typed, column.name.clone());
        }
        Ok(())
    }

    /// Gives literals without a type one.
    fn settle_targets(
        &mut self,
        targets: &mut Targets,
        expected: &[Declared],
        open: bool,
    ) -> Result<(), DbError> {
        for (i, typed) in targets.list.iter_mut().enumerate() {
            self.known_param(typed);
            if !typed.is_open() {
                continue;
            }
            let plain = typed.clone();
            if let Some(declared) = expected.get(i) {
                *typed = self
                    .coerce(plain.clone(), *declared, Context::Assignment)?
                    .unwrap_or(plain);
            } else if !open {
                *typed = self.settle(plain)?;
            }
        }
        Ok(())
    }

    fn group_keys(
        &mut self,
        group_by: &ast::GroupByExpr,
        targets: &Targets,
    ) -> Result<Option<Vec<Expr>>, DbError> {
        let ast::GroupByExpr::Expressions(list, modifiers) = group_by else {
            return unsupported("GROUP BY ALL", self.begin);
        };
        absent(
            !modifiers.is_empty(),
            "WITH ROLLUP and its like",
            self.begin,
        )?;
        if list.is_empty() {
            return Ok(None);
        }
        let mut keys = Vec::with_capacity(list.len());
        for tree in list {
            if let ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_) = tree {
                return unsupported("grouping sets", place(tree, self.begin));
            }
            let key = match self.position(tree, targets.names.len(), "GROUP BY")? {
                Some(i) => targets.list[i].expr.clone(),
                None => self.group_key(tree, targets)?,
            };
            if contains_aggregate(&key) {
                return error(
                    "42803",
                    "aggregate functions are not allowed in GROUP BY",
                    place(tree, self.begin),
                );
            }
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(Some(keys))
    }

    /// An expression; a bare name means a column before it means an output name.
    fn group_key(&mut self, tree: &ast::Expr, targets: &Targets) -> Result<Expr, DbError> {
        let lowered = self.at_place(Place::Clause("GROUP BY"), |this| this.expr(tree));
        match (lowered, tree) {
            (Ok(typed), _) => Ok(self.settle(typed)?.expr),
            (Err(error), ast::Expr::Identifier(name)) => {
                let name = ident(name);
                match targets.names.iter().position(|n| **n == *name) {
                    Some(i) => Ok(targets.list[i].expr.clone()),
                    None => Err(error),
                }
            }
            (Err(error), _) => Err(error),
        }
    }

    /// `ORDER BY`: output names first, then positions, then expressions.
    fn sort(
        &mut self,
        order: &[ast::OrderByExpr],
        targets: &mut Targets,
        visible: usize,
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
            let target = self.sort_target(expr, targets, visible, "ORDER BY")?;
            let ty = targets.list[target].ty;
            sort.push(self.sort_options(options, target, ty, at)?);
        }
        Ok(sort)
    }

    fn sort_target(
        &mut self,
        tree: &ast::Expr,
        targets: &mut Targets,
        visible: usize,
        what: &str,
    ) -> Result<usize, DbError> {
        if let ast::Expr::Identifier(name) = tree {
            let folded = ident(name);
            let mut matching = (0..visible).filter(|i| *targets.names[*i] == *folded);
            if let Some(first) = matching.next() {
                if matching.any(|i| targets.list[i].expr != targets.list[first].expr) {
                    return error(
                        "42702",
                        format!("{what} \"{folded}\" is ambiguous"),
                        start_of(name.span),
                    );
                }
                return Ok(first);
            }
        }
        if let Some(i) = self.position(tree, visible, what)? {
            return Ok(i);
        }
        let typed = self.expr(tree)?;
        let typed = self.settle(typed)?;
        if let Some(i) = targets.list.iter().position(|t| t.expr == typed.expr) {
            return Ok(i);
        }
        targets.push(typed, "".into());
        Ok(targets.list.len() - 1)
    }

    fn distinct(
        &mut self,
        distinct: Option<&ast::Distinct>,
        targets: &mut Targets,
        visible: usize,
        sort: &mut [SortKey],
    ) -> Result<Distinct, DbError> {
        match distinct {
            None | Some(ast::Distinct::All) => Ok(Distinct::No),
            Some(ast::Distinct::Distinct) => {
                if let Some(key) = sort.iter().find(|k| k.target >= visible) {
                    return error(
                        "42P10",
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                        targets.list[key.target].at,
                    );
                }
                for typed in &targets.list[..visible] {
                    if matches!(typed.ty, Type::Json | Type::Xid) {
                        return error(
                            "42883",
                            format!(
                                "could not identify an equality operator for type {}",
                                typed.ty.name()
                            ),
                            typed.at,
                        );
                    }
                }
                Ok(Distinct::All)
            }
            Some(ast::Distinct::On(list)) => {
                let mut on = Vec::with_capacity(list.len());
                for tree in list {
                    on.push(self.sort_target(tree, targets, visible, "DISTINCT ON")?);
                }
                let leading = sort.iter().take(on.len());
                let matches = leading.clone().all(|k| on.contains(&k.target));
                if !matches {
                    return error(
                        "42P10",
                        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                        list.first().map_or(self.begin, |e| place(e, self.begin)),
                    );
                }
                Ok(Distinct::On(on))
            }
        }
    }

    /// Where a lock clause is not allowed.
    fn refuse_locks(
        &mut self,
        tail: &Tail<'_>,
        select: &ast::Select,
        grouped: bool,
    ) -> Result<(), DbError> {
        let Some(lock) = tail.locks.first() else {
            return Ok(());
        };
        let level = self.level();
        let with = if matches!(
            select.distinct,
            Some(ast::Distinct::Distinct | ast::Distinct::On(_))
        ) {
            "DISTINCT clause"
        } else if grouped {
            "GROUP BY clause"
        } else if select.having.is_some() {
            "HAVING clause"
        } else if !level.aggregates.is_empty() {
            "aggregate functions"
        } else if !level.windows.is_empty() {
            "window functions"
        } else if level.in_targets.is_some() {
            "set-returning functions in the target list"
        } else {
            return Ok(());
        };
        Err(DbError::postgres(
            "0A000",
            format!(
                "{} is not allowed with {with}",
                locks::name_of(lock.strength)
            ),
        ))
    }
}

/// A condition split at its ANDs.
pub(super) fn conjuncts(expr: Expr) -> Vec<Conjunct> {
    let parts = match expr {
        Expr::And(parts) => parts,
        other => vec![other],
    };
    parts
        .into_iter()
        .filter(|expr| *expr != Expr::Const(rowlock_model::Value::Bool(true)))
        .map(|expr| Conjunct {
            uses: walk::entries_used(&expr),
            volatile: walk::volatility(&expr) == crate::plan::expr::Volatility::Volatile,
            expr,
        })
        .collect()
}

fn contains_aggregate(expr: &Expr) -> bool {
    let mut found = false;
    walk::expr(&mut expr.clone(), 0, &mut |e, depth| {
        found |= matches!(e, Expr::Group { level, .. } if *level == depth);
        true
    });
    found
}

/// The entries on the side of an outer join that may be absent.
fn nullable_entries(from: &From) -> Vec<usize> {
    fn all(from: &From, out: &mut Vec<usize>) {
        match from {
            From::Entry(i) => out.push(*i),
            From::Join { left, right, .. } => {
                all(left, out);
                all(right, out);
            }
        }
    }
    fn visit(from: &From, out: &mut Vec<usize>) {
        use crate::plan::query::Join;
        if let From::Join {
            kind, left, right, ..
        } = from
        {
            if matches!(kind, Join::Left | Join::Full) {
                all(right, out);
            }
            if matches!(kind, Join::Right | Join::Full) {
                all(left, out);
            }
            visit(left, out);
            visit(right, out);
        }
    }
    let mut out = Vec::new();
    visit(from, &mut out);
    out
}

fn refuse_options(options: &ast::WildcardAdditionalOptions, at: usize) -> Result<(), DbError> {
    let ast::WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let any = opt_ilike.is_some()
        || opt_exclude.is_some()
        || opt_except.is_some()
        || opt_replace.is_some()
        || opt_rename.is_some()
        || opt_alias.is_some();
    absent(any, "options of *", at)
}

/// What other products have in a `SELECT`.
fn refuse_foreign(select: &ast::Select, at: usize) -> Result<(), DbError> {
    let ast::Select {
        select_token: _,
        optimizer_hints,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by: _,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    // Hints are comments for PostgreSQL.
    let _ = optimizer_hints;
    absent(select_modifiers.is_some(), "modifiers of SELECT", at)?;
    absent(top.is_some(), "TOP", at)?;
    absent(exclude.is_some(), "EXCLUDE", at)?;
    absent(into.is_some(), "SELECT INTO", at)?;
    absent(!lateral_views.is_empty(), "LATERAL VIEW", at)?;
    absent(prewhere.is_some(), "PREWHERE", at)?;
    absent(!connect_by.is_empty(), "CONNECT BY", at)?;
    absent(!cluster_by.is_empty(), "CLUSTER BY", at)?;
    absent(!distribute_by.is_empty(), "DISTRIBUTE BY", at)?;
    absent(!sort_by.is_empty(), "SORT BY", at)?;
    absent(!named_window.is_empty(), "WINDOW", at)?;
    absent(qualify.is_some(), "QUALIFY", at)?;
    absent(value_table_mode.is_some(), "SELECT AS VALUE", at)?;
    absent(
        *flavor != ast::SelectFlavor::Standard,
        "FROM before SELECT",
        at,
    )
}
