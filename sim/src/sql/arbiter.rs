//! Expressions in `ON CONFLICT (...)`.
//!
//! `sqlparser` knows names of columns there, the server also function calls and expressions in
//! parentheses (manual, `INSERT`). Each of those is replaced by a name that says where it stands;
//! [`read_back`] parses it there.

use sqlparser::ast::{Expr, Ident};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{self, carrier, end_of, is_keyword, start_of};
use rowlock_model::Dialect;

const MARK: &str = "\u{1f}on conflict:";

/// Replaces the expressions in the conflict targets of a statement without white space.
pub(super) fn fold(part: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 2 < part.len() {
        let is_target = is_keyword(&part[at].token, "ON")
            && is_keyword(&part[at + 1].token, "CONFLICT")
            && part[at + 2].token == Token::LParen;
        at += 1;
        if is_target {
            fold_list(part, at + 2);
        }
    }
}

/// Replaces the expressions of the list whose first token is `at`.
fn fold_list(part: &mut Vec<TokenWithSpan>, mut at: usize) {
    loop {
        let opening = match (part.get(at), part.get(at + 1)) {
            (Some(first), _) if first.token == Token::LParen => at,
            (Some(first), Some(second))
                if matches!(first.token, Token::Word(_)) && second.token == Token::LParen =>
            {
                at + 1
            }
            _ => at,
        };
        if part.get(opening).is_some_and(|t| t.token == Token::LParen) {
            let Some(closing) = closing(part, opening) else {
                return;
            };
            let (start, end) = (start_of(part[at].span), end_of(part[closing].span));
            let name = carrier(format!("{MARK}{start}:{end}"), part[at].span);
            part.splice(at..=closing, [name]);
        }
        // To the next item of the list.
        match part.get(at + 1) {
            Some(next) if next.token == Token::Comma => at += 2,
            _ => return,
        }
    }
}

/// The parenthesis that closes the one at `opening`.
fn closing(part: &[TokenWithSpan], opening: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, token) in part.iter().enumerate().skip(opening) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(i),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The expression that a name stands for, if `fold` put it there. `text` is the whole text.
pub fn read_back(name: &Ident, text: &str) -> Option<Expr> {
    let (start, end) = name.value.strip_prefix(MARK)?.split_once(':')?;
    let (start, end): (usize, usize) = (start.parse().ok()?, end.parse().ok()?);
    let mut tokens = tokens::read(text, Dialect::Postgres).ok()?;
    tokens.retain(|t| start <= start_of(t.span) && end_of(t.span) <= end);
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let expr = parser.parse_expr().ok()?;
    (parser.peek_token().token == Token::EOF).then_some(expr)
}
