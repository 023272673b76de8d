//! Expressions, by the precedences of MySQL ("Operator Precedence", and its grammar: conditions,
//! comparisons, predicates, bit expressions) and of SQLite ("SQL Language Expressions", section 2).

use rowlock_model::DbError;

use super::Parser;
use crate::loose::ast::{Call, Ident, Node, NodeKind};
use crate::loose::expr::{Binary, Compare, IntervalUnit, Match};
use crate::loose::lex::TokenKind;

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Result<Node, DbError> {
        let mut left = self.xor()?;
        let pipes = !self.is_sqlite();
        while self.eat_word("OR") || (pipes && self.eat("||")) {
            let right = self.xor()?;
            left = self.pair(NodeKind::Or, left, right);
        }
        Ok(left)
    }

    fn pair(
        &self,
        make: impl FnOnce(Box<Node>, Box<Node>) -> NodeKind,
        left: Node,
        right: Node,
    ) -> Node {
        let at = left.at;
        let end = right.end;
        Node {
            kind: make(Box::new(left), Box::new(right)),
            at,
            end,
        }
    }

    pub(super) fn node(&self, kind: NodeKind, at: usize) -> Node {
        Node {
            kind,
            at,
            end: self.last_end(),
        }
    }

    fn xor(&mut self) -> Result<Node, DbError> {
        let mut left = self.and()?;
        while !self.is_sqlite() && self.eat_word("XOR") {
            let right = self.and()?;
            left = self.pair(NodeKind::Xor, left, right);
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node, DbError> {
        let mut left = self.not()?;
        let ampersands = !self.is_sqlite();
        while self.eat_word("AND") || (ampersands && self.eat("&&")) {
            let right = self.not()?;
            left = self.pair(NodeKind::And, left, right);
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        if self.is_word("NOT") {
            self.advance();
            let operand = self.not()?;
            return Ok(self.node(NodeKind::Not(Box::new(operand)), at));
        }
        match self.is_sqlite() {
            true => self.sqlite_equality(),
            false => self.mysql_condition(),
        }
    }

    fn comparison_operator(&mut self) -> Option<Compare> {
        let sqlite = self.is_sqlite();
        let op = match &self.token().kind {
            TokenKind::Symbol(symbol) => match *symbol {
                "=" => Compare::Eq,
                "==" if sqlite => Compare::Eq,
                "<>" | "!=" => Compare::Ne,
                "<" => Compare::Lt,
                "<=" => Compare::Le,
                ">" => Compare::Gt,
                ">=" => Compare::Ge,
                "<=>" => Compare::Is,
                _ => return None,
            },
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    // MySQL: boolean primaries, predicates, bit expressions.

    fn mysql_condition(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        let mut left = self.mysql_predicate()?;
        loop {
            if self.is_word("IS") {
                self.advance();
                left = self.is_tail(left, at)?;
                continue;
            }
            let Some(op) = self.comparison_operator() else {
                return Ok(left);
            };
            if (self.is_word("ANY") || self.is_word("SOME") || self.is_word("ALL"))
                && self.symbol_ahead(1, "(")
            {
                let all = self.is_word("ALL");
                self.advance();
                self.expect("(")?;
                let query = Box::new(self.query()?);
                self.expect(")")?;
                let kind = NodeKind::Quantified {
                    op,
                    all,
                    left: Box::new(left),
                    query,
                };
                left = self.node(kind, at);
                continue;
            }
            let right = self.mysql_predicate()?;
            left = self.pair(|l, r| NodeKind::Compare(op, l, r), left, right);
        }
    }

    /// After `IS`.
    fn is_tail(&mut self, left: Node, at: usize) -> Result<Node, DbError> {
        let negated = self.eat_word("NOT");
        let expr = Box::new(left);
        let kind = if self.eat_word("NULL") || (!self.is_sqlite() && self.eat_word("UNKNOWN")) {
            NodeKind::IsNull { expr, negated }
        } else if self.eat_word("TRUE") {
            NodeKind::IsTruth {
                expr,
                value: true,
                negated,
            }
        } else if self.eat_word("FALSE") {
            NodeKind::IsTruth {
                expr,
                value: false,
                negated,
            }
        } else if self.is_sqlite() {
            let mut op = match negated {
                true => Compare::IsNot,
                false => Compare::Is,
            };
            if self.eat_words(&["DISTINCT", "FROM"]) {
                op = match negated {
                    true => Compare::Is,
                    false => Compare::IsNot,
                };
            }
            let right = self.sqlite_comparison()?;
            NodeKind::Compare(op, expr, Box::new(right))
        } else {
            return Err(self.error());
        };
        Ok(self.node(kind, at))
    }

    fn mysql_predicate(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        let left = self.bit_or()?;
        let negated = self.is_word("NOT")
            && ["IN", "BETWEEN", "LIKE", "REGEXP", "RLIKE"]
                .iter()
                .any(|word| self.is_word_ahead(1, word));
        if negated {
            self.advance();
        }
        if self.eat_word("IN") {
            return self.in_tail(left, negated, at);
        }
        if self.eat_word("BETWEEN") {
            let low = self.bit_or()?;
            self.expect_word("AND")?;
            let high = self.mysql_predicate()?;
            return Ok(self.between(left, low, high, negated, at));
        }
        if self.eat_word("LIKE") {
            let pattern = self.unary()?;
            let escape = match self.eat_word("ESCAPE") {
                true => Some(Box::new(self.unary()?)),
                false => None,
            };
            return Ok(self.matches(Match::Like, left, pattern, escape, negated, at));
        }
        if self.eat_word("REGEXP") || self.eat_word("RLIKE") {
            let pattern = self.bit_or()?;
            return Ok(self.matches(Match::Regexp, left, pattern, None, negated, at));
        }
        if self.is_word("SOUNDS") || (self.is_word("MEMBER") && self.is_word_ahead(1, "OF")) {
            return self.unsupported("SOUNDS LIKE and MEMBER OF");
        }
        Ok(left)
    }

    fn between(&self, expr: Node, low: Node, high: Node, negated: bool, at: usize) -> Node {
        let kind = NodeKind::Between {
            expr: Box::new(expr),
            low: Box::new(low),
            high: Box::new(high),
            negated,
        };
        self.node(kind, at)
    }

    fn matches(
        &self,
        kind: Match,
        expr: Node,
        pattern: Node,
        escape: Option<Box<Node>>,
        negated: bool,
        at: usize,
    ) -> Node {
        let kind = NodeKind::Match {
            kind,
            expr: Box::new(expr),
            pattern: Box::new(pattern),
            escape,
            negated,
        };
        self.node(kind, at)
    }

    /// After `IN`.
    fn in_tail(&mut self, expr: Node, negated: bool, at: usize) -> Result<Node, DbError> {
        let expr = Box::new(expr);
        if !self.is_symbol("(") {
            return match self.is_sqlite() && self.is_name() {
                true => self.unsupported("IN with a table"),
                false => Err(self.error()),
            };
        }
        self.expect("(")?;
        let mut select = None;
        if self.begins_query() {
            // `IN ((SELECT 1), 2)` begins like a query in parentheses, and is none.
            let (begin, params) = (self.pos, self.params);
            let nested = self.is_symbol("(");
            match self.query() {
                Ok(query) if !nested || self.is_symbol(")") => select = Some(Box::new(query)),
                Err(error) if !nested => return Err(error),
                _ => (self.pos, self.params) = (begin, params),
            }
        }
        let kind = if let Some(query) = select {
            NodeKind::InSelect {
                expr,
                query,
                negated,
            }
        } else if self.is_sqlite() && self.is_symbol(")") {
            NodeKind::InList {
                expr,
                items: Vec::new(),
                negated,
            }
        } else {
            let items = self.list(Self::expr)?;
            NodeKind::InList {
                expr,
                items,
                negated,
            }
        };
        self.expect(")")?;
        Ok(self.node(kind, at))
    }

    /// Whether a query comes next, perhaps in parentheses.
    pub(super) fn begins_query(&self) -> bool {
        let mut ahead = 0;
        while self.symbol_ahead(ahead, "(") {
            ahead += 1;
        }
        ["SELECT", "WITH"]
            .iter()
            .any(|word| self.is_word_ahead(ahead, word))
            || (self.is_word_ahead(ahead, "VALUES")
                && (self.symbol_ahead(ahead + 1, "(") && self.is_sqlite()
                    || self.is_word_ahead(ahead + 1, "ROW")))
    }

    fn bit_or(&mut self) -> Result<Node, DbError> {
        self.left_associative(&[("|", Binary::BitOr)], Self::bit_and)
    }

    fn bit_and(&mut self) -> Result<Node, DbError> {
        self.left_associative(&[("&", Binary::BitAnd)], Self::shift)
    }

    fn shift(&mut self) -> Result<Node, DbError> {
        self.left_associative(
            &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
            Self::sum,
        )
    }

    fn left_associative(
        &mut self,
        operators: &[(&str, Binary)],
        operand: fn(&mut Self) -> Result<Node, DbError>,
    ) -> Result<Node, DbError> {
        let mut left = operand(self)?;
        loop {
            let found = operators.iter().find(|(symbol, _)| self.is_symbol(symbol));
            let Some((_, op)) = found else {
                return Ok(left);
            };
            self.advance();
            let right = operand(self)?;
            left = self.pair(|l, r| NodeKind::Binary(*op, l, r), left, right);
        }
    }

    fn sum(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        if self.is_word("INTERVAL") && !self.is_sqlite() && !self.symbol_ahead(1, "(") {
            // INTERVAL n unit + date
            self.advance();
            let amount = Box::new(self.expr()?);
            let unit = self.interval_unit()?;
            self.expect("+")?;
            let expr = Box::new(self.product()?);
            let kind = NodeKind::DateAdd {
                expr,
                amount,
                unit,
                subtract: false,
            };
            return Ok(self.node(kind, at));
        }
        let mut left = self.product()?;
        loop {
            let op = match () {
                () if self.is_symbol("+") => Binary::Add,
                () if self.is_symbol("-") => Binary::Subtract,
                () => return Ok(left),
            };
            self.advance();
            if !self.is_sqlite() && self.eat_word("INTERVAL") {
                let amount = Box::new(self.expr()?);
                let unit = self.interval_unit()?;
                let kind = NodeKind::DateAdd {
                    expr: Box::new(left),
                    amount,
                    unit,
                    subtract: op == Binary::Subtract,
                };
                left = self.node(kind, at);
                continue;
            }
            let right = self.product()?;
            left = self.pair(|l, r| NodeKind::Binary(op, l, r), left, right);
        }
    }

    pub(super) fn interval_unit(&mut self) -> Result<IntervalUnit, DbError> {
        let word = self.word_ahead(0).map(str::to_ascii_uppercase);
        let unit = match word.as_deref() {
            Some("MICROSECOND") => IntervalUnit::Microsecond,
            Some("SECOND") => IntervalUnit::Second,
            Some("MINUTE") => IntervalUnit::Minute,
            Some("HOUR") => IntervalUnit::Hour,
            Some("DAY") => IntervalUnit::Day,
            Some("WEEK") => IntervalUnit::Week,
            Some("MONTH") => IntervalUnit::Month,
            Some("QUARTER") => IntervalUnit::Quarter,
            Some("YEAR") => IntervalUnit::Year,
            Some(compound) if compound.contains('_') => {
                return self.unsupported("an interval of two units");
            }
            _ => return Err(self.error()),
        };
        self.advance();
        Ok(unit)
    }

    fn product(&mut self) -> Result<Node, DbError> {
        let mut left = self.power()?;
        loop {
            let sqlite = self.is_sqlite();
            let op = match () {
                () if self.is_symbol("*") => Binary::Multiply,
                () if self.is_symbol("/") => Binary::Divide,
                () if self.is_symbol("%") => Binary::Modulo,
                () if !sqlite && self.is_word("DIV") => Binary::IntDivide,
                () if !sqlite && self.is_word("MOD") => Binary::Modulo,
                () => return Ok(left),
            };
            self.advance();
            let right = self.power()?;
            left = self.pair(|l, r| NodeKind::Binary(op, l, r), left, right);
        }
    }

    /// `^` of MySQL; `||`, `->` of SQLite.
    fn power(&mut self) -> Result<Node, DbError> {
        let mut left = self.unary()?;
        loop {
            if !self.is_sqlite() {
                if !self.eat("^") {
                    return Ok(left);
                }
                let right = self.unary()?;
                left = self.pair(|l, r| NodeKind::Binary(Binary::BitXor, l, r), left, right);
                continue;
            }
            if self.eat("||") {
                let right = self.unary()?;
                left = self.pair(|l, r| NodeKind::Binary(Binary::Concat, l, r), left, right);
            } else if self.is_symbol("->") || self.is_symbol("->>") {
                left = self.arrow(left)?;
            } else {
                return Ok(left);
            }
        }
    }

    /// `x -> path`, `x ->> path`.
    pub(super) fn arrow(&mut self, left: Node) -> Result<Node, DbError> {
        let name = match self.is_symbol("->") {
            true => "->",
            false => "->>",
        };
        let at = self.at();
        self.advance();
        let right = self.unary()?;
        let begin = left.at;
        let call = Call {
            name: Ident {
                name: name.into(),
                at,
                double_quoted: false,
            },
            args: vec![left, right],
            star: false,
            distinct: false,
            order: Vec::new(),
            separator: None,
            filter: None,
            over: None,
        };
        Ok(self.node(NodeKind::Call(Box::new(call)), begin))
    }

    // SQLite: all of `=`, `IS`, `IN`, `LIKE`, `BETWEEN` on one level.

    fn sqlite_equality(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        let mut left = self.sqlite_comparison()?;
        loop {
            let negated = self.is_word("NOT")
                && ["IN", "BETWEEN", "LIKE", "GLOB", "REGEXP", "MATCH", "NULL"]
                    .iter()
                    .any(|word| self.is_word_ahead(1, word));
            if negated {
                self.advance();
                if self.eat_word("NULL") {
                    let kind = NodeKind::IsNull {
                        expr: Box::new(left),
                        negated: true,
                    };
                    left = self.node(kind, at);
                    continue;
                }
            }
            if self.is_symbol("=")
                || self.is_symbol("==")
                || self.is_symbol("<>")
                || self.is_symbol("!=")
            {
                let Some(op) = self.comparison_operator() else {
                    return Err(self.error());
                };
                let right = self.sqlite_comparison()?;
                left = self.pair(|l, r| NodeKind::Compare(op, l, r), left, right);
            } else if self.eat_word("ISNULL") || self.is_word("NOTNULL") {
                let negated = self.eat_word("NOTNULL");
                let kind = NodeKind::IsNull {
                    expr: Box::new(left),
                    negated,
                };
                left = self.node(kind, at);
            } else if self.eat_word("IS") {
                left = self.is_tail(left, at)?;
            } else if self.eat_word("IN") {
                left = self.in_tail(left, negated, at)?;
            } else if self.eat_word("BETWEEN") {
                let low = self.sqlite_comparison()?;
                self.expect_word("AND")?;
                let high = self.sqlite_comparison()?;
                left = self.between(left, low, high, negated, at);
            } else if self.is_word("LIKE") || self.is_word("GLOB") {
                let kind = match self.is_word("LIKE") {
                    true => Match::Like,
                    false => Match::Glob,
                };
                self.advance();
                let pattern = self.sqlite_comparison()?;
                let escape = match self.eat_word("ESCAPE") {
                    true => Some(Box::new(self.sqlite_comparison()?)),
                    false => None,
                };
                left = self.matches(kind, left, pattern, escape, negated, at);
            } else if self.eat_word("REGEXP") {
                let pattern = self.sqlite_comparison()?;
                left = self.matches(Match::Regexp, left, pattern, None, negated, at);
            } else if self.is_word("MATCH") {
                return self.unsupported("MATCH");
            } else {
                return Ok(left);
            }
        }
    }

    fn sqlite_comparison(&mut self) -> Result<Node, DbError> {
        let mut left = self.sqlite_bits()?;
        loop {
            let ordering = ["<", "<=", ">", ">="].iter().any(|s| self.is_symbol(s));
            let op = match ordering {
                true => self.comparison_operator(),
                false => None,
            };
            let Some(op) = op else {
                return Ok(left);
            };
            let right = self.sqlite_bits()?;
            left = self.pair(|l, r| NodeKind::Compare(op, l, r), left, right);
        }
    }

    fn sqlite_bits(&mut self) -> Result<Node, DbError> {
        self.left_associative(
            &[
                ("&", Binary::BitAnd),
                ("|", Binary::BitOr),
                ("<<", Binary::ShiftLeft),
                (">>", Binary::ShiftRight),
            ],
            Self::sum,
        )
    }

    // Both.
}
