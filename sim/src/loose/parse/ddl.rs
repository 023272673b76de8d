//! `CREATE`, `DROP`, `ALTER`, `RENAME`.

use rowlock_model::DbError;

use super::Parser;
use crate::loose::ast::{
    AlterAction, CreateIndex, Ident, IndexDef, IndexedColumn, NodeKind, Statement,
};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement, DbError> {
        self.expect_word("CREATE")?;
        if !self.is_sqlite() && self.are_words(&["OR", "REPLACE"]) {
            return self.unsupported("CREATE OR REPLACE");
        }
        let temporary = self.eat_word("TEMPORARY") || (self.is_sqlite() && self.eat_word("TEMP"));
        if self.is_word("TABLE") {
            return self.create_table(temporary);
        }
        if temporary {
            return self.unsupported("a temporary object that is no table");
        }
        let unique = self.eat_word("UNIQUE");
        if self.eat_word("INDEX") {
            return self.create_index(unique);
        }
        if unique {
            return Err(self.error());
        }
        if self.eat_word("VIEW") {
            return self.create_view();
        }
        for what in [
            "TRIGGER",
            "VIRTUAL",
            "DATABASE",
            "SCHEMA",
            "PROCEDURE",
            "FUNCTION",
            "EVENT",
            "USER",
            "ROLE",
            "SERVER",
            "SEQUENCE",
            "FULLTEXT",
            "SPATIAL",
            "DEFINER",
            "ALGORITHM",
            "SQL",
        ] {
            if self.is_word(what) {
                return self.unsupported(&format!("CREATE {what}"));
            }
        }
        Err(self.error())
    }

    pub(super) fn if_not_exists(&mut self) -> bool {
        self.eat_words(&["IF", "NOT", "EXISTS"])
    }

    fn if_exists(&mut self) -> bool {
        self.eat_words(&["IF", "EXISTS"])
    }

    fn create_view(&mut self) -> Result<Statement, DbError> {
        let if_not_exists = self.if_not_exists();
        let name = self.table_name()?;
        let columns = match self.is_symbol("(") {
            true => self.parenthesised(Self::ident)?,
            false => Vec::new(),
        };
        self.expect_word("AS")?;
        let query = Box::new(self.query()?);
        Ok(Statement::CreateView {
            name,
            columns,
            query,
            if_not_exists,
            replaces: false,
        })
    }

    fn create_index(&mut self, unique: bool) -> Result<Statement, DbError> {
        let if_not_exists = self.if_not_exists();
        let name = self.ident()?;
        self.index_type()?;
        self.expect_word("ON")?;
        let table = self.table_name()?;
        let keys = self.parenthesised(Self::indexed_column)?;
        self.index_type()?;
        let filter = match self.is_sqlite() && self.eat_word("WHERE") {
            true => Some(self.expr()?),
            false => None,
        };
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            name,
            unique,
            if_not_exists,
            table,
            keys,
            filter,
        })))
    }

    /// `USING BTREE`.
    fn index_type(&mut self) -> Result<(), DbError> {
        if !self.is_sqlite() && self.eat_word("USING") && !self.eat_word("BTREE") {
            return self.unsupported("this type of index");
        }
        Ok(())
    }

    fn indexed_column(&mut self) -> Result<IndexedColumn, DbError> {
        let mut expr = self.expr()?;
        let mut collation = None;
        if let NodeKind::Collate(inner, name) = expr.kind.clone() {
            expr = *inner;
            collation = Some(name);
        }
        if let NodeKind::Call(call) = &expr.kind
            && !self.is_sqlite()
            && self.text[expr.at..].starts_with(&*call.name.name)
        {
            return crate::loose::errors::unsupported(
                "an index on the prefix of a column",
                expr.at,
            );
        }
        let descending = self.eat_word("DESC");
        if !descending {
            self.eat_word("ASC");
        }
        Ok(IndexedColumn {
            expr,
            collation,
            descending,
        })
    }

    pub(super) fn index_def(&mut self, name: Option<Ident>) -> Result<IndexDef, DbError> {
        let at = self.at();
        let mut name = name;
        self.index_type()?;
        if !self.is_symbol("(") && !self.is_sqlite() {
            name = Some(self.ident()?);
            self.index_type()?;
        }
        let keys = self.parenthesised(Self::indexed_column)?;
        self.index_type()?;
        let on_conflict = self.on_conflict()?;
        Ok(IndexDef {
            name,
            keys,
            on_conflict,
            at,
        })
    }

    pub(super) fn drop(&mut self) -> Result<Statement, DbError> {
        self.expect_word("DROP")?;
        let temporary = !self.is_sqlite() && self.eat_word("TEMPORARY");
        if self.eat_word("TABLE") || (!self.is_sqlite() && self.eat_word("TABLES")) {
            let if_exists = self.if_exists();
            let names = match self.is_sqlite() {
                true => vec![self.table_name()?],
                false => self.list(Self::table_name)?,
            };
            if !self.is_sqlite() {
                let _ = self.eat_word("RESTRICT") || self.eat_word("CASCADE");
            }
            return Ok(Statement::DropTable {
                names,
                if_exists,
                temporary,
            });
        }
        if self.eat_word("INDEX") {
            let if_exists = self.if_exists();
            let name = self.table_name()?.name;
            let table = match self.is_sqlite() {
                true => None,
                false => {
                    self.expect_word("ON")?;
                    Some(self.table_name()?)
                }
            };
            return Ok(Statement::DropIndex {
                name,
                table,
                if_exists,
            });
        }
        if self.eat_word("VIEW") {
            let if_exists = self.if_exists();
            return Ok(Statement::DropView {
                name: self.table_name()?,
                if_exists,
            });
        }
        for what in [
            "TRIGGER",
            "DATABASE",
            "SCHEMA",
            "PROCEDURE",
            "FUNCTION",
            "EVENT",
            "USER",
            "ROLE",
            "SERVER",
            "SEQUENCE",
        ] {
            if self.is_word(what) {
                return self.unsupported(&format!("DROP {what}"));
            }
        }
        Err(self.error())
    }

    pub(super) fn rename(&mut self) -> Result<Statement, DbError> {
        self.expect_word("RENAME")?;
        self.expect_word("TABLE")?;
        let pairs = self.list(|parser| {
            let from = parser.table_name()?;
            parser.expect_word("TO")?;
            Ok((from, parser.table_name()?))
        })?;
        Ok(Statement::Rename(pairs))
    }

    pub(super) fn alter(&mut self) -> Result<Statement, DbError> {
        self.expect_word("ALTER")?;
        if !self.is_sqlite() && self.eat_word("VIEW") {
            let name = self.table_name()?;
            let columns = match self.is_symbol("(") {
                true => self.parenthesised(Self::ident)?,
                false => Vec::new(),
            };
            self.expect_word("AS")?;
            return Ok(Statement::CreateView {
                name,
                columns,
                query: Box::new(self.query()?),
                if_not_exists: false,
                replaces: true,
            });
        }
        if !self.eat_word("TABLE") {
            return self.unsupported("ALTER of anything but a table");
        }
        let name = self.table_name()?;
        let actions = match self.is_sqlite() {
            true => vec![self.alter_action()?],
            false => self.list(Self::alter_action)?,
        };
        Ok(Statement::AlterTable { name, actions })
    }

    fn alter_action(&mut self) -> Result<AlterAction, DbError> {
        if self.eat_word("ADD") {
            if !self.is_sqlite()
                && let Some(constraint) = self.constraint()?
            {
                return Ok(AlterAction::AddConstraint(constraint));
            }
            self.eat_word("COLUMN");
            let column = self.column_def()?;
            let mut after = None;
            if !self.is_sqlite() {
                if self.eat_word("FIRST") {
                    after = Some(None);
                } else if self.eat_word("AFTER") {
                    after = Some(Some(self.ident()?));
                }
            }
            return Ok(AlterAction::AddColumn { column, after });
        }
        if self.eat_word("DROP") {
            if !self.is_sqlite() {
                if self.eat_words(&["PRIMARY", "KEY"]) {
                    return Ok(AlterAction::DropPrimaryKey);
                }
                if self.eat_words(&["FOREIGN", "KEY"]) {
                    return Ok(AlterAction::DropForeignKey(self.ident()?));
                }
                if self.eat_word("INDEX") || self.eat_word("KEY") {
                    return Ok(AlterAction::DropIndex(self.ident()?));
                }
                if self.is_word("CONSTRAINT") || self.is_word("CHECK") {
                    return self.unsupported("DROP CONSTRAINT");
                }
            }
            self.eat_word("COLUMN");
            return Ok(AlterAction::DropColumn(self.ident()?));
        }
        if self.eat_word("RENAME") {
            if self.eat_word("TO") || (!self.is_sqlite() && self.eat_word("AS")) {
                return Ok(AlterAction::RenameTo(self.table_name()?));
            }
            if self.is_word("INDEX") || self.is_word("KEY") {
                return self.unsupported("RENAME INDEX");
            }
            self.eat_word("COLUMN");
            let from = self.ident()?;
            self.expect_word("TO")?;
            return Ok(AlterAction::RenameColumn(from, self.ident()?));
        }
        if self.is_sqlite() {
            return Err(self.error());
        }
        if self.eat_word("MODIFY") {
            self.eat_word("COLUMN");
            let column = self.column_def()?;
            return Ok(AlterAction::ModifyColumn(column.name.clone(), column));
        }
        if self.eat_word("CHANGE") {
            self.eat_word("COLUMN");
            let old = self.ident()?;
            return Ok(AlterAction::ModifyColumn(old, self.column_def()?));
        }
        if self.eat_word("ALTER") {
            self.eat_word("COLUMN");
            let column = self.ident()?;
            if self.eat_words(&["DROP", "DEFAULT"]) {
                return Ok(AlterAction::SetDefault(column, None));
            }
            if !self.eat_words(&["SET", "DEFAULT"]) {
                return self.unsupported("this ALTER COLUMN");
            }
            return Ok(AlterAction::SetDefault(column, Some(self.default_value()?)));
        }
        let word = self.word_ahead(0).map(str::to_ascii_uppercase);
        match word.as_deref() {
            Some(name @ ("ENGINE" | "AUTO_INCREMENT" | "ALGORITHM" | "LOCK" | "COMMENT")) => {
                let name = name.to_owned();
                self.advance();
                self.eat("=");
                let begin = self.at();
                self.advance();
                let value = self.text[begin..self.last_end()].to_owned();
                Ok(AlterAction::Option(name, value))
            }
            Some("FORCE") => {
                self.advance();
                Ok(AlterAction::Option("FORCE".to_owned(), String::new()))
            }
            Some(
                "CONVERT" | "DISABLE" | "ENABLE" | "ORDER" | "PARTITION" | "DISCARD" | "IMPORT"
                | "DEFAULT" | "CHARACTER" | "CHARSET" | "COLLATE" | "ROW_FORMAT",
            ) => self.unsupported("this action of ALTER TABLE"),
            _ => Err(self.error()),
        }
    }
}
