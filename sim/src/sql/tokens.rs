//! Tokens with byte offsets, and the server's words for a token that does not fit.
//!
//! `sqlparser` counts lines and columns of characters. Spans are rewritten here: line 1, and the
//! byte offset plus one as the column. Every span in a parsed tree is thus a byte offset.

use rowlock_model::{DbError, Dialect};
use sqlparser::dialect::{MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Word};

/// The byte at which a span begins; 0 for an empty span.
pub fn start_of(span: Span) -> usize {
    (span.start.column as usize).saturating_sub(1)
}

/// The byte after the end of a span.
pub fn end_of(span: Span) -> usize {
    (span.end.column as usize).saturating_sub(1)
}

/// Whether a span says where it is.
pub fn is_known(span: Span) -> bool {
    span.start.line != 0
}

/// The place that `sqlparser` wrote into an error message, as a byte offset.
pub fn place_in_message(message: &str) -> Option<usize> {
    let (_, tail) = message.rsplit_once(" at Line: 1, Column: ")?;
    tail.trim().parse::<usize>().ok()?.checked_sub(1)
}

/// 42601 at a token.
pub fn near(text: &str, token: &TokenWithSpan) -> DbError {
    let (start, end) = (start_of(token.span), end_of(token.span));
    let shown = text.get(start..end).unwrap_or_default();
    DbError::postgres("42601", format!("syntax error at or near \"{shown}\"")).at(start)
}

/// 42601 at the end of the text.
pub fn at_end(text: &str) -> DbError {
    DbError::postgres("42601", "syntax error at end of input").at(text.len())
}

/// Reads a text into tokens, white space and comments included.
///
/// # Errors
/// 42601 for what is not terminated.
pub fn read(text: &str, dialect: Dialect) -> Result<Vec<TokenWithSpan>, DbError> {
    let dialect: Box<dyn sqlparser::dialect::Dialect> = match dialect {
        Dialect::Postgres => Box::new(PostgreSqlDialect {}),
        Dialect::MySql | Dialect::MariaDb => Box::new(MySqlDialect {}),
        Dialect::Sqlite => Box::new(SQLiteDialect {}),
    };
    let lines = Lines::of(text);
    let mut tokens = Vec::new();
    Tokenizer::new(&*dialect, text)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| lexical_error(text, lines.byte(error.location), &error.message))?;
    for token in &mut tokens {
        let place = |location| Location {
            line: 1,
            column: lines.byte(location) as u64 + 1,
        };
        token.span = Span {
            start: place(token.span.start),
            end: place(token.span.end),
        };
    }
    Ok(tokens)
}

fn lexical_error(text: &str, at: usize, message: &str) -> DbError {
    let rest = text.get(at..).unwrap_or_default();
    let what = if message.contains("multi-line comment") {
        "unterminated /* comment"
    } else if message.contains("dollar") {
        "unterminated dollar-quoted string"
    } else if message.contains("string literal") || message.contains("encoded string") {
        "unterminated quoted string"
    } else if message.contains("Expected close delimiter '\"'") {
        "unterminated quoted identifier"
    } else {
        "syntax error"
    };
    DbError::postgres("42601", format!("{what} at or near \"{rest}\"")).at(at)
}

/// The byte offsets at which lines begin.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Lines<'t> {
        let after = text.match_indices('\n').map(|(i, _)| i + 1);
        Lines {
            text,
            starts: std::iter::once(0).chain(after).collect(),
        }
    }

    /// The byte of a location, whose column counts characters from 1.
    fn byte(&self, location: Location) -> usize {
        let line = (location.line as usize).saturating_sub(1);
        let Some(&start) = self.starts.get(line) else {
            return self.text.len();
        };
        let column = (location.column as usize).saturating_sub(1);
        let rest = &self.text[start..];
        let within = rest
            .char_indices()
            .nth(column)
            .map_or(rest.len(), |(i, _)| i);
        start + within
    }
}

/// `TABLE t` is `SELECT * FROM t`.
pub(super) fn rewrite_table_command(tokens: &mut Vec<TokenWithSpan>) {
    let Some(first) = tokens
        .iter()
        .position(|t| !matches!(t.token, Token::Whitespace(_)))
    else {
        return;
    };
    if !is_keyword(&tokens[first].token, "TABLE") {
        return;
    }
    let span = tokens[first].span;
    let replacement = [
        Token::make_keyword("SELECT"),
        Token::Mul,
        Token::make_keyword("FROM"),
    ];
    tokens.splice(
        first..=first,
        replacement.map(|token| TokenWithSpan { token, span }),
    );
}

/// Whether a token is this unquoted word.
pub(super) fn is_keyword(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// A reader of the significant tokens of one statement.
#[derive(Debug)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    tokens: Vec<&'t TokenWithSpan>,
    next: Option<&'t TokenWithSpan>,
    at: usize,
}

impl<'t> Tokens<'t> {
    /// Over the tokens of a statement; `next` follows it.
    pub(super) fn new(
        text: &'t str,
        part: &'t [TokenWithSpan],
        next: Option<&'t TokenWithSpan>,
    ) -> Tokens<'t> {
        Tokens {
            text,
            tokens: part
                .iter()
                .filter(|t| !matches!(t.token, Token::Whitespace(_)))
                .collect(),
            next,
            at: 0,
        }
    }

    /// The token that is next.
    pub(super) fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    /// The unquoted word that is next, in capitals.
    pub(super) fn peek_word(&self) -> Option<String> {
        self.word_at(0)
    }

    /// The unquoted word `ahead` tokens from here, in capitals.
    pub(super) fn word_at(&self, ahead: usize) -> Option<String> {
        match &self.tokens.get(self.at + ahead)?.token {
            Token::Word(w) if w.quote_style.is_none() => Some(w.value.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// The tokens from here on.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &'t Token> {
        self.tokens[self.at.min(self.tokens.len())..]
            .iter()
            .map(|t| &t.token)
    }

    /// Where the next token begins.
    pub(super) fn position(&self) -> usize {
        match self.tokens.get(self.at).or(self.next.as_ref()) {
            Some(token) => start_of(token.span),
            None => self.text.len(),
        }
    }

    /// The byte after the last token that was taken.
    pub(super) fn last_end(&self) -> usize {
        match self.at.checked_sub(1).and_then(|i| self.tokens.get(i)) {
            Some(token) => end_of(token.span),
            None => self.position(),
        }
    }

    /// 42601 at the next token.
    pub(super) fn syntax_error(&self) -> DbError {
        match self.tokens.get(self.at).or(self.next.as_ref()) {
            Some(token) => near(self.text, token),
            None => at_end(self.text),
        }
    }

    /// Takes the next token.
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Takes the token if it comes next.
    pub(super) fn eat(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    /// Takes the word if it comes next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|t| is_keyword(t, word));
        self.at += usize::from(found);
        found
    }

    /// Takes these words if they come next, all or none.
    pub(super) fn eat_words(&mut self, words: &[&str]) -> bool {
        let found = words
            .iter()
            .enumerate()
            .all(|(i, w)| self.word_at(i).as_deref() == Some(*w));
        if found {
            self.at += words.len();
        }
        found
    }

    /// Takes the word, or fails.
    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), DbError> {
        if self.eat_word(word) {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    /// Takes the token, or fails.
    pub(super) fn expect(&mut self, token: &Token) -> Result<(), DbError> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    /// Takes a name: folded to lower case unless quoted.
    pub(super) fn name(&mut self) -> Result<String, DbError> {
        match self.peek() {
            Some(Token::Word(Word {
                value, quote_style, ..
            })) => {
                if value.is_empty() {
                    let message = "zero-length delimited identifier at or near \"\"\"\"";
                    return Err(DbError::postgres("42601", message).at(self.position()));
                }
                self.advance();
                Ok(match quote_style {
                    Some(_) => value.clone(),
                    None => value.to_ascii_lowercase(),
                })
            }
            _ => Err(self.syntax_error()),
        }
    }

    /// Takes a string literal.
    pub(super) fn string(&mut self) -> Result<String, DbError> {
        match self.peek() {
            Some(Token::SingleQuotedString(s) | Token::EscapedStringLiteral(s)) => {
                self.advance();
                Ok(s.clone())
            }
            _ => Err(self.syntax_error()),
        }
    }

    /// Whether all is read.
    pub(super) fn is_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Fails unless all is read.
    pub(super) fn expect_end(&self) -> Result<(), DbError> {
        if self.is_end() {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    /// The text from here to the end of the statement, and where it begins; takes it.
    pub(super) fn rest(&mut self) -> (&'t str, usize) {
        let start = self.position();
        let end = self.tokens.last().map_or(start, |t| end_of(t.span));
        self.at = self.tokens.len();
        (self.text.get(start..end).unwrap_or_default(), start)
    }

    /// The text between two bytes.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }
}

/// A quoted word that no text can contain, to carry something through `sqlparser`.
pub(super) fn carrier(value: String, span: Span) -> TokenWithSpan {
    TokenWithSpan {
        token: Token::Word(Word {
            value,
            quote_style: Some('"'),
            keyword: Keyword::NoKeyword,
        }),
        span,
    }
}
