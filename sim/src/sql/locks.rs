//! Row-lock clauses.
//!
//! `sqlparser` knows `FOR UPDATE` and `FOR SHARE`, with one name. Each lock clause is replaced by
//! `FOR UPDATE OF "<carrier>"`, whose name says everything; it stays attached to its query block,
//! and [`read_back`] takes it apart again.

use rowlock_model::DbError;
use sqlparser::ast::{LockClause, ObjectNamePart};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{carrier, is_keyword, near, start_of};
use crate::plan::query::{OnBusy, Strength};

const MARK: char = '\u{1f}';

/// A lock clause as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The strength.
    pub strength: Strength,
    /// What to do with a busy row.
    pub busy: OnBusy,
    /// The names after `OF` with their byte offsets; empty means every table.
    pub of: Vec<(String, usize)>,
    /// Where the clause begins.
    pub position: usize,
}

/// Replaces the lock clauses of a statement, and puts them behind a `LIMIT` that follows them.
///
/// # Errors
/// 42601.
pub(super) fn fold(text: &str, part: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, DbError> {
    let tokens: Vec<&TokenWithSpan> = part
        .iter()
        .filter(|t| !matches!(t.token, Token::Whitespace(_)))
        .collect();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(part.len());
    let mut waiting: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut depth = 0usize;
    let mut i = 0;
    while i < tokens.len() {
        if let Some((clause, after)) = read_clause(text, &tokens, i)? {
            let limited = ["LIMIT", "OFFSET", "FETCH"]
                .iter()
                .any(|w| tokens.get(after).is_some_and(|t| is_keyword(&t.token, w)));
            let another = tokens
                .get(after)
                .is_some_and(|t| is_keyword(&t.token, "FOR"));
            if limited || (another && waiting.last().is_some_and(|(d, _)| *d == depth)) {
                waiting.push((depth, clause));
            } else {
                out.extend(clause);
            }
            i = after;
            continue;
        }
        match tokens[i].token {
            Token::LParen => depth += 1,
            Token::RParen => {
                while waiting.last().is_some_and(|(d, _)| *d == depth) {
                    out.extend(waiting.pop().map(|(_, c)| c).unwrap_or_default());
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        out.push(tokens[i].clone());
        i += 1;
    }
    for (_, clause) in waiting.into_iter().rev() {
        out.extend(clause);
    }
    Ok(out)
}

/// The clause that begins at `i`, and the index after it.
fn read_clause(
    text: &str,
    tokens: &[&TokenWithSpan],
    i: usize,
) -> Result<Option<(Vec<TokenWithSpan>, usize)>, DbError> {
    let word = |j: usize, w: &str| tokens.get(j).is_some_and(|t| is_keyword(&t.token, w));
    if !word(i, "FOR") {
        return Ok(None);
    }
    let (strength, mut at) = if word(i + 1, "UPDATE") {
        (Strength::Update, i + 2)
    } else if word(i + 1, "SHARE") {
        (Strength::Share, i + 2)
    } else if word(i + 1, "NO") && word(i + 2, "KEY") && word(i + 3, "UPDATE") {
        (Strength::NoKeyUpdate, i + 4)
    } else if word(i + 1, "KEY") && word(i + 2, "SHARE") {
        (Strength::KeyShare, i + 3)
    } else {
        return Ok(None);
    };
    let mut encoded = format!("{MARK}{}", strength as u8);
    let mut names = String::new();
    if word(at, "OF") {
        at += 1;
        loop {
            let Some(token) = tokens.get(at) else {
                return Err(super::tokens::at_end(text));
            };
            let Token::Word(name) = &token.token else {
                return Err(near(text, token));
            };
            let folded = match name.quote_style {
                Some(_) => name.value.clone(),
                None => name.value.to_ascii_lowercase(),
            };
            if tokens.get(at + 1).is_some_and(|t| t.token == Token::Period) {
                let message = format!(
                    "{} must specify unqualified relation names",
                    name_of(strength)
                );
                return Err(DbError::postgres("42601", message).at(start_of(token.span)));
            }
            names.push_str(&format!("{MARK}{}:{folded}", start_of(token.span)));
            at += 1;
            if tokens.get(at).is_none_or(|t| t.token != Token::Comma) {
                break;
            }
            at += 1;
        }
    }
    let busy = if word(at, "NOWAIT") {
        at += 1;
        OnBusy::Fail
    } else if word(at, "SKIP") && word(at + 1, "LOCKED") {
        at += 2;
        OnBusy::Skip
    } else {
        OnBusy::Wait
    };
    encoded.push_str(&format!("{MARK}{}{names}", busy as u8));
    let span = tokens[i].span;
    let keyword = |w: &str| TokenWithSpan {
        token: Token::make_keyword(w),
        span,
    };
    let clause = vec![
        keyword("FOR"),
        keyword("UPDATE"),
        keyword("OF"),
        carrier(encoded, span),
    ];
    Ok(Some((clause, at)))
}

/// The clause that `fold` wrote; `None` if it did not come from there.
pub fn read_back(clause: &LockClause) -> Option<Lock> {
    let LockClause {
        lock_type: _,
        of,
        nonblock: None,
    } = clause
    else {
        return None;
    };
    let [ObjectNamePart::Identifier(ident)] = of.as_ref()?.0.as_slice() else {
        return None;
    };
    let mut parts = ident.value.strip_prefix(MARK)?.split(MARK);
    let strength = match parts.next()? {
        "0" => Strength::KeyShare,
        "1" => Strength::Share,
        "2" => Strength::NoKeyUpdate,
        _ => Strength::Update,
    };
    let busy = match parts.next()? {
        "0" => OnBusy::Wait,
        "1" => OnBusy::Skip,
        _ => OnBusy::Fail,
    };
    let of = parts
        .filter_map(|part| {
            let (at, name) = part.split_once(':')?;
            Some((name.to_owned(), at.parse().ok()?))
        })
        .collect();
    Some(Lock {
        strength,
        busy,
        of,
        position: start_of(ident.span),
    })
}

/// The clause's name in messages.
pub fn name_of(strength: Strength) -> &'static str {
    match strength {
        Strength::KeyShare => "FOR KEY SHARE",
        Strength::Share => "FOR SHARE",
        Strength::NoKeyUpdate => "FOR NO KEY UPDATE",
        Strength::Update => "FOR UPDATE",
    }
}
