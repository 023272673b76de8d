//! Changes of the schema.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;

use super::from::{name_place, no_relation, shown};
use super::{Lowered, Lowering, absent, error, ident, unsupported};
use crate::plan::PlanKind;
use crate::plan::catalog::{EnumType, Relation, RelationId, Sequence, Table};
use crate::plan::ddl::Ddl;
use crate::plan::types::{EnumId, Type};

/// A plan of the schema.
pub(super) fn done(ddl: Ddl, tag: &'static str) -> Lowered {
    (PlanKind::Ddl(Box::new(ddl)), Vec::new(), tag)
}

impl Lowering<'_> {
    pub(super) fn ddl(&mut self, tree: &ast::Statement) -> Result<Lowered, DbError> {
        let at = self.begin;
        match tree {
            ast::Statement::CreateTable(create) => self.create_table(create),
            ast::Statement::CreateIndex(create) => self.create_index(create),
            ast::Statement::AlterTable(alter) => self.alter_table(alter),
            ast::Statement::CreateFunction(create) => self.create_function(create),
            ast::Statement::DropFunction(drop) => self.drop_functions(drop),
            ast::Statement::CreateTrigger(create) => self.create_trigger(create),
            ast::Statement::DropTrigger(drop) => self.drop_trigger(drop),
            ast::Statement::CreateSequence {
                temporary,
                if_not_exists,
                name,
                sequence_options,
            } => {
                absent(*temporary, "temporary sequences", at)?;
                let (_, name) = self.split_name(name, at)?;
                let ty = sequence_type(sequence_options);
                let sequence = self.sequence(&name, ty, sequence_options)?;
                let ddl = Ddl::CreateSequence {
                    sequence,
                    if_not_exists: *if_not_exists,
                };
                Ok(done(ddl, "CREATE SEQUENCE"))
            }
            ast::Statement::CreateExtension(create) => {
                let name = ident(&create.name);
                let plain = create.schema.is_none() && create.version.is_none();
                if name != "pgrowlocks" || !plain {
                    return unsupported("extensions other than pgrowlocks", at);
                }
                let ddl = Ddl::CreateExtension {
                    name: name.into(),
                    if_not_exists: create.if_not_exists,
                };
                Ok(done(ddl, "CREATE EXTENSION"))
            }
            ast::Statement::CreateType {
                name,
                representation,
            } => {
                let (_, name) = self.split_name(name, at)?;
                let Some(ast::UserDefinedTypeRepresentation::Enum { labels }) = representation
                else {
                    return unsupported("types other than enumerations", at);
                };
                let ddl = Ddl::CreateEnum(EnumType {
                    id: EnumId(0),
                    name: name.into(),
                    labels: labels.iter().map(|l| Arc::from(l.value.as_str())).collect(),
                });
                Ok(done(ddl, "CREATE TYPE"))
            }
            ast::Statement::Drop {
                object_type,
                if_exists,
                names,
                cascade,
                restrict: _,
                purge,
                temporary,
                table,
            } => {
                absent(
                    *purge || *temporary || table.is_some(),
                    "this form of DROP",
                    at,
                )?;
                self.drop(*object_type, *if_exists, names, *cascade)
            }
            ast::Statement::Truncate(truncate) => self.truncate(truncate),
            other => {
                let text = other.to_string();
                let words: Vec<&str> = text.split_whitespace().take(2).collect();
                unsupported(format!("the statement {}", words.join(" ")), at)
            }
        }
    }

    /// A sequence with its options.
    pub(super) fn sequence(
        &self,
        name: &str,
        ty: Type,
        options: &[ast::SequenceOptions],
    ) -> Result<Sequence, DbError> {
        let at = self.begin;
        let (mut increment, mut start, mut min, mut max, mut cycle) = (1, None, None, None, false);
        for option in options {
            match option {
                ast::SequenceOptions::DataType(_) => {}
                ast::SequenceOptions::IncrementBy(e, _) => increment = whole(e, at)?,
                ast::SequenceOptions::StartWith(e, _) => start = Some(whole(e, at)?),
                ast::SequenceOptions::MinValue(e) => {
                    min = e.as_ref().map(|e| whole(e, at)).transpose()?;
                }
                ast::SequenceOptions::MaxValue(e) => {
                    max = e.as_ref().map(|e| whole(e, at)).transpose()?;
                }
                ast::SequenceOptions::Cycle(no) => cycle = !no,
                ast::SequenceOptions::Cache(e) => {
                    absent(whole(e, at)? != 1, "a sequence cache", at)?;
                }
                ast::SequenceOptions::OwnedBy(None) => {}
                ast::SequenceOptions::OwnedBy(Some(_)) => return unsupported("OWNED BY", at),
            }
        }
        if increment == 0 {
            return error("22023", "INCREMENT must not be zero", at);
        }
        let (least, greatest) = match ty {
            Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        let min = min.unwrap_or(if increment > 0 { 1 } else { least });
        let max = max.unwrap_or(if increment > 0 { greatest } else { -1 });
        Ok(Sequence {
            id: RelationId(0),
            name: name.into(),
            ty,
            start: start.unwrap_or(if increment > 0 { min } else { max }),
            increment,
            min,
            max,
            cycle,
            owner: None,
        })
    }

    fn drop(
        &mut self,
        kind: ast::ObjectType,
        if_exists: bool,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<Lowered, DbError> {
        let mut missing: Vec<Arc<str>> = Vec::new();
        let mut found = Dropped::default();
        for name in names {
            let at = name_place(name, self.begin);
            let (schema, bare) = self.split_name(name, at)?;
            let (what, code) = match kind {
                ast::ObjectType::Table => ("table", "42P01"),
                ast::ObjectType::Index => ("index", "42704"),
                ast::ObjectType::Sequence => ("sequence", "42P01"),
                ast::ObjectType::Type => ("type", "42704"),
                other => return unsupported(format!("DROP {other}"), self.begin),
            };
            if self.find_dropped(kind, schema.as_deref(), &bare, &mut found)? {
                continue;
            }
            if if_exists {
                missing.push(bare.into());
            } else {
                let name = shown(schema.as_deref(), &bare);
                return Err(DbError::postgres(
                    code,
                    format!("{what} \"{name}\" does not exist"),
                ));
            }
        }
        Ok(match kind {
            ast::ObjectType::Table => done(
                Ddl::DropTables {
                    tables: found.tables,
                    missing,
                    cascade,
                },
                "DROP TABLE",
            ),
            ast::ObjectType::Index => done(
                Ddl::DropIndexes {
                    indexes: found.indexes,
                    missing,
                    concurrently: false,
                },
                "DROP INDEX",
            ),
            ast::ObjectType::Sequence => done(
                Ddl::DropSequences {
                    sequences: found.sequences,
                    missing,
                },
                "DROP SEQUENCE",
            ),
            _ => done(
                Ddl::DropEnums {
                    enums: found.enums,
                    missing,
                },
                "DROP TYPE",
            ),
        })
    }

    /// Looks an object up that is to be dropped; false if there is none.
    fn find_dropped(
        &self,
        kind: ast::ObjectType,
        schema: Option<&str>,
        name: &str,
        found: &mut Dropped,
    ) -> Result<bool, DbError> {
        match kind {
            ast::ObjectType::Table => match self.catalog.relation(schema, name) {
                Some(Relation::Table(table)) => found.tables.push(table),
                Some(_) => {
                    return Err(DbError::postgres(
                        "42809",
                        format!("\"{name}\" is not a table"),
                    ));
                }
                None => return Ok(false),
            },
            ast::ObjectType::Index => match self.catalog.index(name) {
                Some((table, i)) => {
                    let index = &table.indexes[i];
                    if index.constraint {
                        return Err(DbError::postgres(
                            "2BP01",
                            format!(
                                "cannot drop index {name} because constraint {name} on table {} requires it",
                                table.name
                            ),
                        ));
                    }
                    found.indexes.push((table.clone(), index.name.clone()));
                }
                None => return Ok(false),
            },
            ast::ObjectType::Sequence => match self.catalog.sequence(name) {
                Some(sequence) => found.sequences.push(sequence),
                None => return Ok(false),
            },
            _ => match self.catalog.enum_type(name) {
                Some(labels) => found.enums.push(labels),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn truncate(&mut self, truncate: &ast::Truncate) -> Result<Lowered, DbError> {
        let ast::Truncate {
            table_names,
            partitions,
            table: _,
            if_exists,
            identity,
            cascade,
            on_cluster,
        } = truncate;
        let at = self.begin;
        absent(
            partitions.is_some() || on_cluster.is_some() || *if_exists,
            "this form of TRUNCATE",
            at,
        )?;
        let mut tables = Vec::with_capacity(table_names.len());
        for ast::TruncateTableTarget {
            name,
            only: _,
            has_asterisk: _,
        } in table_names
        {
            tables.push(self.existing_table(name)?);
        }
        let ddl = Ddl::Truncate {
            tables,
            restart_identity: matches!(identity, Some(ast::TruncateIdentityOption::Restart)),
            cascade: matches!(cascade, Some(ast::CascadeOption::Cascade)),
        };
        Ok(done(ddl, "TRUNCATE TABLE"))
    }

    /// A stored table by name.
    pub(super) fn existing_table(&self, name: &ast::ObjectName) -> Result<Arc<Table>, DbError> {
        let at = name_place(name, self.begin);
        let (schema, bare) = self.split_name(name, at)?;
        match self.catalog.relation(schema.as_deref(), &bare) {
            Some(Relation::Table(table)) => Ok(table),
            Some(_) => Err(DbError::postgres(
                "42809",
                format!("\"{bare}\" is not a table"),
            )),
            None => Err(no_relation(schema.as_deref(), &bare).at(at)),
        }
    }
}

/// Objects to drop.
#[derive(Default)]
struct Dropped {
    tables: Vec<Arc<Table>>,
    indexes: Vec<(Arc<Table>, Arc<str>)>,
    sequences: Vec<Arc<Sequence>>,
    enums: Vec<Arc<EnumType>>,
}

fn sequence_type(options: &[ast::SequenceOptions]) -> Type {
    let declared = options.iter().find_map(|o| match o {
        ast::SequenceOptions::DataType(ty) => Some(ty.to_string().to_ascii_lowercase()),
        _ => None,
    });
    match declared.as_deref() {
        Some("smallint" | "int2") => Type::Int2,
        Some("int" | "integer" | "int4") => Type::Int4,
        _ => Type::Int8,
    }
}

/// A whole number in an option.
fn whole(tree: &ast::Expr, at: usize) -> Result<i64, DbError> {
    let text = tree.to_string();
    match text.replace(' ', "").parse() {
        Ok(n) => Ok(n),
        Err(_) => unsupported(format!("{text} as a number"), at),
    }
}

/// The column of an index element that is a plain name.
pub(super) fn plain_column(column: &ast::IndexColumn) -> Option<String> {
    match &column.column.expr {
        ast::Expr::Identifier(name) => Some(ident(name)),
        _ => None,
    }
}
