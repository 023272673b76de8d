//! How many transactions a reader costs, at SERIALIZABLE and at REPEATABLE READ: the workload of
//! `scenarios/skew/c15-read-only-anomaly.toml`, a withdrawal, a deposit and a reader, in every order
//! of their statements on the simulated PostgreSQL. Counts the orders in which a transaction is
//! refused, by whose it is.
//!
//! ```text
//! cargo run -p rowlock --example readers
//! ```

use std::error::Error;

use rowlock::model::schedule::{SessionId, Statement};
use rowlock::scenarios::stage::{Answer, Stage};
use rowlock::sim::engine::postgres::Postgres;
use rowlock::sim::stage::SimStage;
use rowlock::{ErrorClass, Isolation};

const SETUP: &str = "CREATE TABLE account (name text PRIMARY KEY, n int NOT NULL);
INSERT INTO account VALUES ('checking', 0), ('savings', 0);";

/// The statements of each process; the writers come first.
const STEPS: [&[&str]; 3] = [
    &[
        "BEGIN",
        "SELECT sum(n)::int AS n FROM account",
        "UPDATE account SET n = n - 11 WHERE name = 'checking'",
        "COMMIT",
    ],
    &[
        "BEGIN",
        "UPDATE account SET n = n + 20 WHERE name = 'savings'",
        "COMMIT",
    ],
    &[
        "BEGIN READ ONLY",
        "SELECT sum(n)::int AS n FROM account",
        "COMMIT",
    ],
];

const READER: usize = 2;

/// What happens in all orders.
#[derive(Default)]
struct Count {
    orders: u32,
    writer_refused: u32,
    reader_refused: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("reader at         orders  a writer refused  the reader refused");
    for level in [Isolation::RepeatableRead, Isolation::Serializable] {
        let mut stage = SimStage::new("simulated PostgreSQL 15", Postgres::default);
        let mut count = Count::default();
        let mut order = Vec::new();
        every_order([0; 3], &mut order, &mut |order| {
            let refused = run(&mut stage, level, order)?;
            count.orders += 1;
            count.writer_refused += u32::from(refused[..READER].contains(&true));
            count.reader_refused += u32::from(refused[READER]);
            Ok(())
        })?;
        println!(
            "{:16} {:>7} {:>17} {:>19}",
            level.to_string(),
            count.orders,
            count.writer_refused,
            count.reader_refused
        );
    }
    Ok(())
}

/// What is done with an order: the process of each statement.
type Visit<'a> = dyn FnMut(&[usize]) -> Result<(), Box<dyn Error>> + 'a;

/// All orders in which the statements of the processes can follow each other.
fn every_order(
    done: [usize; 3],
    order: &mut Vec<usize>,
    visit: &mut Visit<'_>,
) -> Result<(), Box<dyn Error>> {
    let mut is_complete = true;
    for process in 0..STEPS.len() {
        if done[process] == STEPS[process].len() {
            continue;
        }
        is_complete = false;
        let mut next = done;
        next[process] += 1;
        order.push(process);
        every_order(next, order, visit)?;
        order.pop();
    }
    match is_complete {
        true => visit(order),
        false => Ok(()),
    }
}

/// Runs one order. Says of each process whether it was refused; a refused one sends nothing more.
/// Nobody waits: the writers write different rows.
fn run(
    stage: &mut dyn Stage,
    reader: Isolation,
    order: &[usize],
) -> Result<[bool; 3], Box<dyn Error>> {
    stage.reset(&[SETUP.to_owned()])?;
    let mut sessions = Vec::new();
    for (process, label) in ["withdrawer", "depositor", "reader"].iter().enumerate() {
        let level = match process {
            READER => reader,
            _ => Isolation::Serializable,
        };
        sessions.push(stage.connect(label, Some(level))?);
    }
    let mut refused = [false; 3];
    let mut next = [0; 3];
    for process in order {
        let step = next[*process];
        next[*process] += 1;
        if !refused[*process] {
            refused[*process] = send(stage, sessions[*process], STEPS[*process][step])?;
        }
    }
    Ok(refused)
}

/// Sends a statement; says whether it was refused for the sake of serializability.
fn send(stage: &mut dyn Stage, session: SessionId, sql: &str) -> Result<bool, Box<dyn Error>> {
    let statement = Statement {
        sql: sql.into(),
        args: Vec::new(),
        batch: false,
    };
    stage.send(session, &statement)?;
    let completions = stage.settle(None)?;
    match completions.first().map(|completion| &completion.answer) {
        Some(Answer::Exec(Ok(_))) => Ok(false),
        Some(Answer::Exec(Err(error))) if error.class == ErrorClass::Serialization => Ok(true),
        Some(Answer::Exec(Err(error))) => Err(error.to_string().into()),
        _ => Err(format!("{sql}: no answer").into()),
    }
}
