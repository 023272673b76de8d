//! `CREATE TABLE`: columns, constraints, options.

use rowlock_model::DbError;

use super::Parser;
use crate::loose::ast::{
    ColumnDef, ColumnOption, Constraint, CreateTable, Ident, Reference2, Statement, TypeName,
};
use crate::loose::catalog::Reference;

impl Parser<'_> {
    pub(super) fn create_table(&mut self, temporary: bool) -> Result<Statement, DbError> {
        self.expect_word("TABLE")?;
        let if_not_exists = self.if_not_exists();
        let name = self.table_name()?;
        let mut table = CreateTable {
            name,
            temporary,
            if_not_exists,
            columns: Vec::new(),
            constraints: Vec::new(),
            without_rowid: false,
            strict: false,
            like: None,
            query: None,
            collation: None,
            charset: None,
            auto_increment: None,
        };
        if !self.is_sqlite() && self.eat_word("LIKE") {
            table.like = Some(self.table_name()?);
            return Ok(Statement::CreateTable(Box::new(table)));
        }
        if self.is_symbol("(") && !self.begins_query() {
            self.expect("(")?;
            loop {
                match self.constraint()? {
                    Some(constraint) => table.constraints.push(constraint),
                    // SQLite wants columns before constraints.
                    None if self.is_sqlite() && !table.constraints.is_empty() => {
                        return Err(self.error());
                    }
                    None => table.columns.push(self.column_def()?),
                }
                let comma = self.eat(",");
                if !comma && self.is_sqlite() && !self.is_symbol(")") {
                    // SQLite separates constraints without a comma as well.
                    if table.constraints.is_empty() {
                        return Err(self.error());
                    }
                    continue;
                }
                if !comma {
                    break;
                }
            }
            self.expect(")")?;
            self.table_options(&mut table)?;
        } else if !self.is_sqlite() {
            self.table_options(&mut table)?;
        }
        let as_query = self.eat_word("AS") || (!self.is_sqlite() && self.begins_query());
        if as_query {
            table.query = Some(Box::new(self.query()?));
        } else if table.columns.is_empty() {
            return Err(self.error());
        }
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn table_options(&mut self, table: &mut CreateTable) -> Result<(), DbError> {
        if self.is_sqlite() {
            loop {
                if self.eat_words(&["WITHOUT", "ROWID"]) {
                    table.without_rowid = true;
                } else if self.is_word("STRICT") {
                    self.advance();
                    table.strict = true;
                } else {
                    return Ok(());
                }
                if !self.eat(",") {
                    return Ok(());
                }
            }
        }
        loop {
            self.eat(",");
            if self.eat_word("ENGINE") {
                self.eat("=");
                if !self.eat_word("INNODB") {
                    return self.unsupported("this storage engine");
                }
            } else if self.eat_word("AUTO_INCREMENT") {
                self.eat("=");
                table.auto_increment = Some(self.number()?);
            } else if self.is_word("DEFAULT")
                || self.is_word("CHARSET")
                || self.is_word("COLLATE")
                || self.are_words(&["CHARACTER", "SET"])
            {
                self.charset_option(table)?;
            } else if self.eat_word("COMMENT") {
                self.eat("=");
                self.advance();
            } else if self.eat_word("ROW_FORMAT") {
                self.eat("=");
                self.any_word()?;
            } else if self.is_word("STATS_PERSISTENT") || self.is_word("STATS_AUTO_RECALC") {
                self.advance();
                self.eat("=");
                self.number()?;
            } else if self.is_word("PARTITION") {
                return self.unsupported("partitions");
            } else {
                return Ok(());
            }
        }
    }

    /// `[DEFAULT] CHARSET = utf8mb4`, `COLLATE = c`.
    fn charset_option(&mut self, table: &mut CreateTable) -> Result<(), DbError> {
        self.eat_word("DEFAULT");
        if self.eat_word("COLLATE") {
            self.eat("=");
            table.collation = Some(self.word_or_text()?);
            return Ok(());
        }
        if !self.eat_words(&["CHARACTER", "SET"]) {
            self.expect_word("CHARSET")?;
        }
        self.eat("=");
        let at = self.at();
        let charset = self.word_or_text()?;
        let collation = self.usual_collation(&charset, at)?;
        table.charset = Some(charset);
        // A collation that was named counts, wherever it stands.
        if table.collation.is_none() {
            table.collation = Some(collation);
        }
        Ok(())
    }

    /// The name of the usual collation of a character set.
    pub(super) fn usual_collation(&self, charset: &Ident, at: usize) -> Result<Ident, DbError> {
        let collation = crate::loose::types::Collation::of_charset(&charset.name, self.dialect);
        let Some(collation) = collation else {
            return crate::loose::errors::unsupported("this character set", at);
        };
        Ok(Ident {
            name: collation.name().into(),
            ..charset.clone()
        })
    }

    pub(super) fn is_constraint(&self) -> bool {
        let word = |w: &str| self.is_word(w);
        word("CONSTRAINT")
            || self.are_words(&["PRIMARY", "KEY"])
            || (word("UNIQUE"))
            || self.are_words(&["FOREIGN", "KEY"])
            || (word("CHECK") && self.symbol_ahead(1, "("))
            || (!self.is_sqlite()
                && (word("KEY") || word("INDEX") || word("FULLTEXT") || word("SPATIAL")))
    }

    pub(super) fn constraint(&mut self) -> Result<Option<Constraint>, DbError> {
        if !self.is_constraint() {
            return Ok(None);
        }
        let mut name = None;
        if self.eat_word("CONSTRAINT") && !self.is_constraint() {
            name = Some(self.ident()?);
        }
        if self.eat_words(&["PRIMARY", "KEY"]) {
            return self.index_def(name).map(Constraint::PrimaryKey).map(Some);
        }
        if self.eat_word("UNIQUE") {
            if !self.is_sqlite() {
                let _ = self.eat_word("KEY") || self.eat_word("INDEX");
            }
            return self.index_def(name).map(Constraint::Unique).map(Some);
        }
        if self.eat_words(&["FOREIGN", "KEY"]) {
            if !self.is_symbol("(") && !self.is_sqlite() {
                let index_name = self.ident()?;
                name = name.or(Some(index_name));
            }
            let columns = self.parenthesised(Self::ident)?;
            let references = Box::new(self.references()?);
            return Ok(Some(Constraint::ForeignKey {
                name,
                columns,
                references,
            }));
        }
        if self.eat_word("CHECK") {
            self.expect("(")?;
            let expr = self.expr()?;
            self.expect(")")?;
            return Ok(Some(Constraint::Check(name, expr)));
        }
        if self.is_word("FULLTEXT") || self.is_word("SPATIAL") {
            return self.unsupported("a full-text or spatial index");
        }
        if !self.is_sqlite() && (self.eat_word("KEY") || self.eat_word("INDEX")) {
            return self.index_def(None).map(Constraint::Key).map(Some);
        }
        Err(self.error())
    }

    /// `REFERENCES ..`.
    pub(super) fn references(&mut self) -> Result<Reference2, DbError> {
        self.expect_word("REFERENCES")?;
        let parent = self.table_name()?;
        let columns = match self.is_symbol("(") {
            true => self.parenthesised(Self::ident)?,
            false => Vec::new(),
        };
        let mut reference = Reference2 {
            parent,
            columns,
            on_delete: Reference::NoAction,
            on_update: Reference::NoAction,
            deferred: false,
        };
        loop {
            if self.eat_words(&["ON", "DELETE"]) {
                reference.on_delete = self.reference_action()?;
            } else if self.eat_words(&["ON", "UPDATE"]) {
                reference.on_update = self.reference_action()?;
            } else if self.is_word("MATCH") {
                return self.unsupported("MATCH of a foreign key");
            } else if self.is_sqlite()
                && (self.eat_words(&["NOT", "DEFERRABLE"]) || self.is_word("DEFERRABLE"))
            {
                let deferrable = self.eat_word("DEFERRABLE");
                if self.eat_words(&["INITIALLY", "DEFERRED"]) {
                    reference.deferred = deferrable;
                } else {
                    self.eat_words(&["INITIALLY", "IMMEDIATE"]);
                }
            } else {
                return Ok(reference);
            }
        }
    }

    fn reference_action(&mut self) -> Result<Reference, DbError> {
        Ok(if self.eat_word("CASCADE") {
            Reference::Cascade
        } else if self.eat_word("RESTRICT") {
            Reference::Restrict
        } else if self.eat_words(&["NO", "ACTION"]) {
            Reference::NoAction
        } else if self.eat_words(&["SET", "NULL"]) {
            Reference::SetNull
        } else if self.eat_words(&["SET", "DEFAULT"]) {
            Reference::SetDefault
        } else {
            return Err(self.error());
        })
    }

    pub(super) fn column_def(&mut self) -> Result<ColumnDef, DbError> {
        let name = self.ident()?;
        let ends = self.is_symbol(",") || self.is_symbol(")") || self.is_end();
        let ty: Option<TypeName> = match self.is_sqlite() {
            true if ends || self.begins_column_option() => None,
            _ => Some(self.type_name()?),
        };
        let mut options = Vec::new();
        while let Some(option) = self.column_option()? {
            options.push(option);
        }
        Ok(ColumnDef { name, ty, options })
    }

    fn begins_column_option(&self) -> bool {
        [
            "CONSTRAINT",
            "PRIMARY",
            "NOT",
            "NULL",
            "UNIQUE",
            "CHECK",
            "DEFAULT",
            "COLLATE",
            "REFERENCES",
            "GENERATED",
            "AS",
        ]
        .iter()
        .any(|word| self.is_word(word))
    }

    pub(super) fn column_option(&mut self) -> Result<Option<ColumnOption>, DbError> {
        let mut name = None;
        if self.eat_word("CONSTRAINT") {
            name = Some(self.ident()?);
        }
        let mysql = !self.is_sqlite();
        let option = if self.eat_words(&["NOT", "NULL"]) {
            ColumnOption::NotNull(self.on_conflict()?)
        } else if self.eat_word("NULL") {
            ColumnOption::Null
        } else if self.eat_words(&["PRIMARY", "KEY"]) {
            let descending = self.is_sqlite() && self.eat_word("DESC");
            if self.is_sqlite() && !descending {
                self.eat_word("ASC");
            }
            let on_conflict = self.on_conflict()?;
            ColumnOption::PrimaryKey {
                descending,
                on_conflict,
                autoincrement: self.is_sqlite() && self.eat_word("AUTOINCREMENT"),
                name,
            }
        } else if self.eat_word("UNIQUE") {
            if mysql {
                self.eat_word("KEY");
            }
            ColumnOption::Unique(self.on_conflict()?, name)
        } else if mysql && self.eat_word("AUTO_INCREMENT") {
            ColumnOption::AutoIncrement
        } else if mysql && self.eat_word("KEY") {
            ColumnOption::Key
        } else if self.eat_word("DEFAULT") {
            ColumnOption::Default(self.default_value()?)
        } else if mysql && self.eat_words(&["ON", "UPDATE"]) {
            ColumnOption::OnUpdate(self.expr()?)
        } else if self.eat_word("COLLATE") {
            ColumnOption::Collate(self.word_or_text()?)
        } else if self.eat_word("CHECK") {
            self.expect("(")?;
            let expr = self.expr()?;
            self.expect(")")?;
            ColumnOption::Check(name, expr)
        } else if self.is_word("REFERENCES") {
            ColumnOption::References(Box::new(self.references()?))
        } else if mysql && self.eat_word("COMMENT") {
            self.advance();
            ColumnOption::Comment
        } else if self.is_word("GENERATED") || self.is_word("AS") {
            self.eat_words(&["GENERATED", "ALWAYS"]);
            self.expect_word("AS")?;
            self.expect("(")?;
            let expr = self.expr()?;
            self.expect(")")?;
            let stored = self.eat_word("STORED") || (mysql && self.eat_word("PERSISTENT"));
            if !stored {
                self.eat_word("VIRTUAL");
            }
            ColumnOption::Generated { expr, stored }
        } else if name.is_some() {
            return Err(self.error());
        } else {
            return Ok(None);
        };
        Ok(Some(option))
    }
}
