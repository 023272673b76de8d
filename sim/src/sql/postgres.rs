//! What `sqlparser` accepts, or reports elsewhere, although PostgreSQL's grammar does not have it.

use rowlock_model::{DbError, Dialect};
use sqlparser::ast::{Expr, Ident};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{at_end, carrier, end_of, is_keyword, near, read, start_of};

/// Refuses other products' syntax where the server would.
///
/// # Errors
/// 42601.
pub(super) fn refuse_foreign(
    text: &str,
    tokens: &mut [TokenWithSpan],
    next: Option<&TokenWithSpan>,
) -> Result<(), DbError> {
    let word = |i: usize, w: &str| tokens.get(i).is_some_and(|t| is_keyword(&t.token, w));
    let refused = |i: usize| match tokens.get(i).or(next) {
        Some(token) => Err(near(text, token)),
        None => Err(at_end(text)),
    };
    for i in 0..tokens.len() {
        // A statement begins here: at the start, after WITH's parenthesis, or after its list.
        let begins = i == 0 || matches!(tokens[i - 1].token, Token::LParen | Token::RParen);
        if begins && word(i, "INSERT") && !word(i + 1, "INTO") {
            return refused(i + 1);
        }
        if begins && word(i, "DELETE") && !word(i + 1, "FROM") {
            return refused(i + 1);
        }
        if word(i, "ON") && word(i + 1, "DUPLICATE") {
            return refused(i + 1);
        }
        let counted = matches!(tokens[i].token, Token::Comma)
            && i >= 2
            && word(i - 2, "LIMIT")
            && matches!(
                tokens[i - 1].token,
                Token::Number(..) | Token::Placeholder(_)
            );
        if counted {
            return Err(
                DbError::postgres("42601", "LIMIT #,# syntax is not supported")
                    .at(start_of(tokens[i - 2].span)),
            );
        }
    }
    // `==` is an operator that nobody has defined.
    for token in tokens {
        if token.token == Token::DoubleEq {
            token.token = Token::CustomBinaryOperator("==".to_owned());
        }
    }
    Ok(())
}

const MARK: char = '\u{1e}';

/// The parser takes the target of `ON CONFLICT` for a list of names. Each expression in it becomes
/// one name that says where it is written; [`conflict_key`] reads it back.
pub(super) fn fold_conflict_targets(tokens: &mut Vec<TokenWithSpan>) {
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
pub fn conflict_key(text: &str, name: &Ident) -> Result<Option<Expr>, DbError> {
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
