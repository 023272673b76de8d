//! Changes of the schema.

use std::sync::Arc;

use rowlock_model::DbError;

use super::table::name_indexes;
use super::{Lowered, Lowering};
use crate::loose::ast::{self, AlterAction, IndexDef, Statement};
use crate::loose::catalog::{ConflictAction, Table, View};
use crate::loose::errors;
use crate::loose::plan::{Alter, Ddl, PlanKind, TableUse};

impl Lowering<'_> {
    pub(super) fn ddl(&mut self, statement: &Statement) -> Result<Lowered, DbError> {
        let own_text: Arc<str> = self.text[self.offset..self.end].into();
        let (ddl, tag) = match statement {
            Statement::CreateTable(create) => {
                (self.create_table(create, own_text)?, "CREATE TABLE")
            }
            Statement::CreateIndex(create) => {
                let table = self.table(&create.table)?;
                self.touch(&table, TableUse::Write);
                let def = IndexDef {
                    name: Some(create.name.clone()),
                    keys: create.keys.clone(),
                    on_conflict: ConflictAction::Abort,
                    at: create.name.at,
                };
                let mut index = self.index(&table, &def, create.unique)?;
                if let Some(filter) = &create.filter {
                    index.filter = Some(self.row_expr(&table, filter)?);
                }
                index.from_constraint = false;
                let ddl = Ddl::CreateIndex {
                    table,
                    index: Box::new(index),
                    if_not_exists: create.if_not_exists,
                    text: own_text,
                };
                (ddl, "CREATE INDEX")
            }
            Statement::CreateView {
                name,
                columns,
                query,
                if_not_exists,
                replaces,
            } => {
                let lowered = self.query(query)?;
                self.renamed(lowered.columns, columns, name.name.at)?;
                let view = View {
                    name: name.name.name.clone(),
                    columns: columns.iter().map(|c| c.name.clone()).collect(),
                    query: self.text[query.at..query.end].into(),
                };
                let ddl = Ddl::CreateView {
                    view: Arc::new(view),
                    replaces: *replaces,
                    if_not_exists: *if_not_exists,
                    text: own_text,
                };
                (ddl, "CREATE VIEW")
            }
            Statement::DropTable {
                names,
                if_exists,
                temporary,
            } => {
                let names = names.iter().map(|n| n.name.name.clone()).collect();
                let ddl = Ddl::DropTable {
                    names,
                    if_exists: *if_exists,
                    temporary: *temporary,
                };
                (ddl, "DROP TABLE")
            }
            Statement::DropIndex {
                name,
                table,
                if_exists,
            } => {
                let table = match table {
                    Some(table) => Some(self.table(table)?),
                    None => None,
                };
                let ddl = Ddl::DropIndex {
                    name: name.name.clone(),
                    table,
                    if_exists: *if_exists,
                };
                (ddl, "DROP INDEX")
            }
            Statement::DropView { name, if_exists } => {
                let ddl = Ddl::DropView {
                    name: name.name.name.clone(),
                    if_exists: *if_exists,
                };
                (ddl, "DROP VIEW")
            }
            Statement::AlterTable { name, actions } => {
                let table = self.table(name)?;
                self.touch(&table, TableUse::Write);
                let mut lowered = Vec::new();
                for action in actions {
                    lowered.extend(self.alter(&table, action)?);
                }
                let ddl = Ddl::AlterTable {
                    table,
                    actions: lowered,
                };
                (ddl, "ALTER TABLE")
            }
            Statement::Truncate(name) => {
                let table = self.table(name)?;
                self.touch(&table, TableUse::Write);
                (Ddl::Truncate(table), "TRUNCATE TABLE")
            }
            Statement::Rename(pairs) => {
                let mut lowered = Vec::new();
                for (from, to) in pairs {
                    lowered.push((self.table(from)?, to.name.name.clone()));
                }
                (Ddl::Rename(lowered), "RENAME TABLE")
            }
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Control(_) => {
                return errors::unsupported(
                    "this statement as a change of the schema",
                    self.offset,
                );
            }
        };
        Ok((PlanKind::Ddl(Box::new(ddl)), Vec::new(), tag))
    }

    fn alter(&mut self, table: &Arc<Table>, action: &AlterAction) -> Result<Vec<Alter>, DbError> {
        let position = |l: &Self, name: &ast::Ident| match table.column(&name.name) {
            Some(position) => Ok(position),
            None => {
                let shown = &name.name;
                Err(errors::either(
                    l.dialect,
                    1054,
                    "42S22",
                    format!("Unknown column '{shown}' in '{}'", table.name),
                    format!("no such column: \"{shown}\""),
                )
                .at(name.at))
            }
        };
        let collation = table.collation;
        Ok(match action {
            AlterAction::AddColumn { column: def, after } => {
                let generated = |option: &ast::ColumnOption| {
                    matches!(option, ast::ColumnOption::Generated { .. })
                };
                if def.options.iter().any(generated) {
                    return errors::unsupported("adding a generated column", def.name.at);
                }
                let column = self.column(def, collation)?;
                if table.column(&column.name).is_some() {
                    let shown = &column.name;
                    return Err(errors::either(
                        self.dialect,
                        1060,
                        "42S21",
                        format!("Duplicate column name '{shown}'"),
                        format!("duplicate column name: {shown}"),
                    )
                    .at(def.name.at));
                }
                let at = match after {
                    None => None,
                    Some(None) => Some(0),
                    Some(Some(name)) => Some(position(self, name)? + 1),
                };
                let mut grown = (**table).clone();
                let place = grown.columns.len();
                grown.columns.push(column.clone());
                let before = grown.indexes.len();
                self.column_constraints(&mut grown, place, def)?;
                if grown.checks.len() > table.checks.len()
                    || grown.foreign_keys.len() > table.foreign_keys.len()
                {
                    return errors::unsupported("a constraint of an added column", def.name.at);
                }
                let indexes = grown.indexes.split_off(before.min(grown.indexes.len()));
                vec![Alter::AddColumn {
                    column: Box::new(column),
                    at,
                    indexes,
                }]
            }
            AlterAction::DropColumn(name) => vec![Alter::DropColumn(position(self, name)?)],
            AlterAction::ModifyColumn(name, def) => {
                let at = position(self, name)?;
                vec![Alter::ChangeColumn(
                    at,
                    Box::new(self.column(def, collation)?),
                )]
            }
            AlterAction::RenameColumn(name, to) => {
                vec![Alter::RenameColumn(position(self, name)?, to.name.clone())]
            }
            AlterAction::SetDefault(name, value) => {
                let value = match value {
                    Some(node) => Some(self.constant(node)?),
                    None => None,
                };
                vec![Alter::SetDefault(position(self, name)?, value)]
            }
            AlterAction::AddConstraint(constraint) => {
                let mut grown = (**table).clone();
                self.constraint(&mut grown, constraint)?;
                name_indexes(&mut grown);
                let mut actions: Vec<Alter> = grown.indexes[table.indexes.len()..]
                    .iter()
                    .map(|index| Alter::AddIndex(Box::new(index.clone())))
                    .collect();
                let keys = grown.foreign_keys.split_off(table.foreign_keys.len());
                actions.extend(keys.into_iter().map(Alter::AddForeignKey));
                if grown.checks.len() > table.checks.len() {
                    return errors::unsupported("adding a CHECK constraint", self.offset);
                }
                actions
            }
            AlterAction::DropIndex(name) => match table.index(&name.name) {
                Some(index) => vec![Alter::DropIndex(index)],
                None => return Err(self.cannot_drop(&name.name, name.at)),
            },
            AlterAction::DropPrimaryKey => match table.primary() {
                Some(index) => vec![Alter::DropIndex(index)],
                None => return Err(self.cannot_drop("PRIMARY", self.offset)),
            },
            AlterAction::DropForeignKey(name) => vec![Alter::DropForeignKey(name.name.clone())],
            AlterAction::RenameTo(name) => vec![Alter::Rename(name.name.name.clone())],
            AlterAction::Option(name, value) => {
                vec![Alter::Option(name.as_str().into(), value.as_str().into())]
            }
        })
    }

    fn cannot_drop(&self, name: &str, at: usize) -> DbError {
        errors::mysql(
            1091,
            "42000",
            format!("Can't DROP '{name}'; check that column/key exists"),
        )
        .at(at)
    }
}
