//! `CREATE TABLE`: columns and constraints.

use std::sync::Arc;

use rowlock_model::{DbError, Value};
use sqlparser::ast;
use sqlparser::ast::{ColumnOption, TableConstraint};

use super::ddl::{done, plain_column};
use super::from::name_place;
use super::names::{Level, Place};
use super::{Lowered, Lowering, absent, error, ident, place, unsupported};
use crate::plan::catalog::{
    Action, Check, Column, Identity, Index, IndexKey, IndexMethod, RelationId, Sequence, Table,
};
use crate::plan::ddl::{Ddl, NewForeignKey};
use crate::plan::expr::{Expr, HostFunction, Volatility};
use crate::plan::types::coerce::{Context, can_coerce};
use crate::plan::types::{Declared, Type};
use crate::plan::walk;
use crate::sql::tokens::start_of;

/// A table under construction.
pub(super) struct NewTable {
    pub(super) table: Table,
    pub(super) foreign_keys: Vec<NewForeignKey>,
    pub(super) sequences: Vec<Sequence>,
    /// Names of constraints and indexes that are taken.
    taken: Vec<String>,
}

impl NewTable {
    /// Starts from a table; `name` names constraints.
    pub(super) fn of(table: Table) -> NewTable {
        let taken = table
            .indexes
            .iter()
            .map(|i| i.name.to_string())
            .chain(table.checks.iter().map(|c| c.name.to_string()))
            .chain(table.foreign_keys.iter().map(|f| f.name.to_string()))
            .collect();
        NewTable {
            table,
            foreign_keys: Vec::new(),
            sequences: Vec::new(),
            taken,
        }
    }
}

/// A constraint found at a column, to be made when all columns are known.
struct Pending<'a> {
    name: Option<String>,
    column: usize,
    option: &'a ColumnOption,
}

impl Lowering<'_> {
    pub(super) fn create_table(&mut self, create: &ast::CreateTable) -> Result<Lowered, DbError> {
        let at = name_place(&create.name, self.begin);
        refuse_foreign(create, at)?;
        let (schema, name) = self.split_name(&create.name, at)?;
        absent(
            schema.is_some_and(|s| s != "public"),
            "schemas other than public",
            at,
        )?;
        let mut new = NewTable::of(Table {
            id: RelationId(0),
            name: name.as_str().into(),
            columns: Vec::new(),
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            fillfactor: fill_factor(&create.table_options, at)?,
            counted: None,
            triggers: Vec::new(),
            parents: Vec::new(),
            partition: None,
            partitioned: None,
        });
        if let Some(parents) = &create.inherits {
            self.inherit(&mut new, parents)?;
        }
        if let Some(parent) = &create.partition_of {
            let plain = create.columns.is_empty() && create.constraints.is_empty();
            absent(!plain, "columns and constraints with PARTITION OF", at)?;
            self.partition_of(&mut new, parent, create.for_values.as_ref())?;
        }
        let mut pending = Vec::new();
        for def in &create.columns {
            self.new_column(&mut new, def, &mut pending)?;
        }
        self.pending_constraints(&mut new, pending)?;
        for constraint in &create.constraints {
            self.table_constraint(&mut new, constraint)?;
        }
        if let Some(tree) = &create.partition_by {
            new.table.partitioned = Some(self.partitioning(&new.table, tree)?);
            self.check_partitioned_keys(&new.table)?;
        }
        let fill = match &create.query {
            None => None,
            Some(query) => Some(Box::new(self.table_as(&mut new, query)?)),
        };
        let tag = if fill.is_some() {
            "SELECT"
        } else {
            "CREATE TABLE"
        };
        let ddl = Ddl::CreateTable {
            table: Box::new(new.table),
            foreign_keys: new.foreign_keys,
            sequences: new.sequences,
            if_not_exists: create.if_not_exists,
            fill,
        };
        Ok(done(ddl, tag))
    }

    /// The columns of `CREATE TABLE .. AS`.
    fn table_as(
        &mut self,
        new: &mut NewTable,
        query: &ast::Query,
    ) -> Result<crate::plan::query::Query, DbError> {
        let query = self.query(query, &[])?;
        absent(
            !new.table.columns.is_empty(),
            "column names with AS",
            self.begin,
        )?;
        for column in &query.columns {
            new.table
                .columns
                .push(plain(&column.name, column.ty.into()));
        }
        Ok(query)
    }

    /// Adds a column with its default; constraints that need the whole table go to `pending`.
    fn new_column<'a>(
        &mut self,
        new: &mut NewTable,
        def: &'a ast::ColumnDef,
        pending: &mut Vec<Pending<'a>>,
    ) -> Result<(), DbError> {
        let ast::ColumnDef {
            name,
            data_type,
            options,
        } = def;
        let at = start_of(name.span);
        let folded = ident(name);
        if new.table.column(&folded).is_some() {
            return error(
                "42701",
                format!("column \"{folded}\" specified more than once"),
                at,
            );
        }
        let serial = match data_type.to_string().to_ascii_lowercase().as_str() {
            "serial" | "serial4" => Some(Type::Int4),
            "bigserial" | "serial8" => Some(Type::Int8),
            "smallserial" | "serial2" => Some(Type::Int2),
            _ => None,
        };
        let declared = match serial {
            Some(ty) => ty.into(),
            None => self.data_type(data_type, at)?,
        };
        let index = new.table.columns.len();
        new.table.columns.push(plain(&folded, declared));
        if let Some(ty) = serial {
            self.own_sequence(new, index, ty, &[])?;
        }
        for ast::ColumnOptionDef { name, option } in options {
            let name = name.as_ref().map(ident);
            match option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => new.table.columns[index].not_null = true,
                ColumnOption::Default(tree) => {
                    let default = self.default_expr(&new.table.columns[index], tree)?;
                    new.table.columns[index].default = Some(default);
                }
                ColumnOption::Collation(collation) => {
                    let plain = matches!(collation.to_string().trim_matches('"'), "C" | "POSIX");
                    absent(!plain, "collations other than C", at)?;
                }
                ColumnOption::Generated {
                    generated_as,
                    sequence_options,
                    generation_expr: None,
                    generation_expr_mode: None,
                    generated_keyword: _,
                } => {
                    let identity = match generated_as {
                        ast::GeneratedAs::Always => Identity::Always,
                        ast::GeneratedAs::ByDefault => Identity::ByDefault,
                        ast::GeneratedAs::ExpStored => {
                            return unsupported("this generated column", at);
                        }
                    };
                    let options = sequence_options.as_deref().unwrap_or_default();
                    self.own_sequence(new, index, declared.ty, options)?;
                    new.table.columns[index].identity = Some(identity);
                }
                ColumnOption::PrimaryKey(_)
                | ColumnOption::Unique(_)
                | ColumnOption::ForeignKey(_)
                | ColumnOption::Check(_)
                | ColumnOption::Generated { .. } => pending.push(Pending {
                    name,
                    column: index,
                    option,
                }),
                other => return unsupported(format!("the column option {other}"), at),
            }
        }
        Ok(())
    }

    /// The sequence of a serial or identity column, and the default that draws from it.
    fn own_sequence(
        &mut self,
        new: &mut NewTable,
        column: usize,
        ty: Type,
        options: &[ast::SequenceOptions],
    ) -> Result<(), DbError> {
        let name = self.free_name(
            new,
            &format!("{}_{}_seq", new.table.name, new.table.columns[column].name),
        );
        let mut sequence = self.sequence(&name, ty, options)?;
        sequence.owner = Some((RelationId(0), column));
        let mut next = Expr::Host {
            function: HostFunction::NextVal,
            args: vec![Expr::Const(Value::text(name.as_str()))],
        };
        if ty != Type::Int8 {
            next = Expr::Cast {
                expr: Box::new(next),
                from: Type::Int8,
                to: ty,
                modifier: None,
                explicit: false,
                labels: None,
            };
        }
        self.defaults.push(name.as_str().into());
        let column = &mut new.table.columns[column];
        column.default = Some(next);
        column.not_null = true;
        column.sequence = Some(name.into());
        new.sequences.push(sequence);
        Ok(())
    }

    /// A default, of the column's type.
    pub(super) fn default_expr(
        &mut self,
        column: &Column,
        tree: &ast::Expr,
    ) -> Result<Expr, DbError> {
        let at = place(tree, self.begin);
        self.in_level(Level::new(Place::Clause("DEFAULT expressions")), |this| {
            let typed = this.expr(tree).map_err(|e| match (&*e.code, tree) {
                ("42703", ast::Expr::Identifier(_)) => {
                    DbError::postgres("0A000", "cannot use column reference in DEFAULT expression")
                        .at(at)
                }
                _ => e,
            })?;
            let ty = typed.ty;
            match this.coerce(typed, column.declared, Context::Assignment)? {
                Some(typed) => Ok(typed.expr),
                None => error(
                    "42804",
                    format!(
                        "column \"{}\" is of type {} but default expression is of type {}",
                        column.name,
                        this.type_name(column.declared.ty),
                        this.type_name(ty)
                    ),
                    at,
                ),
            }
        })
    }

    fn pending_constraints(
        &mut self,
        new: &mut NewTable,
        pending: Vec<Pending<'_>>,
    ) -> Result<(), DbError> {
        for Pending {
            name,
            column,
            option,
        } in pending
        {
            match option {
                ColumnOption::PrimaryKey(key) => {
                    let spec = KeySpec::primary(key, self.begin)?;
                    self.key(new, spec.or_column(name, column))?;
                }
                ColumnOption::Unique(key) => {
                    let spec = KeySpec::unique(key, self.begin)?;
                    self.key(new, spec.or_column(name, column))?;
                }
                ColumnOption::ForeignKey(key) => {
                    self.foreign_key(new, key, name, Some(column))?;
                }
                ColumnOption::Check(check) => self.check(new, check, name)?,
                ColumnOption::Generated {
                    generated_as: _,
                    sequence_options: None,
                    generation_expr: Some(tree),
                    generation_expr_mode: Some(ast::GeneratedExpressionMode::Stored),
                    generated_keyword: _,
                } => {
                    let at = place(tree, self.begin);
                    let typed = self.over_row(&new.table, "column generation expressions", tree)?;
                    let target = new.table.columns[column].declared;
                    let Some(typed) = self.coerce(typed, target, Context::Assignment)? else {
                        return unsupported("a generated column of another type", at);
                    };
                    if walk::volatility(&typed.expr) != Volatility::Immutable {
                        return error("42P17", "generation expression is not immutable", at);
                    }
                    new.table.columns[column].generated = Some(typed.expr);
                }
                _ => return unsupported("this column option", self.begin),
            }
        }
        Ok(())
    }

    /// An expression over a row of the table at entry 0.
    pub(super) fn over_row(
        &mut self,
        table: &Table,
        what: &'static str,
        tree: &ast::Expr,
    ) -> Result<super::Typed, DbError> {
        let table = Arc::new(table.clone());
        self.in_level(Level::new(Place::Clause(what)), |this| {
            let at = this.begin;
            let (_, names) = this.table_item(&table, &table.name.clone(), None, at)?;
            this.level().names = names;
            this.expr(tree)
        })
    }

    pub(super) fn table_constraint(
        &mut self,
        new: &mut NewTable,
        constraint: &TableConstraint,
    ) -> Result<(), DbError> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let spec = KeySpec::primary(key, self.begin)?;
                self.key(new, spec)
            }
            TableConstraint::Unique(key) => {
                let spec = KeySpec::unique(key, self.begin)?;
                self.key(new, spec)
            }
            TableConstraint::ForeignKey(key) => self.foreign_key(new, key, None, None),
            TableConstraint::Check(check) => self.check(new, check, None),
            TableConstraint::Exclude(_) => unsupported("EXCLUDE", self.begin),
            TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) => {
                unsupported("USING INDEX", self.begin)
            }
            TableConstraint::Index(_) | TableConstraint::FulltextOrSpatial(_) => {
                error("42601", "syntax error at or near \"INDEX\"", self.begin)
            }
        }
    }

    /// A primary key or unique constraint.
    fn key(&mut self, new: &mut NewTable, spec: KeySpec) -> Result<(), DbError> {
        if spec.primary && new.table.indexes.iter().any(|i| i.primary) {
            return error(
                "42P16",
                format!(
                    "multiple primary keys for table \"{}\" are not allowed",
                    new.table.name
                ),
                self.begin,
            );
        }
        let mut keys = Vec::with_capacity(spec.columns.len());
        for column in &spec.columns {
            let index = self.key_column(new, column)?;
            if spec.primary {
                new.table.columns[index].not_null = true;
            }
            keys.push(index_key(index, new.table.columns[index].declared.ty));
        }
        let mut include = Vec::with_capacity(spec.include.len());
        for column in &spec.include {
            include.push(self.key_column(new, &KeyColumn::Named(column.clone(), self.begin))?);
        }
        let base = if spec.primary {
            format!("{}_pkey", new.table.name)
        } else {
            let names: Vec<&str> = keys
                .iter()
                .filter_map(|k| k.column)
                .map(|c| &*new.table.columns[c].name)
                .collect();
            format!("{}_{}_key", new.table.name, names.join("_"))
        };
        let name = match spec.name {
            Some(name) => {
                new.taken.push(name.clone());
                name
            }
            None => self.free_name(new, &base),
        };
        new.table.indexes.push(Index {
            id: RelationId(0),
            name: name.into(),
            method: IndexMethod::BTree,
            keys,
            include,
            unique: true,
            primary: spec.primary,
            constraint: true,
            deferrable: spec.deferrable,
            deferred: spec.deferred,
            predicate: None,
            built_with: None,
            predicate_text: None,
            parent: None,
        });
        Ok(())
    }

    fn key_column(&self, new: &NewTable, column: &KeyColumn) -> Result<usize, DbError> {
        match column {
            KeyColumn::At(index) => Ok(*index),
            KeyColumn::Named(name, at) => match new.table.column(name) {
                Some(index) => Ok(index),
                None => error(
                    "42703",
                    format!("column \"{name}\" named in key does not exist"),
                    *at,
                ),
            },
        }
    }

    fn check(
        &mut self,
        new: &mut NewTable,
        check: &ast::CheckConstraint,
        name: Option<String>,
    ) -> Result<(), DbError> {
        let ast::CheckConstraint {
            name: own_name,
            expr,
            no_inherit: _,
            enforced,
        } = check;
        absent(enforced.is_some(), "ENFORCED", self.begin)?;
        let typed = self.over_row(&new.table, "check constraints", expr)?;
        let condition = self.condition(typed, "CHECK")?;
        let mut columns: Vec<u32> = Vec::new();
        walk::expr(&mut condition.clone(), 0, &mut |e, _| {
            if let Expr::Column { column, .. } = e
                && !columns.contains(column)
            {
                columns.push(*column);
            }
            true
        });
        let base = match columns.as_slice() {
            [one] => format!(
                "{}_{}_check",
                new.table.name, new.table.columns[*one as usize].name
            ),
            _ => format!("{}_check", new.table.name),
        };
        let name = match name.or(own_name.as_ref().map(ident)) {
            Some(name) => name,
            None => self.free_name(new, &base),
        };
        new.table.checks.push(Check {
            name: name.into(),
            expr: condition,
        });
        // The server checks them in the order of their names.
        new.table.checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    fn foreign_key(
        &mut self,
        new: &mut NewTable,
        key: &ast::ForeignKeyConstraint,
        name: Option<String>,
        column: Option<usize>,
    ) -> Result<(), DbError> {
        let ast::ForeignKeyConstraint {
            name: own_name,
            index_name,
            columns,
            foreign_table,
            referred_columns,
            on_delete,
            on_update,
            match_kind,
            characteristics,
        } = key;
        let at = name_place(foreign_table, self.begin);
        absent(index_name.is_some(), "an index name here", at)?;
        absent(
            matches!(match_kind, Some(ast::ConstraintReferenceMatchKind::Partial)),
            "MATCH PARTIAL",
            at,
        )?;
        let mut own = Vec::new();
        if let Some(column) = column {
            own.push(column);
        }
        for name in columns {
            let column = KeyColumn::Named(ident(name), start_of(name.span));
            match self.key_column(new, &column) {
                Ok(index) => own.push(index),
                Err(_) => {
                    return error(
                        "42703",
                        format!(
                            "column \"{}\" referenced in foreign key constraint does not exist",
                            ident(name)
                        ),
                        start_of(name.span),
                    );
                }
            }
        }
        let (_, parent_name) = self.split_name(foreign_table, at)?;
        let itself = *parent_name == *new.table.name;
        let parent = if itself {
            None
        } else {
            Some(self.existing_table(foreign_table)?)
        };
        let target: &Table = parent.as_deref().unwrap_or(&new.table);
        let (parent_columns, parent_index) =
            self.parent_key(target, referred_columns, own.len())?;
        let base = {
            let names: Vec<&str> = own.iter().map(|c| &*new.table.columns[*c].name).collect();
            format!("{}_{}_fkey", new.table.name, names.join("_"))
        };
        let name = name.or(own_name.as_ref().map(ident));
        for (child, parent) in own.iter().zip(&parent_columns) {
            let (a, b) = (&new.table.columns[*child], &target.columns[*parent]);
            let comparable = a.declared.ty == b.declared.ty
                || can_coerce(a.declared.ty, b.declared.ty, Context::Implicit)
                || can_coerce(b.declared.ty, a.declared.ty, Context::Implicit);
            if !comparable {
                let shown = name.clone().unwrap_or(base);
                return Err(DbError::postgres(
                    "42804",
                    format!("foreign key constraint \"{shown}\" cannot be implemented"),
                )
                .with_detail(format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    a.name,
                    b.name,
                    self.type_name(a.declared.ty),
                    self.type_name(b.declared.ty)
                )));
            }
        }
        let (deferrable, deferred) = deferral(characteristics.as_ref(), at)?;
        let name = match name {
            Some(name) => name,
            None => self.free_name(new, &base),
        };
        new.foreign_keys.push(NewForeignKey {
            name: name.into(),
            columns: own,
            parent,
            parent_columns,
            parent_index,
            on_delete: action(on_delete.as_ref()),
            on_update: action(on_update.as_ref()),
            deferrable,
            deferred,
            match_full: matches!(match_kind, Some(ast::ConstraintReferenceMatchKind::Full)),
            validated: true,
            inherited: false,
        });
        Ok(())
    }

    /// The referenced columns and the unique index over exactly them.
    fn parent_key(
        &self,
        parent: &Table,
        names: &[ast::Ident],
        count: usize,
    ) -> Result<(Vec<usize>, usize), DbError> {
        if names.is_empty() {
            let Some(index) = parent.indexes.iter().position(|i| i.primary) else {
                return Err(DbError::postgres(
                    "42704",
                    format!(
                        "there is no primary key for referenced table \"{}\"",
                        parent.name
                    ),
                ));
            };
            let columns: Vec<usize> = parent.indexes[index]
                .keys
                .iter()
                .filter_map(|k| k.column)
                .collect();
            if columns.len() != count {
                return Err(DbError::postgres(
                    "42830",
                    "number of referencing and referenced columns for foreign key disagree",
                ));
            }
            return Ok((columns, index));
        }
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            match parent.column(&ident(name)) {
                Some(column) => columns.push(column),
                None => {
                    return Err(DbError::postgres(
                        "42703",
                        format!(
                            "column \"{}\" referenced in foreign key constraint does not exist",
                            ident(name)
                        ),
                    ));
                }
            }
        }
        if columns.len() != count {
            return Err(DbError::postgres(
                "42830",
                "number of referencing and referenced columns for foreign key disagree",
            ));
        }
        let index = parent.indexes.iter().position(|i| {
            i.unique
                && i.predicate.is_none()
                && i.keys.len() == columns.len()
                && i.keys
                    .iter()
                    .all(|k| k.column.is_some_and(|c| columns.contains(&c)))
        });
        match index {
            Some(index) => Ok((columns, index)),
            None => Err(DbError::postgres(
                "42830",
                format!(
                    "there is no unique constraint matching given keys for referenced table \"{}\"",
                    parent.name
                ),
            )),
        }
    }

    /// A name that is not taken yet, numbered if need be.
    pub(super) fn free_name(&self, new: &mut NewTable, base: &str) -> String {
        let taken = |name: &str| {
            new.taken.iter().any(|t| t == name) || self.catalog.relation(None, name).is_some()
        };
        let mut name = base.to_owned();
        let mut number = 0;
        while taken(&name) {
            number += 1;
            name = format!("{base}{number}");
        }
        new.taken.push(name.clone());
        name
    }

    pub(super) fn create_index(&mut self, create: &ast::CreateIndex) -> Result<Lowered, DbError> {
        let ast::CreateIndex {
            name,
            table_name,
            using,
            columns,
            unique,
            concurrently,
            r#async,
            if_not_exists,
            include,
            nulls_distinct,
            with,
            predicate,
            index_options,
            alter_options,
        } = create;
        let at = name_place(table_name, self.begin);
        let method = index_method(using.as_ref(), with, at)?;
        absent(*r#async, "ASYNC", at)?;
        absent(
            matches!(nulls_distinct, Some(false)),
            "NULLS NOT DISTINCT",
            at,
        )?;
        let foreign = !index_options.is_empty() || !alter_options.is_empty();
        absent(foreign, "options of the index", at)?;
        let table = self.existing_table(table_name)?;
        absent(
            table.partitioned.is_some(),
            "CREATE INDEX on a partitioned table",
            at,
        )?;
        let mut keys = Vec::with_capacity(columns.len());
        let mut parts = Vec::with_capacity(columns.len());
        for column in columns {
            let (key, part) = self.new_index_key(&table, column, at)?;
            check_method(method, create, column, key.ty)?;
            keys.push(key);
            parts.push(part);
        }
        let mut included = Vec::with_capacity(include.len());
        for name in include {
            match table.column(&ident(name)) {
                Some(column) => included.push(column),
                None => {
                    return Err(DbError::postgres(
                        "42703",
                        format!("column \"{}\" does not exist", ident(name)),
                    ));
                }
            }
        }
        let filter = match predicate {
            Some(tree) => {
                let typed = self.over_row(&table, "index predicates", tree)?;
                let expr = self.condition(typed, "WHERE")?;
                absent(
                    calls_with_constants(&expr),
                    "an index predicate that calls a function with constants",
                    place(tree, at),
                )?;
                if walk::volatility(&expr) != Volatility::Immutable {
                    return error(
                        "42P17",
                        "functions in index predicate must be marked IMMUTABLE",
                        place(tree, at),
                    );
                }
                Some(expr)
            }
            None => None,
        };
        let name = match name {
            Some(name) => self.split_name(name, at)?.1,
            None => {
                let mut new = NewTable::of((*table).clone());
                let base = format!("{}_{}_idx", table.name, parts.join("_"));
                self.free_name(&mut new, &base)
            }
        };
        let index = Index {
            id: RelationId(0),
            name: name.into(),
            method,
            keys,
            include: included,
            unique: *unique,
            primary: false,
            constraint: false,
            deferrable: false,
            deferred: false,
            built_with: None,
            predicate_text: predicate.as_ref().map(|p| p.to_string().into()),
            predicate: filter,
            parent: None,
        };
        let ddl = Ddl::CreateIndex {
            table,
            index: Box::new(index),
            if_not_exists: *if_not_exists,
            concurrently: *concurrently,
        };
        Ok(done(ddl, "CREATE INDEX"))
    }

    /// A key of an index, and what it adds to a generated name.
    fn new_index_key(
        &mut self,
        table: &Arc<Table>,
        column: &ast::IndexColumn,
        at: usize,
    ) -> Result<(IndexKey, String), DbError> {
        absent(column.operator_class.is_some(), "operator classes", at)?;
        let typed = self.over_row(table, "index expressions", &column.column.expr)?;
        let part = super::column::name_of(&column.column.expr);
        let part = if part == "?column?" {
            "expr".to_owned()
        } else {
            part
        };
        if walk::volatility(&typed.expr) != Volatility::Immutable {
            return error(
                "42P17",
                "functions in index expression must be marked IMMUTABLE",
                place(&column.column.expr, at),
            );
        }
        let options = &column.column.options;
        let sort = self.sort_options(options, 0, typed.ty, at)?;
        let plain = match &typed.expr {
            Expr::Column { column, .. } => Some(*column as usize),
            _ => None,
        };
        let key = IndexKey {
            expr: typed.expr,
            column: plain,
            ty: typed.ty,
            descending: sort.descending,
            nulls_first: sort.nulls_first,
        };
        Ok((key, part))
    }

    /// A column of `ALTER TABLE .. ADD COLUMN`, with the constraints that come with it.
    pub(super) fn added_column(
        &mut self,
        new: &mut NewTable,
        def: &ast::ColumnDef,
    ) -> Result<(), DbError> {
        let mut pending = Vec::new();
        self.new_column(new, def, &mut pending)?;
        self.pending_constraints(new, pending)
    }
}

/// The method that `USING` names, with what `WITH` says to it.
fn index_method(
    using: Option<&ast::IndexType>,
    with: &[ast::Expr],
    at: usize,
) -> Result<IndexMethod, DbError> {
    let mut method = match using {
        None | Some(ast::IndexType::BTree) => IndexMethod::BTree,
        Some(ast::IndexType::Hash) => IndexMethod::Hash { buckets: 0 },
        Some(ast::IndexType::GIN) => IndexMethod::Gin { fast_update: true },
        Some(ast::IndexType::Custom(name)) => {
            let message = format!("access method \"{}\" does not exist", ident(name));
            return Err(DbError::postgres("42704", message));
        }
        Some(other) => {
            let what = format!("{} indexes", other.to_string().to_lowercase());
            return unsupported(what, at);
        }
    };
    for parameter in with {
        let text = parameter.to_string();
        let (name, value) = text.split_once('=').unwrap_or((&text, "on"));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match (&mut method, &*name) {
            (IndexMethod::Gin { fast_update }, "fastupdate") => {
                *fast_update = crate::sql::control::boolean_parameter(&name, value)?;
            }
            // It changes nothing that is modelled.
            (IndexMethod::BTree | IndexMethod::Hash { .. }, "fillfactor")
            | (IndexMethod::BTree, "deduplicate_items")
            | (IndexMethod::Gin { .. }, "gin_pending_list_limit") => {}
            _ => {
                let message = format!("unrecognized parameter \"{name}\"");
                return Err(DbError::postgres("22023", message));
            }
        }
    }
    Ok(method)
}

/// What a method does not offer.
fn check_method(
    method: IndexMethod,
    create: &ast::CreateIndex,
    column: &ast::IndexColumn,
    ty: Type,
) -> Result<(), DbError> {
    let name = match method {
        IndexMethod::BTree => return Ok(()),
        IndexMethod::Hash { .. } => "hash",
        IndexMethod::Gin { .. } => "gin",
    };
    let lacks = |what: &str| {
        let message = format!("access method \"{name}\" does not support {what}");
        Err(DbError::postgres("0A000", message))
    };
    if create.unique {
        return lacks("unique indexes");
    }
    if !create.include.is_empty() {
        return lacks("included columns");
    }
    if create.columns.len() > 1 {
        return match method {
            IndexMethod::Hash { .. } => lacks("multicolumn indexes"),
            _ => Err(DbError::unsupported("GIN indexes of several columns", None)),
        };
    }
    let options = &column.column.options;
    if options.sort.is_some() {
        return lacks("ASC/DESC options");
    }
    if options.nulls_first.is_some() {
        return lacks("NULLS FIRST/LAST options");
    }
    match (method, ty) {
        (IndexMethod::Gin { .. }, Type::Array(_)) | (IndexMethod::Hash { .. }, _) => Ok(()),
        (_, Type::Jsonb) => Err(DbError::unsupported("GIN indexes on this type", None)),
        (_, ty) => {
            let ty = ty.name();
            let message = format!(
                "data type {ty} has no default operator class for access method \"{name}\""
            );
            Err(DbError::postgres("42704", message))
        }
    }
}

/// A column of a key: by name, or the column whose option it is.
#[derive(Clone)]
enum KeyColumn {
    Named(String, usize),
    At(usize),
}

/// What a key constraint says.
struct KeySpec {
    name: Option<String>,
    primary: bool,
    columns: Vec<KeyColumn>,
    include: Vec<String>,
    deferrable: bool,
    deferred: bool,
}

impl KeySpec {
    fn primary(key: &ast::PrimaryKeyConstraint, at: usize) -> Result<KeySpec, DbError> {
        let ast::PrimaryKeyConstraint {
            name,
            index_name,
            index_type,
            columns,
            include,
            index_options,
            characteristics,
        } = key;
        let foreign = index_name.is_some() || index_type.is_some() || !index_options.is_empty();
        absent(foreign, "options of the primary key", at)?;
        KeySpec::new(
            true,
            name.as_ref(),
            columns,
            include,
            characteristics.as_ref(),
            at,
        )
    }

    fn unique(key: &ast::UniqueConstraint, at: usize) -> Result<KeySpec, DbError> {
        let ast::UniqueConstraint {
            name,
            index_name,
            index_type_display,
            index_type,
            columns,
            include,
            index_options,
            characteristics,
            nulls_distinct,
        } = key;
        let foreign = index_name.is_some()
            || index_type.is_some()
            || !index_options.is_empty()
            || *index_type_display != ast::KeyOrIndexDisplay::None;
        absent(foreign, "options of the constraint", at)?;
        let not_distinct = *nulls_distinct == ast::NullsDistinctOption::NotDistinct;
        absent(not_distinct, "NULLS NOT DISTINCT", at)?;
        KeySpec::new(
            false,
            name.as_ref(),
            columns,
            include,
            characteristics.as_ref(),
            at,
        )
    }

    fn new(
        primary: bool,
        name: Option<&ast::Ident>,
        columns: &[ast::IndexColumn],
        include: &[ast::Ident],
        characteristics: Option<&ast::ConstraintCharacteristics>,
        at: usize,
    ) -> Result<KeySpec, DbError> {
        let mut named = Vec::with_capacity(columns.len());
        for column in columns {
            match plain_column(column) {
                Some(name) => named.push(KeyColumn::Named(name, place(&column.column.expr, at))),
                None => return error("42601", "syntax error in a key", at),
            }
        }
        let (deferrable, deferred) = deferral(characteristics, at)?;
        Ok(KeySpec {
            name: name.map(ident),
            primary,
            columns: named,
            include: include.iter().map(ident).collect(),
            deferrable,
            deferred,
        })
    }

    /// For a constraint written at a column.
    fn or_column(mut self, name: Option<String>, column: usize) -> KeySpec {
        self.name = self.name.or(name);
        if self.columns.is_empty() {
            self.columns = vec![KeyColumn::At(column)];
        }
        self
    }
}

fn plain(name: &str, declared: Declared) -> Column {
    Column {
        name: name.into(),
        declared,
        not_null: false,
        default: None,
        generated: None,
        sequence: None,
        identity: None,
        dropped: false,
    }
}

fn index_key(column: usize, ty: Type) -> IndexKey {
    IndexKey {
        expr: Expr::Column {
            level: 0,
            entry: 0,
            column: column as u32,
        },
        column: Some(column),
        ty,
        descending: false,
        nulls_first: false,
    }
}

fn action(action: Option<&ast::ReferentialAction>) -> Action {
    match action {
        None | Some(ast::ReferentialAction::NoAction) => Action::NoAction,
        Some(ast::ReferentialAction::Restrict) => Action::Restrict,
        Some(ast::ReferentialAction::Cascade) => Action::Cascade,
        Some(ast::ReferentialAction::SetNull) => Action::SetNull,
        Some(ast::ReferentialAction::SetDefault) => Action::SetDefault,
    }
}

/// Deferrable, and initially deferred.
fn deferral(
    characteristics: Option<&ast::ConstraintCharacteristics>,
    at: usize,
) -> Result<(bool, bool), DbError> {
    let Some(ast::ConstraintCharacteristics {
        deferrable,
        initially,
        enforced,
    }) = characteristics
    else {
        return Ok((false, false));
    };
    absent(enforced.is_some(), "ENFORCED", at)?;
    let deferred = matches!(initially, Some(ast::DeferrableInitial::Deferred));
    Ok((deferrable.unwrap_or(deferred), deferred))
}

/// `WITH (fillfactor = ..)`.
fn fill_factor(options: &ast::CreateTableOptions, at: usize) -> Result<Option<u32>, DbError> {
    let list = match options {
        ast::CreateTableOptions::None => return Ok(None),
        ast::CreateTableOptions::With(list) => list,
        _ => return unsupported("options of the table", at),
    };
    let mut factor = None;
    for option in list {
        match option {
            ast::SqlOption::KeyValue { key, value } => match ident_of(key).as_str() {
                "fillfactor" => factor = value.to_string().parse().ok(),
                name if name.starts_with("autovacuum") => {}
                name => return unsupported(format!("the table option {name}"), at),
            },
            _ => return unsupported("this table option", at),
        }
    }
    Ok(factor)
}

fn ident_of(name: &ast::ObjectName) -> String {
    name.0
        .last()
        .and_then(|p| p.as_ident())
        .map(ident)
        .unwrap_or_default()
}

/// What other products, or PostgreSQL beyond what is modelled, have in a `CREATE TABLE`.
fn refuse_foreign(create: &ast::CreateTable, at: usize) -> Result<(), DbError> {
    let ast::CreateTable {
        or_replace,
        temporary,
        unlogged: _,
        external,
        dynamic,
        global,
        if_not_exists: _,
        transient,
        volatile,
        iceberg,
        snapshot,
        name: _,
        columns: _,
        constraints: _,
        hive_distribution,
        hive_formats,
        table_options: _,
        file_format,
        location,
        query: _,
        sqlite_table_options,
        like,
        clone,
        version,
        comment,
        on_commit,
        on_cluster,
        primary_key,
        order_by,
        partition_by: _,
        cluster_by,
        clustered_by,
        inherits: _,
        partition_of: _,
        for_values: _,
        copy_grants,
        enable_schema_evolution,
        change_tracking,
        data_retention_time_in_days,
        max_data_extension_time_in_days,
        default_ddl_collation,
        with_aggregation_policy,
        with_row_access_policy,
        with_storage_lifecycle_policy,
        with_tags,
        external_volume,
        with_connection,
        base_location,
        catalog,
        catalog_sync,
        storage_serialization_policy,
        target_lag,
        warehouse,
        refresh_mode,
        initialize,
        require_user,
        diststyle,
        distkey,
        sortkey,
        backup,
        multiset,
        fallback,
        with_data,
    } = create;
    absent(*temporary, "temporary tables", at)?;
    absent(like.is_some(), "LIKE", at)?;
    absent(on_commit.is_some(), "ON COMMIT", at)?;
    absent(
        matches!(with_data, Some(ast::WithData { data: false, .. })),
        "WITH NO DATA",
        at,
    )?;
    let hive = !matches!(hive_distribution, ast::HiveDistributionStyle::NONE)
        || hive_formats.as_ref().is_some_and(|f| {
            f.row_format.is_some()
                || f.serde_properties.is_some()
                || f.storage.is_some()
                || f.location.is_some()
        });
    let sqlite = sqlite_table_options.leading_comma || !sqlite_table_options.options.is_empty();
    let flags = *or_replace
        || *external
        || *dynamic
        || global.is_some()
        || *transient
        || *volatile
        || *iceberg
        || *snapshot
        || *copy_grants
        || *require_user
        || hive
        || sqlite;
    let options = file_format.is_some()
        || location.is_some()
        || clone.is_some()
        || version.is_some()
        || comment.is_some()
        || on_cluster.is_some()
        || primary_key.is_some()
        || order_by.is_some()
        || cluster_by.is_some()
        || clustered_by.is_some()
        || enable_schema_evolution.is_some()
        || change_tracking.is_some()
        || data_retention_time_in_days.is_some()
        || max_data_extension_time_in_days.is_some()
        || default_ddl_collation.is_some()
        || with_aggregation_policy.is_some()
        || with_row_access_policy.is_some()
        || with_storage_lifecycle_policy.is_some()
        || with_tags.is_some();
    let more = external_volume.is_some()
        || with_connection.is_some()
        || base_location.is_some()
        || catalog.is_some()
        || catalog_sync.is_some()
        || storage_serialization_policy.is_some()
        || target_lag.is_some()
        || warehouse.is_some()
        || refresh_mode.is_some()
        || initialize.is_some()
        || diststyle.is_some()
        || distkey.is_some()
        || sortkey.is_some()
        || backup.is_some()
        || multiset.is_some()
        || fallback.is_some();
    absent(flags || options || more, "options of other products", at)
}

/// Whether a function of a user is called with nothing but constants: the server calls it when it
/// plans.
fn calls_with_constants(expr: &Expr) -> bool {
    let mut found = false;
    walk::expr(&mut expr.clone(), 0, &mut |e, _| {
        if let Expr::Routine { args, .. } = e {
            found |= args.iter().all(|arg| matches!(arg, Expr::Const(_)));
        }
        true
    });
    found
}
