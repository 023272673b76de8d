//! `ALTER SEQUENCE`, which the parser of data statements does not have.

use rowlock_model::DbError;
use sqlparser::tokenizer::Token;

use super::{Control, SequenceChange};
use crate::sql::tokens::Tokens;

/// Reads what follows `ALTER SEQUENCE`.
///
/// # Errors
/// 42601, or `unsupported`.
pub(super) fn alter(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    let if_exists = tokens.eat_words(&["IF", "EXISTS"]);
    let name = super::parse::relation(tokens)?;
    let mut changes = Vec::new();
    while !tokens.is_end() {
        changes.push(change(tokens)?);
    }
    if changes.is_empty() {
        return Err(tokens.syntax_error());
    }
    Ok(Control::AlterSequence {
        name,
        if_exists,
        changes,
    })
}

fn change(tokens: &mut Tokens<'_>) -> Result<SequenceChange, DbError> {
    let refused = |tokens: &Tokens<'_>, what: &str| {
        DbError::unsupported(format!("ALTER SEQUENCE .. {what}"), Some(tokens.position()))
    };
    let word = tokens.peek_word().unwrap_or_default();
    if matches!(word.as_str(), "OWNED" | "OWNER" | "RENAME" | "SET") {
        return Err(refused(tokens, &word));
    }
    if tokens.eat_word("AS") {
        let at = tokens.position();
        return match tokens.name()?.as_str() {
            "smallint" | "int2" => Ok(SequenceChange::Type(2)),
            "integer" | "int" | "int4" => Ok(SequenceChange::Type(4)),
            "bigint" | "int8" => Ok(SequenceChange::Type(8)),
            _ => {
                let message = "sequence type must be smallint, integer, or bigint";
                Err(DbError::postgres("22023", message).at(at))
            }
        };
    }
    if tokens.eat_word("NO") {
        return Ok(if tokens.eat_word("MINVALUE") {
            SequenceChange::Min(None)
        } else if tokens.eat_word("MAXVALUE") {
            SequenceChange::Max(None)
        } else {
            tokens.expect_word("CYCLE")?;
            SequenceChange::Cycle(false)
        });
    }
    Ok(if tokens.eat_word("CYCLE") {
        SequenceChange::Cycle(true)
    } else if tokens.eat_word("INCREMENT") {
        tokens.eat_word("BY");
        SequenceChange::Increment(number(tokens)?)
    } else if tokens.eat_word("MINVALUE") {
        SequenceChange::Min(Some(number(tokens)?))
    } else if tokens.eat_word("MAXVALUE") {
        SequenceChange::Max(Some(number(tokens)?))
    } else if tokens.eat_word("START") {
        tokens.eat_word("WITH");
        SequenceChange::Start(number(tokens)?)
    } else if tokens.eat_word("RESTART") {
        let with = tokens.eat_word("WITH");
        let is_number = matches!(
            tokens.peek(),
            Some(Token::Number(..) | Token::Minus | Token::Plus)
        );
        SequenceChange::Restart(match with || is_number {
            true => Some(number(tokens)?),
            false => None,
        })
    } else if tokens.eat_word("CACHE") {
        let at = tokens.position();
        match number(tokens)? {
            1 => SequenceChange::Cache,
            n if n > 1 => {
                return Err(DbError::unsupported("a sequence cache", Some(at)));
            }
            n => {
                let message = format!("CACHE ({n}) must be greater than zero");
                return Err(DbError::postgres("22023", message));
            }
        }
    } else {
        return Err(tokens.syntax_error());
    })
}

fn number(tokens: &mut Tokens<'_>) -> Result<i64, DbError> {
    let is_negative = tokens.eat(&Token::Minus);
    if !is_negative {
        tokens.eat(&Token::Plus);
    }
    let Some(Token::Number(digits, _)) = tokens.peek() else {
        return Err(tokens.syntax_error());
    };
    let sign = if is_negative { "-" } else { "" };
    let text = format!("{sign}{digits}");
    let number = text.parse().map_err(|_| {
        let message = format!("value \"{text}\" is out of range for type bigint");
        DbError::postgres("22003", message)
    })?;
    tokens.advance();
    Ok(number)
}
