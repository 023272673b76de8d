//! `[[pinned]]`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rowlock_model::{Dialect, Isolation};

use super::parse::{Selector, granularity};
use super::process::{Context, check_isolation, check_statement, is_label};
use super::reader::{Reader, Table};
use super::{Body, Process, Program, Step, StepAction};
use crate::binding::Bound;
use crate::expr::Layout;
pub(super) use crate::pinned::Pinned;
use crate::pinned::{Expected, Final, Names, Observer, PinnedEvent, actions, outcomes};
use crate::source::Text;

/// Reads a `[[pinned]]` for one case; `None` if it gives no outcomes for it.
pub(super) fn pinned(
    mut table: Table<'_>,
    context: Context,
    declared: &[(Dialect, Vec<Isolation>)],
    processes: &[Process],
    observers: &[Observer],
    reader: &mut Reader,
) -> Option<Pinned> {
    let name = table.required_text(reader, "name");
    let schedule = table.required_text(reader, "schedule");
    if !table.has("outcome") {
        reader.problem(table.span.clone(), "a pinned schedule has no `outcome`");
    }
    let outcome = table.table(reader, "outcome", "outcome");
    let granularity = granularity(&mut table, reader).unwrap_or(context.granularity);
    let connect = table.text(reader, "connect");
    let levels = table.table(reader, "isolation", "isolation");
    let steps = table.tables(reader, "step", "a step");
    let finals = finals(&mut table, context.database, reader);
    let own = !steps.is_empty();
    if !own && (connect.is_some() || levels.is_some()) {
        let message = "`connect` and `isolation` here are for `[[pinned.step]]`";
        reader.problem(table.span.clone(), message);
    }
    table.finish(reader);

    let mut own_processes = Vec::new();
    if own {
        own_processes = processes_of_steps(steps, connect, levels, context, reader);
    } else if processes
        .iter()
        .any(|p| matches!(p.body, Body::Actor { .. }))
    {
        let span = schedule.as_ref().map_or(0..0, |s| s.span.clone());
        reader.problem(span, "a schedule of Rust actors cannot be pinned here");
        return None;
    }
    let processes = if own { &own_processes } else { processes };
    let names = Names {
        processes,
        observers,
    };
    let schedule = schedule?;
    let tokens = actions(&schedule, &names, &mut reader.problems);
    let mut expected = None;
    for item in outcome?.rest() {
        let key = Selector::parse(item.key, item.key_span.clone(), declared, reader);
        let texts: Vec<Text> = item
            .list(reader)
            .unwrap_or_default()
            .iter()
            .filter_map(|item| item.text(reader))
            .collect();
        if texts.len() != tokens.len() {
            let message = format!("{} outcomes for {} tokens", texts.len(), tokens.len());
            reader.problem(item.value.span(), message);
        }
        let parsed = outcomes(&texts, &names, &mut reader.problems);
        if key.is_some_and(|key| key.covers(context.database, context.isolation)) {
            expected = Some(parsed);
        }
    }
    let events =
        tokens
            .into_iter()
            .zip(expected?)
            .filter_map(|((token, span, action), expected)| {
                Some(PinnedEvent {
                    token,
                    span,
                    action: action?,
                    expected: expected?,
                })
            });
    let name = name?;
    Some(Pinned {
        name: name.text,
        span: name.span,
        isolation: context.isolation,
        granularity,
        events: events.collect(),
        processes: processes.to_vec(),
        finals,
        observers: observers.to_vec(),
    })
}

/// `[[observer]]`.
pub(super) fn observers(
    table: &mut Table<'_>,
    database: Dialect,
    reader: &mut Reader,
) -> Vec<Observer> {
    let mut found: Vec<Observer> = Vec::new();
    for mut table in table.tables(reader, "observer", "an observer") {
        let name = table.required_text(reader, "name");
        let sql = table.required_text(reader, "sql");
        table.finish(reader);
        let (Some(name), Some(sql)) = (name, sql) else {
            continue;
        };
        check_statement(&sql, database, reader);
        if !is_label(&name.text) {
            reader.problem(
                name.span,
                format!("`{}` cannot name an observer", name.text),
            );
        } else if found.iter().any(|known| known.name == name.text) {
            reader.problem(
                name.span,
                format!("two observers are named `{}`", name.text),
            );
        } else {
            found.push(Observer {
                name: name.text,
                sql,
            });
        }
    }
    found
}

fn finals(table: &mut Table<'_>, database: Dialect, reader: &mut Reader) -> Vec<Final> {
    let tables = table.tables(reader, "final", "a final query");
    let mut finals = Vec::new();
    for mut table in tables {
        let sql = table.required_text(reader, "sql");
        let rows = table.required_text(reader, "rows");
        let databases = super::process::parsed_list::<Dialect>(&mut table, "databases", reader);
        table.finish(reader);
        let (Some(sql), Some(rows)) = (sql, rows) else {
            continue;
        };
        check_statement(&sql, database, reader);
        let expected = Expected::parse(&rows.text);
        let wanted = databases.is_none_or(|list| list.iter().any(|(d, _)| *d == database));
        match expected {
            Ok(rows) if wanted => finals.push(Final { sql, rows }),
            Ok(_) => {}
            Err(message) => reader.problem(rows.span, message),
        }
    }
    finals
}

/// The processes of a schedule with steps of its own, in the order in which they first appear.
fn processes_of_steps(
    tables: Vec<Table<'_>>,
    connect: Option<Text>,
    levels: Option<Table<'_>>,
    context: Context,
    reader: &mut Reader,
) -> Vec<Process> {
    let mut order: Vec<Arc<str>> = Vec::new();
    let mut steps: BTreeMap<Arc<str>, (Vec<Step>, u8)> = BTreeMap::new();
    for table in tables {
        let Some((label, span, mut step)) = step(table, context.database, reader) else {
            continue;
        };
        if !order.contains(&label) {
            order.push(label.clone());
        }
        let (steps, sessions) = steps.entry(label.clone()).or_default();
        if step.name.is_empty() {
            step.name = format!("{label}{}", steps.len() + 1).into();
        }
        if steps.iter().any(|known| known.name == step.name) {
            reader.problem(span, format!("two steps are named `{}`", step.name));
        }
        *sessions = (*sessions).max(step.session + 1);
        steps.push(step);
    }
    let mut levels = own_levels(levels, &order, context.database, reader);
    let mut processes = Vec::new();
    for label in order {
        let (steps, sessions) = steps.remove(&label).unwrap_or_default();
        let program = Program {
            steps,
            vars: Vec::new(),
            repeat: false,
            until: None,
            layout: Layout::default(),
            reads_round: false,
            rounds: 0,
            cancels: 0,
            last_use: Vec::new(),
            var_spans: Vec::new(),
            vars_read: Default::default(),
        };
        processes.push(Process {
            label: label.clone(),
            group: label.clone(),
            sessions,
            isolation: levels.remove(&label).unwrap_or(context.isolation),
            connect: connect.clone(),
            skew_micros: 0,
            body: Body::Steps(Arc::new(program)),
            events: Arc::from([]),
        });
    }
    processes
}

fn own_levels(
    levels: Option<Table<'_>>,
    labels: &[Arc<str>],
    database: Dialect,
    reader: &mut Reader,
) -> BTreeMap<Arc<str>, Isolation> {
    let mut found = BTreeMap::new();
    for item in levels.map(|mut table| table.rest()).unwrap_or_default() {
        if !labels.iter().any(|label| **label == *item.key) {
            reader.problem(
                item.key_span.clone(),
                format!("no step is of `{}`", item.key),
            );
        }
        let Some(text) = item.text(reader) else {
            continue;
        };
        match text.text.parse::<Isolation>() {
            Ok(level) => {
                check_isolation(database, level, text.span, reader);
                found.insert(item.key.into(), level);
            }
            Err(error) => reader.problem(text.span, error.to_string()),
        }
    }
    found
}

/// A `[[pinned.step]]`: the label of its process, the place of its name, and the step (with an
/// empty name if the file gives none).
fn step(
    mut table: Table<'_>,
    database: Dialect,
    reader: &mut Reader,
) -> Option<(Arc<str>, Range<usize>, Step)> {
    let span = table.span.clone();
    let process = table.required_text(reader, "process");
    let name = table.text(reader, "name");
    let sql = table.text_of(reader, "sql", database);
    let batch = table.text_of(reader, "batch", database);
    let app = table.text(reader, "app");
    let close = table.is_true(reader, "close");
    let session = table.integer(reader, "session", 1..=8).unwrap_or(1) as u8 - 1;
    table.finish(reader);
    let action = match (sql, batch, app, close) {
        (Some(sql), None, None, false) => {
            check_statement(&sql, database, reader);
            StepAction::Sql(Bound::verbatim(sql))
        }
        (None, Some(batch), None, false) => StepAction::Batch(batch),
        (None, None, Some(app), false) => StepAction::App(app.text),
        (None, None, None, true) => StepAction::Close,
        _ => {
            reader.problem(
                span,
                "a pinned step has one of `sql`, `batch`, `app`, `close`",
            );
            return None;
        }
    };
    let process = process?;
    if !is_label(&process.text) {
        let message = format!("`{}` is not a process name", process.text);
        reader.problem(process.span.clone(), message);
    }
    let place = name.as_ref().map_or(span, |name| name.span.clone());
    if let Some(name) = &name
        && name.text.contains([':', '!', '/', ' ', '+', ';'])
    {
        reader.problem(place.clone(), format!("`{}` cannot name a step", name.text));
    }
    let step = Step {
        name: name.map_or("".into(), |name| name.text),
        action,
        when: None,
        set: Vec::new(),
        session,
        retry: Vec::new(),
        continue_on_error: true,
        cancel: false,
    };
    Some((process.text, place, step))
}
