//! The value of an [`Expr`].

use std::cmp::Ordering;
use std::ops::Range;

use rowlock_model::Value;

use super::{Expr, Kind, Name, Node, Operator};

/// Where the names of an expression have their values.
pub trait Environment {
    /// The value of a name.
    fn value(&self, name: &Name) -> Value;
}

/// An expression has no value: the types of two operands do not go together, or a number left its
/// range. A mistake in the file that shows only with the data.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// What went wrong.
    pub message: String,
    /// The bytes of the file that it is about.
    pub span: Range<usize>,
}

impl Expr {
    /// Its value.
    ///
    /// # Errors
    /// Operands of types that do not go together, or overflow.
    pub fn value(&self, env: &dyn Environment) -> Result<Value, EvalError> {
        match &self.node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Name(name) => Ok(env.value(name)),
            Node::Not(x) => Ok(match x.truth(env)? {
                Some(b) => Value::Bool(!b),
                None => Value::Null,
            }),
            Node::Negate(x) => match x.value(env)? {
                Value::Null => Ok(Value::Null),
                Value::Int(i) => self.in_range(i.checked_neg()),
                other => Err(self.error(format!("`{other}` is not an integer"))),
            },
            Node::IsNull(x, negated) => Ok(Value::Bool(x.value(env)?.is_null() != *negated)),
            Node::Binary(operator, left, right) => self.binary(*operator, left, right, env),
        }
    }

    /// Whether it is true; null counts as not.
    ///
    /// # Errors
    /// As [`value`](Self::value), and if it is not a condition.
    pub fn holds(&self, env: &dyn Environment) -> Result<bool, EvalError> {
        Ok(self.truth(env)? == Some(true))
    }

    fn truth(&self, env: &dyn Environment) -> Result<Option<bool>, EvalError> {
        match self.value(env)? {
            Value::Null => Ok(None),
            Value::Bool(b) => Ok(Some(b)),
            other => Err(self.error(format!("`{other}` is neither true nor false"))),
        }
    }

    fn binary(
        &self,
        operator: Operator,
        left: &Expr,
        right: &Expr,
        env: &dyn Environment,
    ) -> Result<Value, EvalError> {
        use Operator::{Add, And, Multiply, Or, Subtract};
        if matches!(operator, And | Or) {
            // The side that decides alone; `and` is decided by false, `or` by true.
            let decisive = operator == Or;
            let l = left.truth(env)?;
            if l == Some(decisive) {
                return Ok(Value::Bool(decisive));
            }
            let r = right.truth(env)?;
            return Ok(match (l, r) {
                (_, Some(b)) if b == decisive => Value::Bool(decisive),
                (Some(_), Some(_)) => Value::Bool(!decisive),
                _ => Value::Null,
            });
        }
        let (l, r) = (left.value(env)?, right.value(env)?);
        if l.is_null() || r.is_null() {
            return Ok(Value::Null);
        }
        if matches!(operator, Add | Subtract | Multiply) {
            let (Value::Int(l), Value::Int(r)) = (&l, &r) else {
                return Err(self.error(format!("`{l}` and `{r}` are not both integers")));
            };
            return self.in_range(match operator {
                Add => l.checked_add(*r),
                Subtract => l.checked_sub(*r),
                _ => l.checked_mul(*r),
            });
        }
        let order = compare(&l, &r)
            .ok_or_else(|| self.error(format!("`{l}` and `{r}` cannot be compared")))?;
        Ok(Value::Bool(match operator {
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater,
            Operator::Greater => order == Ordering::Greater,
            _ => order != Ordering::Less,
        }))
    }

    fn in_range(&self, value: Option<i64>) -> Result<Value, EvalError> {
        value
            .map(Value::Int)
            .ok_or_else(|| self.error("the integer leaves 64 bits".into()))
    }

    fn error(&self, message: String) -> EvalError {
        EvalError {
            message,
            span: self.span.clone(),
        }
    }
}

/// The order of two values of one kind; `None` if they are of different kinds.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    use rust_decimal::Decimal;
    use rust_decimal::prelude::ToPrimitive;

    if Kind::of(left) != Kind::of(right) {
        return None;
    }
    let decimal = |v: &Value| match v {
        Value::Int(i) => Some(Decimal::from(*i)),
        Value::Decimal(d) => Some(*d),
        _ => None,
    };
    let float = |v: &Value| match v {
        Value::Float(x) => Some(*x),
        Value::Int(i) => i.to_f64(),
        Value::Decimal(d) => d.to_f64(),
        _ => None,
    };
    match (left, right) {
        (Value::Text(l), Value::Text(r)) => Some(l.as_bytes().cmp(r.as_bytes())),
        (Value::Bool(l), Value::Bool(r)) => Some(l.cmp(r)),
        (Value::TimestampTz(l), Value::TimestampTz(r)) => Some(l.cmp(r)),
        (Value::Timestamp(l), Value::Timestamp(r)) => Some(l.cmp(r)),
        (Value::Date(l), Value::Date(r)) => Some(l.cmp(r)),
        (Value::Time(l), Value::Time(r)) => Some(l.cmp(r)),
        (Value::Bytes(l), Value::Bytes(r)) => Some(l.cmp(r)),
        _ => match (decimal(left), decimal(right)) {
            (Some(l), Some(r)) => Some(l.cmp(&r)),
            _ => float(left)?.partial_cmp(&float(right)?),
        },
    }
}
