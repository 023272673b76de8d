//! Expressions.

use rowlock_model::{DbError, Dialect, Value};

use super::Lowering;
use super::rules::{self, Typed};
use crate::loose::ast::{Node, NodeKind};
use crate::loose::errors;
use crate::loose::expr::{Binary, Compare, Expr, Match, Numbers, Unary};
use crate::loose::query::{Kind, Ty, Wanted};
use crate::loose::types::Collation;
use crate::loose::value::as_decimal;

impl Lowering<'_> {
    /// An expression of one column.
    pub(super) fn expr(&mut self, node: &Node) -> Result<Typed, DbError> {
        let at = node.at;
        match &node.kind {
            NodeKind::Null => Ok(self.plain(Expr::Const(Value::Null), Kind::Null, at)),
            NodeKind::Bool(b) => {
                let expr = Expr::Const(Value::Int(i64::from(*b)));
                Ok(self.typed(expr, rules::truth(self.dialect), at))
            }
            NodeKind::Integer(text) => self.integer(text, at),
            NodeKind::Decimal(text) => self.decimal(text, at),
            NodeKind::Float(text) => self.float(text, at),
            NodeKind::Text(text) => {
                let value = Value::text(text.as_str());
                let ty = rules::text(text.chars().count() as u32, self.dialect);
                Ok(self.typed(Expr::Const(value), ty, at))
            }
            NodeKind::Blob(bytes) => {
                let value = Value::Bytes(bytes.as_slice().into());
                let mut ty = rules::plain(Kind::Bytes, self.dialect);
                ty.width.chars = bytes.len() as u32;
                Ok(self.typed(Expr::Const(value), ty, at))
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
                let kind = self.catalog.kind_of_variable(name);
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
                if *kind == Match::Regexp && self.is_sqlite() {
                    return Err(errors::sqlite(1, "no such function: REGEXP").at(at));
                }
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
                if self.is_sqlite() {
                    inner.ty.declared = None;
                }
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
                let ty = rules::date_add(&expr.ty, &amount.ty, *unit, self.dialect);
                if matches!((expr.ty.kind, ty.kind), (Kind::Time(_), Kind::DateTime(_))) {
                    return errors::unsupported("a time of day as a point in time", at);
                }
                let add = Expr::DateAdd {
                    sides: Box::new((expr.expr, amount.expr)),
                    unit: *unit,
                    subtract: *subtract,
                };
                Ok(self.typed(add, ty, at))
            }
            NodeKind::TimestampDiff(unit, from, to) => {
                let unit = Expr::Const(Value::Int(*unit as i64));
                let (from, to) = (self.expr(from)?, self.expr(to)?);
                if matches!(from.ty.kind, Kind::Time(_)) || matches!(to.ty.kind, Kind::Time(_)) {
                    return errors::unsupported("a time of day as a point in time", at);
                }
                let args = vec![unit, from.expr, to.expr];
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

    pub(super) fn typed(&self, expr: Expr, ty: Ty, at: usize) -> Typed {
        Typed { expr, ty, at }
    }

    /// A condition.
    pub(super) fn truth(&self, expr: Expr, at: usize) -> Typed {
        self.typed(expr, rules::truth(self.dialect), at)
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
            // Of a number that is negative already MySQL makes a decimal.
            let again = self.dialect == Dialect::MySql && matches!(value, Value::Int(i) if *i < 0);
            if let (Some(value), false) = (negative, again) {
                let mut ty = inner.ty;
                if self.dialect == Dialect::MariaDb && matches!(value, Value::Int(_)) {
                    ty = rules::literal(&value, self.dialect);
                }
                return Ok(self.typed(Expr::Const(value), ty, at));
            }
            if again {
                let ty = rules::decimal(inner.ty.width.digits, 0, self.dialect);
                let value = as_decimal(value);
                return Ok(self.typed(Expr::Const(Value::Decimal(-value)), ty, at));
            }
        }
        if op == Unary::Plus && matches!(inner.expr, Expr::Const(_)) {
            return Ok(inner);
        }
        let (numbers, ty) = match op {
            Unary::Plus => {
                let mut ty = inner.ty.clone();
                ty.affinity = None;
                ty.declared = None;
                (Numbers::Dynamic, ty)
            }
            Unary::BitNot => match self.is_sqlite() {
                true => (Numbers::Dynamic, rules::plain(Kind::Any, self.dialect)),
                false => (
                    Numbers::Unsigned,
                    rules::plain(Kind::Unsigned, self.dialect),
                ),
            },
            Unary::Negate => rules::negation(&inner.ty, self.dialect),
        };
        let expr = Expr::Unary {
            op,
            numbers,
            expr: Box::new(inner.expr),
        };
        Ok(self.typed(expr, ty, at))
    }

    fn binary(
        &mut self,
        op: Binary,
        left: &Node,
        right: &Node,
        at: usize,
    ) -> Result<Typed, DbError> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (numbers, ty) = match op {
            Binary::Concat => (Numbers::Dynamic, rules::plain(Kind::Text, self.dialect)),
            _ => rules::arithmetic(op, &left.ty, &right.ty, self.dialect),
        };
        let expr = Expr::Binary {
            op,
            numbers,
            sides: Box::new((left.expr, right.expr)),
        };
        Ok(self.typed(expr, ty, at))
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
        let mut results = Vec::new();
        for (when, then) in branches {
            let when = self.expr(when)?;
            let when = match &operand {
                Some(operand) => self.compared(Compare::Eq, operand.clone(), when),
                None => when.expr,
            };
            results.push(self.expr(then)?);
            lowered.push(when);
        }
        if let Some(node) = otherwise {
            results.push(self.expr(node)?);
        }
        let (mut results, ty) = self.united(results);
        let otherwise = match otherwise {
            Some(_) => results.pop().unwrap_or(Expr::Const(Value::Null)),
            None => Expr::Const(Value::Null),
        };
        let expr = Expr::Case {
            branches: lowered.into_iter().zip(results).collect(),
            otherwise: Box::new(otherwise),
        };
        Ok(self.typed(expr, ty, at))
    }
}
