//! Expressions.

use rowlock_model::{DbError, Value};

use super::Lowering;
use super::rules::{self, Typed};
use crate::loose::ast::{Node, NodeKind};
use crate::loose::errors;
use crate::loose::expr::{Binary, Compare, Expr, Numbers, Unary};
use crate::loose::query::{Kind, Wanted};
use crate::loose::types::Collation;

impl Lowering<'_> {
    /// An expression of one column.
    pub(super) fn expr(&mut self, node: &Node) -> Result<Typed, DbError> {
        let at = node.at;
        match &node.kind {
            NodeKind::Null => Ok(self.plain(Expr::Const(Value::Null), Kind::Null, at)),
            NodeKind::Bool(b) => {
                Ok(self.plain(Expr::Const(Value::Int(i64::from(*b))), Kind::Int, at))
            }
            NodeKind::Integer(text) => self.integer(text, at),
            NodeKind::Decimal(text) => self.decimal(text, at),
            NodeKind::Float(text) => self.float(text, at),
            NodeKind::Text(text) => {
                let value = Value::text(text.as_str());
                Ok(self.plain(Expr::Const(value), Kind::Text, at))
            }
            NodeKind::Blob(bytes) => {
                let value = Value::Bytes(bytes.as_slice().into());
                Ok(self.plain(Expr::Const(value), Kind::Bytes, at))
            }
            NodeKind::Temporal(word, text) => self.temporal(word, text, at),
            NodeKind::Param(i) => {
                let kind = match self.is_sqlite() {
                    true => Kind::Any,
                    false => self.params.get(*i).copied().unwrap_or(Kind::Any),
                };
                Ok(self.plain(Expr::Param(*i), kind, at))
            }
            NodeKind::Name(parts) => self.name(parts, at),
            NodeKind::UserVariable(name) => Ok(self.user_variable(name, None, at)),
            NodeKind::Assign(name, value) => {
                let value = self.expr(value)?;
                Ok(self.user_variable(name, Some(value), at))
            }
            NodeKind::SystemVariable(name) => {
                let (global, name) = match name.split_once('.') {
                    Some(("global", rest)) => (true, rest),
                    Some(("session" | "local", rest)) => (false, rest),
                    Some(_) => return errors::unsupported("this variable", at),
                    None => (false, name.as_str()),
                };
                let expr = Expr::SystemVariable {
                    name: name.into(),
                    global,
                };
                let kind = match self.catalog.is_text_variable(name) {
                    true => Kind::Text,
                    false => Kind::Int,
                };
                Ok(self.plain(expr, kind, at))
            }
            NodeKind::Default(None) => Ok(self.plain(Expr::Default, Kind::Any, at)),
            NodeKind::Default(Some(_)) => errors::unsupported("DEFAULT(column)", at),
            NodeKind::ValuesOf(column) => self.values_of(column, at),
            NodeKind::Unary(op, inner) => self.unary(*op, inner, at),
            NodeKind::Binary(op, left, right) => self.binary(*op, left, right, at),
            NodeKind::Not(inner) => {
                let inner = self.expr(inner)?;
                Ok(self.truth(Expr::Not(Box::new(inner.expr)), at))
            }
            NodeKind::And(left, right) => {
                let mut items = Vec::new();
                self.flatten(left, true, &mut items)?;
                self.flatten(right, true, &mut items)?;
                Ok(self.truth(Expr::And(items), at))
            }
            NodeKind::Or(left, right) => {
                let mut items = Vec::new();
                self.flatten(left, false, &mut items)?;
                self.flatten(right, false, &mut items)?;
                Ok(self.truth(Expr::Or(items), at))
            }
            NodeKind::Xor(left, right) => {
                let sides = Box::new((self.expr(left)?.expr, self.expr(right)?.expr));
                Ok(self.truth(Expr::Xor(sides), at))
            }
            NodeKind::Compare(op, left, right) => self.compare(*op, left, right, at),
            NodeKind::Quantified {
                op,
                all,
                left,
                query,
            } => self.any_of_rows(*op, *all, left, query, at),
            NodeKind::Between {
                expr,
                low,
                high,
                negated,
            } => {
                let (expr, low, high) = (self.expr(expr)?, self.expr(low)?, self.expr(high)?);
                let by = (self.comparison(&expr, &low), self.comparison(&expr, &high));
                let between = Expr::Between {
                    parts: Box::new((expr.expr, low.expr, high.expr)),
                    by,
                    negated: *negated,
                };
                Ok(self.truth(between, at))
            }
            NodeKind::InList {
                expr,
                items,
                negated,
            } => self.in_list(expr, items, *negated, at),
            NodeKind::InSelect {
                expr,
                query,
                negated,
            } => {
                let found = self.any_of_rows(Compare::Eq, false, expr, query, at)?;
                Ok(match negated {
                    true => self.truth(Expr::Not(Box::new(found.expr)), at),
                    false => found,
                })
            }
            NodeKind::IsNull { expr, negated } => {
                let expr = Box::new(self.expr(expr)?.expr);
                let is_null = Expr::IsNull {
                    expr,
                    negated: *negated,
                };
                Ok(self.truth(is_null, at))
            }
            NodeKind::IsTruth {
                expr,
                value,
                negated,
            } => {
                let expr = Box::new(self.expr(expr)?.expr);
                let is = Expr::IsTruth {
                    expr,
                    value: *value,
                    negated: *negated,
                };
                Ok(self.truth(is, at))
            }
            NodeKind::Match {
                kind,
                expr,
                pattern,
                escape,
                negated,
            } => {
                let (expr, pattern) = (self.expr(expr)?, self.expr(pattern)?);
                let escape = match escape {
                    Some(escape) => Some(self.expr(escape)?.expr),
                    None => None,
                };
                let collation = rules::collation(&expr.ty, &pattern.ty);
                let matches = Expr::Match {
                    kind: *kind,
                    parts: Box::new((expr.expr, pattern.expr, escape)),
                    collation,
                    negated: *negated,
                };
                Ok(self.truth(matches, at))
            }
            NodeKind::Case {
                operand,
                branches,
                otherwise,
            } => self.case(operand.as_deref(), branches, otherwise.as_deref(), at),
            NodeKind::Cast(inner, ty) => self.cast(inner, ty, at),
            NodeKind::Binarily(inner) => {
                let mut inner = self.expr(inner)?;
                inner.ty.collation = Collation::Binary;
                inner.ty.coercibility = 0;
                Ok(inner)
            }
            NodeKind::Collate(inner, name) => {
                let mut inner = self.expr(inner)?;
                inner.ty.collation = self.collation_named(name)?;
                inner.ty.coercibility = 0;
                Ok(inner)
            }
            NodeKind::DateAdd {
                expr,
                amount,
                unit,
                subtract,
            } => {
                let (expr, amount) = (self.expr(expr)?, self.expr(amount)?);
                let kind = match expr.ty.kind {
                    Kind::Date if unit.is_whole_days() => Kind::Date,
                    Kind::Date => Kind::DateTime(0),
                    Kind::DateTime(fsp)
                        if *unit == crate::loose::expr::IntervalUnit::Microsecond =>
                    {
                        Kind::DateTime(fsp.max(6))
                    }
                    Kind::DateTime(fsp) => Kind::DateTime(fsp),
                    _ => Kind::DateTime(0),
                };
                let add = Expr::DateAdd {
                    sides: Box::new((expr.expr, amount.expr)),
                    unit: *unit,
                    subtract: *subtract,
                };
                Ok(self.plain(add, kind, at))
            }
            NodeKind::TimestampDiff(unit, from, to) => {
                let unit = Expr::Const(Value::Int(*unit as i64));
                let args = vec![unit, self.expr(from)?.expr, self.expr(to)?.expr];
                let call = Expr::Call {
                    function: crate::loose::function::Function::TimestampDiff,
                    args,
                };
                Ok(self.plain(call, Kind::Int, at))
            }
            NodeKind::Call(call) => self.call(call, node),
            NodeKind::Row(_) => Err(errors::either(
                self.dialect,
                1241,
                "21000",
                "Operand should contain 1 column(s)",
                "row value misused",
            )
            .at(at)),
            NodeKind::Subquery(query) => {
                let plan = self.subplan(query, Wanted::Scalar, 1)?;
                let column = &plan.query.columns[0];
                let mut ty = column.ty.clone();
                if !self.is_sqlite() {
                    ty.declared = None;
                }
                Ok(Typed {
                    expr: Expr::Subquery(Box::new(plan)),
                    ty,
                    at,
                })
            }
            NodeKind::Exists(query) => {
                let plan = self.subplan(query, Wanted::Exists, 0)?;
                Ok(self.truth(Expr::Exists(Box::new(plan)), at))
            }
        }
    }

    pub(super) fn plain(&self, expr: Expr, kind: Kind, at: usize) -> Typed {
        Typed::new(expr, kind, self.dialect, at)
    }

    /// A condition.
    pub(super) fn truth(&self, expr: Expr, at: usize) -> Typed {
        let kind = match self.is_sqlite() {
            true => Kind::Any,
            false => Kind::Int,
        };
        self.plain(expr, kind, at)
    }

    fn flatten(&mut self, node: &Node, and: bool, out: &mut Vec<Expr>) -> Result<(), DbError> {
        match (&node.kind, and) {
            (NodeKind::And(left, right), true) | (NodeKind::Or(left, right), false) => {
                self.flatten(left, and, out)?;
                self.flatten(right, and, out)
            }
            _ => {
                out.push(self.expr(node)?.expr);
                Ok(())
            }
        }
    }

    fn unary(&mut self, op: Unary, inner: &Node, at: usize) -> Result<Typed, DbError> {
        // The smallest integer is written with a minus in front of a number that is none.
        if let (Unary::Negate, NodeKind::Integer(text)) = (op, &inner.kind)
            && text == "9223372036854775808"
        {
            return Ok(self.plain(Expr::Const(Value::Int(i64::MIN)), Kind::Int, at));
        }
        let inner = self.expr(inner)?;
        if op == Unary::Negate
            && let Expr::Const(value) = &inner.expr
        {
            let negative = match value {
                Value::Int(i) => i.checked_neg().map(Value::Int),
                Value::Decimal(d) => Some(Value::Decimal(-*d)),
                Value::Float(x) => Some(Value::Float(-x)),
                _ => None,
            };
            if let Some(value) = negative {
                return Ok(self.plain(Expr::Const(value), inner.ty.kind, at));
            }
        }
        let (numbers, kind) = match op {
            Unary::BitNot => match self.is_sqlite() {
                true => (Numbers::Dynamic, Kind::Any),
                false => (Numbers::Unsigned, Kind::Unsigned),
            },
            Unary::Negate => {
                let signed = match inner.ty.kind {
                    Kind::Unsigned => Kind::Int,
                    other => other,
                };
                rules::arithmetic(Binary::Subtract, Kind::Int, signed, self.dialect)
            }
        };
        let expr = Expr::Unary {
            op,
            numbers,
            expr: Box::new(inner.expr),
        };
        Ok(self.plain(expr, kind, at))
    }

    fn binary(
        &mut self,
        op: Binary,
        left: &Node,
        right: &Node,
        at: usize,
    ) -> Result<Typed, DbError> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (numbers, kind) = match op {
            Binary::Concat => (Numbers::Dynamic, Kind::Text),
            _ => rules::arithmetic(op, left.ty.kind, right.ty.kind, self.dialect),
        };
        let expr = Expr::Binary {
            op,
            numbers,
            sides: Box::new((left.expr, right.expr)),
        };
        Ok(self.plain(expr, kind, at))
    }

    fn case(
        &mut self,
        operand: Option<&Node>,
        branches: &[(Node, Node)],
        otherwise: Option<&Node>,
        at: usize,
    ) -> Result<Typed, DbError> {
        let operand = match operand {
            Some(node) => Some(self.expr(node)?),
            None => None,
        };
        let mut lowered = Vec::new();
        let mut ty = None;
        for (when, then) in branches {
            let when = self.expr(when)?;
            let when = match &operand {
                Some(operand) => self.compared(Compare::Eq, operand.clone(), when),
                None => when.expr,
            };
            let then = self.expr(then)?;
            ty = Some(match &ty {
                Some(ty) => rules::unite(ty, &then.ty, self.dialect),
                None => then.ty.clone(),
            });
            lowered.push((when, then.expr));
        }
        let otherwise = match otherwise {
            Some(node) => {
                let otherwise = self.expr(node)?;
                ty = ty.map(|ty| rules::unite(&ty, &otherwise.ty, self.dialect));
                otherwise.expr
            }
            None => Expr::Const(Value::Null),
        };
        let mut ty = ty.unwrap_or_else(|| rules::plain(Kind::Null, self.dialect));
        ty.affinity = None;
        ty.declared = None;
        Ok(Typed {
            expr: Expr::Case {
                branches: lowered,
                otherwise: Box::new(otherwise),
            },
            ty,
            at,
        })
    }
}
