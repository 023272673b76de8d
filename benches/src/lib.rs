//! Workloads of the benchmarks in `benches/benches`.

use rowlock::{Control, DbError, Explorer, Session, Worker};

/// Takes the first job that is ready and not locked.
const CLAIM: &str = "UPDATE job SET state = 'running' WHERE id = (SELECT id FROM job WHERE state = \
                     'ready' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id";
/// Finishes it.
const FINISH: &str = "UPDATE job SET state = 'done' WHERE id = $1";

/// `workers` identical workers empty a table of `rows` jobs: claim one, finish it, commit, until
/// there is none.
pub fn queue(workers: usize, rows: usize) -> Explorer<impl rowlock::sim::database::Database> {
    let jobs: Vec<String> = (1..=rows).map(|id| format!("({id}, 'ready')")).collect();
    let setup = format!(
        "CREATE TABLE job (id int PRIMARY KEY, state text NOT NULL);
         INSERT INTO job VALUES {}",
        jobs.join(", ")
    );
    Explorer::new(rowlock::postgres())
        .setup(setup)
        .steps("worker", (), work_once)
        .count(workers)
        .at_end(
            "every job is done",
            "SELECT id FROM job WHERE state <> 'done'",
        )
}

async fn work_once(mut worker: Worker, (): ()) -> Result<Control<()>, DbError> {
    let mut session = worker.session();
    session.exec("BEGIN", &[]).await?;
    let claimed = session.exec(CLAIM, &[]).await?;
    let Some(id) = claimed.scalar().cloned() else {
        session.exec("COMMIT", &[]).await?;
        return Ok(Control::Done);
    };
    session.exec(FINISH, &[id]).await?;
    session.exec("COMMIT", &[]).await?;
    Ok(Control::Again(()))
}

/// The four statements of [`rowlock::sim::toy`] as SQL text: a claim that locks, a mark, a commit, and
/// the end of the work in a transaction of its own.
pub fn queue_sql(workers: usize, rows: usize) -> Explorer<impl rowlock::sim::database::Database> {
    let jobs: Vec<String> = (1..=rows).map(|id| format!("({id}, 'ready')")).collect();
    let setup = format!(
        "CREATE TABLE job (id int PRIMARY KEY, state text NOT NULL);
         INSERT INTO job VALUES {}",
        jobs.join(", ")
    );
    Explorer::new(rowlock::postgres())
        .setup(setup)
        .steps("worker", (), four_statements)
        .count(workers)
}

async fn four_statements(mut worker: Worker, (): ()) -> Result<Control<()>, DbError> {
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

/// Locks the first job that is ready and not locked.
const LOCK: &str =
    "SELECT id FROM job WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
/// Marks it.
const MARK: &str = "UPDATE job SET state = 'running' WHERE id = $1";
