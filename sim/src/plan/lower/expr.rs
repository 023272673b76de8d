//! Expressions.

use rowlock_model::{DbError, Value};
use sqlparser::ast;
use sqlparser::ast::{BinaryOperator, Expr as Tree, InTarget, Spanned, UnaryOperator};

use super::{Lowering, Typed, absent, constant, end_place, error, place, unsupported};
use crate::plan::expr::function::End;
use crate::plan::expr::{Compare, Comparison, Expr, Function};
use crate::plan::query::{SubPlan, Wanted};
use crate::plan::types::coerce::Context;
use crate::plan::types::{Declared, Type, input};
use crate::plan::walk;
use crate::sql::tokens::{is_known, start_of};

impl Lowering<'_> {
    /// An expression of any type.
    pub(super) fn expr(&mut self, tree: &Tree) -> Result<Typed, DbError> {
        let at = place(tree, self.begin);
        match tree {
            Tree::Identifier(name) => match self.column(name) {
                Ok(typed) => Ok(typed),
                Err(error) => self.word_function(name).ok_or(error),
            },
            Tree::CompoundIdentifier(parts) => self.qualified(parts),
            Tree::QualifiedWildcard(name, _) => self.starred_variable(name),
            Tree::Nested(inner) => self.expr(inner),
            Tree::Value(value) => self.literal(value),
            Tree::Prefixed { prefix, .. } => {
                unsupported(format!("a literal with prefix {prefix}"), at)
            }
            Tree::TypedString(typed) => self.typed_string(typed),
            Tree::Interval(interval) => self.interval(interval, at),
            Tree::Function(function) => self.function(function),
            Tree::UnaryOp { op, expr } => self.unary(*op, expr, at),
            Tree::BinaryOp { left, op, right } => self.binary(left, op, right, at),
            Tree::IsNull(inner) => self.is_null(inner, false),
            Tree::IsNotNull(inner) => self.is_null(inner, true),
            Tree::IsTrue(inner) => self.is_bool(inner, true, false, at),
            Tree::IsNotTrue(inner) => self.is_bool(inner, true, true, at),
            Tree::IsFalse(inner) => self.is_bool(inner, false, false, at),
            Tree::IsNotFalse(inner) => self.is_bool(inner, false, true, at),
            Tree::IsUnknown(inner) => self.is_unknown(inner, false, at),
            Tree::IsNotUnknown(inner) => self.is_unknown(inner, true, at),
            Tree::IsDistinctFrom(left, right) => self.is_distinct(left, right, true, at),
            Tree::IsNotDistinctFrom(left, right) => self.is_distinct(left, right, false, at),
            Tree::In {
                expr,
                target,
                negated,
                global,
            } => {
                absent(*global, "GLOBAL IN", at)?;
                self.in_target(expr, target, *negated, at)
            }
            Tree::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, *negated, low, high, at),
            Tree::Like {
                negated,
                any,
                expr,
                pattern,
                escape_char,
            } => {
                absent(*any, "LIKE ANY", at)?;
                self.like(expr, pattern, escape_char.as_deref(), (false, *negated), at)
            }
            Tree::ILike {
                negated,
                any,
                expr,
                pattern,
                escape_char,
            } => {
                absent(*any, "ILIKE ANY", at)?;
                self.like(expr, pattern, escape_char.as_deref(), (true, *negated), at)
            }
            Tree::AnyOp {
                left,
                compare_op,
                right,
                is_some: _,
            } => self.quantified(left, compare_op, right, false, at),
            Tree::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, compare_op, right, true, at),
            Tree::Cast {
                kind,
                expr,
                data_type,
                format,
            } => {
                absent(format.is_some(), "CAST .. FORMAT", at)?;
                let plain = matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon);
                absent(!plain, "TRY_CAST", at)?;
                let operator = match kind {
                    ast::CastKind::DoubleColon => self.cast_place(expr, at),
                    _ => at,
                };
                self.cast(expr, data_type, at, operator)
            }
            Tree::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let zone = self.expr(time_zone)?;
                let value = self.expr(timestamp)?;
                self.call("timezone", vec![zone, value], at)
            }
            Tree::Extract {
                field,
                syntax: _,
                expr,
            } => {
                let field = field.to_string().to_ascii_lowercase();
                let field = constant(Value::text(field.trim_matches('\'')), Type::Text, at);
                let value = self.expr(expr)?;
                self.call("extract", vec![field, value], at)
            }
            Tree::Ceil { expr, field } | Tree::Floor { expr, field } => {
                let plain = matches!(
                    field,
                    ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime)
                );
                absent(!plain, "CEIL and FLOOR TO", at)?;
                let name = if matches!(tree, Tree::Ceil { .. }) {
                    "ceil"
                } else {
                    "floor"
                };
                self.one_argument(name, expr, at)
            }
            Tree::Position { expr, r#in } => {
                let (part, whole) = (self.expr(expr)?, self.expr(r#in)?);
                self.call("position", vec![whole, part], at)
            }
            Tree::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => self.substring(
                expr,
                substring_from.as_deref(),
                substring_for.as_deref(),
                at,
            ),
            Tree::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                absent(trim_characters.is_some(), "TRIM with a list", at)?;
                self.trim(*trim_where, trim_what.as_deref(), expr, at)
            }
            Tree::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => self.case(operand.as_deref(), conditions, else_result.as_deref(), at),
            Tree::Exists { subquery, negated } => {
                let plan = self.subplan(subquery, Wanted::Exists)?;
                let exists = Expr::Exists(Box::new(plan));
                let expr = if *negated {
                    Expr::Not(Box::new(exists))
                } else {
                    exists
                };
                Ok(Typed::new(expr, Type::Bool, at))
            }
            Tree::Subquery(query) => self.scalar_subquery(query, self.parenthesis_before(at)),
            Tree::Tuple(items) => {
                let items: Vec<&Tree> = items.iter().collect();
                let fields = self.fields(&items)?;
                Ok(Typed::new(Expr::Record(fields), Type::Record, at))
            }
            Tree::Array(array) => self.array(array, at),
            Tree::CompoundFieldAccess { root, access_chain } => {
                self.subscript(root, access_chain, at)
            }
            Tree::Collate { expr, collation } => {
                let name = collation.to_string();
                let plain = matches!(
                    name.trim_matches('"'),
                    "C" | "POSIX" | "default" | "pg_catalog.\"C\""
                );
                absent(!plain, "collations other than C", at)?;
                self.expr(expr)
            }
            other => unsupported(kind_of(other), at),
        }
    }

    fn literal(&mut self, value: &ast::ValueWithSpan) -> Result<Typed, DbError> {
        let at = if is_known(value.span) {
            start_of(value.span)
        } else {
            self.begin
        };
        let open = |s: &str| Ok(constant(Value::text(s), Type::Unknown, at));
        match &value.value {
            ast::Value::Null => Ok(constant(Value::Null, Type::Unknown, at)),
            ast::Value::Boolean(b) => Ok(constant(Value::Bool(*b), Type::Bool, at)),
            ast::Value::Number(text, long) => {
                absent(*long, "numbers with a suffix", at)?;
                number(text, at)
            }
            ast::Value::SingleQuotedString(s) | ast::Value::EscapedStringLiteral(s) => open(s),
            ast::Value::UnicodeStringLiteral(s) => open(s),
            ast::Value::DollarQuotedString(s) => open(&s.value),
            ast::Value::Placeholder(name) => self.parameter(name, at),
            ast::Value::DoubleQuotedString(s) => {
                error("42703", format!("column \"{s}\" does not exist"), at)
            }
            _ => unsupported("this form of literal", at),
        }
    }

    fn parameter(&mut self, name: &str, at: usize) -> Result<Typed, DbError> {
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let Some(index) = number
            .and_then(|n| n.checked_sub(1))
            .filter(|n| *n < 65_535)
        else {
            return error("42P02", format!("there is no parameter {name}"), at);
        };
        if index >= self.variables.numbered {
            return error("42P02", format!("there is no parameter {name}"), at);
        }
        if self.params.len() <= index {
            self.params.resize(index + 1, Type::Unknown);
        }
        Ok(Typed::new(Expr::Param(index), self.params[index], at))
    }

    fn typed_string(&mut self, typed: &ast::TypedString) -> Result<Typed, DbError> {
        let ast::TypedString {
            data_type,
            value,
            uses_odbc_syntax,
        } = typed;
        let literal = self.literal(value)?;
        let at = literal.at;
        absent(*uses_odbc_syntax, "ODBC syntax", at)?;
        let declared = self.data_type(data_type, at)?;
        self.explicit(literal, declared)
    }

    fn interval(&mut self, interval: &ast::Interval, at: usize) -> Result<Typed, DbError> {
        let ast::Interval {
            value,
            leading_field,
            leading_precision,
            last_field,
            fractional_seconds_precision,
        } = interval;
        let odd = leading_precision.is_some()
            || last_field.is_some()
            || fractional_seconds_precision.is_some();
        absent(odd, "an interval with a range of fields", at)?;
        let Tree::Value(literal) = &**value else {
            return unsupported("INTERVAL before an expression", at);
        };
        let typed = self.literal(literal)?;
        let at = typed.at;
        match (&typed.expr, leading_field) {
            (Expr::Const(Value::Text(text)), Some(field)) => {
                let field = field.to_string().to_ascii_lowercase();
                self.interval_field(&text.clone(), &field, at)
            }
            (_, None) => self.explicit(typed, Type::Interval.into()),
            _ => error("42601", "syntax error", at),
        }
    }

    /// A conversion that was asked for.
    fn explicit(&mut self, typed: Typed, target: Declared) -> Result<Typed, DbError> {
        let (ty, at) = (typed.ty, typed.at);
        match self.coerce(typed, target, Context::Explicit)? {
            Some(typed) => Ok(typed),
            None => error(
                "42846",
                format!(
                    "cannot cast type {} to {}",
                    self.type_name(ty),
                    self.type_name(target.ty)
                ),
                at,
            ),
        }
    }

    /// The byte of `::` after an expression.
    fn cast_place(&self, inner: &Tree, at: usize) -> usize {
        let mut earlier = 0;
        let mut tree = inner;
        while let Tree::Cast {
            kind: ast::CastKind::DoubleColon,
            expr,
            ..
        } = tree
        {
            earlier += 1;
            tree = expr;
        }
        let from = end_place(tree, at);
        let rest = self.text.get(from..).unwrap_or_default();
        let found = rest.match_indices("::").nth(earlier);
        found.map_or(at, |(i, _)| from + i)
    }

    /// A cast that is written at `at`; its operator (or the word CAST) at `operator`.
    fn cast(
        &mut self,
        inner: &Tree,
        ty: &ast::DataType,
        at: usize,
        operator: usize,
    ) -> Result<Typed, DbError> {
        let named = self.text.get(operator..).unwrap_or_default();
        let named = named.strip_prefix("::").map_or(operator, |rest| {
            operator + 2 + rest.len() - rest.trim_start().len()
        });
        let declared = self.data_type(ty, named)?;
        // A float of any size, as it stands.
        if let (Tree::Value(value), Type::Float4 | Type::Float8) = (inner, declared.ty)
            && let ast::Value::Number(text, false) = &value.value
        {
            let value = input::parse(text, declared.ty).map_err(|e| e.at(at))?;
            return Ok(constant(value, declared.ty, at));
        }
        // ARRAY[..]::t[] gives the elements their type.
        if let (Tree::Array(array), Type::Array(element)) = (inner, declared.ty) {
            let mut items = Vec::with_capacity(array.elem.len());
            for item in &array.elem {
                let typed = self.expr(item)?;
                let target = Declared {
                    ty: *element,
                    modifier: declared.modifier,
                };
                items.push(self.explicit(typed, target)?.expr);
            }
            return Ok(Typed::new(Expr::Array(items), declared.ty, at));
        }
        let mut typed = self.expr(inner)?;
        self.known_param(&mut typed);
        let at = typed.at;
        let from = typed.ty;
        match self.coerce(typed, declared, Context::Explicit)? {
            Some(typed) => Ok(Typed { at, ..typed }),
            None => error(
                "42846",
                format!(
                    "cannot cast type {} to {}",
                    self.type_name(from),
                    self.type_name(declared.ty)
                ),
                operator,
            ),
        }
    }

    fn unary(&mut self, op: UnaryOperator, inner: &Tree, at: usize) -> Result<Typed, DbError> {
        match op {
            UnaryOperator::Not => {
                let typed = self.expr(inner)?;
                let expr = self.condition(typed, "NOT")?;
                Ok(Typed::new(Expr::Not(Box::new(expr)), Type::Bool, at))
            }
            UnaryOperator::Minus => {
                // The sign belongs to a number: -9223372036854775808 is a bigint.
                if let Tree::Value(value) = inner
                    && let ast::Value::Number(text, false) = &value.value
                {
                    return number(&format!("-{text}"), at);
                }
                let typed = self.expr(inner)?;
                self.negate(typed, at)
            }
            UnaryOperator::Plus => self.expr(inner),
            UnaryOperator::BitwiseNot => {
                let typed = self.expr(inner)?;
                match typed.ty {
                    Type::Int2 | Type::Int4 | Type::Int8 => {
                        let expr = Expr::Call {
                            function: Function::BitNot(typed.ty),
                            args: vec![typed.expr],
                        };
                        Ok(Typed::new(expr, typed.ty, at))
                    }
                    _ => unsupported("this operand of ~", at),
                }
            }
            _ => unsupported(format!("the operator {op}"), at),
        }
    }

    fn binary(
        &mut self,
        left: &Tree,
        op: &BinaryOperator,
        right: &Tree,
        at: usize,
    ) -> Result<Typed, DbError> {
        match op {
            BinaryOperator::And | BinaryOperator::Or => {
                return self.junction(left, op, right, at);
            }
            _ => {}
        }
        if let BinaryOperator::Custom(symbol) = op {
            let here = self.operator_place(&[symbol], left, right);
            let (left, right) = (self.expr(left)?, self.expr(right)?);
            return self.operator(symbol, left, right, here);
        }
        let Some(symbol) = symbol(op) else {
            return unsupported(format!("the operator {op}"), at);
        };
        let here = self.operator_place(&spellings(symbol), left, right);
        if let Some(compare) = super::operator::comparison_of(symbol)
            && (is_row(left) || is_row(right))
        {
            return self.compare_rows(left, compare, right, here);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        self.operator(symbol, left, right, here)
    }

    /// AND and OR, flattened.
    fn junction(
        &mut self,
        left: &Tree,
        op: &BinaryOperator,
        right: &Tree,
        at: usize,
    ) -> Result<Typed, DbError> {
        let and = *op == BinaryOperator::And;
        let what = if and { "AND" } else { "OR" };
        let mut parts = Vec::new();
        for side in [left, right] {
            let typed = self.expr(side)?;
            match (self.condition(typed, what)?, and) {
                (Expr::And(inner), true) | (Expr::Or(inner), false) => parts.extend(inner),
                (expr, _) => parts.push(expr),
            }
        }
        let expr = if and {
            Expr::And(parts)
        } else {
            Expr::Or(parts)
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    /// The byte of an operator: the last of its `spellings` before the right operand. (The tree
    /// says neither where operators are nor, for some nodes, where the left operand ends.)
    fn operator_place(&self, spellings: &[&str], left: &Tree, right: &Tree) -> usize {
        let from = place(left, self.begin);
        let to = place(right, self.text.len()).max(from);
        let between = self
            .text
            .get(from..to)
            .unwrap_or_default()
            .to_ascii_lowercase();
        let found = spellings.iter().filter_map(|s| between.rfind(s)).max();
        found.map_or(from, |i| from + i)
    }

    /// The byte of the parenthesis before `at`, which the tree of a sub-select leaves out.
    pub(super) fn parenthesis_before(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default().trim_end();
        if before.ends_with('(') {
            before.len() - 1
        } else {
            at
        }
    }

    fn is_null(&mut self, inner: &Tree, negated: bool) -> Result<Typed, DbError> {
        let at = place(inner, self.begin);
        // A row is null if all fields are, and not null if none is.
        if let Tree::Tuple(items) = inner {
            let mut parts = Vec::with_capacity(items.len());
            for item in items {
                let typed = self.expr(item)?;
                parts.push(Expr::IsNull {
                    expr: Box::new(typed.expr),
                    negated,
                });
            }
            return Ok(Typed::new(Expr::And(parts), Type::Bool, at));
        }
        let typed = self.expr(inner)?;
        let typed = self.settle(typed)?;
        let expr = Expr::IsNull {
            expr: Box::new(typed.expr),
            negated,
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    fn is_bool(
        &mut self,
        inner: &Tree,
        value: bool,
        negated: bool,
        at: usize,
    ) -> Result<Typed, DbError> {
        let words = match (value, negated) {
            (true, false) => "IS TRUE",
            (true, true) => "IS NOT TRUE",
            (false, false) => "IS FALSE",
            (false, true) => "IS NOT FALSE",
        };
        let typed = self.expr(inner)?;
        let expr = Expr::IsBool {
            expr: Box::new(self.condition(typed, words)?),
            value,
            negated,
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    fn is_unknown(&mut self, inner: &Tree, negated: bool, at: usize) -> Result<Typed, DbError> {
        let words = if negated {
            "IS NOT UNKNOWN"
        } else {
            "IS UNKNOWN"
        };
        let typed = self.expr(inner)?;
        let expr = Expr::IsNull {
            expr: Box::new(self.condition(typed, words)?),
            negated,
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    fn is_distinct(
        &mut self,
        left: &Tree,
        right: &Tree,
        distinct: bool,
        at: usize,
    ) -> Result<Typed, DbError> {
        if is_row(left) || is_row(right) {
            return unsupported("IS DISTINCT FROM of rows", at);
        }
        let here = self.operator_place(&["is"], left, right);
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (by, left, right) = self.compare(Compare::Eq, left, right, here)?;
        let expr = Expr::Distinct {
            distinct,
            by,
            sides: Box::new((left, right)),
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    fn in_target(
        &mut self,
        left: &Tree,
        target: &InTarget,
        negated: bool,
        at: usize,
    ) -> Result<Typed, DbError> {
        let typed = match target {
            InTarget::List(items) => self.in_list(left, items, at)?,
            InTarget::Subquery(query) => self.any_of_rows(left, Compare::Eq, false, query, at)?,
            InTarget::Unnest(_) | InTarget::Table { .. } => {
                return unsupported("this right side of IN", at);
            }
        };
        Ok(if negated {
            Typed::new(Expr::Not(Box::new(typed.expr)), Type::Bool, at)
        } else {
            typed
        })
    }

    fn in_list(&mut self, left: &Tree, items: &[Tree], at: usize) -> Result<Typed, DbError> {
        if is_row(left) {
            let mut parts = Vec::with_capacity(items.len());
            for item in items {
                parts.push(self.compare_rows(left, Compare::Eq, item, at)?.expr);
            }
            return Ok(Typed::new(Expr::Or(parts), Type::Bool, at));
        }
        let left = self.expr(left)?;
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.push(self.expr(item)?);
        }
        // Constants of one type become an array; otherwise each is compared by itself.
        let mut all = vec![left.clone()];
        all.extend(list.iter().cloned());
        for typed in &mut all {
            self.known_param(typed);
        }
        let types: Vec<Type> = all.iter().map(|t| t.ty).collect();
        if let Ok(common) = crate::plan::types::coerce::common_type(&types) {
            let mut items = Vec::with_capacity(list.len());
            for item in list {
                items.push(self.require(item, common, "IN")?);
            }
            let array_at = items.first().map_or(at, |t| t.at);
            let probe = items.first().cloned().unwrap_or(left.clone());
            let (by, left, _) = self.compare(Compare::Eq, left, probe, array_at)?;
            let items = items.into_iter().map(|t| t.expr).collect();
            let expr = Expr::AnyOfArray {
                op: Compare::Eq,
                all: false,
                by,
                sides: Box::new((left, Expr::Array(items))),
            };
            return Ok(Typed::new(expr, Type::Bool, at));
        }
        let mut parts = Vec::with_capacity(list.len());
        for item in list {
            parts.push(self.operator("=", left.clone(), item, at)?.expr);
        }
        Ok(Typed::new(Expr::Or(parts), Type::Bool, at))
    }

    fn between(
        &mut self,
        value: &Tree,
        negated: bool,
        low: &Tree,
        high: &Tree,
        at: usize,
    ) -> Result<Typed, DbError> {
        let (low_op, high_op) = if negated { ("<", ">") } else { (">=", "<=") };
        let words: &[&str] = if negated { &["not"] } else { &["between"] };
        let here = self.operator_place(words, value, low);
        let (value, low, high) = (self.expr(value)?, self.expr(low)?, self.expr(high)?);
        let first = self.operator(low_op, value.clone(), low, here)?.expr;
        let second = self.operator(high_op, value, high, here)?.expr;
        let expr = if negated {
            Expr::Or(vec![first, second])
        } else {
            Expr::And(vec![first, second])
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    fn like(
        &mut self,
        value: &Tree,
        pattern: &Tree,
        escape: Option<&Tree>,
        (fold, negated): (bool, bool),
        at: usize,
    ) -> Result<Typed, DbError> {
        let symbol = match (fold, negated) {
            (false, false) => "~~",
            (false, true) => "!~~",
            (true, false) => "~~*",
            (true, true) => "!~~*",
        };
        let words: &[&str] = if negated {
            &["not"]
        } else {
            &["like", "ilike"]
        };
        let here = self.operator_place(words, value, pattern);
        let (value, pattern) = (self.expr(value)?, self.expr(pattern)?);
        let mut typed = self.operator(symbol, value, pattern, here)?;
        if let Some(escape) = escape {
            let escape = self.expr(escape)?;
            let escape = self.require(escape, Type::Text, "ESCAPE")?.expr;
            let like = match &mut typed.expr {
                Expr::Not(inner) => &mut **inner,
                other => other,
            };
            if let Expr::Call { args, .. } = like {
                args.push(escape);
            }
        }
        Ok(Typed { at, ..typed })
    }

    /// `x op ANY (..)`, `x op ALL (..)`.
    fn quantified(
        &mut self,
        left: &Tree,
        op: &BinaryOperator,
        right: &Tree,
        all: bool,
        at: usize,
    ) -> Result<Typed, DbError> {
        let Some(compare) = symbol(op).and_then(super::operator::comparison_of) else {
            return unsupported(format!("{op} with ANY or ALL"), at);
        };
        if let Tree::Subquery(query) = strip(right) {
            return self.any_of_rows(left, compare, all, query, at);
        }
        let here = self.operator_place(&spellings(compare.symbol()), left, right);
        let left = self.expr(left)?;
        let mut right = self.expr(right)?;
        self.known_param(&mut right);
        if right.is_open() {
            // An open array takes the type of arrays of the left side.
            let element = if left.is_open() { Type::Text } else { left.ty };
            let element = if element == Type::Varchar {
                Type::Text
            } else {
                element
            };
            let Some(array) = super::datatype::array_of(element) else {
                return unsupported(format!("arrays of {}", element.name()), right.at);
            };
            if let Some(typed) = self.coerce(right.clone(), array, Context::Implicit)? {
                right = typed;
            }
        }
        let Type::Array(element) = right.ty else {
            return error(
                "42809",
                "op ANY/ALL (array) requires array on right side",
                here,
            );
        };
        let probe = Typed::new(Expr::Const(Value::Null), *element, right.at);
        let (by, left, probe) = self.compare(compare, left, probe, here)?;
        let mut array = right.expr;
        // The elements' type may have been widened to that of the left side.
        if let Expr::Cast { to, .. } = probe
            && to != *element
        {
            let Some(target) = super::datatype::array_of(to) else {
                return unsupported("this array", right.at);
            };
            array = Expr::Cast {
                expr: Box::new(array),
                from: right.ty,
                to: target,
                modifier: None,
                explicit: false,
                labels: None,
            };
        } else if !matches!(probe, Expr::Const(_)) {
            return unsupported("this comparison with array elements", here);
        }
        let expr = Expr::AnyOfArray {
            op: compare,
            all,
            by,
            sides: Box::new((left, array)),
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    /// `(a, b) op ANY (SELECT ..)`.
    fn any_of_rows(
        &mut self,
        left: &Tree,
        op: Compare,
        all: bool,
        query: &ast::Query,
        at: usize,
    ) -> Result<Typed, DbError> {
        let here = end_place(left, at);
        let keyword = self.text.get(here..).unwrap_or_default();
        let here = here + keyword.len() - keyword.trim_start().len();
        let mut plan = self.subplan(query, Wanted::Rows)?;
        let sides: Vec<&Tree> = match strip(left) {
            Tree::Tuple(items) => items.iter().collect(),
            one => vec![one],
        };
        let columns = plan.query.columns.len();
        if columns != sides.len() {
            let message = if columns > sides.len() {
                "subquery has too many columns"
            } else {
                "subquery has too few columns"
            };
            return error("42601", message, here);
        }
        let mut fields = Vec::with_capacity(sides.len());
        for (i, side) in sides.into_iter().enumerate() {
            let typed = self.expr(side)?;
            let ty = plan.query.columns[i].ty;
            // A stand-in for the column shows which conversion the column needs.
            let marker = Expr::Window(u32::MAX);
            let probe = Typed::new(marker.clone(), ty, typed.at);
            let (by, left, probe) = self.compare(op, typed, probe, here)?;
            match probe {
                e if e == marker => {}
                Expr::Cast { to, .. } => {
                    super::query::convert_column(&mut plan.query, i, to.into(), here, self)?;
                }
                _ => return unsupported("this comparison with a sub-select", here),
            }
            fields.push((left, by));
        }
        let expr = Expr::AnyOfRows {
            op,
            all,
            left: fields,
            plan: Box::new(plan),
        };
        Ok(Typed::new(expr, Type::Bool, at))
    }

    /// `(a, b) op (c, d)`.
    fn compare_rows(
        &mut self,
        left: &Tree,
        op: Compare,
        right: &Tree,
        at: usize,
    ) -> Result<Typed, DbError> {
        let (Some(left), Some(right)) = (row_items(left), row_items(right)) else {
            return unsupported("the comparison of a row with something else", at);
        };
        if left.len() != right.len() {
            return error("42601", "unequal number of entries in row expressions", at);
        }
        let mut fields: Vec<(Expr, Expr, Comparison)> = Vec::with_capacity(left.len());
        for (a, b) in left.into_iter().zip(right) {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            let (by, a, b) = self.compare(op, a, b, at)?;
            fields.push((a, b, by));
        }
        Ok(Typed::new(Expr::CompareRows { op, fields }, Type::Bool, at))
    }

    fn case(
        &mut self,
        operand: Option<&Tree>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Tree>,
        at: usize,
    ) -> Result<Typed, DbError> {
        let operand = match operand {
            Some(tree) => {
                let typed = self.expr(tree)?;
                if walk::volatility(&typed.expr) == crate::plan::expr::Volatility::Volatile {
                    return unsupported("CASE of a volatile value", typed.at);
                }
                Some(self.settle(typed)?)
            }
            None => None,
        };
        let mut tests = Vec::with_capacity(conditions.len());
        // The server looks at ELSE first when it decides the type.
        let mut results = vec![match otherwise {
            Some(tree) => self.expr(tree)?,
            None => constant(Value::Null, Type::Unknown, at),
        }];
        for ast::CaseWhen { condition, result } in conditions {
            let test = self.expr(condition)?;
            tests.push(match &operand {
                Some(operand) => {
                    let here = test.at;
                    self.operator("=", operand.clone(), test, here)?.expr
                }
                None => self.condition(test, "CASE/WHEN")?,
            });
            results.push(self.expr(result)?);
        }
        let (results, ty) = self.unify(results, "CASE")?;
        let mut results = results.into_iter().map(|t| t.expr);
        let otherwise = Box::new(results.next().unwrap_or(Expr::Const(Value::Null)));
        let expr = Expr::Case {
            branches: tests.into_iter().zip(results).collect(),
            otherwise,
        };
        Ok(Typed::new(expr, ty, at))
    }

    fn substring(
        &mut self,
        value: &Tree,
        from: Option<&Tree>,
        count: Option<&Tree>,
        at: usize,
    ) -> Result<Typed, DbError> {
        let mut args = vec![self.expr(value)?];
        args.push(match from {
            Some(tree) => self.expr(tree)?,
            None => constant(Value::Int(1), Type::Int4, at),
        });
        if let Some(tree) = count {
            args.push(self.expr(tree)?);
        }
        if args[1].is_open() || coerces_to_text(args[1].ty) {
            return unsupported("substring with a pattern", at);
        }
        self.call("substring", args, at)
    }

    fn trim(
        &mut self,
        whence: Option<ast::TrimWhereField>,
        what: Option<&Tree>,
        value: &Tree,
        at: usize,
    ) -> Result<Typed, DbError> {
        let end = match whence {
            Some(ast::TrimWhereField::Leading) => End::Start,
            Some(ast::TrimWhereField::Trailing) => End::End,
            _ => End::Both,
        };
        let name = match end {
            End::Start => "ltrim",
            End::End => "rtrim",
            End::Both => "btrim",
        };
        let mut args = vec![self.expr(value)?];
        if let Some(tree) = what {
            args.push(self.expr(tree)?);
        }
        self.call(name, args, at)
    }

    fn array(&mut self, array: &ast::Array, at: usize) -> Result<Typed, DbError> {
        let ast::Array { elem, named } = array;
        absent(!named, "an array without ARRAY", at)?;
        if let [Tree::Subquery(query)] = elem.as_slice() {
            let plan = self.subplan(query, Wanted::Rows)?;
            return self.array_subquery(plan, at);
        }
        if elem.is_empty() {
            // The tree of an empty array does not say where it is.
            let lower = self.text.to_ascii_lowercase();
            let found = lower.get(self.begin..).and_then(|t| t.find("array"));
            let at = found.map_or(at, |i| self.begin + i);
            return error("42P18", "cannot determine type of empty array", at);
        }
        let mut items = Vec::with_capacity(elem.len());
        for item in elem {
            items.push(self.expr(item)?);
        }
        let (items, ty) = self.unify(items, "ARRAY")?;
        let Some(array) = super::datatype::array_of(ty) else {
            return unsupported(format!("arrays of {}", ty.name()), at);
        };
        let items = items.into_iter().map(|t| t.expr).collect();
        Ok(Typed::new(Expr::Array(items), array, at))
    }

    pub(super) fn array_subquery(&mut self, plan: SubPlan, at: usize) -> Result<Typed, DbError> {
        let [column] = plan.query.columns.as_slice() else {
            return error("42601", "subquery must return only one column", at);
        };
        let Some(array) = super::datatype::array_of(column.ty) else {
            return unsupported(format!("arrays of {}", column.ty.name()), at);
        };
        Ok(Typed::new(Expr::ArraySubquery(Box::new(plan)), array, at))
    }

    fn subscript(
        &mut self,
        root: &Tree,
        chain: &[ast::AccessExpr],
        at: usize,
    ) -> Result<Typed, DbError> {
        let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = chain else {
            return unsupported("this access to a part of a value", at);
        };
        let array = self.expr(root)?;
        let Type::Array(element) = array.ty else {
            return error(
                "42804",
                format!(
                    "cannot subscript type {} because it does not support subscripting",
                    self.type_name(array.ty)
                ),
                at,
            );
        };
        let index = self.expr(index)?;
        let index = self.require(index, Type::Int4, "array subscript")?;
        let expr = Expr::Call {
            function: Function::ArrayElement,
            args: vec![array.expr, index.expr],
        };
        Ok(Typed::new(expr, *element, at))
    }

    /// A sub-select in an expression.
    pub(super) fn subplan(
        &mut self,
        query: &ast::Query,
        wanted: Wanted,
    ) -> Result<SubPlan, DbError> {
        let id = self.next_subplan();
        let query = self.query(query, &[])?;
        let once = walk::outermost(&query) == 0;
        Ok(SubPlan {
            id,
            query,
            wanted,
            once,
        })
    }

    fn scalar_subquery(&mut self, query: &ast::Query, at: usize) -> Result<Typed, DbError> {
        let plan = self.subplan(query, Wanted::Scalar)?;
        let [column] = plan.query.columns.as_slice() else {
            return error("42601", "subquery must return only one column", at);
        };
        let ty = column.ty;
        Ok(Typed::new(Expr::Subquery(Box::new(plan)), ty, at))
    }
}

fn coerces_to_text(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Varchar | Type::Char)
}

/// Without parentheses around it.
fn strip(tree: &Tree) -> &Tree {
    match tree {
        Tree::Nested(inner) => strip(inner),
        other => other,
    }
}

/// A row constructor: `(a, b)` or `ROW(a, b)`.
fn is_row(tree: &Tree) -> bool {
    row_items(tree).is_some()
}

fn row_items(tree: &Tree) -> Option<Vec<&Tree>> {
    match tree {
        Tree::Tuple(items) => Some(items.iter().collect()),
        Tree::Function(f) if f.name.to_string().eq_ignore_ascii_case("row") => match &f.args {
            ast::FunctionArguments::List(list) => list
                .args
                .iter()
                .map(|a| match a {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e),
                    _ => None,
                })
                .collect(),
            _ => None,
        },
        _ => None,
    }
}

/// A number: `integer`, `bigint` or `numeric`, the first that holds it.
fn number(text: &str, at: usize) -> Result<Typed, DbError> {
    if let Ok(i) = text.parse::<i64>() {
        let ty = if i32::try_from(i).is_ok() {
            Type::Int4
        } else {
            Type::Int8
        };
        return Ok(constant(Value::Int(i), ty, at));
    }
    let value = input::decimal(text).map_err(|e| e.at(at))?;
    Ok(constant(Value::Decimal(value), Type::Numeric, at))
}

/// The symbol of an operator that is resolved by the types of its operands.
fn symbol(op: &BinaryOperator) -> Option<&'static str> {
    Some(match op {
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::StringConcat => "||",
        BinaryOperator::Gt => ">",
        BinaryOperator::Lt => "<",
        BinaryOperator::GtEq => ">=",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::BitwiseOr => "|",
        BinaryOperator::BitwiseAnd => "&",
        BinaryOperator::PGBitwiseXor => "#",
        BinaryOperator::PGBitwiseShiftLeft => "<<",
        BinaryOperator::PGBitwiseShiftRight => ">>",
        BinaryOperator::PGExp => "^",
        BinaryOperator::PGOverlap => "&&",
        BinaryOperator::PGLikeMatch => "~~",
        BinaryOperator::PGILikeMatch => "~~*",
        BinaryOperator::PGNotLikeMatch => "!~~",
        BinaryOperator::PGNotILikeMatch => "!~~*",
        BinaryOperator::PGRegexMatch => "~",
        BinaryOperator::PGRegexIMatch => "~*",
        BinaryOperator::PGRegexNotMatch => "!~",
        BinaryOperator::PGRegexNotIMatch => "!~*",
        BinaryOperator::PGStartsWith => "^@",
        BinaryOperator::Arrow => "->",
        BinaryOperator::LongArrow => "->>",
        BinaryOperator::AtArrow => "@>",
        BinaryOperator::ArrowAt => "<@",
        BinaryOperator::Question => "?",
        BinaryOperator::QuestionAnd => "?&",
        BinaryOperator::QuestionPipe => "?|",
        BinaryOperator::HashArrow => "#>",
        BinaryOperator::HashLongArrow => "#>>",
        BinaryOperator::HashMinus => "#-",
        _ => return None,
    })
}

/// How an operator can be written.
fn spellings(symbol: &str) -> Vec<&str> {
    match symbol {
        "<>" => vec!["<>", "!="],
        other => vec![other],
    }
}

/// What a node is called in a refusal.
fn kind_of(tree: &Tree) -> String {
    let text = format!("{tree:?}");
    let name = text.split([' ', '(', '{']).next().unwrap_or("this");
    let _ = tree.span();
    format!("the expression {name}")
}
