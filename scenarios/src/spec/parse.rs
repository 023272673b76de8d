//! The grammar of `.spec` files.

use std::ops::Range;

use super::{Entry, Marker, Permutation, Spec, SpecSession, Step, StepId};
use crate::source::{FileError, Problem, Source, Text};

const KEYWORDS: [&str; 6] = [
    "notices",
    "permutation",
    "session",
    "setup",
    "step",
    "teardown",
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Keyword(&'static str),
    Name(String),
    Block(Text),
    Number(u32),
    Sign(char),
    End,
}

type Found = (Token, Range<usize>);

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_name_byte(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// Cuts a text into tokens.
struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c | 0x0b => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
    }

    fn next(&mut self) -> Result<Found, Problem> {
        self.skip_blanks();
        let start = self.at;
        let rest = &self.text[start..];
        let Some(&first) = rest.as_bytes().first() else {
            return Ok((Token::End, start..start));
        };
        let token = match first {
            b'{' => self.block()?,
            b'"' => self.quoted()?,
            b'0'..=b'9' => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                self.at += digits;
                let number = rest[..digits].parse();
                Token::Number(
                    number.map_err(|_| Problem::new(start..self.at, "too large a number"))?,
                )
            }
            byte if is_name_start(byte) => {
                let length = rest.bytes().take_while(|b| is_name_byte(*b)).count();
                self.at += length;
                let word = &rest[..length];
                match KEYWORDS.iter().find(|keyword| **keyword == word) {
                    Some(keyword) => Token::Keyword(keyword),
                    None => Token::Name(word.to_owned()),
                }
            }
            b'(' | b')' | b',' | b'*' => {
                self.at += 1;
                Token::Sign(char::from(first))
            }
            _ => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                return Err(Problem::new(
                    start..start + length,
                    "this character has no meaning here",
                ));
            }
        };
        Ok((token, start..self.at))
    }

    /// SQL ends at the first `}`; there is no way to have one in it.
    fn block(&mut self) -> Result<Token, Problem> {
        let start = self.at;
        let rest = &self.text[start + 1..];
        let Some(length) = rest.find('}') else {
            return Err(Problem::new(
                self.at..self.at + 1,
                "this SQL has no closing `}`",
            ));
        };
        self.at += length + 2;
        // Line ends are kept: they are part of what is echoed.
        let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\u{c}');
        let inside = rest[..length].trim_start_matches(blank);
        Ok(Token::Block(Text {
            text: inside.trim_end_matches(blank).into(),
            span: start..self.at,
            verbatim: Some(start + 1 + length - inside.len()),
        }))
    }

    fn quoted(&mut self) -> Result<Token, Problem> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut name = Vec::new();
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                Some(b'"') if bytes.get(self.at + 1) == Some(&b'"') => {
                    name.push(b'"');
                    self.at += 2;
                }
                Some(b'"') => break,
                None | Some(b'\n') => {
                    return Err(Problem::new(
                        start..self.at,
                        "this name has no closing `\"`",
                    ));
                }
                Some(byte) => {
                    name.push(*byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        // It was cut out of valid text at ASCII characters.
        Ok(Token::Name(String::from_utf8_lossy(&name).into_owned()))
    }
}

/// An entry of a permutation as written: names, not yet looked up.
struct Written {
    name: (String, Range<usize>),
    markers: Vec<(WrittenMarker, Range<usize>)>,
}

enum WrittenMarker {
    Once,
    Step(String),
    Notices(String, u32),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    span: Range<usize>,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, Problem> {
        let (token, span) = self.lexer.next()?;
        self.span = span;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn expected<T>(&self, what: &str) -> Result<T, Problem> {
        Err(Problem::new(self.span.clone(), format!("expected {what}")))
    }

    fn takes(&mut self, keyword: &'static str) -> Result<bool, Problem> {
        let found = self.token == Token::Keyword(keyword);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn sql(&mut self) -> Result<Text, Problem> {
        match &self.token {
            Token::Block(_) => match self.advance()? {
                Token::Block(sql) => Ok(sql),
                _ => self.expected("SQL in braces"),
            },
            _ => self.expected("SQL in braces"),
        }
    }

    fn name(&mut self, of: &str) -> Result<(String, Range<usize>), Problem> {
        let span = self.span.clone();
        match &self.token {
            Token::Name(_) => match self.advance()? {
                Token::Name(name) => Ok((name, span)),
                _ => self.expected(of),
            },
            _ => self.expected(of),
        }
    }

    fn session(&mut self) -> Result<SpecSession, Problem> {
        let (name, span) = self.name("the name of a session")?;
        let setup = match self.takes("setup")? {
            true => Some(self.sql()?),
            false => None,
        };
        let mut steps = Vec::new();
        while self.takes("step")? {
            let (name, span) = self.name("the name of a step")?;
            let sql = self.sql()?;
            steps.push(Step { name, span, sql });
        }
        if steps.is_empty() {
            return Err(Problem::new(span, "a session needs a step"));
        }
        let teardown = match self.takes("teardown")? {
            true => Some(self.sql()?),
            false => None,
        };
        Ok(SpecSession {
            name,
            span,
            setup,
            steps,
            teardown,
        })
    }

    fn permutation(&mut self) -> Result<Vec<Written>, Problem> {
        let mut entries = Vec::new();
        while matches!(self.token, Token::Name(_)) {
            let name = self.name("the name of a step")?;
            let mut markers = Vec::new();
            if self.token == Token::Sign('(') {
                loop {
                    // The bracket or the comma.
                    self.advance()?;
                    markers.push(self.marker()?);
                    if self.token != Token::Sign(',') {
                        break;
                    }
                }
                if self.token != Token::Sign(')') {
                    return self.expected("`,` or `)`");
                }
                self.advance()?;
            }
            entries.push(Written { name, markers });
        }
        match entries.is_empty() {
            true => self.expected("the name of a step"),
            false => Ok(entries),
        }
    }

    fn marker(&mut self) -> Result<(WrittenMarker, Range<usize>), Problem> {
        if self.token == Token::Sign('*') {
            let span = self.span.clone();
            self.advance()?;
            return Ok((WrittenMarker::Once, span));
        }
        let (name, span) = self.name("`*` or the name of a step")?;
        if !self.takes("notices")? {
            return Ok((WrittenMarker::Step(name), span));
        }
        match self.token {
            Token::Number(count) => {
                self.advance()?;
                Ok((WrittenMarker::Notices(name, count), span))
            }
            _ => self.expected("a number of notices"),
        }
    }
}

/// Reads a file; without permutations it means every interleaving.
pub(super) fn parse(source: &Source) -> Result<Spec, FileError> {
    let mut spec = written(source)?;
    if !spec.is_explicit {
        spec.permutations = all_permutations(&spec.sessions);
    }
    Ok(spec)
}

/// Reads a file; only the permutations that stand in it.
pub(super) fn written(source: &Source) -> Result<Spec, FileError> {
    read(&source.text).map_err(|problem| FileError::new(source.clone(), vec![problem]))
}

fn read(text: &str) -> Result<Spec, Problem> {
    let mut parser = Parser {
        lexer: Lexer { text, at: 0 },
        token: Token::End,
        span: 0..0,
    };
    parser.advance()?;
    let mut setups = Vec::new();
    while parser.takes("setup")? {
        setups.push(parser.sql()?);
    }
    let teardown = match parser.takes("teardown")? {
        true => Some(parser.sql()?),
        false => None,
    };
    let mut sessions = Vec::new();
    while parser.takes("session")? {
        sessions.push(parser.session()?);
    }
    if sessions.is_empty() {
        return parser.expected("`setup`, `teardown` or `session`");
    }
    let mut spec = Spec {
        setups,
        teardown,
        sessions,
        permutations: Vec::new(),
        is_explicit: false,
    };
    unique_names(&spec)?;
    while parser.takes("permutation")? {
        let written = parser.permutation()?;
        spec.permutations.push(resolve(&spec, written)?);
        spec.is_explicit = true;
    }
    if parser.token != Token::End {
        return parser.expected("`session`, `step`, `permutation` or the end of the file");
    }
    Ok(spec)
}

fn unique_names(spec: &Spec) -> Result<(), Problem> {
    let steps: Vec<&Step> = spec.steps().map(|(_, step)| step).collect();
    for (i, step) in steps.iter().enumerate() {
        if steps[..i].iter().any(|before| before.name == step.name) {
            return Err(Problem::new(
                step.span.clone(),
                format!("a second step with the name `{}`", step.name),
            ));
        }
    }
    Ok(())
}

fn resolve(spec: &Spec, written: Vec<Written>) -> Result<Permutation, Problem> {
    let find = |name: &str, span: &Range<usize>| {
        let found = spec.steps().find(|(_, step)| step.name == name);
        found.map(|(id, _)| id).ok_or_else(|| {
            Problem::new(
                span.clone(),
                format!("there is no step `{name}` in this file"),
            )
        })
    };
    let mut entries = Vec::new();
    for entry in &written {
        let step = find(&entry.name.0, &entry.name.1)?;
        let mut markers = Vec::new();
        for (marker, span) in &entry.markers {
            let other = |name: &str| {
                let other = find(name, span)?;
                if other.session == step.session {
                    return Err(Problem::new(
                        span.clone(),
                        format!("`{name}` is a step of the same session"),
                    ));
                }
                if !written.iter().any(|entry| entry.name.0 == name) {
                    return Err(Problem::new(
                        span.clone(),
                        format!("`{name}` is not in this permutation"),
                    ));
                }
                Ok(other)
            };
            markers.push(match marker {
                WrittenMarker::Once => Marker::Once,
                WrittenMarker::Step(name) => Marker::Step(other(name)?),
                WrittenMarker::Notices(name, count) => Marker::Notices(other(name)?, *count),
            });
        }
        entries.push(Entry { step, markers });
    }
    Ok(Permutation { entries })
}

/// Every interleaving of the sessions' steps, depth first, sessions in the order of the file.
fn all_permutations(sessions: &[SpecSession]) -> Vec<Permutation> {
    fn extend(
        sessions: &[SpecSession],
        done: &mut Vec<usize>,
        path: &mut Vec<Entry>,
        out: &mut Vec<Permutation>,
    ) {
        let mut complete = true;
        for session in 0..sessions.len() {
            let index = done[session];
            if index == sessions[session].steps.len() {
                continue;
            }
            complete = false;
            done[session] += 1;
            path.push(Entry {
                step: StepId { session, index },
                markers: Vec::new(),
            });
            extend(sessions, done, path, out);
            path.pop();
            done[session] -= 1;
        }
        if complete {
            out.push(Permutation {
                entries: path.clone(),
            });
        }
    }
    let mut out = Vec::new();
    extend(
        sessions,
        &mut vec![0; sessions.len()],
        &mut Vec::new(),
        &mut out,
    );
    out
}
