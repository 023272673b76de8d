//! A few sessions on one SQLite file, in a random order: every reply, who is busy and for how long,
//! and what is there in the end.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use rowlock::real::{Journal, RealStage, Target};
use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, Value};
use rowlock_scenarios::stage::{Answer, Stage};
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::stage::SimStage;

use crate::grammar::Numbers;
use crate::pair::line_of;

const SETUP: &str = "CREATE TABLE a (id INTEGER PRIMARY KEY, v INT NOT NULL, k INT UNIQUE); \
    CREATE TABLE b (id INTEGER PRIMARY KEY, a INT REFERENCES a (id) ON DELETE CASCADE, \
    x TEXT COLLATE NOCASE, CHECK (x <> 'no')); CREATE INDEX b_x ON b (x); \
    INSERT INTO a VALUES (1, 0, 10), (2, 0, 20), (3, 5, NULL); INSERT INTO b VALUES (1, 1, 'p')";

/// How long a session with a busy timeout polls.
const TIMEOUT: Duration = Duration::from_millis(30);

const BEGINS: [&str; 5] = [
    "BEGIN",
    "BEGIN DEFERRED",
    "BEGIN IMMEDIATE",
    "BEGIN EXCLUSIVE",
    "SAVEPOINT s",
];

const ENDS: [&str; 4] = ["COMMIT", "COMMIT", "ROLLBACK", "RELEASE s"];

/// `#` stands for a small number.
const STATEMENTS: [&str; 39] = [
    "SELECT id, v, k FROM a ORDER BY id",
    "SELECT v FROM a WHERE id = #",
    "SELECT count(*), sum(v) FROM a",
    "SELECT a.id, b.x FROM a LEFT JOIN b ON b.a = a.id ORDER BY a.id, b.id",
    "SELECT 1",
    "UPDATE a SET v = v + 1 WHERE id = #",
    "UPDATE a SET v = v + 1",
    "UPDATE a SET k = k + 10",
    "UPDATE a SET id = id + 1 WHERE id >= #",
    "UPDATE a SET v = # WHERE v < 3 RETURNING id, v",
    "UPDATE OR IGNORE a SET k = 20",
    "UPDATE OR FAIL a SET k = 20",
    "UPDATE OR REPLACE a SET k = 20 WHERE id = #",
    "UPDATE OR ROLLBACK a SET k = 20 WHERE id = #",
    "UPDATE a SET v = 9 WHERE id = 99",
    "UPDATE a SET v = v WHERE id = 1",
    "INSERT INTO a (v, k) VALUES (#, #)",
    "INSERT INTO a VALUES (#, 1, 20)",
    "INSERT OR IGNORE INTO a VALUES (#, 2, #)",
    "INSERT OR REPLACE INTO a VALUES (#, 3, 20)",
    "INSERT OR FAIL INTO a VALUES (7, 1, 70), (#, 1, 80), (8, 1, 90)",
    "INSERT OR ROLLBACK INTO a VALUES (#, 1, 1)",
    "INSERT INTO a VALUES (#, 1, 30) ON CONFLICT (id) DO UPDATE SET v = v + excluded.v",
    "INSERT INTO a VALUES (#, 1, 20) ON CONFLICT (k) DO NOTHING",
    "INSERT INTO a (v) VALUES (1), (2) RETURNING id",
    "INSERT INTO b (a, x) SELECT id, 'q' FROM a WHERE v >= #",
    "INSERT INTO b (a, x) VALUES (#, 'No')",
    "INSERT INTO b (a, x) VALUES (99, 'z')",
    "DELETE FROM a WHERE id = #",
    "DELETE FROM b",
    "DELETE FROM a WHERE v < # RETURNING id",
    "SELECT changes(), total_changes(), last_insert_rowid()",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "RELEASE s",
    "PRAGMA foreign_keys = ON",
    "CREATE TABLE IF NOT EXISTS c (z)",
    "CREATE INDEX IF NOT EXISTS a_v ON a (v)",
    "INSERT INTO c VALUES (#)",
];

/// A program: which sessions poll, and what is sent in which order.
#[derive(Clone, Debug)]
struct Program {
    polls: Vec<bool>,
    steps: Vec<(usize, String)>,
}

impl Program {
    fn random(numbers: &mut Numbers) -> Program {
        let sessions = 2 + numbers.next(2);
        let polls = (0..sessions).map(|_| numbers.next(4) == 0).collect();
        let mut open: Vec<Vec<String>> = Vec::new();
        for _ in 0..sessions {
            let mut own = Vec::new();
            let block = numbers.next(4) > 0;
            if block {
                own.push(numbers.pick(&BEGINS).to_owned());
            }
            for _ in 0..1 + numbers.next(5) {
                let text = numbers.pick(&STATEMENTS);
                let number = (1 + numbers.next(4)).to_string();
                own.push(text.replace('#', &number));
            }
            if block {
                own.push(numbers.pick(&ENDS).to_owned());
            }
            own.reverse();
            open.push(own);
        }
        let mut steps = Vec::new();
        while open.iter().any(|own| !own.is_empty()) {
            let session = numbers.next(sessions);
            if let Some(sql) = open[session].pop() {
                steps.push((session, sql));
            }
        }
        Program { polls, steps }
    }
}

/// Runs a program: a line for every step, and for what is there in the end. `None`: refused.
fn run(
    stage: &mut dyn Stage,
    program: &Program,
    is_real: bool,
) -> Result<Option<Vec<String>>, Failed> {
    stage.reset(&[SETUP.to_owned()])?;
    let mut sessions = Vec::new();
    for (i, polls) in program.polls.iter().enumerate() {
        let session = stage.connect(&format!("s{i}"), None)?;
        sessions.push(session);
        if *polls {
            let pragma = format!("PRAGMA busy_timeout = {}", TIMEOUT.as_millis());
            step(stage, session, &pragma, is_real)?;
        }
    }
    let mut lines = Vec::new();
    for (session, sql) in &program.steps {
        match step(stage, sessions[*session], sql, is_real)? {
            Some(line) => lines.push(line),
            None => return Ok(None),
        }
    }
    for session in &sessions {
        step(stage, *session, "ROLLBACK", is_real)?;
    }
    for table in ["a", "b", "c"] {
        let reply = stage.query(&format!("SELECT * FROM {table} ORDER BY 1, 2"));
        lines.push(match reply? {
            Ok(reply) => format!("{table}: {:?}", reply.rows),
            Err(error) => format!("{table}: error {}", error.code),
        });
    }
    Ok(Some(lines))
}

fn step(
    stage: &mut dyn Stage,
    session: SessionId,
    sql: &str,
    is_real: bool,
) -> Result<Option<String>, Failed> {
    let statement = Statement {
        sql: sql.into(),
        args: Vec::<Value>::new(),
        batch: false,
    };
    let begun = Instant::now();
    stage.send(session, &statement)?;
    let mut completions = stage.settle(None)?;
    let mut waited = is_real && begun.elapsed() >= TIMEOUT * 9 / 10;
    if completions.is_empty() && !is_real {
        waited = true;
        stage.advance(TIMEOUT * 2)?;
        completions = stage.settle(None)?;
    }
    let Some(completion) = completions.pop() else {
        return Err(format!("`{sql}` has no answer").into());
    };
    let Answer::Exec(answer) = completion.answer else {
        return Err("a statement was answered as a script".into());
    };
    // A slow answer that is not that it is busy may be the machine's.
    let busy = |error: &DbError| matches!(&*error.code, "5" | "517");
    let waited = waited && answer.as_ref().is_err_and(busy);
    Ok(line_of(answer).map(|line| match waited {
        true => format!("{line} after polling"),
        false => line,
    }))
}

/// The first step at which the two differ.
fn difference(real: &[String], simulated: &[String]) -> Option<usize> {
    (0..real.len().max(simulated.len())).find(|i| real.get(*i) != simulated.get(*i))
}

struct Stages {
    real: RealStage,
    simulated: SimStage<Sqlite>,
}

/// What the two said.
type Told = (Vec<String>, Vec<String>);

impl Stages {
    fn told(&mut self, program: &Program) -> Result<Option<Told>, Failed> {
        let Some(simulated) = run(&mut self.simulated, program, false)? else {
            return Ok(None);
        };
        let real = run(&mut self.real, program, true)?;
        Ok(real.map(|real| (real, simulated)))
    }

    /// Leaves out steps as long as the two still differ.
    fn smaller(&mut self, mut program: Program) -> Result<Program, Failed> {
        let mut i = 0;
        while i < program.steps.len() {
            let mut less = program.clone();
            less.steps.remove(i);
            let differ = self
                .told(&less)?
                .is_some_and(|(real, simulated)| real != simulated);
            match differ {
                true => program = less,
                false => i += 1,
            }
        }
        Ok(program)
    }
}

/// Runs so many programs, and shows those that differ.
pub(crate) fn compare(journal: Journal, seed: u64, count: u64) -> Result<(), Failed> {
    let wal = matches!(journal, Journal::Wal);
    let fresh = move || match wal {
        true => Sqlite::default().with_log(),
        false => Sqlite::default(),
    };
    let mut stages = Stages {
        real: RealStage::open(&Target::Sqlite(journal))?,
        simulated: SimStage::new("simulated SQLite", fresh),
    };
    let mut numbers = Numbers::new(seed);
    let (mut refused, mut differ) = (0, 0);
    let mut shown = String::new();
    for _ in 0..count {
        let program = Program::random(&mut numbers);
        let Some((real, simulated)) = stages.told(&program)? else {
            refused += 1;
            continue;
        };
        if real == simulated {
            continue;
        }
        differ += 1;
        if differ > 8 {
            continue;
        }
        let program = stages.smaller(program)?;
        let Some((real, simulated)) = stages.told(&program)? else {
            continue;
        };
        let at = difference(&real, &simulated).unwrap_or(0);
        shown.push_str(&format!("\npolls: {:?}\n", program.polls));
        for (session, sql) in &program.steps {
            shown.push_str(&format!("  s{session}: {sql}\n"));
        }
        let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
        shown.push_str(&format!(
            "  step {at}\n    real:      {}\n    simulated: {}\n",
            line(&real),
            line(&simulated)
        ));
    }
    println!("{count} programs, {refused} refused");
    match differ {
        0 => Ok(()),
        _ => Err(format!("{differ} of {count} differ{shown}").into()),
    }
}
