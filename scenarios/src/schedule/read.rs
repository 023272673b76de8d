//! Text to [`ScheduleFile`]: the inverse of `write.rs`.

use std::ops::Range;
use std::sync::Arc;

use rowlock_model::schedule::{
    Choice, Event, Granularity, Loss, ProcessId, RequestId, Schedule, SessionId, Statement,
};
use rowlock_model::verdict::Bounds;
use rowlock_model::{Column, DbError, Dialect, ErrorClass, Isolation, Notice, Outcome, Reply, Row};

use super::literal::{Cursor, Failure};
use super::write::default_tag;
use super::{HEADER, NUMBERS, ScheduleFile, ScheduleProcess, verb};
use crate::source::{Problem, Source};

/// Reads a whole file.
pub(super) fn schedule(source: &Source) -> Result<ScheduleFile, Problem> {
    let mut lines = Lines::new(&source.text);
    let first = lines.next_raw();
    match first {
        Some(line) if line.text == HEADER => {}
        Some(line) if line.text.starts_with("rowlock schedule ") => {
            let message = "a schedule file of another version";
            return Err(line
                .problem(message)
                .help(format!("this program reads `{HEADER}`")));
        }
        _ => {
            return Err(Problem::new(
                0..0,
                format!("the first line is not `{HEADER}`"),
            ));
        }
    }
    let mut file = ScheduleFile {
        title: "".into(),
        variant: "".into(),
        property: "".into(),
        detail: "".into(),
        check: None,
        database: Dialect::Postgres,
        isolation: Isolation::ReadCommitted,
        bounds: Bounds::default(),
        granularity: Granularity::Statement,
        pooler: 0,
        processes: Vec::new(),
        setup: None,
        schedule: Schedule::default(),
        matters: Vec::new(),
        numbers: Vec::new(),
    };
    let mut given = Given::default();
    loop {
        let Some(line) = lines.next() else {
            let end = source.text.len();
            return Err(Problem::new(end..end, "the file ends before `events`"));
        };
        if line.text == "events" {
            given.check(&line)?;
            break;
        }
        header(&line, &mut lines, &mut file, &mut given)?;
    }
    while let Some(line) = lines.next() {
        let event = event(&line, &mut lines, &file)?;
        file.schedule.events.push(event);
    }
    if let Some(line) = given.matters
        && file
            .matters
            .iter()
            .any(|n| *n >= file.schedule.events.len())
    {
        return Err(Problem::new(line, "there are fewer events than that"));
    }
    Ok(file)
}

/// One line without its end.
#[derive(Clone)]
struct Line<'a> {
    text: &'a str,
    start: usize,
}

impl Line<'_> {
    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.start..self.start + self.text.len(), message)
    }

    /// What is wrong where a cursor stands.
    fn failure(&self, cursor: &Cursor<'_>, message: Failure) -> Problem {
        let next = cursor.rest().chars().next().map_or(0, char::len_utf8);
        let end = cursor.at + cursor.peek_plain().len().max(next);
        Problem::new(self.start + cursor.at..self.start + end, message)
    }
}

struct Lines<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        Lines { text, at: 0 }
    }

    fn peek_raw(&self) -> Option<(Line<'a>, usize)> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let length = rest.find('\n').unwrap_or(rest.len());
        // An editor or a checkout may have changed the line ends; a carriage return of a text
        // stands escaped.
        let text = rest[..length].strip_suffix('\r').unwrap_or(&rest[..length]);
        let line = Line {
            text,
            start: self.at,
        };
        Some((line, (self.at + length + 1).min(self.text.len())))
    }

    fn next_raw(&mut self) -> Option<Line<'a>> {
        let (line, next) = self.peek_raw()?;
        self.at = next;
        Some(line)
    }

    /// The next line that is neither blank nor a remark.
    fn next(&mut self) -> Option<Line<'a>> {
        loop {
            let line = self.next_raw()?;
            if !line.text.trim().is_empty() && !line.text.starts_with('#') {
                return Some(line);
            }
        }
    }

    /// The next line if it belongs to the one before: its text without the indent.
    fn next_indented(&mut self) -> Option<Line<'a>> {
        let (line, next) = self.peek_raw()?;
        let text = line.text.strip_prefix("  ")?;
        if text.trim().is_empty() {
            return None;
        }
        self.at = next;
        Some(Line {
            text,
            start: line.start + 2,
        })
    }

    /// The lines of a block: `  | text`.
    fn block(&mut self) -> Option<String> {
        let mut found: Option<String> = None;
        while let Some((line, next)) = self.peek_raw() {
            let Some(rest) = line.text.strip_prefix("  |") else {
                break;
            };
            self.at = next;
            let text = rest.strip_prefix(' ').unwrap_or(rest);
            match &mut found {
                Some(found) => {
                    found.push('\n');
                    found.push_str(text);
                }
                None => found = Some(text.to_owned()),
            }
        }
        found
    }
}

/// Which headers were seen that a file must have.
#[derive(Default)]
struct Given {
    database: bool,
    isolation: bool,
    matters: Option<Range<usize>>,
}

impl Given {
    fn check(&self, line: &Line<'_>) -> Result<(), Problem> {
        match (self.database, self.isolation) {
            (true, true) => Ok(()),
            (false, _) => Err(line.problem("no `database:` before the events")),
            (_, false) => Err(line.problem("no `isolation:` before the events")),
        }
    }
}

fn header<'a>(
    line: &Line<'a>,
    lines: &mut Lines<'a>,
    file: &mut ScheduleFile,
    given: &mut Given,
) -> Result<(), Problem> {
    let mut cursor = Cursor::new(line.text);
    let key = cursor.plain();
    match key {
        "title" => file.title = text(line, &mut cursor, lines)?,
        "variant" => file.variant = text(line, &mut cursor, lines)?,
        "property" => file.property = text(line, &mut cursor, lines)?,
        "detail" => file.detail = text(line, &mut cursor, lines)?,
        "check" => file.check = Some(text(line, &mut cursor, lines)?),
        "setup" => file.setup = Some(text(line, &mut cursor, lines)?),
        "database" => {
            file.database = named(line, &mut cursor)?;
            given.database = true;
        }
        "isolation" => {
            file.isolation = named(line, &mut cursor)?;
            given.isolation = true;
        }
        "granularity" => file.granularity = named(line, &mut cursor)?,
        "pooler" => {
            file.pooler = parsed(line, &mut cursor, |c| {
                c.take(": ");
                c.number()
            })?;
        }
        "bounds" => {
            file.bounds = parsed(line, &mut cursor, |c| {
                c.take(": ");
                bounds(c)
            })?;
        }
        "matters" => {
            file.matters = parsed(line, &mut cursor, matters)?;
            given.matters = Some(line.start..line.start + line.text.len());
        }
        key if let Some((_, kind)) = NUMBERS.iter().find(|(k, _)| *k == key) => {
            let numbers = parsed(line, &mut cursor, numbers)?;
            file.numbers.extend(numbers.into_iter().map(|n| (*kind, n)));
        }
        "process" => file.processes.push(parsed(line, &mut cursor, process)?),
        "connect" => {
            let label = parsed_prefix(line, &mut cursor, |c| {
                c.skip_blanks();
                c.word()
            })?;
            let script = text(line, &mut cursor, lines)?;
            let found = file.processes.iter_mut().find(|p| p.label == label);
            let process = found
                .ok_or_else(|| line.problem(format!("no process `{label}` above this line")))?;
            process.connect = Some(script);
        }
        _ => {
            let message = format!("`{key}` is not a header");
            return Err(line.problem(message).help(
                "headers: title, variant, property, detail, check, database, isolation, bounds, granularity, pooler, matters, process-ids, transaction-ids, process, connect, setup; then `events`",
            ));
        }
    }
    Ok(())
}

/// Reads with `read`, which must come to the end of the line.
fn parsed<T>(
    line: &Line<'_>,
    cursor: &mut Cursor<'_>,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Failure>,
) -> Result<T, Problem> {
    let value = parsed_prefix(line, cursor, read)?;
    if !cursor.is_at_end() {
        return Err(line.failure(cursor, "expected the end of the line".into()));
    }
    Ok(value)
}

fn parsed_prefix<T>(
    line: &Line<'_>,
    cursor: &mut Cursor<'_>,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Failure>,
) -> Result<T, Problem> {
    read(cursor).map_err(|message| line.failure(cursor, message))
}

/// `: text`, `:= 'text'`, or `:` and a block.
fn text(
    line: &Line<'_>,
    cursor: &mut Cursor<'_>,
    lines: &mut Lines<'_>,
) -> Result<Arc<str>, Problem> {
    if cursor.take(":= ") {
        return parsed(line, cursor, |c| c.quoted().map(Into::into));
    }
    if cursor.take(": ") {
        let rest = cursor.rest();
        if !rest.is_empty() {
            return Ok(rest.into());
        }
    } else if !cursor.take(":") {
        return Err(line.failure(cursor, "expected `: ` and a text".into()));
    }
    let block = lines.block();
    block
        .filter(|_| cursor.is_at_end())
        .map(Into::into)
        .ok_or_else(|| {
            line.failure(
                cursor,
                "expected a text, or lines that begin with `  | `".into(),
            )
        })
}

fn named<T: std::str::FromStr<Err: std::fmt::Display>>(
    line: &Line<'_>,
    cursor: &mut Cursor<'_>,
) -> Result<T, Problem> {
    if !cursor.take(": ") {
        return Err(line.failure(cursor, "expected `: `".into()));
    }
    let parsed = cursor.rest().parse();
    parsed.map_err(|error: T::Err| {
        let start = line.start + cursor.at;
        Problem::new(start..line.start + line.text.len(), error.to_string())
    })
}

fn bounds(cursor: &mut Cursor<'_>) -> Result<Bounds, Failure> {
    let mut bounds = Bounds::default();
    loop {
        let at = cursor.at;
        let field = match cursor.plain() {
            "crashes" => &mut bounds.crashes,
            "kills" => &mut bounds.kills,
            "losses" => &mut bounds.losses,
            "clock" => &mut bounds.clock,
            "cancels" => &mut bounds.cancels,
            "rounds" => &mut bounds.rounds,
            other => {
                cursor.at = at;
                return Err(format!("`{other}` is not a bound"));
            }
        };
        cursor.skip_blanks();
        *field = cursor.number()?;
        if !cursor.take(", ") {
            return Ok(bounds);
        }
    }
}

fn matters(cursor: &mut Cursor<'_>) -> Result<Vec<usize>, Failure> {
    let mut numbers: Vec<usize> = Vec::new();
    cursor.take(": ");
    loop {
        let at = cursor.at;
        let number: usize = cursor.number()?;
        // Kept from 0, written from 1.
        let ascending = numbers.last().is_none_or(|last| last + 1 < number);
        if number == 0 || !ascending {
            cursor.at = at;
            return Err("event numbers are ascending, from 1".into());
        }
        numbers.push(number - 1);
        if !cursor.take(", ") {
            return Ok(numbers);
        }
    }
}

/// Numbers of sessions or transactions.
fn numbers(cursor: &mut Cursor<'_>) -> Result<Vec<i64>, Failure> {
    let mut numbers: Vec<i64> = Vec::new();
    cursor.take(": ");
    loop {
        numbers.push(cursor.number()?);
        if !cursor.take(", ") {
            return Ok(numbers);
        }
    }
}

fn process(cursor: &mut Cursor<'_>) -> Result<ScheduleProcess, Failure> {
    cursor.skip_blanks();
    let mut process = ScheduleProcess {
        label: cursor.word()?,
        sessions: 1,
        isolation: None,
        skew_micros: 0,
        connect: None,
    };
    while cursor.take(", ") {
        let at = cursor.at;
        let key = cursor.plain();
        cursor.skip_blanks();
        match key {
            "sessions" => process.sessions = cursor.number()?,
            "skew" => process.skew_micros = duration(cursor)?,
            "isolation" => {
                let rest = cursor.rest();
                let name = rest.split(", ").next().unwrap_or(rest);
                process.isolation = Some(name.parse().map_err(|e| format!("{e}"))?);
                cursor.at += name.len();
            }
            _ => {
                cursor.at = at;
                return Err("expected `sessions`, `isolation` or `skew`".into());
            }
        }
    }
    Ok(process)
}

/// `+30s`, `-500ms`, `+12us`.
fn duration(cursor: &mut Cursor<'_>) -> Result<i64, Failure> {
    let at = cursor.at;
    let wrong = "expected a duration as in `+30s`, `-500ms` or `+12us`";
    let word = cursor.plain();
    let digits = word.get(1..).unwrap_or_default();
    let length = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let scale = match &digits[length..] {
        "s" => Some(1_000_000),
        "ms" => Some(1000),
        "us" => Some(1),
        _ => None,
    };
    let signed = match word.chars().next() {
        Some(sign @ ('+' | '-')) => format!("{sign}{}", &digits[..length]),
        _ => String::new(),
    };
    let micros = signed
        .parse::<i64>()
        .ok()
        .and_then(|n| n.checked_mul(scale?));
    micros.ok_or_else(|| {
        cursor.at = at;
        wrong.into()
    })
}

fn event<'a>(
    line: &Line<'a>,
    lines: &mut Lines<'a>,
    file: &ScheduleFile,
) -> Result<Event, Problem> {
    if line.text.starts_with(' ') {
        return Err(line.problem("this line belongs to no event"));
    }
    let mut cursor = Cursor::new(line.text);
    let head = parsed_prefix(line, &mut cursor, |cursor| head(cursor, file))?;
    let mut statement = None;
    let batch = cursor.take(" script");
    if !cursor.is_at_end() {
        statement = Some(Statement {
            sql: text(line, &mut cursor, lines)?,
            args: Vec::new(),
            batch,
        });
    } else if batch {
        return Err(line.failure(&cursor, "expected `: ` and the script".into()));
    }
    let mut outcome = None;
    while let Some(line) = lines.next_indented() {
        let mut cursor = Cursor::new(line.text);
        let key = cursor.plain();
        let key = if key == "-" { "->" } else { key };
        match (key, &mut statement, &mut outcome) {
            ("args", Some(statement), None) => {
                statement.args = parsed(&line, &mut cursor, |c| {
                    c.skip_blanks();
                    c.values(None)
                })?;
            }
            ("->", _, None) => {
                cursor.take("> ");
                outcome = Some(parsed(&line, &mut cursor, |c| {
                    read_outcome(c, statement.as_ref())
                })?);
            }
            (_, _, Some(outcome)) => {
                let read = |c: &mut Cursor<'_>| detail(key, c, outcome);
                parsed(&line, &mut cursor, read)?;
            }
            _ => return Err(line.problem("expected `args` or `->`")),
        }
    }
    Ok(Event {
        choice: head.choice,
        actor: head.actor,
        step: head.step,
        statement,
        outcome,
    })
}

struct Head {
    choice: Choice,
    actor: Arc<str>,
    step: Option<Arc<str>>,
}

/// Everything of an event's line before the statement.
fn head(cursor: &mut Cursor<'_>, file: &ScheduleFile) -> Result<Head, Failure> {
    if cursor.rest().starts_with(['+', '-']) {
        let choice = Choice::Advance(duration(cursor)?);
        let actor = optional_step(cursor)?;
        let step = match actor {
            Some(_) => optional_step(cursor)?,
            None => None,
        };
        return Ok(Head {
            choice,
            actor: actor.unwrap_or_default(),
            step,
        });
    }
    let actor = cursor.word()?;
    if !cursor.take(" ") {
        return Err("expected a step, or what happens".into());
    }
    let verb_at = cursor.at;
    let verb = cursor.plain();
    let mut backend = 0;
    if verb == verb::ROUTED {
        cursor.skip_blanks();
        let number: u16 = cursor.number()?;
        let place = number.checked_sub(1).and_then(|n| u8::try_from(n).ok());
        backend = place.ok_or("server connections are numbered from 1 to 256")?;
    }
    let routed = |session| Choice::Route(session, backend);
    let session: Option<&dyn Fn(SessionId) -> Choice> = match verb {
        verb::RESUMES => Some(&Choice::Resume),
        verb::CONTINUES => Some(&Choice::Continue),
        verb::ROUTED => Some(&routed),
        verb::DEADLOCK => Some(&Choice::Deadlock),
        verb::TIMER => Some(&Choice::Expire),
        verb::NOTICED => Some(&Choice::Notice),
        verb::KILLED => Some(&Choice::Kill),
        verb::LATE => Some(&Choice::Late),
        _ => None,
    };
    if let Some(choice) = session {
        let step = optional_step(cursor)?;
        let number = match cursor.take(" @") {
            true => cursor.number()?,
            false => file.session_of(&actor).ok_or_else(|| {
                cursor.at = 0;
                unknown_actor(&actor, "session", "@")
            })?,
        };
        return Ok(Head {
            choice: choice(SessionId(number)),
            actor,
            step,
        });
    }
    if verb == verb::CRASH {
        let step = optional_step(cursor)?;
        let process = process_number(cursor, &actor, file)?;
        return Ok(Head {
            choice: Choice::Crash(process),
            actor,
            step,
        });
    }
    cursor.at = verb_at;
    let step = match cursor.rest().starts_with('#') {
        true => None,
        false => {
            let step = cursor.word()?;
            if !cursor.take(" ") {
                return Err("expected ` #` and the number of the request".into());
            }
            Some(step)
        }
    };
    if !cursor.take("#") {
        return Err("expected `#` and the number of the request".into());
    }
    let request = RequestId(cursor.number()?);
    let process = process_number(cursor, &actor, file)?;
    let choice = if cursor.take(" cancelled") {
        Choice::Cancel(process, request)
    } else if cursor.take(" lost ") {
        let losses = [Loss::NotArrived, Loss::ReplyLost, Loss::StillRunning];
        let loss = losses
            .into_iter()
            .find(|l| cursor.take_word(&l.to_string()));
        let loss = loss.ok_or("expected `not-arrived`, `reply-lost` or `still-running`")?;
        Choice::Lose(process, request, loss)
    } else {
        Choice::Step(process, request)
    };
    Ok(Head {
        choice,
        actor,
        step,
    })
}

fn unknown_actor(actor: &str, what: &str, mark: &str) -> Failure {
    format!("`{actor}` is not in the table of processes; say the {what} with `{mark}`")
}

/// The name that comes next, if one does and not something else.
fn optional_step(cursor: &mut Cursor<'_>) -> Result<Option<Arc<str>>, Failure> {
    let rest = cursor.rest();
    let follows = rest.strip_prefix(' ').is_some_and(|rest| {
        !rest.starts_with(['@', '%']) && rest != "script" && !rest.starts_with("script:")
    });
    if !follows {
        return Ok(None);
    }
    cursor.take(" ");
    cursor.word().map(Some)
}

fn process_number(
    cursor: &mut Cursor<'_>,
    actor: &str,
    file: &ScheduleFile,
) -> Result<ProcessId, Failure> {
    if cursor.take(" %") {
        return cursor.number().map(ProcessId);
    }
    let number = file.process_of(actor).and_then(|n| u8::try_from(n).ok());
    number.map(ProcessId).ok_or_else(|| {
        cursor.at = 0;
        unknown_actor(actor, "process", "%")
    })
}

/// What follows `-> `.
fn read_outcome(
    cursor: &mut Cursor<'_>,
    statement: Option<&Statement>,
) -> Result<Outcome, Failure> {
    if cursor.take_word("waits") {
        let mut blockers = Vec::new();
        if cursor.take(" for ") {
            blockers.push(cursor.word()?.to_string());
            while cursor.take(", ") {
                blockers.push(cursor.word()?.to_string());
            }
        }
        return Ok(Outcome::Waits(blockers));
    }
    if cursor.take_word("pauses") {
        let row = match cursor.take(" before ") {
            true => cursor.word()?.to_string(),
            false => String::new(),
        };
        return Ok(Outcome::Pauses(row));
    }
    if cursor.take_word("error") {
        return error(cursor).map(Outcome::Failed);
    }
    let mut reply = Reply {
        tag: default_tag(statement),
        ..Reply::default()
    };
    if cursor.take_word("ok") {
        return Ok(Outcome::Done(reply));
    }
    let count: u64 = cursor
        .number()
        .map_err(|_| "expected `ok`, a count, `error`, `waits` or `pauses`")?;
    if cursor.take(" affected") {
        reply.affected = count;
        return Ok(Outcome::Done(reply));
    }
    if !cursor.take(" rows") && !cursor.take(" row") {
        return Err("expected `affected` or `rows`".into());
    }
    let mut rows: Vec<Row> = Vec::new();
    while cursor.take(" (") {
        rows.push(cursor.values(Some(")"))?.into());
    }
    if rows.len() as u64 != count {
        return Err(format!("{} rows stand here, not {count}", rows.len()));
    }
    reply.affected = count;
    reply.rows = rows.into();
    Ok(Outcome::Done(reply))
}

/// `23505 unique: message`.
fn error(cursor: &mut Cursor<'_>) -> Result<DbError, Failure> {
    cursor.skip_blanks();
    let code = cursor.word()?;
    cursor.skip_blanks();
    let at = cursor.at;
    let name = cursor.plain();
    let class = ErrorClass::NAMED.iter().find(|(known, _)| *known == name);
    let Some((_, class)) = class else {
        cursor.at = at;
        return Err(format!("`{name}` is not an error class"));
    };
    let message: Arc<str> = if cursor.take(":= ") {
        cursor.quoted()?.into()
    } else if cursor.take(": ") {
        let rest = cursor.rest();
        cursor.at = cursor.line.len();
        rest.into()
    } else {
        return Err("expected `: ` and the message".into());
    };
    Ok(DbError::new(*class, &code, message))
}

/// A line below an outcome; the cursor is after its key.
fn detail(key: &str, cursor: &mut Cursor<'_>, outcome: &mut Outcome) -> Result<(), Failure> {
    cursor.skip_blanks();
    match (key, outcome) {
        ("columns", Outcome::Done(reply)) => {
            let mut columns = Vec::new();
            while !cursor.is_at_end() {
                let name = cursor.word()?;
                cursor.skip_blanks();
                let type_name = cursor.word()?;
                columns.push(Column { name, type_name });
                if !cursor.take(", ") {
                    break;
                }
            }
            reply.columns = columns.into();
        }
        ("affected", Outcome::Done(reply)) => reply.affected = cursor.number()?,
        ("tag", Outcome::Done(reply)) => reply.tag = cursor.quoted()?.into(),
        ("notice", Outcome::Done(reply)) => {
            let severity = cursor.word()?;
            cursor.skip_blanks();
            let message = cursor.quoted()?.into();
            let mut notices = reply.notices.to_vec();
            notices.push(Notice { severity, message });
            reply.notices = notices.into();
        }
        ("detail", Outcome::Failed(error)) => error.detail = Some(cursor.quoted()?.into()),
        ("constraint", Outcome::Failed(error)) => error.constraint = Some(cursor.word()?),
        ("position", Outcome::Failed(error)) => error.position = Some(cursor.number()?),
        _ => {
            cursor.at = 0;
            return Err("this does not belong to the outcome above".into());
        }
    }
    Ok(())
}
