//! How many statements a second the simulated PostgreSQL executes, without an explorer: the usual
//! claim on four rows, undone after each, and the same inside a transaction with its commit.
//!
//! `cargo run --release -p rowlock-sim --example statement_rate`

use std::time::Instant;

use rowlock_model::Value;
use rowlock_sim::database::{Answer, Database, Progress, Request};
use rowlock_sim::engine::postgres::Postgres;

const CLAIM: &str = "UPDATE job SET state='running', owner=$1 WHERE id=(SELECT id FROM job \
    WHERE state='ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";

fn main() {
    let mut database = Postgres::default();
    let session = database.connect(None);
    let setup = "CREATE TABLE job (id BIGINT PRIMARY KEY, state VARCHAR(10) NOT NULL, owner \
        VARCHAR(20)); INSERT INTO job VALUES (1, 'ready', NULL), (2, 'ready', NULL), \
        (3, 'ready', NULL), (4, 'ready', NULL)";
    let answer = database.submit(session, &Request::Batch(setup.into()));
    assert!(
        matches!(answer, Progress::Done(Answer::Batch(Ok(ref batch))) if batch.error.is_none())
    );
    let mut exec = |sql: &str, args: Vec<Value>| Request::Exec(database.prepare(sql), args.into());
    let claim = exec(CLAIM, vec![Value::text("worker-1")]);
    let begin = exec("BEGIN", vec![]);
    let commit = exec("COMMIT", vec![]);
    let lock = exec(
        "SELECT id FROM job WHERE state='ready' ORDER BY id LIMIT 1 FOR UPDATE",
        vec![],
    );
    let read = exec("SELECT count(*) FROM job WHERE state='ready'", vec![]);

    for (name, requests) in [
        ("claim, autocommit", vec![&claim]),
        ("begin, claim, commit", vec![&begin, &claim, &commit]),
        ("begin, lock, commit", vec![&begin, &lock, &commit]),
        ("count", vec![&read]),
    ] {
        for fingerprint in [false, true] {
            let rounds = 100_000u32;
            let start = Instant::now();
            for _ in 0..rounds {
                let mark = database.mark();
                for request in &requests {
                    let progress = database.submit(session, request);
                    assert!(
                        matches!(progress, Progress::Done(Answer::Exec(Ok(_)))),
                        "{progress:?}"
                    );
                    if fingerprint {
                        database.fingerprint();
                    }
                }
                database.undo_to(mark);
            }
            let seconds = start.elapsed().as_secs_f64();
            let statements = f64::from(rounds) * requests.len() as f64;
            println!(
                "{name}{}: {:.0} statements/s",
                if fingerprint { ", fingerprinted" } else { "" },
                statements / seconds
            );
        }
    }
}
