//! Reading statements about the session and its transaction.

use std::sync::Arc;

use rowlock_model::{DbError, Isolation};
use sqlparser::tokenizer::Token;

use super::{
    Constraints, Control, Modes, RelationName, Setting, TableLockMode, role, sequence, storage,
};
use crate::sql::tokens::Tokens;

/// Parses the statement if it is of this kind. `word` is its first word, in capitals.
///
/// # Errors
/// 42601, or `unsupported`.
pub(in crate::sql) fn parse(
    tokens: &mut Tokens<'_>,
    word: &str,
) -> Result<Option<Control>, DbError> {
    let begin = tokens.position();
    Ok(Some(match word {
        "BEGIN" => {
            tokens.advance();
            skip_work(tokens);
            Control::Begin {
                modes: modes(tokens)?,
                start: false,
            }
        }
        "START" => {
            tokens.advance();
            tokens.expect_word("TRANSACTION")?;
            Control::Begin {
                modes: modes(tokens)?,
                start: true,
            }
        }
        "COMMIT" | "END" | "ROLLBACK" | "ABORT" => end(tokens, word)?,
        "SAVEPOINT" => {
            tokens.advance();
            Control::Savepoint(tokens.name()?.into())
        }
        "RELEASE" => {
            tokens.advance();
            tokens.eat_word("SAVEPOINT");
            Control::Release(tokens.name()?.into())
        }
        "SET" => set(tokens)?,
        "RESET" => {
            tokens.advance();
            Control::Reset(setting_name(tokens)?)
        }
        "SHOW" => {
            tokens.advance();
            Control::Show(setting_name(tokens)?)
        }
        "LOCK" => lock_table(tokens)?,
        "PREPARE" => prepare(tokens)?,
        "EXECUTE" => execute(tokens)?,
        "DEALLOCATE" => {
            tokens.advance();
            tokens.eat_word("PREPARE");
            if tokens.eat_word("ALL") {
                Control::Deallocate(None)
            } else {
                Control::Deallocate(Some(tokens.name()?.into()))
            }
        }
        "DISCARD" => {
            tokens.advance();
            let what = tokens.peek_word().unwrap_or_default();
            match what.as_str() {
                "ALL" | "PLANS" | "SEQUENCES" | "TEMP" | "TEMPORARY" => tokens.advance(),
                _ => return Err(tokens.syntax_error()),
            }
            Control::Discard(what.into())
        }
        "LISTEN" => {
            tokens.advance();
            Control::Listen(tokens.name()?.into())
        }
        "UNLISTEN" => {
            tokens.advance();
            if tokens.eat(&Token::Mul) {
                Control::Unlisten(None)
            } else {
                Control::Unlisten(Some(tokens.name()?.into()))
            }
        }
        "NOTIFY" => {
            tokens.advance();
            let channel = tokens.name()?.into();
            let payload = if tokens.eat(&Token::Comma) {
                tokens.string()?
            } else {
                String::new()
            };
            Control::Notify {
                channel,
                payload: payload.into(),
            }
        }
        "ANALYZE" | "ANALYSE" | "VACUUM" => maintain(tokens, begin)?,
        "ALTER" if tokens.word_at(1).as_deref() == Some("SEQUENCE") => {
            tokens.eat_words(&["ALTER", "SEQUENCE"]);
            sequence::alter(tokens)?
        }
        "ALTER" if tokens.word_at(1).as_deref() == Some("INDEX") => {
            tokens.eat_words(&["ALTER", "INDEX"]);
            storage::alter_index(tokens)?
        }
        "CREATE" | "DROP" if matches!(tokens.word_at(1).as_deref(), Some("ROLE" | "USER")) => {
            tokens.advance();
            tokens.advance();
            match word {
                "CREATE" => role::create(tokens)?,
                _ => role::drop(tokens)?,
            }
        }
        "GRANT" | "REVOKE" => {
            tokens.advance();
            role::grant(tokens, word == "GRANT")?
        }
        _ => return Ok(None),
    }))
}

fn skip_work(tokens: &mut Tokens<'_>) {
    if !tokens.eat_word("WORK") {
        tokens.eat_word("TRANSACTION");
    }
}

/// `ISOLATION LEVEL ..`, `READ ONLY`, `DEFERRABLE`, in any order, commas optional. A later one wins.
fn modes(tokens: &mut Tokens<'_>) -> Result<Modes, DbError> {
    let mut modes = Modes::default();
    let mut first = true;
    loop {
        let comma = !first && tokens.eat(&Token::Comma);
        if tokens.eat_words(&["ISOLATION", "LEVEL"]) {
            modes.isolation = Some(isolation(tokens)?);
        } else if tokens.eat_words(&["READ", "ONLY"]) {
            modes.read_only = Some(true);
        } else if tokens.eat_words(&["READ", "WRITE"]) {
            modes.read_only = Some(false);
        } else if tokens.eat_words(&["NOT", "DEFERRABLE"]) {
            modes.deferrable = Some(false);
        } else if tokens.eat_word("DEFERRABLE") {
            modes.deferrable = Some(true);
        } else if comma {
            return Err(tokens.syntax_error());
        } else {
            return Ok(modes);
        }
        first = false;
    }
}

fn isolation(tokens: &mut Tokens<'_>) -> Result<Isolation, DbError> {
    Ok(if tokens.eat_words(&["READ", "COMMITTED"]) {
        Isolation::ReadCommitted
    } else if tokens.eat_words(&["READ", "UNCOMMITTED"]) {
        Isolation::ReadUncommitted
    } else if tokens.eat_words(&["REPEATABLE", "READ"]) {
        Isolation::RepeatableRead
    } else if tokens.eat_word("SERIALIZABLE") {
        Isolation::Serializable
    } else {
        return Err(tokens.syntax_error());
    })
}

fn end(tokens: &mut Tokens<'_>, word: &str) -> Result<Control, DbError> {
    tokens.advance();
    let commit = matches!(word, "COMMIT" | "END");
    if matches!(word, "COMMIT" | "ROLLBACK") && tokens.eat_word("PREPARED") {
        let id = tokens.string()?.into();
        return Ok(if commit {
            Control::CommitPrepared(id)
        } else {
            Control::RollbackPrepared(id)
        });
    }
    skip_work(tokens);
    if word == "ROLLBACK" && tokens.eat_word("TO") {
        tokens.eat_word("SAVEPOINT");
        return Ok(Control::RollbackTo(tokens.name()?.into()));
    }
    let mut chain = false;
    if tokens.eat_word("AND") {
        chain = !tokens.eat_word("NO");
        tokens.expect_word("CHAIN")?;
    }
    Ok(if commit {
        Control::Commit { chain }
    } else {
        Control::Rollback { chain }
    })
}

/// The name of a setting; `ALL` gives none. Some have names of several words.
fn setting_name(tokens: &mut Tokens<'_>) -> Result<Option<Arc<str>>, DbError> {
    if tokens.eat_word("ALL") {
        return Ok(None);
    }
    if tokens.eat_words(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        return Ok(Some("transaction_isolation".into()));
    }
    if tokens.eat_words(&["TIME", "ZONE"]) {
        return Ok(Some("timezone".into()));
    }
    if tokens.eat_words(&["SESSION", "AUTHORIZATION"]) {
        return Ok(Some("session_authorization".into()));
    }
    dotted_name(tokens).map(Some)
}

fn dotted_name(tokens: &mut Tokens<'_>) -> Result<Arc<str>, DbError> {
    let mut name = tokens.name()?.to_ascii_lowercase();
    while tokens.eat(&Token::Period) {
        name = format!("{name}.{}", tokens.name()?);
    }
    Ok(name.into())
}

fn set(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    tokens.advance();
    if tokens.eat_word("CONSTRAINTS") {
        return set_constraints(tokens);
    }
    if tokens.eat_word("TRANSACTION") {
        return set_transaction(tokens).map(Control::SetTransaction);
    }
    if tokens.eat_words(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        return set_transaction(tokens).map(Control::SetCharacteristics);
    }
    let local = tokens.eat_word("LOCAL");
    if local && tokens.eat_word("TRANSACTION") {
        return set_transaction(tokens).map(Control::SetTransaction);
    }
    if !local && tokens.word_at(1).as_deref() != Some("AUTHORIZATION") {
        tokens.eat_word("SESSION");
    }
    match tokens.peek_word().as_deref() {
        Some("ROLE") if tokens.word_at(1).as_deref() != Some("TO") => {
            tokens.advance();
            return role::set(tokens, local);
        }
        Some("SESSION") => {
            return Err(DbError::unsupported(
                "SET SESSION AUTHORIZATION",
                Some(tokens.position()),
            ));
        }
        Some("NAMES") => {
            tokens.advance();
            return Ok(Control::Set {
                local,
                name: "client_encoding".into(),
                value: values(tokens)?,
            });
        }
        _ => {}
    }
    if tokens.eat_words(&["TIME", "ZONE"]) {
        return Ok(Control::Set {
            local,
            name: "timezone".into(),
            value: values(tokens)?,
        });
    }
    let name = dotted_name(tokens)?;
    if !tokens.eat_word("TO") {
        tokens.expect(&Token::Eq)?;
    }
    Ok(Control::Set {
        local,
        name,
        value: values(tokens)?,
    })
}

fn set_transaction(tokens: &mut Tokens<'_>) -> Result<Modes, DbError> {
    if tokens.peek_word().as_deref() == Some("SNAPSHOT") {
        return Err(DbError::unsupported(
            "SET TRANSACTION SNAPSHOT",
            Some(tokens.position()),
        ));
    }
    let modes = modes(tokens)?;
    if modes == Modes::default() {
        return Err(tokens.syntax_error());
    }
    Ok(modes)
}

fn set_constraints(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    let constraints = if tokens.eat_word("ALL") {
        Constraints::All
    } else {
        let mut names = vec![tokens.name()?.into()];
        while tokens.eat(&Token::Comma) {
            names.push(tokens.name()?.into());
        }
        Constraints::Named(names)
    };
    let deferred = tokens.eat_word("DEFERRED");
    if !deferred {
        tokens.expect_word("IMMEDIATE")?;
    }
    Ok(Control::SetConstraints {
        constraints,
        deferred,
    })
}

fn values(tokens: &mut Tokens<'_>) -> Result<Setting, DbError> {
    if tokens.eat_word("DEFAULT") {
        return Ok(Setting::Default);
    }
    let mut list = vec![value(tokens)?];
    while tokens.eat(&Token::Comma) {
        list.push(value(tokens)?);
    }
    Ok(Setting::Values(list))
}

fn value(tokens: &mut Tokens<'_>) -> Result<Arc<str>, DbError> {
    let negative = tokens.eat(&Token::Minus);
    match tokens.peek() {
        Some(Token::Number(n, _)) => {
            tokens.advance();
            let sign = if negative { "-" } else { "" };
            Ok(format!("{sign}{n}").into())
        }
        _ if negative => Err(tokens.syntax_error()),
        Some(Token::Word(_)) => Ok(tokens.name()?.into()),
        _ => Ok(tokens.string()?.into()),
    }
}

pub(super) fn relation(tokens: &mut Tokens<'_>) -> Result<RelationName, DbError> {
    let position = tokens.position();
    let mut name = tokens.name()?;
    let mut schema = None;
    if tokens.eat(&Token::Period) {
        schema = Some(std::mem::replace(&mut name, tokens.name()?).into());
    }
    Ok(RelationName {
        schema,
        name: name.into(),
        position,
    })
}

fn lock_table(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    tokens.advance();
    tokens.eat_word("TABLE");
    let mut tables = Vec::new();
    loop {
        tokens.eat_word("ONLY");
        tables.push(relation(tokens)?);
        tokens.eat(&Token::Mul);
        if !tokens.eat(&Token::Comma) {
            break;
        }
    }
    let mut mode = TableLockMode::AccessExclusive;
    if tokens.eat_word("IN") {
        mode = table_lock_mode(tokens)?;
        tokens.expect_word("MODE")?;
    }
    let nowait = tokens.eat_word("NOWAIT");
    Ok(Control::LockTable {
        tables,
        mode,
        nowait,
    })
}

fn table_lock_mode(tokens: &mut Tokens<'_>) -> Result<TableLockMode, DbError> {
    // Longer names first: SHARE is the beginning of two others.
    let modes: [(&[&str], TableLockMode); 8] = [
        (&["ACCESS", "SHARE"], TableLockMode::AccessShare),
        (&["ACCESS", "EXCLUSIVE"], TableLockMode::AccessExclusive),
        (&["ROW", "SHARE"], TableLockMode::RowShare),
        (&["ROW", "EXCLUSIVE"], TableLockMode::RowExclusive),
        (
            &["SHARE", "UPDATE", "EXCLUSIVE"],
            TableLockMode::ShareUpdateExclusive,
        ),
        (
            &["SHARE", "ROW", "EXCLUSIVE"],
            TableLockMode::ShareRowExclusive,
        ),
        (&["SHARE"], TableLockMode::Share),
        (&["EXCLUSIVE"], TableLockMode::Exclusive),
    ];
    for (words, mode) in modes {
        if tokens.eat_words(words) {
            return Ok(mode);
        }
    }
    Err(tokens.syntax_error())
}

fn prepare(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    tokens.advance();
    if tokens.peek_word().as_deref() == Some("TRANSACTION") {
        tokens.advance();
        return Ok(Control::PrepareTransaction(tokens.string()?.into()));
    }
    let name = tokens.name()?.into();
    let mut types = Vec::new();
    if tokens.eat(&Token::LParen) {
        loop {
            let start = tokens.position();
            while !matches!(tokens.peek(), None | Some(Token::Comma | Token::RParen)) {
                tokens.advance();
            }
            types.push(tokens.slice(start, tokens.last_end()).into());
            if !tokens.eat(&Token::Comma) {
                break;
            }
        }
        tokens.expect(&Token::RParen)?;
    }
    tokens.expect_word("AS")?;
    match tokens.peek_word().as_deref() {
        Some("SELECT" | "INSERT" | "UPDATE" | "DELETE" | "WITH" | "VALUES" | "TABLE") => {}
        _ => return Err(tokens.syntax_error()),
    }
    let (statement, offset) = tokens.rest();
    Ok(Control::Prepare {
        name,
        types,
        statement: statement.into(),
        offset,
    })
}

fn execute(tokens: &mut Tokens<'_>) -> Result<Control, DbError> {
    tokens.advance();
    let name = tokens.name()?.into();
    let mut args = Vec::new();
    if tokens.eat(&Token::LParen) {
        let mut start = tokens.position();
        let mut depth = 0;
        loop {
            match tokens.peek() {
                None => return Err(tokens.syntax_error()),
                Some(Token::LParen | Token::LBracket) => depth += 1,
                Some(Token::RParen) if depth == 0 => {
                    args.push(tokens.slice(start, tokens.last_end()).into());
                    tokens.advance();
                    break;
                }
                Some(Token::RParen | Token::RBracket) => depth -= 1,
                Some(Token::Comma) if depth == 0 => {
                    args.push(tokens.slice(start, tokens.last_end()).into());
                    tokens.advance();
                    start = tokens.position();
                    continue;
                }
                Some(_) => {}
            }
            tokens.advance();
        }
    }
    Ok(Control::Execute { name, args })
}

fn maintain(tokens: &mut Tokens<'_>, begin: usize) -> Result<Control, DbError> {
    let vacuum = tokens.eat_word("VACUUM");
    if !vacuum {
        tokens.advance();
    }
    let mut full = false;
    if tokens.eat(&Token::LParen) {
        while !tokens.eat(&Token::RParen) {
            full |= tokens.peek_word().as_deref() == Some("FULL");
            if tokens.is_end() {
                return Err(tokens.syntax_error());
            }
            tokens.advance();
        }
    }
    full |= vacuum && tokens.eat_word("FULL");
    tokens.eat_word("FREEZE");
    tokens.eat_word("VERBOSE");
    if vacuum {
        let _ = tokens.eat_word("ANALYZE") || tokens.eat_word("ANALYSE");
    }
    let mut tables = Vec::new();
    while !tokens.is_end() {
        tables.push(relation(tokens)?);
        if tokens.peek() == Some(&Token::LParen) {
            return Err(DbError::unsupported(
                "ANALYZE of single columns",
                Some(begin),
            ));
        }
        if !tokens.eat(&Token::Comma) {
            break;
        }
    }
    Ok(Control::Maintain {
        vacuum,
        full,
        tables,
    })
}
