//! From tokens to syntax trees, by the grammars of MySQL, MariaDB and SQLite.
//!
//! A general SQL parser accepts the union of many products and loses some of it; this one takes what
//! the product takes, and stops at the token at which the product would.

mod control;
mod ddl;
mod expr;
mod primary;
mod select;
mod show;
mod table;
mod type_name;
mod write;

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

use super::ast::{Ident, Statement, TableName};
use super::errors;
use super::lex::{self, Token, TokenKind};

/// A parsed statement with its place in the text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The whole text that it is part of; positions count from its start.
    pub text: Arc<str>,
    /// The byte at which the statement begins.
    pub offset: usize,
    /// The byte after its end.
    pub end: usize,
    /// Whose SQL it is.
    pub dialect: Dialect,
    /// How many `?` it has.
    pub params: usize,
    pub(crate) tree: Statement,
}

impl Parsed {
    /// The text of the statement alone.
    pub fn own_text(&self) -> &str {
        &self.text[self.offset..self.end]
    }
}

/// Parses the statements of a text, in order, up to the first syntax error (the servers run those
/// before it). Empty statements are left out.
pub fn parse(text: &str, dialect: Dialect) -> Vec<Result<Parsed, DbError>> {
    let (mut tokens, lexical) = lex::read(text, dialect);
    if lexical.is_some() {
        let at = lexical
            .as_ref()
            .and_then(|e| e.position)
            .unwrap_or(text.len());
        tokens.push(Token {
            kind: TokenKind::End,
            at,
            end: at,
        });
    }
    let text: Arc<str> = text.into();
    let mut parser = Parser {
        text: &text,
        dialect,
        tokens,
        pos: 0,
        params: 0,
        into: Vec::new(),
        lexical,
    };
    let mut statements = Vec::new();
    loop {
        while parser.eat(";") {}
        if parser.is_end() {
            statements.extend(parser.lexical.take().map(Err));
            return statements;
        }
        parser.params = 0;
        let offset = parser.at();
        parser.into.clear();
        let tree = parser.statement().and_then(|mut tree| {
            if !parser.into.is_empty() {
                match &mut tree {
                    Statement::Query(query) => query.into = std::mem::take(&mut parser.into),
                    _ => return parser.unsupported("INTO inside of this statement"),
                }
            }
            if parser.is_symbol(";") || (parser.is_end() && parser.lexical.is_none()) {
                Ok(tree)
            } else {
                Err(parser.error())
            }
        });
        let failed = tree.is_err();
        statements.push(tree.map(|tree| Parsed {
            text: Arc::clone(&text),
            offset,
            end: parser.last_end(),
            dialect,
            params: parser.params,
            tree,
        }));
        if failed {
            return statements;
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    dialect: Dialect,
    tokens: Vec<Token>,
    pos: usize,
    params: usize,
    /// The variables of the `INTO` of this statement.
    into: Vec<String>,
    /// Why the tokens end where they end, if that is not the end of the text.
    lexical: Option<DbError>,
}

/// Words that are no aliases and no names: they begin or continue clauses.
const RESERVED: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "JOIN",
    "INNER",
    "CROSS",
    "LEFT",
    "RIGHT",
    "NATURAL",
    "ON",
    "USING",
    "AS",
    "AND",
    "OR",
    "NOT",
    "SET",
    "VALUES",
    "INTO",
    "WHEN",
    "THEN",
    "ELSE",
    "CASE",
    "BETWEEN",
    "IN",
    "IS",
    "NULL",
    "LIKE",
    "EXISTS",
    "DISTINCT",
    "DELETE",
    "UPDATE",
    "INSERT",
    "CREATE",
    "DROP",
    "ALTER",
    "TABLE",
    "INDEX",
    "PRIMARY",
    "UNIQUE",
    "REFERENCES",
    "CHECK",
    "DEFAULT",
    "COLLATE",
    "CONSTRAINT",
    "FOREIGN",
];

/// Further reserved words of MySQL and MariaDB.
const RESERVED_MYSQL: &[&str] = &[
    "FOR",
    "LOCK",
    "USE",
    "FORCE",
    "IGNORE",
    "STRAIGHT_JOIN",
    "XOR",
    "DIV",
    "MOD",
    "REGEXP",
    "RLIKE",
    "WINDOW",
    "INTERVAL",
    "BY",
    "DESC",
    "ASC",
    "KEY",
    "KEYS",
    "TO",
    "LATERAL",
    "WITH",
    "PROCEDURE",
    "BINARY",
    "CONVERT",
    "RELEASE",
    "RETURNING",
    "PARTITION",
    "READ",
    "WRITE",
    "FETCH",
];

/// Further words that SQLite does not take for an alias.
const RESERVED_SQLITE: &[&str] = &[
    "ISNULL",
    "NOTNULL",
    "INDEXED",
    "RETURNING",
    "GLOB",
    "REGEXP",
    "MATCH",
    "ESCAPE",
    "COMMIT",
    "TRANSACTION",
    "TO",
    "ADD",
    "DEFERRABLE",
    "OUTER",
    "FULL",
    "WINDOW",
];

impl Parser<'_> {
    fn is_sqlite(&self) -> bool {
        self.dialect == Dialect::Sqlite
    }

    fn token(&self) -> &Token {
        &self.tokens[self.pos.min(self.tokens.len() - 1)]
    }

    fn token_ahead(&self, ahead: usize) -> &Token {
        &self.tokens[(self.pos + ahead).min(self.tokens.len() - 1)]
    }

    fn at(&self) -> usize {
        self.token().at
    }

    fn last_end(&self) -> usize {
        match self.pos.checked_sub(1) {
            Some(last) => self.tokens[last.min(self.tokens.len() - 1)].end,
            None => 0,
        }
    }

    fn is_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    fn advance(&mut self) {
        self.pos += 1;
    }

    /// The syntax error at the next token.
    fn error(&self) -> DbError {
        if self.is_end()
            && let Some(error) = &self.lexical
        {
            return error.clone();
        }
        let token = self.token();
        errors::syntax(self.dialect, self.text, token.at, token.end)
    }

    fn unsupported<T>(&self, what: &str) -> Result<T, DbError> {
        errors::unsupported(what, self.at())
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(&self.token().kind, TokenKind::Symbol(s) if *s == symbol)
    }

    fn symbol_ahead(&self, ahead: usize, symbol: &str) -> bool {
        matches!(&self.token_ahead(ahead).kind, TokenKind::Symbol(s) if *s == symbol)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.pos += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), DbError> {
        match self.eat(symbol) {
            true => Ok(()),
            false => Err(self.error()),
        }
    }

    fn word_ahead(&self, ahead: usize) -> Option<&str> {
        match &self.token_ahead(ahead).kind {
            TokenKind::Word { text, quote: None } => Some(text),
            _ => None,
        }
    }

    fn is_word_ahead(&self, ahead: usize, word: &str) -> bool {
        self.word_ahead(ahead)
            .is_some_and(|w| w.eq_ignore_ascii_case(word))
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_ahead(0, word)
    }

    /// Whether these words come next.
    fn are_words(&self, words: &[&str]) -> bool {
        words
            .iter()
            .enumerate()
            .all(|(i, word)| self.is_word_ahead(i, word))
    }

    fn eat_word(&mut self, word: &str) -> bool {
        self.eat_words(&[word])
    }

    fn eat_words(&mut self, words: &[&str]) -> bool {
        let found = self.are_words(words);
        if found {
            self.pos += words.len();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<(), DbError> {
        match self.eat_word(word) {
            true => Ok(()),
            false => Err(self.error()),
        }
    }

    fn is_reserved(&self, word: &str) -> bool {
        let has = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(word));
        has(RESERVED)
            || match self.is_sqlite() {
                true => has(RESERVED_SQLITE),
                false => has(RESERVED_MYSQL),
            }
    }

    /// Whether a name comes next.
    fn is_name(&self) -> bool {
        match &self.token().kind {
            TokenKind::Word { quote: Some(_), .. } => true,
            TokenKind::Word { text, quote: None } => !self.is_reserved(text),
            _ => false,
        }
    }

    fn ident(&mut self) -> Result<Ident, DbError> {
        if !self.is_name() {
            return Err(self.error());
        }
        self.any_word()
    }

    /// A name that may be a reserved word, as after a point.
    fn any_word(&mut self) -> Result<Ident, DbError> {
        let token = self.token();
        let TokenKind::Word { text, quote } = &token.kind else {
            return Err(self.error());
        };
        let ident = Ident {
            name: text.as_str().into(),
            at: token.at,
            double_quoted: *quote == Some('"'),
        };
        self.advance();
        Ok(ident)
    }

    /// The name of a character set or collation, which may be written as a text.
    fn word_or_text(&mut self) -> Result<Ident, DbError> {
        let token = self.token();
        let TokenKind::Text(text) = &token.kind else {
            return self.any_word();
        };
        let ident = Ident {
            name: text.as_str().into(),
            at: token.at,
            double_quoted: false,
        };
        self.advance();
        Ok(ident)
    }

    fn table_name(&mut self) -> Result<TableName, DbError> {
        let first = self.ident()?;
        if self.is_symbol(".") && !self.symbol_ahead(1, "*") {
            self.advance();
            let name = self.any_word()?;
            return Ok(TableName {
                schema: Some(first),
                name,
            });
        }
        Ok(TableName {
            schema: None,
            name: first,
        })
    }

    /// `[AS] alias`.
    fn alias(&mut self) -> Result<Option<Ident>, DbError> {
        if self.eat_word("AS") {
            if let TokenKind::Text(text) = &self.token().kind {
                let ident = Ident {
                    name: text.as_str().into(),
                    at: self.at(),
                    double_quoted: false,
                };
                self.advance();
                return Ok(Some(ident));
            }
            return self.ident().map(Some);
        }
        match self.is_name() {
            true => self.ident().map(Some),
            false => Ok(None),
        }
    }

    /// `item, item, ..`.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, DbError>,
    ) -> Result<Vec<T>, DbError> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, item, ..)`.
    fn parenthesised<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Result<T, DbError>,
    ) -> Result<Vec<T>, DbError> {
        self.expect("(")?;
        let items = self.list(item)?;
        self.expect(")")?;
        Ok(items)
    }

    fn number(&mut self) -> Result<u64, DbError> {
        let TokenKind::Number(text) = &self.token().kind else {
            return Err(self.error());
        };
        let Ok(number) = text.parse() else {
            return Err(self.error());
        };
        self.advance();
        Ok(number)
    }

    fn statement(&mut self) -> Result<Statement, DbError> {
        if let Some(control) = self.control()? {
            return Ok(Statement::Control(control));
        }
        let Some(word) = self.word_ahead(0).map(str::to_ascii_uppercase) else {
            if self.is_symbol("(") && !self.is_sqlite() {
                return Ok(Statement::Query(Box::new(self.query()?)));
            }
            return Err(self.error());
        };
        match word.as_str() {
            "SELECT" | "VALUES" => Ok(Statement::Query(Box::new(self.query()?))),
            "TABLE" if !self.is_sqlite() => self.unsupported("the statement TABLE"),
            "WITH" => self.with_statement(),
            "INSERT" | "REPLACE" => self.insert(Vec::new(), false),
            "UPDATE" => self.update(Vec::new(), false),
            "DELETE" => self.delete(Vec::new(), false),
            "CREATE" => self.create(),
            "DROP" => self.drop(),
            "ALTER" => self.alter(),
            "TRUNCATE" if !self.is_sqlite() => {
                self.advance();
                self.eat_word("TABLE");
                Ok(Statement::Truncate(self.table_name()?))
            }
            "OPTIMIZE" if !self.is_sqlite() && self.is_word_ahead(1, "TABLE") => {
                self.advance();
                self.advance();
                let name = self.table_name()?;
                let actions = vec![super::ast::AlterAction::Option(
                    "OPTIMIZE".to_owned(),
                    String::new(),
                )];
                Ok(Statement::AlterTable { name, actions })
            }
            "RENAME" if !self.is_sqlite() => self.rename(),
            "ATTACH" | "DETACH" | "VACUUM" | "REINDEX" if self.is_sqlite() => {
                self.unsupported(&format!("the statement {word}"))
            }
            "CALL" | "LOAD" | "HANDLER" | "PREPARE" | "EXECUTE" | "DEALLOCATE" | "GRANT"
            | "REVOKE" | "XA" | "OPTIMIZE" | "REPAIR" | "CHECK" | "CHECKSUM" | "IMPORT"
            | "INSTALL" | "RESET" | "SIGNAL" | "GET" | "CACHE" | "BINLOG" | "CHANGE" | "STOP"
            | "SHUTDOWN" | "CLONE" | "HELP"
                if !self.is_sqlite() =>
            {
                self.unsupported(&format!("the statement {word}"))
            }
            _ => Err(self.error()),
        }
    }

    /// `WITH .. SELECT | INSERT | UPDATE | DELETE`.
    fn with_statement(&mut self) -> Result<Statement, DbError> {
        let (with, recursive) = self.with()?;
        let word = self.word_ahead(0).map(str::to_ascii_uppercase);
        match word.as_deref() {
            Some("INSERT" | "REPLACE") if self.is_sqlite() => self.insert(with, recursive),
            Some("UPDATE") if self.dialect != Dialect::MariaDb => self.update(with, recursive),
            Some("DELETE") if self.dialect != Dialect::MariaDb => self.delete(with, recursive),
            _ => {
                let mut query = self.query()?;
                query.with = with;
                query.recursive = recursive;
                Ok(Statement::Query(Box::new(query)))
            }
        }
    }
}
