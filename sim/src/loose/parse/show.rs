//! `SHOW` and `DESCRIBE` of MySQL.

use rowlock_model::DbError;

use super::Parser;
use crate::loose::ast::Show;
use crate::loose::lex::TokenKind;

impl Parser<'_> {
    /// After `SHOW`.
    pub(super) fn show(&mut self) -> Result<Show, DbError> {
        let at = self.at();
        if self.eat_words(&["CREATE", "TABLE"]) {
            return self.table_name().map(Show::CreateTable);
        }
        if self.eat_words(&["COUNT"]) {
            for symbol in ["(", "*", ")"] {
                self.expect(symbol)?;
            }
            return self.warnings(true);
        }
        if self.is_word("WARNINGS") || self.is_word("ERRORS") {
            return self.warnings(false);
        }
        let full = self.eat_word("FULL");
        if self.eat_word("PROCESSLIST") {
            return Ok(Show::Processlist);
        }
        if full {
            return crate::loose::errors::unsupported("this SHOW", at);
        }
        if self.eat_word("COLUMNS") || self.eat_word("FIELDS") {
            if !self.eat_word("IN") {
                self.expect_word("FROM")?;
            }
            return self.table_name().map(Show::Columns);
        }
        if self.eat_word("TABLES") {
            return Ok(Show::Tables(self.pattern()?));
        }
        if self.eat_word("DATABASES") || self.eat_word("SCHEMAS") {
            return Ok(Show::Databases(self.pattern()?));
        }
        let global = self.eat_word("GLOBAL");
        if !global {
            let _ = self.eat_word("SESSION") || self.eat_word("LOCAL");
        }
        if self.eat_word("VARIABLES") {
            let like = self.pattern()?;
            return Ok(Show::Variables { global, like });
        }
        crate::loose::errors::unsupported("this SHOW", at)
    }

    fn warnings(&mut self, count: bool) -> Result<Show, DbError> {
        let errors_only = self.eat_word("ERRORS");
        if !errors_only {
            self.expect_word("WARNINGS")?;
        }
        if self.is_word("LIMIT") {
            return self.unsupported("SHOW WARNINGS LIMIT");
        }
        Ok(Show::Warnings { errors_only, count })
    }

    /// `LIKE 'pattern'`.
    fn pattern(&mut self) -> Result<Option<String>, DbError> {
        if self.is_word("WHERE") || self.is_word("FROM") || self.is_word("IN") {
            return self.unsupported("this SHOW");
        }
        if !self.eat_word("LIKE") {
            return Ok(None);
        }
        let TokenKind::Text(text) = self.token().kind.clone() else {
            return Err(self.error());
        };
        self.advance();
        Ok(Some(text))
    }
}
