//! How fast the explorer is over real SQL text on the simulated PostgreSQL:
//! `cargo run --release -p rowlock-sim --example explore_sql [WORKERS ROWS CRASHES]`.

use rowlock_model::verdict::Bounds;
use rowlock_model::{DbError, Session, Value};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::{Control, Explorer, Worker};

const CLAIM: &str = "UPDATE job SET state = 'running', owner = $1 WHERE id = \
    (SELECT id FROM job WHERE state = 'ready' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) \
    RETURNING id";
const FINISH: &str = "UPDATE job SET state = 'done', owner = NULL WHERE id = $1 AND owner = $2";

async fn worker(mut worker: Worker, (): ()) -> Result<Control<()>, DbError> {
    let me = Value::Text(worker.name());
    let mut session = worker.session();
    session.exec("BEGIN", &[]).await?;
    let claimed = session.exec(CLAIM, std::slice::from_ref(&me)).await?;
    session.exec("COMMIT", &[]).await?;
    let Some(id) = claimed.scalar().cloned() else {
        return Ok(Control::Done);
    };
    session.exec(FINISH, &[id, me]).await?;
    Ok(Control::Again(()))
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
    for (n, m, crashes) in cases {
        let rows: Vec<String> = (1..=m).map(|id| format!("({id}, 'ready', NULL)")).collect();
        let setup = format!(
            "CREATE TABLE job (id BIGINT PRIMARY KEY, state TEXT NOT NULL, owner TEXT); \
             INSERT INTO job VALUES {}",
            rows.join(", ")
        );
        let start = processor_seconds(begin);
        let found = Explorer::new(Postgres::new(1_764_500_000_000_000))
            .setup(setup)
            .steps("worker", (), worker)
            .count(n)
            .bounds(Bounds {
                crashes: crashes as u32,
                ..Bounds::default()
            })
            .run()
            .expect("it can be explored");
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
}
