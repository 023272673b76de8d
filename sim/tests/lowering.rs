//! Lowering against what PostgreSQL 15 answered (with `TimeZone = UTC`).
//!
//! * `lowering/expressions.txt`: for each expression, what `SELECT <expression>` gave: either
//!   `= name, type: value`, or `! SQLSTATE message @byte`.
//! * `lowering/statements.txt`: for each statement, the columns that the server announces
//!   (`= name type, name type`), or the error of its analysis. `setup` lines make the schema.
//! * `lowering/programs.txt`: the statements of known bugs of queues, outboxes and locks; blocks of
//!   statements on a fresh schema, all of which must lower.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect, ErrorClass, Row, Value};
use rowlock_sim::plan::catalog::{
    Catalog, EnumType, ForeignKey, Relation, RelationId, Sequence, Table, VirtualTable,
};
use rowlock_sim::plan::ddl::Ddl;
use rowlock_sim::plan::expr::{Host, HostFunction, Scope, SystemColumn, eval};
use rowlock_sim::plan::query::{Body, SubPlan};
use rowlock_sim::plan::types::{EnumId, Type, output};
use rowlock_sim::plan::{Plan, PlanKind, lower};
use rowlock_sim::sql::{self, StatementKind};

/// A schema that grows by the plans it is given, and a host that knows nothing.
#[derive(Default)]
struct Schema {
    tables: Vec<Arc<Table>>,
    sequences: Vec<Arc<Sequence>>,
    enums: Vec<Arc<EnumType>>,
    next: u32,
}

impl Schema {
    fn id(&mut self) -> RelationId {
        self.next += 1;
        RelationId(self.next)
    }

    fn apply(&mut self, ddl: Ddl) {
        match ddl {
            Ddl::CreateTable {
                mut table,
                foreign_keys,
                sequences,
                ..
            } => {
                table.id = self.id();
                for key in foreign_keys {
                    let parent = key.parent.as_deref().unwrap_or(&table);
                    table.foreign_keys.push(ForeignKey {
                        name: key.name,
                        parent: parent.id,
                        parent_index: parent.indexes[key.parent_index].id,
                        columns: key.columns,
                        parent_columns: key.parent_columns,
                        on_delete: key.on_delete,
                        on_update: key.on_update,
                        deferrable: key.deferrable,
                        deferred: key.deferred,
                        match_full: key.match_full,
                        validated: key.validated,
                        inherited: key.inherited,
                    });
                }
                self.sequences.extend(sequences.into_iter().map(Arc::new));
                self.tables.push(Arc::from(table));
            }
            Ddl::CreateIndex {
                table, mut index, ..
            } => {
                index.id = self.id();
                let mut changed = (*table).clone();
                changed.indexes.push(*index);
                self.tables.retain(|t| t.id != table.id);
                self.tables.push(Arc::new(changed));
            }
            Ddl::CreateEnum(labels) => self.enums.push(Arc::new(EnumType {
                id: EnumId(self.enums.len() as u32),
                ..labels
            })),
            other => panic!("not expected here: {other:?}"),
        }
    }
}

impl Catalog for Schema {
    fn relation(&self, _: Option<&str>, name: &str) -> Option<Relation> {
        if name == "pg_locks" {
            return Some(Relation::Virtual(Arc::new(VirtualTable {
                name: name.into(),
                columns: vec![
                    ("locktype".into(), Type::Text),
                    ("pid".into(), Type::Int4),
                    ("granted".into(), Type::Bool),
                ],
            })));
        }
        let table = self.tables.iter().find(|t| &*t.name == name);
        table
            .cloned()
            .map(Relation::Table)
            .or_else(|| self.sequence(name).map(Relation::Sequence))
    }
    fn table(&self, id: RelationId) -> Option<Arc<Table>> {
        self.tables.iter().find(|t| t.id == id).cloned()
    }
    fn index(&self, name: &str) -> Option<(Arc<Table>, usize)> {
        self.tables.iter().find_map(|t| {
            let at = t.indexes.iter().position(|i| &*i.name == name)?;
            Some((t.clone(), at))
        })
    }
    fn sequence(&self, name: &str) -> Option<Arc<Sequence>> {
        self.sequences.iter().find(|s| &*s.name == name).cloned()
    }
    fn enum_type(&self, name: &str) -> Option<Arc<EnumType>> {
        self.enums.iter().find(|e| &*e.name == name).cloned()
    }
    fn enum_by_id(&self, id: EnumId) -> Option<Arc<EnumType>> {
        self.enums.iter().find(|e| e.id == id).cloned()
    }
}

impl Host for Schema {
    type Error = DbError;

    fn call(&mut self, function: HostFunction, _: &[Value]) -> Result<Value, DbError> {
        Err(DbError::unsupported(format!("{function:?}"), None))
    }
    fn rows(&mut self, _: &SubPlan, _: &Scope<'_>) -> Result<Arc<[Row]>, DbError> {
        Err(DbError::unsupported("a sub-select", None))
    }
    fn system(&mut self, _: SystemColumn, _: usize, _: &Scope<'_>) -> Result<Value, DbError> {
        Err(DbError::unsupported("a system column", None))
    }
}

/// Parses a text and lowers its statements; the plan of the last one that is not a control statement.
fn plan(text: &str, schema: &Schema) -> Result<Option<Plan>, DbError> {
    let mut last = None;
    for statement in sql::parse(text, Dialect::Postgres)? {
        if let StatementKind::Data(_) = statement.kind {
            last = Some(lower(&statement, schema, &[])?);
        }
    }
    Ok(last)
}

/// A result in the form of the files.
fn shown(result: Result<String, DbError>) -> String {
    match result {
        Ok(text) => format!("= {text}"),
        Err(error) => {
            let place = error.position.map_or(String::new(), |p| format!(" @{p}"));
            format!("! {} {}{place}", error.code, error.message)
        }
    }
}

fn value_of(expression: &str) -> Result<String, DbError> {
    let mut host = Schema::default();
    let Some(plan) = plan(&format!("SELECT {expression}"), &host)? else {
        panic!("no statement");
    };
    let PlanKind::Query(query) = &plan.kind else {
        panic!("not a query");
    };
    let Body::Select(select) = &query.body else {
        panic!("not a select");
    };
    let scope = Scope::empty(&[]);
    let value = eval(&select.targets[0], &scope, &mut host)?;
    let column = &plan.columns[0];
    let text = match &*value {
        Value::Null => "NULL".to_owned(),
        value => output::text(value, column.ty).replace('\n', "\\n"),
    };
    Ok(format!("{}, {}: {text}", column.name, column.ty.name()))
}

/// Goes through a file of subjects and indented answers. What we refuse must be listed as refused;
/// a leading `~` there allows another message and place for the same code.
fn compare(file: &str, refused: &[&str], answer: impl Fn(&str) -> String) {
    let mut subject = "";
    let mut compared = 0;
    let mut wrong = Vec::new();
    let lines = file
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#') && !l.starts_with("setup "));
    for line in lines {
        let Some(expected) = line.strip_prefix("    ") else {
            subject = line;
            continue;
        };
        compared += 1;
        let got = answer(subject);
        let same_code = got.get(..7) == expected.get(..7);
        let excused = refused.contains(&subject) && got.starts_with("! unsupported")
            || same_code && refused.iter().any(|r| r.strip_prefix('~') == Some(subject));
        if got != expected && !excused {
            wrong.push(format!(
                "{subject}\n    server    {expected}\n    simulator {got}"
            ));
        }
    }
    assert!(compared > 150, "only {compared} were compared");
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn expressions_are_those_of_postgresql() {
    let refused = [
        "power(2, 0.5)",
        "json_build_array(1, 'x'::text, null, 2.0::float8, now() is null)",
        "jsonb_build_object('a')",
        "to_jsonb(array[[1,2],[3,4]])",
        r#"jsonb_pretty('{"a":[1,2],"b":{}}')"#,
        "'ab' ~ 'a('",
        "'ab' ~ '[a'",
        r#"to_char('2026-03-09'::date, 'YYYY"-W"IW')"#,
        "to_char('2026-03-09'::date, 'Day, DDth Month YYYY')",
        "to_char('2026-03-09'::date, 'FMDay, FMDD FMMonth')",
        "to_char('2026-03-09'::timestamp, 'DDD D J Q WW CC')",
        "to_char('2026-03-09 00:00'::timestamp, 'HH:MI pm')",
        "to_char('0099-03-09 00:00'::timestamp, 'YYYY YYY YY Y')",
        r#"to_char('2026-03-09 14:05:06'::timestamp, 'SSSS "literal MM" \"x')"#,
        "1 @@@ 2",
    ];
    compare(
        include_str!("lowering/expressions.txt"),
        &refused,
        |expression| shown(value_of(expression)),
    );
}

#[test]
fn analysis_is_that_of_postgresql() {
    let file = include_str!("lowering/statements.txt");
    let mut schema = Schema::default();
    for setup in file.lines().filter_map(|l| l.strip_prefix("setup ")) {
        match plan(setup, &schema) {
            Ok(Some(plan)) => match plan.kind {
                PlanKind::Ddl(ddl) => schema.apply(*ddl),
                _ => panic!("{setup}"),
            },
            other => panic!("{setup}: {other:?}"),
        }
    }
    // A backtick is an operator for the server; the error comes one token later.
    let refused = ["~SELECT `id` FROM job"];
    compare(file, &refused, |statement| {
        shown(plan(statement, &schema).map(|plan| {
            let plan = plan.expect("a data statement");
            let enumeration = |ty: Type| match ty {
                Type::Enum(_) => "mood",
                ty => ty.name(),
            };
            let columns: Vec<String> = plan
                .columns
                .iter()
                .map(|c| format!("{} {}", c.name, enumeration(c.ty)))
                .collect();
            columns.join(", ")
        }))
    });
}

#[test]
fn programs_of_known_bugs_lower() {
    let file = include_str!("lowering/programs.txt");
    for block in file.split("\n\n").filter(|b| !b.trim().is_empty()) {
        let mut schema = Schema::default();
        for statement in block.lines().filter(|l| !l.starts_with('#')) {
            match plan(statement, &schema) {
                Ok(Some(Plan {
                    kind: PlanKind::Ddl(ddl),
                    ..
                })) => schema.apply(*ddl),
                Ok(_) => {}
                Err(error) if error.class == ErrorClass::Unsupported => {
                    panic!("{block}\n{statement}\n{error}")
                }
                Err(error) => panic!("{block}\n{statement}\n{error}"),
            }
        }
    }
}
