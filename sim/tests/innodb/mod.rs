//! What the tests of the InnoDB engine share: a server with named sessions, and replies as text.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Isolation, Reply, Value};
use rowlock_sim::database::{Answer, Database, Internal, Progress, Request};
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour::Flavour;

/// A server on which an outcome was observed: `mysql-9.7@rr`, `mariadb-10.11@rc+si`.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) flavour: Flavour,
    pub(crate) level: Isolation,
}

impl Target {
    pub(crate) fn parse(name: &str) -> Target {
        let (server, level) = name.split_once('@').expect("server@level");
        let (level, snapshot) = match level.split_once(['+', '-']) {
            Some((level, _)) => (
                level,
                Some(level.len() < name.len() && name.contains("+si")),
            ),
            None => (level, None),
        };
        let flavour = match server {
            "mysql-9.7" => Flavour::MYSQL,
            "mariadb-10.11" => Flavour::MARIADB_10_11,
            "mariadb-11.8" => Flavour::MARIADB_11_8,
            other => panic!("no such server: {other}"),
        };
        let flavour = match snapshot {
            Some(on) => flavour.with_snapshot_isolation(on),
            None => flavour,
        };
        let level = match level {
            "ru" => Isolation::ReadUncommitted,
            "rc" => Isolation::ReadCommitted,
            "rr" => Isolation::RepeatableRead,
            "ser" => Isolation::Serializable,
            other => panic!("no such level: {other}"),
        };
        Target {
            name: name.to_owned(),
            flavour,
            level,
        }
    }
}

/// How a statement went.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Answered.
    Done(Result<Reply, DbError>),
    /// Blocked.
    Blocked,
    /// Pauses before this record lock, in row granularity.
    Paused(String),
}

/// A server with sessions that have names.
pub(crate) struct Server {
    pub(crate) db: InnoDb,
    pub(crate) level: Isolation,
    pub(crate) sessions: BTreeMap<String, SessionId>,
    pub(crate) inits: Vec<String>,
    /// Sessions in the order in which they came to wait.
    pub(crate) waiting: Vec<SessionId>,
    /// Which of several sessions that can go on does so first: the n-th choice each time.
    pub(crate) picks: Vec<usize>,
    /// How many there were, each time there were several.
    pub(crate) choices: Vec<usize>,
    /// Who came to pause after a wait, and before what.
    pub(crate) paused: Vec<(SessionId, String)>,
}

impl Server {
    pub(crate) fn new(target: &Target) -> Server {
        Server {
            db: InnoDb::with_database(target.flavour, "lab"),
            level: target.level,
            sessions: BTreeMap::new(),
            inits: Vec::new(),
            waiting: Vec::new(),
            picks: Vec::new(),
            choices: Vec::new(),
            paused: Vec::new(),
        }
    }

    pub(crate) fn setup(&mut self, statements: &[String]) {
        let session = self.db.connect(None);
        for sql in statements {
            match self.send(session, sql) {
                Outcome::Done(Ok(_)) => {}
                other => panic!("set-up {sql}: {other:?}"),
            }
        }
    }

    pub(crate) fn session(&mut self, name: &str) -> SessionId {
        if let Some(session) = self.sessions.get(name) {
            return *session;
        }
        let session = self.db.connect(Some(self.level));
        self.sessions.insert(name.to_owned(), session);
        for sql in self.inits.clone() {
            self.send(session, &sql);
        }
        session
    }

    pub(crate) fn name(&self, session: SessionId) -> String {
        let found = self.sessions.iter().find(|(_, s)| **s == session);
        found.map_or_else(
            || format!("session {}", session.0),
            |(name, _)| name.clone(),
        )
    }

    pub(crate) fn send(&mut self, session: SessionId, sql: &str) -> Outcome {
        let statement = self.db.prepare(sql);
        let request = Request::Exec(statement, [].into());
        let progress = self.db.submit(session, &request);
        self.take(session, progress)
    }

    /// A session that pauses goes on.
    pub(crate) fn proceed(&mut self, session: SessionId) -> Outcome {
        let progress = self.db.internal(Internal::Continue(session));
        self.take(session, progress)
    }

    fn take(&mut self, session: SessionId, progress: Progress) -> Outcome {
        match progress {
            Progress::Pauses => {
                let pauses = self.db.pauses();
                let pause = pauses.into_iter().find(|p| p.session == session);
                Outcome::Paused(pause.map_or(String::new(), |p| p.before))
            }
            Progress::Waits => {
                if !self.waiting.contains(&session) {
                    self.waiting.push(session);
                }
                Outcome::Blocked
            }
            Progress::Done(Answer::Exec(result)) => {
                self.waiting.retain(|s| *s != session);
                Outcome::Done(result)
            }
            Progress::Done(Answer::Batch(_)) => unreachable!("single statements are sent"),
        }
    }

    /// Lets sessions go on until nobody can; who was answered, in order.
    pub(crate) fn settle(&mut self) -> Vec<(SessionId, Result<Reply, DbError>)> {
        let mut answers = Vec::new();
        loop {
            let mut pending = Vec::new();
            self.db.pending(&mut pending);
            // Who pauses goes on when a command says so.
            pending.retain(|internal| !matches!(internal, Internal::Continue(_)));
            let place = |internal: &Internal| {
                let (Internal::Resume(s)
                | Internal::Continue(s)
                | Internal::Route(s, _)
                | Internal::Expire(s)
                | Internal::Deadlock(s)) = internal;
                self.waiting.iter().position(|w| w == s)
            };
            pending.sort_by_key(place);
            if pending.is_empty() {
                return answers;
            }
            let at = if pending.len() > 1 {
                let at = self.picks.get(self.choices.len()).copied().unwrap_or(0);
                self.choices.push(pending.len());
                at.min(pending.len() - 1)
            } else {
                0
            };
            let (Internal::Resume(s)
            | Internal::Continue(s)
            | Internal::Route(s, _)
            | Internal::Expire(s)
            | Internal::Deadlock(s)) = pending[at];
            let progress = self.db.internal(pending[at]);
            match self.take(s, progress) {
                Outcome::Done(result) => answers.push((s, result)),
                Outcome::Paused(before) => self.paused.push((s, before)),
                Outcome::Blocked => {}
            }
        }
    }

    /// All explicit locks, sorted by text; of one session, or of all with their names.
    pub(crate) fn locks(&self, of: Option<&str>) -> String {
        let marks = self.db.flavour().shows_delete_marks();
        let mut lines = Vec::new();
        for (name, session) in &self.sessions {
            if of.is_some_and(|of| of != name) {
                continue;
            }
            for lock in self.db.locks(*session) {
                let line = lock.notation(marks);
                lines.push(match of {
                    Some(_) => line,
                    None => format!("{name}:{line}"),
                });
            }
        }
        lines.sort();
        lines.join(" | ")
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Text(s) => format!("\"{s}\""),
        Value::Int(i) => i.to_string(),
        Value::Decimal(d) => d.to_string(),
        Value::Float(x) => x.to_string(),
        other => format!("{other:?}"),
    }
}

/// Rows as the golden data has them.
pub(crate) fn rows_text(reply: &Reply) -> String {
    let row = |row: &rowlock_model::Row| {
        let values: Vec<String> = row.iter().map(value_text).collect();
        format!("[{}]", values.join(", "))
    };
    let rows: Vec<String> = reply.rows.iter().map(row).collect();
    format!("[{}]", rows.join(", "))
}

/// A reply as the golden data has it.
pub(crate) fn result_text(result: &Result<Reply, DbError>, id: i64) -> String {
    match result {
        Err(error) => format!("ERROR {} {}", error.code, error.message),
        Ok(reply) if !reply.columns.is_empty() => format!("rows {}", rows_text(reply)),
        Ok(reply) => {
            let mut text = format!("ok {}", reply.affected);
            if id != 0 {
                let _ = write!(text, " last_id={id}");
            }
            if !reply.notices.is_empty() {
                let _ = write!(text, " warn={}", reply.notices.len());
            }
            text
        }
    }
}

/// A row that differs from the server, and why: `innodb/*-differs.txt`.
struct Listed {
    reason: String,
    name: String,
    difference: String,
}

/// A list of differences: `because REASON`, then rows `--- NAME` with the exact difference indented.
fn listed(text: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    let mut reason = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(why) = line.strip_prefix("because ") {
            reason = why;
        } else if let Some(name) = line.strip_prefix("--- ") {
            all.push(Listed {
                reason: reason.to_owned(),
                name: name.to_owned(),
                difference: String::new(),
            });
        } else if let Some(last) = all.last_mut().filter(|_| !line.is_empty()) {
            last.difference += line;
            last.difference.push('\n');
        }
    }
    all
}

/// Prints what failed; panics if that is not, row by row and to the letter, what the list `innodb/LIST` says.
/// With `UPDATE_GOLDENFILES=1` the list is rewritten: what is new in it stands there without a reason, which
/// is refused until somebody has found one. Without a list, of a part of the rows, all that differs counts.
pub(crate) fn report(what: &str, total: usize, failed: &[(String, String)], list: Option<&str>) {
    let known = list.map_or(Vec::new(), |list| known_differences(list, failed));
    let is_listed = |(name, difference): &&(String, String)| {
        let mut same = known.iter().filter(|entry| entry.name == *name);
        same.any(|entry| entry.difference == *difference && !entry.reason.starts_with('?'))
    };
    let unexpected: Vec<&(String, String)> =
        failed.iter().filter(|failed| !is_listed(failed)).collect();
    for (name, difference) in &unexpected {
        eprintln!("--- {name}\n{difference}");
    }
    let healed: Vec<&str> = known
        .iter()
        .map(|entry| entry.name.as_str())
        .filter(|name| !failed.iter().any(|(failed, _)| failed == name))
        .collect();
    eprintln!(
        "{what}: {} of {total} equal, {} listed",
        total - failed.len(),
        failed.len() - unexpected.len()
    );
    assert!(healed.is_empty(), "listed, but equal now: {healed:?}");
    assert!(
        unexpected.is_empty(),
        "{} of {total} {what} differ from the server, or differ in another way than is listed",
        unexpected.len()
    );
}

fn known_differences(list: &str, failed: &[(String, String)]) -> Vec<Listed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/innodb")
        .join(list);
    let text = std::fs::read_to_string(&path).expect("the list can be read");
    let known = listed(&text);
    if std::env::var_os("UPDATE_GOLDENFILES").is_none() {
        return known;
    }
    let rewritten = rewrite(&text, &known, failed);
    std::fs::write(&path, &rewritten).expect("the list is written");
    listed(&rewritten)
}

fn rewrite(text: &str, known: &[Listed], failed: &[(String, String)]) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&(String, String)>> = BTreeMap::new();
    for row in failed {
        let entry = known.iter().find(|entry| entry.name == row.0);
        let reason = entry.map_or("?", |entry| entry.reason.as_str());
        by_reason.entry(reason).or_default().push(row);
    }
    let mut out: String = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    for (reason, rows) in by_reason {
        let _ = writeln!(out, "\nbecause {reason}");
        for (name, difference) in rows {
            let _ = write!(out, "--- {name}\n{difference}");
        }
    }
    out
}
