//! `CREATE TABLE`: columns, constraints, indexes.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

use super::Lowering;
use super::names::Level;
use crate::loose::ast::{
    self, ColumnDef, ColumnOption, Constraint, IndexDef, IndexedColumn, Node, Reference2,
};
use crate::loose::catalog::{
    Check, Column, ConflictAction, ForeignKey, Index, IndexKey, KeyPart, Relation, Table,
};
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::plan::Ddl;
use crate::loose::types::{Affinity, Collation, DeclaredType};

impl Lowering<'_> {
    pub(super) fn create_table(
        &mut self,
        create: &ast::CreateTable,
        text: Arc<str>,
    ) -> Result<Ddl, DbError> {
        let mut table = Table {
            id: crate::loose::catalog::TableId::default(),
            name: create.name.name.name.clone(),
            collation: match &create.collation {
                Some(name) => self.collation_named(name)?,
                None => Collation::default_of(self.dialect),
            },
            columns: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            rowid_alias: None,
            without_rowid: create.without_rowid,
            strict: create.strict,
            autoincrement: false,
            temporary: create.temporary,
        };
        if let Some(like) = &create.like {
            let Relation::Table(model) = self.relation(like)? else {
                return errors::unsupported("LIKE of a view", like.name.at);
            };
            table = Table {
                name: table.name,
                temporary: table.temporary,
                foreign_keys: Vec::new(),
                ..(*model).clone()
            };
            return Ok(created(table, create, None, text));
        }
        let collation = table.collation;
        if let Some(charset) = &create.charset {
            self.deprecated_charset(&charset.name);
        }
        for def in &create.columns {
            let mut column = self.column(def, collation)?;
            if create.strict {
                self.strict_type(&table, def, &mut column)?;
            }
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
            table.columns.push(column);
        }
        let mut rows = None;
        if let Some(query) = &create.query {
            let query = self.query(query)?;
            for (at, column) in query.columns.iter().enumerate() {
                // What both define is defined by the table, and stands where the query has it.
                if let Some(defined) = table.column(&column.name).filter(|_| !self.is_sqlite()) {
                    let defined = table.columns.remove(defined);
                    table.columns.push(defined);
                    continue;
                }
                let source = source_of(&query, at);
                let mut made = self.column_of_query(column);
                if let Some(source) = source.filter(|_| !self.is_sqlite()) {
                    made.not_null = source.not_null;
                    made.default.clone_from(&source.default);
                }
                table.columns.push(made);
            }
            rows = Some(Box::new(query));
        }
        self.constraints(&mut table, create)?;
        Ok(created(table, create, rows, text))
    }

    fn column_of_query(&self, column: &crate::loose::query::OutputColumn) -> Column {
        let ty = match (&column.ty.declared, self.is_sqlite()) {
            (Some(declared), _) => declared.clone(),
            (None, true) => DeclaredType::Sqlite {
                name: "".into(),
                affinity: column.ty.affinity.unwrap_or(Affinity::Blob),
            },
            (None, false) => declared_of_kind(column.ty.kind),
        };
        Column {
            name: column.name.clone(),
            ty,
            collation: column.ty.collation,
            not_null: None,
            default: None,
            on_update: None,
            auto_increment: false,
            generated: None,
        }
    }

    /// A column without what its definition says of the table (keys, checks).
    pub(super) fn column(
        &mut self,
        def: &ColumnDef,
        collation: Collation,
    ) -> Result<Column, DbError> {
        let ty = match (&def.ty, self.is_sqlite()) {
            (Some(ty), true) => DeclaredType::Sqlite {
                name: ty.name.as_str().into(),
                affinity: Affinity::of_name(&ty.name),
            },
            (None, true) => DeclaredType::Sqlite {
                name: "".into(),
                affinity: Affinity::Blob,
            },
            (Some(ty), false) => self.mysql_type(ty)?,
            (None, false) => return errors::unsupported("a column without a type", def.name.at),
        };
        if let Some(written) = &def.ty {
            self.deprecated_type(written, &ty);
        }
        let collation = match &ty {
            DeclaredType::Binary(_) | DeclaredType::Varbinary(_) | DeclaredType::Blob(_) => {
                Collation::Binary
            }
            _ => match def.ty.as_ref().and_then(|ty| ty.charset.as_ref()) {
                Some((charset, usual)) => {
                    self.deprecated_charset(&charset.name);
                    self.collation_named(usual)?
                }
                None => collation,
            },
        };
        let mut column = Column {
            name: def.name.name.clone(),
            ty,
            collation,
            not_null: None,
            default: None,
            on_update: None,
            auto_increment: false,
            generated: None,
        };
        for option in &def.options {
            match option {
                ColumnOption::NotNull(action) => column.not_null = Some(*action),
                ColumnOption::AutoIncrement => {
                    column.auto_increment = true;
                    column.not_null = Some(ConflictAction::Abort);
                }
                ColumnOption::PrimaryKey { .. } | ColumnOption::Key if !self.is_sqlite() => {
                    column.not_null = Some(ConflictAction::Abort);
                }
                ColumnOption::Default(node) => column.default = Some(self.constant(node)?),
                ColumnOption::OnUpdate(node) => column.on_update = Some(self.constant(node)?),
                ColumnOption::Collate(name) => column.collation = self.collation_named(name)?,
                ColumnOption::Generated { .. } if !self.is_sqlite() => {
                    return errors::unsupported("a generated column", def.name.at);
                }
                ColumnOption::Null
                | ColumnOption::PrimaryKey { .. }
                | ColumnOption::Unique(..)
                | ColumnOption::Check(..)
                | ColumnOption::References(_)
                | ColumnOption::Comment
                | ColumnOption::Generated { .. }
                | ColumnOption::Key => {}
            }
        }
        Ok(column)
    }

    /// Character sets of which MySQL warns.
    fn deprecated_charset(&mut self, charset: &str) {
        const UTF8: &str = "'utf8' is currently an alias for the character set UTF8MB3, but will be an \
                            alias for UTF8MB4 in a future release. Please consider using UTF8MB4 in \
                            order to be unambiguous.";
        const UTF8MB3: &str = "'utf8mb3' is deprecated and will be removed in a future release. Please \
                               use utf8mb4 instead";
        match charset.to_ascii_lowercase().as_str() {
            "utf8" => self.deprecated(3719, UTF8),
            "utf8mb3" => self.deprecated(1287, UTF8MB3),
            _ => {}
        }
    }

    /// Display widths and the like, of which MySQL warns.
    fn deprecated_type(&mut self, written: &ast::TypeName, ty: &DeclaredType) {
        const WIDTH: &str =
            "Integer display width is deprecated and will be removed in a future release.";
        const UNSIGNED: &str = "UNSIGNED for decimal and floating point data types is deprecated and \
                                support for it will be removed in a future release.";
        const DIGITS: &str = "Specifying number of digits for floating point data types is deprecated \
                              and will be removed in a future release.";
        match ty {
            DeclaredType::Int { bytes, .. } => {
                let is_boolean = *bytes == 1 && written.numbers == [1];
                if !written.numbers.is_empty() && !is_boolean {
                    self.deprecated(1681, WIDTH);
                }
            }
            DeclaredType::Decimal { .. } if written.unsigned => self.deprecated(1681, UNSIGNED),
            DeclaredType::Float | DeclaredType::Double => {
                if written.unsigned {
                    self.deprecated(1681, UNSIGNED);
                }
                if written.numbers.len() == 2 {
                    self.deprecated(1681, DIGITS);
                }
            }
            _ => {}
        }
    }

    /// The types that a `STRICT` table may have ("STRICT Tables", section 2).
    fn strict_type(
        &self,
        table: &Table,
        def: &ColumnDef,
        column: &mut Column,
    ) -> Result<(), DbError> {
        let error = |message: String| Err(errors::sqlite(1, message).at(def.name.at));
        let Some(ty) = &def.ty else {
            return error(format!(
                "missing datatype for {}.{}",
                table.name, column.name
            ));
        };
        match ty.name.to_ascii_uppercase().as_str() {
            "INT" | "INTEGER" | "REAL" | "TEXT" | "BLOB" if ty.numbers.is_empty() => Ok(()),
            "ANY" if ty.numbers.is_empty() => {
                // Nothing is converted.
                column.ty = DeclaredType::Sqlite {
                    name: ty.name.as_str().into(),
                    affinity: Affinity::Blob,
                };
                Ok(())
            }
            _ => error(format!(
                "unknown datatype for {}.{}: \"{}\"",
                table.name, column.name, ty.name
            )),
        }
    }

    /// The expression of a generated column. It may not read the rowid, which is not known when the
    /// row is made.
    fn generated(&mut self, table: &Table, def: &ColumnDef, node: &Node) -> Result<Expr, DbError> {
        let mut expr = self.row_expr(table, node)?;
        let mut reads_rowid = false;
        crate::loose::walk::expr(&mut expr, 0, &mut |part, _| {
            reads_rowid |= match part {
                Expr::Rowid { .. } => true,
                Expr::Column { column, .. } => table.rowid_alias == Some(*column as usize),
                _ => false,
            };
            true
        });
        match reads_rowid {
            true => errors::unsupported("a generated column over the rowid", def.name.at),
            false => Ok(expr),
        }
    }

    /// An expression without columns.
    pub(super) fn constant(&mut self, node: &Node) -> Result<Expr, DbError> {
        let typed = self.in_level(Level::default(), |l| l.expr(node))?;
        Ok(typed.expr)
    }

    /// An expression over the columns of a table, as entry 0.
    pub(super) fn row_expr(&mut self, table: &Table, node: &Node) -> Result<Expr, DbError> {
        let table = Arc::new(table.clone());
        let entry = self.table_entry(&table, table.name.clone(), node.at);
        let level = Level {
            range: vec![entry],
            no_aggregates: true,
            grouped: false,
            ..Level::default()
        };
        let typed = self.in_level(level, |l| l.expr(node))?;
        Ok(typed.expr)
    }

    fn constraints(&mut self, table: &mut Table, create: &ast::CreateTable) -> Result<(), DbError> {
        for (position, def) in create.columns.iter().enumerate() {
            self.column_constraints(table, position, def)?;
        }
        for constraint in &create.constraints {
            self.constraint(table, constraint)?;
        }
        for (position, def) in create.columns.iter().enumerate() {
            for option in &def.options {
                if let ColumnOption::Generated { expr, .. } = option {
                    table.columns[position].generated = Some(self.generated(table, def, expr)?);
                }
            }
        }
        if table
            .columns
            .iter()
            .all(|column| column.generated.is_some())
            && self.is_sqlite()
        {
            let message = "must have at least one non-generated column";
            return Err(errors::sqlite(1, message).at(create.name.name.at));
        }
        if table.without_rowid && table.primary().is_none() {
            let message = format!("PRIMARY KEY missing on table {}", table.name);
            return Err(errors::sqlite(1, message).at(create.name.name.at));
        }
        if !self.is_sqlite() {
            // The clustered index comes first, then unique keys, then others, as InnoDB orders them.
            table
                .indexes
                .sort_by_key(|index| (!index.primary, !index.unique));
            name_indexes(table);
        }
        Ok(())
    }

    pub(super) fn column_constraints(
        &mut self,
        table: &mut Table,
        position: usize,
        def: &ColumnDef,
    ) -> Result<(), DbError> {
        let own_key = |descending: bool| IndexedColumn {
            expr: Node {
                kind: ast::NodeKind::Name(vec![def.name.clone()]),
                at: def.name.at,
                end: def.name.at,
            },
            collation: None,
            descending,
        };
        let index_def = |name: Option<&ast::Ident>, descending: bool, on_conflict| IndexDef {
            name: name.cloned(),
            keys: vec![own_key(descending)],
            on_conflict,
            at: def.name.at,
        };
        for option in &def.options {
            match option {
                ColumnOption::PrimaryKey {
                    descending,
                    on_conflict,
                    autoincrement,
                    name,
                } => {
                    let def = index_def(name.as_ref(), *descending, *on_conflict);
                    self.primary_key(table, &def, *autoincrement)?;
                }
                ColumnOption::Key if !self.is_sqlite() => {
                    let def = index_def(None, false, ConflictAction::Abort);
                    self.primary_key(table, &def, false)?;
                }
                ColumnOption::Unique(on_conflict, name) => {
                    let def = index_def(name.as_ref(), false, *on_conflict);
                    self.constraint(table, &Constraint::Unique(def))?;
                }
                ColumnOption::Check(name, node) => {
                    self.constraint(table, &Constraint::Check(name.clone(), node.clone()))?;
                }
                // MySQL before 9 parses and ignores REFERENCES of a column.
                ColumnOption::References(_) if self.dialect == Dialect::MySql => {
                    return errors::unsupported("REFERENCES in a column definition", def.name.at);
                }
                ColumnOption::References(reference) => {
                    let key = self.foreign_key(table, None, vec![position], reference);
                    table.foreign_keys.push(key);
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn constraint(
        &mut self,
        table: &mut Table,
        constraint: &Constraint,
    ) -> Result<(), DbError> {
        match constraint {
            Constraint::PrimaryKey(def) => self.primary_key(table, def, false),
            Constraint::Unique(def) => {
                let mut index = self.index(table, def, true)?;
                if self.is_sqlite() {
                    let same = |other: &Index| other.unique && other.keys == index.keys;
                    if table.indexes.iter().any(same) {
                        return Ok(());
                    }
                    index.name = autoindex(table);
                }
                table.indexes.push(index);
                Ok(())
            }
            Constraint::Key(def) => {
                let index = self.index(table, def, false)?;
                table.indexes.push(index);
                Ok(())
            }
            Constraint::Check(name, node) => {
                let expr = self.row_expr(table, node)?;
                table.checks.push(Check {
                    name: name.as_ref().map(|name| name.name.clone()),
                    expr,
                    text: self.text[node.at..node.end].into(),
                });
                Ok(())
            }
            Constraint::ForeignKey {
                name,
                columns,
                references,
            } => {
                let mut positions = Vec::new();
                for column in columns {
                    match table.column(&column.name) {
                        Some(position) => positions.push(position),
                        None => return Err(self.no_key_column(&column.name, column.at)),
                    }
                }
                let key = self.foreign_key(table, name.as_ref(), positions, references);
                table.foreign_keys.push(key);
                Ok(())
            }
        }
    }

    pub(super) fn no_key_column(&self, name: &str, at: usize) -> DbError {
        errors::either(
            self.dialect,
            1072,
            "42000",
            format!("Key column '{name}' doesn't exist in table"),
            format!("no such column: {name}"),
        )
        .at(at)
    }

    pub(super) fn foreign_key(
        &self,
        table: &mut Table,
        name: Option<&ast::Ident>,
        columns: Vec<usize>,
        reference: &Reference2,
    ) -> ForeignKey {
        let number = table.foreign_keys.len() + 1;
        let name: Arc<str> = match name {
            Some(name) => name.name.clone(),
            None if self.is_sqlite() => "".into(),
            None if self.dialect == Dialect::MariaDb => {
                format!("{}_ibfk_{number}", table.name).into()
            }
            None => format!("{}_ibfk_{number}", table.name).into(),
        };
        if !self.is_sqlite() {
            // InnoDB needs an index over the columns and makes one if there is none.
            let leads = |index: &Index| {
                let keys = index.keys.iter().map(IndexKey::column);
                keys.take(columns.len())
                    .eq(columns.iter().map(|c| Some(*c)))
            };
            if !table.indexes.iter().any(leads) {
                let keys = columns.iter().map(|column| IndexKey {
                    part: KeyPart::Column(*column),
                    collation: table.columns[*column].collation,
                    descending: false,
                });
                let keys = keys.collect();
                let named = name.starts_with(&format!("{}_ibfk_", table.name));
                table.indexes.push(Index {
                    name: match named {
                        true => "".into(),
                        false => name.clone(),
                    },
                    keys,
                    unique: false,
                    primary: false,
                    filter: None,
                    on_conflict: ConflictAction::Abort,
                    from_constraint: true,
                });
            }
        }
        ForeignKey {
            name,
            columns,
            parent: reference.parent.name.name.clone(),
            parent_columns: reference.columns.iter().map(|c| c.name.clone()).collect(),
            on_delete: reference.on_delete,
            on_update: reference.on_update,
            deferred: reference.deferred,
        }
    }

    pub(super) fn primary_key(
        &mut self,
        table: &mut Table,
        def: &IndexDef,
        autoincrement: bool,
    ) -> Result<(), DbError> {
        if table.primary().is_some() || table.rowid_alias.is_some() {
            let name = &table.name;
            return Err(errors::either(
                self.dialect,
                1068,
                "42000",
                "Multiple primary key defined",
                format!("table \"{name}\" has more than one primary key"),
            )
            .at(def.at));
        }
        let mut index = self.index(table, def, true)?;
        index.primary = true;
        if !self.is_sqlite() {
            index.name = "PRIMARY".into();
            for key in &index.keys {
                if let Some(column) = key.column() {
                    let not_null = &mut table.columns[column].not_null;
                    *not_null = not_null.or(Some(ConflictAction::Abort));
                }
            }
            table.indexes.push(index);
            return Ok(());
        }
        if let ([key], false) = (&index.keys[..], table.without_rowid)
            && let Some(column) = key.column()
            && let DeclaredType::Sqlite { name, .. } = &table.columns[column].ty
            && name.eq_ignore_ascii_case("INTEGER")
            && !key.descending
        {
            table.rowid_alias = Some(column);
            table.autoincrement = autoincrement;
            return Ok(());
        }
        if autoincrement {
            return Err(errors::sqlite(
                1,
                "AUTOINCREMENT is only allowed on an INTEGER PRIMARY KEY",
            )
            .at(def.at));
        }
        if table.without_rowid {
            for key in &index.keys {
                if let Some(column) = key.column() {
                    let not_null = &mut table.columns[column].not_null;
                    *not_null = not_null.or(Some(ConflictAction::Abort));
                }
            }
            table.indexes.insert(0, index);
            table.indexes[0].name = autoindex(table);
            return Ok(());
        }
        index.name = autoindex(table);
        table.indexes.push(index);
        Ok(())
    }

    /// An index over columns or expressions of a table.
    pub(super) fn index(
        &mut self,
        table: &Table,
        def: &IndexDef,
        unique: bool,
    ) -> Result<Index, DbError> {
        let mut keys = Vec::new();
        for key in &def.keys {
            let simple = match &key.expr.kind {
                ast::NodeKind::Name(parts) if parts.len() == 1 => Some(&parts[0]),
                _ => None,
            };
            let position = simple.and_then(|name| table.column(&name.name));
            let part = match (position, simple) {
                (Some(position), _) => KeyPart::Column(position),
                (None, Some(name)) => return Err(self.no_key_column(&name.name, name.at)),
                (None, None) if self.is_sqlite() => KeyPart::Expr(self.row_expr(table, &key.expr)?),
                (None, None) => {
                    return errors::unsupported("an index on an expression", key.expr.at);
                }
            };
            let collation = match (&key.collation, position) {
                (Some(name), _) => self.collation_named(name)?,
                (None, Some(position)) => table.columns[position].collation,
                (None, None) => Collation::default_of(self.dialect),
            };
            keys.push(IndexKey {
                part,
                collation,
                descending: key.descending,
            });
        }
        Ok(Index {
            name: def
                .name
                .as_ref()
                .map_or_else(|| "".into(), |n| n.name.clone()),
            keys,
            unique,
            primary: false,
            filter: None,
            on_conflict: def.on_conflict,
            from_constraint: true,
        })
    }
}

pub(super) fn created(
    table: Table,
    create: &ast::CreateTable,
    rows: Option<Box<crate::loose::query::Query>>,
    text: Arc<str>,
) -> Ddl {
    Ddl::CreateTable {
        table: Box::new(table),
        if_not_exists: create.if_not_exists,
        rows,
        text,
    }
}

/// The stored column that a column of a query is, if it is one as it stands.
fn source_of(query: &crate::loose::query::Query, at: usize) -> Option<&Column> {
    use crate::loose::query::{Body, RangeKind};
    let Body::Select(select) = &query.body else {
        return None;
    };
    let Some(Expr::Column {
        level: 0,
        entry,
        column,
    }) = select.targets.get(at)
    else {
        return None;
    };
    match &select.source.range.get(*entry as usize)?.kind {
        RangeKind::Table(table) => table.columns.get(*column as usize),
        _ => None,
    }
}

/// The name of the next index that a constraint makes on SQLite.
fn autoindex(table: &Table) -> Arc<str> {
    let count = table.indexes.iter().filter(|i| !i.name.is_empty()).count();
    format!("sqlite_autoindex_{}_{}", table.name, count + 1).into()
}

/// MySQL calls an index without a name like its first column, with a number if that is taken.
pub(super) fn name_indexes(table: &mut Table) {
    for i in 0..table.indexes.len() {
        if !table.indexes[i].name.is_empty() {
            continue;
        }
        let column = table.indexes[i].keys.first().and_then(IndexKey::column);
        let base = column
            .map_or("functional_index", |c| &table.columns[c].name)
            .to_owned();
        let mut name = base.clone();
        let mut number = 2;
        while table.index(&name).is_some() {
            name = format!("{base}_{number}");
            number += 1;
        }
        table.indexes[i].name = name.into();
    }
}

/// The type of a column that a query makes on MySQL.
fn declared_of_kind(kind: crate::loose::query::Kind) -> DeclaredType {
    use crate::loose::query::Kind as K;
    let int = |unsigned| DeclaredType::Int { bytes: 8, unsigned };
    match kind {
        K::Int | K::Any => int(false),
        K::Unsigned => int(true),
        K::Decimal(scale) => DeclaredType::Decimal {
            precision: 28,
            scale,
            unsigned: false,
        },
        K::Double => DeclaredType::Double,
        K::Text | K::Null => DeclaredType::Text(65_535),
        K::Bytes => DeclaredType::Blob(65_535),
        K::Date => DeclaredType::Date,
        K::Time(fsp) => DeclaredType::Time(fsp),
        K::DateTime(fsp) => DeclaredType::DateTime(fsp),
        K::Json => DeclaredType::Json,
    }
}
