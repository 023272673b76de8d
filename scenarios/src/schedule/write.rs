//! [`ScheduleFile`] to text.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use rowlock_model::schedule::{Choice, Event, Granularity, ProcessId, SessionId, Statement};
use rowlock_model::verdict::Bounds;
use rowlock_model::{DbError, Outcome, Reply, Value};

use super::literal::{self, is_odd, quote, word};
use super::{HEADER, NUMBERS, ScheduleFile, verb};

impl fmt::Display for ScheduleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        let headers = [
            ("title", &self.title),
            ("variant", &self.variant),
            ("property", &self.property),
            ("detail", &self.detail),
        ];
        for (key, value) in headers {
            if !value.is_empty() {
                writeln!(f, "{key}{}", text(value))?;
            }
        }
        if let Some(check) = &self.check {
            writeln!(f, "check{}", text(check))?;
        }
        writeln!(f, "database: {}", self.database)?;
        writeln!(f, "isolation: {}", self.isolation)?;
        if self.bounds != Bounds::default() {
            writeln!(f, "bounds: {}", bounds(&self.bounds))?;
        }
        if self.granularity != Granularity::Statement {
            writeln!(f, "granularity: {}", self.granularity)?;
        }
        if self.pooler != 0 {
            writeln!(f, "pooler: {}", self.pooler)?;
        }
        if !self.matters.is_empty() {
            // Events are numbered from 1 for people.
            let matters: Vec<String> = self.matters.iter().map(|n| (n + 1).to_string()).collect();
            writeln!(f, "matters: {}", matters.join(", "))?;
        }
        for (key, kind) in NUMBERS {
            let numbers = self.numbers.iter().filter(|(k, _)| *k == kind);
            let numbers: Vec<String> = numbers.map(|(_, n)| n.to_string()).collect();
            if !numbers.is_empty() {
                writeln!(f, "{key}: {}", numbers.join(", "))?;
            }
        }
        for process in &self.processes {
            write!(f, "process {}", word(&process.label))?;
            if process.sessions != 1 {
                write!(f, ", sessions {}", process.sessions)?;
            }
            if let Some(isolation) = process.isolation {
                write!(f, ", isolation {isolation}")?;
            }
            if process.skew_micros != 0 {
                write!(f, ", skew {}", duration(process.skew_micros))?;
            }
            writeln!(f)?;
            if let Some(connect) = &process.connect {
                writeln!(f, "connect {}{}", word(&process.label), text(connect))?;
            }
        }
        if let Some(setup) = &self.setup {
            writeln!(f, "setup{}", text(setup))?;
        }
        writeln!(f, "\nevents")?;
        for event in &self.schedule.events {
            self.event(f, event)?;
        }
        Ok(())
    }
}

impl ScheduleFile {
    fn event(&self, f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
        let mut line = String::new();
        match event.choice {
            Choice::Advance(micros) => {
                line.push_str(&duration(micros));
                if !event.actor.is_empty() || event.step.is_some() {
                    line += &format!(" {}", word(&event.actor));
                }
                line += &step(event);
            }
            Choice::Step(process, request) => {
                line += &format!("{}{} #{}", self.actor(event), step(event), request.0);
                line += &self.process(event, process);
            }
            Choice::Lose(process, request, loss) => {
                line += &format!("{}{} #{}", self.actor(event), step(event), request.0);
                line += &self.process(event, process);
                line += &format!(" lost {loss}");
            }
            Choice::Cancel(process, request) => {
                line += &format!("{}{} #{}", self.actor(event), step(event), request.0);
                line += &self.process(event, process);
                line += " cancelled";
            }
            Choice::Crash(process) => {
                line += &format!("{} {}", self.actor(event), verb::CRASH);
                line += &step(event);
                line += &self.process(event, process);
            }
            Choice::Resume(session) => line += &self.of_session(event, verb::RESUMES, session),
            Choice::Continue(session) => line += &self.of_session(event, verb::CONTINUES, session),
            Choice::Route(session, backend) => {
                // Numbered from 1 for people.
                let verb = format!("{} {}", verb::ROUTED, u16::from(backend) + 1);
                line += &self.of_session(event, &verb, session);
            }
            Choice::Deadlock(session) => line += &self.of_session(event, verb::DEADLOCK, session),
            Choice::Expire(session) => line += &self.of_session(event, verb::TIMER, session),
            Choice::Notice(session) => line += &self.of_session(event, verb::NOTICED, session),
            Choice::Kill(session) => line += &self.of_session(event, verb::KILLED, session),
            Choice::Late(session) => line += &self.of_session(event, verb::LATE, session),
        }
        if let Some(statement) = &event.statement {
            if statement.batch {
                line += " script";
            }
            line += &text(&statement.sql);
        }
        writeln!(f, "{line}")?;
        if let Some(statement) = &event.statement {
            args(f, statement)?;
        }
        match &event.outcome {
            Some(outcome) => write_outcome(f, outcome, event.statement.as_ref()),
            None => Ok(()),
        }
    }

    fn actor(&self, event: &Event) -> String {
        word(&event.actor)
    }

    fn of_session(&self, event: &Event, verb: &str, session: SessionId) -> String {
        let mut line = format!("{} {verb}{}", self.actor(event), step(event));
        if self.session_of(&event.actor) != Some(session.0) {
            let _ = write!(line, " @{}", session.0);
        }
        line
    }

    /// The number of a process, if its label does not say it.
    fn process(&self, event: &Event, process: ProcessId) -> String {
        match self.process_of(&event.actor) == Some(usize::from(process.0)) {
            true => String::new(),
            false => format!(" %{}", process.0),
        }
    }
}

/// The step's name, after a blank.
fn step(event: &Event) -> String {
    let step = event.step.as_ref();
    step.map_or(String::new(), |name| format!(" {}", word(name)))
}

/// What follows a head: `: text` on the line, a block of lines, or an escaped text.
pub(super) fn text(text: &str) -> String {
    let odd = |c: char| is_odd(c) && c != '\n' && c != '\t';
    if text.contains(odd) || text.is_empty() {
        return format!(":= {}", quote(text));
    }
    let plain = !text.contains(['\n', '\t']) && text.trim() == text;
    if plain {
        return format!(": {text}");
    }
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| format!("\n  | {line}"))
        .collect();
    format!(":{}", lines.concat())
}

/// What follows a head, always on its line.
fn inline(text: &str) -> String {
    match !text.is_empty() && text.trim() == text && !text.contains(is_odd) {
        true => format!(": {text}"),
        false => format!(":= {}", quote(text)),
    }
}

pub(super) fn duration(micros: i64) -> String {
    let sign = if micros < 0 { '-' } else { '+' };
    let size = micros.unsigned_abs();
    let (n, unit) = match size {
        0 => (0, "s"),
        _ if size.is_multiple_of(1_000_000) => (size / 1_000_000, "s"),
        _ if size.is_multiple_of(1000) => (size / 1000, "ms"),
        _ => (size, "us"),
    };
    format!("{sign}{n}{unit}")
}

fn bounds(bounds: &Bounds) -> String {
    let all = [
        ("crashes", bounds.crashes),
        ("kills", bounds.kills),
        ("losses", bounds.losses),
        ("clock", bounds.clock),
        ("cancels", bounds.cancels),
        ("rounds", bounds.rounds),
    ];
    let given = all.iter().filter(|(_, n)| *n != 0);
    let given: Vec<String> = given.map(|(key, n)| format!("{key} {n}")).collect();
    given.join(", ")
}

fn values(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(literal::write).collect();
    values.join(", ")
}

fn args(f: &mut fmt::Formatter<'_>, statement: &Statement) -> fmt::Result {
    match statement.args.is_empty() {
        true => Ok(()),
        false => writeln!(f, "  args {}", values(&statement.args)),
    }
}

fn write_outcome(
    f: &mut fmt::Formatter<'_>,
    outcome: &Outcome,
    statement: Option<&Statement>,
) -> fmt::Result {
    match outcome {
        Outcome::Waits(blockers) if blockers.is_empty() => writeln!(f, "  -> waits"),
        Outcome::Waits(blockers) => {
            let blockers: Vec<String> = blockers.iter().map(|b| word(b)).collect();
            writeln!(f, "  -> waits for {}", blockers.join(", "))
        }
        Outcome::Pauses(row) if row.is_empty() => writeln!(f, "  -> pauses"),
        Outcome::Pauses(row) => writeln!(f, "  -> pauses before {}", word(row)),
        Outcome::Failed(error) => write_error(f, error),
        Outcome::Done(reply) => write_reply(f, reply, statement),
    }
}

fn write_error(f: &mut fmt::Formatter<'_>, error: &DbError) -> fmt::Result {
    let code = word(&error.code);
    writeln!(
        f,
        "  -> error {code} {}{}",
        error.class,
        inline(&error.message)
    )?;
    if let Some(detail) = &error.detail {
        writeln!(f, "  detail {}", quote(detail))?;
    }
    if let Some(constraint) = &error.constraint {
        writeln!(f, "  constraint {}", word(constraint))?;
    }
    match error.position {
        Some(position) => writeln!(f, "  position {position}"),
        None => Ok(()),
    }
}

fn write_reply(
    f: &mut fmt::Formatter<'_>,
    reply: &Reply,
    statement: Option<&Statement>,
) -> fmt::Result {
    f.write_str("  -> ")?;
    if !reply.columns.is_empty() || !reply.rows.is_empty() {
        let n = reply.rows.len();
        write!(f, "{n} row{}", if n == 1 { "" } else { "s" })?;
        for row in reply.rows.iter() {
            write!(f, " ({})", values(row))?;
        }
        writeln!(f)?;
        let columns = reply.columns.iter();
        let columns: Vec<String> = columns
            .map(|column| format!("{} {}", word(&column.name), word(&column.type_name)))
            .collect();
        writeln!(f, "  columns {}", columns.join(", "))?;
        if reply.affected != n as u64 {
            writeln!(f, "  affected {}", reply.affected)?;
        }
    } else if reply.affected != 0 || counts(&reply.tag) {
        writeln!(f, "{} affected", reply.affected)?;
    } else {
        writeln!(f, "ok")?;
    }
    if *reply.tag != *default_tag(statement) {
        writeln!(f, "  tag {}", quote(&reply.tag))?;
    }
    for notice in reply.notices.iter() {
        let message = quote(&notice.message);
        writeln!(f, "  notice {} {message}", word(&notice.severity))?;
    }
    Ok(())
}

/// Whether a tag is one of a statement that counts rows.
pub(super) fn counts(tag: &str) -> bool {
    matches!(tag, "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "REPLACE")
}

/// The command tag that most replies to a statement have: its first word.
pub(super) fn default_tag(statement: Option<&Statement>) -> Arc<str> {
    let sql = statement.map_or("", |statement| &*statement.sql);
    let sql = sql.trim_start();
    let length = sql
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(sql.len());
    sql[..length].to_ascii_uppercase().into()
}
