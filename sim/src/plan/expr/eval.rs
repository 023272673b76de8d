//! Evaluation. Column reads and comparisons borrow; nothing is allocated for them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::compare::{compare, compare_fields, order, same};
use super::{Compare, Comparison, Expr, Host, HostFunction, Scope};
use crate::plan::query::SubPlan;
use crate::plan::types::convert::{Conversion, convert};
use crate::plan::types::output;

static NULL: Value = Value::Null;

/// The value of an expression.
///
/// # Errors
/// What the server would raise, or what the host raises.
pub fn eval<'a, H: Host + ?Sized>(
    expr: &'a Expr,
    scope: &'a Scope<'a>,
    host: &mut H,
) -> Result<Cow<'a, Value>, H::Error> {
    Ok(match expr {
        Expr::Const(value) => Cow::Borrowed(value),
        Expr::Param(index) => Cow::Borrowed(scope.params.get(*index).unwrap_or(&NULL)),
        Expr::Column {
            level,
            entry,
            column,
        } => {
            let row = scope.at(*level).rows.get(*entry as usize).copied();
            let value = row.and_then(|row| row.get(*column as usize));
            Cow::Borrowed(value.unwrap_or(&NULL))
        }
        Expr::Group { level, index } => {
            Cow::Borrowed(scope.at(*level).group.get(*index as usize).unwrap_or(&NULL))
        }
        Expr::Window(index) => Cow::Borrowed(scope.windows.get(*index as usize).unwrap_or(&NULL)),
        Expr::System {
            level,
            entry,
            column,
        } => Cow::Owned(host.system(*column, *entry as usize, scope.at(*level))?),
        Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::Compare { .. }
        | Expr::CompareRows { .. }
        | Expr::Distinct { .. }
        | Expr::IsNull { .. }
        | Expr::IsBool { .. }
        | Expr::AnyOfArray { .. }
        | Expr::AnyOfRows { .. }
        | Expr::Exists(_) => Cow::Owned(truth(test(expr, scope, host)?)),
        Expr::Case {
            branches,
            otherwise,
        } => {
            for (condition, result) in branches {
                if test(condition, scope, host)? == Some(true) {
                    return eval(result, scope, host);
                }
            }
            eval(otherwise, scope, host)?
        }
        Expr::Coalesce(args) => {
            for arg in args {
                let value = eval(arg, scope, host)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Cow::Borrowed(&NULL)
        }
        Expr::NullIf { by, sides } => {
            let left = eval(&sides.0, scope, host)?;
            let right = eval(&sides.1, scope, host)?;
            if compare(Compare::Eq, &left, &right, by) == Some(true) {
                Cow::Borrowed(&NULL)
            } else {
                left
            }
        }
        Expr::Extreme { greatest, by, args } => extreme(*greatest, by, args, scope, host)?,
        Expr::Cast {
            expr,
            from,
            to,
            modifier,
            explicit,
            labels,
        } => {
            let value = eval(expr, scope, host)?;
            let how = Conversion {
                from: *from,
                to: *to,
                modifier: *modifier,
                explicit: *explicit,
                labels: labels.as_deref(),
            };
            Cow::Owned(convert(&value, how)?)
        }
        Expr::Call { function, args } => match args.as_slice() {
            [a] => {
                let a = eval(a, scope, host)?;
                Cow::Owned(function.call(&[&a])?)
            }
            [a, b] => {
                let a = eval(a, scope, host)?;
                let b = eval(b, scope, host)?;
                Cow::Owned(function.call(&[&a, &b])?)
            }
            args => {
                let values = all(args, scope, host)?;
                let borrowed: Vec<&Value> = values.iter().map(Cow::as_ref).collect();
                Cow::Owned(function.call(&borrowed)?)
            }
        },
        Expr::Routine {
            routine,
            types,
            args,
        } => {
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                values.push(eval(arg, scope, host)?.into_owned());
            }
            if routine.strict && values.iter().any(Value::is_null) {
                return Ok(Cow::Borrowed(&NULL));
            }
            Cow::Owned(host.routine(routine, types, &values)?)
        }
        Expr::Host { function, args } => {
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                values.push(eval(arg, scope, host)?.into_owned());
            }
            let strict = !matches!(function, HostFunction::SetConfig | HostFunction::Notify);
            if strict && values.iter().any(Value::is_null) {
                return Ok(Cow::Borrowed(&NULL));
            }
            Cow::Owned(host.call(*function, &values)?)
        }
        Expr::Array(items) => {
            let values = all(items, scope, host)?;
            Cow::Owned(Value::Array(
                values.into_iter().map(Cow::into_owned).collect(),
            ))
        }
        Expr::Record(fields) => {
            let mut values = Vec::with_capacity(fields.len());
            for (field, ty) in fields {
                values.push((eval(field, scope, host)?.into_owned(), *ty));
            }
            Cow::Owned(Value::text(output::record(&values)))
        }
        Expr::Subquery(plan) => {
            let rows = rows(plan, scope, host)?;
            if rows.len() > 1 {
                return Err(too_many_rows().into());
            }
            let value = rows.first().and_then(|row| row.first()).cloned();
            Cow::Owned(value.unwrap_or(Value::Null))
        }
        Expr::ArraySubquery(plan) => {
            let rows = rows(plan, scope, host)?;
            let items = rows.iter().filter_map(|row| row.first()).cloned();
            Cow::Owned(Value::Array(items.collect()))
        }
    })
}

/// 21000.
pub fn too_many_rows() -> DbError {
    DbError::postgres(
        "21000",
        "more than one row returned by a subquery used as an expression",
    )
}

fn truth(value: Option<bool>) -> Value {
    value.map_or(Value::Null, Value::Bool)
}

fn rows<H: Host + ?Sized>(
    plan: &SubPlan,
    scope: &Scope<'_>,
    host: &mut H,
) -> Result<Arc<[Row]>, H::Error> {
    host.rows(plan, scope)
}

fn all<'a, H: Host + ?Sized>(
    exprs: &'a [Expr],
    scope: &'a Scope<'a>,
    host: &mut H,
) -> Result<Vec<Cow<'a, Value>>, H::Error> {
    exprs.iter().map(|e| eval(e, scope, host)).collect()
}

fn extreme<'a, H: Host + ?Sized>(
    greatest: bool,
    by: &Comparison,
    args: &'a [Expr],
    scope: &'a Scope<'a>,
    host: &mut H,
) -> Result<Cow<'a, Value>, H::Error> {
    let mut best: Option<Cow<'a, Value>> = None;
    let wanted = if greatest {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    for arg in args {
        let value = eval(arg, scope, host)?;
        if value.is_null() {
            continue;
        }
        if best.as_ref().is_none_or(|b| order(&value, b, by) == wanted) {
            best = Some(value);
        }
    }
    Ok(best.unwrap_or(Cow::Borrowed(&NULL)))
}

/// The truth of a condition: `None` is unknown.
///
/// # Errors
/// As [`eval`].
pub fn test<'a, H: Host + ?Sized>(
    expr: &'a Expr,
    scope: &'a Scope<'a>,
    host: &mut H,
) -> Result<Option<bool>, H::Error> {
    Ok(match expr {
        Expr::And(parts) => junction(parts, false, scope, host)?,
        Expr::Or(parts) => junction(parts, true, scope, host)?,
        Expr::Not(inner) => test(inner, scope, host)?.map(|b| !b),
        Expr::Compare { op, by, sides } => {
            let left = eval(&sides.0, scope, host)?;
            let right = eval(&sides.1, scope, host)?;
            compare(*op, &left, &right, by)
        }
        Expr::CompareRows { op, fields } => {
            let mut values = Vec::with_capacity(fields.len());
            for (left, right, by) in fields {
                values.push((eval(left, scope, host)?, eval(right, scope, host)?, by));
            }
            compare_fields(*op, values.iter().map(|(a, b, by)| (&**a, &**b, *by)))
        }
        Expr::Distinct {
            distinct,
            by,
            sides,
        } => {
            let left = eval(&sides.0, scope, host)?;
            let right = eval(&sides.1, scope, host)?;
            Some(same(&left, &right, by) != *distinct)
        }
        Expr::IsNull { expr, negated } => Some(eval(expr, scope, host)?.is_null() != *negated),
        Expr::IsBool {
            expr,
            value,
            negated,
        } => Some((test(expr, scope, host)? == Some(*value)) != *negated),
        Expr::AnyOfArray { op, all, by, sides } => any_of_array(*op, *all, by, sides, scope, host)?,
        Expr::AnyOfRows {
            op,
            all,
            left,
            plan,
        } => {
            let mut values = Vec::with_capacity(left.len());
            for (field, by) in left {
                values.push((eval(field, scope, host)?, by));
            }
            let rows = rows(plan, scope, host)?;
            quantified(
                *all,
                rows.iter().map(|row| {
                    compare_fields(
                        *op,
                        values
                            .iter()
                            .zip(row.iter())
                            .map(|((value, by), field)| (&**value, field, *by)),
                    )
                }),
            )
        }
        Expr::Exists(plan) => Some(!rows(plan, scope, host)?.is_empty()),
        other => eval(other, scope, host)?.as_bool(),
    })
}

/// AND (`stop` false) and OR (`stop` true).
fn junction<'a, H: Host + ?Sized>(
    parts: &'a [Expr],
    stop: bool,
    scope: &'a Scope<'a>,
    host: &mut H,
) -> Result<Option<bool>, H::Error> {
    let mut unknown = false;
    for part in parts {
        match test(part, scope, host)? {
            Some(value) if value == stop => return Ok(Some(stop)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(!stop))
}

fn any_of_array<'a, H: Host + ?Sized>(
    op: Compare,
    all: bool,
    by: &Comparison,
    sides: &'a (Expr, Expr),
    scope: &'a Scope<'a>,
    host: &mut H,
) -> Result<Option<bool>, H::Error> {
    let left = eval(&sides.0, scope, host)?;
    // An `IN` list is compared item by item, so that later items are not evaluated.
    if let Expr::Array(items) = &sides.1 {
        let mut unknown = false;
        for item in items {
            let item = eval(item, scope, host)?;
            match compare(op, &left, &item, by) {
                Some(found) if found != all => return Ok(Some(found)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        return Ok((!unknown).then_some(all));
    }
    let right = eval(&sides.1, scope, host)?;
    Ok(match &*right {
        Value::Array(items) => quantified(all, items.iter().map(|i| compare(op, &left, i, by))),
        _ => None,
    })
}

/// ANY (or ALL) of three-valued results.
fn quantified(all: bool, results: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut unknown = false;
    for result in results {
        match result {
            Some(found) if found != all => return Some(found),
            Some(_) => {}
            None => unknown = true,
        }
    }
    (!unknown).then_some(all)
}
