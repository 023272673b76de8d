//! The variables of a function in PL/pgSQL.

use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::super::{Exec, Stop};
use crate::plan::catalog::{Catalog as _, Table};
use crate::plan::query::OutputColumn;
use crate::plan::routine::Routine;
use crate::plan::types::coerce::{Context, can_coerce};
use crate::plan::types::convert::{Conversion, convert};
use crate::plan::types::{Declared, Type, output};
use crate::plan::variables::{Variable, VariableKind, Variables};
use crate::sql::plpgsql::Target;

/// A row with its columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// Names and types of the fields.
    pub(super) columns: Arc<[OutputColumn]>,
    /// The values; `None` is a row that is NULL.
    pub(super) row: Option<Row>,
}

impl Record {
    /// The output text of the whole row, or NULL.
    pub(super) fn text(&self) -> Option<Value> {
        let row = self.row.as_ref()?;
        let fields: Vec<(Value, Type)> = row
            .iter()
            .zip(self.columns.iter())
            .map(|(value, column)| (value.clone(), column.ty))
            .collect();
        Some(Value::text(output::record(&fields)))
    }
}

/// What a variable holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Datum {
    /// One value.
    Value(Value),
    /// A row; `None` was never assigned to.
    Record(Option<Record>),
}

/// What a variable can hold.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// A value of a type.
    Value(Declared),
    /// Any row.
    Record,
    /// A row of these columns.
    Row(Arc<[OutputColumn]>),
    /// Another name for the variable at this place.
    Alias(usize),
}

/// A variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot {
    /// The label of its block, or the function's name.
    pub(super) qualifier: Option<Arc<str>>,
    /// Its name; empty for an argument without one.
    pub(super) name: Arc<str>,
    /// What it can hold.
    pub(super) shape: Shape,
    /// What it holds.
    pub(super) value: Datum,
    /// `CONSTANT`.
    pub(super) constant: bool,
    /// `NOT NULL`.
    pub(super) not_null: bool,
}

impl Slot {
    /// A variable with a value.
    pub(super) fn value(name: &str, ty: Type, value: Value) -> Slot {
        Slot {
            qualifier: None,
            name: name.into(),
            shape: Shape::Value(ty.into()),
            value: Datum::Value(value),
            constant: false,
            not_null: false,
        }
    }
}

/// What changes while a function runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// The variables in sight, outer ones first.
    pub(super) slots: Vec<Slot>,
    /// `ROW_COUNT`.
    pub(super) row_count: u64,
    /// What `RETURN NEXT` and `RETURN QUERY` have collected.
    pub(super) rows: Vec<Row>,
    /// What `RETURN` was given, with its type.
    pub(super) returned: Option<(Datum, Type)>,
}

/// A function that runs.
pub(super) struct Frame<'r> {
    /// Which.
    pub(super) routine: &'r Routine,
    /// Its variables.
    pub(super) state: State,
    /// Errors that handlers around have caught, innermost last.
    pub(super) caught: Vec<DbError>,
    /// How many arguments it has.
    args: usize,
}

impl<'r> Frame<'r> {
    /// A function called with these arguments.
    pub(super) fn of_call(routine: &'r Routine, types: &[Type], args: &[Value]) -> Frame<'r> {
        let mut slots = Vec::new();
        for ((arg, ty), value) in routine.args.iter().zip(types).zip(args) {
            slots.push(Slot {
                qualifier: Some(Arc::clone(&routine.name)),
                ..Slot::value(arg.name.as_deref().unwrap_or(""), *ty, value.clone())
            });
        }
        let mut frame = Frame::new(routine, slots);
        for (name, declared) in &routine.outputs {
            frame.state.slots.push(Slot {
                qualifier: Some(Arc::clone(&routine.name)),
                ..Slot::value(name, declared.ty, Value::Null)
            });
        }
        frame
    }

    /// A function with these arguments.
    pub(super) fn new(routine: &'r Routine, args: Vec<Slot>) -> Frame<'r> {
        let count = args.len();
        let mut state = State {
            slots: args,
            ..State::default()
        };
        state
            .slots
            .push(Slot::value("found", Type::Bool, Value::Bool(false)));
        Frame {
            routine,
            state,
            caught: Vec::new(),
            args: count,
        }
    }

    /// Sets `FOUND`.
    pub(super) fn set_found(&mut self, found: bool) {
        let at = self.args;
        self.state.slots[at].value = Datum::Value(Value::Bool(found));
    }

    fn resolve(&self, mut at: usize) -> usize {
        while let Shape::Alias(of) = self.state.slots[at].shape {
            at = of;
        }
        at
    }

    fn find(&self, qualifier: Option<&str>, name: &str) -> Option<usize> {
        if qualifier.is_none()
            && let Some(number) = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok())
        {
            return number.checked_sub(1).filter(|at| *at < self.args);
        }
        let slots = &self.state.slots;
        let at = slots.iter().rposition(|slot| {
            *slot.name == *name && qualifier.is_none_or(|q| slot.qualifier.as_deref() == Some(q))
        })?;
        Some(self.resolve(at))
    }

    /// The place of a variable.
    pub(super) fn place_of(&self, name: &str) -> Option<usize> {
        self.find(None, name)
    }

    /// What a variable holds.
    pub(super) fn value_of(&self, name: &str) -> Option<Datum> {
        let at = self.find(None, name)?;
        Some(self.state.slots[at].value.clone())
    }

    /// The row variable that an expression is nothing but the name of.
    pub(super) fn row_named(&self, fragment: &str) -> Option<Datum> {
        let name = fragment.strip_prefix("SELECT")?.trim();
        let plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        if !plain {
            return None;
        }
        let at = self.find(None, &name.to_ascii_lowercase())?;
        match &self.state.slots[at].value {
            Datum::Record(record) => Some(Datum::Record(record.clone())),
            Datum::Value(_) => None,
        }
    }

    /// The variables as parameters of a statement: their names, types and values.
    pub(super) fn parameters(&self) -> (Variables, Vec<Type>, Vec<Value>) {
        let mut variables = Variables {
            list: Vec::new(),
            columns_first: false,
            numbered: self.args,
        };
        let (mut types, mut values) = (Vec::new(), Vec::new());
        let mut kinds: Vec<VariableKind> = Vec::with_capacity(self.state.slots.len());
        for slot in &self.state.slots {
            let mut add = |value: Value, ty: Type| {
                values.push(value);
                types.push(ty);
                values.len() - 1
            };
            let kind = match (&slot.value, &slot.shape) {
                (_, Shape::Alias(of)) => kinds[self.resolve(*of)].clone(),
                (Datum::Value(value), Shape::Value(declared)) => {
                    VariableKind::Value(add(value.clone(), declared.ty), declared.ty)
                }
                (Datum::Value(value), _) => {
                    VariableKind::Value(add(value.clone(), Type::Text), Type::Text)
                }
                (Datum::Record(None), Shape::Row(columns)) => {
                    row_kind(columns, None, Value::Null, &mut add)
                }
                (Datum::Record(None), _) => VariableKind::Unassigned,
                (Datum::Record(Some(record)), _) => row_kind(
                    &record.columns,
                    record.row.as_ref(),
                    record.text().unwrap_or(Value::Null),
                    &mut add,
                ),
            };
            kinds.push(kind.clone());
            if !slot.name.is_empty() {
                variables.list.push(Variable {
                    qualifier: slot.qualifier.clone(),
                    name: Arc::clone(&slot.name),
                    kind,
                });
            }
        }
        (variables, types, values)
    }
}

fn row_kind(
    columns: &[OutputColumn],
    row: Option<&Row>,
    whole: Value,
    add: &mut impl FnMut(Value, Type) -> usize,
) -> VariableKind {
    let whole = add(whole, Type::Record);
    let fields = columns.iter().enumerate().map(|(i, column)| {
        let value = row.and_then(|row| row.get(i).cloned());
        let param = add(value.unwrap_or(Value::Null), column.ty);
        (Arc::clone(&column.name), param, column.ty)
    });
    VariableKind::Row {
        fields: fields.collect(),
        whole,
    }
}

/// The columns of a table's rows.
pub(super) fn columns_of(table: &Table) -> Arc<[OutputColumn]> {
    table
        .columns
        .iter()
        .filter(|c| !c.dropped)
        .map(|c| OutputColumn {
            name: Arc::clone(&c.name),
            ty: c.declared.ty,
        })
        .collect()
}

impl Exec<'_> {
    /// A value as one of another type, as an assignment converts it: by a cast, or else by the text of
    /// the value.
    pub(super) fn assignable(
        &mut self,
        value: &Value,
        from: Type,
        to: Declared,
    ) -> Result<Value, Stop> {
        if value.is_null() || (from == to.ty && to.modifier.is_none()) {
            return Ok(value.clone());
        }
        let labels = match to.ty {
            Type::Enum(id) => self.schema.enum_by_id(id),
            _ => None,
        };
        let how = |from| Conversion {
            from,
            to: to.ty,
            modifier: to.modifier,
            explicit: false,
            labels: labels.as_deref(),
        };
        if from != Type::Unknown
            && from != Type::Record
            && can_coerce(from, to.ty, Context::Assignment)
        {
            return Ok(convert(value, how(from))?);
        }
        let text = Value::text(output::text(value, from));
        Ok(convert(&text, how(Type::Unknown))?)
    }

    /// Assigns one value to a variable or a field.
    pub(super) fn assign(
        &mut self,
        frame: &mut Frame<'_>,
        target: &Target,
        value: Value,
        from: Type,
    ) -> Result<(), Stop> {
        let (name, field) = match target {
            Target::Variable(name) => (name, None),
            Target::Field(first, second) => match frame.find(Some(first), second) {
                Some(at) => return self.assign_at(frame, at, value, from),
                None => (first, Some(second)),
            },
        };
        let Some(at) = frame.find(None, name) else {
            return Err(
                DbError::postgres("42601", format!("\"{name}\" is not a known variable")).into(),
            );
        };
        match field {
            None => self.assign_at(frame, at, value, from),
            Some(field) => self.assign_field(frame, at, field, value, from),
        }
    }

    fn assign_at(
        &mut self,
        frame: &mut Frame<'_>,
        at: usize,
        value: Value,
        from: Type,
    ) -> Result<(), Stop> {
        let slot = &frame.state.slots[at];
        refuse_constant(slot)?;
        let shape = slot.shape.clone();
        let datum = match shape {
            Shape::Value(declared) => Datum::Value(self.assignable(&value, from, declared)?),
            Shape::Row(columns) if value.is_null() => {
                Datum::Record(Some(Record { columns, row: None }))
            }
            Shape::Record if value.is_null() => Datum::Record(None),
            Shape::Row(_) | Shape::Record => {
                return Err(DbError::postgres(
                    "42804",
                    "cannot assign non-composite value to a record variable",
                )
                .into());
            }
            Shape::Alias(_) => unreachable!("aliases are resolved"),
        };
        let slot = &mut frame.state.slots[at];
        if slot.not_null && datum == Datum::Value(Value::Null) {
            return Err(DbError::postgres(
                "22004",
                format!(
                    "null value cannot be assigned to variable \"{}\" declared NOT NULL",
                    slot.name
                ),
            )
            .into());
        }
        slot.value = datum;
        Ok(())
    }

    fn assign_field(
        &mut self,
        frame: &mut Frame<'_>,
        at: usize,
        field: &str,
        value: Value,
        from: Type,
    ) -> Result<(), Stop> {
        let slot = &frame.state.slots[at];
        refuse_constant(slot)?;
        let name = Arc::clone(&slot.name);
        let mut record = match (&slot.value, &slot.shape) {
            (Datum::Record(Some(record)), _) => record.clone(),
            (Datum::Record(None), Shape::Row(columns)) => Record {
                columns: Arc::clone(columns),
                row: None,
            },
            (Datum::Record(None), _) => {
                return Err(DbError::postgres(
                    "55000",
                    format!("record \"{name}\" is not assigned yet"),
                )
                .with_detail("The tuple structure of a not-yet-assigned record is indeterminate.")
                .into());
            }
            (Datum::Value(_), _) => {
                return Err(DbError::postgres(
                    "42601",
                    format!("\"{name}.{field}\" is not a known variable"),
                )
                .into());
            }
        };
        let Some(i) = record.columns.iter().position(|c| *c.name == *field) else {
            return Err(DbError::postgres(
                "42703",
                format!("record \"{name}\" has no field \"{field}\""),
            )
            .into());
        };
        let value = self.assignable(&value, from, record.columns[i].ty.into())?;
        let mut row = match &record.row {
            Some(row) => row.to_vec(),
            None => vec![Value::Null; record.columns.len()],
        };
        row[i] = value;
        record.row = Some(row.into());
        frame.state.slots[at].value = Datum::Record(Some(record));
        Ok(())
    }

    /// Assigns a whole row to a row variable.
    pub(super) fn assign_row(
        &mut self,
        frame: &mut Frame<'_>,
        at: usize,
        record: Option<Record>,
    ) -> Result<(), Stop> {
        let slot = &frame.state.slots[at];
        refuse_constant(slot)?;
        let datum = match (&slot.shape, record) {
            (Shape::Row(columns), Some(record)) => {
                let columns = Arc::clone(columns);
                let row = match &record.row {
                    None => None,
                    Some(row) => {
                        let mut values = Vec::with_capacity(columns.len());
                        for (i, column) in columns.iter().enumerate() {
                            let value = row.get(i).cloned().unwrap_or(Value::Null);
                            let from = record.columns.get(i).map_or(Type::Text, |c| c.ty);
                            values.push(self.assignable(&value, from, column.ty.into())?);
                        }
                        Some(values.into())
                    }
                };
                Datum::Record(Some(Record { columns, row }))
            }
            (_, record) => Datum::Record(record),
        };
        frame.state.slots[at].value = datum;
        Ok(())
    }

    /// Gives a row of a query to the targets of `INTO` or of a loop; `None`: there is no row.
    pub(super) fn assign_targets(
        &mut self,
        frame: &mut Frame<'_>,
        targets: &[Target],
        columns: &Arc<[OutputColumn]>,
        row: Option<&Row>,
    ) -> Result<(), Stop> {
        if let [Target::Variable(name)] = targets
            && let Some(at) = frame.find(None, name)
            && matches!(frame.state.slots[at].shape, Shape::Record | Shape::Row(_))
        {
            let record = Record {
                columns: Arc::clone(columns),
                row: row.map(Row::clone),
            };
            return self.assign_row(frame, at, Some(record));
        }
        for (i, target) in targets.iter().enumerate() {
            let value = row.and_then(|row| row.get(i).cloned());
            let from = columns.get(i).map_or(Type::Text, |c| c.ty);
            self.assign(frame, target, value.unwrap_or(Value::Null), from)?;
        }
        Ok(())
    }
}

fn refuse_constant(slot: &Slot) -> Result<(), Stop> {
    if slot.constant {
        return Err(DbError::postgres(
            "22005",
            format!("variable \"{}\" is declared CONSTANT", slot.name),
        )
        .into());
    }
    Ok(())
}

/// The digest of states is that of their text.
impl std::hash::Hash for State {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        format!("{self:?}").hash(state);
    }
}

/// Shares what never changes.
pub(super) fn shared(columns: &[OutputColumn]) -> Arc<[OutputColumn]> {
    columns.to_vec().into()
}
