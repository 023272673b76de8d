//! From the text of a body to its tree.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::{
    Block, Condition, Declaration, DeclaredAs, Diagnostic, Fragment, Handler, Into, Raise,
    RaiseOption, Raised, Rows, Step, Target, state_of,
};
use crate::sql::tokens::{self, Tokens, is_keyword};

/// Reads a body.
///
/// # Errors
/// 42601 at its place in `text`, or `unsupported`.
pub fn parse(text: &str) -> Result<Block, DbError> {
    let all = tokens::read(text, Dialect::Postgres)?;
    let mut reader = Reader {
        tokens: Tokens::new(text, &all, None),
    };
    let label = reader.label()?;
    let block = reader.block(label)?;
    reader.tokens.eat(&Token::SemiColon);
    reader.tokens.expect_end()?;
    Ok(block)
}

struct Reader<'t> {
    tokens: Tokens<'t>,
}

/// Where a piece of SQL ends: at one of these words, or tokens, outside of parentheses.
struct Until<'u> {
    words: &'u [&'u str],
    tokens: &'u [Token],
}

const STATEMENT_END: Until<'static> = Until {
    words: &[],
    tokens: &[Token::SemiColon],
};

impl Reader<'_> {
    fn unsupported<T>(&self, what: &str) -> Result<T, DbError> {
        Err(DbError::unsupported(what, Some(self.tokens.position())))
    }

    /// `<<label>>`.
    fn label(&mut self) -> Result<Option<Arc<str>>, DbError> {
        if !self.tokens.eat(&Token::ShiftLeft) {
            return Ok(None);
        }
        let name = self.tokens.name()?;
        self.tokens.expect(&Token::ShiftRight)?;
        Ok(Some(name.into()))
    }

    fn block(&mut self, label: Option<Arc<str>>) -> Result<Block, DbError> {
        let mut declarations = Vec::new();
        while self.tokens.eat_word("DECLARE") {
            while self.tokens.peek_word().as_deref() != Some("BEGIN")
                && self.tokens.peek_word().as_deref() != Some("DECLARE")
            {
                declarations.push(self.declaration()?);
            }
        }
        self.tokens.expect_word("BEGIN")?;
        let body = self.steps(&["EXCEPTION", "END"])?;
        let mut handlers = Vec::new();
        if self.tokens.eat_word("EXCEPTION") {
            while self.tokens.eat_word("WHEN") {
                handlers.push(self.handler()?);
            }
        }
        self.tokens.expect_word("END")?;
        if matches!(self.tokens.peek(), Some(Token::Word(_))) {
            self.end_label(label.as_deref())?;
        }
        Ok(Block {
            label,
            declarations,
            body,
            handlers,
        })
    }

    fn end_label(&mut self, label: Option<&str>) -> Result<(), DbError> {
        let at = self.tokens.position();
        let name = self.tokens.name()?;
        if label != Some(&*name) {
            return Err(DbError::postgres(
                "42601",
                match label {
                    Some(label) => {
                        format!("end label \"{name}\" differs from block's label \"{label}\"")
                    }
                    None => format!("end label \"{name}\" specified for unlabeled block"),
                },
            )
            .at(at));
        }
        Ok(())
    }

    fn declaration(&mut self) -> Result<Declaration, DbError> {
        let name: Arc<str> = self.tokens.name()?.into();
        let mut declaration = Declaration {
            name,
            constant: false,
            not_null: false,
            ty: DeclaredAs::Record,
            default: None,
        };
        if self.tokens.eat_word("ALIAS") {
            self.tokens.expect_word("FOR")?;
            let of = self.variable_name()?;
            declaration.ty = DeclaredAs::Alias(of);
            self.tokens.expect(&Token::SemiColon)?;
            return Ok(declaration);
        }
        declaration.constant = self.tokens.eat_word("CONSTANT");
        if matches!(
            self.tokens.peek_word().as_deref(),
            Some("CURSOR" | "REFCURSOR" | "NO" | "SCROLL")
        ) {
            return self.unsupported("cursors in plpgsql");
        }
        declaration.ty = self.declared_type()?;
        if self.tokens.eat_words(&["NOT", "NULL"]) {
            declaration.not_null = true;
        }
        if self.tokens.eat_word("DEFAULT")
            || self.tokens.eat(&Token::Assignment)
            || self.tokens.eat(&Token::Eq)
        {
            declaration.default = Some(self.expression(&STATEMENT_END)?);
        }
        self.tokens.expect(&Token::SemiColon)?;
        Ok(declaration)
    }

    fn declared_type(&mut self) -> Result<DeclaredAs, DbError> {
        if self.tokens.eat_word("RECORD") {
            return Ok(DeclaredAs::Record);
        }
        let at = self.tokens.position();
        let text = self.text_until(&Until {
            words: &["NOT", "DEFAULT", "COLLATE"],
            tokens: &[Token::SemiColon, Token::Assignment, Token::Eq],
        })?;
        if self.tokens.peek_word().as_deref() == Some("COLLATE") {
            return self.unsupported("COLLATE");
        }
        if let Some((name, kind)) = text.split_once('%') {
            let mut parts: Vec<Arc<str>> = name
                .trim()
                .split('.')
                .map(|part| fold(part.trim()))
                .collect();
            if parts.len() > 1 && &*parts[0] == "public" {
                parts.remove(0);
            }
            return match (kind.trim().to_ascii_lowercase().as_str(), &parts[..]) {
                ("rowtype", [table]) => Ok(DeclaredAs::RowOf(Arc::clone(table))),
                ("type", [table, column]) => {
                    Ok(DeclaredAs::ColumnOf(Arc::clone(table), Arc::clone(column)))
                }
                ("type", [variable]) => Ok(DeclaredAs::SameAs(Arc::clone(variable))),
                _ => {
                    Err(DbError::postgres("42601", format!("invalid type name \"{text}\"")).at(at))
                }
            };
        }
        let ty = Parser::new(&PostgreSqlDialect {})
            .try_with_sql(&text)
            .and_then(|mut parser| parser.parse_data_type())
            .map_err(|_| {
                DbError::postgres("42601", format!("invalid type name \"{text}\"")).at(at)
            })?;
        Ok(DeclaredAs::Type(Box::new(ty)))
    }

    fn handler(&mut self) -> Result<Handler, DbError> {
        let mut conditions = Vec::new();
        loop {
            let at = self.tokens.position();
            let name = self.tokens.name()?;
            conditions.push(match name.as_str() {
                "others" => Condition::Others,
                "sqlstate" => Condition::State(self.tokens.string()?.into()),
                name => Condition::State(condition(name, at)?),
            });
            if !self.tokens.eat_word("OR") {
                break;
            }
        }
        self.tokens.expect_word("THEN")?;
        let body = self.steps(&["WHEN", "END"])?;
        Ok(Handler { conditions, body })
    }

    /// Statements up to one of the words, which stays.
    fn steps(&mut self, until: &[&str]) -> Result<Vec<Step>, DbError> {
        let mut steps = Vec::new();
        loop {
            let word = self.tokens.peek_word();
            if word.as_deref().is_some_and(|w| until.contains(&w)) {
                return Ok(steps);
            }
            if self.tokens.is_end() {
                return Err(self.tokens.syntax_error());
            }
            steps.push(self.step()?);
        }
    }

    fn step(&mut self) -> Result<Step, DbError> {
        let label = self.label()?;
        let word = self.tokens.peek_word().unwrap_or_default();
        if self.begins_assignment() {
            return self.assignment();
        }
        match word.as_str() {
            "DECLARE" | "BEGIN" => {
                let block = self.block(label)?;
                self.tokens.expect(&Token::SemiColon)?;
                return Ok(Step::Block(Box::new(block)));
            }
            "LOOP" | "WHILE" | "FOR" | "FOREACH" => return self.any_loop(label, &word),
            _ => {}
        }
        if label.is_some() {
            return Err(self.tokens.syntax_error());
        }
        match word.as_str() {
            "IF" => self.branches(),
            "CASE" => self.case(),
            "EXIT" | "CONTINUE" => self.leave(&word),
            "RETURN" => self.returned(),
            "RAISE" => self.raise(),
            "ASSERT" => {
                self.tokens.advance();
                let condition = self.expression(&Until {
                    words: &[],
                    tokens: &[Token::SemiColon, Token::Comma],
                })?;
                let message = if self.tokens.eat(&Token::Comma) {
                    Some(self.expression(&STATEMENT_END)?)
                } else {
                    None
                };
                self.tokens.expect(&Token::SemiColon)?;
                Ok(Step::Assert(condition, message))
            }
            "PERFORM" => {
                self.tokens.advance();
                let text = self.text_until(&STATEMENT_END)?;
                self.tokens.expect(&Token::SemiColon)?;
                Ok(Step::Perform(format!("SELECT {text}").into()))
            }
            "EXECUTE" => {
                self.tokens.advance();
                let step = self.execute()?;
                self.tokens.expect(&Token::SemiColon)?;
                Ok(step)
            }
            "GET" => self.diagnostics(),
            "NULL" => {
                self.tokens.advance();
                self.tokens.expect(&Token::SemiColon)?;
                Ok(Step::Nothing)
            }
            "OPEN" | "FETCH" | "MOVE" | "CLOSE" => self.unsupported("cursors in plpgsql"),
            "COMMIT" | "ROLLBACK" => self.unsupported("COMMIT and ROLLBACK in plpgsql"),
            "CALL" | "DO" => self.unsupported(&format!("{word} in plpgsql")),
            _ => self.sql(),
        }
    }

    /// Whether a name, perhaps with a field, and `:=` or `=` come next.
    fn begins_assignment(&self) -> bool {
        let mut tokens = self.tokens.ahead();
        let named = matches!(tokens.next(), Some(Token::Word(_) | Token::Placeholder(_)));
        if !named {
            return false;
        }
        let mut token = tokens.next();
        while token == Some(&Token::Period) {
            tokens.next();
            token = tokens.next();
        }
        matches!(token, Some(Token::Assignment | Token::Eq | Token::LBracket))
    }

    fn assignment(&mut self) -> Result<Step, DbError> {
        let target = self.target()?;
        if self.tokens.peek() == Some(&Token::LBracket) {
            return self.unsupported("assignment to an element of an array");
        }
        self.tokens.advance();
        let value = self.expression(&STATEMENT_END)?;
        self.tokens.expect(&Token::SemiColon)?;
        Ok(Step::Assign(target, value))
    }

    fn variable_name(&mut self) -> Result<Arc<str>, DbError> {
        if let Some(Token::Placeholder(name)) = self.tokens.peek() {
            self.tokens.advance();
            return Ok(name.as_str().into());
        }
        Ok(self.tokens.name()?.into())
    }

    fn target(&mut self) -> Result<Target, DbError> {
        let first = self.variable_name()?;
        if !self.tokens.eat(&Token::Period) {
            return Ok(Target::Variable(first));
        }
        let second = self.tokens.name()?;
        if self.tokens.peek() == Some(&Token::Period) {
            return self.unsupported("a target of three names");
        }
        Ok(Target::Field(first, second.into()))
    }

    fn targets(&mut self) -> Result<Vec<Target>, DbError> {
        let mut targets = vec![self.target()?];
        while self.tokens.eat(&Token::Comma) {
            targets.push(self.target()?);
        }
        Ok(targets)
    }

    fn any_loop(&mut self, label: Option<Arc<str>>, word: &str) -> Result<Step, DbError> {
        self.tokens.advance();
        let until_loop = Until {
            words: &["LOOP"],
            tokens: &[],
        };
        match word {
            "LOOP" => Ok(Step::Loop {
                condition: None,
                body: self.loop_body(label.as_deref())?,
                label,
            }),
            "WHILE" => {
                let condition = self.expression(&until_loop)?;
                self.tokens.expect_word("LOOP")?;
                Ok(Step::Loop {
                    condition: Some(condition),
                    body: self.loop_body(label.as_deref())?,
                    label,
                })
            }
            "FOREACH" => {
                let target = self.target()?;
                if self.tokens.peek_word().as_deref() == Some("SLICE") {
                    return self.unsupported("SLICE");
                }
                self.tokens.expect_word("IN")?;
                self.tokens.expect_word("ARRAY")?;
                let array = self.expression(&until_loop)?;
                self.tokens.expect_word("LOOP")?;
                Ok(Step::ForEach {
                    target,
                    array,
                    body: self.loop_body(label.as_deref())?,
                    label,
                })
            }
            _ => self.for_loop(label),
        }
    }

    fn loop_body(&mut self, label: Option<&str>) -> Result<Vec<Step>, DbError> {
        let body = self.steps(&["END"])?;
        self.tokens.expect_word("END")?;
        self.tokens.expect_word("LOOP")?;
        if self.tokens.peek() != Some(&Token::SemiColon) {
            self.end_label(label)?;
        }
        self.tokens.expect(&Token::SemiColon)?;
        Ok(body)
    }

    fn for_loop(&mut self, label: Option<Arc<str>>) -> Result<Step, DbError> {
        let targets = self.targets()?;
        self.tokens.expect_word("IN")?;
        if self.tokens.peek_word().as_deref() == Some("EXECUTE") {
            self.tokens.advance();
            let Step::Execute {
                command,
                into: None,
                using,
            } = self.execute()?
            else {
                return Err(self.tokens.syntax_error());
            };
            self.tokens.expect_word("LOOP")?;
            return Ok(Step::ForRows {
                targets,
                rows: Rows::Execute(command, using),
                body: self.loop_body(label.as_deref())?,
                label,
            });
        }
        let reverse = self.tokens.eat_word("REVERSE");
        let text = self.text_until(&Until {
            words: &["LOOP"],
            tokens: &[],
        })?;
        self.tokens.expect_word("LOOP")?;
        let Some((from, rest)) = split_range(&text) else {
            if reverse {
                return Err(self.tokens.syntax_error());
            }
            return Ok(Step::ForRows {
                targets,
                rows: Rows::Query(text),
                body: self.loop_body(label.as_deref())?,
                label,
            });
        };
        let [Target::Variable(variable)] = &targets[..] else {
            return Err(DbError::postgres(
                "42601",
                "integer FOR loop must have only one target variable",
            ));
        };
        let (to, by) = match split_word(rest, "BY") {
            Some((to, by)) => (to, Some(by)),
            None => (rest, None),
        };
        let select = |text: &str| -> Fragment { format!("SELECT {}", text.trim()).into() };
        Ok(Step::Count {
            variable: Arc::clone(variable),
            reverse,
            from: select(from),
            to: select(to),
            by: by.map(select),
            body: self.loop_body(label.as_deref())?,
            label,
        })
    }

    fn branches(&mut self) -> Result<Step, DbError> {
        let mut branches = Vec::new();
        let mut otherwise = None;
        self.tokens.advance();
        loop {
            let condition = self.expression(&Until {
                words: &["THEN"],
                tokens: &[Token::SemiColon],
            })?;
            self.tokens.expect_word("THEN")?;
            branches.push((condition, self.steps(&["ELSIF", "ELSEIF", "ELSE", "END"])?));
            if self.tokens.eat_word("ELSIF") || self.tokens.eat_word("ELSEIF") {
                continue;
            }
            if self.tokens.eat_word("ELSE") {
                otherwise = Some(self.steps(&["END"])?);
            }
            break;
        }
        self.tokens.expect_word("END")?;
        self.tokens.expect_word("IF")?;
        self.tokens.expect(&Token::SemiColon)?;
        Ok(Step::If {
            branches,
            otherwise,
            case: false,
        })
    }

    fn case(&mut self) -> Result<Step, DbError> {
        self.tokens.advance();
        let operand = if self.tokens.peek_word().as_deref() == Some("WHEN") {
            None
        } else {
            Some(self.text_until(&Until {
                words: &["WHEN"],
                tokens: &[Token::SemiColon],
            })?)
        };
        let mut branches = Vec::new();
        let mut otherwise = None;
        while self.tokens.eat_word("WHEN") {
            let text = self.text_until(&Until {
                words: &["THEN"],
                tokens: &[Token::SemiColon],
            })?;
            self.tokens.expect_word("THEN")?;
            let condition: Fragment = match &operand {
                Some(operand) => format!("SELECT ({operand}) IN ({text})").into(),
                None => format!("SELECT {text}").into(),
            };
            branches.push((condition, self.steps(&["WHEN", "ELSE", "END"])?));
        }
        if self.tokens.eat_word("ELSE") {
            otherwise = Some(self.steps(&["END"])?);
        }
        self.tokens.expect_word("END")?;
        self.tokens.expect_word("CASE")?;
        self.tokens.expect(&Token::SemiColon)?;
        Ok(Step::If {
            branches,
            otherwise,
            case: true,
        })
    }

    fn leave(&mut self, word: &str) -> Result<Step, DbError> {
        self.tokens.advance();
        let label = match self.tokens.peek() {
            Some(Token::Word(_)) if self.tokens.peek_word().as_deref() != Some("WHEN") => {
                Some(self.tokens.name()?.into())
            }
            _ => None,
        };
        let when = if self.tokens.eat_word("WHEN") {
            Some(self.expression(&STATEMENT_END)?)
        } else {
            None
        };
        self.tokens.expect(&Token::SemiColon)?;
        Ok(Step::Leave {
            again: word == "CONTINUE",
            label,
            when,
        })
    }

    fn returned(&mut self) -> Result<Step, DbError> {
        self.tokens.advance();
        if self.tokens.eat_word("NEXT") {
            let value = self.optional_expression()?;
            return Ok(Step::ReturnNext(value));
        }
        if self.tokens.eat_word("QUERY") {
            let rows = if self.tokens.eat_word("EXECUTE") {
                match self.execute()? {
                    Step::Execute {
                        command,
                        into: None,
                        using,
                    } => Rows::Execute(command, using),
                    _ => return Err(self.tokens.syntax_error()),
                }
            } else {
                Rows::Query(self.text_until(&STATEMENT_END)?)
            };
            self.tokens.expect(&Token::SemiColon)?;
            return Ok(Step::ReturnQuery(rows));
        }
        let value = self.optional_expression()?;
        Ok(Step::Return(value))
    }

    fn optional_expression(&mut self) -> Result<Option<Fragment>, DbError> {
        let value = if self.tokens.peek() == Some(&Token::SemiColon) {
            None
        } else {
            Some(self.expression(&STATEMENT_END)?)
        };
        self.tokens.expect(&Token::SemiColon)?;
        Ok(value)
    }

    /// After `EXECUTE`: the command, `INTO` and `USING` in either order.
    fn execute(&mut self) -> Result<Step, DbError> {
        let until = Until {
            words: &["INTO", "USING", "LOOP"],
            tokens: &[Token::SemiColon],
        };
        let command = self.expression(&until)?;
        let mut into = None;
        let mut using = Vec::new();
        loop {
            if into.is_none() && self.tokens.eat_word("INTO") {
                let strict = self.tokens.eat_word("STRICT");
                into = Some(Into {
                    strict,
                    targets: self.targets()?,
                });
            } else if using.is_empty() && self.tokens.eat_word("USING") {
                using = self.expressions(&["INTO", "LOOP"])?;
            } else {
                return Ok(Step::Execute {
                    command,
                    into,
                    using,
                });
            }
        }
    }

    /// Expressions separated by commas.
    fn expressions(&mut self, words: &[&str]) -> Result<Vec<Fragment>, DbError> {
        let mut list = Vec::new();
        loop {
            list.push(self.expression(&Until {
                words,
                tokens: &[Token::SemiColon, Token::Comma],
            })?);
            if !self.tokens.eat(&Token::Comma) {
                return Ok(list);
            }
        }
    }

    fn raise(&mut self) -> Result<Step, DbError> {
        self.tokens.advance();
        let level = match self.tokens.peek_word().as_deref() {
            Some("DEBUG") => "DEBUG",
            Some("LOG") => "LOG",
            Some("INFO") => "INFO",
            Some("NOTICE") => "NOTICE",
            Some("WARNING") => "WARNING",
            Some("EXCEPTION") => "EXCEPTION",
            _ => "",
        };
        if !level.is_empty() {
            self.tokens.advance();
        }
        let mut raise = Raise {
            level: if level.is_empty() { "EXCEPTION" } else { level },
            what: Raised::Options,
            values: Vec::new(),
            options: Vec::new(),
        };
        let at = self.tokens.position();
        match self.tokens.peek() {
            Some(Token::SemiColon) if level.is_empty() => raise.what = Raised::Again,
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)) => {
                let format = self.tokens.string()?;
                while self.tokens.eat(&Token::Comma) {
                    raise.values.push(self.expression(&Until {
                        words: &["USING"],
                        tokens: &[Token::SemiColon, Token::Comma],
                    })?);
                }
                check_format(&format, raise.values.len(), at)?;
                raise.what = Raised::Message(format.into());
            }
            Some(Token::Word(_)) if self.tokens.peek_word().as_deref() != Some("USING") => {
                let name = self.tokens.name()?;
                raise.what = if name == "sqlstate" {
                    let state: Arc<str> = self.tokens.string()?.into();
                    Raised::Condition(Arc::clone(&state), state)
                } else {
                    Raised::Condition(condition(&name, at)?, name.into())
                };
            }
            _ => {}
        }
        if self.tokens.eat_word("USING") {
            loop {
                raise.options.push(self.raise_option()?);
                if !self.tokens.eat(&Token::Comma) {
                    break;
                }
            }
        }
        self.tokens.expect(&Token::SemiColon)?;
        Ok(Step::Raise(Box::new(raise)))
    }

    fn raise_option(&mut self) -> Result<(RaiseOption, Fragment), DbError> {
        let option = match self.tokens.peek_word().as_deref() {
            Some("MESSAGE") => RaiseOption::Message,
            Some("DETAIL") => RaiseOption::Detail,
            Some("HINT") => RaiseOption::Hint,
            Some("ERRCODE") => RaiseOption::Code,
            Some("CONSTRAINT") => RaiseOption::Constraint,
            Some("COLUMN" | "TABLE" | "DATATYPE" | "SCHEMA") => RaiseOption::Object,
            _ => return Err(self.tokens.syntax_error()),
        };
        self.tokens.advance();
        if !self.tokens.eat(&Token::Eq) {
            self.tokens.expect(&Token::Assignment)?;
        }
        let value = self.expression(&Until {
            words: &[],
            tokens: &[Token::SemiColon, Token::Comma],
        })?;
        Ok((option, value))
    }

    fn diagnostics(&mut self) -> Result<Step, DbError> {
        self.tokens.advance();
        let _ = self.tokens.eat_word("STACKED") || self.tokens.eat_word("CURRENT");
        self.tokens.expect_word("DIAGNOSTICS")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            if !self.tokens.eat(&Token::Eq) {
                self.tokens.expect(&Token::Assignment)?;
            }
            let item = match self.tokens.peek_word().as_deref() {
                Some("ROW_COUNT") => Diagnostic::RowCount,
                Some("RETURNED_SQLSTATE") => Diagnostic::State,
                Some("MESSAGE_TEXT") => Diagnostic::Message,
                Some("PG_EXCEPTION_DETAIL") => Diagnostic::Detail,
                Some("CONSTRAINT_NAME") => Diagnostic::Constraint,
                Some(other) => {
                    let other = format!("the diagnostics item {other}");
                    return self.unsupported(&other);
                }
                None => return Err(self.tokens.syntax_error()),
            };
            self.tokens.advance();
            items.push((target, item));
            if !self.tokens.eat(&Token::Comma) {
                break;
            }
        }
        self.tokens.expect(&Token::SemiColon)?;
        Ok(Step::Diagnose(items))
    }

    /// An SQL statement, its `INTO` taken out.
    fn sql(&mut self) -> Result<Step, DbError> {
        let start = self.tokens.position();
        let mut depth = 0usize;
        let mut cut: Option<(usize, usize)> = None;
        let mut into = None;
        let mut before = String::new();
        loop {
            let Some(token) = self.tokens.peek() else {
                return Err(self.tokens.syntax_error());
            };
            match token {
                Token::SemiColon if depth == 0 => break,
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            let is_into = depth == 0
                && into.is_none()
                && is_keyword(token, "INTO")
                && !matches!(before.as_str(), "INSERT" | "MERGE");
            if is_into {
                let from = self.tokens.position();
                self.tokens.advance();
                let strict = self.tokens.eat_word("STRICT");
                into = Some(Into {
                    strict,
                    targets: self.targets()?,
                });
                cut = Some((from, self.tokens.last_end()));
                continue;
            }
            before = self.tokens.peek_word().unwrap_or_default();
            self.tokens.advance();
        }
        let end = self.tokens.last_end();
        self.tokens.expect(&Token::SemiColon)?;
        let text: Fragment = match cut {
            None => self.tokens.slice(start, end).into(),
            Some((from, to)) => format!(
                "{}{}",
                self.tokens.slice(start, from),
                self.tokens.slice(to, end)
            )
            .into(),
        };
        Ok(Step::Sql(text, into))
    }

    fn expression(&mut self, until: &Until<'_>) -> Result<Fragment, DbError> {
        let text = self.text_until(until)?;
        Ok(format!("SELECT {text}").into())
    }

    /// The text up to an end outside of parentheses, which stays; 42601 if there is none.
    fn text_until(&mut self, until: &Until<'_>) -> Result<Arc<str>, DbError> {
        let start = self.tokens.position();
        let mut depth = 0usize;
        let mut any = false;
        loop {
            let Some(token) = self.tokens.peek() else {
                return Err(self.tokens.syntax_error());
            };
            if depth == 0 {
                let word = self.tokens.peek_word();
                let ends = until.tokens.contains(token)
                    || word.as_deref().is_some_and(|w| until.words.contains(&w));
                if ends || *token == Token::SemiColon {
                    break;
                }
            }
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            any = true;
            self.tokens.advance();
        }
        if !any {
            return Err(self.tokens.syntax_error());
        }
        Ok(self.tokens.slice(start, self.tokens.last_end()).into())
    }
}

/// A name as the server folds it.
fn fold(name: &str) -> Arc<str> {
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\"").into(),
        None => name.to_ascii_lowercase().into(),
    }
}

fn condition(name: &str, at: usize) -> Result<Arc<str>, DbError> {
    match state_of(name) {
        Some(state) => Ok(state.into()),
        // The server knows more names than are listed here.
        None => Err(DbError::unsupported(
            format!("the exception condition {name}"),
            Some(at),
        )),
    }
}

/// 42601 unless the format has as many `%` as there are values.
fn check_format(format: &str, values: usize, at: usize) -> Result<(), DbError> {
    let wanted = format.replace("%%", "").matches('%').count();
    let message = match wanted.cmp(&values) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less => "too many parameters specified for RAISE",
        std::cmp::Ordering::Greater => "too few parameters specified for RAISE",
    };
    Err(DbError::postgres("42601", message).at(at))
}

/// The two sides of `..` outside of parentheses and quotes.
fn split_range(text: &str) -> Option<(&str, &str)> {
    let at = find_outside(text, |rest| rest.starts_with(".."))?;
    Some((&text[..at], &text[at + 2..]))
}

/// What stands before and after a word.
fn split_word<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let at = find_outside(text, |rest| {
        let head = rest.get(..word.len() + 2).unwrap_or_default();
        head.starts_with(char::is_whitespace)
            && head.ends_with(char::is_whitespace)
            && head.trim().eq_ignore_ascii_case(word)
    })?;
    Some((&text[..at], &text[at + word.len() + 2..]))
}

/// Where `found` says yes, outside of parentheses and quotes.
fn find_outside(text: &str, found: impl Fn(&str) -> bool) -> Option<usize> {
    let mut depth = 0i32;
    let mut quoted = false;
    for (i, c) in text.char_indices() {
        if c == '\'' {
            quoted = !quoted;
        }
        if quoted {
            continue;
        }
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 && found(&text[i..]) {
            return Some(i);
        }
    }
    None
}
