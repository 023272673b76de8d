//! How fast the explorer is over real SQL text on the simulated PostgreSQL:
//! `cargo run --release -p rowlock-sim --example explore_sql [WORKERS ROWS CRASHES]`.

use std::ops::ControlFlow;

use rowlock_model::verdict::Bounds;
use rowlock_model::{DbError, Session};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::{Control, Explorer, Random, Worker};

/// Locks the first job that is ready and not locked.
const LOCK: &str =
    "SELECT id FROM job WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
const MARK: &str = "UPDATE job SET state = 'running' WHERE id = $1";
const FINISH: &str = "UPDATE job SET state = 'done' WHERE id = $1";

async fn worker(mut worker: Worker, (): ()) -> Result<Control<()>, DbError> {
    let mut session = worker.session();
    session.exec("BEGIN", &[]).await?;
    let claimed = session.exec(LOCK, &[]).await?;
    let Some(id) = claimed.scalar().cloned() else {
        session.exec("COMMIT", &[]).await?;
        return Ok(Control::Done);
    };
    session.exec(MARK, std::slice::from_ref(&id)).await?;
    session.exec("COMMIT", &[]).await?;
    session.exec(FINISH, &[id]).await?;
    Ok(Control::Again(()))
}

fn workers(n: usize, m: usize, crashes: usize) -> Explorer<Postgres> {
    let rows: Vec<String> = (1..=m).map(|id| format!("({id}, 'ready')")).collect();
    let setup = format!(
        "CREATE TABLE job (id int PRIMARY KEY, state text NOT NULL); \
         INSERT INTO job VALUES {}",
        rows.join(", ")
    );
    Explorer::new(Postgres::new(1_764_500_000_000_000))
        .setup(setup)
        .steps("worker", (), worker)
        .count(n)
        .bounds(Bounds {
            crashes: crashes as u32,
            ..Bounds::default()
        })
        .prompt_notice()
}

/// Seconds of processor time that this process has used, which other programs on a shared machine
/// disturb less than the time on the wall; where the system does not say, the latter.
fn processor_seconds(since: std::time::Instant) -> f64 {
    let used = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = used.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| since.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn main() {
    let begin = std::time::Instant::now();
    let args: Vec<usize> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("a number"))
        .collect();
    let cases = match args[..] {
        [n, m, crashes] => vec![(n, m, crashes)],
        _ => vec![(2, 2, 0), (3, 3, 0), (4, 3, 0), (4, 4, 0)],
    };
    let last = cases[cases.len() - 1];
    for (n, m, crashes) in cases {
        let start = processor_seconds(begin);
        let found = workers(n, m, crashes).run().expect("it can be explored");
        let time = processor_seconds(begin) - start;
        let counts = &found.counts;
        println!(
            "({n},{m},{crashes}) {}: {} states, {} transitions, {} statements, {:.1} ms, \
             {:.3} M states/s, {:.3} M statements/s, {} polls",
            found.verdict,
            counts.states,
            counts.transitions,
            counts.statements,
            time * 1e3,
            counts.states as f64 / time / 1e6,
            counts.statements as f64 / time / 1e6,
            counts.polls,
        );
    }
    let (n, m, _) = last;
    let random = Random {
        seed: 1,
        executions: 20_000,
        ..Random::default()
    };
    let start = processor_seconds(begin);
    let found = workers(n, m, 0)
        .random(random, &mut |_| ControlFlow::Continue(()))
        .expect("it can be run");
    let time = processor_seconds(begin) - start;
    println!(
        "random ({n},{m}): {:.3} M statements/s",
        found.counts.statements as f64 / time / 1e6
    );
}
