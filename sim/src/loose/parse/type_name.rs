//! Type names.

use rowlock_model::DbError;

use super::Parser;
use crate::loose::ast::TypeName;
use crate::loose::lex::TokenKind;

impl Parser<'_> {
    /// A type, of a column or a cast.
    pub(super) fn type_name(&mut self) -> Result<TypeName, DbError> {
        let at = self.at();
        let mut ty = TypeName {
            name: String::new(),
            numbers: Vec::new(),
            labels: Vec::new(),
            unsigned: false,
            charset: None,
            at,
        };
        let first = self.any_word()?;
        ty.name = first.name.to_string();
        if self.is_sqlite() {
            while let Some(word) = self.word_ahead(0) {
                const ENDS: [&str; 13] = [
                    "CONSTRAINT",
                    "PRIMARY",
                    "NOT",
                    "NULL",
                    "UNIQUE",
                    "CHECK",
                    "DEFAULT",
                    "COLLATE",
                    "REFERENCES",
                    "GENERATED",
                    "AS",
                    "DEFERRABLE",
                    "ON",
                ];
                if ENDS.iter().any(|end| end.eq_ignore_ascii_case(word)) {
                    break;
                }
                ty.name.push(' ');
                ty.name.push_str(word);
                self.advance();
            }
        } else {
            ty.name.make_ascii_uppercase();
            if ty.name == "DOUBLE" {
                self.eat_word("PRECISION");
            }
        }
        if self.is_symbol("(") {
            self.advance();
            loop {
                match self.token().kind.clone() {
                    TokenKind::Number(text) => {
                        let Ok(number) = text.parse() else {
                            return Err(self.error());
                        };
                        ty.numbers.push(number);
                    }
                    TokenKind::Text(text) if !self.is_sqlite() => ty.labels.push(text),
                    _ => return Err(self.error()),
                }
                self.advance();
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        if !self.is_sqlite() {
            ty.unsigned = self.eat_word("UNSIGNED");
            if ["SIGNED", "UNSIGNED"].contains(&ty.name.as_str()) {
                let _ = self.eat_word("INTEGER") || self.eat_word("INT");
            }
            if self.is_word("ZEROFILL") {
                return self.unsupported("ZEROFILL");
            }
            if self.eat_words(&["CHARACTER", "SET"]) || self.eat_word("CHARSET") {
                let at = self.at();
                let charset = self.word_or_text()?;
                let collation = self.usual_collation(&charset, at)?;
                ty.charset = Some((charset, collation));
            }
        }
        Ok(ty)
    }
}
