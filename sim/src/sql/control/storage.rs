//! Storage parameters: `ALTER INDEX .. SET (..)`.

use rowlock_model::DbError;
use sqlparser::tokenizer::Token;

use super::Control;
use crate::sql::tokens::Tokens;

/// A parameter that is on or off.
///
/// # Errors
/// 22023 for anything else.
pub(crate) fn boolean_parameter(name: &str, value: &str) -> Result<bool, DbError> {
    match value.trim_matches('\'').to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        other => {
            let message = format!("invalid value for boolean option \"{name}\": {other}");
            Err(DbError::postgres("22023", message))
        }
    }
}

/// Reads what follows `ALTER INDEX`, if it is about `fastupdate`; else nothing is taken.
///
/// # Errors
/// 42601, or `unsupported`.
pub(super) fn alter_index(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    let if_exists = tokens.eat_words(&["IF", "EXISTS"]);
    let name = super::parse::relation(tokens)?;
    let refused = |tokens: &Tokens<'_>| {
        DbError::unsupported("this form of ALTER INDEX", Some(tokens.position()))
    };
    let sets = tokens.eat_word("SET");
    if !sets && !tokens.eat_word("RESET") {
        return Err(refused(tokens));
    }
    if tokens.peek() != Some(&Token::LParen) {
        return Err(refused(tokens));
    }
    tokens.advance();
    let parameter = tokens.name()?;
    if parameter != "fastupdate" {
        return Err(refused(tokens));
    }
    let mut on = true;
    if sets && tokens.eat(&Token::Eq) {
        let text = match tokens.peek() {
            Some(Token::Number(n, _)) => {
                tokens.advance();
                n.clone()
            }
            Some(Token::Word(_)) => tokens.name()?,
            _ => tokens.string()?,
        };
        on = boolean_parameter(&parameter, &text)?;
    }
    if tokens.peek() == Some(&Token::Comma) {
        return Err(refused(tokens));
    }
    tokens.expect(&Token::RParen)?;
    Ok(Control::SetFastUpdate {
        name,
        if_exists,
        on,
    })
}
