//! `[[always]]`, `[[sometimes]]` and `[[at_end]]`.

use std::sync::Arc;

use rowlock_model::Dialect;

use super::process::{check_statement, no_such, result_slot};
use super::reader::{Reader, Table};
use super::{Body, Event, EventTest, Process, Program, Property, Query, Test, When};
use crate::binding::{bind, bindings};
use crate::expr::{self, Attribute, Kind, Name, Path};
use crate::source::{Problem, Text};

/// The processes of a case by group, while events are compiled for each of them.
pub(super) struct Groups {
    groups: Vec<Group>,
}

struct Group {
    name: Arc<str>,
    /// `None` for a Rust actor: it names its steps as it likes, and has no variables.
    program: Option<Program>,
    events: Vec<Event>,
}

impl Groups {
    pub(super) fn of(processes: &[Process]) -> Groups {
        let mut groups: Vec<Group> = Vec::new();
        for process in processes {
            if groups.iter().all(|group| group.name != process.group) {
                groups.push(Group {
                    name: process.group.clone(),
                    program: match &process.body {
                        Body::Steps(program) => Some((**program).clone()),
                        Body::Actor { .. } => None,
                    },
                    events: Vec::new(),
                });
            }
        }
        Groups { groups }
    }

    /// Gives the programs, which events may have made larger, and the events to the processes.
    pub(super) fn give_to(self, processes: &mut [Process]) {
        for group in self.groups {
            let program = group.program.map(Arc::new);
            let events: Arc<[Event]> = group.events.into();
            for process in processes.iter_mut().filter(|p| p.group == group.name) {
                if let (Body::Steps(body), Some(program)) = (&mut process.body, &program) {
                    *body = Arc::clone(program);
                }
                process.events = Arc::clone(&events);
            }
        }
    }
}

impl Group {
    fn has_step(&self, name: &str) -> bool {
        self.program.as_ref().is_none_or(|program| {
            name == ROLLBACK || program.steps.iter().any(|step| *step.name == *name)
        })
    }

    fn has_var(&self, name: &str) -> bool {
        let program = self.program.as_ref();
        program.is_some_and(|program| program.layout.vars.iter().any(|var| **var == *name))
    }

    fn has(&self, mentions: &Mentions) -> bool {
        mentions.steps.iter().all(|(name, _)| self.has_step(name))
            && mentions.vars.iter().all(|(name, _)| self.has_var(name))
            // An actor's earlier results are not kept.
            && (self.program.is_some() || mentions.steps.len() <= 1)
    }
}

/// The step that a retry sends by itself.
const ROLLBACK: &str = "rollback";

/// The texts of an event, all read with the eyes of one process.
struct Texts {
    event: Text,
    until: Option<Text>,
    per: Option<Text>,
    query: Option<Text>,
}

/// Reads a property of the kind `when`, which will be number `index` of its case.
pub(super) fn property(
    mut table: Table<'_>,
    when: When,
    index: usize,
    database: Dialect,
    groups: &mut Groups,
    reader: &mut Reader,
) -> Option<Property> {
    let span = table.span.clone();
    let name = table.required_text(reader, "name");
    let sql = table.text_of(reader, "sql", database);
    let event = table.text(reader, "event");
    if let Some(sql) = &sql {
        check_statement(sql, database, reader);
    }
    let test = match (sql, event) {
        (Some(sql), None) => {
            for binding in bindings(&sql.text, database) {
                let message = "a query has bindings only together with an `event`";
                reader.problem(sql.locate(binding), message);
            }
            Some(Test::Sql(sql))
        }
        (query, Some(event)) => {
            let test = event_test(
                &mut table, event, query, when, index, database, groups, reader,
            );
            test.map(Test::Event)
        }
        (None, None) => {
            reader.problem(span, "a property has `sql`, an `event`, or both");
            table.ignore(&["at_most", "at_least", "per", "until"]);
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

#[expect(
    clippy::too_many_arguments,
    reason = "one call, split off for its length"
)]
fn event_test(
    table: &mut Table<'_>,
    event: Text,
    query: Option<Text>,
    when: When,
    index: usize,
    database: Dialect,
    groups: &mut Groups,
    reader: &mut Reader,
) -> Option<EventTest> {
    let until_span = table.key_span("until");
    let counts = 0..=i64::from(u32::MAX - 1);
    let mut at_most = None;
    let mut at_least = None;
    let mut until = None;
    let mut per = None;
    if when != When::Sometimes {
        at_most = table.integer(reader, "at_most", counts.clone());
        per = table.text(reader, "per");
    }
    match when {
        When::Always => {
            until = table.text(reader, "until");
            at_most = at_most.or(Some(0));
        }
        When::AtEnd => {
            at_least = table.integer(reader, "at_least", counts);
            if at_most.is_none() && at_least.is_none() {
                let message = "an `event` here needs `at_most` or `at_least`";
                reader.problem(table.span.clone(), message);
            }
        }
        When::Sometimes => {}
    }
    if until.is_some() && (per.is_some() || query.is_some()) {
        let message = "`until` counts processes; it does not go with `per` or `sql`";
        reader.problem(until_span, message);
    }
    let texts = Texts {
        event,
        until,
        per,
        query,
    };
    let query = compile(&texts, index, database, groups, &mut reader.problems)?;
    let count = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok());
    Some(EventTest {
        query,
        has_end: texts.until.is_some(),
        at_least: count(at_least),
        at_most: count(at_most),
    })
}

/// Compiles an event for each group that has all the names in it. `None` if there is a problem.
fn compile(
    texts: &Texts,
    property: usize,
    database: Dialect,
    groups: &mut Groups,
    problems: &mut Vec<Problem>,
) -> Option<Option<Query>> {
    let begin = [Some(&texts.event), texts.per.as_ref()];
    let begin = Mentions::of(&begin, texts.query.as_ref(), database, problems)?;
    let end = Mentions::of(&[texts.until.as_ref()], None, database, problems)?;
    let mut query = None;
    let before = problems.len();
    for group in &mut groups.groups {
        if group.has(&begin) {
            let mut compiler = Compiler::new(&begin, group);
            let condition = compiler.expr(&texts.event, Kind::Bool, problems);
            let per = texts.per.as_ref();
            let per = per.and_then(|text| compiler.expr(text, Kind::Unknown, problems));
            let bound = texts.query.as_ref().map(|text| {
                let mut resolve = |first: &str, second: Option<&str>| {
                    let second = second.map(|s| (s.to_owned(), false));
                    compiler
                        .resolve(&Path { first, second })
                        .map(|(name, _)| name)
                };
                bind(text, database, &mut resolve, problems)
            });
            query = query.or_else(|| {
                bound.as_ref().map(|bound| Query {
                    text: bound.text.clone(),
                    sql: bound.sql.clone(),
                })
            });
            let args = bound.map_or(Vec::new(), |bound| bound.args);
            group.events.extend(condition.map(|condition| Event {
                property,
                ends: false,
                steps: begin.fires_after(),
                condition,
                per,
                args,
            }));
        }
        if let Some(until) = texts.until.as_ref().filter(|_| group.has(&end)) {
            let condition = Compiler::new(&end, group).expr(until, Kind::Bool, problems);
            group.events.extend(condition.map(|condition| Event {
                property,
                ends: true,
                steps: end.fires_after(),
                condition,
                per: None,
                args: Vec::new(),
            }));
        }
    }
    begin.check_somebody_has(groups, &texts.event, problems);
    if let Some(until) = &texts.until {
        end.check_somebody_has(groups, until, problems);
    }
    (problems.len() == before).then_some(query)
}

/// The names that an event mentions, with their places.
struct Mentions {
    steps: Vec<(String, std::ops::Range<usize>)>,
    vars: Vec<(String, std::ops::Range<usize>)>,
    /// It mentions `step`, or no step at all.
    any_step: bool,
}

impl Mentions {
    fn of(
        texts: &[Option<&Text>],
        query: Option<&Text>,
        database: Dialect,
        problems: &mut Vec<Problem>,
    ) -> Option<Mentions> {
        let mut found = Mentions {
            steps: Vec::new(),
            vars: Vec::new(),
            any_step: false,
        };
        let before = problems.len();
        for text in texts.iter().flatten() {
            // Places of names are found again when the event is compiled; here the text is enough.
            let parsed = expr::parse(text, Kind::Unknown, &mut |path| {
                found.add(path, &text.span);
                Ok((Name::Process, Kind::Unknown))
            });
            problems.extend(parsed.err());
        }
        if let Some(query) = query {
            let mut resolve = |first: &str, second: Option<&str>| {
                let second = second.map(|s| (s.to_owned(), false));
                found.add(&Path { first, second }, &query.span);
                Ok(Name::Process)
            };
            bind(query, database, &mut resolve, problems);
        }
        found.any_step |= found.steps.is_empty();
        (problems.len() == before).then_some(found)
    }

    fn add(&mut self, path: &Path<'_>, span: &std::ops::Range<usize>) {
        let list = match (&path.second, path.first) {
            (Some(_), "step") => {
                self.any_step = true;
                return;
            }
            (None, "process" | "round" | "now") => return,
            (Some(_), _) => &mut self.steps,
            (None, _) => &mut self.vars,
        };
        if list.iter().all(|(name, _)| name != path.first) {
            list.push((path.first.to_owned(), span.clone()));
        }
    }

    fn fires_after(&self) -> Vec<Arc<str>> {
        if self.any_step {
            return Vec::new();
        }
        self.steps
            .iter()
            .map(|(name, _)| name.as_str().into())
            .collect()
    }

    /// An event that no process can tell is a mistake.
    fn check_somebody_has(&self, groups: &Groups, text: &Text, problems: &mut Vec<Problem>) {
        if groups.groups.iter().any(|group| group.has(self)) {
            return;
        }
        let before = problems.len();
        for (kind, list) in [("step", &self.steps), ("variable", &self.vars)] {
            for (name, span) in list {
                let has = |group: &Group| match kind {
                    "step" => group.has_step(name),
                    _ => group.has_var(name),
                };
                if !groups.groups.iter().any(has) {
                    let message = no_such(kind, name, &groups.known(kind));
                    problems.push(Problem::new(place_of(text, name, span), message));
                }
            }
        }
        if problems.len() == before {
            let message = "no process has all the names in this event";
            problems.push(Problem::new(text.span.clone(), message));
        }
    }
}

impl Groups {
    fn known(&self, kind: &str) -> Vec<Arc<str>> {
        let programs = self
            .groups
            .iter()
            .filter_map(|group| group.program.as_ref());
        match kind {
            "step" => programs
                .flat_map(|p| p.steps.iter().map(|step| step.name.clone()))
                .collect(),
            _ => programs
                .flat_map(|p| p.layout.vars.iter().cloned())
                .collect(),
        }
    }
}

/// Where a name stands in a text of the property; the text if the name stands in another one.
fn place_of(text: &Text, name: &str, other: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    if *other != text.span {
        return other.clone();
    }
    let is_part = |c: Option<char>| c.is_some_and(expr::is_word);
    let found = text.text.match_indices(name).find(|(at, _)| {
        !is_part(text.text[..*at].chars().next_back())
            && !is_part(text.text[at + name.len()..].chars().next())
    });
    found.map_or(other.clone(), |(at, _)| text.locate(at..at + name.len()))
}

/// Gives names their meaning for one group.
struct Compiler<'a> {
    group: &'a mut Group,
    /// Results that the event reads are kept until the last step after which it is asked.
    last_use: usize,
}

impl Compiler<'_> {
    fn new<'a>(mentions: &Mentions, group: &'a mut Group) -> Compiler<'a> {
        let mut last_use = usize::MAX;
        if let (Some(program), false) = (&group.program, mentions.any_step) {
            let index = |name: &str| program.steps.iter().position(|s| *s.name == *name);
            let indices = mentions.steps.iter().filter_map(|(name, _)| index(name));
            last_use = indices.max().unwrap_or(0);
        }
        Compiler { group, last_use }
    }

    fn expr(
        &mut self,
        text: &Text,
        wanted: Kind,
        problems: &mut Vec<Problem>,
    ) -> Option<expr::Expr> {
        let parsed = expr::parse(text, wanted, &mut |path| self.resolve(path));
        parsed.map_err(|problem| problems.push(problem)).ok()
    }

    fn resolve(&mut self, path: &Path<'_>) -> Result<(Name, Kind), String> {
        let Some((attribute, quoted)) = &path.second else {
            return self.resolve_single(path.first);
        };
        let of_step = path.first == "step";
        let attribute = Attribute::named(attribute, *quoted, of_step);
        let kind = attribute.kind();
        let Some(program) = self.group.program.as_mut().filter(|_| !of_step) else {
            return Ok((Name::Done(attribute), kind));
        };
        let Some(step) = program.steps.iter().position(|s| *s.name == *path.first) else {
            // `rollback`, which is not among the steps.
            return Ok((Name::Done(attribute), kind));
        };
        let slot = result_slot(
            &mut program.layout,
            &mut program.last_use,
            step,
            attribute,
            self.last_use,
        );
        Ok((Name::Result(slot), kind))
    }

    fn resolve_single(&mut self, name: &str) -> Result<(Name, Kind), String> {
        match (name, &mut self.group.program) {
            ("process", _) => Ok((Name::Process, Kind::Text)),
            ("now", _) => Err("an event cannot read the clock".into()),
            ("round", Some(program)) => {
                program.reads_round = true;
                Ok((Name::Round, Kind::Number))
            }
            ("round", None) => Err("a process with an `actor` has no rounds".into()),
            (_, Some(program)) => {
                let slot = program.layout.vars.iter().position(|var| **var == *name);
                let slot = slot.ok_or_else(|| no_such("variable", name, &program.layout.vars))?;
                program.vars_read.insert(slot);
                Ok((Name::Var(slot), Kind::Unknown))
            }
            (_, None) => Err(no_such("variable", name, &[])),
        }
    }
}
