//! From text to tokens, by the rules of MySQL and MariaDB or of SQLite.

use rowlock_model::{DbError, Dialect};

use super::errors;

/// A token with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: TokenKind,
    /// The byte at which it begins.
    pub(crate) at: usize,
    /// The byte after its end.
    pub(crate) end: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A word; quoted ones are names, never keywords.
    Word {
        /// Its text, quotes removed.
        text: String,
        /// The quotation mark, if there is one.
        quote: Option<char>,
    },
    /// A number, as written.
    Number(String),
    /// A string literal.
    Text(String),
    /// `x'..'`.
    Blob(Vec<u8>),
    /// `?`.
    Param,
    /// `@name`.
    UserVariable(String),
    /// `@@name`; what stands between `@@` and the end, points included.
    SystemVariable(String),
    /// An operator or punctuation.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// Operators and punctuation, longest first.
const SYMBOLS: [&str; 32] = [
    "->>", "<=>", "->", "<=", ">=", "<>", "!=", "==", "||", "&&", "<<", ">>", ":=", "(", ")", ",",
    ";", ".", "=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", ":",
];

/// Reads a whole text. The last token is [`TokenKind::End`].
///
/// # Errors
/// A syntax error for what is no token or is not terminated, with the tokens before it.
pub(crate) fn read(text: &str, dialect: Dialect) -> (Vec<Token>, Option<DbError>) {
    let mut lexer = Lexer {
        text,
        dialect,
        at: 0,
    };
    let mut tokens = Vec::new();
    loop {
        match lexer.next() {
            Ok(token) => {
                let ends = token.kind == TokenKind::End;
                tokens.push(token);
                if ends {
                    return (tokens, None);
                }
            }
            Err(error) => return (tokens, Some(error)),
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    dialect: Dialect,
    at: usize,
}

impl Lexer<'_> {
    fn is_sqlite(&self) -> bool {
        self.dialect == Dialect::Sqlite
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn error(&self, at: usize) -> DbError {
        if self.is_sqlite() {
            let rest = self.text.get(at..).unwrap_or_default();
            return errors::sqlite(1, format!("unrecognized token: \"{rest}\"")).at(at);
        }
        errors::syntax(self.dialect, self.text, at, self.text.len())
    }

    /// White space and comments.
    fn skip(&mut self) -> Result<(), DbError> {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start().len();
            self.at += space;
            let rest = self.rest();
            let line_comment = match self.is_sqlite() {
                true => rest.starts_with("--"),
                // MySQL wants white space or the end after the two dashes.
                false => {
                    rest.starts_with('#')
                        || (rest.starts_with("--")
                            && rest[2..].chars().next().is_none_or(char::is_whitespace))
                }
            };
            if line_comment {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                if !self.is_sqlite() && (rest.starts_with("/*!") || rest.starts_with("/*+")) {
                    return errors::unsupported("an executable comment or hint", self.at);
                }
                match rest.find("*/") {
                    Some(end) => self.at += end + 2,
                    None if self.is_sqlite() => self.at = self.text.len(),
                    None => return Err(self.error(self.at)),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Token, DbError> {
        self.skip()?;
        let at = self.at;
        let kind = self.kind()?;
        Ok(Token {
            kind,
            at,
            end: self.at,
        })
    }

    fn kind(&mut self) -> Result<TokenKind, DbError> {
        let at = self.at;
        let Some(c) = self.peek(0) else {
            return Ok(TokenKind::End);
        };
        let second = self.peek(1);
        if matches!(c, 'x' | 'X') && second == Some('\'') {
            return self.hexadecimal();
        }
        if !self.is_sqlite() && matches!(c, 'n' | 'N') && second == Some('\'') {
            self.at += 1;
            return self.string('\'');
        }
        if c.is_ascii_digit() || (c == '.' && second.is_some_and(|d| d.is_ascii_digit())) {
            return self.number();
        }
        match c {
            '\'' => return self.string('\''),
            '"' if !self.is_sqlite() => return self.string('"'),
            '"' | '`' => return self.quoted(c, c),
            '[' if self.is_sqlite() => return self.quoted('[', ']'),
            '?' => {
                self.at += 1;
                if self.peek(0).is_some_and(|d| d.is_ascii_digit()) {
                    return errors::unsupported("a numbered parameter", at);
                }
                return Ok(TokenKind::Param);
            }
            '@' if !self.is_sqlite() => return self.variable(),
            ':' | '@' | '$' if self.is_sqlite() && second.is_some_and(is_word) => {
                return errors::unsupported("a named parameter", at);
            }
            _ => {}
        }
        if is_word(c) {
            let word = self.word();
            if !self.is_sqlite() && word.starts_with('_') && self.rest().starts_with('\'') {
                return errors::unsupported("a character set introducer", at);
            }
            return Ok(TokenKind::Word {
                text: word,
                quote: None,
            });
        }
        let sqlite_has = |s: &str| !matches!(s, "<=>" | "&&" | ":=" | "^" | "!" | ":");
        let mysql_has = |s: &str| s != "==" && s != ":";
        let known = SYMBOLS.iter().find(|symbol| {
            self.rest().starts_with(**symbol)
                && if self.is_sqlite() {
                    sqlite_has(symbol)
                } else {
                    mysql_has(symbol)
                }
        });
        let Some(symbol) = known else {
            return Err(self.error(at));
        };
        self.at += symbol.len();
        Ok(TokenKind::Symbol(symbol))
    }

    fn word(&mut self) -> String {
        let rest = self.rest();
        let end = rest
            .find(|c| !(is_word(c) || char::is_ascii_digit(&c)))
            .unwrap_or(rest.len());
        let word = rest[..end].to_owned();
        self.at += end;
        word
    }

    fn hexadecimal(&mut self) -> Result<TokenKind, DbError> {
        let start = self.at;
        let rest = &self.rest()[2..];
        let Some(length) = rest.find('\'') else {
            return Err(self.error(start));
        };
        let digits = &rest.as_bytes()[..length];
        let byte = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(text, 16).ok()
        };
        let bytes: Option<Vec<u8>> = match digits.len() % 2 {
            0 => digits.chunks(2).map(byte).collect(),
            _ => None,
        };
        match bytes {
            Some(bytes) => {
                self.at += length + 3;
                Ok(TokenKind::Blob(bytes))
            }
            None => Err(self.error(start)),
        }
    }

    fn number(&mut self) -> Result<TokenKind, DbError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
        let mut i = start;
        if bytes[i] == b'0' && matches!(bytes.get(i + 1), Some(b'x' | b'X' | b'b')) {
            return errors::unsupported("a hexadecimal or binary number", start);
        }
        while digit(i) {
            i += 1;
        }
        if bytes.get(i) == Some(&b'.') {
            i += 1;
            while digit(i) {
                i += 1;
            }
        }
        if matches!(bytes.get(i), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(i + 1), Some(b'+' | b'-')));
            if digit(i + 1 + sign) {
                i += 1 + sign;
                while digit(i) {
                    i += 1;
                }
            }
        }
        self.at = i;
        if self.peek(0).is_some_and(is_word) {
            // `1abc`: a name on MySQL, no token on SQLite.
            return match self.is_sqlite() {
                true => Err(self.error(start)),
                false => errors::unsupported("a name that begins with a digit", start),
            };
        }
        Ok(TokenKind::Number(self.text[start..i].to_owned()))
    }

    /// A string literal; adjacent ones of MySQL are joined by the parser.
    fn string(&mut self, quote: char) -> Result<TokenKind, DbError> {
        let start = self.at;
        let mut out = String::new();
        let mut chars = self.text[start + 1..].char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if c == quote {
                if chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                    out.push(quote);
                    continue;
                }
                self.at = start + 1 + i + 1;
                return Ok(TokenKind::Text(out));
            }
            if c == '\\' && !self.is_sqlite() {
                let Some((_, escaped)) = chars.next() else {
                    break;
                };
                match escaped {
                    '0' => out.push('\0'),
                    'b' => out.push('\u{8}'),
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    'Z' => out.push('\u{1a}'),
                    // These stay as they are, for LIKE.
                    '%' | '_' => {
                        out.push('\\');
                        out.push(escaped);
                    }
                    other => out.push(other),
                }
                continue;
            }
            out.push(c);
        }
        Err(self.error(start))
    }

    fn quoted(&mut self, open: char, close: char) -> Result<TokenKind, DbError> {
        let start = self.at;
        let mut out = String::new();
        let mut chars = self.text[start + 1..].char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if c == close {
                if open == close && chars.peek().is_some_and(|(_, next)| *next == close) {
                    chars.next();
                    out.push(close);
                    continue;
                }
                self.at = start + 1 + i + close.len_utf8();
                return Ok(TokenKind::Word {
                    text: out,
                    quote: Some(open),
                });
            }
            out.push(c);
        }
        Err(self.error(start))
    }

    fn variable(&mut self) -> Result<TokenKind, DbError> {
        let start = self.at;
        let system = self.rest().starts_with("@@");
        self.at += 1 + usize::from(system);
        if matches!(self.peek(0), Some('\'' | '"' | '`')) {
            return errors::unsupported("a quoted variable name", start);
        }
        let rest = self.rest();
        let end = rest
            .find(|c| !(is_word(c) || char::is_ascii_digit(&c) || c == '.'))
            .unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        self.at += end;
        if name.is_empty() {
            return Err(self.error(start));
        }
        Ok(match system {
            true => TokenKind::SystemVariable(name),
            false => TokenKind::UserVariable(name),
        })
    }
}

/// Whether a word may begin with this.
fn is_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$' || !c.is_ascii()
}
