//! `FROM`.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;
use sqlparser::ast::{JoinConstraint, JoinOperator, TableFactor};

use super::names::{NamedColumn, Namespace, Place, entry};
use super::operator::choose;
use super::query::renamed;
use super::select::conjuncts;
use super::series::returns_set;
use super::{CteSource, Lowering, Typed, absent, error, ident, place, unsupported};
use crate::plan::catalog::{Relation, Table};
use crate::plan::expr::{Compare, Expr, SetFunction};
use crate::plan::query::{Conjunct, From, Join, OutputColumn, RangeEntry, RangeKind};
use crate::plan::types::coerce::{Context, common_type};
use crate::plan::types::{Declared, Type};
use crate::sql::control::TableLockMode;
use crate::sql::tokens::start_of;

/// A table reference: its part of the join tree, and what it lets one name.
pub(super) type Item = (From, Namespace);

/// What an alias clause says.
fn read_alias(alias: Option<&ast::TableAlias>) -> Result<Option<&ast::TableAlias>, DbError> {
    if let Some(alias) = alias {
        absent(
            alias.at.is_some(),
            "AT in an alias",
            start_of(alias.name.span),
        )?;
    }
    Ok(alias)
}

/// What the server's own catalogue has: schema and name.
const SYSTEM_CATALOGS: &str = include_str!("system_catalogs.txt");

/// The error for a relation that is not there. One of the server's own catalogue is not missing but not
/// modelled.
pub(super) fn no_relation(schema: Option<&str>, name: &str) -> DbError {
    let full = shown(schema, name);
    // What is not qualified is looked for in `pg_catalog` too.
    let schema = schema.unwrap_or("pg_catalog");
    let is_system = SYSTEM_CATALOGS
        .lines()
        .any(|line| line.split_once(' ') == Some((schema, name)));
    match is_system {
        true => DbError::unsupported(format!("the system catalog {full}"), None),
        false => DbError::postgres("42P01", format!("relation \"{full}\" does not exist")),
    }
}

impl Lowering<'_> {
    /// The `FROM` list of the innermost level. Afterwards its names are those of all items.
    pub(super) fn from(&mut self, list: &[ast::TableWithJoins]) -> Result<Option<From>, DbError> {
        let mut whole: Option<From> = None;
        for item in list {
            // Items to the left can be named by LATERAL ones only, which look into `names`.
            let (from, names) = self.joined(item)?;
            let before = std::mem::take(&mut self.level().names);
            self.level().names = before.join(names);
            whole = Some(match whole {
                None => from,
                Some(left) => From::Join {
                    kind: Join::Cross,
                    left: Box::new(left),
                    right: Box::new(from),
                    on: Vec::new(),
                },
            });
        }
        Ok(whole)
    }

    fn joined(&mut self, item: &ast::TableWithJoins) -> Result<Item, DbError> {
        let ast::TableWithJoins { relation, joins } = item;
        let (mut from, mut names) = self.factor(relation)?;
        for join in joins {
            let ast::Join {
                relation,
                global,
                join_operator,
            } = join;
            absent(*global, "GLOBAL JOIN", self.begin)?;
            // A LATERAL right side sees the left side.
            let outside = self.level().names.clone();
            self.level().names = outside.clone().join(names.clone());
            let right = self.factor(relation);
            self.level().names = outside;
            let (right, right_names) = right?;
            let (kind, constraint) = join_kind(join_operator, self.begin)?;
            let (on, joined_names) = self.constraint(kind, constraint, names, right_names)?;
            names = joined_names;
            from = From::Join {
                kind: if kind == Join::Inner && on.is_empty() {
                    Join::Cross
                } else {
                    kind
                },
                left: Box::new(from),
                right: Box::new(right),
                on,
            };
        }
        Ok((from, names))
    }

    /// `ON`, `USING`, `NATURAL`.
    fn constraint(
        &mut self,
        kind: Join,
        constraint: Option<&JoinConstraint>,
        left: Namespace,
        right: Namespace,
    ) -> Result<(Vec<Conjunct>, Namespace), DbError> {
        match constraint {
            None | Some(JoinConstraint::None) => Ok((Vec::new(), left.join(right))),
            Some(JoinConstraint::On(tree)) => {
                let names = left.join(right);
                let outside = std::mem::replace(&mut self.level().names, names.clone());
                let typed = self.at_place(Place::Clause("JOIN conditions"), |this| this.expr(tree));
                self.level().names = outside;
                let expr = self.condition(typed?, "JOIN/ON")?;
                Ok((conjuncts(expr), names))
            }
            Some(JoinConstraint::Using(columns)) => {
                let mut shared = Vec::with_capacity(columns.len());
                for name in columns {
                    match name.0.as_slice() {
                        [part] => match part.as_ident() {
                            Some(name) => shared.push((ident(name), start_of(name.span))),
                            None => return unsupported("this USING", self.begin),
                        },
                        _ => return unsupported("a qualified name in USING", self.begin),
                    }
                }
                self.using(kind, &shared, left, right)
            }
            Some(JoinConstraint::Natural) => {
                let shared: Vec<(String, usize)> = left
                    .columns
                    .iter()
                    .filter(|c| right.columns.iter().any(|r| r.name == c.name))
                    .map(|c| (c.name.to_string(), self.begin))
                    .collect();
                self.using(kind, &shared, left, right)
            }
            Some(JoinConstraint::UsingAlias(..)) => unsupported("an alias for USING", self.begin),
        }
    }

    /// Columns of the same name on both sides become one.
    fn using(
        &mut self,
        kind: Join,
        shared: &[(String, usize)],
        mut left: Namespace,
        mut right: Namespace,
    ) -> Result<(Vec<Conjunct>, Namespace), DbError> {
        let mut on = Vec::with_capacity(shared.len());
        let mut merged = Vec::with_capacity(shared.len());
        for (name, at) in shared {
            let a = take_column(&mut left, name, "left", *at)?;
            let b = take_column(&mut right, name, "right", *at)?;
            let typed = |c: &NamedColumn| Typed {
                expr: c.expr.clone(),
                ty: c.ty,
                modifier: c.modifier,
                at: *at,
            };
            let equal = self.operator(Compare::Eq.symbol(), typed(&a), typed(&b), *at)?;
            on.push(equal.expr);
            let ty = match common_type(&[a.ty, b.ty]) {
                Ok(ty) => ty,
                Err(_) => return unsupported("USING columns of unlike types", *at),
            };
            let mut sides = Vec::new();
            for side in [typed(&a), typed(&b)] {
                sides.push(match self.coerce(side.clone(), ty, Context::Implicit)? {
                    Some(typed) => typed.expr,
                    None => side.expr,
                });
            }
            let second = sides.pop().unwrap_or(b.expr);
            let first = sides.pop().unwrap_or(a.expr);
            merged.push(NamedColumn {
                name: name.as_str().into(),
                expr: match kind {
                    Join::Right => second,
                    Join::Full => Expr::Coalesce(vec![first, second]),
                    Join::Cross | Join::Inner | Join::Left => first,
                },
                ty,
                modifier: a.modifier,
            });
        }
        let both = left.join(right);
        let mut columns = merged;
        columns.extend(both.columns);
        let names = Namespace {
            columns,
            tables: both.tables,
        };
        let on = if on.is_empty() {
            Vec::new()
        } else {
            conjuncts(Expr::And(on))
        };
        Ok((on, names))
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<Item, DbError> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_directives,
                inheritance,
            } => {
                let at = name_place(name, self.begin);
                absent(!with_hints.is_empty(), "table hints", at)?;
                absent(version.is_some(), "a table version", at)?;
                absent(!partitions.is_empty(), "PARTITION", at)?;
                absent(json_path.is_some(), "a path into JSON", at)?;
                absent(sample.is_some(), "TABLESAMPLE", at)?;
                absent(!index_directives.is_empty(), "index hints", at)?;
                let alias = read_alias(alias.as_ref())?;
                match args {
                    Some(ast::TableFunctionArgs { args, settings }) => {
                        absent(settings.is_some(), "SETTINGS", at)?;
                        self.function_item(name, args, *with_ordinality, alias, at)
                    }
                    None => {
                        absent(*with_ordinality, "WITH ORDINALITY on a table", at)?;
                        let only = matches!(inheritance, Some(ast::TableInheritance::Only { .. }));
                        let item = self.relation(name, alias, at)?;
                        if only && let Some(entry) = self.level().range.last_mut() {
                            entry.only = true;
                        }
                        Ok(item)
                    }
                }
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample,
            } => {
                absent(sample.is_some(), "TABLESAMPLE", self.begin)?;
                self.derived(*lateral, subquery, read_alias(alias.as_ref())?)
            }
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality,
                alias,
            } => {
                let at = name_place(name, self.begin);
                self.function_item(
                    name,
                    args,
                    *with_ordinality,
                    read_alias(alias.as_ref())?,
                    at,
                )
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset,
                with_offset_alias,
                with_ordinality,
            } => {
                let alias = read_alias(alias.as_ref())?;
                absent(
                    *with_offset || with_offset_alias.is_some(),
                    "WITH OFFSET",
                    self.begin,
                )?;
                let at = array_exprs
                    .first()
                    .map_or(self.begin, |a| place(a, self.begin));
                let mut arrays = Vec::with_capacity(array_exprs.len());
                for array in array_exprs {
                    let place = Place::Clause("functions in FROM");
                    arrays.push(self.at_place(place, |this| this.expr(array))?);
                }
                self.unnest(arrays, *with_ordinality, alias, at)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                absent(alias.is_some(), "an alias for a join", self.begin)?;
                self.joined(table_with_joins)
            }
            _ => unsupported("this table expression", self.begin),
        }
    }

    /// A table, view or common table expression by name.
    fn relation(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let (schema, bare) = self.split_name(name, at)?;
        if schema.is_none()
            && let Some(item) = self.cte_item(&bare, alias, at)?
        {
            return Ok(item);
        }
        let Some(relation) = self.catalog.relation(schema.as_deref(), &bare) else {
            return Err(no_relation(schema.as_deref(), &bare).at(at));
        };
        let shown = alias.map_or(bare.clone(), |a| ident(&a.name));
        match relation {
            Relation::Table(table) => {
                self.lock(&table, TableLockMode::AccessShare);
                self.table_item(&table, &shown, alias, at)
            }
            Relation::Virtual(view) => {
                let columns: Vec<OutputColumn> = view
                    .columns
                    .iter()
                    .map(|(name, ty)| OutputColumn {
                        name: name.clone(),
                        ty: *ty,
                    })
                    .collect();
                self.item(&shown, RangeKind::Virtual(view), columns, alias, at)
            }
            Relation::Sequence(sequence) => {
                let columns = [
                    ("last_value", Type::Int8),
                    ("log_cnt", Type::Int8),
                    ("is_called", Type::Bool),
                ]
                .map(|(name, ty)| OutputColumn {
                    name: name.into(),
                    ty,
                });
                self.item(
                    &shown,
                    RangeKind::Sequence(sequence),
                    columns.to_vec(),
                    alias,
                    at,
                )
            }
            Relation::Index(_) => error("42809", format!("cannot open relation \"{bare}\""), at),
        }
    }

    /// A stored table as an entry of the range table.
    pub(super) fn table_item(
        &mut self,
        table: &Arc<Table>,
        shown: &str,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let columns: Vec<OutputColumn> = table
            .columns
            .iter()
            .map(|c| OutputColumn {
                name: c.name.clone(),
                ty: c.declared.ty,
            })
            .collect();
        let declared = table.columns.iter().map(|c| c.declared).collect();
        let columns = match alias {
            Some(alias) if !alias.columns.is_empty() => {
                absent(
                    table.columns.iter().any(|c| c.dropped),
                    "column aliases here",
                    at,
                )?;
                renamed(&columns, alias, at)?
            }
            _ => columns,
        };
        self.check_alias(shown, at)?;
        let entry = entry(shown, RangeKind::Table(table.clone()), columns, at);
        Ok(self.add(entry, declared))
    }

    /// Anything else as an entry of the range table.
    pub(super) fn item(
        &mut self,
        shown: &str,
        kind: RangeKind,
        columns: Vec<OutputColumn>,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let columns = match alias {
            Some(alias) => renamed(&columns, alias, at)?,
            None => columns,
        };
        self.check_alias(shown, at)?;
        let declared = columns.iter().map(|c| Declared::from(c.ty)).collect();
        Ok(self.add(entry(shown, kind, columns, at), declared))
    }

    fn add(&mut self, entry: RangeEntry, declared: Vec<Declared>) -> Item {
        let level = self.level();
        let index = level.range.len();
        let names = level.add(entry, declared);
        (From::Entry(index), names)
    }

    /// 42712 for a name that is taken.
    fn check_alias(&mut self, shown: &str, at: usize) -> Result<(), DbError> {
        if self.level().range.len() >= 63 {
            return unsupported("more than 63 tables in one query", at);
        }
        if !shown.is_empty() && self.level().range.iter().any(|e| *e.alias == *shown) {
            return Err(DbError::postgres(
                "42712",
                format!("table name \"{shown}\" specified more than once"),
            ));
        }
        Ok(())
    }

    fn cte_item(
        &mut self,
        name: &str,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Option<Item>, DbError> {
        let Some(found) = self.ctes.iter().rev().find(|c| *c.name == *name).cloned() else {
            return Ok(None);
        };
        let shown = alias.map_or(name.to_owned(), |a| ident(&a.name));
        let kind = match found.source {
            CteSource::Once(id) => {
                if found.columns.is_empty() {
                    return error(
                        "0A000",
                        format!("WITH query \"{name}\" does not have a RETURNING clause"),
                        at,
                    );
                }
                RangeKind::Cte(id)
            }
            CteSource::Inline {
                query,
                ctes,
                levels,
            } => {
                // It sees what it saw where it was written, and nothing of the levels since.
                let later = self.ctes.split_off(ctes);
                let hidden: Vec<Namespace> = self.levels[levels.saturating_sub(1)..]
                    .iter_mut()
                    .map(|l| std::mem::take(&mut l.names))
                    .collect();
                let lowered = self.query(&query, &[]);
                for (level, names) in self.levels[levels.saturating_sub(1)..]
                    .iter_mut()
                    .zip(hidden)
                {
                    level.names = names;
                }
                self.ctes.extend(later);
                let lowered = lowered?;
                let index = self.level().range.len();
                self.level().inlined.push(index);
                RangeKind::Subquery(Box::new(lowered))
            }
        };
        self.item(&shown, kind, found.columns, alias, at).map(Some)
    }

    fn derived(
        &mut self,
        lateral: bool,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Item, DbError> {
        let at = self.parenthesis_before(place(subquery, self.begin));
        let Some(alias) = alias else {
            let kind = match &*subquery.body {
                ast::SetExpr::Values(_) => "VALUES",
                _ => "subquery",
            };
            return error("42601", format!("{kind} in FROM must have an alias"), at);
        };
        let hidden = if lateral {
            None
        } else {
            Some(std::mem::take(&mut self.level().names))
        };
        let query = self.query(subquery, &[]);
        if let Some(names) = hidden {
            self.level().names = names;
        }
        let query = query?;
        let columns = query.columns.clone();
        let shown = ident(&alias.name);
        let item = self.item(
            &shown,
            RangeKind::Subquery(Box::new(query)),
            columns,
            Some(alias),
            at,
        )?;
        if let Some(entry) = self.level().range.last_mut() {
            entry.lateral = lateral;
        }
        Ok(item)
    }

    pub(super) fn function_item(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let function = name
            .0
            .last()
            .and_then(|p| p.as_ident())
            .map(ident)
            .unwrap_or_default();
        let mut lowered = Vec::with_capacity(args.len());
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(tree)) = arg else {
                return unsupported("this argument of a function in FROM", at);
            };
            lowered
                .push(self.at_place(Place::Clause("functions in FROM"), |this| this.expr(tree))?);
        }
        match function.as_str() {
            "generate_series" => self.series(lowered, ordinality, alias, at),
            "pgrowlocks" if self.catalog.extension("pgrowlocks") && lowered.len() == 1 => {
                self.locked_rows(lowered.remove(0), ordinality, alias, at)
            }
            "unnest" => self.unnest(lowered, ordinality, alias, at),
            name if name.starts_with("json") && returns_set(name) && lowered.len() == 1 => {
                self.json_rows(name, lowered.remove(0), ordinality, alias, at)
            }
            _ => {
                let types: Vec<Type> = lowered.iter().map(|a| a.ty).collect();
                let user = self.user_candidates(&function, &types);
                if let Ok(chosen) = choose(&user, &types)
                    && chosen.result == Type::Record
                {
                    return self.routine_item(&chosen, lowered, ordinality, alias, at);
                }
                let typed = self.call(&function, lowered, at)?;
                let args = vec![typed.expr];
                self.set_item(
                    &function,
                    SetFunction::Scalar,
                    args,
                    typed.ty,
                    ordinality,
                    alias,
                    at,
                )
            }
        }
    }

    fn series(
        &mut self,
        mut args: Vec<Typed>,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        for arg in &mut args {
            self.known_param(arg);
        }
        if !(2..=3).contains(&args.len()) {
            let shown: Vec<String> = args.iter().map(|a| self.type_name(a.ty)).collect();
            return error(
                "42883",
                format!(
                    "function generate_series({}) does not exist",
                    shown.join(", ")
                ),
                at,
            );
        }
        let times = matches!(args[0].ty, Type::Timestamp | Type::TimestampTz | Type::Date);
        let (function, ty) = if times {
            let ty = match args[0].ty {
                Type::Timestamp => Type::Timestamp,
                _ => Type::TimestampTz,
            };
            (SetFunction::SeriesTimestamp, ty)
        } else if args
            .iter()
            .any(|a| matches!(a.ty, Type::Numeric | Type::Float8))
        {
            return unsupported("generate_series of numeric", at);
        } else if args.iter().any(|a| a.ty == Type::Int8) {
            (SetFunction::SeriesInt, Type::Int8)
        } else {
            (SetFunction::SeriesInt, Type::Int4)
        };
        let mut exprs = Vec::with_capacity(3);
        for (i, arg) in args.into_iter().enumerate() {
            let target = if times && i == 2 { Type::Interval } else { ty };
            exprs.push(self.require(arg, target, "generate_series")?.expr);
        }
        self.set_item(
            "generate_series",
            function,
            exprs,
            ty,
            ordinality,
            alias,
            at,
        )
    }

    /// `pgrowlocks('table')`.
    fn locked_rows(
        &mut self,
        table: Typed,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        absent(ordinality, "WITH ORDINALITY of pgrowlocks", at)?;
        let table = self.require(table, Type::Text, "pgrowlocks")?.expr;
        let columns = [
            ("locked_row", Type::Tid),
            ("locker", Type::Xid),
            ("multi", Type::Bool),
            ("xids", Type::Array(&Type::Xid)),
            ("modes", Type::Array(&Type::Text)),
            ("pids", Type::Array(&Type::Int4)),
        ]
        .map(|(name, ty)| OutputColumn {
            name: name.into(),
            ty,
        });
        let shown = alias.map_or("pgrowlocks".to_owned(), |a| ident(&a.name));
        let kind = RangeKind::Function {
            function: SetFunction::RowLocks,
            args: vec![table],
            ordinality,
        };
        let item = self.item(&shown, kind, columns.to_vec(), alias, at)?;
        if let Some(entry) = self.level().range.last_mut() {
            entry.lateral = true;
        }
        Ok(item)
    }

    fn unnest(
        &mut self,
        arrays: Vec<Typed>,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let mut args = Vec::with_capacity(arrays.len());
        let mut elements = Vec::with_capacity(arrays.len());
        for mut array in arrays {
            self.known_param(&mut array);
            let Type::Array(element) = array.ty else {
                return error(
                    "42883",
                    format!(
                        "function unnest({}) does not exist",
                        self.type_name(array.ty)
                    ),
                    at,
                );
            };
            elements.push(*element);
            args.push(array.expr);
        }
        let function = SetFunction::Unnest;
        match elements[..] {
            [element] => self.set_item("unnest", function, args, element, ordinality, alias, at),
            _ => {
                let columns = elements.iter().map(|ty| ("unnest", *ty)).collect();
                self.rows_item("unnest", function, args, columns, ordinality, alias, at)
            }
        }
    }

    /// `jsonb_array_elements`, `jsonb_each`, `jsonb_object_keys` and their kin.
    fn json_rows(
        &mut self,
        name: &str,
        value: Typed,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let binary = name.starts_with("jsonb");
        let text = name.ends_with("_text");
        let ty = if binary { Type::Jsonb } else { Type::Json };
        let part = if text { Type::Text } else { ty };
        let (function, columns) = if name.contains("_array_elements") {
            let function = SetFunction::JsonElements { text, binary };
            (function, vec![("value", part)])
        } else if name.contains("_each") {
            let function = SetFunction::JsonEach { text, binary };
            (function, vec![("key", Type::Text), ("value", part)])
        } else if name.ends_with("_object_keys") {
            let args = vec![self.require(value, ty, name)?.expr];
            let function = SetFunction::JsonKeys { binary };
            return self.set_item(name, function, args, Type::Text, ordinality, alias, at);
        } else {
            return unsupported(format!("the function {name}"), at);
        };
        let args = vec![self.require(value, ty, name)?.expr];
        self.rows_item(name, function, args, columns, ordinality, alias, at)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a function in FROM consists of"
    )]
    fn rows_item(
        &mut self,
        name: &str,
        function: SetFunction,
        args: Vec<Expr>,
        columns: Vec<(&str, Type)>,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let ordinal = ordinality.then_some(("ordinality", Type::Int8));
        let columns = columns
            .into_iter()
            .chain(ordinal)
            .map(|(name, ty)| OutputColumn {
                name: name.into(),
                ty,
            })
            .collect();
        let shown = alias.map_or(name.to_owned(), |a| ident(&a.name));
        let kind = RangeKind::Function {
            function,
            args,
            ordinality,
        };
        let item = self.item(&shown, kind, columns, alias, at)?;
        if let Some(entry) = self.level().range.last_mut() {
            entry.lateral = true;
        }
        Ok(item)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a function in FROM consists of"
    )]
    fn set_item(
        &mut self,
        name: &str,
        function: SetFunction,
        args: Vec<Expr>,
        ty: Type,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let shown = alias.map_or(name.to_owned(), |a| ident(&a.name));
        let mut columns = vec![OutputColumn {
            // A function that gives one value names its column like its table.
            name: shown.as_str().into(),
            ty,
        }];
        if ordinality {
            columns.push(OutputColumn {
                name: "ordinality".into(),
                ty: Type::Int8,
            });
        }
        let kind = RangeKind::Function {
            function,
            args,
            ordinality,
        };
        let item = self.item(&shown, kind, columns, alias, at)?;
        if let Some(entry) = self.level().range.last_mut() {
            entry.lateral = true;
        }
        Ok(item)
    }

    /// Schema and name of a relation.
    pub(super) fn split_name(
        &self,
        name: &ast::ObjectName,
        at: usize,
    ) -> Result<(Option<String>, String), DbError> {
        let mut parts = Vec::with_capacity(name.0.len());
        for part in &name.0 {
            match part.as_ident() {
                Some(part) => parts.push(ident(part)),
                None => return unsupported("this name", at),
            }
        }
        match parts.len() {
            1 => Ok((None, parts.remove(0))),
            2 => {
                let bare = parts.pop().unwrap_or_default();
                Ok((parts.pop(), bare))
            }
            _ => unsupported("a name of this many parts", at),
        }
    }
}

/// A name with its schema, as messages show it.
pub(super) fn shown(schema: Option<&str>, name: &str) -> String {
    match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    }
}

/// Where a name begins.
pub(super) fn name_place(name: &ast::ObjectName, fallback: usize) -> usize {
    name.0
        .first()
        .and_then(|p| p.as_ident())
        .map_or(fallback, |i| start_of(i.span))
}

fn take_column(
    names: &mut Namespace,
    name: &str,
    side: &str,
    at: usize,
) -> Result<NamedColumn, DbError> {
    let mut found = (0..names.columns.len()).filter(|i| *names.columns[*i].name == *name);
    let Some(first) = found.next() else {
        return Err(DbError::postgres(
            "42703",
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        ));
    };
    if found.next().is_some() {
        return error(
            "42702",
            format!("common column name \"{name}\" appears more than once in {side} table"),
            at,
        );
    }
    Ok(names.columns.remove(first))
}

fn join_kind(
    operator: &JoinOperator,
    at: usize,
) -> Result<(Join, Option<&JoinConstraint>), DbError> {
    Ok(match operator {
        JoinOperator::Join(c) | JoinOperator::Inner(c) => (Join::Inner, Some(c)),
        JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (Join::Left, Some(c)),
        JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (Join::Right, Some(c)),
        JoinOperator::FullOuter(c) => (Join::Full, Some(c)),
        JoinOperator::CrossJoin(JoinConstraint::None) => (Join::Cross, None),
        _ => return unsupported("this kind of join", at),
    })
}
