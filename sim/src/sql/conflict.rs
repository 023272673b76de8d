//! Expressions in the target of `ON CONFLICT`, which `sqlparser` cannot read.

use rowlock_model::{DbError, Dialect};
use sqlparser::ast::{Expr, Ident};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{carrier, end_of, is_keyword, read, start_of};

const MARK: char = '\u{1e}';

/// The parser takes the target of `ON CONFLICT` for a list of names. Each expression in it becomes
/// one name that says where it is written; [`key`] reads it back.
pub(super) fn fold_targets(tokens: &mut Vec<TokenWithSpan>) {
    let mut i = 0;
    while i + 2 < tokens.len() {
        let begins = is_keyword(&tokens[i].token, "ON")
            && is_keyword(&tokens[i + 1].token, "CONFLICT")
            && tokens[i + 2].token == Token::LParen;
        i += 1;
        if !begins {
            continue;
        }
        let mut from = i + 2;
        while let Some(end) = end_of_item(tokens, from) {
            if end > from + 1 {
                let (first, last) = (&tokens[from], &tokens[end - 1]);
                let (start, after) = (start_of(first.span), end_of(last.span));
                let name = carrier(format!("{MARK}{start}:{after}"), first.span);
                tokens.splice(from..end, [name]);
            }
            let comma = tokens
                .get(from + 1)
                .is_some_and(|t| t.token == Token::Comma);
            if !comma {
                break;
            }
            from += 2;
        }
    }
}

/// The index after the item of a parenthesised list that begins at `from`.
fn end_of_item(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return Some(i),
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

/// The expression that stands for a name in the target of an `ON CONFLICT`; `None` if it is a name.
///
/// # Errors
/// 42601, or `unsupported` for what may follow the expression (`COLLATE`, an operator class).
pub fn key(text: &str, name: &Ident) -> Result<Option<Expr>, DbError> {
    let place = name
        .value
        .strip_prefix(MARK)
        .and_then(|r| r.split_once(':'));
    let Some((Ok(start), Ok(end))) = place.map(|(a, b)| (a.parse(), b.parse())) else {
        return Ok(None);
    };
    let (start, end): (usize, usize) = (start, end);
    let mut tokens = read(text, Dialect::Postgres)?;
    tokens.retain(|t| start_of(t.span) >= start && end_of(t.span) <= end);
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let Ok(expr) = parser.parse_expr() else {
        return Err(DbError::postgres("42601", "syntax error in a conflict target").at(start));
    };
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        let what = "what follows a key in a conflict target";
        return Err(DbError::unsupported(what, Some(start_of(rest.span))));
    }
    Ok(Some(expr))
}
