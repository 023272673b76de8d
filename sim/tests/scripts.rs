//! Golden scripts: what a simulated server answers, who waits for whom, and what goes on when.
//!
//! A script is a list of commands, `---`, and the output, which `UPDATE_GOLDENFILES=1 cargo test -p
//! rowlock-sim --test scripts` writes anew. Expected output comes from a real server.
//!
//! | command | meaning |
//! | --- | --- |
//! | `a:> SQL` | session `a` (opened when first named) sends one statement |
//! | `a: [batch]> SQL; SQL` | ... sends a script as one message |
//! | `a: [first.b]> SQL` | of several sessions that can go on afterwards, `b` goes first |
//! | `a: [victim.b]> SQL` | of a deadlock that results, `b` is the victim |
//! | `connect a isolation="repeatable read"` | opens a session with a default isolation level |
//! | `clock ms=1200` | time passes on the server |
//! | `kill a` | the server ends a session |
//! | `granularity row` | from now on statements pause before row locks |
//! | `continue a` | session `a`, which pauses before a row lock, goes on |
//! | `waits` | who waits for what |
//! | `locks` | `pg_locks`, as far as it is canonical |
//!
//! What a session hears by `LISTEN` is printed under the command that let it hear:
//! `b notified: CHANNEL PAYLOAD from a`.
//!
//! A statement that blocks prints `waits for b`; what it answers once it can go on is printed under
//! the command that let it go on. By default the session that has waited longest goes first, and is
//! the victim of a deadlock.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use goldenscript::{Command, Context, Runner};
use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Outcome, Reply, TransactionStatus};
use rowlock_sim::database::{Answer, Database, Internal, Progress, Request};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::engine::sqlite::Sqlite;

/// Runs every script of a folder.
fn run_folder<D: Scripted>(folder: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/scripts")
        .join(folder);
    let mut failed = Vec::new();
    let mut scripts = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder of scripts is readable") {
            let path = entry.expect("its entries are").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                scripts.push(path);
            }
        }
    }
    scripts.sort();
    assert!(!scripts.is_empty(), "there are no scripts");
    for script in scripts {
        let run = std::panic::AssertUnwindSafe(|| {
            goldenscript::run(&mut Server::<D>::new(), &script).map_err(|e| e.to_string())
        });
        let outcome = std::panic::catch_unwind(run);
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed.push(format!("{}: {error}", script.display())),
            Err(panic) => {
                let message = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                failed.push(format!(
                    "{}: {}",
                    script.display(),
                    message.unwrap_or_default()
                ));
            }
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn postgres() {
    run_folder::<Postgres>("postgres");
}

#[test]
fn sqlite() {
    run_folder::<Sqlite>("sqlite");
}

/// A database that scripts are run on.
trait Scripted: Database {
    /// Whether the real server tells who is waited for.
    const TELLS_BLOCKERS: bool = true;

    /// An empty one.
    fn fresh() -> Self;

    /// Notifications that a session was sent: the channel, the payload, the sender.
    fn notifications(&mut self, _session: SessionId) -> Vec<(String, String, SessionId)> {
        Vec::new()
    }
}

impl Scripted for Postgres {
    fn fresh() -> Postgres {
        let mut database = Postgres::default();
        database.keep_views();
        database.keep_notices();
        database
    }

    fn notifications(&mut self, session: SessionId) -> Vec<(String, String, SessionId)> {
        let messages = self.take_notifications(session).into_iter();
        messages
            .map(|m| (m.channel.to_string(), m.payload.to_string(), m.from))
            .collect()
    }
}

impl Scripted for Sqlite {
    const TELLS_BLOCKERS: bool = false;

    fn fresh() -> Sqlite {
        Sqlite::default()
    }
}

/// A simulated server with named sessions.
struct Server<D> {
    database: D,
    sessions: BTreeMap<String, SessionId>,
    /// The sessions that wait, longest first.
    waiting: Vec<SessionId>,
}

impl<D: Scripted> Server<D> {
    fn new() -> Server<D> {
        Server {
            database: D::fresh(),
            sessions: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    fn session(&mut self, name: &str) -> SessionId {
        if let Some(session) = self.sessions.get(name) {
            return *session;
        }
        let session = self.database.connect(None);
        self.sessions.insert(name.to_owned(), session);
        session
    }

    fn name(&self, session: SessionId) -> &str {
        self.sessions
            .iter()
            .find(|(_, s)| **s == session)
            .map_or("?", |(name, _)| name)
    }

    /// Prints how far a request got.
    fn progress(&mut self, session: SessionId, progress: Progress) -> String {
        self.waiting.retain(|s| *s != session);
        match progress {
            Progress::Done(answer) => describe(&answer),
            Progress::Waits => {
                self.waiting.push(session);
                self.wait(session)
            }
            Progress::Pauses => {
                let pauses = self.database.pauses();
                let pause = pauses.into_iter().find(|p| p.session == session);
                format!(
                    "pauses before {}",
                    pause.map_or(String::new(), |p| p.before)
                )
            }
        }
    }

    fn wait(&self, session: SessionId) -> String {
        let waits = self.database.waits();
        let wait = waits.iter().find(|w| w.session == session);
        let Some(wait) = wait.filter(|_| D::TELLS_BLOCKERS) else {
            return "waits".to_owned();
        };
        if wait.blockers.is_empty() {
            return format!("waits ({})", wait.object);
        }
        let blockers: Vec<&str> = wait.blockers.iter().map(|b| self.name(*b)).collect();
        format!("waits for {}", blockers.join(", "))
    }

    /// Lets everything happen that the server does by itself, and prints it.
    fn settle(&mut self, first: Option<&str>, victim: Option<&str>) -> String {
        let mut out = String::new();
        loop {
            let mut pending = Vec::new();
            self.database.pending(&mut pending);
            let rank = |s: &SessionId| self.waiting.iter().position(|w| w == s);
            let wanted = |name: Option<&str>, s: SessionId| name == Some(self.name(s));
            // Who pauses goes on when a command says so.
            let open =
                |event: &Internal| matches!(event, Internal::Continue(_) | Internal::Route(..));
            pending.retain(|event| !open(event));
            pending.sort_by_key(|event| match event {
                Internal::Continue(_) | Internal::Route(..) => unreachable!("left out"),
                Internal::Resume(s) => (0, !wanted(first, *s), rank(s)),
                Internal::Expire(s) => (1, false, rank(s)),
                Internal::Deadlock(s) => (2, !wanted(victim, *s), rank(s)),
            });
            let Some(event) = pending.first().copied() else {
                break;
            };
            let (Internal::Resume(s)
            | Internal::Continue(s)
            | Internal::Route(s, _)
            | Internal::Expire(s)
            | Internal::Deadlock(s)) = event;
            let progress = self.database.internal(event);
            let waits = progress == Progress::Waits;
            let idle = !self.waiting.contains(&s);
            let text = self.progress(s, progress);
            if waits || idle {
                // It waits again, for somebody else perhaps: the next line about it tells. An idle
                // session that was ended learns it with its next statement.
                continue;
            }
            for line in text.lines() {
                let _ = writeln!(out, "{} resumes: {line}", self.name(s));
            }
        }
        out + &self.heard()
    }

    /// The notifications that were sent, by session.
    fn heard(&mut self) -> String {
        let mut sessions: Vec<SessionId> = self.sessions.values().copied().collect();
        sessions.sort_unstable();
        let mut out = String::new();
        for session in sessions {
            for (channel, payload, from) in self.database.notifications(session) {
                let _ = write!(out, "{} notified: {channel}", self.name(session));
                if !payload.is_empty() {
                    let _ = write!(out, " {payload}");
                }
                let _ = writeln!(out, " from {}", self.name(from));
            }
        }
        out
    }
}

impl<D: Scripted> Runner for Server<D> {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let tagged = |key: &str| {
            let prefix = format!("{key}.");
            let mut tags = context.tags.iter();
            tags.find_map(|t| t.strip_prefix(&prefix))
        };
        let mut out = String::new();
        if let Some(prefix) = &context.prefix {
            let session = self.session(prefix);
            let request = if context.tags.contains("batch") {
                Request::Batch(command.name.as_str().into())
            } else {
                Request::Exec(self.database.prepare(&command.name), [].into())
            };
            let progress = self.database.submit(session, &request);
            writeln!(out, "{}", self.progress(session, progress))?;
        } else {
            let mut args = command.consume_args();
            match command.name.as_str() {
                "connect" => {
                    let name = args.next_pos().ok_or("which session?")?.to_owned();
                    let isolation = args.take_key("isolation").map(str::parse).transpose()?;
                    let session = self.database.connect(isolation);
                    self.sessions.insert(name, session);
                }
                "clock" => {
                    let ms: i64 = args.take_key("ms").ok_or("ms=?")?.parse()?;
                    let now = self.database.now_micros();
                    self.database.set_now_micros(now + ms * 1_000);
                }
                "kill" => {
                    let name = args.next_pos().ok_or("which session?")?.to_owned();
                    let session = self.session(&name);
                    self.database.terminate(session);
                    self.waiting.retain(|s| *s != session);
                }
                "granularity" => {
                    let granularity = args.next_pos().ok_or("which?")?.parse()?;
                    self.database.set_granularity(granularity)?;
                }
                "continue" => {
                    let name = args.next_pos().ok_or("which session?")?.to_owned();
                    let session = self.session(&name);
                    let progress = self.database.internal(Internal::Continue(session));
                    writeln!(out, "{}", self.progress(session, progress))?;
                }
                "waits" => {
                    for wait in self.database.waits() {
                        let name = self.name(wait.session);
                        writeln!(out, "{name} {} ({})", self.wait(wait.session), wait.object)?;
                    }
                }
                other => return Err(format!("unknown command {other}").into()),
            }
            args.reject_next()?;
        }
        out.push_str(&self.settle(tagged("first"), tagged("victim")));
        Ok(out)
    }

    /// Undoing everything must bring the empty server back.
    fn end_script(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(())
    }
}

fn describe(answer: &Answer) -> String {
    match answer {
        Answer::Exec(result) => one(result),
        Answer::Batch(Err(error)) => one(&Err(error.clone())),
        Answer::Batch(Ok(batch)) => {
            let mut lines: Vec<String> =
                batch.replies.iter().map(|r| one(&Ok(r.clone()))).collect();
            if let Some(error) = &batch.error {
                lines.push(one(&Err(error.clone())));
            }
            lines.push(
                match batch.status {
                    TransactionStatus::Idle => "(idle)",
                    TransactionStatus::InTransaction => "(in transaction)",
                    TransactionStatus::Failed => "(failed transaction)",
                }
                .to_owned(),
            );
            lines.join("\n")
        }
    }
}

fn one(result: &Result<Reply, DbError>) -> String {
    let mut lines = Vec::new();
    match result {
        Ok(reply) => {
            for notice in reply.notices.iter() {
                lines.push(format!("{}: {}", notice.severity, notice.message));
            }
            let outcome = Outcome::of(result).to_string();
            lines.push(if outcome == "ok" {
                reply.tag.to_string()
            } else {
                outcome
            });
        }
        Err(error) => {
            let mut line = format!("error {}: {}", error.code, error.message);
            // The DETAIL of a deadlock has numbers of processes and transactions.
            if let Some(detail) = &error.detail
                && &*error.code != "40P01"
            {
                let _ = write!(line, " ({detail})");
            }
            if let Some(position) = error.position.filter(|_| &*error.code == "unsupported") {
                let _ = write!(line, " at {position}");
            }
            lines.push(line);
        }
    }
    lines.join("\n")
}
