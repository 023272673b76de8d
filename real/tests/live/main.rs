//! What only a real server can confirm.
//!
//! Tests of a server that is not installed are ignored, by name and with the reason; with
//! `ROWLOCK_REQUIRE_LIVE=1` they fail instead.

mod blocking;
mod claim_forms;
mod claims;
mod errors;
mod guard;
mod mariadb;
mod mysql_stage;
mod needs;
mod needs_pooler;
mod pooler;
mod seam;
mod servers;
mod soak;
mod specs;
mod sqlite;
mod values;
mod worker;

use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use needs::needs;
use needs_pooler::needs_pooler;
use rowlock_model::{Dialect, Host, Reply, Session};
use rowlock_real::server::{self, Flavour, PostgresServer};
use rowlock_real::{DeadlockTimeouts, RealHost, RealSession, RealStage};

/// The result of a test.
type TestResult = Result<(), Failed>;

/// A named test.
type Test = (&'static str, fn() -> TestResult);

fn main() {
    if let Ok(end) = std::env::var(servers::HOLD_SERVER) {
        return servers::hold_server(&end);
    }
    if let Ok(order) = std::env::var(worker::WORKER) {
        return worker::run(&order);
    }
    let arguments = Arguments::from_args();
    let found = server::installed();
    let on_postgres = [
        values::TESTS,
        errors::TESTS,
        seam::TESTS,
        blocking::TESTS,
        servers::TESTS,
        claims::TESTS,
        specs::TESTS,
        guard::TESTS,
    ];
    let mut trials = Vec::new();
    for (name, test) in on_postgres.concat() {
        let trial = Trial::test(format!("postgres::{name}"), test);
        trials.push(needs(trial, Dialect::Postgres, &found));
    }
    for (name, test) in pooler::TESTS {
        let trial = Trial::test(format!("postgres::{name}"), test);
        let trial = needs(trial, Dialect::Postgres, &found);
        trials.push(needs_pooler(trial, true));
    }
    for (name, test) in sqlite::TESTS {
        trials.push(Trial::test(format!("sqlite::{name}"), test));
    }
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        let (dialect, folder) = match flavour {
            Flavour::MariaDb => (Dialect::MariaDb, "mariadb"),
            Flavour::MySql => (Dialect::MySql, "mysql"),
        };
        for (name, test) in [mariadb::TESTS, mysql_stage::TESTS].concat() {
            let trial = Trial::test(format!("{folder}::{name}"), move || test(flavour));
            trials.push(needs(trial, dialect, &found));
        }
    }
    for (dialect, folder) in [
        (Dialect::Postgres, "postgres"),
        (Dialect::MySql, "mysql"),
        (Dialect::MariaDb, "mariadb"),
        (Dialect::Sqlite, "sqlite"),
    ] {
        for (name, test) in claim_forms::TESTS {
            let run = move || test(&claim_forms::place(dialect, name));
            let trial = Trial::test(format!("{folder}::{name}"), run);
            trials.push(match dialect {
                Dialect::Sqlite => trial,
                _ => needs(trial, dialect, &found),
            });
        }
    }
    for soak in soak::all() {
        let (dialect, name) = (
            soak.dialect,
            format!("{}::{}", soak.dialect.name(), soak.name),
        );
        let deep = soak.deep;
        let trial = Trial::test(name, move || soak.run());
        trials.push(match dialect {
            _ if deep => trial.with_ignored_flag(true),
            Dialect::Sqlite => trial,
            _ => needs(trial, dialect, &found),
        });
    }
    let trial = Trial::test("postgres::soak_notices_a_mistake", soak::notices_a_mistake);
    trials.push(needs(trial, Dialect::Postgres, &found));
    trials.push(Trial::test(
        "sqlite::two_processes_on_one_file",
        soak::two_processes_on_one_file,
    ));
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Servers end before the process does.
    *SHARED.lock().unwrap_or_else(PoisonError::into_inner) = None;
    mariadb::stop_servers();
    mysql_stage::stop();
    conclusion.exit();
}

static SHARED: Mutex<Option<Arc<PostgresServer>>> = Mutex::new(None);

/// The server that these tests share.
fn shared() -> Arc<PostgresServer> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let server = shared.get_or_insert_with(|| {
        let server = PostgresServer::start().expect("a throwaway server starts");
        Arc::new(server)
    });
    Arc::clone(server)
}

/// Runs a test on its own threads.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new()
        .expect("threads can be started")
        .block_on(future)
}

/// A session in the database `postgres` of the shared server. Tests there use temporary tables.
async fn session() -> RealSession {
    RealHost::new("test", shared().target("postgres"))
        .connect()
        .await
        .expect("the shared server accepts sessions")
}

/// Runs a statement that must succeed.
async fn run(session: &mut RealSession, sql: &str) -> Reply {
    match session.exec(sql, &[]).await {
        Ok(reply) => reply,
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// A stage with an empty database of its own.
fn stage(setup: &str) -> RealStage {
    use rowlock_scenarios::stage::Stage;
    let mut stage = RealStage::on_server(shared(), DeadlockTimeouts::default()).expect("a stage");
    stage.reset(&[setup.to_owned()]).expect("an empty database");
    stage
}
