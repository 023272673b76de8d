//! What `sqlparser` accepts, or reports elsewhere, although PostgreSQL's grammar does not have it.

use rowlock_model::DbError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{at_end, is_keyword, near, start_of};

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
