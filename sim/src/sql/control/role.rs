//! Roles and what they may do: `CREATE ROLE`, `DROP ROLE`, `GRANT`, `REVOKE`, `SET ROLE`.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::tokenizer::Token;

use super::{Control, Privilege, Setting};
use crate::sql::tokens::Tokens;

fn unsupported<T>(tokens: &Tokens<'_>, what: &str) -> Result<T, DbError> {
    Err(DbError::unsupported(what, Some(tokens.position())))
}

/// Reads what follows `CREATE ROLE`, `CREATE USER`.
///
/// # Errors
/// 42601, or `unsupported`.
pub(super) fn create(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    let name = tokens.name()?.into();
    tokens.eat_word("WITH");
    let mut superuser = false;
    while let Some(word) = tokens.peek_word() {
        match word.as_str() {
            "SUPERUSER" => superuser = true,
            "NOSUPERUSER" => superuser = false,
            // Nobody connects as a role here, and these allow nothing that is modelled.
            "LOGIN" | "NOLOGIN" | "INHERIT" | "NOINHERIT" | "NOCREATEDB" | "NOCREATEROLE"
            | "NOREPLICATION" | "NOBYPASSRLS" => {}
            _ => return unsupported(tokens, "this option of a role"),
        }
        tokens.advance();
    }
    Ok(Control::CreateRole { name, superuser })
}

/// Reads what follows `DROP ROLE`, `DROP USER`.
///
/// # Errors
/// 42601.
pub(super) fn drop(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    let if_exists = tokens.eat_words(&["IF", "EXISTS"]);
    let names = names(tokens)?;
    Ok(Control::DropRoles { names, if_exists })
}

/// Reads what follows `SET [LOCAL] ROLE`.
///
/// # Errors
/// 42601.
pub(super) fn set(tokens: &mut Tokens<'_>, local: bool) -> Result<Control, DbError> {
    let role: Arc<str> = match tokens.peek() {
        Some(Token::Word(_)) => tokens.name()?.into(),
        _ => tokens.string()?.into(),
    };
    Ok(Control::Set {
        local,
        name: "role".into(),
        value: Setting::Values(vec![role]),
    })
}

/// Reads what follows `GRANT` (or `REVOKE`): privileges on tables.
///
/// # Errors
/// 42601, or `unsupported`.
pub(super) fn grant(tokens: &mut Tokens<'_>, grants: bool) -> Result<Control, DbError> {
    if !grants && tokens.eat_word("GRANT") {
        return unsupported(tokens, "grant options");
    }
    let privileges = privileges(tokens)?;
    if !tokens.eat_word("ON") {
        return unsupported(tokens, "membership of roles");
    }
    let named = tokens.eat_word("TABLE");
    let kind = tokens.peek_word().unwrap_or_default();
    let is_other = matches!(
        kind.as_str(),
        "ALL"
            | "SCHEMA"
            | "DATABASE"
            | "SEQUENCE"
            | "FUNCTION"
            | "PROCEDURE"
            | "ROUTINE"
            | "TYPE"
            | "DOMAIN"
            | "LANGUAGE"
            | "TABLESPACE"
            | "FOREIGN"
            | "LARGE"
            | "PARAMETER"
    );
    if is_other && !named {
        return unsupported(tokens, "privileges on other things than tables");
    }
    let mut tables = vec![super::parse::relation(tokens)?];
    while tokens.eat(&Token::Comma) {
        tables.push(super::parse::relation(tokens)?);
    }
    tokens.expect_word(if grants { "TO" } else { "FROM" })?;
    tokens.eat_word("GROUP");
    let roles = names(tokens)?;
    if tokens.peek_word().as_deref() == Some("WITH") {
        return unsupported(tokens, "grant options");
    }
    if tokens.peek_word().as_deref() == Some("GRANTED") {
        return unsupported(tokens, "GRANTED BY");
    }
    let cascades = tokens.eat_word("CASCADE") || tokens.eat_word("RESTRICT");
    if cascades && grants {
        return Err(tokens.syntax_error());
    }
    Ok(Control::Grant {
        grants,
        privileges,
        tables,
        roles,
    })
}

fn privileges(tokens: &mut Tokens<'_>) -> Result<Vec<Privilege>, DbError> {
    if tokens.eat_word("ALL") {
        tokens.eat_word("PRIVILEGES");
        return Ok(Privilege::ALL.to_vec());
    }
    let mut privileges = Vec::new();
    loop {
        let word = tokens.peek_word().unwrap_or_default();
        let Some(privilege) = Privilege::ALL.into_iter().find(|p| p.name() == word) else {
            return unsupported(tokens, "this privilege, or membership of roles");
        };
        tokens.advance();
        if tokens.peek() == Some(&Token::LParen) {
            return unsupported(tokens, "privileges on columns");
        }
        privileges.push(privilege);
        if !tokens.eat(&Token::Comma) {
            return Ok(privileges);
        }
    }
}

fn names(tokens: &mut Tokens<'_>) -> Result<Vec<Arc<str>>, DbError> {
    let mut names = vec![tokens.name()?.into()];
    while tokens.eat(&Token::Comma) {
        names.push(tokens.name()?.into());
    }
    Ok(names)
}
