//! Throwaway servers leave nothing behind, and servers of others are left alone.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rowlock_model::{Dialect, Host, Session};
use rowlock_real::server::{self, PostgresServer};
use rowlock_real::{PostgresTarget, RealHost, RealStage, Target};
use rowlock_scenarios::stage::Stage;

use crate::{Test, TestResult, block_on, run, session, shared};

pub(crate) const TESTS: &[Test] = &[
    ("a_server_is_never_root_s", never_root),
    ("a_dropped_server_is_gone", dropped),
    ("the_server_of_a_killed_process_is_gone", killed),
    ("the_server_of_a_panicking_process_is_gone", panicked),
    ("installed_servers_are_found", installed),
    ("only_disposable_databases_are_used", only_disposable),
    ("passwords_work_and_are_never_shown", passwords),
    ("unreachable_servers_are_told", unreachable),
];

/// Set for a child process of these tests: start a server, tell where, and end as the value says.
pub(crate) const HOLD_SERVER: &str = "ROWLOCK_TEST_HOLD_SERVER";

/// What that child process does.
pub(crate) fn hold_server(end: &str) {
    let server = PostgresServer::start().expect("a throwaway server starts");
    println!("{}", server.directory().display());
    match end {
        "panic" => panic!("as told"),
        _ => std::thread::sleep(Duration::from_secs(60)),
    }
}

/// The process id of a running server.
fn pid_of(directory: &Path) -> String {
    let file = directory.join("data/postmaster.pid");
    let text = std::fs::read_to_string(file).expect("the server runs");
    text.lines().next().expect("its process id").to_owned()
}

fn is_running(pid: &str) -> bool {
    // Our own user's, or another's if we are root: either way we may signal it.
    Command::new("kill")
        .args(["-0", pid])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn assert_gone(directory: &Path, pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_running(pid) || directory.exists() {
        assert!(Instant::now() < deadline, "server {pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn never_root() -> TestResult {
    let server = shared();
    for file in ["data", "data/postmaster.pid"] {
        let metadata = std::fs::metadata(server.directory().join(file))?;
        assert_ne!(metadata.uid(), 0, "{file}");
    }
    // Nobody else can reach the socket.
    let mode = std::fs::metadata(server.directory())?.mode();
    assert_eq!(mode & 0o077, 0);
    Ok(())
}

fn dropped() -> TestResult {
    let server = PostgresServer::start()?;
    let (directory, pid) = (server.directory().to_owned(), pid_of(server.directory()));
    let session = block_on(RealHost::new("test", server.target("postgres")).connect())?;
    drop(server);
    assert!(!directory.exists());
    assert!(!is_running(&pid));
    drop(session);
    Ok(())
}

/// Starts a child process with a server of its own.
fn holder(end: &str) -> Result<(std::process::Child, PathBuf), std::io::Error> {
    let mut child = Command::new(std::env::current_exe()?)
        .env(HOLD_SERVER, end)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line)?;
    Ok((child, PathBuf::from(line.trim())))
}

fn killed() -> TestResult {
    let (mut child, directory) = holder("sleep")?;
    let pid = pid_of(&directory);
    child.kill()?;
    child.wait()?;
    assert_gone(&directory, &pid);
    Ok(())
}

fn panicked() -> TestResult {
    let (mut child, directory) = holder("panic")?;
    child.wait()?;
    assert!(!directory.exists());
    Ok(())
}

fn installed() -> TestResult {
    let found = server::installed();
    let postgres = found.iter().find(|f| f.dialect == Dialect::Postgres);
    let postgres = postgres.expect("these tests run only where it is installed");
    let version = postgres.version.strip_prefix("PostgreSQL ");
    assert!(version.is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit())));
    assert!(found.iter().any(|f| f.dialect == Dialect::Sqlite));
    let mut stage = crate::stage("");
    assert_eq!(stage.version()?, postgres.version);
    Ok(())
}

/// The URL of a database of the shared server.
fn url(user: &str, database: &str) -> String {
    let directory = shared().directory().display().to_string();
    format!(
        "postgres://{user}@{}:5432/{database}",
        directory.replace('/', "%2F")
    )
}

fn only_disposable() -> TestResult {
    block_on(async {
        let mut session = session().await;
        run(&mut session, "CREATE DATABASE precious").await;
        run(&mut session, "CREATE DATABASE scratch_rowlock").await;
    });
    let target: Target = url("postgres", "precious").parse()?;
    let precious = shared().target("precious");
    block_on(async {
        let mut session = RealHost::new("owner", precious.clone()).connect().await?;
        run(&mut session, "CREATE TABLE kept (id int)").await;
        Ok::<_, rowlock_model::DbError>(())
    })?;
    let error = RealStage::open(&target).expect_err("not marked");
    assert!(
        error.message.contains("not marked as disposable"),
        "{error}"
    );
    assert!(error.message.contains("COMMENT ON DATABASE \"precious\""));
    block_on(async {
        let mut session = RealHost::new("owner", precious.clone()).connect().await?;
        run(&mut session, "SELECT * FROM kept").await;
        let mark = "COMMENT ON DATABASE precious IS 'rowlock: disposable'";
        run(&mut session, mark).await;
        Ok::<_, rowlock_model::DbError>(())
    })?;
    for database in ["precious", "scratch_rowlock"] {
        let mut stage = RealStage::open(&url("postgres", database).parse()?)?;
        for _ in 0..2 {
            stage
                .reset(&["CREATE SCHEMA s; CREATE TABLE s.t (id int); CREATE TABLE u ()".into()])?;
            let tables = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class \
                WHERE relkind = 'r' AND relnamespace::regnamespace::text !~ '^(pg_|information)'";
            let reply = stage.query(tables)??;
            assert_eq!(reply.scalar(), Some(&rowlock_model::Value::from("t u")));
        }
    }
    Ok(())
}

/// A user with a password, whom the server really asks for it.
fn passwords() -> TestResult {
    let server = PostgresServer::start()?;
    let hba = server.directory().join("data/pg_hba.conf");
    let rules = std::fs::read_to_string(&hba)?;
    std::fs::write(&hba, format!("local all visitor scram-sha-256\n{rules}"))?;
    let directory = server.directory().display().to_string().replace('/', "%2F");
    block_on(async {
        let mut admin = RealHost::new("admin", server.target("postgres"))
            .connect()
            .await?;
        run(&mut admin, "CREATE ROLE visitor LOGIN PASSWORD 's3cret'").await;
        run(&mut admin, "SELECT pg_reload_conf()").await;
        let connect = |password: &str| {
            let url = format!("postgres://visitor:{password}@{directory}:5432/postgres");
            PostgresTarget::from_url(&url).expect("a URL")
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        let error = loop {
            let target = connect("s3cret-wrong");
            assert!(!format!("{target:?}").contains("s3cret"));
            match RealHost::new("visitor", target).connect().await {
                Err(error) => break error,
                // The new rules are not read yet.
                Ok(_) => assert!(Instant::now() < deadline),
            }
        };
        assert_eq!(&*error.code, "28P01");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
        let mut session = RealHost::new("visitor", connect("s3cret"))
            .connect()
            .await?;
        run(&mut session, "SELECT 1").await;
        session.close().await
    })?;
    Ok(())
}

fn unreachable() -> TestResult {
    for url in [
        "postgres://u:s3cret@127.0.0.1:1/db",
        "postgres://u:s3cret@%2Fno%2Fsuch%2Fdirectory/db",
        "postgres://u:s3cret@no-such-host.invalid/db",
    ] {
        let error = RealStage::open(&url.parse()?).expect_err("nobody listens");
        assert!(error.message.starts_with("cannot connect"), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
    Ok(())
}
