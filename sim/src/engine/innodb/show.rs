//! `SHOW` and `DESCRIBE`.

use std::fmt::Write as _;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Column, DbError, Reply, Row, Value};

use super::database::InnoDb;
use super::flavour::Flavour;
use super::shape::Shape;
use super::statement::{Halt, Parsed};
use super::views::{self, Reader};
use crate::loose::ast::{Show, TableName};
use crate::loose::catalog::{self, Index, Reference, Table};
use crate::loose::collate::like;
use crate::loose::expr::{Expr, HostFunction};
use crate::loose::types::{Collation, DeclaredType};

/// A reply with texts and numbers.
pub(super) fn reply(columns: &[&str], rows: Vec<Vec<Value>>) -> Reply {
    let column = |name: &&str| Column {
        name: (*name).into(),
        type_name: "varchar".into(),
    };
    Reply {
        columns: columns.iter().map(column).collect(),
        rows: rows.into_iter().map(Row::from).collect(),
        ..Reply::tag("SHOW")
    }
}

fn matches(name: &str, pattern: Option<&String>) -> bool {
    pattern.is_none_or(|pattern| like(Collation::Utf8mb4GeneralCi, name, pattern, Some('\\')))
}

impl InnoDb {
    pub(super) fn show(
        &mut self,
        session: SessionId,
        show: &Show,
        parsed: &Parsed,
    ) -> Result<Reply, Halt> {
        Ok(match show {
            Show::Variables { global, like } => {
                self.show_variables(session, *global, like.as_ref(), parsed)?
            }
            Show::Warnings { errors_only, count } => {
                self.show_warnings(session, *errors_only, *count)
            }
            Show::CreateTable(name) => {
                let shape = self.shown_table(name)?;
                let next = self.store.next_number(shape.table.id);
                let text = definition(self.store.flavour, &shape.table, next)?;
                let row = vec![Value::Text(shape.table.name.clone()), Value::text(text)];
                reply(&["Table", "Create Table"], vec![row])
            }
            Show::Columns(name) => self.show_columns(session, name)?,
            Show::Processlist => {
                let reader = Reader {
                    session,
                    text: &parsed.text,
                };
                let columns = [
                    "Id", "User", "Host", "db", "Command", "Time", "State", "Info",
                ];
                reply(&columns, views::processes(&self.store, reader))
            }
            Show::Tables(like) => {
                let schema = self.store.session(session).schema.clone();
                if schema != self.store.database {
                    return Err(DbError::unsupported("the tables of this database", None).into());
                }
                let mut names: Vec<Arc<str>> = self.store.schema().relation_names();
                names.retain(|name| matches(name, like.as_ref()));
                let header = match like {
                    Some(pattern) => format!("Tables_in_{schema} ({pattern})"),
                    None => format!("Tables_in_{schema}"),
                };
                let rows = names.into_iter().map(|name| vec![Value::Text(name)]);
                reply(&[&header], rows.collect())
            }
            Show::Databases(_) => {
                return Err(DbError::unsupported("SHOW DATABASES", None).into());
            }
        })
    }

    /// A pattern that may mean variables that are not known is refused: a row would be missing.
    fn show_variables(
        &mut self,
        session: SessionId,
        global: bool,
        like: Option<&String>,
        parsed: &Parsed,
    ) -> Result<Reply, DbError> {
        self.store.reads_globals();
        let list = super::variables::list(&self.store, session, global);
        let exact = like.map(|pattern| pattern.trim_end_matches('%').to_lowercase());
        // Variables of servers that are built for debugging.
        if matches!(exact.as_deref(), Some("debug" | "debug_sync")) {
            return Ok(reply(&["Variable_name", "Value"], Vec::new()));
        }
        if !list.iter().any(|(name, _)| exact.as_deref() == Some(name)) {
            let what = "SHOW VARIABLES of more than one known variable";
            return Err(DbError::unsupported(what, Some(parsed.tree.offset)));
        }
        let rows = list
            .into_iter()
            .filter(|(name, _)| matches(name, like))
            .map(|(name, value)| vec![Value::text(name), Value::text(value)]);
        Ok(reply(&["Variable_name", "Value"], rows.collect()))
    }

    fn show_warnings(&mut self, session: SessionId, errors_only: bool, count: bool) -> Reply {
        let diagnostics = self.store.session(session).diagnostics.clone();
        let shown = diagnostics
            .iter()
            .filter(|d| !errors_only || d.level == "Error");
        let rows: Vec<Vec<Value>> = shown
            .map(|d| {
                vec![
                    Value::text(d.level),
                    Value::Int(i64::from(d.code)),
                    Value::Text(d.message.clone()),
                ]
            })
            .collect();
        if count {
            let name = match errors_only {
                true => "@@session.error_count",
                false => "@@session.warning_count",
            };
            return reply(&[name], vec![vec![Value::Int(rows.len() as i64)]]);
        }
        reply(&["Level", "Code", "Message"], rows)
    }

    fn shown_table(&self, name: &TableName) -> Result<std::rc::Rc<Shape>, DbError> {
        let home = match &name.schema {
            Some(schema) => *schema.name == *self.store.database,
            None => true,
        };
        let found = self.store.schema().table(&name.name.name).filter(|_| home);
        let Some(shape) = found else {
            return Err(self.no_such_table(&name.name.name));
        };
        Ok(std::rc::Rc::clone(shape))
    }

    fn show_columns(&mut self, session: SessionId, name: &TableName) -> Result<Reply, DbError> {
        let columns = ["Field", "Type", "Null", "Key", "Default", "Extra"];
        let current = self.store.session(session).schema.clone();
        let schema = name.schema.as_ref().map_or(&current, |s| &s.name);
        if *schema != self.store.database
            && let Some(view) = views::find(self.store.flavour, schema, &name.name.name)
        {
            let rows = views::described(self.store.flavour, &view)?;
            return Ok(reply(&columns, rows));
        }
        let shape = self.shown_table(name)?;
        let table = &shape.table;
        let mut rows = Vec::new();
        for (position, column) in table.columns.iter().enumerate() {
            rows.push(vec![
                Value::Text(column.name.clone()),
                Value::text(type_text(self.store.flavour, &column.ty)?),
                Value::text(if column.not_null.is_some() {
                    "NO"
                } else {
                    "YES"
                }),
                Value::text(key_of(table, position)),
                match &column.default {
                    None => Value::Null,
                    Some(Expr::Const(value)) => match value {
                        Value::Null => Value::Null,
                        value => Value::text(super::errors::shown(value)),
                    },
                    Some(_) => return Err(DbError::unsupported("this DEFAULT in SHOW", None)),
                },
                Value::text(if column.auto_increment {
                    "auto_increment"
                } else {
                    ""
                }),
            ]);
        }
        Ok(reply(&columns, rows))
    }
}

/// The column `Key` of `DESCRIBE`.
fn key_of(table: &Table, column: usize) -> &'static str {
    let leads = |index: &&Index| index.keys.first().and_then(|k| k.column()) == Some(column);
    let in_primary = table.primary().is_some_and(|at| {
        table.indexes[at]
            .keys
            .iter()
            .any(|k| k.column() == Some(column))
    });
    if in_primary {
        return "PRI";
    }
    let single = |index: &&Index| index.unique && index.keys.len() == 1;
    if table.indexes.iter().filter(leads).any(|i| single(&i)) {
        return "UNI";
    }
    if table.indexes.iter().any(|i| leads(&i)) {
        return "MUL";
    }
    ""
}

/// A type as `SHOW CREATE TABLE` spells it.
///
/// # Errors
/// `unsupported` where the text depends on what is not kept (display widths).
pub(super) fn type_text(flavour: Flavour, ty: &DeclaredType) -> Result<String, DbError> {
    let sized = |name: &str, n: u32| Ok(format!("{name}({n})"));
    let fraction = |name: &str, fsp: u8| match fsp {
        0 => Ok(name.to_owned()),
        fsp => Ok(format!("{name}({fsp})")),
    };
    match ty {
        DeclaredType::Int { bytes, .. } if flavour.is_mariadb() || *bytes == 1 => Err(
            DbError::unsupported("the display width of an integer in SHOW", None),
        ),
        DeclaredType::Char(n) => sized("char", *n),
        DeclaredType::Varchar(n) => sized("varchar", *n),
        DeclaredType::Binary(n) => sized("binary", *n),
        DeclaredType::Varbinary(n) => sized("varbinary", *n),
        DeclaredType::Decimal {
            precision,
            scale,
            unsigned,
        } => {
            let end = if *unsigned { " unsigned" } else { "" };
            Ok(format!("decimal({precision},{scale}){end}"))
        }
        DeclaredType::Time(fsp) => fraction("time", *fsp),
        DeclaredType::DateTime(fsp) => fraction("datetime", *fsp),
        DeclaredType::Timestamp(fsp) => fraction("timestamp", *fsp),
        DeclaredType::Text(n) => Ok(sized_text("text", *n).to_owned()),
        DeclaredType::Blob(n) => Ok(sized_text("blob", *n).to_owned()),
        DeclaredType::Enum(labels) => {
            let labels: Vec<String> = labels.iter().map(|l| quoted(l)).collect();
            Ok(format!("enum({})", labels.join(",")))
        }
        other => Ok(other.name()),
    }
}

fn sized_text(base: &'static str, bytes: u32) -> &'static str {
    match (base, bytes) {
        ("text", 255) => "tinytext",
        ("text", 65_535) => "text",
        ("text", 16_777_215) => "mediumtext",
        ("text", _) => "longtext",
        (_, 255) => "tinyblob",
        (_, 65_535) => "blob",
        (_, 16_777_215) => "mediumblob",
        _ => "longblob",
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What `SHOW CREATE TABLE` tells.
fn definition(flavour: Flavour, table: &Table, next: i64) -> Result<String, DbError> {
    if !table.checks.is_empty() {
        return Err(DbError::unsupported("CHECK constraints in SHOW", None));
    }
    let mut parts = Vec::new();
    for column in &table.columns {
        parts.push(column_text(flavour, table, column)?);
    }
    for index in &table.indexes {
        parts.push(index_text(table, index)?);
    }
    for key in &table.foreign_keys {
        let columns: Vec<String> = key
            .columns
            .iter()
            .map(|c| format!("`{}`", table.columns[*c].name))
            .collect();
        let parents: Vec<String> = key
            .parent_columns
            .iter()
            .map(|c| format!("`{c}`"))
            .collect();
        let mut text = format!(
            "CONSTRAINT `{}` FOREIGN KEY ({}) REFERENCES `{}` ({})",
            key.name,
            columns.join(", "),
            key.parent,
            parents.join(", ")
        );
        for (event, action) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
            let action = match action {
                Reference::NoAction => continue,
                Reference::Restrict => "RESTRICT",
                Reference::Cascade => "CASCADE",
                Reference::SetNull => "SET NULL",
                Reference::SetDefault => "SET DEFAULT",
            };
            let _ = write!(text, " ON {event} {action}");
        }
        parts.push(text);
    }
    let mut text = format!(
        "CREATE TABLE `{}` (\n  {}\n)",
        table.name,
        parts.join(",\n  ")
    );
    text += " ENGINE=InnoDB";
    if table.auto_increment().is_some() && next > 1 {
        let _ = write!(text, " AUTO_INCREMENT={next}");
    }
    let (charset, collation, is_usual) = charset_of(table.collation);
    let _ = write!(text, " DEFAULT CHARSET={charset}");
    if flavour.is_mariadb() || !is_usual || charset == "utf8mb4" {
        let _ = write!(text, " COLLATE={collation}");
    }
    Ok(text)
}

/// The character set of a collation, its name, and whether it is the usual one of its set.
fn charset_of(collation: Collation) -> (&'static str, &'static str, bool) {
    match collation {
        Collation::Utf8mb40900AiCi => ("utf8mb4", "utf8mb4_0900_ai_ci", true),
        Collation::Utf8mb4GeneralCi => ("utf8mb4", "utf8mb4_general_ci", false),
        Collation::Utf8mb4Bin => ("utf8mb4", "utf8mb4_bin", false),
        Collation::Utf8mb3GeneralCi => ("utf8mb3", "utf8mb3_general_ci", true),
        Collation::Latin1SwedishCi => ("latin1", "latin1_swedish_ci", true),
        Collation::Binary | Collation::NoCase | Collation::RTrim => ("binary", "binary", true),
    }
}

fn column_text(
    flavour: Flavour,
    table: &Table,
    column: &catalog::Column,
) -> Result<String, DbError> {
    let mut text = format!("`{}` {}", column.name, type_text(flavour, &column.ty)?);
    let is_text = matches!(
        column.ty,
        DeclaredType::Char(_) | DeclaredType::Varchar(_) | DeclaredType::Text(_)
    );
    if is_text && column.collation != table.collation {
        return Err(DbError::unsupported(
            "a column's own collation in SHOW",
            None,
        ));
    }
    if column.not_null.is_some() {
        text += " NOT NULL";
    } else if matches!(column.ty, DeclaredType::Timestamp(_)) {
        text += " NULL";
    }
    let has_no_default = matches!(
        column.ty,
        DeclaredType::Text(_) | DeclaredType::Blob(_) | DeclaredType::Json
    );
    match &column.default {
        None if column.not_null.is_some() || has_no_default => {}
        None | Some(Expr::Const(Value::Null)) => text += " DEFAULT NULL",
        Some(Expr::Const(value)) => {
            let _ = write!(text, " DEFAULT {}", quoted(&super::errors::shown(value)));
        }
        Some(expr) => {
            let _ = write!(text, " DEFAULT {}", moment_text(expr)?);
        }
    }
    if let Some(expr) = &column.on_update {
        let _ = write!(text, " ON UPDATE {}", moment_text(expr)?);
    }
    if column.auto_increment {
        text += " AUTO_INCREMENT";
    }
    Ok(text)
}

/// `CURRENT_TIMESTAMP(6)`.
fn moment_text(expr: &Expr) -> Result<String, DbError> {
    let Expr::Host {
        function: HostFunction::Now,
        args,
    } = expr
    else {
        return Err(DbError::unsupported("this DEFAULT in SHOW", None));
    };
    Ok(match args.first() {
        Some(Expr::Const(Value::Int(fsp))) if *fsp > 0 => format!("CURRENT_TIMESTAMP({fsp})"),
        _ => "CURRENT_TIMESTAMP".to_owned(),
    })
}

fn index_text(table: &Table, index: &Index) -> Result<String, DbError> {
    let mut keys = Vec::new();
    for key in &index.keys {
        let Some(column) = key.column() else {
            return Err(DbError::unsupported(
                "an index on an expression in SHOW",
                None,
            ));
        };
        let end = if key.descending { " DESC" } else { "" };
        keys.push(format!("`{}`{end}", table.columns[column].name));
    }
    let keys = keys.join(",");
    Ok(match (index.primary, index.unique) {
        (true, _) => format!("PRIMARY KEY ({keys})"),
        (_, true) => format!("UNIQUE KEY `{}` ({keys})", index.name),
        (_, false) => format!("KEY `{}` ({keys})", index.name),
    })
}
