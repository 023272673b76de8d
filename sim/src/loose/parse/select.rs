//! Queries.

use rowlock_model::{DbError, Dialect};

use super::Parser;
use crate::loose::ast::{Body, Cte, Hint, Item, JoinKind, Locking, Node, Query, Select, TableRef};
use crate::loose::lex::TokenKind;
use crate::loose::query::{HintKind, LockClause, OnBusy, SetOp, Strength};

impl Parser<'_> {
    /// A query with everything that may stand around it.
    pub(super) fn query(&mut self) -> Result<Query, DbError> {
        let at = self.at();
        let (with, recursive) = match self.is_word("WITH") {
            true => self.with()?,
            false => (Vec::new(), false),
        };
        let body = self.query_body()?;
        let mut query = Query {
            with,
            recursive,
            body,
            order: Vec::new(),
            limit: None,
            offset: None,
            locks: Vec::new(),
            into: Vec::new(),
            at,
            end: at,
        };
        if self.is_word("ORDER") {
            query.order = self.order_by()?;
        }
        if self.eat_word("LIMIT") {
            let (limit, offset) = self.limit()?;
            query.limit = Some(limit);
            query.offset = offset;
        }
        self.eat_into()?;
        while let Some(lock) = self.locking()? {
            query.locks.push(lock);
        }
        self.eat_into()?;
        query.end = self.last_end();
        // A query in parentheses and nothing around it is that query.
        if query.with.is_empty()
            && query.order.is_empty()
            && query.limit.is_none()
            && query.locks.is_empty()
            && let Body::Query(inner) = query.body
        {
            return Ok(*inner);
        }
        Ok(query)
    }

    /// `INTO @a, @b`, at most once in a statement: kept until the statement is parsed.
    fn eat_into(&mut self) -> Result<(), DbError> {
        if self.is_sqlite() || !self.is_word("INTO") {
            return Ok(());
        }
        if !matches!(self.token_ahead(1).kind, TokenKind::UserVariable(_)) {
            return self.unsupported("this SELECT .. INTO");
        }
        if !self.into.is_empty() {
            return Err(self.error());
        }
        self.advance();
        self.into = self.list(|parser| match parser.token().kind.clone() {
            TokenKind::UserVariable(name) => {
                parser.advance();
                Ok(name)
            }
            _ => parser.unsupported("this SELECT .. INTO"),
        })?;
        Ok(())
    }

    /// After `LIMIT`: the limit, the offset.
    pub(super) fn limit(&mut self) -> Result<(Node, Option<Node>), DbError> {
        let first = self.expr()?;
        if self.eat_word("OFFSET") {
            return Ok((first, Some(self.expr()?)));
        }
        if self.eat(",") {
            return Ok((self.expr()?, Some(first)));
        }
        Ok((first, None))
    }

    /// `WITH [RECURSIVE] a AS (..), ..`.
    pub(super) fn with(&mut self) -> Result<(Vec<Cte>, bool), DbError> {
        self.expect_word("WITH")?;
        let recursive = self.eat_word("RECURSIVE");
        let list = self.list(|parser| {
            let name = parser.ident()?;
            let columns = match parser.is_symbol("(") {
                true => parser.parenthesised(Self::ident)?,
                false => Vec::new(),
            };
            parser.expect_word("AS")?;
            if parser.is_sqlite() {
                // Hints about how it is computed; the rows are the same.
                parser.eat_word("NOT");
                parser.eat_word("MATERIALIZED");
            }
            parser.expect("(")?;
            let query = parser.query()?;
            parser.expect(")")?;
            Ok(Cte {
                name,
                columns,
                query,
            })
        })?;
        Ok((list, recursive))
    }

    fn query_body(&mut self) -> Result<Body, DbError> {
        let mut left = self.query_term()?;
        loop {
            let op = match () {
                () if self.eat_word("UNION") => SetOp::Union,
                () if self.eat_word("EXCEPT") => SetOp::Except,
                // INTERSECT binds as the others on SQLite.
                () if self.is_sqlite() && self.eat_word("INTERSECT") => SetOp::Intersect,
                () => return Ok(left),
            };
            let all = self.set_quantifier(op)?;
            let right = self.query_term()?;
            left = Body::Set {
                op,
                all,
                left: Box::new(left),
                right: Box::new(right),
            };
        }
    }

    fn set_quantifier(&mut self, op: SetOp) -> Result<bool, DbError> {
        if self.is_sqlite() && op != SetOp::Union && self.is_word("ALL") {
            return Err(self.error());
        }
        let all = self.eat_word("ALL");
        if !all && !self.is_sqlite() {
            self.eat_word("DISTINCT");
        }
        Ok(all)
    }

    fn query_term(&mut self) -> Result<Body, DbError> {
        let mut left = self.query_primary()?;
        while !self.is_sqlite() && self.eat_word("INTERSECT") {
            let all = self.set_quantifier(SetOp::Intersect)?;
            let right = self.query_primary()?;
            left = Body::Set {
                op: SetOp::Intersect,
                all,
                left: Box::new(left),
                right: Box::new(right),
            };
        }
        Ok(left)
    }

    fn query_primary(&mut self) -> Result<Body, DbError> {
        if self.is_symbol("(") && !self.is_sqlite() {
            self.expect("(")?;
            let query = self.query()?;
            self.expect(")")?;
            return Ok(Body::Query(Box::new(query)));
        }
        if self.eat_word("VALUES") {
            let rows = self.list(|parser| {
                if !parser.is_sqlite() && parser.dialect == Dialect::MySql {
                    parser.expect_word("ROW")?;
                }
                parser.parenthesised(Self::expr)
            })?;
            return Ok(Body::Values(rows));
        }
        Ok(Body::Select(Box::new(self.select()?)))
    }

    fn select(&mut self) -> Result<Select, DbError> {
        let at = self.at();
        self.expect_word("SELECT")?;
        let mut select = Select {
            distinct: false,
            items: Vec::new(),
            from: Vec::new(),
            filter: None,
            group: Vec::new(),
            having: None,
            at,
        };
        if !self.is_sqlite() {
            for word in [
                "HIGH_PRIORITY",
                "SQL_SMALL_RESULT",
                "SQL_BIG_RESULT",
                "SQL_BUFFER_RESULT",
                "SQL_NO_CACHE",
                "SQL_CALC_FOUND_ROWS",
                "STRAIGHT_JOIN",
            ] {
                if self.is_word(word) {
                    return self.unsupported(word);
                }
            }
        }
        if self.eat_word("DISTINCT") || (!self.is_sqlite() && self.eat_word("DISTINCTROW")) {
            select.distinct = true;
        } else {
            self.eat_word("ALL");
        }
        select.items = self.items()?;
        self.eat_into()?;
        if self.eat_word("FROM") {
            if !self.is_sqlite() && self.eat_word("DUAL") {
                // No table.
            } else {
                select.from = self.list(Self::table_ref)?;
            }
        }
        if self.eat_word("WHERE") {
            select.filter = Some(self.expr()?);
        }
        if self.eat_words(&["GROUP", "BY"]) {
            select.group = self.list(Self::expr)?;
            if !self.is_sqlite() && self.is_word("WITH") {
                return self.unsupported("WITH ROLLUP");
            }
        }
        if self.eat_word("HAVING") {
            select.having = Some(self.expr()?);
        }
        if self.is_word("WINDOW") {
            return self.unsupported("a named window");
        }
        Ok(select)
    }

    /// A select list.
    pub(super) fn items(&mut self) -> Result<Vec<Item>, DbError> {
        self.list(|parser| {
            let at = parser.at();
            if parser.eat("*") {
                return Ok(Item::Star(None, at));
            }
            if matches!(parser.token().kind, TokenKind::Word { .. })
                && parser.symbol_ahead(1, ".")
                && parser.symbol_ahead(2, "*")
            {
                let name = parser.any_word()?;
                parser.advance();
                parser.advance();
                return Ok(Item::Star(Some(name), at));
            }
            let expr = parser.expr()?;
            let alias = match &parser.token().kind {
                TokenKind::Text(text) => {
                    let ident = crate::loose::ast::Ident {
                        name: text.as_str().into(),
                        at: parser.at(),
                        double_quoted: false,
                    };
                    parser.advance();
                    Some(ident)
                }
                _ => parser.alias()?,
            };
            Ok(Item::Expr(expr, alias))
        })
    }

    /// One item of `FROM` with its joins.
    pub(super) fn table_ref(&mut self) -> Result<TableRef, DbError> {
        let mut left = self.table_factor()?;
        loop {
            let at = self.at();
            if self.is_word("NATURAL") {
                return self.unsupported("NATURAL JOIN");
            }
            if self.is_word("FULL") && self.is_sqlite() {
                return self.unsupported("FULL JOIN");
            }
            let kind = if self.eat_word("JOIN") || self.eat_words(&["INNER", "JOIN"]) {
                JoinKind::Inner
            } else if self.eat_words(&["CROSS", "JOIN"]) {
                match self.is_sqlite() {
                    // SQLite does not reorder it.
                    true => JoinKind::Straight,
                    false => JoinKind::Inner,
                }
            } else if !self.is_sqlite() && self.eat_word("STRAIGHT_JOIN") {
                JoinKind::Straight
            } else if self.is_word("LEFT") && !self.symbol_ahead(1, "(") {
                self.advance();
                self.eat_word("OUTER");
                self.expect_word("JOIN")?;
                JoinKind::Left
            } else if self.is_word("RIGHT") && !self.symbol_ahead(1, "(") {
                self.advance();
                self.eat_word("OUTER");
                self.expect_word("JOIN")?;
                JoinKind::Right
            } else {
                return Ok(left);
            };
            let right = self.table_factor()?;
            let mut on = None;
            let mut using = Vec::new();
            if self.eat_word("ON") {
                on = Some(self.expr()?);
            } else if self.eat_word("USING") {
                using = self.parenthesised(Self::ident)?;
            } else if !self.is_sqlite() && matches!(kind, JoinKind::Left | JoinKind::Right) {
                return Err(self.error());
            }
            left = TableRef::Join {
                kind,
                left: Box::new(left),
                right: Box::new(right),
                on,
                using,
                at,
            };
        }
    }

    fn table_factor(&mut self) -> Result<TableRef, DbError> {
        let at = self.at();
        let lateral = !self.is_sqlite() && self.eat_word("LATERAL");
        if self.is_symbol("(") {
            if !self.begins_query() {
                if lateral {
                    return Err(self.error());
                }
                self.expect("(")?;
                let inner = self.table_ref()?;
                if self.is_symbol(",") {
                    return self.unsupported("a list of tables in parentheses");
                }
                self.expect(")")?;
                return Ok(inner);
            }
            self.expect("(")?;
            let query = Box::new(self.query()?);
            self.expect(")")?;
            let alias = self.alias()?;
            if alias.is_none() && !self.is_sqlite() {
                return Err(crate::loose::errors::mysql(
                    1248,
                    "42000",
                    "Every derived table must have its own alias",
                )
                .at(at));
            }
            let columns = match self.is_symbol("(") && !self.is_sqlite() {
                true => self.parenthesised(Self::ident)?,
                false => Vec::new(),
            };
            return Ok(TableRef::Derived {
                query,
                alias,
                columns,
                lateral,
                at,
            });
        }
        let name = self.table_name()?;
        if self.is_symbol("(") {
            return self.unsupported("a function in FROM");
        }
        if !self.is_sqlite() && self.is_word("PARTITION") {
            return self.unsupported("PARTITION");
        }
        let alias = self.alias()?;
        let hints = self.hints()?;
        Ok(TableRef::Table { name, alias, hints })
    }

    /// `FORCE INDEX (..)`, `INDEXED BY i`.
    fn hints(&mut self) -> Result<Vec<Hint>, DbError> {
        let mut hints = Vec::new();
        if self.is_sqlite() {
            if self.eat_words(&["INDEXED", "BY"]) {
                hints.push(Hint {
                    kind: HintKind::Force,
                    names: vec![self.ident()?],
                    all: false,
                });
            } else if self.eat_words(&["NOT", "INDEXED"]) {
                hints.push(Hint {
                    kind: HintKind::Ignore,
                    names: Vec::new(),
                    all: true,
                });
            }
            return Ok(hints);
        }
        loop {
            let kind = match () {
                () if self.is_word("USE") => HintKind::Use,
                () if self.is_word("FORCE") => HintKind::Force,
                () if self.is_word("IGNORE") => HintKind::Ignore,
                () => return Ok(hints),
            };
            if !self.is_word_ahead(1, "INDEX") && !self.is_word_ahead(1, "KEY") {
                return Ok(hints);
            }
            self.advance();
            self.advance();
            if self.is_word("FOR") {
                return self.unsupported("an index hint for a clause");
            }
            self.expect("(")?;
            let mut names = Vec::new();
            while !self.is_symbol(")") {
                names.push(self.any_word()?);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
            hints.push(Hint {
                kind,
                names,
                all: false,
            });
        }
    }

    /// One locking clause. MariaDB has neither `FOR SHARE` nor `OF`, MySQL no `WAIT n`.
    fn locking(&mut self) -> Result<Option<Locking>, DbError> {
        if self.is_sqlite() {
            return Ok(None);
        }
        let at = self.at();
        let mysql = self.dialect == Dialect::MySql;
        let (strength, old) = if self.eat_words(&["LOCK", "IN", "SHARE", "MODE"]) {
            (Strength::Share, true)
        } else if self.eat_words(&["FOR", "UPDATE"]) {
            (Strength::Update, false)
        } else if mysql && self.eat_words(&["FOR", "SHARE"]) {
            (Strength::Share, false)
        } else if self.eat_word("FOR") {
            // It is the word behind it that is wrong.
            return Err(self.error());
        } else {
            return Ok(None);
        };
        let mut of = Vec::new();
        if mysql && !old && self.eat_word("OF") {
            of = self.list(Self::ident)?;
        }
        let mut busy = OnBusy::Wait;
        if !(mysql && old) {
            if self.eat_word("NOWAIT") {
                busy = OnBusy::Fail;
            } else if self.eat_words(&["SKIP", "LOCKED"]) {
                busy = OnBusy::Skip;
            } else if !mysql && self.eat_word("WAIT") {
                let seconds = self.number()?;
                busy = OnBusy::WaitSeconds(u32::try_from(seconds).unwrap_or(u32::MAX));
            }
        }
        Ok(Some(Locking {
            clause: LockClause { strength, busy },
            of,
            at,
        }))
    }
}
