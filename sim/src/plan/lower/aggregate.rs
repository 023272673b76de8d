//! Aggregates, window functions and grouping.

use rowlock_model::DbError;
use sqlparser::ast;

use super::call::Call;
use super::names::Place;
use super::{Lowering, Typed, absent, error, unsupported};
use crate::plan::catalog::Table;
use crate::plan::expr::{
    Aggregate, AggregateFunction, Comparison, Expr, Function, Window, WindowFunction,
};
use crate::plan::query::{Grouping, RangeKind, SortKey};
use crate::plan::types::Type;
use crate::plan::walk;

/// Aggregates are numbered from here until the number of grouping keys is known.
const FIRST: u32 = 1 << 16;

/// Whether a name is an aggregate function.
pub(super) fn is_aggregate(name: &str) -> bool {
    matches!(
        name,
        "count"
            | "sum"
            | "avg"
            | "min"
            | "max"
            | "bool_and"
            | "bool_or"
            | "every"
            | "string_agg"
            | "array_agg"
            | "json_agg"
            | "jsonb_agg"
    )
}

impl Lowering<'_> {
    /// A call of an aggregate or window function.
    pub(super) fn aggregate_call(&mut self, call: &Call<'_>) -> Result<Typed, DbError> {
        if let Some(over) = call.over {
            return self.window_call(call, over);
        }
        if self.level().in_aggregate {
            return error(
                "42803",
                "aggregate function calls cannot be nested",
                call.at,
            );
        }
        if let Place::Clause(what) = self.level().place {
            return error(
                "42803",
                format!("aggregate functions are not allowed in {what}"),
                call.at,
            );
        }
        self.level().in_aggregate = true;
        let aggregate = self.aggregate(call);
        self.level().in_aggregate = false;
        let aggregate = aggregate?;
        let ty = aggregate.ty;
        let level = self.level();
        let index = match level.aggregates.iter().position(|a| *a == aggregate) {
            Some(index) => index,
            None => {
                level.aggregates.push(aggregate);
                level.aggregates.len() - 1
            }
        };
        let expr = Expr::Group {
            level: 0,
            index: FIRST + index as u32,
        };
        Ok(Typed::new(expr, ty, call.at))
    }

    fn aggregate(&mut self, call: &Call<'_>) -> Result<Aggregate, DbError> {
        let mut args = Vec::with_capacity(call.args.len());
        let mut rows = false;
        for arg in &call.args {
            let mut typed = match self.json_argument(&call.name, arg)? {
                Some(row) => {
                    rows = true;
                    row
                }
                None => self.expr(arg)?,
            };
            self.known_param(&mut typed);
            args.push(typed);
        }
        self.refuse_outer(&args, call.at)?;
        let (mut function, args, ty) = self.aggregate_function(call, args)?;
        if let AggregateFunction::JsonAgg { rows: of_rows, .. } = &mut function {
            *of_rows = rows;
        }
        let filter = match call.filter {
            Some(tree) => {
                let typed = self.expr(tree)?;
                Some(self.condition(typed, "FILTER")?)
            }
            None => None,
        };
        let mut sort = Vec::new();
        let mut order = Vec::new();
        for key in &call.order {
            let (key, typed) = self.sort_key(key, order.len())?;
            sort.push(key);
            order.push(typed.expr);
        }
        if call.distinct
            && !sort.is_empty()
            && order.iter().any(|o| !args.iter().any(|a| a.expr == *o))
        {
            return error(
                "42P10",
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                call.at,
            );
        }
        let by = args
            .first()
            .map_or(Comparison::Plain, |a| self.comparison(a.ty));
        Ok(Aggregate {
            function,
            arg_types: args.iter().map(|a| a.ty).collect(),
            args: args.into_iter().map(|a| a.expr).collect(),
            distinct: call.distinct,
            filter,
            sort,
            order,
            ty,
            by,
        })
    }

    /// An aggregate over outer columns only belongs to the outer query, which is not modelled.
    fn refuse_outer(&self, args: &[Typed], at: usize) -> Result<(), DbError> {
        let (mut own, mut outer) = (false, false);
        for arg in args {
            walk::expr(&mut arg.expr.clone(), 0, &mut |e, depth| {
                if let Expr::Column { level, .. } = e {
                    own |= *level == depth;
                    outer |= *level > depth;
                }
                true
            });
        }
        absent(outer && !own, "an aggregate of an outer query", at)
    }

    fn aggregate_function(
        &mut self,
        call: &Call<'_>,
        mut args: Vec<Typed>,
    ) -> Result<(AggregateFunction, Vec<Typed>, Type), DbError> {
        use AggregateFunction as F;
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        if call.star && call.name == "count" && args.is_empty() {
            return Ok((F::CountRows, args, Type::Int8));
        }
        let no_such = |this: &Self| {
            let shown: Vec<String> = types.iter().map(|t| this.type_name(*t)).collect();
            error(
                "42883",
                format!(
                    "function {}({}) does not exist",
                    call.name,
                    shown.join(", ")
                ),
                call.at,
            )
        };
        if call.name == "string_agg" {
            let [value, separator]: [Typed; 2] = match args.try_into() {
                Ok(pair) => pair,
                Err(_) => return no_such(self),
            };
            let string = |t: Type| {
                crate::plan::types::coerce::can_coerce(
                    t,
                    Type::Text,
                    crate::plan::types::coerce::Context::Implicit,
                )
            };
            if !string(value.ty) || !string(separator.ty) {
                return no_such(self);
            }
            let value = self.require(value, Type::Text, "string_agg")?;
            let separator = self.require(separator, Type::Text, "string_agg")?;
            return Ok((F::StringAgg, vec![value, separator], Type::Text));
        }
        if args.len() != 1 {
            return no_such(self);
        }
        let arg = args.remove(0);
        let arg = match (call.name.as_str(), arg.is_open()) {
            ("sum" | "avg", true) => {
                return error(
                    "42725",
                    format!("function {}(unknown) is not unique", call.name),
                    call.at,
                );
            }
            ("bool_and" | "bool_or" | "every", true) => {
                self.require(arg, Type::Bool, "aggregate")?
            }
            (_, true) => self.settle(arg)?,
            (_, false) => arg,
        };
        let ty = arg.ty;
        let (function, result) = match (call.name.as_str(), ty) {
            ("count", _) => (F::Count, Type::Int8),
            ("sum", Type::Int2 | Type::Int4) => (F::SumInt, Type::Int8),
            ("sum", Type::Int8 | Type::Numeric) => (F::SumNumeric, Type::Numeric),
            ("sum", Type::Float4 | Type::Float8) => (F::SumFloat, ty),
            ("sum", Type::Interval) => (F::SumInterval, ty),
            ("avg", Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric) => {
                (F::AvgNumeric, Type::Numeric)
            }
            ("avg", Type::Float4 | Type::Float8) => (F::AvgFloat, Type::Float8),
            (
                "min" | "max",
                Type::Bool | Type::Uuid | Type::Json | Type::Jsonb | Type::Bytea | Type::Xid,
            ) => {
                return no_such(self);
            }
            ("min", _) => (F::Min, text_for(ty)),
            ("max", _) => (F::Max, text_for(ty)),
            ("bool_and" | "every", Type::Bool) => (F::BoolAnd, Type::Bool),
            ("bool_or", Type::Bool) => (F::BoolOr, Type::Bool),
            ("json_agg" | "jsonb_agg", _) => {
                let binary = call.name == "jsonb_agg";
                let json = if binary { Type::Jsonb } else { Type::Json };
                let function = if binary {
                    Function::ToJson(ty)
                } else {
                    Function::JsonOutput(ty)
                };
                let expr = Expr::Call {
                    function,
                    args: vec![arg.expr],
                };
                let arg = Typed::new(expr, json, arg.at);
                let rows = false;
                return Ok((F::JsonAgg { binary, rows }, vec![arg], json));
            }
            ("array_agg", _) => match super::datatype::array_of(ty) {
                Some(array) => (F::ArrayAgg, array),
                None => return unsupported(format!("arrays of {}", ty.name()), call.at),
            },
            _ => return no_such(self),
        };
        Ok((function, vec![arg], result))
    }

    fn window_call(&mut self, call: &Call<'_>, over: &ast::WindowType) -> Result<Typed, DbError> {
        if let Place::Clause(what) = self.level().place {
            return error(
                "42P20",
                format!("window functions are not allowed in {what}"),
                call.at,
            );
        }
        let ast::WindowType::WindowSpec(ast::WindowSpec {
            window_name: None,
            partition_by,
            order_by,
            window_frame: None,
        }) = over
        else {
            return unsupported("named windows and window frames", call.at);
        };
        let (function, ty) = match call.name.as_str() {
            "row_number" => (WindowFunction::RowNumber, Type::Int8),
            "rank" => (WindowFunction::Rank, Type::Int8),
            "dense_rank" => (WindowFunction::DenseRank, Type::Int8),
            name if is_aggregate(name) => {
                let aggregate = self.aggregate(call)?;
                let ty = aggregate.ty;
                (WindowFunction::Aggregate(Box::new(aggregate)), ty)
            }
            "percent_rank" => (WindowFunction::PercentRank, Type::Float8),
            "cume_dist" => (WindowFunction::CumulativeShare, Type::Float8),
            "ntile" | "lag" | "lead" | "first_value" | "last_value" | "nth_value" => {
                self.value_window(call)?
            }
            _ => return unsupported(format!("the window function {}", call.name), call.at),
        };
        let mut partition = Vec::with_capacity(partition_by.len());
        for tree in partition_by {
            let typed = self.expr(tree)?;
            let typed = self.settle(typed)?;
            let by = self.comparison(typed.ty);
            partition.push((typed.expr, by));
        }
        let mut sort = Vec::new();
        let mut order = Vec::new();
        for key in order_by {
            let (key, typed) = self.sort_key(key, order.len())?;
            sort.push(key);
            order.push(typed.expr);
        }
        let level = self.level();
        level.windows.push(Window {
            function,
            partition,
            sort,
            order,
        });
        let index = level.windows.len() as u32 - 1;
        Ok(Typed::new(Expr::Window(index), ty, call.at))
    }

    /// A window function that takes arguments and is not an aggregate.
    fn value_window(&mut self, call: &Call<'_>) -> Result<(WindowFunction, Type), DbError> {
        let name = call.name.as_str();
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            let typed = self.expr(arg)?;
            args.push(typed);
        }
        let fits = match name {
            "lag" | "lead" => (1..=3).contains(&args.len()),
            "nth_value" => args.len() == 2,
            _ => args.len() == 1,
        };
        if !fits || call.distinct || call.star || !call.order.is_empty() {
            return unsupported(format!("this call of {name}"), call.at);
        }
        let mut args = args.into_iter();
        let Some(first) = args.next() else {
            return unsupported(format!("this call of {name}"), call.at);
        };
        if name == "ntile" {
            let groups = self.require(first, Type::Int4, name)?;
            return Ok((WindowFunction::Tile(Box::new(groups.expr)), Type::Int4));
        }
        let first = self.settle(first)?;
        let ty = first.ty;
        let value = Box::new(first.expr);
        let mut integer = |this: &mut Self| match args.next() {
            Some(typed) => Ok(this.require(typed, Type::Int4, name)?.expr),
            None => Ok(Expr::Const(rowlock_model::Value::Int(1))),
        };
        let function = match name {
            "first_value" => WindowFunction::FirstValue(value),
            "last_value" => WindowFunction::LastValue(value),
            "nth_value" => WindowFunction::NthValue(value, Box::new(integer(self)?)),
            _ => {
                let offset = Box::new(integer(self)?);
                let default = match args.next() {
                    Some(typed) => self.require(typed, ty, name)?.expr,
                    None => Expr::Const(rowlock_model::Value::Null),
                };
                WindowFunction::Shifted {
                    back: name == "lag",
                    value,
                    offset,
                    default: Box::new(default),
                }
            }
        };
        Ok((function, ty))
    }

    /// A key of an `ORDER BY` whose expression stands at position `target` of its list.
    pub(super) fn sort_key(
        &mut self,
        key: &ast::OrderByExpr,
        target: usize,
    ) -> Result<(SortKey, Typed), DbError> {
        let ast::OrderByExpr {
            expr,
            options,
            with_fill,
        } = key;
        absent(with_fill.is_some(), "WITH FILL", self.begin)?;
        let typed = self.expr(expr)?;
        let typed = self.settle(typed)?;
        let key = self.sort_options(options, target, typed.ty, typed.at)?;
        Ok((key, typed))
    }

    /// `ASC`, `DESC`, `NULLS FIRST`.
    pub(super) fn sort_options(
        &mut self,
        options: &ast::OrderByOptions,
        target: usize,
        ty: Type,
        at: usize,
    ) -> Result<SortKey, DbError> {
        let ast::OrderByOptions { sort, nulls_first } = options;
        let descending = match sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(ast::OrderBySort::Using(_)) => return unsupported("ORDER BY USING", at),
        };
        if matches!(ty, Type::Json | Type::Xid) {
            return error(
                "42883",
                format!(
                    "could not identify an ordering operator for type {}",
                    ty.name()
                ),
                at,
            );
        }
        if matches!(ty, Type::Jsonb | Type::Record) {
            return unsupported(format!("the order of {} values", ty.name()), at);
        }
        Ok(SortKey {
            target,
            ty,
            by: self.comparison(ty),
            descending,
            nulls_first: nulls_first.unwrap_or(descending),
        })
    }

    /// Makes a grouping of the keys and the aggregates found, and rewrites `outputs` (targets) and
    /// `having` to read it.
    ///
    /// # Errors
    /// 42803 for a column that is neither grouped nor aggregated.
    pub(super) fn group(
        &mut self,
        mut keys: Vec<Expr>,
        explicit: bool,
        mut having: Option<Expr>,
        outputs: &mut [Expr],
    ) -> Result<Grouping, DbError> {
        let aggregates = std::mem::take(&mut self.level().aggregates);
        let mut windows = std::mem::take(&mut self.level().windows);
        for expr in outputs.iter_mut().chain(having.iter_mut()) {
            self.regroup(expr, &mut keys)?;
        }
        for each in &mut windows {
            let mut failed = None;
            walk::window(each, 0, &mut |e, depth| {
                if depth == 0
                    && failed.is_none()
                    && let Err(error) = self.regroup(e, &mut keys)
                {
                    failed = Some(error);
                }
                false
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        // Keys are all known now: the aggregates follow them.
        let count = keys.len() as u32;
        let mut shift = |e: &mut Expr, depth: u32| {
            if let Expr::Group { level, index } = e
                && *level == depth
                && *index >= FIRST
            {
                *index = *index - FIRST + count;
            }
            true
        };
        for expr in outputs.iter_mut().chain(having.iter_mut()) {
            walk::expr(expr, 0, &mut shift);
        }
        for each in &mut windows {
            walk::window(each, 0, &mut shift);
        }
        self.level().windows = windows;
        Ok(Grouping {
            keys,
            aggregates,
            having,
            explicit,
        })
    }

    fn regroup(&mut self, expr: &mut Expr, keys: &mut Vec<Expr>) -> Result<(), DbError> {
        let mut ungrouped = None;
        let level = self.levels.last();
        walk::expr(expr, 0, &mut |e, depth| {
            let at_key = keys.iter().position(|key| *e == lift(key, depth));
            if let Some(index) = at_key {
                *e = Expr::Group {
                    level: depth,
                    index: index as u32,
                };
                return false;
            }
            match e {
                Expr::Column {
                    level: l,
                    entry,
                    column,
                } if *l == depth => {
                    let (entry, column) = (*entry, *column);
                    let dependent = level.is_some_and(|l| {
                        determined(l.range.get(entry as usize).map(|e| &e.kind), entry, keys)
                    });
                    if dependent {
                        keys.push(Expr::Column {
                            level: 0,
                            entry,
                            column,
                        });
                        *e = Expr::Group {
                            level: depth,
                            index: keys.len() as u32 - 1,
                        };
                    } else {
                        ungrouped.get_or_insert((entry, column, depth));
                    }
                    false
                }
                Expr::Group { level: l, .. } if *l == depth => false,
                _ => true,
            }
        });
        let Some((entry, column, depth)) = ungrouped else {
            return Ok(());
        };
        let level = self.level();
        let shown = level.range.get(entry as usize).map_or(String::new(), |e| {
            format!("{}.{}", e.alias, e.columns[column as usize].name)
        });
        let mention = level
            .mentions
            .iter()
            .find(|(e, c, _)| (*e, *c) == (entry, column))
            .map(|(_, _, at)| *at);
        let message = if depth > 0 {
            format!("subquery uses ungrouped column \"{shown}\" from outer query")
        } else {
            format!(
                "column \"{shown}\" must appear in the GROUP BY clause or be used in an aggregate function"
            )
        };
        error("42803", message, mention.unwrap_or(self.begin))
    }
}

/// `min` and `max` of `varchar` are those of `text`.
fn text_for(ty: Type) -> Type {
    match ty {
        Type::Varchar | Type::Name => Type::Text,
        other => other,
    }
}

/// A key read `by` levels further in.
fn lift(key: &Expr, by: u32) -> Expr {
    let mut key = key.clone();
    if by > 0 {
        walk::expr(&mut key, 0, &mut |e, depth| {
            if let Expr::Column { level, .. } = e
                && *level >= depth
            {
                *level += by;
            }
            true
        });
    }
    key
}

/// Whether the keys hold the primary key of a table, on which all its columns depend.
fn determined(kind: Option<&RangeKind>, entry: u32, keys: &[Expr]) -> bool {
    let Some(RangeKind::Table(table)) = kind else {
        return false;
    };
    let table: &Table = table;
    table.indexes.iter().any(|index| {
        index.primary
            && index.keys.iter().all(|key| {
                keys.iter().any(|k| {
                    matches!(k, Expr::Column { level: 0, entry: e, column }
                        if *e == entry && key.column == Some(*column as usize))
                })
            })
    })
}
