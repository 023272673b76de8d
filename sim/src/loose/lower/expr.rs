//! Expressions.

use std::str::FromStr;

use rowlock_model::{DbError, Dialect, Value};
use rust_decimal::Decimal;

use super::rules::{self, Typed};
use super::{Clause, Lowering};
use crate::loose::ast::{self, Node, NodeKind, TypeName};
use crate::loose::errors;
use crate::loose::expr::{Binary, CastTarget, Compare, Comparison, Expr, Numbers, Unary};
use crate::loose::query::{Kind, SubPlan, Wanted};
use crate::loose::types::{Affinity, Collation, DeclaredType};
use crate::loose::walk;

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
                let kind = match name {
                    "transaction_isolation" | "tx_isolation" | "sql_mode" | "version" => Kind::Text,
                    _ => Kind::Int,
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
    fn truth(&self, expr: Expr, at: usize) -> Typed {
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

    pub(super) fn comparison(&self, left: &Typed, right: &Typed) -> Comparison {
        rules::comparison(&left.ty, &right.ty, self.dialect)
    }

    fn integer(&self, text: &str, at: usize) -> Result<Typed, DbError> {
        if let Ok(i) = text.parse() {
            return Ok(self.plain(Expr::Const(Value::Int(i)), Kind::Int, at));
        }
        match self.is_sqlite() {
            true => self.float(text, at),
            false => self.decimal(text, at),
        }
    }

    fn decimal(&self, text: &str, at: usize) -> Result<Typed, DbError> {
        if self.is_sqlite() {
            return self.float(text, at);
        }
        match Decimal::from_str(text) {
            Ok(d) => {
                let scale = u8::try_from(d.scale()).unwrap_or(28);
                Ok(self.plain(Expr::Const(Value::Decimal(d)), Kind::Decimal(scale), at))
            }
            Err(_) => errors::unsupported("a number of this size", at),
        }
    }

    fn float(&self, text: &str, at: usize) -> Result<Typed, DbError> {
        match text.parse() {
            Ok(x) => Ok(self.plain(Expr::Const(Value::Float(x)), Kind::Double, at)),
            Err(_) => errors::unsupported("a number of this size", at),
        }
    }

    fn temporal(&self, word: &str, text: &str, at: usize) -> Result<Typed, DbError> {
        use crate::loose::temporal;
        let (value, kind) = match word {
            "DATE" => (temporal::parse_date(text).map(Value::Date), Kind::Date),
            "TIME" => (temporal::parse_time(text).map(Value::Time), Kind::Time(6)),
            _ => (
                temporal::parse_datetime(text).map(Value::Timestamp),
                Kind::DateTime(temporal::digits_of_fraction(text)),
            ),
        };
        match value {
            Some(value) => Ok(self.plain(Expr::Const(value), kind, at)),
            None => Err(
                errors::mysql(1525, "HY000", format!("Incorrect {word} value: '{text}'")).at(at),
            ),
        }
    }

    fn user_variable(&self, name: &str, assign: Option<Typed>, at: usize) -> Typed {
        let kind = match &assign {
            Some(value) => value.ty.kind,
            None => Kind::Any,
        };
        let expr = Expr::UserVariable {
            name: name.into(),
            assign: assign.map(|value| Box::new(value.expr)),
        };
        self.plain(expr, kind, at)
    }

    /// `VALUES(c)` in `ON DUPLICATE KEY UPDATE`: the column of entry 1.
    fn values_of(&mut self, column: &ast::Ident, at: usize) -> Result<Typed, DbError> {
        let level = self.level();
        let found = level.range.get(1).and_then(|entry| {
            let position = entry
                .columns
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(&column.name))?;
            Some((position, entry.columns[position].ty.clone()))
        });
        match found {
            Some((position, ty)) => Ok(Typed {
                expr: Expr::Column {
                    level: 0,
                    entry: 1,
                    column: position as u32,
                },
                ty,
                at,
            }),
            None => Err(self.no_such_column(&column.name, at)),
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

    /// The fields of a row, or the one expression.
    fn fields(&mut self, node: &Node) -> Result<Vec<Typed>, DbError> {
        match &node.kind {
            NodeKind::Row(items) => items.iter().map(|item| self.expr(item)).collect(),
            _ => Ok(vec![self.expr(node)?]),
        }
    }

    fn wrong_degree(&self, wanted: usize, at: usize) -> DbError {
        errors::either(
            self.dialect,
            1241,
            "21000",
            format!("Operand should contain {wanted} column(s)"),
            "row value misused",
        )
        .at(at)
    }

    fn compare(
        &mut self,
        op: Compare,
        left: &Node,
        right: &Node,
        at: usize,
    ) -> Result<Typed, DbError> {
        if let (NodeKind::Row(_), NodeKind::Subquery(_)) = (&left.kind, &right.kind) {
            return errors::unsupported("comparing a row with a sub-select", at);
        }
        if matches!(left.kind, NodeKind::Row(_)) || matches!(right.kind, NodeKind::Row(_)) {
            let (left, right) = (self.fields(left)?, self.fields(right)?);
            if left.len() != right.len() {
                return Err(self.wrong_degree(left.len(), at));
            }
            let fields = left
                .into_iter()
                .zip(right)
                .map(|(l, r)| {
                    let by = self.comparison(&l, &r);
                    (l.expr, r.expr, by)
                })
                .collect();
            return Ok(self.truth(Expr::CompareRows { op, fields }, at));
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        Ok(self.truth(self.compared(op, left, right), at))
    }

    pub(super) fn compared(&self, op: Compare, left: Typed, right: Typed) -> Expr {
        let by = self.comparison(&left, &right);
        Expr::Compare {
            op,
            by,
            sides: Box::new((left.expr, right.expr)),
        }
    }

    fn in_list(
        &mut self,
        expr: &Node,
        items: &[Node],
        negated: bool,
        at: usize,
    ) -> Result<Typed, DbError> {
        if let NodeKind::Row(_) = &expr.kind {
            if self.is_sqlite() {
                return Err(self.wrong_degree(1, at));
            }
            let left = self.fields(expr)?;
            let mut lists = Vec::new();
            for item in items {
                let fields = self.fields(item)?;
                if fields.len() != left.len() {
                    return Err(self.wrong_degree(left.len(), item.at));
                }
                let pairs = left.iter().zip(fields);
                lists.push(
                    pairs
                        .map(|(l, r)| {
                            let by = self.comparison(l, &r);
                            (r.expr, by)
                        })
                        .collect(),
                );
            }
            let found = Expr::InRowList {
                left: left.into_iter().map(|field| field.expr).collect(),
                items: lists,
                negated,
            };
            return Ok(self.truth(found, at));
        }
        let left = self.expr(expr)?;
        let mut list = Vec::new();
        for item in items {
            let item = self.expr(item)?;
            let by = match self.is_sqlite() {
                // The affinity of the left side is applied to both ("Expressions", section 10).
                true => {
                    let affinity = left.ty.affinity.filter(|a| *a != Affinity::Blob);
                    Comparison::Classes {
                        left: affinity,
                        right: affinity,
                        collation: left.ty.collation,
                    }
                }
                false => self.comparison(&left, &item),
            };
            list.push((item.expr, by));
        }
        let found = Expr::InList {
            expr: Box::new(left.expr),
            items: list,
            negated,
        };
        Ok(self.truth(found, at))
    }

    fn any_of_rows(
        &mut self,
        op: Compare,
        all: bool,
        left: &Node,
        query: &ast::Query,
        at: usize,
    ) -> Result<Typed, DbError> {
        let fields = self.fields(left)?;
        let plan = self.subplan(query, Wanted::Rows, fields.len())?;
        let columns = plan.query.columns.clone();
        let left = fields
            .into_iter()
            .zip(&columns)
            .map(|(field, column)| {
                let by = rules::comparison(&field.ty, &column.ty, self.dialect);
                (field.expr, by)
            })
            .collect();
        let any = Expr::AnyOfRows {
            op,
            all,
            left,
            plan: Box::new(plan),
        };
        Ok(self.truth(any, at))
    }

    /// A sub-select of `width` columns (any number if 0).
    pub(super) fn subplan(
        &mut self,
        query: &ast::Query,
        wanted: Wanted,
        width: usize,
    ) -> Result<SubPlan, DbError> {
        let id = self.next_subplan();
        let before = std::mem::replace(&mut self.clause, Clause::Fields);
        let lowered = self.query(query);
        self.clause = before;
        let lowered = lowered?;
        if width > 0 && lowered.columns.len() != width {
            let got = lowered.columns.len();
            return Err(errors::either(
                self.dialect,
                1241,
                "21000",
                format!("Operand should contain {width} column(s)"),
                format!("sub-select returns {got} columns - expected {width}"),
            )
            .at(query.at));
        }
        let once = !walk::depends(&lowered);
        Ok(SubPlan {
            id,
            query: lowered,
            wanted,
            once,
            in_write: self.in_write,
        })
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

    fn cast(&mut self, inner: &Node, ty: &TypeName, at: usize) -> Result<Typed, DbError> {
        let inner = self.expr(inner)?;
        let expr = Box::new(inner.expr);
        if self.is_sqlite() {
            let affinity = Affinity::of_name(&ty.name);
            let mut typed = self.plain(
                Expr::Cast {
                    expr,
                    to: CastTarget::Affinity(affinity),
                },
                Kind::Any,
                at,
            );
            typed.ty.affinity = Some(affinity);
            return Ok(typed);
        }
        let (to, kind) = match ty.name.as_str() {
            "SIGNED" => (CastTarget::Signed, Kind::Int),
            "UNSIGNED" => (CastTarget::Unsigned, Kind::Unsigned),
            _ => {
                let declared = self.mysql_type(ty)?;
                // CAST AS CHAR without a length does not cut.
                let declared = match declared {
                    DeclaredType::Char(_) if ty.numbers.is_empty() => {
                        DeclaredType::Varchar(u32::MAX)
                    }
                    other => other,
                };
                let kind = rules::of_column(&declared, Collation::default_of(self.dialect)).kind;
                (CastTarget::Declared(declared), kind)
            }
        };
        Ok(self.plain(Expr::Cast { expr, to }, kind, at))
    }

    pub(super) fn collation_named(&self, name: &ast::Ident) -> Result<Collation, DbError> {
        match Collation::named(&name.name, self.dialect) {
            Some(collation) => Ok(collation),
            None if self.is_sqlite() => Err(errors::sqlite(
                1,
                format!("no such collation sequence: {}", name.name),
            )
            .at(name.at)),
            None => errors::unsupported(format!("the collation {}", name.name), name.at),
        }
    }

    /// A type of MySQL.
    pub(super) fn mysql_type(&self, ty: &TypeName) -> Result<DeclaredType, DbError> {
        let first = ty.numbers.first().copied();
        let second = ty.numbers.get(1).copied();
        let unsigned = ty.unsigned;
        let int = |bytes| DeclaredType::Int { bytes, unsigned };
        let small = |number: Option<u32>, default: u8| {
            number.map_or(default, |n| u8::try_from(n).unwrap_or(u8::MAX))
        };
        Ok(match ty.name.as_str() {
            "TINYINT" | "BOOL" | "BOOLEAN" => int(1),
            "SMALLINT" => int(2),
            "MEDIUMINT" => int(3),
            "INT" | "INTEGER" => int(4),
            "BIGINT" => int(8),
            "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => DeclaredType::Decimal {
                precision: small(first, 10),
                scale: small(second, 0),
                unsigned,
            },
            "FLOAT" => DeclaredType::Float,
            "DOUBLE" | "REAL" => DeclaredType::Double,
            "CHAR" | "CHARACTER" => DeclaredType::Char(first.unwrap_or(1)),
            "VARCHAR" => match first {
                Some(length) => DeclaredType::Varchar(length),
                None => return errors::unsupported("VARCHAR without a length", ty.at),
            },
            "TINYTEXT" => DeclaredType::Text(255),
            "TEXT" => DeclaredType::Text(65_535),
            "MEDIUMTEXT" => DeclaredType::Text(16_777_215),
            "LONGTEXT" => DeclaredType::Text(u32::MAX),
            "BINARY" => DeclaredType::Binary(first.unwrap_or(1)),
            "VARBINARY" => DeclaredType::Varbinary(first.unwrap_or(1)),
            "TINYBLOB" => DeclaredType::Blob(255),
            "BLOB" => DeclaredType::Blob(65_535),
            "MEDIUMBLOB" => DeclaredType::Blob(16_777_215),
            "LONGBLOB" => DeclaredType::Blob(u32::MAX),
            "DATE" => DeclaredType::Date,
            "TIME" => DeclaredType::Time(small(first, 0)),
            "DATETIME" => DeclaredType::DateTime(small(first, 0)),
            "TIMESTAMP" => DeclaredType::Timestamp(small(first, 0)),
            "YEAR" => DeclaredType::Year,
            "JSON" => match self.dialect {
                // An alias of LONGTEXT on MariaDB.
                Dialect::MariaDb => DeclaredType::Text(u32::MAX),
                _ => DeclaredType::Json,
            },
            "ENUM" => {
                let labels = ty.labels.iter().map(|label| label.as_str().into());
                DeclaredType::Enum(labels.collect())
            }
            other => return errors::unsupported(format!("the type {other}"), ty.at),
        })
    }
}
