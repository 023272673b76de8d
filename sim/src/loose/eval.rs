//! Evaluation of expressions.

use std::cmp::Ordering;
use std::rc::Rc;

use rowlock_model::value::civil;
use rowlock_model::{DbError, Dialect, Row, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::collate;
use super::errors;
use super::expr::{
    Binary, CastTarget, Compare, Comparison, Expr, IntervalUnit, Match, Numbers, Unary,
};
use super::function;
use super::query::{Cte, SubPlan};
use super::storage::{Host, Stop};
use super::temporal;
use super::types::{Affinity, Collation};
use super::value::{
    apply_affinity, as_datetime, as_decimal, as_float, as_int_cut, as_int_rounded, compare,
    mysql_text, number_of_text, round_decimal, sqlite_text, truth,
};

/// A row as expressions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuple {
    /// Its values.
    pub values: Row,
    /// Its rowid (SQLite).
    pub rowid: i64,
}

/// The rows that are current at a level, and the levels around it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'f> {
    /// The current row of each range-table entry; `None` where an outer join left it out, or where
    /// nothing was read yet.
    pub rows: &'f [Option<Tuple>],
    /// The keys and aggregates of the current group.
    pub group: &'f [Value],
    /// The values of window functions.
    pub windows: &'f [Value],
    /// The common table expressions and derived tables of the query at this level.
    pub with: &'f [Cte],
    /// The level around this one.
    pub outer: Option<&'f Frame<'f>>,
}

impl<'f> Frame<'f> {
    /// A level without rows.
    pub fn empty(outer: Option<&'f Frame<'f>>) -> Frame<'f> {
        Frame {
            rows: &[],
            group: &[],
            windows: &[],
            with: &[],
            outer,
        }
    }

    /// A level with rows only.
    pub fn of_rows(rows: &'f [Option<Tuple>], outer: Option<&'f Frame<'f>>) -> Frame<'f> {
        Frame {
            rows,
            group: &[],
            windows: &[],
            with: &[],
            outer,
        }
    }

    fn level(&self, level: u32) -> &Frame<'f> {
        let mut frame = self;
        for _ in 0..level {
            match frame.outer {
                Some(outer) => frame = outer,
                None => panic!("an expression reaches out of its statement"),
            }
        }
        frame
    }

    fn tuple(&self, level: u32, entry: u32) -> Option<&Tuple> {
        self.level(level).rows.get(entry as usize)?.as_ref()
    }
}

/// What evaluation needs: the session, and a way to run sub-selects.
pub trait Env: Host {
    /// Whose rules hold where values decide.
    fn dialect(&self) -> Dialect;

    /// The rows of a sub-select; at most two of a scalar one, at most one of `EXISTS`.
    ///
    /// # Errors
    /// Those of the query; waits.
    fn subquery(&mut self, plan: &SubPlan, frame: &Frame<'_>) -> Result<Rc<[Row]>, Stop>;
}

fn bool_value(b: Option<bool>) -> Value {
    match b {
        Some(b) => Value::Int(i64::from(b)),
        None => Value::Null,
    }
}

/// Whether a condition is true.
///
/// # Errors
/// As [`eval`].
pub fn test<E: Env>(expr: &Expr, frame: &Frame<'_>, env: &mut E) -> Result<bool, Stop> {
    Ok(truth(&eval(expr, frame, env)?) == Some(true))
}

/// The value of an expression.
///
/// # Errors
/// What the server says; waits inside sub-selects and functions.
///
/// # Panics
/// If the expression does not belong to the frame.
pub fn eval<E: Env>(expr: &Expr, frame: &Frame<'_>, env: &mut E) -> Result<Value, Stop> {
    match expr {
        Expr::Const(value) => Ok(value.clone()),
        Expr::Param(i) => Ok(match env.param(*i)? {
            Value::Bool(b) => Value::Int(i64::from(b)),
            value if env.dialect() == Dialect::Sqlite => apply_affinity(value, Affinity::Blob),
            value => value,
        }),
        Expr::Column {
            level,
            entry,
            column,
        } => Ok(match frame.tuple(*level, *entry) {
            Some(tuple) => tuple.values[*column as usize].clone(),
            None => Value::Null,
        }),
        Expr::Rowid { level, entry } => Ok(match frame.tuple(*level, *entry) {
            Some(tuple) => Value::Int(tuple.rowid),
            None => Value::Null,
        }),
        Expr::Group { level, index } => Ok(frame.level(*level).group[*index as usize].clone()),
        Expr::Window(index) => Ok(frame.windows[*index as usize].clone()),
        Expr::And(items) => {
            let mut result = Some(true);
            for item in items {
                match truth(&eval(item, frame, env)?) {
                    Some(false) => return Ok(Value::Int(0)),
                    None => result = None,
                    Some(true) => {}
                }
            }
            Ok(bool_value(result))
        }
        Expr::Or(items) => {
            let mut result = Some(false);
            for item in items {
                match truth(&eval(item, frame, env)?) {
                    Some(true) => return Ok(Value::Int(1)),
                    None => result = None,
                    Some(false) => {}
                }
            }
            Ok(bool_value(result))
        }
        Expr::Xor(sides) => {
            let left = truth(&eval(&sides.0, frame, env)?);
            let right = truth(&eval(&sides.1, frame, env)?);
            Ok(bool_value(left.zip(right).map(|(l, r)| l != r)))
        }
        Expr::Not(inner) => {
            let inner = truth(&eval(inner, frame, env)?);
            Ok(bool_value(inner.map(|b| !b)))
        }
        Expr::Compare { op, by, sides } => {
            let left = eval(&sides.0, frame, env)?;
            let right = eval(&sides.1, frame, env)?;
            Ok(bool_value(compared(*op, *by, &left, &right)))
        }
        Expr::CompareRows { op, fields } => compare_rows(*op, fields, frame, env),
        Expr::Between { parts, by, negated } => {
            let value = eval(&parts.0, frame, env)?;
            let low = eval(&parts.1, frame, env)?;
            let high = eval(&parts.2, frame, env)?;
            let above = compared(Compare::Ge, by.0, &value, &low);
            let below = compared(Compare::Le, by.1, &value, &high);
            Ok(negate(and(above, below), *negated))
        }
        Expr::InList {
            expr,
            items,
            negated,
        } => {
            let value = eval(expr, frame, env)?;
            let mut found = Some(false);
            for (item, by) in items {
                let item = eval(item, frame, env)?;
                found = or(found, compared(Compare::Eq, *by, &value, &item));
                if found == Some(true) {
                    break;
                }
            }
            Ok(negate(found, *negated))
        }
        Expr::InRowList {
            left,
            items,
            negated,
        } => in_row_list(left, items, *negated, frame, env),
        Expr::AnyOfRows {
            op,
            all,
            left,
            plan,
        } => any_of_rows(*op, *all, left, plan, frame, env),
        Expr::IsNull { expr, negated } => {
            let is_null = eval(expr, frame, env)?.is_null();
            Ok(bool_value(Some(is_null != *negated)))
        }
        Expr::IsTruth {
            expr,
            value,
            negated,
        } => {
            let is = truth(&eval(expr, frame, env)?) == Some(*value);
            Ok(bool_value(Some(is != *negated)))
        }
        Expr::Match {
            kind,
            parts,
            collation,
            negated,
        } => matches(*kind, parts, *collation, *negated, frame, env),
        Expr::Case {
            branches,
            otherwise,
        } => {
            for (when, then) in branches {
                if test(when, frame, env)? {
                    return eval(then, frame, env);
                }
            }
            eval(otherwise, frame, env)
        }
        Expr::Unary { op, numbers, expr } => {
            let value = eval(expr, frame, env)?;
            unary(*op, *numbers, &value)
        }
        Expr::Binary { op, numbers, sides } => {
            let left = eval(&sides.0, frame, env)?;
            let right = eval(&sides.1, frame, env)?;
            if left.is_null() || right.is_null() {
                return Ok(Value::Null);
            }
            binary(*op, *numbers, &left, &right)
        }
        Expr::DateAdd {
            sides,
            unit,
            subtract,
        } => {
            let date = eval(&sides.0, frame, env)?;
            let amount = eval(&sides.1, frame, env)?;
            Ok(date_add(&date, &amount, *unit, *subtract))
        }
        Expr::Cast { expr, to } => {
            let value = eval(expr, frame, env)?;
            cast(value, to)
        }
        Expr::Call { function, args } => {
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                values.push(eval(arg, frame, env)?);
            }
            function::call(*function, &values, env.dialect())
        }
        Expr::Host { function, args } => {
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                values.push(eval(arg, frame, env)?);
            }
            env.call(*function, &values)
        }
        Expr::UserVariable { name, assign: None } => Ok(env.user_variable(name)),
        Expr::UserVariable {
            name,
            assign: Some(value),
        } => {
            let value = eval(value, frame, env)?;
            env.set_user_variable(name, value.clone());
            Ok(value)
        }
        Expr::SystemVariable { name, global } => env.system_variable(name, *global),
        Expr::Subquery(plan) => {
            let rows = env.subquery(plan, frame)?;
            if rows.len() > 1 && env.dialect() != Dialect::Sqlite {
                return Err(
                    errors::mysql(1242, "21000", "Subquery returns more than 1 row").into(),
                );
            }
            Ok(rows.first().map_or(Value::Null, |row| row[0].clone()))
        }
        Expr::Exists(plan) => {
            let rows = env.subquery(plan, frame)?;
            Ok(bool_value(Some(!rows.is_empty())))
        }
        Expr::Default => Err(DbError::unsupported("DEFAULT in an expression", None).into()),
    }
}

fn negate(value: Option<bool>, negated: bool) -> Value {
    bool_value(value.map(|b| b != negated))
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// The outcome of a comparison; `None` is NULL.
pub fn compared(op: Compare, by: Comparison, left: &Value, right: &Value) -> Option<bool> {
    if left.is_null() || right.is_null() {
        let both = left.is_null() && right.is_null();
        return match op {
            Compare::Is => Some(both),
            Compare::IsNot => Some(!both),
            _ => None,
        };
    }
    Some(holds(op, compare(by, left, right)))
}

fn holds(op: Compare, ordering: Ordering) -> bool {
    match op {
        Compare::Eq | Compare::Is => ordering == Ordering::Equal,
        Compare::Ne | Compare::IsNot => ordering != Ordering::Equal,
        Compare::Lt => ordering == Ordering::Less,
        Compare::Le => ordering != Ordering::Greater,
        Compare::Gt => ordering == Ordering::Greater,
        Compare::Ge => ordering != Ordering::Less,
    }
}

fn compare_rows<E: Env>(
    op: Compare,
    fields: &[(Expr, Expr, Comparison)],
    frame: &Frame<'_>,
    env: &mut E,
) -> Result<Value, Stop> {
    let mut pairs = Vec::new();
    for (left, right, by) in fields {
        pairs.push((eval(left, frame, env)?, eval(right, frame, env)?, *by));
    }
    if matches!(op, Compare::Is | Compare::IsNot) {
        let same = pairs
            .iter()
            .all(|(l, r, by)| compared(Compare::Is, *by, l, r) == Some(true));
        return Ok(bool_value(Some(same == (op == Compare::Is))));
    }
    if matches!(op, Compare::Eq | Compare::Ne) {
        // Not `try_fold`: an unknown part does not end it, a later one may still be false.
        let mut equal = Some(true);
        for (l, r, by) in &pairs {
            equal = and(equal, compared(Compare::Eq, *by, l, r));
        }
        return Ok(negate(equal, op == Compare::Ne));
    }
    for (left, right, by) in &pairs {
        match compared(Compare::Eq, *by, left, right) {
            None => return Ok(Value::Null),
            Some(true) => {}
            Some(false) => return Ok(bool_value(compared(op, *by, left, right))),
        }
    }
    Ok(bool_value(Some(matches!(op, Compare::Le | Compare::Ge))))
}

fn in_row_list<E: Env>(
    left: &[Expr],
    items: &[Vec<(Expr, Comparison)>],
    negated: bool,
    frame: &Frame<'_>,
    env: &mut E,
) -> Result<Value, Stop> {
    let mut values = Vec::new();
    for field in left {
        values.push(eval(field, frame, env)?);
    }
    let mut found = Some(false);
    for item in items {
        let mut equal = Some(true);
        for (value, (field, by)) in values.iter().zip(item) {
            let field = eval(field, frame, env)?;
            equal = and(equal, compared(Compare::Eq, *by, value, &field));
        }
        found = or(found, equal);
    }
    Ok(negate(found, negated))
}

fn any_of_rows<E: Env>(
    op: Compare,
    all: bool,
    left: &[(Expr, Comparison)],
    plan: &SubPlan,
    frame: &Frame<'_>,
    env: &mut E,
) -> Result<Value, Stop> {
    let mut values = Vec::new();
    for (field, by) in left {
        values.push((eval(field, frame, env)?, *by));
    }
    let rows = env.subquery(plan, frame)?;
    let mut result = Some(all);
    for row in rows.iter() {
        let mut this = Some(true);
        for ((value, by), other) in values.iter().zip(row.iter()) {
            this = and(this, compared(op, *by, value, other));
        }
        result = match all {
            true => and(result, this),
            false => or(result, this),
        };
        if result == Some(!all) {
            break;
        }
    }
    Ok(bool_value(result))
}

fn matches<E: Env>(
    kind: Match,
    parts: &(Expr, Expr, Option<Expr>),
    collation: Collation,
    negated: bool,
    frame: &Frame<'_>,
    env: &mut E,
) -> Result<Value, Stop> {
    let text = eval(&parts.0, frame, env)?;
    let pattern = eval(&parts.1, frame, env)?;
    let escape = match &parts.2 {
        Some(escape) => Some(eval(escape, frame, env)?),
        None => None,
    };
    if text.is_null() || pattern.is_null() {
        return Ok(Value::Null);
    }
    let sqlite = env.dialect() == Dialect::Sqlite;
    let as_text = |value: &Value| match sqlite {
        true => sqlite_text(value),
        false => mysql_text(value),
    };
    let (text, pattern) = (as_text(&text), as_text(&pattern));
    let found = match kind {
        Match::Like => {
            let escape = match &escape {
                Some(value) => as_text(value).chars().next(),
                None if sqlite => None,
                None => Some('\\'),
            };
            let collation = if sqlite { Collation::NoCase } else { collation };
            collate::like(collation, &text, &pattern, escape)
        }
        Match::Glob => collate::glob(&text, &pattern),
        Match::Regexp => return Err(DbError::unsupported("REGEXP", None).into()),
    };
    Ok(bool_value(Some(found != negated)))
}

fn out_of_range(what: &str) -> Stop {
    errors::mysql(1690, "22003", format!("{what} value is out of range")).into()
}

fn unary(op: Unary, numbers: Numbers, value: &Value) -> Result<Value, Stop> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    match (op, numbers) {
        (Unary::Negate, Numbers::Dynamic) => Ok(match numeric(value) {
            Value::Int(i) => i
                .checked_neg()
                .map_or(Value::Float(-(i as f64)), Value::Int),
            other => Value::Float(-as_float(&other)),
        }),
        (Unary::BitNot, Numbers::Dynamic) => Ok(Value::Int(!as_int_cut(value))),
        (Unary::Negate, Numbers::Double) => Ok(Value::Float(-as_float(value))),
        (Unary::Negate, Numbers::Decimal { scale }) => {
            Ok(Value::Decimal(round_decimal(-as_decimal(value), scale)))
        }
        (Unary::Negate, _) => as_int_rounded(value)
            .and_then(i64::checked_neg)
            .map(Value::Int)
            .ok_or_else(|| out_of_range("BIGINT")),
        (Unary::BitNot, _) => Ok(unsigned_value(!bits(value))),
    }
}

/// A value as 64 bits (MySQL's bit operators).
fn bits(value: &Value) -> u64 {
    match value {
        Value::Int(i) => *i as u64,
        Value::Decimal(d) => d.round().to_u64().unwrap_or(0),
        other => as_int_rounded(other).unwrap_or(0) as u64,
    }
}

fn unsigned_value(bits: u64) -> Value {
    match i64::try_from(bits) {
        Ok(i) => Value::Int(i),
        Err(_) => Value::Decimal(Decimal::from(bits)),
    }
}

/// A value as SQLite's arithmetic sees it: an integer or a floating-point number.
fn numeric(value: &Value) -> Value {
    match value {
        Value::Int(_) | Value::Float(_) => value.clone(),
        Value::Bool(b) => Value::Int(i64::from(*b)),
        Value::Bytes(bytes) => number_of_text(&String::from_utf8_lossy(bytes)).0,
        other => number_of_text(&sqlite_text(other)).0,
    }
}

fn binary(op: Binary, numbers: Numbers, left: &Value, right: &Value) -> Result<Value, Stop> {
    match numbers {
        Numbers::Dynamic => Ok(dynamic(op, left, right)),
        Numbers::Int => integers(op, left, right, false),
        Numbers::Unsigned => match op {
            Binary::BitAnd => Ok(unsigned_value(bits(left) & bits(right))),
            Binary::BitOr => Ok(unsigned_value(bits(left) | bits(right))),
            Binary::BitXor => Ok(unsigned_value(bits(left) ^ bits(right))),
            Binary::ShiftLeft => Ok(unsigned_value(shift(bits(left), bits(right), true))),
            Binary::ShiftRight => Ok(unsigned_value(shift(bits(left), bits(right), false))),
            _ => integers(op, left, right, true),
        },
        Numbers::Decimal { scale } => decimals(op, left, right, scale),
        Numbers::Double => Ok(doubles(op, as_float(left), as_float(right))),
    }
}

fn shift(bits: u64, by: u64, left: bool) -> u64 {
    match u32::try_from(by) {
        Ok(by) if by < 64 && left => bits << by,
        Ok(by) if by < 64 => bits >> by,
        _ => 0,
    }
}

/// SQLite: integers as long as they fit, else floating point.
fn dynamic(op: Binary, left: &Value, right: &Value) -> Value {
    match op {
        Binary::Concat => {
            let text = format!("{}{}", sqlite_text(left), sqlite_text(right));
            return Value::text(text);
        }
        Binary::BitAnd => return Value::Int(as_int_cut(left) & as_int_cut(right)),
        Binary::BitOr => return Value::Int(as_int_cut(left) | as_int_cut(right)),
        Binary::ShiftLeft => return Value::Int(sqlite_shift(as_int_cut(left), as_int_cut(right))),
        Binary::ShiftRight => {
            let by = as_int_cut(right);
            return Value::Int(sqlite_shift(as_int_cut(left), by.saturating_neg()));
        }
        _ => {}
    }
    let (l, r) = (numeric(left), numeric(right));
    if let (Value::Int(a), Value::Int(b)) = (&l, &r) {
        let whole = match op {
            Binary::Add => a.checked_add(*b),
            Binary::Subtract => a.checked_sub(*b),
            Binary::Multiply => a.checked_mul(*b),
            Binary::Divide if *b == 0 => return Value::Null,
            Binary::Divide => a.checked_div(*b),
            Binary::Modulo if *b == 0 => return Value::Null,
            Binary::Modulo => Some(a.checked_rem(*b).unwrap_or(0)),
            _ => None,
        };
        if let Some(whole) = whole {
            return Value::Int(whole);
        }
    }
    let (a, b) = (as_float(&l), as_float(&r));
    let result = match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide if b == 0.0 => return Value::Null,
        Binary::Divide => a / b,
        Binary::Modulo => {
            let (a, b) = (a as i64, b as i64);
            if b == 0 {
                return Value::Null;
            }
            a.checked_rem(b).unwrap_or(0) as f64
        }
        _ => return Value::Null,
    };
    match result.is_nan() {
        true => Value::Null,
        false => Value::Float(result),
    }
}

fn sqlite_shift(value: i64, by: i64) -> i64 {
    match by {
        64.. => 0,
        0.. => value << by,
        -63..0 => value >> -by,
        _ if value < 0 => -1,
        _ => 0,
    }
}

/// MySQL: `BIGINT` and `BIGINT UNSIGNED`.
fn integers(op: Binary, left: &Value, right: &Value, unsigned: bool) -> Result<Value, Stop> {
    let whole = |value: &Value| round_decimal(as_decimal(value), 0).to_i128().unwrap_or(0);
    let (a, b) = (whole(left), whole(right));
    let result = match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a.checked_mul(b).ok_or_else(|| out_of_range("BIGINT"))?,
        Binary::IntDivide | Binary::Modulo if b == 0 => return Ok(Value::Null),
        Binary::IntDivide => {
            let quotient = as_decimal(left)
                .checked_div(as_decimal(right))
                .ok_or_else(|| out_of_range("BIGINT"))?;
            quotient.trunc().to_i128().unwrap_or(0)
        }
        Binary::Modulo => a % b,
        _ => return Err(DbError::unsupported("this operator on integers", None).into()),
    };
    if unsigned {
        return match u64::try_from(result) {
            Ok(bits) => Ok(unsigned_value(bits)),
            Err(_) => Err(out_of_range("BIGINT UNSIGNED")),
        };
    }
    match i64::try_from(result) {
        Ok(i) => Ok(Value::Int(i)),
        Err(_) => Err(out_of_range("BIGINT")),
    }
}

fn decimals(op: Binary, left: &Value, right: &Value, scale: u8) -> Result<Value, Stop> {
    let (a, b) = (as_decimal(left), as_decimal(right));
    let result = match op {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide | Binary::Modulo if b.is_zero() => return Ok(Value::Null),
        Binary::Divide => a.checked_div(b),
        Binary::Modulo => a.checked_rem(b),
        _ => return Err(DbError::unsupported("this operator on decimals", None).into()),
    };
    match result {
        Some(result) => Ok(Value::Decimal(round_decimal(result, scale))),
        None => Err(out_of_range("DECIMAL")),
    }
}

fn doubles(op: Binary, a: f64, b: f64) -> Value {
    let result = match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide | Binary::Modulo if b == 0.0 => return Value::Null,
        Binary::Divide => a / b,
        Binary::Modulo => a % b,
        _ => return Value::Null,
    };
    Value::Float(result)
}

fn date_add(date: &Value, amount: &Value, unit: IntervalUnit, subtract: bool) -> Value {
    if amount.is_null() {
        return Value::Null;
    }
    let Some(begin) = as_datetime(date) else {
        return Value::Null;
    };
    let sign = if subtract { -1 } else { 1 };
    let whole = as_int_rounded(amount).unwrap_or(0) * sign;
    let micros = match unit {
        IntervalUnit::Microsecond => whole,
        IntervalUnit::Second => {
            let micros = as_decimal(amount) * Decimal::from(1_000_000);
            micros.round().to_i64().unwrap_or(0) * sign
        }
        IntervalUnit::Minute => whole * 60_000_000,
        IntervalUnit::Hour => whole * 3_600_000_000,
        IntervalUnit::Day => whole * civil::DAY_MICROS,
        IntervalUnit::Week => whole * 7 * civil::DAY_MICROS,
        IntervalUnit::Month => temporal::add_months(begin, whole) - begin,
        IntervalUnit::Quarter => temporal::add_months(begin, whole * 3) - begin,
        IntervalUnit::Year => temporal::add_months(begin, whole * 12) - begin,
    };
    let end = begin + micros;
    match date {
        Value::Date(_) if unit.is_whole_days() => {
            let days = end.div_euclid(civil::DAY_MICROS);
            i32::try_from(days).map_or(Value::Null, Value::Date)
        }
        // A text stays a text.
        Value::Text(text) if unit.is_whole_days() && !text.contains(':') => {
            Value::text(civil::date(end.div_euclid(civil::DAY_MICROS)))
        }
        Value::Text(_) => {
            let fsp = if end % 1_000_000 == 0 { 0 } else { 6 };
            Value::text(temporal::datetime_text(end, fsp))
        }
        _ => Value::Timestamp(end),
    }
}

fn cast(value: Value, to: &CastTarget) -> Result<Value, Stop> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    match to {
        CastTarget::Affinity(affinity) => Ok(sqlite_cast(value, *affinity)),
        CastTarget::Signed => Ok(Value::Int(match &value {
            Value::Text(_) | Value::Bytes(_) => as_int_cut(&value),
            other => as_int_rounded(other).unwrap_or(i64::MAX),
        })),
        CastTarget::Unsigned => Ok(match &value {
            Value::Text(_) | Value::Bytes(_) => unsigned_value(as_int_cut(&value) as u64),
            other => unsigned_value(bits(other)),
        }),
        CastTarget::Declared(declared) => super::store::convert(declared, value),
    }
}

/// `CAST` of SQLite ("SQL Language Expressions", section 13).
fn sqlite_cast(value: Value, affinity: Affinity) -> Value {
    match affinity {
        Affinity::Text => Value::Text(sqlite_text(&value)),
        Affinity::Blob => match value {
            Value::Bytes(_) => value,
            other => Value::Bytes(sqlite_text(&other).as_bytes().into()),
        },
        Affinity::Integer => match value {
            Value::Float(x) => Value::Int(x as i64),
            other => Value::Int(as_int_cut(&other)),
        },
        Affinity::Real => Value::Float(as_float(&value)),
        Affinity::Numeric => match &value {
            Value::Text(_) | Value::Bytes(_) => {
                let number = numeric(&value);
                apply_affinity(number, Affinity::Numeric)
            }
            _ => value,
        },
    }
}
