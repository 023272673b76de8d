//! What operators stand between: literals, names, calls, and the special forms that look like calls.

use rowlock_model::DbError;

use super::Parser;
use crate::loose::ast::{Call, Node, NodeKind, Order, Over};
use crate::loose::expr::{IntervalUnit, Unary};
use crate::loose::lex::TokenKind;

impl Parser<'_> {
    pub(super) fn unary(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        if self.eat("-") {
            let operand = Box::new(self.unary()?);
            return Ok(self.node(NodeKind::Unary(Unary::Negate, operand), at));
        }
        if self.eat("+") {
            let operand = self.unary()?;
            return Ok(match self.is_sqlite() {
                true => self.node(NodeKind::Unary(Unary::Plus, Box::new(operand)), at),
                false => operand,
            });
        }
        if self.eat("~") {
            let operand = Box::new(self.unary()?);
            return Ok(self.node(NodeKind::Unary(Unary::BitNot, operand), at));
        }
        if !self.is_sqlite() {
            if self.eat("!") {
                let operand = Box::new(self.unary()?);
                return Ok(self.node(NodeKind::Not(operand), at));
            }
            if self.eat_word("BINARY") {
                let operand = Box::new(self.unary()?);
                return Ok(self.node(NodeKind::Binarily(operand), at));
            }
        }
        let mut node = self.primary()?;
        loop {
            if self.eat_word("COLLATE") {
                let name = self.word_or_text()?;
                node = self.node(NodeKind::Collate(Box::new(node), name), at);
            } else if self.dialect == rowlock_model::Dialect::MySql
                && (self.is_symbol("->") || self.is_symbol("->>"))
            {
                node = self.arrow(node)?;
            } else {
                return Ok(node);
            }
        }
    }

    /// The value of a `DEFAULT` clause, which goes on with other options of the column.
    pub(super) fn unary_for_default(&mut self) -> Result<Node, DbError> {
        self.primary()
    }

    fn primary(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        let kind = match self.token().kind.clone() {
            TokenKind::Number(text) => {
                self.advance();
                if text.contains(['e', 'E']) {
                    NodeKind::Float(text)
                } else if text.contains('.') {
                    NodeKind::Decimal(text)
                } else {
                    NodeKind::Integer(text)
                }
            }
            TokenKind::Text(mut text) => {
                self.advance();
                while !self.is_sqlite()
                    && let TokenKind::Text(more) = &self.token().kind
                {
                    text.push_str(more);
                    self.advance();
                }
                NodeKind::Text(text)
            }
            TokenKind::Blob(bytes) => {
                self.advance();
                NodeKind::Blob(bytes)
            }
            TokenKind::Param => {
                self.advance();
                self.params += 1;
                NodeKind::Param(self.params - 1)
            }
            TokenKind::UserVariable(name) => {
                self.advance();
                match self.eat(":=") {
                    true => NodeKind::Assign(name, Box::new(self.expr()?)),
                    false => NodeKind::UserVariable(name),
                }
            }
            TokenKind::SystemVariable(name) => {
                self.advance();
                NodeKind::SystemVariable(name)
            }
            TokenKind::Symbol("(") => return self.in_parentheses(),
            TokenKind::Symbol("*") | TokenKind::Symbol(_) | TokenKind::End => {
                return Err(self.error());
            }
            TokenKind::Word { quote: Some(_), .. } => return self.name(),
            TokenKind::Word { text, quote: None } => {
                return self.word_primary(&text.to_ascii_uppercase());
            }
        };
        Ok(self.node(kind, at))
    }

    fn in_parentheses(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        self.expect("(")?;
        if self.begins_query() {
            // `((SELECT 1) + 2)` begins like a query in parentheses, and is none.
            let (begin, params) = (self.pos, self.params);
            let nested = self.is_symbol("(");
            match self.query() {
                Ok(query) if !nested || self.is_symbol(")") => {
                    self.expect(")")?;
                    return Ok(self.node(NodeKind::Subquery(Box::new(query)), at));
                }
                Err(error) if !nested => return Err(error),
                _ => (self.pos, self.params) = (begin, params),
            }
        }
        let mut items = self.list(Self::expr)?;
        self.expect(")")?;
        if items.len() > 1 {
            return Ok(self.node(NodeKind::Row(items), at));
        }
        let mut only = items.remove(0);
        only.at = at;
        only.end = self.last_end();
        Ok(only)
    }

    fn name(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        let mut parts = vec![self.any_word()?];
        while parts.len() < 3 && self.is_symbol(".") && !self.symbol_ahead(1, "*") {
            self.advance();
            parts.push(self.any_word()?);
        }
        Ok(self.node(NodeKind::Name(parts), at))
    }

    fn word_primary(&mut self, word: &str) -> Result<Node, DbError> {
        let at = self.at();
        let call = self.symbol_ahead(1, "(");
        let kind = match word {
            "NULL" => {
                self.advance();
                NodeKind::Null
            }
            "TRUE" | "FALSE" if !call && !self.symbol_ahead(1, ".") => {
                self.advance();
                NodeKind::Bool(word == "TRUE")
            }
            "CASE" => return self.case(),
            "CAST" if call => {
                self.advance();
                self.expect("(")?;
                let expr = Box::new(self.expr()?);
                self.expect_word("AS")?;
                let ty = self.type_name()?;
                self.expect(")")?;
                NodeKind::Cast(expr, ty)
            }
            "CONVERT" if call && !self.is_sqlite() => {
                self.advance();
                self.expect("(")?;
                let expr = Box::new(self.expr()?);
                if self.is_word("USING") {
                    return self.unsupported("CONVERT .. USING");
                }
                self.expect(",")?;
                let ty = self.type_name()?;
                self.expect(")")?;
                NodeKind::Cast(expr, ty)
            }
            "EXISTS" if call => {
                self.advance();
                self.expect("(")?;
                let query = Box::new(self.query()?);
                self.expect(")")?;
                NodeKind::Exists(query)
            }
            "DEFAULT" if !self.is_sqlite() => {
                self.advance();
                let mut column = None;
                if self.eat("(") {
                    column = Some(self.ident()?);
                    self.expect(")")?;
                }
                NodeKind::Default(column)
            }
            "VALUES" | "VALUE" if call && !self.is_sqlite() => {
                self.advance();
                self.expect("(")?;
                let column = self.ident()?;
                self.expect(")")?;
                NodeKind::ValuesOf(column)
            }
            "ROW" if call && !self.is_sqlite() => {
                self.advance();
                NodeKind::Row(self.parenthesised(Self::expr)?)
            }
            "DATE" | "TIME" | "TIMESTAMP"
                if !self.is_sqlite() && matches!(self.token_ahead(1).kind, TokenKind::Text(_)) =>
            {
                self.advance();
                let TokenKind::Text(text) = self.token().kind.clone() else {
                    return Err(self.error());
                };
                self.advance();
                let word = match word {
                    "DATE" => "DATE",
                    "TIME" => "TIME",
                    _ => "TIMESTAMP",
                };
                NodeKind::Temporal(word, text)
            }
            "CURRENT_TIMESTAMP" | "CURRENT_DATE" | "CURRENT_TIME" => return self.call(),
            "LOCALTIME" | "LOCALTIMESTAMP" | "UTC_TIMESTAMP" | "CURRENT_USER" | "UTC_DATE"
                if !self.is_sqlite() =>
            {
                return self.call();
            }
            "MATCH" if call && !self.is_sqlite() => return self.unsupported("full-text search"),
            "RAISE" if call && self.is_sqlite() => return self.unsupported("RAISE"),
            "TIMESTAMPDIFF" | "TIMESTAMPADD" if call && !self.is_sqlite() => {
                self.advance();
                self.expect("(")?;
                let unit = self.interval_unit()?;
                self.expect(",")?;
                let first = Box::new(self.expr()?);
                self.expect(",")?;
                let second = Box::new(self.expr()?);
                self.expect(")")?;
                match word {
                    "TIMESTAMPDIFF" => NodeKind::TimestampDiff(unit, first, second),
                    _ => NodeKind::DateAdd {
                        expr: second,
                        amount: first,
                        unit,
                        subtract: false,
                    },
                }
            }
            "DATE_ADD" | "DATE_SUB" | "ADDDATE" | "SUBDATE" if call && !self.is_sqlite() => {
                self.advance();
                self.expect("(")?;
                let expr = Box::new(self.expr()?);
                self.expect(",")?;
                let subtract = matches!(word, "DATE_SUB" | "SUBDATE");
                let (amount, unit) = match self.eat_word("INTERVAL") {
                    true => (Box::new(self.expr()?), self.interval_unit()?),
                    false if matches!(word, "ADDDATE" | "SUBDATE") => {
                        (Box::new(self.expr()?), IntervalUnit::Day)
                    }
                    false => return Err(self.error()),
                };
                self.expect(")")?;
                NodeKind::DateAdd {
                    expr,
                    amount,
                    unit,
                    subtract,
                }
            }
            // Functions whose names are reserved words.
            "IF" | "LEFT" | "RIGHT" | "REPLACE" | "MOD" | "INSERT" | "REPEAT" | "DATABASE"
            | "SCHEMA" | "LIKE" | "GLOB"
                if call =>
            {
                return self.call();
            }
            "EXTRACT" | "POSITION" if call && !self.is_sqlite() => {
                return self.unsupported(&format!("the function {word}"));
            }
            _ if self.is_reserved(word) => return Err(self.error()),
            _ if call => return self.call(),
            _ => return self.name(),
        };
        Ok(self.node(kind, at))
    }

    fn case(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        self.expect_word("CASE")?;
        let operand = match self.is_word("WHEN") {
            true => None,
            false => Some(Box::new(self.expr()?)),
        };
        let mut branches = Vec::new();
        while self.eat_word("WHEN") {
            let when = self.expr()?;
            self.expect_word("THEN")?;
            branches.push((when, self.expr()?));
        }
        if branches.is_empty() {
            return Err(self.error());
        }
        let otherwise = match self.eat_word("ELSE") {
            true => Some(Box::new(self.expr()?)),
            false => None,
        };
        self.expect_word("END")?;
        let kind = NodeKind::Case {
            operand,
            branches,
            otherwise,
        };
        Ok(self.node(kind, at))
    }

    fn call(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        let name = self.any_word()?;
        let mut call = Call {
            name,
            args: Vec::new(),
            star: false,
            distinct: false,
            order: Vec::new(),
            separator: None,
            filter: None,
            over: None,
        };
        if self.eat("(") {
            if self.eat("*") {
                call.star = true;
            } else if !self.is_symbol(")") {
                call.distinct = self.eat_word("DISTINCT");
                call.args = match call.name.name.eq_ignore_ascii_case("TRIM") {
                    true => self.trim_arguments()?,
                    false => self.list(Self::expr)?,
                };
                if self.is_word("ORDER") {
                    call.order = self.order_by()?;
                }
                if !self.is_sqlite() && self.eat_word("SEPARATOR") {
                    let TokenKind::Text(text) = self.token().kind.clone() else {
                        return Err(self.error());
                    };
                    self.advance();
                    call.separator = Some(text);
                }
            }
            self.expect(")")?;
            if self.is_sqlite() && self.is_word("FILTER") && self.symbol_ahead(1, "(") {
                self.advance();
                self.expect("(")?;
                self.expect_word("WHERE")?;
                call.filter = Some(self.expr()?);
                self.expect(")")?;
            }
            if self.is_word("OVER") {
                self.advance();
                call.over = Some(self.over()?);
            }
        }
        Ok(self.node(NodeKind::Call(Box::new(call)), at))
    }

    /// `TRIM([LEADING | TRAILING | BOTH] [x FROM] y)`.
    fn trim_arguments(&mut self) -> Result<Vec<Node>, DbError> {
        if ["LEADING", "TRAILING", "BOTH"]
            .iter()
            .any(|w| self.is_word(w))
        {
            return self.unsupported("TRIM with a side");
        }
        let items = self.list(Self::expr)?;
        if self.is_word("FROM") {
            return self.unsupported("TRIM .. FROM");
        }
        Ok(items)
    }

    fn over(&mut self) -> Result<Over, DbError> {
        if !self.is_symbol("(") {
            return self.unsupported("a named window");
        }
        self.expect("(")?;
        let mut over = Over {
            partition: Vec::new(),
            order: Vec::new(),
        };
        if self.eat_words(&["PARTITION", "BY"]) {
            over.partition = self.list(Self::expr)?;
        }
        if self.is_word("ORDER") {
            over.order = self.order_by()?;
        }
        if ["ROWS", "RANGE", "GROUPS"].iter().any(|w| self.is_word(w)) {
            return self.unsupported("the frame of a window");
        }
        self.expect(")")?;
        Ok(over)
    }

    /// `ORDER BY ..`.
    pub(super) fn order_by(&mut self) -> Result<Vec<Order>, DbError> {
        self.expect_word("ORDER")?;
        self.expect_word("BY")?;
        self.list(|parser| {
            let expr = parser.expr()?;
            let descending = parser.eat_word("DESC");
            if !descending {
                parser.eat_word("ASC");
            }
            let mut nulls_first = None;
            if parser.is_sqlite() && parser.eat_word("NULLS") {
                nulls_first = Some(parser.eat_word("FIRST"));
                if nulls_first == Some(false) {
                    parser.expect_word("LAST")?;
                }
            }
            Ok(Order {
                expr,
                descending,
                nulls_first,
            })
        })
    }
}
