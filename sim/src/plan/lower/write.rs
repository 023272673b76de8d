//! `INSERT`, `UPDATE`, `DELETE`.

use std::sync::Arc;

use rowlock_model::{DbError, Value};
use sqlparser::ast;

use super::from::{name_place, no_relation};
use super::names::{Level, Place};
use super::{CteList, Lowering, Typed, absent, error, ident, place, unsupported};
use crate::plan::catalog::{Column, Identity, Relation, Table};
use crate::plan::expr::Expr;
use crate::plan::query::{Body, OutputColumn, Query, Source, SubPlan, Wanted};
use crate::plan::types::Declared;
use crate::plan::write::{Assignment, Delete, Insert, Returning, Update, Write};
use crate::sql::tokens::start_of;

/// Whether an expression is the word `DEFAULT`.
pub(super) fn is_default(tree: &ast::Expr) -> bool {
    matches!(tree, ast::Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// What a write gives: the plan, its columns and tag.
type LoweredWrite = (Write, Vec<OutputColumn>, &'static str);

impl Lowering<'_> {
    /// A data-modifying statement, in its own level.
    pub(super) fn write(
        &mut self,
        tree: &ast::Statement,
        with: CteList,
    ) -> Result<LoweredWrite, DbError> {
        self.in_level(Level::new(Place::Clause("this place")), |this| match tree {
            ast::Statement::Insert(insert) => this.insert(insert, with),
            ast::Statement::Update(update) => this.update(update, with),
            ast::Statement::Delete(delete) => this.delete(delete, with),
            ast::Statement::Merge(merge) => this.merge(merge, with),
            _ => unsupported("this statement", this.begin),
        })
    }

    /// The target table of a write, locked; `read`: rows are looked for in it.
    fn target(
        &mut self,
        name: &ast::ObjectName,
        read: bool,
    ) -> Result<(Arc<Table>, String, usize), DbError> {
        let at = name_place(name, self.begin);
        let (schema, bare) = self.split_name(name, at)?;
        match self.catalog.relation(schema.as_deref(), &bare) {
            Some(Relation::Table(table)) => {
                self.lock_target(&table, read);
                Ok((table, bare, at))
            }
            Some(Relation::Virtual(_)) => unsupported("writing to a system view", at),
            Some(Relation::Sequence(_)) => {
                error("42809", format!("cannot change sequence \"{bare}\""), at)
            }
            Some(Relation::Index(_)) => error("42809", format!("\"{bare}\" is an index"), at),
            None => Err(no_relation(schema.as_deref(), &bare).at(at)),
        }
    }

    /// Adds the target table to the level and makes its columns nameable.
    fn add_target(&mut self, table: &Arc<Table>, alias: &str, at: usize) -> Result<(), DbError> {
        let (_, names) = self.table_item(table, alias, None, at)?;
        self.level().names = names;
        Ok(())
    }

    fn returning(&mut self, items: Option<&Vec<ast::SelectItem>>) -> Result<Returning, DbError> {
        let Some(items) = items else {
            return Ok(Returning::default());
        };
        let (exprs, columns) = self.returning_list(items)?;
        Ok(Returning { exprs, columns })
    }

    fn insert(&mut self, insert: &ast::Insert, with: CteList) -> Result<LoweredWrite, DbError> {
        let at = start_of(insert.insert_token.0.span);
        refuse_foreign_insert(insert, at)?;
        let ast::TableObject::TableName(name) = &insert.table else {
            return unsupported("INSERT into something else than a table", at);
        };
        let (table, bare, table_at) = self.target(name, false)?;
        let alias = insert
            .table_alias
            .as_ref()
            .map_or(bare, |a| ident(&a.alias));
        let columns = self.insert_columns(&table, &insert.columns)?;
        let (source, given) = match &insert.source {
            Some(query) => {
                let (query, given) = self.insert_source(&table, &columns, query, insert)?;
                (Some(Box::new(query)), given)
            }
            None => (None, Vec::new()),
        };
        let values = self.insert_values(&table, &columns, &given)?;
        self.add_target(&table, &alias, table_at)?;
        let conflict = match &insert.on {
            None => None,
            Some(ast::OnInsert::OnConflict(conflict)) => {
                Some(self.on_conflict(&table, conflict, at)?)
            }
            Some(_) => return error("42601", "syntax error at or near \"DUPLICATE\"", at),
        };
        let returning = self.returning(insert.returning.as_ref())?;
        let result = returning.columns.clone();
        let write = Write::Insert(Insert {
            with,
            table,
            alias: alias.into(),
            source,
            values,
            conflict,
            returning,
        });
        Ok((write, result, "INSERT"))
    }

    /// The positions of the columns that the statement names, or of all.
    pub(super) fn insert_columns(
        &mut self,
        table: &Table,
        names: &[ast::ObjectName],
    ) -> Result<Vec<usize>, DbError> {
        if names.is_empty() {
            return Ok((0..table.columns.len())
                .filter(|i| !table.columns[*i].dropped)
                .collect());
        }
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let at = name_place(name, self.begin);
            let column = self.target_column(table, name, at)?;
            if columns.contains(&column) {
                return error(
                    "42701",
                    format!(
                        "column \"{}\" specified more than once",
                        table.columns[column].name
                    ),
                    at,
                );
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// A column of the target by its bare name.
    pub(super) fn target_column(
        &self,
        table: &Table,
        name: &ast::ObjectName,
        at: usize,
    ) -> Result<usize, DbError> {
        let first = name
            .0
            .first()
            .and_then(|p| p.as_ident())
            .map(ident)
            .unwrap_or_default();
        match table.column(&first) {
            Some(_) if name.0.len() > 1 => unsupported("assignment to a part of a column", at),
            Some(column) => Ok(column),
            None => error(
                "42703",
                format!(
                    "column \"{first}\" of relation \"{}\" does not exist",
                    table.name
                ),
                at,
            ),
        }
    }

    /// The rows to insert. Also gives, for each column of the source, whether it holds a value.
    fn insert_source(
        &mut self,
        table: &Arc<Table>,
        columns: &[usize],
        query: &ast::Query,
        insert: &ast::Insert,
    ) -> Result<(Query, Vec<Typed>), DbError> {
        let rows = match &*query.body {
            ast::SetExpr::Values(values)
                if query.order_by.is_none()
                    && query.limit_clause.is_none()
                    && query.fetch.is_none()
                    && query.locks.is_empty()
                    && query.with.is_none() =>
            {
                Some(&values.rows)
            }
            _ => None,
        };
        if let Some(rows) = rows {
            let query = self.in_level(Level::new(Place::Clause("VALUES")), |this| {
                this.insert_rows(table, columns, rows, insert)
            })?;
            let mut given = source_columns(&query, self.begin);
            // The values have their columns' modifiers already.
            for (typed, column) in given.iter_mut().zip(columns) {
                typed.modifier = table.columns[*column].declared.modifier;
            }
            return Ok((query, given));
        }
        let expected: Vec<Declared> = columns.iter().map(|c| table.columns[*c].declared).collect();
        let body = &query.body;
        let query = self.query(query, &expected)?;
        let width = query.columns.len();
        let missing = insert
            .columns
            .get(width)
            .map(|name| name_place(name, self.begin));
        let excess = super::query::column_place(body, columns.len());
        let at = missing.or(excess).unwrap_or(self.begin);
        self.check_width(width, columns.len(), !insert.columns.is_empty(), at)?;
        for column in columns.iter().take(query.columns.len()) {
            self.refuse_generated(&table.columns[*column], insert)?;
        }
        let mut given = source_columns(&query, at);
        for (i, typed) in given.iter_mut().enumerate() {
            typed.at = super::query::column_place(body, i).unwrap_or(self.begin);
        }
        Ok((query, given))
    }

    pub(super) fn check_width(
        &self,
        given: usize,
        wanted: usize,
        named: bool,
        at: usize,
    ) -> Result<(), DbError> {
        if given > wanted {
            return error(
                "42601",
                "INSERT has more expressions than target columns",
                at,
            );
        }
        if given < wanted && named {
            return error(
                "42601",
                "INSERT has more target columns than expressions",
                at,
            );
        }
        Ok(())
    }

    /// `VALUES` rows, each value already of its column's type.
    fn insert_rows(
        &mut self,
        table: &Arc<Table>,
        columns: &[usize],
        rows: &[ast::Parens<Vec<ast::Expr>>],
        insert: &ast::Insert,
    ) -> Result<Query, DbError> {
        let width = rows.first().map_or(0, |r| r.content.len());
        let mut lowered = Vec::with_capacity(rows.len());
        for row in rows {
            let at = row
                .content
                .first()
                .map_or(self.begin, |e| place(e, self.begin));
            if row.content.len() != width {
                return error("42601", "VALUES lists must all be the same length", at);
            }
            let excess = row.content.get(columns.len());
            let missing = insert.columns.get(width).map(|name| name_place(name, at));
            let at = excess.map(|e| place(e, at)).or(missing).unwrap_or(at);
            self.check_width(width, columns.len(), !insert.columns.is_empty(), at)?;
            let mut values = Vec::with_capacity(width);
            for (tree, column) in row.content.iter().zip(columns) {
                let column = &table.columns[*column];
                if is_default(tree) {
                    values.push(self.default_of(column));
                    continue;
                }
                self.refuse_generated(column, insert)?;
                let typed = self.expr(tree)?;
                let value = if insert.overriding == Some(ast::InsertOverriding::User)
                    && column.identity.is_some()
                {
                    self.default_of(column)
                } else {
                    self.assign(typed, column)?.expr
                };
                values.push(value);
            }
            lowered.push(values);
        }
        let columns = columns
            .iter()
            .take(width)
            .map(|c| OutputColumn {
                name: table.columns[*c].name.clone(),
                ty: table.columns[*c].declared.ty,
            })
            .collect();
        Ok(Query {
            with: Vec::new(),
            body: Body::Values(lowered),
            columns,
            sort: Vec::new(),
            limit: None,
            with_ties: false,
            offset: None,
            locks: Vec::new(),
        })
    }

    /// 428C9 for a value where the column makes its own.
    fn refuse_generated(&self, column: &Column, insert: &ast::Insert) -> Result<(), DbError> {
        if column.generated.is_some() {
            return Err(DbError::postgres(
                "428C9",
                format!(
                    "cannot insert a non-DEFAULT value into column \"{}\"",
                    column.name
                ),
            )
            .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
        if column.identity == Some(Identity::Always) && insert.overriding.is_none() {
            return Err(DbError::postgres(
                "428C9",
                format!(
                    "cannot insert a non-DEFAULT value into column \"{}\"",
                    column.name
                ),
            )
            .with_detail(format!(
                "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                column.name
            )));
        }
        Ok(())
    }

    /// The value of a column that is not given.
    pub(super) fn default_of(&self, column: &Column) -> Expr {
        column.default.clone().unwrap_or(Expr::Const(Value::Null))
    }

    /// One expression for each column of the table, over the source's row at entry 1.
    fn insert_values(
        &mut self,
        table: &Table,
        columns: &[usize],
        given: &[Typed],
    ) -> Result<Vec<Expr>, DbError> {
        let mut values = Vec::with_capacity(table.columns.len());
        for (i, column) in table.columns.iter().enumerate() {
            let from = columns
                .iter()
                .position(|c| *c == i)
                .and_then(|k| given.get(k));
            values.push(match from {
                Some(typed) => self.assign(typed.clone(), column)?.expr,
                None if column.generated.is_some() || column.dropped => Expr::Const(Value::Null),
                None => self.default_of(column),
            });
        }
        Ok(values)
    }

    fn update(&mut self, update: &ast::Update, with: CteList) -> Result<LoweredWrite, DbError> {
        let ast::Update {
            update_token,
            optimizer_hints: _,
            table,
            on_cluster,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
            settings,
        } = update;
        let at = start_of(update_token.0.span);
        absent(on_cluster.is_some(), "ON CLUSTER", at)?;
        absent(output.is_some(), "OUTPUT", at)?;
        absent(or.is_some(), "UPDATE OR", at)?;
        if let Some(first) = order_by.first() {
            return Err(self.misplaced("order", place(&first.expr, at)));
        }
        if let Some(limit) = limit {
            return Err(self.misplaced("limit", place(limit, at)));
        }
        absent(settings.is_some(), "SETTINGS", at)?;
        let table = self.written_table(table, at)?;
        let list = match from {
            None => &[][..],
            Some(ast::UpdateTableFromKind::AfterSet(list)) => list,
            Some(ast::UpdateTableFromKind::BeforeSet(_)) => {
                return unsupported("FROM before SET", at);
            }
        };
        let mut source = self.write_source(list, selection.as_ref(), |this| {
            this.assignments(&table, assignments)
        })?;
        let (set, rows) = source.1;
        let returning = self.returning(returning.as_ref())?;
        source.0.range = std::mem::take(&mut self.level().range);
        self.choose_access(&mut source.0, &[], true);
        let result = returning.columns.clone();
        let write = Write::Update(Update {
            with,
            table,
            source: source.0,
            rows,
            set,
            returning,
        });
        Ok((write, result, "UPDATE"))
    }

    /// 42601 at the last `word` before `at`.
    fn misplaced(&self, word: &str, at: usize) -> DbError {
        let before = self.text.get(..at).unwrap_or_default().to_ascii_lowercase();
        let start = before.rfind(word).unwrap_or(at);
        let shown = self.text.get(start..start + word.len()).unwrap_or(word);
        DbError::postgres("42601", format!("syntax error at or near \"{shown}\"")).at(start)
    }

    /// The single table of an `UPDATE`, added to the level.
    pub(super) fn written_table(
        &mut self,
        table: &ast::TableWithJoins,
        at: usize,
    ) -> Result<Arc<Table>, DbError> {
        let ast::TableWithJoins { relation, joins } = table;
        absent(!joins.is_empty(), "a join as the target", at)?;
        let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_directives,
            inheritance,
        } = relation
        else {
            return unsupported("this target", at);
        };
        let odd = !with_hints.is_empty() || !partitions.is_empty() || !index_directives.is_empty();
        absent(odd, "hints on the target", at)?;
        let (table, bare, table_at) = self.target(name, true)?;
        let alias = match alias {
            Some(alias) => {
                absent(
                    !alias.columns.is_empty(),
                    "column aliases of the target",
                    table_at,
                )?;
                ident(&alias.name)
            }
            None => bare,
        };
        self.add_target(&table, &alias, table_at)?;
        if matches!(inheritance, Some(ast::TableInheritance::Only { .. }))
            && let Some(entry) = self.level().range.last_mut()
        {
            entry.only = true;
        }
        Ok(table)
    }

    /// `FROM` or `USING` beside the target, and `WHERE`; `between` runs before `WHERE` is read.
    fn write_source<T>(
        &mut self,
        list: &[ast::TableWithJoins],
        selection: Option<&ast::Expr>,
        between: impl FnOnce(&mut Self) -> Result<T, DbError>,
    ) -> Result<(Source, T), DbError> {
        use crate::plan::query::{From, Join};
        // The items of FROM do not see the target, not even LATERAL ones.
        let target = std::mem::take(&mut self.level().names);
        let from = self.from(list)?;
        let others = std::mem::take(&mut self.level().names);
        self.level().names = target.join(others);
        let between = between(self)?;
        let filter = self.filter(selection)?;
        let from = match from {
            None => From::Entry(0),
            Some(others) => From::Join {
                kind: Join::Cross,
                left: Box::new(From::Entry(0)),
                right: Box::new(others),
                on: Vec::new(),
            },
        };
        let source = Source {
            range: Vec::new(),
            from: Some(from),
            filter,
            ways: None,
            rerun: None,
        };
        Ok((source, between))
    }

    /// `SET a = .., (b, c) = (..)`.
    pub(super) fn assignments(
        &mut self,
        table: &Arc<Table>,
        list: &[ast::Assignment],
    ) -> Result<(Vec<Assignment>, Vec<SubPlan>), DbError> {
        let mut set: Vec<Assignment> = Vec::with_capacity(list.len());
        let mut rows = Vec::new();
        for ast::Assignment { target, value } in list {
            match target {
                ast::AssignmentTarget::ColumnName(name) => {
                    let at = name_place(name, self.begin);
                    let column = self.target_column(table, name, at)?;
                    let value = self.assigned(&table.columns[column], value)?;
                    push_assignment(&mut set, table, column, value)?;
                }
                ast::AssignmentTarget::Tuple(names) => {
                    self.multiple(table, names, value, &mut set, &mut rows)?;
                }
            }
        }
        Ok((set, rows))
    }

    /// The value assigned to one column.
    fn assigned(&mut self, column: &Column, tree: &ast::Expr) -> Result<Expr, DbError> {
        if is_default(tree) {
            return Ok(self.default_of(column));
        }
        if column.generated.is_some() {
            return Err(DbError::postgres(
                "428C9",
                format!("column \"{}\" can only be updated to DEFAULT", column.name),
            )
            .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
        if column.identity == Some(Identity::Always) {
            return Err(DbError::postgres(
                "428C9",
                format!("column \"{}\" can only be updated to DEFAULT", column.name),
            )
            .with_detail(format!(
                "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                column.name
            )));
        }
        let typed = self.at_place(Place::Clause("UPDATE"), |this| this.expr(tree))?;
        Ok(self.assign(typed, column)?.expr)
    }

    fn multiple(
        &mut self,
        table: &Arc<Table>,
        names: &[ast::ObjectName],
        value: &ast::Expr,
        set: &mut Vec<Assignment>,
        rows: &mut Vec<SubPlan>,
    ) -> Result<(), DbError> {
        let at = place(value, self.begin);
        let items: Vec<&ast::Expr> = match value {
            ast::Expr::Subquery(query) => {
                return self.multiple_from_query(table, names, query, set, rows);
            }
            ast::Expr::Tuple(items) => items.iter().collect(),
            // ROW(..), or a single value in parentheses.
            ast::Expr::Nested(inner) => vec![&**inner],
            _ => return unsupported("this source of a multiple assignment", at),
        };
        if items.len() != names.len() {
            return error(
                "42601",
                "number of columns does not match number of values",
                at,
            );
        }
        for (name, tree) in names.iter().zip(items) {
            let at = name_place(name, self.begin);
            let column = self.target_column(table, name, at)?;
            let value = self.assigned(&table.columns[column], tree)?;
            push_assignment(set, table, column, value)?;
        }
        Ok(())
    }

    /// `(a, b) = (SELECT ..)`: the sub-select's row is read as one more entry.
    fn multiple_from_query(
        &mut self,
        table: &Arc<Table>,
        names: &[ast::ObjectName],
        query: &ast::Query,
        set: &mut Vec<Assignment>,
        rows: &mut Vec<SubPlan>,
    ) -> Result<(), DbError> {
        let at = self.parenthesis_before(place(query, self.begin));
        let plan = self.subplan(query, Wanted::Row)?;
        if plan.query.columns.len() != names.len() {
            return error(
                "42601",
                "number of columns does not match number of values",
                at,
            );
        }
        let entry = (self.level().range.len() + rows.len()) as u32;
        for (i, name) in names.iter().enumerate() {
            let at = name_place(name, self.begin);
            let column = self.target_column(table, name, at)?;
            let typed = Typed::new(
                Expr::Column {
                    level: 0,
                    entry,
                    column: i as u32,
                },
                plan.query.columns[i].ty,
                at,
            );
            let value = self.assign(typed, &table.columns[column])?.expr;
            push_assignment(set, table, column, value)?;
        }
        rows.push(plan);
        Ok(())
    }

    fn delete(&mut self, delete: &ast::Delete, with: CteList) -> Result<LoweredWrite, DbError> {
        let ast::Delete {
            delete_token,
            optimizer_hints: _,
            tables,
            from,
            on_cluster,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
            settings,
        } = delete;
        let at = start_of(delete_token.0.span);
        absent(!tables.is_empty(), "DELETE of several tables", at)?;
        absent(on_cluster.is_some(), "ON CLUSTER", at)?;
        absent(output.is_some(), "OUTPUT", at)?;
        if let Some(first) = order_by.first() {
            return Err(self.misplaced("order", place(&first.expr, at)));
        }
        if let Some(limit) = limit {
            return Err(self.misplaced("limit", place(limit, at)));
        }
        absent(settings.is_some(), "SETTINGS", at)?;
        let ast::FromTable::WithFromKeyword(targets) = from else {
            return unsupported("DELETE without FROM", at);
        };
        let [target] = targets.as_slice() else {
            return unsupported("DELETE of several tables", at);
        };
        let table = self.written_table(target, at)?;
        let list = using.as_deref().unwrap_or_default();
        let (mut source, ()) = self.write_source(list, selection.as_ref(), |_| Ok(()))?;
        let returning = self.returning(returning.as_ref())?;
        source.range = std::mem::take(&mut self.level().range);
        self.choose_access(&mut source, &[], true);
        let result = returning.columns.clone();
        let write = Write::Delete(Delete {
            with,
            table,
            source,
            returning,
        });
        Ok((write, result, "DELETE"))
    }
}

/// Adds an assignment; 42601 for a second one to the same column.
fn push_assignment(
    set: &mut Vec<Assignment>,
    table: &Table,
    column: usize,
    value: Expr,
) -> Result<(), DbError> {
    if set.iter().any(|a| a.column == column) {
        return Err(DbError::postgres(
            "42601",
            format!(
                "multiple assignments to same column \"{}\"",
                table.columns[column].name
            ),
        ));
    }
    set.push(Assignment { column, value });
    Ok(())
}

/// The source's columns as the insert reads them.
fn source_columns(query: &Query, at: usize) -> Vec<Typed> {
    query
        .columns
        .iter()
        .enumerate()
        .map(|(i, c)| {
            Typed::new(
                Expr::Column {
                    level: 0,
                    entry: 1,
                    column: i as u32,
                },
                c.ty,
                at,
            )
        })
        .collect()
}

/// What other products have in an `INSERT`.
fn refuse_foreign_insert(insert: &ast::Insert, at: usize) -> Result<(), DbError> {
    let ast::Insert {
        insert_token: _,
        optimizer_hints: _,
        or,
        ignore,
        into,
        table: _,
        table_alias: _,
        columns: _,
        by_name,
        overwrite,
        source: _,
        assignments,
        partitioned,
        after_columns,
        overriding: _,
        has_table_keyword,
        on: _,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    let foreign = or.is_some()
        || *ignore
        || !into
        || *by_name
        || *overwrite
        || !assignments.is_empty()
        || *has_table_keyword
        || *replace_into
        || priority.is_some();
    if foreign {
        return error("42601", "syntax error in INSERT", at);
    }
    absent(
        partitioned.is_some() || !after_columns.is_empty(),
        "PARTITION",
        at,
    )?;
    absent(output.is_some(), "OUTPUT", at)?;
    absent(insert_alias.is_some(), "an alias for the new row", at)?;
    absent(settings.is_some() || format_clause.is_some(), "FORMAT", at)?;
    let many = multi_table_insert_type.is_some()
        || !multi_table_into_clauses.is_empty()
        || !multi_table_when_clauses.is_empty()
        || multi_table_else_clause.is_some();
    absent(many, "INSERT into several tables", at)
}
