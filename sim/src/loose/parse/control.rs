//! Statements about the session and its transaction.

use rowlock_model::{DbError, Isolation};

use super::Parser;
use crate::loose::ast::{BeginKind, Control, Scope, SetItem, Show, TableLock};
use crate::loose::lex::TokenKind;

impl Parser<'_> {
    /// A control statement, if one comes next.
    pub(super) fn control(&mut self) -> Result<Option<Control>, DbError> {
        match self.is_sqlite() {
            true => self.sqlite_control(),
            false => self.mysql_control(),
        }
    }

    fn sqlite_control(&mut self) -> Result<Option<Control>, DbError> {
        let control = if self.eat_word("BEGIN") {
            let kind = if self.eat_word("IMMEDIATE") {
                BeginKind::Immediate
            } else if self.eat_word("EXCLUSIVE") {
                BeginKind::Exclusive
            } else {
                self.eat_word("DEFERRED");
                BeginKind::Deferred
            };
            self.sqlite_transaction_name();
            Control::Begin(kind)
        } else if self.eat_word("COMMIT") || self.eat_word("END") {
            self.sqlite_transaction_name();
            Control::Commit {
                chain: None,
                release: None,
            }
        } else if self.eat_word("ROLLBACK") {
            self.eat_word("TRANSACTION");
            if self.eat_word("TO") {
                self.eat_word("SAVEPOINT");
                Control::RollbackTo(self.ident()?)
            } else {
                Control::Rollback {
                    chain: None,
                    release: None,
                }
            }
        } else if self.eat_word("SAVEPOINT") {
            Control::Savepoint(self.ident()?)
        } else if self.eat_word("RELEASE") {
            self.eat_word("SAVEPOINT");
            Control::Release(self.ident()?)
        } else if self.eat_word("PRAGMA") {
            self.pragma()?
        } else if self.eat_word("ANALYZE") {
            let names = match self.is_name() {
                true => vec![self.table_name()?],
                false => Vec::new(),
            };
            Control::Analyze(names)
        } else if self.is_word("EXPLAIN") {
            return self.unsupported("EXPLAIN");
        } else {
            return Ok(None);
        };
        Ok(Some(control))
    }

    /// `TRANSACTION [name]`.
    fn sqlite_transaction_name(&mut self) {
        if self.eat_word("TRANSACTION") && self.is_name() {
            self.advance();
        }
    }

    fn pragma(&mut self) -> Result<Control, DbError> {
        let mut name = self.any_word()?;
        let mut schema = None;
        if self.eat(".") {
            schema = Some(name);
            name = self.any_word()?;
        }
        let mut value = None;
        let parens = self.eat("(");
        if parens || self.eat("=") {
            let sign = match () {
                () if self.eat("-") => "-",
                () => {
                    self.eat("+");
                    ""
                }
            };
            let text = match &self.token().kind {
                TokenKind::Word { text, .. } | TokenKind::Text(text) | TokenKind::Number(text) => {
                    format!("{sign}{text}")
                }
                _ => return Err(self.error()),
            };
            self.advance();
            value = Some(text);
            if parens {
                self.expect(")")?;
            }
        }
        Ok(Control::Pragma {
            schema,
            name,
            value,
        })
    }

    fn mysql_control(&mut self) -> Result<Option<Control>, DbError> {
        let control = if self.eat_word("BEGIN") {
            self.eat_word("WORK");
            Control::Begin(BeginKind::Deferred)
        } else if self.eat_words(&["START", "TRANSACTION"]) {
            self.start_transaction()?
        } else if self.is_word("COMMIT") || self.is_word("ROLLBACK") {
            self.transaction_end()?
        } else if self.eat_word("SAVEPOINT") {
            Control::Savepoint(self.ident()?)
        } else if self.eat_words(&["RELEASE", "SAVEPOINT"]) {
            Control::Release(self.ident()?)
        } else if self.eat_word("SET") {
            self.set()?
        } else if self.eat_words(&["LOCK", "TABLES"]) || self.eat_words(&["LOCK", "TABLE"]) {
            Control::LockTables(self.list(Self::table_lock)?)
        } else if self.eat_words(&["UNLOCK", "TABLES"]) || self.eat_words(&["UNLOCK", "TABLE"]) {
            Control::UnlockTables
        } else if self.eat_word("KILL") {
            let query_only = self.eat_word("QUERY");
            if !query_only {
                self.eat_word("CONNECTION");
            }
            Control::Kill {
                query_only,
                id: self.expr()?,
            }
        } else if self.eat_word("USE") {
            Control::Use(self.ident()?)
        } else if self.eat_word("SHOW") {
            Control::Show(self.show()?)
        } else if self.eat_word("DESCRIBE") || self.eat_word("DESC") {
            Control::Show(Show::Columns(self.table_name()?))
        } else if self.is_word("FLUSH") {
            let at = self.at();
            self.advance();
            Control::Flush(self.words()?, at)
        } else if self.eat_word("DO") {
            Control::Do(self.list(Self::expr)?)
        } else if self.eat_word("EXPLAIN") {
            if self.is_word("FORMAT") || self.is_word("ANALYZE") || self.is_word("EXTENDED") {
                return self.unsupported("this form of EXPLAIN");
            }
            Control::Explain(Box::new(self.statement()?))
        } else if self.is_word("ANALYZE") && self.is_word_ahead(1, "TABLE") {
            self.advance();
            self.advance();
            Control::Analyze(self.list(Self::table_name)?)
        } else {
            return Ok(None);
        };
        Ok(Some(control))
    }

    /// The rest of a statement as words in capitals and symbols.
    fn words(&mut self) -> Result<Vec<String>, DbError> {
        let mut words = Vec::new();
        while !self.is_end() && !self.is_symbol(";") {
            let token = self.token();
            words.push(match &token.kind {
                TokenKind::Word { text, quote: None } => text.to_ascii_uppercase(),
                TokenKind::Word { text, .. } | TokenKind::Text(text) => text.clone(),
                _ => self.text[token.at..token.end].to_owned(),
            });
            self.advance();
        }
        Ok(words)
    }

    fn start_transaction(&mut self) -> Result<Control, DbError> {
        let mut snapshot = false;
        let mut read_only = None;
        loop {
            if self.eat_words(&["WITH", "CONSISTENT", "SNAPSHOT"]) {
                snapshot = true;
            } else if read_only.is_none() && self.eat_words(&["READ", "ONLY"]) {
                read_only = Some(true);
            } else if read_only.is_none() && self.eat_words(&["READ", "WRITE"]) {
                read_only = Some(false);
            } else if snapshot || read_only.is_some() {
                return Err(self.error());
            } else {
                break;
            }
            if !self.eat(",") {
                break;
            }
        }
        Ok(Control::StartTransaction {
            snapshot,
            read_only,
        })
    }

    fn transaction_end(&mut self) -> Result<Control, DbError> {
        let commit = self.is_word("COMMIT");
        self.advance();
        self.eat_word("WORK");
        if !commit && self.eat_word("TO") {
            self.eat_word("SAVEPOINT");
            return Ok(Control::RollbackTo(self.ident()?));
        }
        let chain = match () {
            () if self.eat_words(&["AND", "NO", "CHAIN"]) => Some(false),
            () if self.eat_words(&["AND", "CHAIN"]) => Some(true),
            () => None,
        };
        let release = match () {
            () if self.eat_words(&["NO", "RELEASE"]) => Some(false),
            () if self.eat_word("RELEASE") => Some(true),
            () => None,
        };
        Ok(match commit {
            true => Control::Commit { chain, release },
            false => Control::Rollback { chain, release },
        })
    }

    fn table_lock(&mut self) -> Result<TableLock, DbError> {
        let name = self.table_name()?;
        let alias = self.alias()?;
        let write = self.eat_word("WRITE");
        if !write {
            self.expect_word("READ")?;
            self.eat_word("LOCAL");
        }
        Ok(TableLock { name, alias, write })
    }

    /// After `SET`.
    fn set(&mut self) -> Result<Control, DbError> {
        let scope = match () {
            () if self.are_words(&["SESSION", "TRANSACTION"])
                || self.are_words(&["LOCAL", "TRANSACTION"]) =>
            {
                self.advance();
                Scope::Session
            }
            () if self.are_words(&["GLOBAL", "TRANSACTION"]) => {
                self.advance();
                Scope::Global
            }
            () => Scope::Next,
        };
        if self.eat_word("TRANSACTION") {
            return self.set_transaction(scope);
        }
        if self.is_word("NAMES") || self.is_word("PASSWORD") || self.is_word("ROLE") {
            if self.eat_word("NAMES") && self.eat_word("UTF8MB4") {
                return Ok(Control::Set(Vec::new()));
            }
            return self.unsupported("this SET");
        }
        let mut scope = Scope::Session;
        let items = self.list(|parser| parser.set_item(&mut scope))?;
        Ok(Control::Set(items))
    }

    fn set_item(&mut self, scope: &mut Scope) -> Result<SetItem, DbError> {
        if let TokenKind::UserVariable(name) = self.token().kind.clone() {
            self.advance();
            if !self.eat(":=") {
                self.expect("=")?;
            }
            return Ok(SetItem::User {
                name,
                value: self.expr()?,
            });
        }
        let at = self.at();
        let name = if let TokenKind::SystemVariable(name) = self.token().kind.clone() {
            self.advance();
            let bare = match name.split_once('.') {
                Some(("global", rest)) => {
                    *scope = Scope::Global;
                    rest
                }
                Some(("session" | "local", rest)) => {
                    *scope = Scope::Session;
                    rest
                }
                Some(_) => return crate::loose::errors::unsupported("this variable", at),
                // Of the next transaction, where there is such a thing.
                None => {
                    *scope = Scope::Next;
                    &name
                }
            };
            crate::loose::ast::Ident {
                name: bare.into(),
                at,
                double_quoted: false,
            }
        } else {
            if self.eat_word("GLOBAL") {
                *scope = Scope::Global;
            } else if self.eat_word("SESSION") || self.eat_word("LOCAL") || *scope == Scope::Next {
                *scope = Scope::Session;
            }
            let mut ident = self.any_word()?;
            ident.name = ident.name.to_ascii_lowercase().into();
            ident
        };
        if !self.eat(":=") {
            self.expect("=")?;
        }
        // ON and the like are words here, not columns.
        let at = self.at();
        if self.is_word("DEFAULT") {
            self.advance();
            let value = crate::loose::ast::Node {
                kind: crate::loose::ast::NodeKind::Default(None),
                at,
                end: self.last_end(),
            };
            return Ok(SetItem::System {
                scope: *scope,
                name,
                value,
            });
        }
        let word = ["ON", "OFF", "BINARY", "ALL"]
            .iter()
            .find(|word| self.is_word(word));
        let value = match word {
            Some(word) => {
                self.advance();
                crate::loose::ast::Node {
                    kind: crate::loose::ast::NodeKind::Text((*word).to_owned()),
                    at,
                    end: self.last_end(),
                }
            }
            None => self.expr()?,
        };
        Ok(SetItem::System {
            scope: *scope,
            name,
            value,
        })
    }

    fn set_transaction(&mut self, scope: Scope) -> Result<Control, DbError> {
        let mut isolation = None;
        let mut read_only = None;
        loop {
            if isolation.is_none() && self.eat_words(&["ISOLATION", "LEVEL"]) {
                isolation = Some(if self.eat_words(&["READ", "UNCOMMITTED"]) {
                    Isolation::ReadUncommitted
                } else if self.eat_words(&["READ", "COMMITTED"]) {
                    Isolation::ReadCommitted
                } else if self.eat_words(&["REPEATABLE", "READ"]) {
                    Isolation::RepeatableRead
                } else if self.eat_word("SERIALIZABLE") {
                    Isolation::Serializable
                } else {
                    return Err(self.error());
                });
            } else if read_only.is_none() && self.eat_words(&["READ", "ONLY"]) {
                read_only = Some(true);
            } else if read_only.is_none() && self.eat_words(&["READ", "WRITE"]) {
                read_only = Some(false);
            } else {
                return Err(self.error());
            }
            if !self.eat(",") {
                break;
            }
        }
        Ok(Control::SetTransaction {
            scope,
            isolation,
            read_only,
        })
    }
}
