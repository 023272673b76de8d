//! `INSERT`, `REPLACE`, `UPDATE`, `DELETE`.

use rowlock_model::{DbError, Dialect};

use super::Parser;
use crate::loose::ast::{
    Assignment, Cte, Delete, Ident, Insert, InsertSource, Item, Node, NodeKind, Statement,
    TableRef, Update, Upsert,
};
use crate::loose::catalog::ConflictAction;

impl Parser<'_> {
    fn conflict_action(&mut self) -> Result<ConflictAction, DbError> {
        let action = match self.word_ahead(0).map(str::to_ascii_uppercase).as_deref() {
            Some("ABORT") => ConflictAction::Abort,
            Some("FAIL") => ConflictAction::Fail,
            Some("IGNORE") => ConflictAction::Ignore,
            Some("REPLACE") => ConflictAction::Replace,
            Some("ROLLBACK") => ConflictAction::Rollback,
            _ => return Err(self.error()),
        };
        self.advance();
        Ok(action)
    }

    /// `ON CONFLICT action` of a constraint (SQLite).
    pub(super) fn on_conflict(&mut self) -> Result<ConflictAction, DbError> {
        match self.is_sqlite() && self.eat_words(&["ON", "CONFLICT"]) {
            true => self.conflict_action(),
            false => Ok(ConflictAction::Abort),
        }
    }

    /// `OR action` of SQLite, `IGNORE` of MySQL.
    fn or_clause(&mut self) -> Result<Option<ConflictAction>, DbError> {
        if self.is_sqlite() {
            return match self.eat_word("OR") {
                true => self.conflict_action().map(Some),
                false => Ok(None),
            };
        }
        for word in ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK"] {
            if self.is_word(word) {
                return self.unsupported(word);
            }
        }
        Ok(self.eat_word("IGNORE").then_some(ConflictAction::Ignore))
    }

    pub(super) fn insert(&mut self, with: Vec<Cte>, recursive: bool) -> Result<Statement, DbError> {
        let is_replace = self.is_word("REPLACE");
        self.advance();
        let mut or = match is_replace && self.is_sqlite() {
            true => None,
            false => self.or_clause()?,
        };
        if is_replace {
            or = Some(ConflictAction::Replace);
        }
        if self.is_sqlite() {
            self.expect_word("INTO")?;
        } else {
            self.eat_word("INTO");
        }
        let table = self.table_name()?;
        let alias = match self.is_sqlite() && self.eat_word("AS") {
            true => Some(self.ident()?),
            false => None,
        };
        let mut columns = Vec::new();
        if self.is_symbol("(") && !self.begins_query() {
            self.expect("(")?;
            if !self.is_symbol(")") {
                columns = self.list(Self::any_word)?;
            }
            self.expect(")")?;
        }
        let source = self.insert_source()?;
        let mut new_alias = None;
        if self.dialect == Dialect::MySql && self.eat_word("AS") {
            let name = self.ident()?;
            let columns = match self.is_symbol("(") {
                true => self.parenthesised(Self::ident)?,
                false => Vec::new(),
            };
            new_alias = Some((name, columns));
        }
        let upserts = self.upserts()?;
        let returning = self.returning()?;
        Ok(Statement::Insert(Box::new(Insert {
            with,
            recursive,
            or,
            table,
            alias,
            columns,
            source,
            new_alias,
            upserts,
            returning,
            is_replace,
        })))
    }

    fn insert_source(&mut self) -> Result<InsertSource, DbError> {
        if self.is_sqlite() && self.eat_words(&["DEFAULT", "VALUES"]) {
            return Ok(InsertSource::Defaults);
        }
        if self.is_word("VALUES") || (!self.is_sqlite() && self.is_word("VALUE")) {
            self.advance();
            let mysql = !self.is_sqlite();
            let rows = self.list(|parser| {
                if mysql {
                    parser.eat_word("ROW");
                    if parser.is_symbol("(") && parser.symbol_ahead(1, ")") {
                        parser.advance();
                        parser.advance();
                        return Ok(Vec::new());
                    }
                }
                parser.parenthesised(Self::expr)
            })?;
            return Ok(InsertSource::Values(rows));
        }
        if !self.is_sqlite() && self.eat_word("SET") {
            let set = self.list(|parser| {
                let column = parser.any_word()?;
                if !parser.eat(":=") {
                    parser.expect("=")?;
                }
                Ok((column, parser.expr()?))
            })?;
            return Ok(InsertSource::Set(set));
        }
        if self.begins_query() || self.is_word("WITH") {
            return Ok(InsertSource::Query(Box::new(self.query()?)));
        }
        Err(self.error())
    }

    fn upserts(&mut self) -> Result<Vec<Upsert>, DbError> {
        let mut upserts = Vec::new();
        if !self.is_sqlite() {
            let at = self.at();
            if self.eat_words(&["ON", "DUPLICATE", "KEY", "UPDATE"]) {
                upserts.push(Upsert {
                    target: None,
                    target_filter: None,
                    set: Some(self.assignments()?),
                    filter: None,
                    at,
                });
            }
            return Ok(upserts);
        }
        loop {
            let at = self.at();
            if !self.eat_words(&["ON", "CONFLICT"]) {
                return Ok(upserts);
            }
            let mut upsert = Upsert {
                target: None,
                target_filter: None,
                set: None,
                filter: None,
                at,
            };
            if self.is_symbol("(") {
                upsert.target = Some(self.parenthesised(|parser| {
                    let expr = parser.expr()?;
                    let _ = parser.eat_word("ASC") || parser.eat_word("DESC");
                    Ok(expr)
                })?);
                if self.eat_word("WHERE") {
                    upsert.target_filter = Some(self.expr()?);
                }
            }
            self.expect_word("DO")?;
            if !self.eat_word("NOTHING") {
                self.expect_word("UPDATE")?;
                self.expect_word("SET")?;
                upsert.set = Some(self.assignments()?);
                if self.eat_word("WHERE") {
                    upsert.filter = Some(self.expr()?);
                }
            }
            upserts.push(upsert);
        }
    }

    fn assignments(&mut self) -> Result<Vec<Assignment>, DbError> {
        self.list(|parser| {
            let columns = match parser.is_sqlite() && parser.is_symbol("(") {
                true => parser.parenthesised(|p| p.any_word().map(|column| vec![column]))?,
                false => vec![parser.column_path()?],
            };
            if parser.is_sqlite() || !parser.eat(":=") {
                parser.expect("=")?;
            }
            let value = parser.expr()?;
            Ok(Assignment { columns, value })
        })
    }

    /// `c`, and on MySQL `t.c`.
    fn column_path(&mut self) -> Result<Vec<Ident>, DbError> {
        let mut path = vec![self.any_word()?];
        while !self.is_sqlite() && path.len() < 3 && self.eat(".") {
            path.push(self.any_word()?);
        }
        Ok(path)
    }

    fn returning(&mut self) -> Result<Option<Vec<Item>>, DbError> {
        if self.dialect == Dialect::MySql || !self.eat_word("RETURNING") {
            return Ok(None);
        }
        self.items().map(Some)
    }

    pub(super) fn update(&mut self, with: Vec<Cte>, recursive: bool) -> Result<Statement, DbError> {
        let at = self.at();
        self.expect_word("UPDATE")?;
        let or = self.or_clause()?;
        let tables = match self.is_sqlite() {
            true => vec![self.sqlite_target()?],
            false => self.list(Self::table_ref)?,
        };
        self.expect_word("SET")?;
        let set = self.assignments()?;
        let from = match self.is_sqlite() && self.eat_word("FROM") {
            true => self.list(Self::table_ref)?,
            false => Vec::new(),
        };
        let filter = match self.eat_word("WHERE") {
            true => Some(self.expr()?),
            false => None,
        };
        let (order, limit) = self.order_and_limit()?;
        let returning = match self.is_sqlite() {
            true => self.returning()?,
            false => None,
        };
        Ok(Statement::Update(Box::new(Update {
            with,
            recursive,
            or,
            tables,
            set,
            from,
            filter,
            order,
            limit,
            returning,
            at,
        })))
    }

    /// `ORDER BY .. LIMIT n` of a write; SQLite is not compiled with it.
    fn order_and_limit(
        &mut self,
    ) -> Result<(Vec<crate::loose::ast::Order>, Option<Node>), DbError> {
        if self.is_sqlite() {
            return Ok((Vec::new(), None));
        }
        let order = match self.is_word("ORDER") {
            true => self.order_by()?,
            false => Vec::new(),
        };
        let mut limit = None;
        if self.eat_word("LIMIT") {
            let at = self.at();
            let (count, offset) = self.limit()?;
            if offset.is_some() {
                return Err(crate::loose::errors::syntax(
                    self.dialect,
                    self.text,
                    at,
                    self.last_end(),
                ));
            }
            limit = Some(count);
        }
        Ok((order, limit))
    }

    /// The table of an `UPDATE` or `DELETE` of SQLite.
    fn sqlite_target(&mut self) -> Result<TableRef, DbError> {
        let name = self.table_name()?;
        let alias = match self.eat_word("AS") {
            true => Some(self.ident()?),
            false => None,
        };
        let mut target = TableRef::Table {
            name,
            alias,
            hints: Vec::new(),
        };
        if self.is_word("INDEXED") || self.are_words(&["NOT", "INDEXED"]) {
            let TableRef::Table { hints, .. } = &mut target else {
                return Err(self.error());
            };
            hints.extend(self.sqlite_hint()?);
        }
        Ok(target)
    }

    fn sqlite_hint(&mut self) -> Result<Option<crate::loose::ast::Hint>, DbError> {
        use crate::loose::ast::Hint;
        use crate::loose::query::HintKind;
        if self.eat_words(&["INDEXED", "BY"]) {
            return Ok(Some(Hint {
                kind: HintKind::Force,
                names: vec![self.ident()?],
                all: false,
            }));
        }
        let all = self.eat_words(&["NOT", "INDEXED"]);
        Ok(all.then(|| Hint {
            kind: HintKind::Ignore,
            names: Vec::new(),
            all,
        }))
    }

    pub(super) fn delete(&mut self, with: Vec<Cte>, recursive: bool) -> Result<Statement, DbError> {
        let at = self.at();
        self.expect_word("DELETE")?;
        let mut delete = Delete {
            with,
            recursive,
            ignore: false,
            targets: Vec::new(),
            from: Vec::new(),
            filter: None,
            order: Vec::new(),
            limit: None,
            returning: None,
            at,
        };
        if self.is_sqlite() {
            self.expect_word("FROM")?;
            delete.from = vec![self.sqlite_target()?];
        } else {
            delete.ignore = self.or_clause()?.is_some();
            let star = |parser: &mut Self| {
                let name = parser.table_name()?;
                // `t.*` is the same as `t`.
                if parser.is_symbol(".") && parser.symbol_ahead(1, "*") {
                    parser.advance();
                    parser.advance();
                }
                Ok(name)
            };
            if self.eat_word("FROM") {
                let begin = self.pos;
                let first = self.table_ref()?;
                if self.is_symbol(",") || self.is_word("USING") {
                    // DELETE FROM a, b USING ..
                    self.pos = begin;
                    delete.targets = self.list(star)?;
                    self.expect_word("USING")?;
                    delete.from = self.list(Self::table_ref)?;
                } else {
                    if matches!(first, TableRef::Join { .. } | TableRef::Derived { .. }) {
                        return Err(self.error());
                    }
                    delete.from = vec![first];
                }
            } else {
                delete.targets = self.list(star)?;
                self.expect_word("FROM")?;
                delete.from = self.list(Self::table_ref)?;
            }
        }
        if self.eat_word("WHERE") {
            delete.filter = Some(self.expr()?);
        }
        (delete.order, delete.limit) = self.order_and_limit()?;
        delete.returning = self.returning()?;
        Ok(Statement::Delete(Box::new(delete)))
    }

    /// `DEFAULT` of a column: a literal, or an expression in parentheses.
    pub(super) fn default_value(&mut self) -> Result<Node, DbError> {
        let at = self.at();
        if self.is_symbol("(") {
            self.expect("(")?;
            let expr = self.expr()?;
            self.expect(")")?;
            return Ok(expr);
        }
        let negative = self.eat("-");
        if !negative {
            self.eat("+");
        }
        // SQLite takes a bare word for a text.
        if self.is_sqlite() && self.is_name() && !self.symbol_ahead(1, "(") {
            let word = self.word_ahead(0).map(str::to_ascii_uppercase);
            let keyword = [
                "TRUE",
                "FALSE",
                "CURRENT_TIMESTAMP",
                "CURRENT_DATE",
                "CURRENT_TIME",
            ];
            if !word.is_some_and(|w| keyword.contains(&w.as_str())) {
                let ident = self.any_word()?;
                return Ok(Node {
                    kind: NodeKind::Text(ident.name.to_string()),
                    at,
                    end: self.last_end(),
                });
            }
        }
        let operand = self.unary_for_default()?;
        Ok(match negative {
            false => operand,
            true => Node {
                kind: NodeKind::Unary(crate::loose::expr::Unary::Negate, Box::new(operand)),
                at,
                end: self.last_end(),
            },
        })
    }
}
