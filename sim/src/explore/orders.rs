//! The search for a serial order of committed transactions.

use std::collections::BTreeSet;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Reply, Row};

use super::serial::{NAME, Step};
use super::world::Flaw;
use crate::database::{Answer, Database, Progress, Request};

/// The committed rows of all tables, sorted.
pub(super) fn contents<D: Database>(db: &mut D) -> Result<Vec<(String, Vec<String>)>, Flaw> {
    let mut all = Vec::new();
    for table in db.tables() {
        let sql = format!("SELECT * FROM {table}");
        let query = db.prepare(&sql);
        let rows = db.query(query, &[]);
        let rows = rows.map_err(|error| Flaw::of_query(NAME, error))?;
        all.push((table, sorted(&rows)));
    }
    Ok(all)
}

fn sorted(rows: &[Row]) -> Vec<String> {
    let show = |row: &Row| {
        let values: Vec<String> = row.iter().map(ToString::to_string).collect();
        format!("({})", values.join(", "))
    };
    let mut rows: Vec<String> = rows.iter().map(show).collect();
    rows.sort_unstable();
    rows
}

/// Whether a statement was answered the same: rows as a set.
fn is_same(a: &Answer, b: &Answer) -> bool {
    let same_reply = |a: &Reply, b: &Reply| {
        a.tag == b.tag && a.affected == b.affected && sorted(&a.rows) == sorted(&b.rows)
    };
    match (a, b) {
        (Answer::Exec(Ok(a)), Answer::Exec(Ok(b))) => same_reply(a, b),
        (Answer::Exec(Err(a)), Answer::Exec(Err(b))) => a.code == b.code,
        (Answer::Batch(Ok(a)), Answer::Batch(Ok(b))) => {
            let code = |batch: &rowlock_model::Batch| batch.error.as_ref().map(|e| e.code.clone());
            code(a) == code(b)
                && a.replies.len() == b.replies.len()
                && a.replies
                    .iter()
                    .zip(&b.replies)
                    .all(|(a, b)| same_reply(a, b))
        }
        _ => false,
    }
}

/// The search for a serial order.
pub(super) struct Orders<'a, D> {
    pub(super) sessions: Vec<Vec<SessionId>>,
    pub(super) logs: &'a [Vec<Vec<Step>>],
    pub(super) requests: &'a [Request],
    pub(super) answers: &'a [Answer],
    /// Knows the texts of statements.
    pub(super) texts: &'a D,
    pub(super) db: &'a mut D,
    pub(super) rows: &'a [(String, Vec<String>)],
    /// How far processes were, and in which state of the database, when an order was given up.
    pub(super) known: BTreeSet<(Vec<usize>, u128)>,
    /// The first order that answers everybody the same, with rows that differ.
    pub(super) answered: Option<(Vec<usize>, String)>,
    pub(super) order: Vec<usize>,
    /// The order that got furthest, and who is answered differently then.
    pub(super) last: Option<(Vec<usize>, String)>,
}

impl<D: Database> Orders<'_, D> {
    /// Whether what is left of the logs has a serial order from the present state on.
    pub(super) fn search(&mut self, done: &mut Vec<usize>) -> Result<bool, Flaw> {
        let over = done.iter().zip(self.logs).all(|(n, log)| *n == log.len());
        if over {
            let rows = contents(self.db)?;
            if rows == self.rows {
                return Ok(true);
            }
            if self.answered.is_none() {
                self.answered = Some((self.order.clone(), difference(self.rows, &rows)));
            }
            return Ok(false);
        }
        if !self.known.insert((done.clone(), self.db.fingerprint())) {
            return Ok(false);
        }
        for process in 0..self.logs.len() {
            let Some(transaction) = self.logs[process].get(done[process]) else {
                continue;
            };
            let mark = self.db.mark();
            self.order.push(process);
            let different = self.run(process, transaction);
            let found = match different {
                None => {
                    done[process] += 1;
                    let found = self.search(done)?;
                    done[process] -= 1;
                    found
                }
                Some(different) => {
                    let further = |(order, _): &(Vec<usize>, _)| order.len() < self.order.len();
                    if self.last.as_ref().is_none_or(further) {
                        self.last = Some((self.order.clone(), different));
                    }
                    false
                }
            };
            self.order.pop();
            self.db.undo_to(mark);
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs a transaction; says what is answered differently.
    fn run(&mut self, process: usize, transaction: &[Step]) -> Option<String> {
        for step in transaction {
            self.db.set_now_micros(step.now_micros);
            let (request, text) = match &self.requests[step.request as usize] {
                Request::Exec(statement, args) => {
                    let text = self.texts.text(*statement);
                    let statement = self.db.prepare(&text);
                    (Request::Exec(statement, args.clone()), text)
                }
                Request::Batch(text) => (Request::Batch(text.clone()), text.clone()),
            };
            let session = self.sessions[process][usize::from(step.local)];
            let expected = &self.answers[step.answer as usize];
            match self.db.submit(session, &request) {
                Progress::Done(answer) if is_same(&answer, expected) => {}
                Progress::Done(answer) => {
                    return Some(format!(
                        "`{text}` is answered {} and not {}",
                        super::replay::outcome_of(&answer),
                        super::replay::outcome_of(expected)
                    ));
                }
                Progress::Waits | Progress::Pauses => return Some(format!("`{text}` waits")),
            }
        }
        None
    }
}

/// The first table whose rows differ, as they are in the serial run.
fn difference(run: &[(String, Vec<String>)], serial: &[(String, Vec<String>)]) -> String {
    let differs = serial
        .iter()
        .find(|table| !run.contains(table))
        .or(run.iter().find(|table| !serial.contains(table)));
    let Some((name, rows)) = differs else {
        return "other rows".to_owned();
    };
    let here = run.iter().find(|(other, _)| other == name);
    let here = here.map_or(String::new(), |(_, rows)| rows.join(" "));
    format!("{} in {name} instead of {here}", rows.join(" "))
}
