//! `[[always]]`, `[[sometimes]]` and `[[at_end]]`.

use std::sync::Arc;

use rowlock_model::Dialect;

use super::process::{check_statement, no_such};
use super::reader::{Reader, Table};
use super::{Body, EventExpr, EventTest, Process, Property, Test, When};
use crate::binding::bindings;
use crate::expr::{self, Attribute, Kind, Name, Path};
use crate::source::Text;

/// The names that an event of a case may use.
pub(super) struct Names {
    steps: Vec<Arc<str>>,
    vars: Vec<Arc<str>>,
    /// A Rust actor names its steps as it likes, so any name may be one.
    open: bool,
}

impl Names {
    pub(super) fn of(processes: &[Process]) -> Names {
        let mut names = Names {
            steps: Vec::new(),
            vars: Vec::new(),
            open: false,
        };
        for process in processes {
            match &process.body {
                Body::Steps(program) => {
                    names
                        .steps
                        .extend(program.steps.iter().map(|s| s.name.clone()));
                    names.vars.extend(program.layout.vars.iter().cloned());
                }
                Body::Actor { .. } => names.open = true,
            }
        }
        names.steps.push("rollback".into());
        names
    }
}

/// Reads a property of the kind `when`. Adds the variables that it reads to `vars_read`.
pub(super) fn property(
    mut table: Table<'_>,
    when: When,
    database: Dialect,
    names: &Names,
    vars_read: &mut Vec<Arc<str>>,
    reader: &mut Reader,
) -> Option<Property> {
    let span = table.span.clone();
    let name = table.required_text(reader, "name");
    let sql = table.text(reader, "sql");
    let event = table.text(reader, "event");
    let test = match (sql, event) {
        (Some(sql), None) => {
            check_statement(&sql, database, reader);
            for binding in bindings(&sql.text, database) {
                let message = "the query of a property has no bindings";
                reader.problem(sql.locate(binding), message);
            }
            Some(Test::Sql(sql))
        }
        (None, Some(event)) => {
            event_test(&mut table, &event, when, names, vars_read, reader).map(Test::Event)
        }
        _ => {
            reader.problem(span.clone(), "a property has either `sql` or `event`");
            None
        }
    };
    table.finish(reader);
    let name = name?;
    Some(Property {
        name: name.text,
        when,
        test: test?,
        span: name.span,
    })
}

fn event_test(
    table: &mut Table<'_>,
    event: &Text,
    when: When,
    names: &Names,
    vars_read: &mut Vec<Arc<str>>,
    reader: &mut Reader,
) -> Option<EventTest> {
    let until_span = table.key_span("until");
    let limits = 0..=i64::from(u32::MAX - 1);
    let at_most = (when != When::Sometimes)
        .then(|| table.integer(reader, "at_most", limits.clone()))
        .flatten();
    let at_least = (when == When::AtEnd)
        .then(|| table.integer(reader, "at_least", limits))
        .flatten();
    let until = (when == When::Always)
        .then(|| table.text(reader, "until"))
        .flatten();
    let per = (when != When::Sometimes)
        .then(|| table.text(reader, "per"))
        .flatten();
    let missing = match when {
        When::Always => at_most.is_none().then_some("`at_most`"),
        When::AtEnd => {
            (at_most.is_none() && at_least.is_none()).then_some("`at_most` or `at_least`")
        }
        When::Sometimes => None,
    };
    if let Some(missing) = missing {
        reader.problem(
            table.span.clone(),
            format!("an `event` here needs {missing}"),
        );
    }
    if until.is_some() && per.is_some() {
        reader.problem(
            until_span,
            "`until` counts processes, `per` values: not both",
        );
    }
    let mut step = None;
    let mut parse = |text: &Text, wanted, step: &mut Option<Option<Arc<str>>>| {
        let parsed = expr::parse(text, wanted, &mut |path| {
            resolve(path, names, step, vars_read)
        });
        parsed.map_err(|problem| reader.problems.push(problem)).ok()
    };
    let condition = parse(event, Kind::Bool, &mut step)?;
    let per = per.map(|text| parse(&text, Kind::Unknown, &mut step));
    let until = until.map(|text| {
        let mut step = None;
        let condition = parse(&text, Kind::Bool, &mut step)?;
        let step = step.flatten();
        Some(EventExpr { step, condition })
    });
    let count = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok());
    Some(EventTest {
        event: EventExpr {
            step: step.flatten(),
            condition,
        },
        until: until.map_or(Some(None), |until| until.map(Some))?,
        per: per.map_or(Some(None), |per| per.map(Some))?,
        at_least: count(at_least),
        at_most: count(at_most),
    })
}

/// The meaning of a name in an event. `step` is the step that the event is about: not yet known,
/// any (`step.name`), or one by name.
fn resolve(
    path: &Path<'_>,
    names: &Names,
    step: &mut Option<Option<Arc<str>>>,
    vars_read: &mut Vec<Arc<str>>,
) -> Result<(Name, Kind), String> {
    let Some((attribute, quoted)) = &path.second else {
        return match path.first {
            "process" => Ok((Name::Process, Kind::Text)),
            "round" => {
                // A process keeps its round only if somebody reads it.
                vars_read.push("round".into());
                Ok((Name::Round, Kind::Number))
            }
            var if names.vars.iter().any(|known| **known == *var) => {
                vars_read.push(var.into());
                Ok((Name::DoneVar(var.into()), Kind::Unknown))
            }
            other => Err(no_such("variable", other, &names.vars)),
        };
    };
    let named = match path.first {
        "step" => None,
        name if names.open || names.steps.iter().any(|known| **known == *name) => {
            Some(Arc::from(name))
        }
        other => return Err(no_such("step", other, &names.steps)),
    };
    match step {
        Some(known) if *known != named => {
            return Err(format!(
                "an event is about one step; this one is about `{}` already",
                known.as_deref().unwrap_or("step")
            ));
        }
        _ => *step = Some(named),
    }
    let attribute = Attribute::named(attribute, *quoted, true);
    let kind = attribute.kind();
    Ok((Name::Done(attribute), kind))
}
