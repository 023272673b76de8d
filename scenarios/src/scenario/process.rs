//! `[[process]]` and its steps: names resolved, SQL bound for one database.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use rowlock_model::schedule::Granularity;
use rowlock_model::{Dialect, ErrorClass, Isolation, Value};

use super::reader::{Reader, Table, duration, nearest};
use super::{Body, Process, Program, Step, StepAction};
use crate::binding::{bind, bindings};
use crate::expr::{self, Attribute, Kind, Layout, Name, Path, is_word, is_word_start};
use crate::source::Text;

/// Words that cannot name a step or a variable, because expressions or schedules use them.
const RESERVED: [&str; 20] = [
    "process", "round", "now", "step", "rollback", "crash", "notice", "kill", "deadlock", "expire",
    "resume", "continue", "late", "and", "or", "not", "is", "true", "false", "null",
];

/// What a case gives to its processes.
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub(super) database: Dialect,
    pub(super) isolation: Isolation,
    pub(super) rounds: u32,
    pub(super) cancels: u32,
    pub(super) granularity: Granularity,
}

/// Reads a `[[process]]`: as many processes as its `count`.
pub(super) fn processes(
    mut table: Table<'_>,
    context: Context,
    reader: &mut Reader,
) -> Vec<Process> {
    let name = table.required_text(reader, "name");
    let count = table.integer(reader, "count", 1..=16).unwrap_or(1);
    let sessions = table.integer(reader, "sessions", 1..=8).unwrap_or(1) as u8;
    let isolation = table
        .has("isolation")
        .then(|| isolation(&mut table, context.database, reader));
    let isolation = isolation.flatten().unwrap_or(context.isolation);
    let connect = table.text_of(reader, "connect", context.database);
    let skew_micros = table
        .text(reader, "skew")
        .and_then(|text| skew(&text, reader))
        .unwrap_or(0);
    let body = body(&mut table, sessions, context, reader);
    table.finish(reader);
    let (Some(name), Some(body)) = (name, body) else {
        return Vec::new();
    };
    if !is_label(&name.text) {
        let message = format!("`{}` is not a process name", name.text);
        reader.problem(name.span.clone(), message);
    }
    let label = |i: i64| match count {
        1 => name.text.clone(),
        _ => format!("{}-{i}", name.text).into(),
    };
    (1..=count)
        .map(|i| Process {
            label: label(i),
            group: name.text.clone(),
            sessions,
            isolation,
            connect: connect.clone(),
            skew_micros,
            body: body.clone(),
            events: Arc::from([]),
        })
        .collect()
}

/// Letters, digits, `_` and `-`, beginning with a letter.
pub(super) fn is_label(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// A level that the database has.
fn isolation(table: &mut Table<'_>, database: Dialect, reader: &mut Reader) -> Option<Isolation> {
    let span = table.key_span("isolation");
    let level = table.named::<Isolation>(reader, "isolation")?;
    check_isolation(database, level, span, reader);
    Some(level)
}

/// SQLite has one level; everything is serializable there.
pub(super) fn check_isolation(
    database: Dialect,
    level: Isolation,
    span: Range<usize>,
    reader: &mut Reader,
) {
    if database == Dialect::Sqlite && level != Isolation::Serializable {
        reader.problem(span, format!("sqlite has no isolation level `{level}`"));
    }
}

fn skew(text: &Text, reader: &mut Reader) -> Option<i64> {
    let (sign, rest) = match text.text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => (0, ""),
    };
    match duration(rest) {
        Ok(by) if sign != 0 => i64::try_from(by.as_micros()).ok().map(|by| sign * by),
        _ => {
            let message = format!("`{}` is not a skew; write `+20s` or `-500ms`", text.text);
            reader.problem(text.span.clone(), message);
            None
        }
    }
}

fn body(
    table: &mut Table<'_>,
    sessions: u8,
    context: Context,
    reader: &mut Reader,
) -> Option<Body> {
    let span = table.span.clone();
    let actor = table.text(reader, "actor");
    let params = table.table(reader, "params", "params");
    let vars = table.table(reader, "vars", "vars");
    let repeat = table.boolean(reader, "repeat").unwrap_or(false);
    let until_span = table.key_span("until");
    let until = table.text(reader, "until");
    let steps = table.tables(reader, "step", "a step");
    if let Some(name) = actor {
        if !steps.is_empty() || vars.is_some() || repeat || until.is_some() {
            let message = "a process has an `actor` or steps, not both";
            reader.problem(name.span.clone(), message);
        }
        let params = constants(params, reader);
        return Some(Body::Actor { name, params });
    }
    if let Some(params) = params {
        reader.problem(params.span, "`params` are for an `actor`");
    }
    if steps.is_empty() {
        reader.problem(span, "a process has steps or an `actor`");
        return None;
    }
    if until.is_some() && !repeat {
        reader.problem(until_span, "`until` is for a process with `repeat = true`");
    }
    let mut scope = Scope::new(vars, sessions, reader);
    let steps = scope.steps(steps, context.database, reader);
    let cancellable = steps.iter().any(|step| step.cancel);
    let until =
        until.and_then(|text| scope.expr(&text, Kind::Bool, usize::MAX, usize::MAX, reader));
    Some(Body::Steps(Arc::new(Program {
        steps,
        vars: scope.values,
        repeat,
        until,
        layout: scope.layout,
        last_use: scope.last_use,
        var_spans: scope.var_spans,
        vars_read: scope.vars_read,
        reads_round: scope.reads_round,
        rounds: context.rounds,
        cancels: if cancellable { context.cancels } else { 0 },
    })))
}

pub(super) fn constants(
    table: Option<Table<'_>>,
    reader: &mut Reader,
) -> BTreeMap<Arc<str>, Value> {
    let items = table.map(|mut table| table.rest()).unwrap_or_default();
    let read = items
        .into_iter()
        .filter_map(|item| Some((item.key.into(), item.constant(reader)?)));
    read.collect()
}

/// The names that the expressions and bindings of a process may use.
pub(super) struct Scope {
    layout: Layout,
    values: Vec<Value>,
    var_spans: Vec<Range<usize>>,
    vars_read: BTreeSet<usize>,
    last_use: Vec<usize>,
    reads_round: bool,
    names: Vec<Arc<str>>,
    sessions: u8,
}

impl Scope {
    pub(super) fn new(vars: Option<Table<'_>>, sessions: u8, reader: &mut Reader) -> Scope {
        let mut scope = Scope {
            layout: Layout::default(),
            values: Vec::new(),
            var_spans: Vec::new(),
            vars_read: BTreeSet::new(),
            last_use: Vec::new(),
            reads_round: false,
            names: Vec::new(),
            sessions,
        };
        for item in vars.map(|mut table| table.rest()).unwrap_or_default() {
            let value = item.constant(reader).unwrap_or(Value::Null);
            scope.var(item.key, item.key_span, value, reader);
        }
        scope
    }

    /// The slot of a variable that is given or set.
    fn var(&mut self, name: &str, span: Range<usize>, first: Value, reader: &mut Reader) -> usize {
        check_name(name, &span, "a variable", reader);
        if let Some(slot) = self.layout.vars.iter().position(|var| **var == *name) {
            return slot;
        }
        self.layout.vars.push(name.into());
        self.values.push(first);
        self.var_spans.push(span);
        self.layout.vars.len() - 1
    }

    /// Reads the steps: first all names, because every step may name the ones before it.
    pub(super) fn steps(
        &mut self,
        tables: Vec<Table<'_>>,
        database: Dialect,
        reader: &mut Reader,
    ) -> Vec<Step> {
        let mut named = Vec::new();
        for (i, mut table) in tables.into_iter().enumerate() {
            let given = table.text(reader, "name");
            let span = given
                .as_ref()
                .map_or(table.span.clone(), |n| n.span.clone());
            let name: Arc<str> = match given {
                Some(given) => given.text,
                None => format!("step{}", i + 1).into(),
            };
            check_name(&name, &span, "a step", reader);
            if self.names.contains(&name) {
                reader.problem(span, format!("two steps are named `{name}`"));
            }
            self.names.push(name.clone());
            let set = table.table(reader, "set", "set");
            let set: Vec<(usize, Option<Text>)> = set
                .map(|mut set| set.rest())
                .unwrap_or_default()
                .into_iter()
                .map(|item| {
                    let text = item.text(reader);
                    (self.var(item.key, item.key_span, Value::Null, reader), text)
                })
                .collect();
            named.push((name, table, set));
        }
        let mut steps = Vec::new();
        for (i, (name, table, set)) in named.into_iter().enumerate() {
            steps.extend(self.step(i, name, table, set, database, reader));
        }
        steps
    }

    fn step(
        &mut self,
        index: usize,
        name: Arc<str>,
        mut table: Table<'_>,
        set: Vec<(usize, Option<Text>)>,
        database: Dialect,
        reader: &mut Reader,
    ) -> Option<Step> {
        let when = table.text(reader, "when");
        let when = when.and_then(|text| self.expr(&text, Kind::Bool, index, index, reader));
        let session_span = table.key_span("session");
        let session = table.integer(reader, "session", 1..=8).unwrap_or(1) as u8;
        if session > self.sessions {
            let message = format!("the process has no session {session}; set `sessions`");
            reader.problem(session_span, message);
        }
        let action = self.action(index, &mut table, database, reader);
        let set = set
            .into_iter()
            .filter_map(|(slot, text)| {
                // A step's own result is known by then.
                Some((
                    slot,
                    self.expr(&text?, Kind::Unknown, index + 1, index, reader)?,
                ))
            })
            .collect();
        let retry = table.texts(reader, "retry").unwrap_or_default();
        let retry = retry
            .iter()
            .filter_map(|text| error_class(text, reader))
            .collect();
        let on_error = table.text(reader, "on_error");
        let continue_on_error = match on_error.as_ref().map(|text| &*text.text) {
            None | Some("stop") => false,
            Some("continue") => true,
            Some(other) => {
                let message = format!("`{other}` is neither `stop` nor `continue`");
                reader.problem(on_error.map_or(0..0, |text| text.span), message);
                false
            }
        };
        let cancel_span = table.key_span("cancel");
        let cancel = table.boolean(reader, "cancel").unwrap_or(false);
        let sends = matches!(action, Some(StepAction::Sql(_) | StepAction::Batch(_)));
        if cancel && !sends && action.is_some() {
            reader.problem(cancel_span, "`cancel` is for a step with `sql` or `batch`");
        }
        table.finish(reader);
        Some(Step {
            name,
            action: action?,
            when,
            set,
            session: session - 1,
            retry,
            continue_on_error,
            cancel,
        })
    }

    fn action(
        &mut self,
        index: usize,
        table: &mut Table<'_>,
        database: Dialect,
        reader: &mut Reader,
    ) -> Option<StepAction> {
        let given: Vec<&str> = ["sql", "batch", "sleep", "app", "close"]
            .into_iter()
            .filter(|key| table.has(key))
            .collect();
        if given.len() != 1 {
            let message = match given[..] {
                [] => "a step has one of `sql`, `batch`, `sleep`, `app`, `close`".to_owned(),
                [one, two, ..] => format!("a step has `{one}` or `{two}`, not both"),
                _ => String::new(),
            };
            reader.problem(table.span.clone(), message);
        }
        let sql = table.text_of(reader, "sql", database);
        let batch = table.text_of(reader, "batch", database);
        let sleep = table.duration(reader, "sleep");
        let app = table.text(reader, "app");
        let close = table.is_true(reader, "close");
        if let Some(sql) = sql {
            check_statement(&sql, database, reader);
            let mut problems = Vec::new();
            let mut resolve = |first: &str, second: Option<&str>| {
                let path = Path {
                    first,
                    second: second.map(|s| (s.to_owned(), false)),
                };
                self.resolve(&path, index, index).map(|(name, _)| name)
            };
            let bound = bind(&sql, database, &mut resolve, &mut problems);
            reader.problems.append(&mut problems);
            return Some(StepAction::Sql(bound));
        }
        if let Some(batch) = batch {
            for binding in bindings(&batch.text, database) {
                let message = "a batch has no bindings";
                reader.problem(batch.locate(binding), message);
            }
            return Some(StepAction::Batch(batch));
        }
        if let Some(sleep) = sleep {
            return Some(StepAction::Sleep(sleep));
        }
        if close {
            return Some(StepAction::Close);
        }
        app.map(|app| StepAction::App(app.text))
    }

    /// Parses an expression where the steps before `before` are done, and which is evaluated last
    /// when step `last_use` is.
    fn expr(
        &mut self,
        text: &Text,
        wanted: Kind,
        before: usize,
        last_use: usize,
        reader: &mut Reader,
    ) -> Option<expr::Expr> {
        let parsed = expr::parse(text, wanted, &mut |path| {
            self.resolve(path, before, last_use)
        });
        parsed.map_err(|problem| reader.problems.push(problem)).ok()
    }

    /// The meaning of a name where the steps before `before` are done.
    fn resolve(
        &mut self,
        path: &Path<'_>,
        before: usize,
        last_use: usize,
    ) -> Result<(Name, Kind), String> {
        let Some((attribute, quoted)) = &path.second else {
            return self.resolve_single(path.first);
        };
        let Some(step) = self.names.iter().position(|name| **name == *path.first) else {
            return Err(no_such("step", path.first, &self.names));
        };
        if step >= before {
            return Err(format!(
                "the result of step `{}` is not known yet",
                path.first
            ));
        }
        let attribute = Attribute::named(attribute, *quoted, false);
        let kind = attribute.kind();
        let slot = result_slot(
            &mut self.layout,
            &mut self.last_use,
            step,
            attribute,
            last_use,
        );
        Ok((Name::Result(slot), kind))
    }

    fn resolve_single(&mut self, name: &str) -> Result<(Name, Kind), String> {
        match name {
            "process" => Ok((Name::Process, Kind::Text)),
            "round" => {
                self.reads_round = true;
                Ok((Name::Round, Kind::Number))
            }
            "now" => Ok((Name::Now, Kind::Time)),
            _ => match self.layout.vars.iter().position(|var| **var == *name) {
                Some(slot) => {
                    self.vars_read.insert(slot);
                    Ok((Name::Var(slot), Kind::Unknown))
                }
                None if self.names.iter().any(|step| **step == *name) => Err(format!(
                    "`{name}` is a step; say what of it, as in `{name}.rows`"
                )),
                None => Err(no_such("variable", name, &self.layout.vars)),
            },
        }
    }
}

/// The slot of a result that is read until step `last_use` (an index), new if need be.
pub(super) fn result_slot(
    layout: &mut Layout,
    last_uses: &mut Vec<usize>,
    step: usize,
    attribute: Attribute,
    last_use: usize,
) -> usize {
    let key = (step, attribute);
    let slot = layout.results.iter().position(|known| *known == key);
    let slot = slot.unwrap_or_else(|| {
        layout.results.push(key);
        last_uses.push(0);
        layout.results.len() - 1
    });
    last_uses[slot] = last_uses[slot].max(last_use);
    slot
}

/// `there is no step `lok`; did you mean `look`?`
pub(crate) fn no_such(what: &str, name: &str, known: &[Arc<str>]) -> String {
    let known: Vec<&str> = known.iter().map(|name| &**name).collect();
    match nearest(name, &known) {
        Some(near) => format!("there is no {what} `{name}`; did you mean `{near}`?"),
        None => format!("there is no {what} `{name}`"),
    }
}

pub(super) fn check_name(name: &str, span: &Range<usize>, what: &str, reader: &mut Reader) {
    if !name.starts_with(is_word_start) || !name.chars().all(is_word) {
        let message = format!("`{name}` cannot name {what}: letters, digits and `_` only");
        reader.problem(span.clone(), message);
    } else if RESERVED.contains(&name) {
        let message = format!("`{name}` has a meaning of its own and cannot name {what}");
        reader.problem(span.clone(), message);
    }
}

/// `sql` is one statement; several belong in a `batch`.
pub(super) fn check_statement(sql: &Text, database: Dialect, reader: &mut Reader) {
    let statements = crate::sqltext::statements(&sql.text, database);
    match &statements[..] {
        [] => reader.problem(sql.span.clone(), "there is no statement here"),
        [_] => {}
        [_, second, ..] => {
            let message = "a second statement; `sql` is one, several are a `batch`";
            reader.problem(sql.locate(second.clone()), message);
        }
    }
}

fn error_class(text: &Text, reader: &mut Reader) -> Option<ErrorClass> {
    let found = ErrorClass::NAMED
        .iter()
        .find(|(name, _)| *name == &*text.text);
    if found.is_none() {
        let known: Vec<Arc<str>> = ErrorClass::NAMED.iter().map(|(n, _)| (*n).into()).collect();
        reader.problem(
            text.span.clone(),
            no_such("error class", &text.text, &known),
        );
    }
    found.map(|(_, class)| *class)
}

/// Reads a list of names that parse (`databases`, `isolation`).
pub(super) fn parsed_list<T: FromStr<Err: ToString> + Ord + Copy>(
    table: &mut Table<'_>,
    key: &'static str,
    reader: &mut Reader,
) -> Option<Vec<(T, Range<usize>)>> {
    let texts = table.texts(reader, key)?;
    Some(parsed_items(texts, reader))
}

/// Names that parse, each once.
pub(super) fn parsed_items<T: FromStr<Err: ToString> + Ord + Copy>(
    texts: Vec<Text>,
    reader: &mut Reader,
) -> Vec<(T, Range<usize>)> {
    let mut values: Vec<(T, Range<usize>)> = Vec::new();
    for text in texts {
        match text.text.parse::<T>() {
            Ok(value) if values.iter().any(|(v, _)| *v == value) => {
                reader.problem(text.span, format!("`{}` stands here twice", text.text));
            }
            Ok(value) => values.push((value, text.span)),
            Err(error) => reader.problem(text.span, error.to_string()),
        }
    }
    values
}
