//! From text to statements.
//!
//! A text is read into tokens whose spans are byte offsets ([`tokens`]), split at its semicolons,
//! and each statement is parsed: those about the session and its transaction ([`control`]) by our
//! own parser, because a general SQL parser accepts some of them with their meaning lost; all
//! others by `sqlparser`. Row-lock clauses are *folded* before ([`locks`]): `sqlparser` does not know
//! all of them.
//!
//! `sqlparser` accepts more than a server does. Whatever its tree can say and
//! [`crate::plan::lower`] does not translate is refused there.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};
use sqlparser::dialect::{MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError, ParserOptions};
use sqlparser::tokenizer::{Token, TokenWithSpan};

pub mod arbiter;
pub mod control;
pub mod locks;
pub mod plpgsql;
mod postgres;
pub mod tokens;

use tokens::{Tokens, at_end, near, start_of};

/// One statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The whole text that it is part of; positions in errors count from its start.
    pub text: Arc<str>,
    /// The byte at which the statement begins.
    pub offset: usize,
    /// The byte after its end, without the semicolon.
    pub end: usize,
    /// Whose SQL it is.
    pub dialect: Dialect,
    /// What it is.
    pub kind: StatementKind,
}

/// What a statement is.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// About the session or transaction.
    Control(control::Control),
    /// A query, a change of data or of the schema: for [`crate::plan::lower`]. Spans in the tree are
    /// byte offsets ([`tokens::start_of`]).
    Data(Box<sqlparser::ast::Statement>),
    /// `DO`.
    Do(DoBlock),
}

/// `DO` with its body.
#[derive(Clone, Debug, PartialEq)]
pub struct DoBlock {
    /// The body as text.
    pub source: Arc<str>,
    /// The body.
    pub body: Arc<plpgsql::Block>,
}

/// Splits a text at its semicolons and parses every statement. Empty statements are left out, so a
/// text of comments gives none.
///
/// # Errors
/// The first syntax error (nothing of the text may be run then, as on the server), or `unsupported`.
pub fn parse(text: &str, dialect: Dialect) -> Result<Vec<Statement>, DbError> {
    let text: Arc<str> = text.into();
    let all = tokens::read(&text, dialect)?;
    let mut statements = Vec::new();
    for part in all.split(|t| t.token == Token::SemiColon) {
        let significant = part
            .iter()
            .filter(|t| !matches!(t.token, Token::Whitespace(_)));
        let mut significant = significant.peekable();
        let Some(first) = significant.peek() else {
            continue;
        };
        let offset = start_of(first.span);
        let last = significant
            .last()
            .map_or(offset, |t| tokens::end_of(t.span));
        // What follows the statement: the semicolon, or nothing.
        let next = all
            .iter()
            .find(|t| start_of(t.span) >= last && t.token == Token::SemiColon);
        let kind = parse_one(&text, part, next, dialect)?;
        statements.push(Statement {
            text: text.clone(),
            offset,
            end: last,
            dialect,
            kind,
        });
    }
    Ok(statements)
}

/// What can be altered on a server although `sqlparser` takes it for a mistake.
const UNKNOWN_TO_PARSER: &[&str] = &[
    "AGGREGATE",
    "COLLATION",
    "CONVERSION",
    "DATABASE",
    "DEFAULT",
    "EVENT",
    "EXTENSION",
    "FOREIGN",
    "FUNCTION",
    "LANGUAGE",
    "LARGE",
    "MATERIALIZED",
    "PROCEDURE",
    "PUBLICATION",
    "ROUTINE",
    "RULE",
    "STATISTICS",
    "SUBSCRIPTION",
    "SYSTEM",
    "TABLESPACE",
    "TEXT",
    "TRIGGER",
];

fn parse_one(
    text: &Arc<str>,
    part: &[TokenWithSpan],
    next: Option<&TokenWithSpan>,
    dialect: Dialect,
) -> Result<StatementKind, DbError> {
    let mut tokens = Tokens::new(text, part, next);
    let word = tokens.peek_word().unwrap_or_default();
    if let Some(control) = control::parse(&mut tokens, &word)? {
        tokens.expect_end()?;
        return Ok(StatementKind::Control(control));
    }
    if let ("ALTER", Some(object)) = (word.as_str(), tokens.word_at(1))
        && UNKNOWN_TO_PARSER.contains(&object.as_str())
    {
        return Err(DbError::unsupported(
            format!("the statement ALTER {object}"),
            Some(tokens.position()),
        ));
    }
    match word.as_str() {
        "SELECT" | "WITH" | "INSERT" | "UPDATE" | "DELETE" | "VALUES" | "TABLE" | "CREATE"
        | "ALTER" | "DROP" | "TRUNCATE" => {}
        "MERGE" if dialect == Dialect::Postgres => {}
        "" if tokens.peek() == Some(&Token::LParen) => {}
        "DO" if dialect == Dialect::Postgres => return do_block(&mut tokens),
        "COPY" | "COMMENT" | "DO" | "CALL" | "DECLARE" | "FETCH" | "MOVE" | "CLOSE" | "EXPLAIN"
        | "REINDEX" | "CLUSTER" | "REFRESH" | "CHECKPOINT" | "LOAD" | "SECURITY" | "REASSIGN"
        | "IMPORT" => {
            return Err(DbError::unsupported(
                format!("the statement {word}"),
                Some(tokens.position()),
            ));
        }
        _ => return Err(tokens.syntax_error()),
    }
    let mut folded = locks::fold(text, part)?;
    if dialect == Dialect::Postgres {
        arbiter::fold(&mut folded);
        postgres::refuse_foreign(text, &mut folded, next)?;
        let gap = postgres::known_gap(&folded);
        let folded = postgres::end_select_lists(folded);
        return parse_data(text, folded, next, dialect).map_err(|e| gap.unwrap_or(e));
    }
    parse_data(text, folded, next, dialect)
}

/// `DO [LANGUAGE plpgsql] 'body'`, in either order.
fn do_block(tokens: &mut Tokens<'_>) -> Result<StatementKind, DbError> {
    tokens.advance();
    let mut source: Option<(String, usize)> = None;
    while !tokens.is_end() {
        if tokens.eat_word("LANGUAGE") {
            let at = tokens.position();
            let language = tokens.name()?;
            if language != "plpgsql" {
                return Err(DbError::unsupported(format!("DO in {language}"), Some(at)));
            }
            continue;
        }
        let at = tokens.position();
        if source.is_some() {
            return Err(tokens.syntax_error());
        }
        source = Some(match tokens.peek() {
            Some(Token::DollarQuotedString(text)) => {
                tokens.advance();
                let tag = text.tag.as_ref().map_or(0, String::len);
                (text.value.clone(), at + tag + 2)
            }
            _ => (tokens.string()?, at + 1),
        });
    }
    let Some((text, at)) = source else {
        return Err(DbError::postgres("42601", "no inline code specified"));
    };
    let body = plpgsql::parse(&text).map_err(|e| match e.position {
        Some(inside) => e.at(at + inside),
        None => e,
    })?;
    Ok(StatementKind::Do(DoBlock {
        source: text.into(),
        body: Arc::new(body),
    }))
}

fn parse_data(
    text: &str,
    mut tokens: Vec<TokenWithSpan>,
    next: Option<&TokenWithSpan>,
    dialect: Dialect,
) -> Result<StatementKind, DbError> {
    tokens::rewrite_table_command(&mut tokens);
    let dialect: Box<dyn sqlparser::dialect::Dialect> = match dialect {
        Dialect::Postgres => Box::new(PostgreSqlDialect {}),
        Dialect::MySql | Dialect::MariaDb => Box::new(MySqlDialect {}),
        Dialect::Sqlite => Box::new(SQLiteDialect {}),
    };
    let options = ParserOptions::new().with_trailing_commas(false);
    let mut parser = Parser::new(&*dialect)
        .with_options(options)
        .with_tokens_with_locations(tokens);
    let error_at = |token: Option<&TokenWithSpan>| match token {
        Some(t) if t.token != Token::EOF => near(text, t),
        _ => next.map_or_else(|| at_end(text), |t| near(text, t)),
    };
    match parser.parse_statement() {
        Ok(statement) => {
            let rest = parser.peek_token();
            if rest.token != Token::EOF {
                return Err(error_at(Some(&rest)));
            }
            Ok(StatementKind::Data(Box::new(statement)))
        }
        Err(ParserError::RecursionLimitExceeded) => {
            Err(DbError::unsupported("a statement nested this deeply", None))
        }
        Err(ParserError::TokenizerError(message) | ParserError::ParserError(message)) => {
            let place = tokens::place_in_message(&message);
            let found = place.and_then(|at| parser.token_at_byte(at));
            Err(match found {
                Some(token) => error_at(Some(&token)),
                None if message.contains("found: EOF") => error_at(None),
                None => error_at(Some(&parser.peek_token())),
            })
        }
    }
}

/// Looks a token up by where it begins.
trait TokenAt {
    fn token_at_byte(&self, at: usize) -> Option<TokenWithSpan>;
}

impl TokenAt for Parser<'_> {
    fn token_at_byte(&self, at: usize) -> Option<TokenWithSpan> {
        (0..=self.index() + 1)
            .rev()
            .map(|i| self.token_at(i))
            .find(|t| t.token != Token::EOF && start_of(t.span) == at)
            .cloned()
    }
}
