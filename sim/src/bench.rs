//! The simulated [`Bench`]: isolation specs on the simulated PostgreSQL.
//!
//! Time stands still while sessions can go on by themselves. It passes only in a patient wait, from
//! one server timer to the next: deadlock checks, timeouts, sleeps.

mod memory;

use std::collections::BTreeSet;

use rowlock_model::schedule::SessionId;
use rowlock_model::value::civil;
use rowlock_model::{Batch, DbError, ErrorClass, Isolation, Notice, Reply, Value};
use rowlock_scenarios::spec::{Bench, Notification, Refusal, Rest, Results, Seat, Table};
use rowlock_scenarios::stage::StageError;

use self::memory::Memory;
use crate::database::{Answer, Database, Internal, Progress, Request};
use crate::engine::postgres::{DeadlockTimer, Message, Postgres, pid};

/// A connection.
#[derive(Clone, Debug)]
struct Place {
    session: SessionId,
    running: bool,
    answer: Option<Answer>,
    notices: Vec<Notice>,
}

/// A bench over a simulated PostgreSQL.
#[derive(Debug, Default)]
pub struct SimBench {
    db: Postgres,
    isolation: Option<Isolation>,
    places: Vec<Place>,
    /// Sessions that wait, longest first.
    waiting: Vec<SessionId>,
    /// Waits in which the deadlock check was made already.
    checked: BTreeSet<(SessionId, u64)>,
    /// What earlier permutations were answered.
    memory: Memory,
}

/// What time brings next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// A deadlock check; of several at one time, the earliest wait's.
    Check(u64, SessionId),
    /// Any other timer.
    Clock,
}

fn failure(message: impl Into<String>) -> StageError {
    StageError {
        message: message.into(),
    }
}

impl SimBench {
    /// A bench on which sessions have this default isolation level; the server's if `None`.
    pub fn new(isolation: Option<Isolation>) -> SimBench {
        SimBench {
            isolation,
            ..SimBench::default()
        }
    }

    fn take(&mut self, session: SessionId, progress: Progress) {
        match progress {
            Progress::Waits | Progress::Pauses => {
                if !self.waiting.contains(&session) {
                    self.waiting.push(session);
                }
            }
            Progress::Done(answer) => {
                self.waiting.retain(|other| *other != session);
                if let Some(place) = self.places.iter_mut().find(|p| p.session == session) {
                    // A timer may end an idle session: its next query is told.
                    if std::mem::take(&mut place.running) {
                        place.answer = Some(answer);
                    }
                }
            }
        }
        let told = self.db.take_notices(session);
        if let Some(place) = self.places.iter_mut().find(|p| p.session == session) {
            place.notices.extend(told);
        }
    }

    /// Lets sessions go on until each is idle or waits: timers that are due first, then who has
    /// waited longest.
    fn settle(&mut self) {
        loop {
            let mut pending = Vec::new();
            self.db.pending(&mut pending);
            let place = |s: SessionId| self.waiting.iter().position(|other| *other == s);
            let next = pending
                .into_iter()
                .filter_map(|internal| match internal {
                    Internal::Expire(s) => Some((0, None, s, internal)),
                    Internal::Resume(s) => Some((1, place(s), s, internal)),
                    Internal::Deadlock(_) | Internal::Continue(_) | Internal::Route(..) => None,
                })
                .min();
            let Some((_, _, session, internal)) = next else {
                return;
            };
            let progress = self.db.internal(internal);
            self.take(session, progress);
        }
    }

    /// Moves time on to the next timer and lets it go off. `false` if there is none.
    fn pass_time(&mut self) -> bool {
        let now = self.db.now_micros();
        let mut clock = Vec::new();
        self.db.timers_ahead(&mut clock);
        let clock = clock.into_iter().map(|at| (at, Next::Clock));
        let checks: Vec<DeadlockTimer> = self.db.deadlock_timers();
        let checks = checks
            .into_iter()
            .filter(|check| !self.checked.contains(&(check.session, check.wait)))
            .map(|check| {
                (
                    check.at_micros.max(now),
                    Next::Check(check.wait, check.session),
                )
            });
        let Some((at, next)) = clock.chain(checks).min() else {
            return false;
        };
        self.db.set_now_micros(at);
        if let Next::Check(wait, session) = next {
            self.checked.insert((session, wait));
            let mut pending = Vec::new();
            self.db.pending(&mut pending);
            let found = Internal::Deadlock(session);
            if pending.contains(&found) {
                let progress = self.db.internal(found);
                self.take(session, progress);
            }
        }
        self.settle();
        true
    }

    /// Whether another session under test blocks this one.
    fn is_blocked(&self, session: SessionId) -> bool {
        let tested = |other: &SessionId| self.places[1..].iter().any(|p| p.session == *other);
        let waits = self.db.waits();
        let mut waits = waits.iter().filter(|wait| wait.session == session);
        waits.any(|wait| !wait.granted && wait.blockers.iter().any(tested))
    }
}

impl Bench for SimBench {
    fn announce(&mut self, sql: &str) {
        self.db.expect_text(sql);
    }

    fn open(&mut self, names: &[String]) -> Result<(), StageError> {
        *self = SimBench::new(self.isolation);
        self.db.keep_notices();
        for name in names {
            let session = self.db.connect_client(self.isolation, name);
            self.places.push(Place {
                session,
                running: false,
                answer: None,
                notices: Vec::new(),
            });
        }
        Ok(())
    }

    fn begin(&mut self, more: bool) {
        self.begin_permutation(more);
    }

    fn send(&mut self, seat: Seat, sql: &str) -> Result<(), StageError> {
        if self.places[seat].running || self.places[seat].answer.is_some() {
            return Err(failure(format!("connection {seat} is busy")));
        }
        if self.recall(seat, sql) {
            return Ok(());
        }
        let place = &mut self.places[seat];
        place.running = true;
        let before = place.notices.len();
        let session = place.session;
        let progress = self.db.submit(session, &Request::Batch(sql.into()));
        self.take(session, progress);
        self.settle();
        self.remember(seat, sql, before);
        Ok(())
    }

    fn wait(&mut self, seat: Seat, patient: bool) -> Result<Rest, StageError> {
        let session = self.places[seat].session;
        loop {
            if self.places[seat].answer.is_some() {
                return Ok(Rest::Finished);
            }
            if !patient && self.is_blocked(session) {
                return Ok(Rest::Blocked);
            }
            if !self.pass_time() {
                return Ok(Rest::Stuck("waits for ever".to_owned()));
            }
        }
    }

    fn results(&mut self, seat: Seat) -> Result<Results, StageError> {
        match self.places[seat].answer.take() {
            Some(Answer::Batch(Ok(batch))) => Ok(results(batch)),
            Some(Answer::Batch(Err(error)) | Answer::Exec(Err(error))) => Ok(Results {
                tables: Vec::new(),
                error: Some(refusal(&error, "FATAL")),
            }),
            Some(Answer::Exec(Ok(_))) | None => Err(failure("there is no answer")),
        }
    }

    fn notices(&mut self, seat: Seat) -> Vec<Notice> {
        std::mem::take(&mut self.places[seat].notices)
    }

    fn notifications(&mut self, seat: Seat) -> Vec<Notification> {
        let heard = self.db.take_notifications(self.places[seat].session);
        let seat_of = |session| self.places.iter().position(|p| p.session == session);
        let notification = |message: Message| Notification {
            channel: message.channel.to_string(),
            payload: message.payload.to_string(),
            from: seat_of(message.from).ok_or_else(|| pid(message.from)),
        };
        heard.into_iter().map(notification).collect()
    }
}

fn results(batch: Batch) -> Results {
    let mut tables = Vec::new();
    let mut error = batch.error.as_ref().map(|error| refusal(error, "ERROR"));
    for reply in batch.replies.iter().filter(|r| !r.columns.is_empty()) {
        match table(reply) {
            Ok(table) => tables.push(table),
            Err(unsupported) => error = Some(refusal(&unsupported, "ERROR")),
        }
    }
    Results { tables, error }
}

fn refusal(error: &DbError, severity: &str) -> Refusal {
    Refusal {
        severity: severity.to_owned(),
        message: error.message.to_string(),
        is_unsupported: error.class == ErrorClass::Unsupported,
    }
}

fn table(reply: &Reply) -> Result<Table, DbError> {
    let columns = reply.columns.iter().map(|c| c.name.to_string()).collect();
    let mut rows = Vec::new();
    for row in reply.rows.iter() {
        let cells: Result<Vec<_>, DbError> = row.iter().map(text).collect();
        rows.push(cells?);
    }
    Ok(Table { columns, rows })
}

/// A value as the server prints it with `DateStyle = Postgres, MDY`, under which specs run.
fn text(value: &Value) -> Result<Option<String>, DbError> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(true) => "t".to_owned(),
        Value::Bool(false) => "f".to_owned(),
        Value::Date(days) => date(i64::from(*days)),
        Value::Timestamp(micros) => timestamp(*micros),
        Value::TimestampTz(_) | Value::Interval { .. } => {
            return Err(DbError::unsupported(
                "printing times with a zone, and intervals, as specs do",
                None,
            ));
        }
        Value::Array(items) => array(items)?,
        other => other.to_string(),
    }))
}

fn array(items: &[Value]) -> Result<String, DbError> {
    let mut out = Vec::new();
    for item in items {
        out.push(match (item, text(item)?) {
            (_, None) => "NULL".to_owned(),
            (Value::Text(_), Some(text)) if needs_quotes(&text) => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            (_, Some(text)) => text,
        });
    }
    Ok(format!("{{{}}}", out.join(",")))
}

fn needs_quotes(text: &str) -> bool {
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace();
    text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(special)
}

/// `05-15-2009`.
fn date(days: i64) -> String {
    let (year, month, day) = civil::from_days(days);
    match year {
        1.. => format!("{month:02}-{day:02}-{year:04}"),
        _ => format!("{month:02}-{day:02}-{:04} BC", 1 - year),
    }
}

/// `Fri May 15 12:30:00.25 2009`.
fn timestamp(micros: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let days = micros.div_euclid(civil::DAY_MICROS);
    let (year, month, day) = civil::from_days(days);
    format!(
        "{} {} {day:02} {} {year:04}",
        // 1970-01-01 was a Thursday.
        WEEKDAYS[days.rem_euclid(7) as usize],
        MONTHS[month as usize - 1],
        civil::time(micros.rem_euclid(civil::DAY_MICROS)),
    )
}
