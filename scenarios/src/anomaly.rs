//! Isolation anomalies: scripts of two or three sessions, and what each comes to on a server at an
//! isolation level.
//!
//! The scripts and the observed matrix stand beside the simulator's tests
//! (`sim/tests/anomalies`); the same code runs them on every [`Stage`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, Isolation, Reply};
use serde::Deserialize;

use crate::stage::{Answer, Completion, Stage, StageError};

/// A script with what tells the anomaly from its absence.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anomaly {
    /// Its short name: `G0`, `P4`, ...
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// The initial state.
    pub setup: String,
    /// One statement a line: `T1: select * from test`.
    pub script: String,
    /// What is compared: `4` (the rows of line 4), `5 count` (its count or error), `T1 commits`,
    /// `final` (the table at the end).
    pub shows: Vec<String>,
}

/// Under which conditions a script is run.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The isolation level of the sessions; `None` for the server's default.
    pub isolation: Option<Isolation>,
    /// Run in each session at its begin.
    pub connect: Option<String>,
    /// What stands for `begin`; empty for `begin` itself.
    pub begin: String,
    /// Whether the database knows `for update`; SQLite does not, and its scripts go without.
    pub has_no_for_update: bool,
    /// SQLite's busy timeout, set by `connect`, on a live server: a statement that ends with error 5
    /// only after that time was waiting, and is sent again when somebody else has done something.
    pub busy_timeout: Option<Duration>,
    /// Of those whom [`busy_timeout`](Self::busy_timeout) sends again, the one that began to wait
    /// last goes first. SQLite's waiters look now and then, so their order is open.
    pub latest_first: bool,
}

/// A cell of the matrix: what is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Errors as `T2:1213`, or `-`.
    pub errors: String,
    /// Who waited, in order, or `-`.
    pub blocked: String,
    /// What [`Anomaly::shows`] names, in its order; `-` for what did not come to pass.
    pub shows: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    anomaly: Vec<Anomaly>,
}

/// Reads a file of anomalies.
///
/// # Errors
/// It is not of the form.
pub fn parse(text: &str) -> Result<Vec<Anomaly>, String> {
    toml::from_str::<File>(text)
        .map(|file| file.anomaly)
        .map_err(|error| error.to_string())
}

/// What came of a line.
type Line = Option<Result<Reply, DbError>>;

struct Actor {
    name: String,
    id: SessionId,
    /// Lines to be sent.
    queue: VecDeque<usize>,
    /// The line on its way, and since when.
    busy: Option<(usize, Instant)>,
    /// A line that SQLite's busy handler gave up on.
    again: Option<usize>,
    failed: bool,
}

struct Run<'a> {
    stage: &'a mut dyn Stage,
    level: &'a Level,
    lines: Vec<(usize, String)>,
    actors: Vec<Actor>,
    results: Vec<Line>,
    /// The lines that waited.
    waited: Vec<bool>,
    blocked: Vec<String>,
    errors: Vec<String>,
}

/// Runs the script on a stage.
///
/// # Errors
/// The stage failed.
pub fn run(
    stage: &mut dyn Stage,
    anomaly: &Anomaly,
    level: &Level,
) -> Result<Observed, StageError> {
    stage.reset(std::slice::from_ref(&anomaly.setup))?;
    let mut names: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for line in anomaly.script.lines() {
        let (name, sql) = line.split_once(": ").ok_or_else(|| StageError {
            message: format!("{}: `{line}` names no session", anomaly.name),
        })?;
        let actor = names.iter().position(|n| *n == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        lines.push((actor, level.adapt(sql)));
    }
    let mut actors = Vec::new();
    for name in &names {
        actors.push(Actor {
            name: (*name).to_owned(),
            id: stage.connect(name, level.isolation)?,
            queue: VecDeque::new(),
            busy: None,
            again: None,
            failed: false,
        });
    }
    let mut run = Run {
        stage,
        level,
        results: vec![None; lines.len()],
        waited: vec![false; lines.len()],
        lines,
        actors,
        blocked: Vec::new(),
        errors: Vec::new(),
    };
    run.prepare()?;
    for number in 0..run.lines.len() {
        let actor = run.lines[number].0;
        run.actors[actor].queue.push_back(number);
        run.go_on()?;
    }
    run.observed(anomaly)
}

impl Level {
    /// A line of a script as it is sent under these conditions.
    pub fn adapt(&self, sql: &str) -> String {
        match sql {
            "begin" if !self.begin.is_empty() => self.begin.clone(),
            _ if self.has_no_for_update => sql.replace(" for update", ""),
            _ => sql.to_owned(),
        }
    }
}

impl Run<'_> {
    fn prepare(&mut self) -> Result<(), StageError> {
        let Some(script) = &self.level.connect else {
            return Ok(());
        };
        for actor in 0..self.actors.len() {
            let answer = self.at_once(actor, script)?;
            answer.map_err(|error| StageError {
                message: format!("{script}: {error}"),
            })?;
        }
        Ok(())
    }

    /// A statement that waits for nobody.
    fn at_once(&mut self, actor: usize, sql: &str) -> Result<Result<Reply, DbError>, StageError> {
        let id = self.actors[actor].id;
        self.stage.send(id, &statement(sql))?;
        let completions = self.stage.settle(None)?;
        let mut own = None;
        for completion in completions {
            match completion.session == id {
                true => own = exec(completion),
                false => self.completed(completion)?,
            }
        }
        own.ok_or_else(|| StageError {
            message: format!("`{sql}` has no answer"),
        })
    }

    /// Sends whatever can be sent, until everybody waits or has nothing to say.
    fn go_on(&mut self) -> Result<(), StageError> {
        let mut tried_again: Vec<usize> = Vec::new();
        loop {
            let free = |a: &Actor| a.busy.is_none() && a.again.is_none() && !a.queue.is_empty();
            if let Some(actor) = self.actors.iter().position(free) {
                if let Some(line) = self.actors[actor].queue.pop_front() {
                    tried_again.clear();
                    if self.actors[actor].failed {
                        self.give_up(actor, line)?;
                        continue;
                    }
                    self.send(actor, line)?;
                }
                continue;
            }
            // Those whom SQLite's busy handler gave up on: once each time that others went on.
            let waits = self.actors.iter().enumerate();
            let waits = waits
                .filter_map(|(i, a)| Some((a.again?, i)))
                .filter(|(_, i)| !tried_again.contains(i));
            let again = match self.level.latest_first {
                true => waits.max(),
                false => waits.min(),
            };
            let Some((line, actor)) = again else {
                return Ok(());
            };
            tried_again.push(actor);
            self.actors[actor].again = None;
            self.send(actor, line)?;
            if self.actors[actor].again.is_none() {
                tried_again.clear();
            }
        }
    }

    /// A line of a session that has failed: it says nothing, and rolls back where it would commit.
    fn give_up(&mut self, actor: usize, line: usize) -> Result<(), StageError> {
        if self.lines[line].1 == "commit" {
            // An error would be that nothing is left to roll back.
            let _ = self.at_once(actor, "rollback")?;
        }
        Ok(())
    }

    fn send(&mut self, actor: usize, line: usize) -> Result<(), StageError> {
        let sql = self.lines[line].1.clone();
        // Where the server leaves it open who of several waiters goes on first.
        let waiting = self.actors.iter().filter_map(|a| Some((a.busy?.0, a.id)));
        let first = match self.level.latest_first {
            true => waiting.max().map(|(_, id)| id),
            false => None,
        };
        self.actors[actor].busy = Some((line, Instant::now()));
        self.stage.send(self.actors[actor].id, &statement(&sql))?;
        for completion in self.stage.settle(first)? {
            self.completed(completion)?;
        }
        let waits = self.actors[actor].busy.is_some() || self.actors[actor].again == Some(line);
        if waits && !self.waited[line] {
            self.waited[line] = true;
            self.blocked.push(self.actors[actor].name.clone());
        }
        Ok(())
    }

    fn completed(&mut self, completion: Completion) -> Result<(), StageError> {
        let session = completion.session;
        let Some(actor) = self.actors.iter().position(|a| a.id == session) else {
            return Ok(());
        };
        let (Some((line, since)), Some(result)) =
            (self.actors[actor].busy.take(), exec(completion))
        else {
            return Ok(());
        };
        if let (Err(error), Some(timeout)) = (&result, self.level.busy_timeout)
            && &*error.code == "5"
            && since.elapsed() * 2 > timeout
        {
            self.actors[actor].again = Some(line);
            return Ok(());
        }
        if let Err(error) = &result {
            let name = &self.actors[actor].name;
            self.errors.push(format!("{name}:{}", error.code));
            self.actors[actor].failed = true;
        }
        self.results[line] = Some(result);
        Ok(())
    }

    fn observed(self, anomaly: &Anomaly) -> Result<Observed, StageError> {
        let mut shows = Vec::new();
        for what in &anomaly.shows {
            shows.push(match what.split_once(' ') {
                None if what == "final" => {
                    let reply = self.stage.query("select * from test order by id")?;
                    reply.map_or_else(|e| format!("error {}", e.code), |reply| rows(&reply))
                }
                Some((name, "commits")) => self.commits(name).to_string(),
                Some((number, "count")) => match self.line(number) {
                    Some(Ok(reply)) => format!("ok {}", reply.affected),
                    Some(Err(error)) => format!("error {}", error.code),
                    None => "-".to_owned(),
                },
                _ => match self.line(what) {
                    Some(Ok(reply)) => rows(reply),
                    _ => "-".to_owned(),
                },
            });
        }
        let join = |list: &[String]| match list.is_empty() {
            true => "-".to_owned(),
            false => list.join(","),
        };
        Ok(Observed {
            errors: join(&self.errors),
            blocked: join(&self.blocked),
            shows,
        })
    }

    fn line(&self, number: &str) -> Option<&Result<Reply, DbError>> {
        let number: usize = number.parse().ok()?;
        self.results.get(number.checked_sub(1)?)?.as_ref()
    }

    /// Whether the last line of a session, its COMMIT, succeeded.
    fn commits(&self, name: &str) -> &'static str {
        let last = self
            .lines
            .iter()
            .rposition(|(actor, _)| self.actors[*actor].name == name);
        match last.and_then(|line| self.results[line].as_ref()) {
            Some(Ok(_)) => "yes",
            _ => "no",
        }
    }
}

fn statement(sql: &str) -> Statement {
    Statement {
        sql: sql.into(),
        args: Vec::new(),
        batch: false,
    }
}

fn exec(completion: Completion) -> Option<Result<Reply, DbError>> {
    match completion.answer {
        Answer::Exec(result) => Some(result),
        Answer::Batch(_) => None,
    }
}

fn rows(reply: &Reply) -> String {
    let rows = reply.rows.iter().map(|row| {
        let values: Vec<String> = row.iter().map(ToString::to_string).collect();
        format!("({})", values.join(", "))
    });
    format!("[{}]", rows.collect::<Vec<_>>().join(", "))
}

/// A row of the matrix, as observed.
#[derive(Clone, Debug)]
pub struct Cell {
    /// `MySQL`, `MariaDB`, `SQLite`.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// The level, with what else was set.
    pub level: String,
    /// The name of the anomaly.
    pub anomaly: String,
    /// `allowed`, `prevented`, `prevented-by-blocking` or `prevented-by-error`.
    pub outcome: String,
    /// What was seen; `*` in [`Observed::shows`] is not compared.
    pub observed: Observed,
}

impl Cell {
    /// Reads a matrix: tab-separated, with a head line.
    ///
    /// # Errors
    /// A line has not eight columns.
    pub fn parse(text: &str) -> Result<Vec<Cell>, String> {
        let mut cells = Vec::new();
        for (number, line) in text.lines().enumerate().skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            let [
                engine,
                version,
                level,
                anomaly,
                outcome,
                errors,
                blocked,
                shows,
            ] = columns[..]
            else {
                return Err(format!("line {}: not eight columns", number + 1));
            };
            cells.push(Cell {
                engine: engine.to_owned(),
                version: version.to_owned(),
                level: level.to_owned(),
                anomaly: anomaly.to_owned(),
                outcome: outcome.to_owned(),
                observed: Observed {
                    errors: errors.to_owned(),
                    blocked: blocked.to_owned(),
                    shows: shows.split("; ").map(str::to_owned).collect(),
                },
            });
        }
        Ok(cells)
    }

    /// The conditions that the level stands for.
    ///
    /// # Errors
    /// The level is not understood.
    pub fn conditions(&self) -> Result<Level, String> {
        let unknown = || format!("unknown level `{}`", self.level);
        if let Some((_, begin)) = self.level.split_once('/') {
            return Ok(Level {
                begin: begin.to_lowercase(),
                has_no_for_update: true,
                connect: Some("pragma busy_timeout = 100".to_owned()),
                busy_timeout: Some(Duration::from_millis(100)),
                ..Level::default()
            });
        }
        let words: Vec<&str> = self.level.split(' ').collect();
        let name = words.get(..2).unwrap_or(&words).join(" ");
        let name = name.split(" +").next().unwrap_or_default().to_lowercase();
        let isolation = match name.split(" snapshot").next() {
            Some(name) => name.parse().map_err(|_| unknown())?,
            None => return Err(unknown()),
        };
        let snapshot = match &self.level {
            level if level.contains("=OFF") => Some("OFF"),
            level if level.contains("+snapshot_isolation") => Some("ON"),
            _ if self.engine == "MariaDB" => Some("OFF"),
            _ => None,
        };
        Ok(Level {
            isolation: Some(isolation),
            connect: snapshot.map(|s| format!("SET SESSION innodb_snapshot_isolation = {s}")),
            ..Level::default()
        })
    }

    /// How a run differs from what was observed; nothing if it does not.
    pub fn difference(&self, got: &Observed) -> Option<String> {
        let expected = &self.observed;
        let shows = expected.shows.len() == got.shows.len()
            && expected
                .shows
                .iter()
                .zip(&got.shows)
                .all(|(expected, got)| expected == "*" || expected == got);
        if shows && expected.errors == got.errors && expected.blocked == got.blocked {
            return None;
        }
        Some(format!("expected {expected:?}, got {got:?}"))
    }
}
