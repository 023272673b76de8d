//! The file as a whole: top level, variants, cases, expectations.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rowlock_model::schedule::Granularity;
use rowlock_model::verdict::Bounds;
use rowlock_model::{Dialect, Guarantee, Isolation};
use toml::de::DeTable;

use super::levels::databases;
use super::process::{Context, parsed_list, processes};
use super::property::{Groups, property};
use super::reader::{Reader, Table, nearest};
use super::{Body, Case, Expectation, Process, Program, Property, Scenario, When, pinned};
use crate::source::{FileError, Problem, Source};

/// Keys that a variant may replace.
const VARIANT_KEYS: [&str; 15] = [
    "databases",
    "isolation",
    "setup",
    "bounds",
    "granularity",
    "pooler",
    "contention",
    "guarantees",
    "process",
    "always",
    "sometimes",
    "at_end",
    "observer",
    "pinned",
    "expect",
];

pub(super) fn scenario(source: Source) -> Result<Scenario, FileError> {
    let text = source.text.clone();
    let (document, errors) = DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        let problems = errors.iter().map(|error| {
            let span = error.span().unwrap_or(0..0);
            Problem::new(span, error.message())
        });
        return Err(FileError::new(source, problems.collect()));
    }
    let mut reader = Reader {
        source,
        problems: Vec::new(),
    };
    let top = Table::new("a scenario", document.get_ref(), 0..0);
    let scenario = file(top, &mut reader);
    match scenario {
        Some(scenario) if reader.problems.is_empty() => Ok(scenario),
        _ => Err(FileError::new(reader.source, reader.problems)),
    }
}

fn file(mut top: Table<'_>, reader: &mut Reader) -> Option<Scenario> {
    let title = top.required_text(reader, "title");
    let description = top.text(reader, "description");
    let sources = top.texts(reader, "source").unwrap_or_default();
    let variants = top.tables(reader, "variant", "a variant");
    // The databases may all be in the variants.
    let mut all = vec![(None, top.clone(), variants.is_empty())];
    for mut variant in variants {
        let name = variant.required_text(reader, "name");
        let description = variant.text(reader, "description");
        let merged = top.overridden(&variant, &VARIANT_KEYS, &["pinned", "expect"]);
        // Only the keys that a variant may have; what they hold is read with the merged table.
        let mut known = variant.clone();
        known.ignore(&VARIANT_KEYS);
        known.finish(reader);
        if let Some(name) = name {
            all.push((Some((name, description)), merged, variant.has("isolation")));
        }
    }
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    for (variant, table, has_own_levels) in all {
        let mut header = (Arc::from(""), Arc::from(""));
        if let Some((name, description)) = variant {
            if !names.insert(name.text.clone()) || name.text.is_empty() {
                let message = format!("two variants are named `{}`", name.text);
                reader.problem(name.span, message);
            }
            header = (name.text, description.map_or("".into(), |d| d.text));
        }
        cases.extend(cases_of(header, table, has_own_levels, reader));
    }
    if cases.is_empty() && reader.problems.is_empty() {
        reader.problem(0..0, "nothing to do: no process and no pinned schedule");
    }
    Some(Scenario {
        source: reader.source.clone(),
        title: title?.text,
        description: description.map_or("".into(), |d| d.text),
        sources: sources.into_iter().map(|s| s.text).collect(),
        cases,
    })
}

/// The cases of one variant.
fn cases_of(
    header: (Arc<str>, Arc<str>),
    mut table: Table<'_>,
    has_own_levels: bool,
    reader: &mut Reader,
) -> Vec<Case> {
    let whole = table.clone();
    let databases = databases(&mut table, has_own_levels, reader);
    let empty = !whole.has("process") && !whole.has("pinned");
    let mut cases = Vec::new();
    for (database, levels) in &databases {
        for isolation in levels {
            let case = case(
                header.clone(),
                whole.clone(),
                *database,
                *isolation,
                &databases,
                reader,
            );
            // A top level that only serves its variants is not a case.
            cases.extend(case.filter(|_| !empty));
        }
    }
    cases
}

fn case(
    (variant, description): (Arc<str>, Arc<str>),
    mut table: Table<'_>,
    database: Dialect,
    isolation: Isolation,
    declared: &[(Dialect, Vec<Isolation>)],
    reader: &mut Reader,
) -> Option<Case> {
    table.ignore(&["databases", "isolation"]);
    let setup = table.text_of(reader, "setup", database);
    let bounds = bounds(&mut table, reader);
    let granularity = granularity(&mut table, reader).unwrap_or_default();
    let pooler = table.integer(reader, "pooler", 0..=8).unwrap_or(0) as u8;
    let contention = table.text(reader, "contention");
    if let Some(contention) = contention.as_ref().filter(|c| &*c.text != "none") {
        let message = format!("`{}` is not `none`", contention.text);
        reader.problem(contention.span.clone(), message);
    }
    let guarantees = parsed_list::<Guarantee>(&mut table, "guarantees", reader);
    let guarantees = guarantees.unwrap_or_default().into_iter();
    let context = Context {
        database,
        isolation,
        rounds: bounds.rounds,
        cancels: bounds.cancels,
        granularity,
    };
    let problems_before = reader.problems.len();
    let tables = table.tables(reader, "process", "a process");
    let mut processes: Vec<Process> = tables
        .into_iter()
        .flat_map(|table| processes(table, context, reader))
        .collect();
    check_labels(&processes, &mut table, reader);
    if pooler > 0 {
        check_pooled(&processes, database, isolation, &mut table, reader);
    }
    // Names that are missing because their process has a mistake are not worth a second message.
    let processes_are_right = reader.problems.len() == problems_before;
    let properties = if processes_are_right {
        properties(&mut table, database, &mut processes, reader)
    } else {
        table.ignore(&["always", "sometimes", "at_end"]);
        Vec::new()
    };
    let pinned = if processes_are_right {
        pinned_schedules(&mut table, context, declared, &processes, reader)
    } else {
        table.ignore(&["pinned", "observer"]);
        Vec::new()
    };
    // A property that could not be read is not missing.
    let check = reader.problems.len() == problems_before && !processes.is_empty();
    let expect = expectations(&mut table, context, declared, &properties, check, reader);
    table.finish(reader);
    Some(Case {
        variant,
        description,
        database,
        isolation,
        setup,
        bounds,
        granularity,
        pooler,
        needs_contention: contention.is_none(),
        guarantees: guarantees.map(|(guarantee, _)| guarantee).collect(),
        processes,
        properties,
        pinned,
        expect,
    })
}

/// `granularity`.
pub(super) fn granularity(table: &mut Table<'_>, reader: &mut Reader) -> Option<Granularity> {
    let text = table.text(reader, "granularity")?;
    let parsed = text.text.parse::<Granularity>();
    parsed
        .map_err(|message| reader.problem(text.span, message))
        .ok()
}

fn bounds(table: &mut Table<'_>, reader: &mut Reader) -> Bounds {
    let mut bounds = Bounds::default();
    let Some(mut table) = table.table(reader, "bounds", "bounds") else {
        return bounds;
    };
    let fields = [
        ("crashes", &mut bounds.crashes),
        ("kills", &mut bounds.kills),
        ("losses", &mut bounds.losses),
        ("clock", &mut bounds.clock),
        ("cancels", &mut bounds.cancels),
        ("rounds", &mut bounds.rounds),
    ];
    for (key, field) in fields {
        *field = table.integer(reader, key, 0..=1000).unwrap_or(0) as u32;
    }
    table.finish(reader);
    bounds
}

fn check_labels(processes: &[Process], table: &mut Table<'_>, reader: &mut Reader) {
    let mut labels = BTreeSet::new();
    for process in processes {
        if !labels.insert(&process.label) {
            let message = format!("two processes are labelled `{}`", process.label);
            reader.problem(table.span.clone(), message);
        }
    }
}

/// Behind a pooler a session has nothing of its own.
fn check_pooled(
    processes: &[Process],
    database: Dialect,
    isolation: Isolation,
    table: &mut Table<'_>,
    reader: &mut Reader,
) {
    if database != Dialect::Postgres {
        let message = format!("there is no pooler for {database}");
        reader.problem(table.span.clone(), message);
    }
    for process in processes {
        let label = &process.label;
        if let Some(connect) = &process.connect {
            let message = format!("`connect` of `{label}` would prepare any session of the pooler");
            reader.problem(connect.span.clone(), message);
        }
        if process.isolation != isolation {
            let message = format!("`{label}` has another level than the sessions of the pooler");
            reader.problem(table.span.clone(), message);
        }
    }
}

fn properties(
    table: &mut Table<'_>,
    database: Dialect,
    processes: &mut [Process],
    reader: &mut Reader,
) -> Vec<Property> {
    let mut groups = Groups::of(processes);
    let mut found: Vec<Property> = Vec::new();
    let kinds = [
        ("always", "an `always`", When::Always),
        ("sometimes", "a `sometimes`", When::Sometimes),
        ("at_end", "an `at_end`", When::AtEnd),
    ];
    for (key, what, when) in kinds {
        for table in table.tables(reader, key, what) {
            let index = found.len();
            let Some(property) = property(table, when, index, database, &mut groups, reader) else {
                continue;
            };
            if found.iter().any(|known| known.name == property.name) {
                let message = format!("two properties are named `{}`", property.name);
                reader.problem(property.span.clone(), message);
            }
            found.push(property);
        }
    }
    groups.give_to(processes);
    for process in processes.iter() {
        if let Body::Steps(program) = &process.body {
            check_variables(program, reader);
        }
    }
    found
}

/// A variable that nothing reads is a typing error or left over.
fn check_variables(program: &Program, reader: &mut Reader) {
    for (slot, name) in program.layout.vars.iter().enumerate() {
        if !program.vars_read.contains(&slot) {
            let span = program.var_spans[slot].clone();
            reader.problem(span, format!("variable `{name}` is never read"));
        }
    }
}

fn pinned_schedules(
    table: &mut Table<'_>,
    context: Context,
    declared: &[(Dialect, Vec<Isolation>)],
    processes: &[Process],
    reader: &mut Reader,
) -> Vec<pinned::Pinned> {
    let mut found: Vec<pinned::Pinned> = Vec::new();
    let observers = pinned::observers(table, context.database, reader);
    for table in table.tables(reader, "pinned", "a pinned schedule") {
        let pinned = pinned::pinned(table, context, declared, processes, &observers, reader);
        let Some(pinned) = pinned else {
            continue;
        };
        if found.iter().any(|known| known.name == pinned.name) {
            let message = format!("two pinned schedules are named `{}`", pinned.name);
            reader.problem(pinned.span.clone(), message);
        }
        found.push(pinned);
    }
    found
}

/// A key of `outcome` or `expect`: one or several databases, each with or without a level.
pub(super) struct Selector {
    parts: Vec<(Dialect, Option<Isolation>)>,
}

impl Selector {
    pub(super) fn parse(
        key: &str,
        span: Range<usize>,
        declared: &[(Dialect, Vec<Isolation>)],
        reader: &mut Reader,
    ) -> Option<Selector> {
        let mut parts = Vec::new();
        for part in key.split(',').map(str::trim) {
            match Selector::part(part, declared) {
                Ok(part) => parts.push(part),
                Err(message) => reader.problem(span.clone(), message),
            }
        }
        (!parts.is_empty()).then_some(Selector { parts })
    }

    fn part(
        part: &str,
        declared: &[(Dialect, Vec<Isolation>)],
    ) -> Result<(Dialect, Option<Isolation>), String> {
        let (name, level) = match part.split_once('/') {
            Some((name, level)) => (name, Some(level)),
            None => (part, None),
        };
        let database: Dialect = name.parse().map_err(|e| format!("{e}"))?;
        let level: Option<Isolation> = match level {
            Some(level) => Some(level.parse().map_err(|e| format!("{e}"))?),
            None => None,
        };
        let Some((_, levels)) = declared.iter().find(|(d, _)| *d == database) else {
            return Err(format!("`{name}` is not among the `databases`"));
        };
        match level {
            Some(level) if !levels.contains(&level) => Err(format!(
                "`{level}` is not among the levels that are checked on {database}"
            )),
            _ => Ok((database, level)),
        }
    }

    /// Without a level: every level of the database.
    pub(super) fn covers(&self, database: Dialect, isolation: Isolation) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|(d, level)| *d == database && level.is_none_or(|level| level == isolation))
    }
}

fn expectations(
    table: &mut Table<'_>,
    context: Context,
    declared: &[(Dialect, Vec<Isolation>)],
    properties: &[Property],
    check: bool,
    reader: &mut Reader,
) -> Expectation {
    let table = table.table(reader, "expect", "expect");
    let mut found: Option<Expectation> = None;
    for item in table.map(|mut table| table.rest()).unwrap_or_default() {
        let selector = Selector::parse(item.key, item.key_span.clone(), declared, reader);
        let Some(text) = item.text(reader) else {
            continue;
        };
        let value = match expectation(&text.text, properties, check) {
            Ok(value) => value,
            Err(message) => {
                reader.problem(text.span, message);
                continue;
            }
        };
        if selector.is_some_and(|s| s.covers(context.database, context.isolation)) {
            if found.is_some() {
                let message = format!(
                    "a second expectation for {}/{}",
                    context.database, context.isolation
                );
                reader.problem(item.key_span, message);
            }
            found = Some(value);
        }
    }
    found.unwrap_or(Expectation::Holds)
}

/// Properties that the explorer checks without being asked.
const BUILT_IN: [&str; 1] = ["stuck"];

fn expectation(
    text: &str,
    properties: &[Property],
    check_name: bool,
) -> Result<Expectation, String> {
    Ok(match text {
        "holds" => Expectation::Holds,
        "vacuous" => Expectation::Vacuous,
        "incomplete" => Expectation::Incomplete,
        "unsupported" => Expectation::Unsupported,
        _ => {
            let name = text.strip_prefix("violated: ").ok_or_else(|| {
                format!(
                    "`{text}` is not a verdict; write holds, violated: NAME, vacuous, incomplete or unsupported"
                )
            })?;
            let mut names: Vec<&str> = properties.iter().map(|p| &*p.name).collect();
            names.extend(BUILT_IN);
            names.extend(Guarantee::ALL.map(Guarantee::name));
            names.extend(rowlock_model::claim::promise::ALL);
            names.extend(rowlock_model::guard::promise::ALL);
            names.extend(rowlock_model::paths::promise::ALL);
            if check_name && !names.contains(&name) {
                return Err(match nearest(name, &names) {
                    Some(near) => {
                        format!("there is no property `{name}`; did you mean `{near}`?")
                    }
                    None => format!("there is no property `{name}`"),
                });
            }
            Expectation::Violated(name.into())
        }
    })
}
