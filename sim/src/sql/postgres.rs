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

/// Puts `WHERE true` between a select list without `FROM` and the words `ON CONFLICT`, `FOR UPDATE`
/// or `RETURNING`: `sqlparser` would take their first word for an alias.
pub(super) fn end_select_lists(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const CLAUSES: [&str; 12] = [
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "VALUES",
    ];
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // For each depth of parentheses: whether we are in a select list.
    let mut in_list = vec![false];
    for i in 0..tokens.len() {
        let token = &tokens[i];
        let word = |k: usize, w: &str| tokens.get(k).is_some_and(|t| is_keyword(&t.token, w));
        let ends = (word(i, "ON") && word(i + 1, "CONFLICT"))
            || (word(i, "FOR") && word(i + 1, "UPDATE") && word(i + 2, "OF"))
            || word(i, "RETURNING");
        if ends && in_list.last() == Some(&true) {
            let span = token.span;
            for keyword in ["WHERE", "TRUE"] {
                let token = Token::make_keyword(keyword);
                out.push(TokenWithSpan { token, span });
            }
        }
        match &token.token {
            Token::LParen => in_list.push(false),
            Token::RParen if in_list.len() > 1 => {
                in_list.pop();
            }
            _ => {}
        }
        if let Some(inside) = in_list.last_mut() {
            let clause = ends || CLAUSES.iter().any(|w| word(i, w));
            *inside = !clause && (*inside || word(i, "SELECT"));
        }
        out.push(token.clone());
    }
    out
}

/// Syntax that PostgreSQL has and `sqlparser` does not: words in a row, and what to call it.
const GAPS: [(&[&str], &str); 16] = [
    (&["CURRENT", "OF"], "WHERE CURRENT OF"),
    (&["IS", "DOCUMENT"], "IS DOCUMENT"),
    (&["ROWS", "FROM"], "ROWS FROM"),
    (&["INCLUDING"], "LIKE .. INCLUDING"),
    (&["EXCLUDING"], "LIKE .. EXCLUDING"),
    (&["BETWEEN", "SYMMETRIC"], "BETWEEN SYMMETRIC"),
    (
        &["DROP", "INDEX", "CONCURRENTLY"],
        "DROP INDEX CONCURRENTLY",
    ),
    (&["SET", "COMPRESSION"], "SET COMPRESSION"),
    (&["SET", "LOGGED"], "SET LOGGED"),
    (&["SET", "STATISTICS"], "SET STATISTICS"),
    (&["SET", "STORAGE"], "SET STORAGE"),
    (&["TABLESAMPLE"], "TABLESAMPLE"),
    (&["XMLTABLE"], "XMLTABLE"),
    (&["OVERLAPS"], "OVERLAPS"),
    (&["NORMALIZED"], "IS NORMALIZED"),
    (&["GROUPING", "SETS"], "grouping sets"),
];

/// Whether a statement that `sqlparser` rejects holds syntax of PostgreSQL that it is known not to
/// have: then nothing can be said about the statement, least of all that it is wrong.
pub(super) fn known_gap(tokens: &[TokenWithSpan]) -> Option<DbError> {
    let word = |i: usize, w: &str| tokens.get(i).is_some_and(|t| is_keyword(&t.token, w));
    let is = |i: usize, token: &Token| tokens.get(i).is_some_and(|t| t.token == *token);
    let at = |i: usize| tokens.get(i).map(|t| start_of(t.span));
    let schema = ["CREATE", "ALTER", "DROP"].iter().any(|w| word(0, w));
    let modelled = ["TABLE", "INDEX", "UNIQUE", "SEQUENCE", "TYPE"]
        .iter()
        .any(|w| word(1, w));
    if schema && (!modelled || (word(0, "ALTER") && !word(1, "TABLE"))) {
        return Some(DbError::unsupported("this change of the schema", at(0)));
    }
    for i in 0..tokens.len() {
        let gap = GAPS
            .iter()
            .find(|(words, _)| words.iter().enumerate().all(|(k, w)| word(i + k, w)));
        if let Some((_, what)) = gap {
            return Some(DbError::unsupported(what, at(i)));
        }
        let expression = word(i, "ON")
            && word(i + 1, "CONFLICT")
            && is(i + 2, &Token::LParen)
            && tokens[i + 3..]
                .iter()
                .take_while(|t| t.token != Token::RParen)
                .any(|t| t.token == Token::LParen);
        if expression {
            return Some(DbError::unsupported(
                "an expression as conflict target",
                at(i + 2),
            ));
        }
        if word(i, "SET") && is(i + 2, &Token::LBracket) {
            return Some(DbError::unsupported(
                "assignment to a part of a column",
                at(i + 1),
            ));
        }
    }
    None
}
