//! Text to [`Expr`]: a tokenizer and precedence climbing.

use std::ops::Range;

use rowlock_model::Value;

use super::{Expr, Kind, Name, Node, Operator};
use crate::source::{Problem, Text};

/// A name as written: its first part, and the part after the dot (true if that was quoted).
pub(crate) struct Path<'a> {
    pub(crate) first: &'a str,
    pub(crate) second: Option<(String, bool)>,
}

/// Gives a name its meaning and its type, or says in words why there is no such name.
pub(crate) type Resolve<'a> = dyn FnMut(&Path<'_>) -> Result<(Name, Kind), String> + 'a;

/// Parses an expression. `resolve` gives the meaning of each name and its type, or says in words why
/// there is no such name.
pub(crate) fn parse(text: &Text, wanted: Kind, resolve: &mut Resolve<'_>) -> Result<Expr, Problem> {
    let tokens = tokenize(text)?;
    let mut parser = Parser {
        text,
        tokens,
        next: 0,
        depth: 0,
        resolve,
    };
    let (expr, kind) = parser.binary(0)?;
    let (token, span) = parser.peek();
    if *token != Token::End {
        return Err(parser.problem(span, "expected an operator or the end of the expression"));
    }
    if !kind.fits(wanted) {
        return Err(Problem::new(
            expr.span,
            format!("expected {}, this is {}", wanted.name(), kind.name()),
        ));
    }
    Ok(expr)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(i64),
    Text(String),
    Quoted(String),
    Word(String),
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 15] = [
    "==", "!=", "<>", "<=", ">=", "=", "<", ">", "+", "-", "*", "(", ")", ".", ",",
];

/// The strength of the comparisons among the operators.
const COMPARISON: u8 = 3;

/// Nesting that a file may use; the parser is recursive.
const DEPTH: usize = 64;

fn tokenize(text: &Text) -> Result<Vec<(Token, Range<usize>)>, Problem> {
    let source = &*text.text;
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        let start = at;
        let token = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c.is_ascii_digit() {
            at += run(&source[at..], |c| c.is_ascii_alphanumeric() || c == '_');
            let number = source[start..at]
                .parse()
                .map_err(|_| Problem::new(text.locate(start..at), "not an integer of 64 bits"))?;
            Token::Number(number)
        } else if is_word_start(c) {
            at += run(&source[at..], is_word);
            Token::Word(source[start..at].to_owned())
        } else if c == '\'' || c == '"' {
            let (value, length) = quoted(&source[at..], c).ok_or_else(|| {
                Problem::new(text.locate(start..source.len()), "the quote is not closed")
            })?;
            at += length;
            if c == '"' {
                Token::Quoted(value)
            } else {
                Token::Text(value)
            }
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|s| source[at..].starts_with(s)) {
            at += symbol.len();
            Token::Symbol(symbol)
        } else {
            return Err(Problem::new(
                text.locate(at..at + c.len_utf8()),
                format!("`{c}` means nothing in an expression"),
            ));
        };
        tokens.push((token, start..at));
    }
    tokens.push((Token::End, source.len()..source.len()));
    Ok(tokens)
}

pub(crate) fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn run(s: &str, accept: impl Fn(char) -> bool) -> usize {
    s.find(|c| !accept(c)).unwrap_or(s.len())
}

/// The value of a quoted token (a doubled quote is one), and its length with the quotes.
pub(crate) fn quoted(s: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = s.char_indices().skip(1).peekable();
    while let Some((i, c)) = chars.next() {
        if c != quote {
            value.push(c);
        } else if chars.peek().is_some_and(|(_, next)| *next == quote) {
            chars.next();
            value.push(c);
        } else {
            return Some((value, i + 1));
        }
    }
    None
}

struct Parser<'a> {
    text: &'a Text,
    tokens: Vec<(Token, Range<usize>)>,
    next: usize,
    depth: usize,
    resolve: &'a mut Resolve<'a>,
}

impl Expr {
    fn is_comparison(&self) -> bool {
        use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(
            self.node,
            Node::Binary(
                Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual,
                ..
            )
        )
    }
}

impl Parser<'_> {
    fn peek(&self) -> (&Token, Range<usize>) {
        let (token, span) = &self.tokens[self.next];
        (token, span.clone())
    }

    fn take(&mut self) -> (Token, Range<usize>) {
        let token = self.tokens[self.next].clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn problem(&self, span: Range<usize>, message: impl Into<String>) -> Problem {
        Problem::new(self.text.locate(span), message)
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.peek().0, Token::Word(w) if w.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.take();
        }
        found
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek().0, Token::Symbol(s) if *s == symbol);
        if found {
            self.take();
        }
        found
    }

    /// Operators that bind at least as tightly as `level`.
    fn binary(&mut self, level: u8) -> Result<(Expr, Kind), Problem> {
        self.depth += 1;
        if self.depth > DEPTH {
            let span = self.peek().1;
            return Err(self.problem(span, "nested too deeply"));
        }
        let mut left = self.unary(level)?;
        while let Some((operator, strength)) = self.operator() {
            if strength < level {
                break;
            }
            let (_, span) = self.take();
            if strength == COMPARISON && left.0.is_comparison() {
                let message = "comparisons cannot be chained";
                return Err(self.problem(span, message).help("join them with `and`"));
            }
            let right = self.binary(strength + 1)?;
            left = self.combine(operator, left, right)?;
        }
        while level <= 3 && self.at_word("is") {
            left = self.is_null(left)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        if self.at_word("or") {
            return Some((Operator::Or, 0));
        }
        if self.at_word("and") {
            return Some((Operator::And, 1));
        }
        let Token::Symbol(symbol) = self.peek().0 else {
            return None;
        };
        Some(match *symbol {
            "==" | "=" => (Operator::Equal, 3),
            "!=" | "<>" => (Operator::NotEqual, 3),
            "<" => (Operator::Less, 3),
            "<=" => (Operator::LessOrEqual, 3),
            ">" => (Operator::Greater, 3),
            ">=" => (Operator::GreaterOrEqual, 3),
            "+" => (Operator::Add, 4),
            "-" => (Operator::Subtract, 4),
            "*" => (Operator::Multiply, 5),
            _ => return None,
        })
    }

    fn combine(
        &self,
        operator: Operator,
        (left, left_kind): (Expr, Kind),
        (right, right_kind): (Expr, Kind),
    ) -> Result<(Expr, Kind), Problem> {
        use Operator::{Add, And, Multiply, Or, Subtract};
        let kind = match operator {
            Or | And => {
                self.demand(&left, left_kind, Kind::Bool)?;
                self.demand(&right, right_kind, Kind::Bool)?;
                Kind::Bool
            }
            Add | Subtract | Multiply => {
                self.demand(&left, left_kind, Kind::Number)?;
                self.demand(&right, right_kind, Kind::Number)?;
                Kind::Number
            }
            _ => {
                if !left_kind.fits(right_kind) {
                    return Err(Problem::new(
                        left.span.start..right.span.end,
                        format!(
                            "the left side is {}, the right side is {}",
                            left_kind.name(),
                            right_kind.name()
                        ),
                    ));
                }
                Kind::Bool
            }
        };
        let span = left.span.start..right.span.end;
        let node = Node::Binary(operator, Box::new(left), Box::new(right));
        Ok((Expr { node, span }, kind))
    }

    fn demand(&self, expr: &Expr, kind: Kind, wanted: Kind) -> Result<(), Problem> {
        if kind.fits(wanted) {
            return Ok(());
        }
        Err(Problem::new(
            expr.span.clone(),
            format!("expected {}, this is {}", wanted.name(), kind.name()),
        ))
    }

    fn is_null(&mut self, (operand, _): (Expr, Kind)) -> Result<(Expr, Kind), Problem> {
        self.take();
        let negated = self.take_word("not");
        let span = self.peek().1;
        if !self.take_word("null") {
            return Err(self.problem(span, "expected `null` after `is`"));
        }
        let span = operand.span.start..self.text.locate(span).end;
        let node = Node::IsNull(Box::new(operand), negated);
        Ok((Expr { node, span }, Kind::Bool))
    }

    fn unary(&mut self, level: u8) -> Result<(Expr, Kind), Problem> {
        let start = self.text.locate(self.peek().1).start;
        if level <= 2 && self.take_word("not") {
            let (operand, kind) = self.binary(2)?;
            self.demand(&operand, kind, Kind::Bool)?;
            let span = start..operand.span.end;
            return Ok((
                Expr {
                    node: Node::Not(Box::new(operand)),
                    span,
                },
                Kind::Bool,
            ));
        }
        if self.take_symbol("-") {
            let (operand, kind) = self.binary(6)?;
            self.demand(&operand, kind, Kind::Number)?;
            let span = start..operand.span.end;
            return Ok((
                Expr {
                    node: Node::Negate(Box::new(operand)),
                    span,
                },
                Kind::Number,
            ));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<(Expr, Kind), Problem> {
        let (token, bytes) = self.take();
        let span = self.text.locate(bytes.clone());
        let value = match token {
            Token::Number(n) => Value::Int(n),
            Token::Text(t) => Value::text(t),
            Token::Symbol("(") => {
                let (mut inner, kind) = self.binary(0)?;
                let end = self.peek().1;
                if !self.take_symbol(")") {
                    return Err(self.problem(end, "expected `)`"));
                }
                inner.span = span.start..self.text.locate(end).end;
                return Ok((inner, kind));
            }
            Token::Word(word) => match &*word.to_ascii_lowercase() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                "and" | "or" | "not" | "is" => {
                    return Err(self.problem(bytes, format!("expected a value, found `{word}`")));
                }
                _ => return self.name(&word, bytes),
            },
            Token::End => return Err(self.problem(bytes, "expected a value")),
            Token::Quoted(_) => {
                let advice = "text is written in single quotes";
                return Err(self.problem(bytes, "expected a value").help(advice));
            }
            Token::Symbol(s) => {
                return Err(self.problem(bytes, format!("expected a value, found `{s}`")));
            }
        };
        let kind = Kind::of(&value);
        let node = Node::Literal(value);
        Ok((Expr { node, span }, kind))
    }

    fn name(&mut self, word: &str, start: Range<usize>) -> Result<(Expr, Kind), Problem> {
        let mut end = start.end;
        let mut second = None;
        if self.take_symbol(".") {
            let (token, bytes) = self.take();
            end = bytes.end;
            second = match token {
                Token::Word(w) => Some((w, false)),
                Token::Quoted(q) => Some((q, true)),
                _ => return Err(self.problem(bytes, "expected a name after `.`")),
            };
        }
        let path = Path {
            first: word,
            second,
        };
        let bytes = start.start..end;
        let (name, kind) =
            (self.resolve)(&path).map_err(|message| self.problem(bytes.clone(), message))?;
        let span = self.text.locate(bytes);
        Ok((
            Expr {
                node: Node::Name(name),
                span,
            },
            kind,
        ))
    }
}
