//! Evaluation of expressions.

use std::cmp::Ordering;
use std::rc::Rc;

use rowlock_model::{DbError, Dialect, Row, Value};

use super::arithmetic::{binary, cast, date_add, unary};
use super::collate;
use super::errors;
use super::expr::{Compare, Comparison, Expr, Match};
use super::function;
use super::query::{Cte, SubPlan};
use super::storage::{Host, Stop};
use super::types::{Affinity, Collation};
use super::value::{apply_affinity, compare, mysql_text, sqlite_text, truth};

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
            Ok(match unary(*op, *numbers, &value)? {
                Value::Float(0.0) if env.dialect() == Dialect::MariaDb => Value::Float(0.0),
                value => value,
            })
        }
        Expr::Binary { op, numbers, sides } => {
            let left = eval(&sides.0, frame, env)?;
            let right = eval(&sides.1, frame, env)?;
            if left.is_null() || right.is_null() {
                return Ok(Value::Null);
            }
            let value = binary(*op, *numbers, &left, &right)?;
            Ok(match value {
                // MariaDB has no negative zero.
                Value::Float(0.0) if env.dialect() == Dialect::MariaDb => Value::Float(0.0),
                value => value,
            })
        }
        Expr::DateAdd {
            sides,
            unit,
            subtract,
        } => {
            let date = eval(&sides.0, frame, env)?;
            let amount = eval(&sides.1, frame, env)?;
            Ok(date_add(&date, &amount, *unit, *subtract, env.dialect()))
        }
        Expr::Cast { expr, to } => {
            let value = eval(expr, frame, env)?;
            cast(value, to, env.dialect())
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
