//! Literals and variables.

use std::str::FromStr;

use rowlock_model::{DbError, Value};
use rust_decimal::Decimal;

use super::Lowering;
use super::rules::{self, Typed};
use crate::loose::ast;
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::query::Kind;

impl Lowering<'_> {
    pub(super) fn integer(&self, text: &str, at: usize) -> Result<Typed, DbError> {
        if let Ok(i) = text.parse() {
            let value = Value::Int(i);
            let ty = match self.is_sqlite() {
                true => rules::plain(Kind::Int, self.dialect),
                false => rules::literal(&value, self.dialect),
            };
            return Ok(self.typed(Expr::Const(value), ty, at));
        }
        if !self.is_sqlite() && text.parse::<u64>().is_ok() {
            let decimal = self.decimal(text, at)?;
            let ty = rules::plain(Kind::Unsigned, self.dialect);
            return Ok(Typed { ty, ..decimal });
        }
        match self.is_sqlite() {
            true => self.float(text, at),
            false => self.decimal(text, at),
        }
    }

    pub(super) fn decimal(&self, text: &str, at: usize) -> Result<Typed, DbError> {
        if self.is_sqlite() {
            return self.float(text, at);
        }
        match Decimal::from_str(text) {
            Ok(d) => {
                let scale = u8::try_from(d.scale()).unwrap_or(28);
                let digits = text.trim_start_matches('0').bytes();
                let digits = digits.filter(u8::is_ascii_digit).count() as u32;
                let digits = digits.max(u32::from(scale) + 1);
                let ty = rules::decimal(digits, scale, self.dialect);
                Ok(self.typed(Expr::Const(Value::Decimal(d)), ty, at))
            }
            Err(_) => errors::unsupported("a number of this size", at),
        }
    }

    pub(super) fn float(&self, text: &str, at: usize) -> Result<Typed, DbError> {
        match text.parse() {
            Ok(x) => Ok(self.plain(Expr::Const(Value::Float(x)), Kind::Double, at)),
            Err(_) => errors::unsupported("a number of this size", at),
        }
    }

    pub(super) fn temporal(&self, word: &str, text: &str, at: usize) -> Result<Typed, DbError> {
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

    pub(super) fn user_variable(&self, name: &str, assign: Option<Typed>, at: usize) -> Typed {
        let ty = match &assign {
            Some(value) => value.ty.clone(),
            None => rules::plain(Kind::Any, self.dialect),
        };
        let expr = Expr::UserVariable {
            name: name.into(),
            assign: assign.map(|value| Box::new(value.expr)),
        };
        self.typed(expr, ty, at)
    }

    /// `VALUES(c)` in `ON DUPLICATE KEY UPDATE`: the column of entry 1.
    pub(super) fn values_of(&mut self, column: &ast::Ident, at: usize) -> Result<Typed, DbError> {
        self.deprecated(
            1287,
            "'VALUES function' is deprecated and will be removed in a future release. Please use an \
             alias (INSERT INTO ... VALUES (...) AS alias) and replace VALUES(col) in the ON \
             DUPLICATE KEY UPDATE clause with alias.col instead",
        );
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
}
