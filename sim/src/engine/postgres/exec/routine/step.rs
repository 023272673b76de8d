//! What the statements of PL/pgSQL do (manual, "PL/pgSQL", "Basic Statements", "Control Structures").

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::super::{Exec, Flow, Stop};
use super::frame::{Datum, Frame, Record, Shape, Slot, columns_of, shared};
use super::{Planned, sight};
use crate::plan::catalog::{Catalog as _, Relation};
use crate::plan::expr::{Expr, Volatility};
use crate::plan::query::{Body, OutputColumn, Query};
use crate::plan::routine::Returns;
use crate::plan::types::{Type, output};
use crate::plan::variables::Variables;
use crate::plan::{PlanKind, variable_type, walk};
use crate::sql::plpgsql::{
    Block, Declaration, DeclaredAs, Diagnostic, Fragment, Into, Rows, Step, Target,
};

/// How many rows of a loop's query are fetched at once: first, and later.
const FETCHED: (usize, usize) = (10, 50);

/// Where a function goes on after a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// With the next one.
    On,
    /// After the loop or block of this label, or after the innermost loop.
    Exit(Option<Arc<str>>),
    /// With the next round of the loop.
    Continue(Option<Arc<str>>),
    /// It returns.
    Return,
}

/// The result of an expression.
struct Computed {
    value: Value,
    ty: Type,
}

impl Exec<'_> {
    /// Runs the body of a function.
    pub(super) fn whole_block(&mut self, frame: &mut Frame<'_>, block: &Block) -> Result<(), Stop> {
        match self.block(frame, block)? {
            Go::On | Go::Return => Ok(()),
            Go::Exit(_) | Go::Continue(_) => Err(DbError::postgres(
                "42601",
                "EXIT cannot be used outside a loop, unless it has a label",
            )
            .into()),
        }
    }

    pub(super) fn block(&mut self, frame: &mut Frame<'_>, block: &Block) -> Result<Go, Stop> {
        let outer = frame.state.slots.len();
        for declaration in &block.declarations {
            self.declare(frame, block, declaration)?;
        }
        let go = if block.handlers.is_empty() {
            self.steps(frame, &block.body)?
        } else {
            self.guarded(frame, block)?
        };
        frame.state.slots.truncate(outer);
        Ok(match go {
            Go::Exit(Some(label)) if block.label.as_ref() == Some(&label) => Go::On,
            other => other,
        })
    }

    fn declare(
        &mut self,
        frame: &mut Frame<'_>,
        block: &Block,
        declaration: &Declaration,
    ) -> Result<(), Stop> {
        let shape = self.declared_shape(frame, &declaration.ty)?;
        let mut slot = Slot {
            qualifier: block.label.clone(),
            name: Arc::clone(&declaration.name),
            value: match shape {
                Shape::Record | Shape::Row(_) => Datum::Record(None),
                _ => Datum::Value(Value::Null),
            },
            shape,
            constant: false,
            not_null: false,
        };
        let at = frame.state.slots.len();
        if let Some(default) = &declaration.default {
            if let Some(Datum::Record(record)) = frame.row_named(default)
                && matches!(slot.shape, Shape::Record | Shape::Row(_))
            {
                frame.state.slots.push(slot);
                self.assign_row(frame, at, record)?;
            } else {
                let computed = self.computed(frame, default)?;
                // The default cannot refer to the variable itself.
                slot.not_null = declaration.not_null;
                frame.state.slots.push(slot);
                let target = Target::Variable(Arc::clone(&declaration.name));
                self.assign(frame, &target, computed.value, computed.ty)?;
            }
        } else if declaration.not_null {
            return Err(DbError::postgres(
                "22004",
                format!(
                    "variable \"{}\" must have a default value, since it's declared NOT NULL",
                    declaration.name
                ),
            )
            .into());
        } else {
            frame.state.slots.push(slot);
        }
        let slot = &mut frame.state.slots[at];
        slot.constant = declaration.constant;
        slot.not_null = declaration.not_null;
        Ok(())
    }

    fn declared_shape(&mut self, frame: &Frame<'_>, ty: &DeclaredAs) -> Result<Shape, Stop> {
        let row_of = |exec: &Self, name: &str| match exec.schema.relation(None, name) {
            Some(Relation::Table(table)) => Some(Shape::Row(columns_of(&table))),
            _ => None,
        };
        match ty {
            DeclaredAs::Record => Ok(Shape::Record),
            DeclaredAs::RowOf(name) => match row_of(self, name) {
                Some(shape) => Ok(shape),
                None => Err(super::errors::undefined_table(name).into()),
            },
            DeclaredAs::ColumnOf(table, column) => {
                let Some(Relation::Table(found)) = self.schema.relation(None, table) else {
                    return Err(super::errors::undefined_table(table).into());
                };
                match found.column(column) {
                    Some(at) => Ok(Shape::Value(found.columns[at].declared)),
                    None => Err(DbError::postgres(
                        "42703",
                        format!("column \"{column}\" of relation \"{table}\" does not exist"),
                    )
                    .into()),
                }
            }
            DeclaredAs::SameAs(name) => match frame.place_of(name) {
                Some(at) => Ok(frame.state.slots[at].shape.clone()),
                None => Err(
                    DbError::postgres("42704", format!("type \"{name}\" does not exist")).into(),
                ),
            },
            DeclaredAs::Alias(name) => match frame.place_of(name) {
                Some(at) => Ok(Shape::Alias(at)),
                None => Err(DbError::postgres(
                    "42704",
                    format!("variable \"{name}\" does not exist"),
                )
                .into()),
            },
            DeclaredAs::Type(ty) => {
                if let Some(shape) = row_of(self, &ty.to_string().to_ascii_lowercase()) {
                    return Ok(shape);
                }
                Ok(Shape::Value(variable_type(ty, &*self.schema)?))
            }
        }
    }

    pub(super) fn steps(&mut self, frame: &mut Frame<'_>, steps: &[Step]) -> Result<Go, Stop> {
        for step in steps {
            let go = self.step(frame, step)?;
            if go != Go::On {
                return Ok(go);
            }
        }
        Ok(Go::On)
    }

    fn step(&mut self, frame: &mut Frame<'_>, step: &Step) -> Result<Go, Stop> {
        match step {
            Step::Nothing => {}
            Step::Assign(target, value) => self.assignment(frame, target, value)?,
            Step::Perform(query) => {
                let count = self.run_text(frame, query, &mut |_, _| Ok(Flow::More))?.0;
                frame.set_found(count > 0);
            }
            Step::Sql(text, into) => self.sql_step(frame, text, into.as_ref())?,
            Step::Execute {
                command,
                into,
                using,
            } => self.execute(frame, command, into.as_ref(), using)?,
            Step::If {
                branches,
                otherwise,
                case,
            } => {
                for (condition, body) in branches {
                    if self.condition(frame, condition)? {
                        return self.steps(frame, body);
                    }
                }
                return match otherwise {
                    Some(body) => self.steps(frame, body),
                    None if *case => Err(DbError::postgres("20000", "case not found").into()),
                    None => Ok(Go::On),
                };
            }
            Step::Block(block) => return self.block(frame, block),
            Step::Loop {
                label,
                condition,
                body,
            } => loop {
                if let Some(condition) = condition
                    && !self.condition(frame, condition)?
                {
                    return Ok(Go::On);
                }
                if let Some(go) = round(self.steps(frame, body)?, label.as_ref()) {
                    return Ok(go);
                }
            },
            Step::Count { .. } => return self.count(frame, step),
            Step::ForEach {
                label,
                target,
                array,
                body,
            } => {
                let Computed { value, ty } = self.computed(frame, array)?;
                let (Value::Array(items), Type::Array(element)) = (&value, ty) else {
                    return Err(
                        DbError::postgres("22004", "FOREACH expression must not be null").into(),
                    );
                };
                let mut any = false;
                for item in items.iter() {
                    any = true;
                    self.assign(frame, target, item.clone(), *element)?;
                    if let Some(go) = round(self.steps(frame, body)?, label.as_ref()) {
                        frame.set_found(true);
                        return Ok(go);
                    }
                }
                frame.set_found(any);
            }
            Step::ForRows {
                label,
                targets,
                rows,
                body,
            } => return self.for_rows(frame, label.as_ref(), targets, rows, body),
            Step::Leave { again, label, when } => {
                if let Some(when) = when
                    && !self.condition(frame, when)?
                {
                    return Ok(Go::On);
                }
                return Ok(if *again {
                    Go::Continue(label.clone())
                } else {
                    Go::Exit(label.clone())
                });
            }
            Step::Return(value) => {
                self.returns(frame, value.as_ref())?;
                return Ok(Go::Return);
            }
            Step::ReturnNext(value) => self.return_next(frame, value.as_ref())?,
            Step::ReturnQuery(rows) => self.return_query(frame, rows)?,
            Step::Raise(raise) => self.raise(frame, raise)?,
            Step::Assert(condition, message) => {
                if !self.condition(frame, condition)? {
                    let message = match message {
                        Some(message) => self.text_of(frame, message)?,
                        None => "assertion failed".to_owned(),
                    };
                    return Err(DbError::postgres("P0004", message).into());
                }
            }
            Step::Diagnose(items) => {
                for (target, item) in items {
                    let text = |text: &str| (Value::text(text), Type::Text);
                    let caught = frame.caught.last();
                    let (value, ty) = match (item, caught) {
                        (Diagnostic::RowCount, _) => {
                            (Value::Int(frame.state.row_count as i64), Type::Int8)
                        }
                        (Diagnostic::State, Some(error)) => text(&error.code),
                        (Diagnostic::Message, Some(error)) => text(&error.message),
                        (Diagnostic::Detail, Some(error)) => {
                            text(error.detail.as_deref().unwrap_or(""))
                        }
                        (Diagnostic::Constraint, Some(error)) => {
                            text(error.constraint.as_deref().unwrap_or(""))
                        }
                        (_, None) => {
                            return Err(DbError::postgres(
                                "0Z002",
                                "GET STACKED DIAGNOSTICS cannot be used outside an exception handler",
                            )
                            .into());
                        }
                    };
                    self.assign(frame, target, value, ty)?;
                }
            }
        }
        Ok(Go::On)
    }

    fn assignment(
        &mut self,
        frame: &mut Frame<'_>,
        target: &Target,
        value: &Fragment,
    ) -> Result<(), Stop> {
        if let Target::Variable(name) = target
            && let Some(at) = frame.place_of(name)
            && matches!(frame.state.slots[at].shape, Shape::Record | Shape::Row(_))
        {
            if let Some(Datum::Record(record)) = frame.row_named(value) {
                return self.assign_row(frame, at, record);
            }
            return self.row_assignment(frame, at, target, value);
        }
        let Computed { value, ty } = self.computed(frame, value)?;
        self.assign(frame, target, value, ty)
    }

    /// Assigns what is not simply another row variable to a row variable: NULL, or `ROW(..)`.
    fn row_assignment(
        &mut self,
        frame: &mut Frame<'_>,
        at: usize,
        target: &Target,
        value: &Fragment,
    ) -> Result<(), Stop> {
        let planned = self.fragment(frame, value)?;
        let (_, _, values) = frame.parameters();
        if let PlanKind::Query(query) = &planned.0.plan.kind
            && let Body::Select(select) = &query.body
            && let [Expr::Record(fields)] = &select.targets[..]
        {
            let around = super::Around {
                params: &values,
                outer: None,
            };
            let exprs: Vec<Expr> = fields.iter().map(|(e, _)| e.clone()).collect();
            let row = self.project(&exprs, &[], around)?;
            let columns: Vec<OutputColumn> = fields
                .iter()
                .enumerate()
                .map(|(i, (_, ty))| OutputColumn {
                    name: format!("f{}", i + 1).into(),
                    ty: *ty,
                })
                .collect();
            let record = Record {
                columns: columns.into(),
                row: Some(row.into()),
            };
            return self.assign_row(frame, at, Some(record));
        }
        let Computed { value, ty } = self.computed(frame, value)?;
        self.assign(frame, target, value, ty)
    }

    fn count(&mut self, frame: &mut Frame<'_>, step: &Step) -> Result<Go, Stop> {
        let Step::Count {
            label,
            variable,
            reverse,
            from,
            to,
            by,
            body,
        } = step
        else {
            unreachable!("called for this statement only")
        };
        let from = self.bound_of(frame, from, "lower bound")?;
        let to = self.bound_of(frame, to, "upper bound")?;
        let by = match by {
            Some(by) => self.bound_of(frame, by, "BY value")?,
            None => 1,
        };
        if by <= 0 {
            return Err(DbError::postgres(
                "22023",
                "BY value of FOR loop must be greater than zero",
            )
            .into());
        }
        let outer = frame.state.slots.len();
        frame.state.slots.push(Slot {
            qualifier: label.clone(),
            ..Slot::value(variable, Type::Int4, Value::Null)
        });
        let mut at = from;
        let mut any = false;
        let mut left = Go::On;
        while if *reverse { at >= to } else { at <= to } {
            any = true;
            frame.state.slots[outer].value = Datum::Value(Value::Int(at));
            if let Some(go) = round(self.steps(frame, body)?, label.as_ref()) {
                left = go;
                break;
            }
            at += if *reverse { -by } else { by };
        }
        frame.state.slots.truncate(outer);
        frame.set_found(any);
        Ok(left)
    }

    fn bound_of(
        &mut self,
        frame: &mut Frame<'_>,
        text: &Fragment,
        what: &str,
    ) -> Result<i64, Stop> {
        let Computed { value, ty } = self.computed(frame, text)?;
        match self.assignable(&value, ty, Type::Int4.into())? {
            Value::Int(n) => Ok(n),
            _ => {
                Err(DbError::postgres("22004", format!("{what} of FOR loop cannot be null")).into())
            }
        }
    }

    fn for_rows(
        &mut self,
        frame: &mut Frame<'_>,
        label: Option<&Arc<str>>,
        targets: &[Target],
        rows: &Rows,
        body: &[Step],
    ) -> Result<Go, Stop> {
        let (planned, values) = self.rows_plan(frame, rows)?;
        let columns = shared(&planned.plan.columns);
        let how = sight(frame.routine);
        let mut left = Go::On;
        let mut any = false;
        let mut fetched: Vec<Row> = Vec::new();
        let mut wanted = FETCHED.0;
        // The body runs between two fetches, while the query is half done.
        let mut rounds = |exec: &mut Exec<'_>, fetched: &mut Vec<Row>| -> Result<Flow, Stop> {
            for row in fetched.drain(..) {
                any = true;
                exec.assign_targets(frame, targets, &columns, Some(&row))?;
                if let Some(go) = round(exec.steps(frame, body)?, label) {
                    left = go;
                    return Ok(Flow::Enough);
                }
            }
            Ok(Flow::More)
        };
        self.nested_plan(&planned, &values, how, &mut |exec, row| {
            fetched.push(row);
            if fetched.len() < wanted {
                return Ok(Flow::More);
            }
            wanted = FETCHED.1;
            let info = Arc::default();
            exec.in_statement(info, |exec| rounds(exec, &mut fetched))
        })?;
        rounds(self, &mut fetched)?;
        frame.set_found(any);
        Ok(left)
    }

    /// The plan of a query that yields rows, and its parameters.
    fn rows_plan(
        &mut self,
        frame: &mut Frame<'_>,
        rows: &Rows,
    ) -> Result<(Rc<Planned>, Vec<Value>), Stop> {
        match rows {
            Rows::Query(text) => self.fragment(frame, text),
            Rows::Execute(command, using) => self.dynamic(frame, command, using),
        }
    }

    fn returns(&mut self, frame: &mut Frame<'_>, value: Option<&Fragment>) -> Result<(), Stop> {
        let Some(value) = value else {
            let must = !matches!(frame.routine.returns, Returns::Void | Returns::Rows(_))
                && frame.routine.outputs.is_empty();
            if must {
                return Err(
                    DbError::postgres("42601", "missing expression at or near \";\"").into(),
                );
            }
            return Ok(());
        };
        if let Some(record) = frame.row_named(value) {
            frame.state.returned = Some((record, Type::Record));
            return Ok(());
        }
        let Computed { value, ty } = self.computed(frame, value)?;
        frame.state.returned = Some((Datum::Value(value), ty));
        Ok(())
    }

    fn return_next(&mut self, frame: &mut Frame<'_>, value: Option<&Fragment>) -> Result<(), Stop> {
        let Returns::Rows(columns) = &frame.routine.returns else {
            return Err(DbError::postgres(
                "42804",
                "cannot use RETURN NEXT in a non-SETOF function",
            )
            .into());
        };
        let columns = Arc::clone(columns);
        let row: Row = match value {
            None => {
                let outputs = &frame.routine.outputs;
                let values = outputs.iter().map(|(name, _)| match frame.value_of(name) {
                    Some(Datum::Value(value)) => value,
                    _ => Value::Null,
                });
                values.collect()
            }
            Some(text) => match frame.row_named(text) {
                Some(Datum::Record(record)) => {
                    let record = record.unwrap_or(Record {
                        columns: Arc::clone(&columns),
                        row: None,
                    });
                    let from: Vec<Type> = record.columns.iter().map(|c| c.ty).collect();
                    let nulls: Row = vec![Value::Null; columns.len()].into();
                    let row = record.row.unwrap_or(nulls);
                    self.row_as(&row, &from, &columns)?
                }
                _ => {
                    let Computed { value, ty } = self.computed(frame, text)?;
                    self.row_as(&[value].into(), &[ty], &columns)?
                }
            },
        };
        frame.state.rows.push(row);
        Ok(())
    }

    fn row_as(&mut self, row: &Row, from: &[Type], columns: &[OutputColumn]) -> Result<Row, Stop> {
        if row.len() != columns.len() {
            return Err(DbError::postgres(
                "42804",
                "structure of query does not match function result type",
            )
            .into());
        }
        let mut values = Vec::with_capacity(columns.len());
        for ((value, from), column) in row.iter().zip(from).zip(columns) {
            values.push(self.assignable(value, *from, column.ty.into())?);
        }
        Ok(values.into())
    }

    fn return_query(&mut self, frame: &mut Frame<'_>, rows: &Rows) -> Result<(), Stop> {
        let Returns::Rows(columns) = &frame.routine.returns else {
            return Err(DbError::postgres(
                "42804",
                "cannot use RETURN QUERY in a non-SETOF function",
            )
            .into());
        };
        let columns = Arc::clone(columns);
        let (planned, values) = self.rows_plan(frame, rows)?;
        let mut found = Vec::new();
        self.nested_plan(&planned, &values, sight(frame.routine), &mut |_, row| {
            found.push(row);
            Ok(Flow::More)
        })?;
        let from: Vec<Type> = planned.plan.columns.iter().map(|c| c.ty).collect();
        frame.set_found(!found.is_empty());
        frame.state.row_count = found.len() as u64;
        for row in found {
            let row = self.row_as(&row, &from, &columns)?;
            frame.state.rows.push(row);
        }
        Ok(())
    }

    fn sql_step(
        &mut self,
        frame: &mut Frame<'_>,
        text: &Fragment,
        into: Option<&Into>,
    ) -> Result<(), Stop> {
        let (planned, values) = self.fragment(frame, text)?;
        let writes = matches!(planned.plan.kind, PlanKind::Write(_));
        let Some(into) = into else {
            if !planned.plan.columns.is_empty() {
                return Err(
                    DbError::postgres("42601", "query has no destination for result data").into(),
                );
            }
            let how = sight(frame.routine);
            let count = self.nested_plan(&planned, &values, how, &mut |_, _| Ok(Flow::More))?;
            frame.set_found(count > 0);
            frame.state.row_count = count;
            return Ok(());
        };
        let strict = into.strict || writes;
        let most = if strict { 2 } else { 1 };
        let rows = self.fetch(frame, &planned, &values, most)?;
        if rows.len() > 1 && strict {
            return Err(DbError::postgres("P0003", "query returned more than one row").into());
        }
        if rows.is_empty() && into.strict {
            return Err(DbError::postgres("P0002", "query returned no rows").into());
        }
        frame.set_found(!rows.is_empty());
        frame.state.row_count = rows.len() as u64;
        let columns = shared(&planned.plan.columns);
        self.assign_targets(frame, &into.targets, &columns, rows.first())
    }

    /// The first rows of a statement; it goes no further.
    fn fetch(
        &mut self,
        frame: &Frame<'_>,
        planned: &Planned,
        values: &[Value],
        most: usize,
    ) -> Result<Vec<Row>, Stop> {
        let mut rows = Vec::new();
        self.nested_plan(planned, values, sight(frame.routine), &mut |_, row| {
            rows.push(row);
            Ok(if rows.len() >= most {
                Flow::Enough
            } else {
                Flow::More
            })
        })?;
        Ok(rows)
    }

    fn execute(
        &mut self,
        frame: &mut Frame<'_>,
        command: &Fragment,
        into: Option<&Into>,
        using: &[Fragment],
    ) -> Result<(), Stop> {
        let (planned, values) = self.dynamic(frame, command, using)?;
        let Some(into) = into else {
            let how = sight(frame.routine);
            let count = self.nested_plan(&planned, &values, how, &mut |_, _| Ok(Flow::More))?;
            frame.state.row_count = count;
            return Ok(());
        };
        let rows = self.fetch(frame, &planned, &values, usize::MAX)?;
        if rows.len() > 1 && into.strict {
            return Err(DbError::postgres("P0003", "query returned more than one row").into());
        }
        if rows.is_empty() && into.strict {
            return Err(DbError::postgres("P0002", "query returned no rows").into());
        }
        frame.state.row_count = rows.len() as u64;
        let columns = shared(&planned.plan.columns);
        self.assign_targets(frame, &into.targets, &columns, rows.first())
    }

    /// The plan of a command that is computed, and its parameters.
    fn dynamic(
        &mut self,
        frame: &mut Frame<'_>,
        command: &Fragment,
        using: &[Fragment],
    ) -> Result<(Rc<Planned>, Vec<Value>), Stop> {
        let Computed { value, ty } = self.computed(frame, command)?;
        if value.is_null() {
            return Err(
                DbError::postgres("22004", "query string argument of EXECUTE is null").into(),
            );
        }
        let text: Arc<str> = output::text(&value, ty).into();
        let (mut types, mut values) = (Vec::new(), Vec::new());
        for value in using {
            let computed = self.computed(frame, value)?;
            types.push(computed.ty);
            values.push(computed.value);
        }
        let variables = Variables {
            list: Vec::new(),
            columns_first: true,
            numbered: types.len(),
        };
        Ok((self.planned(&text, &types, &variables)?, values))
    }

    /// The plan of a piece of SQL with the variables in sight, and their values.
    fn fragment(
        &mut self,
        frame: &Frame<'_>,
        text: &Fragment,
    ) -> Result<(Rc<Planned>, Vec<Value>), Stop> {
        let (variables, types, values) = frame.parameters();
        Ok((self.planned(text, &types, &variables)?, values))
    }

    fn run_text(
        &mut self,
        frame: &Frame<'_>,
        text: &Fragment,
        sink: super::RowSink<'_>,
    ) -> Result<(u64, Rc<Planned>), Stop> {
        let (planned, values) = self.fragment(frame, text)?;
        let count = self.nested_plan(&planned, &values, sight(frame.routine), sink)?;
        Ok((count, planned))
    }

    pub(super) fn condition(
        &mut self,
        frame: &mut Frame<'_>,
        text: &Fragment,
    ) -> Result<bool, Stop> {
        let Computed { value, ty } = self.computed(frame, text)?;
        let value = self.assignable(&value, ty, Type::Bool.into())?;
        Ok(value == Value::Bool(true))
    }

    /// The output text of an expression; `<NULL>` is written by the caller.
    pub(super) fn text_or_null(
        &mut self,
        frame: &mut Frame<'_>,
        text: &Fragment,
    ) -> Result<Option<String>, Stop> {
        let Computed { value, ty } = self.computed(frame, text)?;
        Ok((!value.is_null()).then(|| output::text(&value, ty)))
    }

    fn text_of(&mut self, frame: &mut Frame<'_>, text: &Fragment) -> Result<String, Stop> {
        Ok(self.text_or_null(frame, text)?.unwrap_or_default())
    }

    /// The value of an expression.
    fn computed(&mut self, frame: &mut Frame<'_>, text: &Fragment) -> Result<Computed, Stop> {
        let (planned, values) = self.fragment(frame, text)?;
        let columns = &planned.plan.columns;
        let [column] = &columns[..] else {
            return Err(DbError::postgres(
                "42601",
                format!("query returned {} columns", columns.len()),
            )
            .into());
        };
        let ty = column.ty;
        if let PlanKind::Query(query) = &planned.plan.kind
            && let Some(expr) = simple(query)
            && walk::volatility(expr) == Volatility::Immutable
        {
            let around = super::Around {
                params: &values,
                outer: None,
            };
            let value = self.evaluate(expr, &[], around)?;
            return Ok(Computed { value, ty });
        }
        let rows = self.fetch(frame, &planned, &values, 2)?;
        if rows.len() > 1 {
            let shown = text.strip_prefix("SELECT ").unwrap_or(text);
            return Err(DbError::postgres(
                "21000",
                format!("query \"{shown}\" returned more than one row"),
            )
            .into());
        }
        let value = rows.first().and_then(|row| row.first().cloned());
        Ok(Computed {
            value: value.unwrap_or(Value::Null),
            ty,
        })
    }
}

/// What a round of a loop leads to: `None` is the next round.
fn round(go: Go, label: Option<&Arc<str>>) -> Option<Go> {
    match go {
        Go::On | Go::Continue(None) => None,
        Go::Exit(None) => Some(Go::On),
        Go::Exit(Some(l)) if Some(&l) == label => Some(Go::On),
        Go::Continue(Some(l)) if Some(&l) == label => None,
        other => Some(other),
    }
}

/// The expression of a `SELECT` that is nothing but one.
fn simple(query: &Query) -> Option<&Expr> {
    let plain = query.with.is_empty()
        && query.sort.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty();
    let Body::Select(select) = &query.body else {
        return None;
    };
    let plain = plain
        && select.source.range.is_empty()
        && select.source.filter.is_empty()
        && select.grouping.is_none()
        && select.windows.is_empty();
    match &select.targets[..] {
        [expr] if plain => Some(expr),
        _ => None,
    }
}
