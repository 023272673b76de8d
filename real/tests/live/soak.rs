//! Worker processes that are killed while they claim, handle and settle: no row is lost, none is
//! settled twice.
//!
//! Each worker is a process ([`crate::worker`]). What it last told before it died says in which
//! phase it was killed; a soak goes on until there were enough kills in each. Where there is a server,
//! sessions are ended under living workers as well. The short soaks are for every day; the deep ones
//! (`deep_soak_*`, ignored unless asked for) run for a minute and kill twenty times in each phase.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rowlock_model::claim::{Form, Mutation};
use rowlock_model::{Dialect, Host, Value};
use rowlock_real::server::Flavour;
use rowlock_real::{RealHost, RealSession};

use crate::worker::{Order, WORKER};
use crate::{TestResult, block_on, mariadb, run, shared};

/// A soak, by name.
pub(crate) struct Soak {
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    pub(crate) deep: bool,
    form: Form,
    wal: bool,
}

/// Every soak: each form on every database that has it, in short and in depth.
pub(crate) fn all() -> Vec<Soak> {
    let forms = [
        ("row_lock", Form::RowLock),
        ("lease", Form::Lease),
        ("advisory", Form::Advisory),
    ];
    let mut soaks = Vec::new();
    for deep in [false, true] {
        let prefix = if deep { "deep_soak" } else { "soak" };
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::MariaDb] {
            for (name, form) in forms {
                soaks.push(Soak {
                    name: format!("{prefix}_{name}"),
                    dialect,
                    deep,
                    form,
                    wal: false,
                });
            }
        }
        for (name, form, wal) in [
            ("lease", Form::Lease, false),
            ("lease_wal", Form::Lease, true),
            ("advisory", Form::Advisory, false),
        ] {
            soaks.push(Soak {
                name: format!("{prefix}_{name}"),
                dialect: Dialect::Sqlite,
                deep,
                form,
                wal,
            });
        }
    }
    soaks
}

impl Soak {
    /// Runs it.
    pub(crate) fn run(&self) -> TestResult {
        let scene = Scene::new(self.dialect, self.form, &self.name, self.wal);
        let plan = match self.deep {
            true => Plan {
                kills: 20,
                at_least: Duration::from_secs(60),
            },
            false => Plan {
                kills: 3,
                at_least: Duration::ZERO,
            },
        };
        let tally = scene.soak(plan)?;
        println!("{}::{}: {tally}", self.dialect.name(), self.name);
        Ok(())
    }
}

/// Without the lock of the claim the soak must fail: otherwise it would prove nothing.
pub(crate) fn notices_a_mistake() -> TestResult {
    let mut scene = Scene::new(Dialect::Postgres, Form::RowLock, "soak_mistake", false);
    scene.order.mutation = Some(Mutation::ClaimWithoutLock);
    let plan = Plan {
        kills: 0,
        at_least: Duration::from_millis(1_500),
    };
    match scene.soak(plan) {
        Ok(tally) => Err(format!("nothing was noticed: {tally}").into()),
        Err(why) if why.contains("settled twice") => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// Two processes on one SQLite file: the lease form keeps them apart, the advisory form cannot.
pub(crate) fn two_processes_on_one_file() -> TestResult {
    for (form, both) in [(Form::Lease, false), (Form::Advisory, true)] {
        let mut scene = Scene::new(Dialect::Sqlite, form, "soak_two", false);
        scene.order.handler = Duration::from_secs(60);
        scene.order.tasks = 1;
        block_on(async {
            let mut admin = scene.admin().await;
            scene.create(&mut admin).await;
            scene.feed(&mut admin, 1, 1).await;
        });
        let mut workers = [scene.start(0), scene.start(1)];
        let deadline = Instant::now() + Duration::from_secs(20);
        while !workers.iter().any(|worker| worker.phase == Phase::Handling) {
            assert!(Instant::now() < deadline, "nobody claims");
            workers
                .iter_mut()
                .for_each(|worker| worker.listen(Duration::from_millis(5)));
        }
        // Well within the lease, in which the other one tries again and again.
        let until = Instant::now() + Duration::from_millis(if both { 20_000 } else { 600 });
        let handling = |workers: &[Worker]| {
            workers
                .iter()
                .filter(|worker| worker.phase == Phase::Handling)
                .count()
                == 2
        };
        while Instant::now() < until && !handling(&workers) {
            workers
                .iter_mut()
                .for_each(|worker| worker.listen(Duration::from_millis(5)));
        }
        assert_eq!(handling(&workers), both, "{form:?}");
        workers.iter_mut().for_each(Worker::kill);
    }
    Ok(())
}

/// How long, and how many kills in each phase.
#[derive(Clone, Copy)]
struct Plan {
    kills: u32,
    at_least: Duration,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Claiming,
    Handling,
    Settling,
    /// Starting, or between two rows.
    Other,
}

const PHASES: [Phase; 3] = [Phase::Claiming, Phase::Handling, Phase::Settling];

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Process,
    Session,
}

/// What happened so far.
#[derive(Debug, Default)]
struct Tally {
    processes: [u32; 3],
    sessions: [u32; 3],
    /// Rows that a worker believes to have settled, in the order in which it told.
    settled: Vec<i64>,
    rows: i64,
    took: Duration,
}

impl Tally {
    fn of(&mut self, victim: Victim) -> &mut [u32; 3] {
        match victim {
            Victim::Process => &mut self.processes,
            Victim::Session => &mut self.sessions,
        }
    }

    /// The phase with the fewest kills, and how many those are.
    fn least(&mut self, victim: Victim) -> (Phase, u32) {
        let counts = *self.of(victim);
        let least = PHASES
            .into_iter()
            .zip(counts)
            .min_by_key(|(_, count)| *count);
        least.unwrap_or((Phase::Claiming, 0))
    }

    fn count(&mut self, victim: Victim, phase: Phase) {
        if let Some(index) = PHASES.iter().position(|known| *known == phase) {
            self.of(victim)[index] += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rows in {:.1} s, each settled once; killed while claiming, handling, settling: processes {:?}, \
             sessions {:?}",
            self.rows,
            self.took.as_secs_f64(),
            self.processes,
            self.sessions
        )
    }
}

/// A table of jobs, and how workers of it are started.
struct Scene {
    order: Order,
    workers: usize,
    wal: bool,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.order.dialect == Dialect::Sqlite {
            for suffix in ["", "-journal", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{suffix}", self.order.place));
            }
        }
    }
}

impl Scene {
    fn new(dialect: Dialect, form: Form, name: &str, wal: bool) -> Scene {
        let database = match dialect {
            Dialect::Postgres => "postgres",
            _ => name,
        };
        let place = match dialect {
            Dialect::Postgres => shared().directory().to_owned(),
            Dialect::MySql | Dialect::MariaDb => {
                let flavour = match dialect {
                    Dialect::MySql => Flavour::MySql,
                    _ => Flavour::MariaDb,
                };
                block_on(mariadb::fresh(flavour, name));
                mariadb::socket(flavour)
            }
            Dialect::Sqlite => {
                let file = format!("rowlock-{name}-{form:?}-{}.db", std::process::id());
                std::env::temp_dir().join(file)
            }
        };
        // SQLite's advisory locks are those of one process: one worker, whose tasks share them.
        let alone = dialect == Dialect::Sqlite && form == Form::Advisory;
        Scene {
            order: Order {
                dialect,
                place: place.display().to_string(),
                database: database.to_owned(),
                table: name.to_owned(),
                form,
                name: name.to_owned(),
                tasks: if alone { 3 } else { 1 },
                handler: Duration::from_millis(4),
                mutation: None,
            },
            workers: if alone { 1 } else { 3 },
            wal,
        }
    }

    async fn admin(&self) -> RealSession {
        let host = RealHost::new("soak-admin", self.order.connector());
        host.connect().await.expect("a session")
    }

    /// A fresh table of jobs, in which a trigger writes down every time that a row is finished.
    async fn create(&self, admin: &mut RealSession) {
        let name = &self.order.table;
        let (instant, trigger) = match self.order.dialect {
            Dialect::Postgres => {
                let function = format!(
                    "CREATE OR REPLACE FUNCTION {name}_note() RETURNS trigger LANGUAGE plpgsql AS $$ \
                     BEGIN INSERT INTO {name}_finished VALUES (NEW.id, NEW.attempt); RETURN NEW; END $$"
                );
                run(admin, &format!("DROP TABLE IF EXISTS {name}")).await;
                run(admin, &function).await;
                (
                    "timestamptz",
                    format!(
                        "CREATE TRIGGER note AFTER UPDATE OF done_at ON {name} FOR EACH ROW \
                         EXECUTE FUNCTION {name}_note()"
                    ),
                )
            }
            Dialect::MySql | Dialect::MariaDb => (
                "DATETIME",
                format!(
                    "CREATE TRIGGER note AFTER UPDATE ON {name} FOR EACH ROW \
                     INSERT INTO {name}_finished SELECT NEW.id, NEW.attempt FROM DUAL \
                     WHERE NEW.done_at IS NOT NULL"
                ),
            ),
            Dialect::Sqlite => (
                "INTEGER",
                format!(
                    "CREATE TRIGGER note AFTER UPDATE OF done_at ON {name} BEGIN \
                     INSERT INTO {name}_finished VALUES (NEW.id, NEW.attempt); END"
                ),
            ),
        };
        if self.wal {
            run(admin, "PRAGMA journal_mode = WAL").await;
        }
        for sql in [
            format!("DROP TABLE IF EXISTS {name}"),
            format!("DROP TABLE IF EXISTS {name}_finished"),
            format!(
                "CREATE TABLE {name} (id BIGINT PRIMARY KEY, attempt INT NOT NULL DEFAULT 1, \
                 locked_until {instant} NULL, done_at {instant} NULL)"
            ),
            format!("CREATE INDEX {name}_order ON {name} (done_at, id)"),
            format!("CREATE TABLE {name}_finished (id BIGINT, attempt INT)"),
            trigger,
        ] {
            run(admin, &sql).await;
        }
    }

    /// Adds the jobs `from..=to`.
    async fn feed(&self, admin: &mut RealSession, from: i64, to: i64) {
        let rows: Vec<String> = (from..=to).map(|id| format!("({id})")).collect();
        let sql = format!(
            "INSERT INTO {} (id) VALUES {}",
            self.order.table,
            rows.join(", ")
        );
        run(admin, &sql).await;
    }

    async fn left(&self, admin: &mut RealSession) -> i64 {
        let sql = format!(
            "SELECT count(*) FROM {} WHERE done_at IS NULL",
            self.order.table
        );
        number(admin, &sql).await
    }

    fn start(&self, index: usize) -> Worker {
        let mut order = self.order.clone();
        order.name = format!("{}-{index}", order.name);
        Worker::start(&order)
    }

    /// Kills until the plan is carried out, lets the workers finish, and looks at the result.
    fn soak(&self, plan: Plan) -> Result<Tally, String> {
        let started = Instant::now();
        let tally = Mutex::new(Tally::default());
        let (calm, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        block_on(async {
            let mut admin = self.admin().await;
            self.create(&mut admin).await;
        });
        let rows = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers)
                .map(|index| {
                    let (tally, calm, stop) = (&tally, &calm, &stop);
                    scope.spawn(move || self.look_after(index, tally, calm, stop))
                })
                .collect();
            let rows = block_on(self.keep_busy(plan, started, &tally, &calm));
            stop.store(true, Ordering::Relaxed);
            for worker in workers {
                match worker.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => return Err(why),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            rows
        })?;
        let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        (tally.rows, tally.took) = (rows, started.elapsed());
        block_on(self.verify(&tally))?;
        Ok(tally)
    }

    /// Keeps rows coming until the plan is carried out, then waits until none is left; how many
    /// there were.
    async fn keep_busy(
        &self,
        plan: Plan,
        started: Instant,
        tally: &Mutex<Tally>,
        calm: &AtomicBool,
    ) -> Result<i64, String> {
        let mut admin = self.admin().await;
        let mut rows = 0;
        let deadline = started + plan.at_least + Duration::from_secs(120);
        let done = |tally: &mut Tally| {
            let processes = tally.least(Victim::Process).1;
            let sessions = tally.least(Victim::Session).1;
            processes >= plan.kills && (sessions >= plan.kills || !self.has_sessions())
        };
        while started.elapsed() < plan.at_least || !done(&mut lock(tally)) {
            if self.left(&mut admin).await < 40 {
                self.feed(&mut admin, rows + 1, rows + 60).await;
                rows += 60;
            }
            if Instant::now() > deadline {
                calm.store(true, Ordering::Relaxed);
                return Err(format!("not enough kills: {:?}", lock(tally)));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        calm.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.left(&mut admin).await {
                0 => return Ok(rows),
                left if Instant::now() > deadline => {
                    return Err(format!("{left} of {rows} rows are lost"));
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Whether there are sessions to end, other than by ending the process.
    fn has_sessions(&self) -> bool {
        self.order.dialect != Dialect::Sqlite
    }

    /// What to kill next, and in which phase: what there were the fewest kills of.
    fn next_victim(&self, tally: &mut Tally) -> (Victim, Phase) {
        let (of_process, processes) = tally.least(Victim::Process);
        let (of_session, sessions) = tally.least(Victim::Session);
        match self.has_sessions() && sessions < processes {
            true => (Victim::Session, of_session),
            false => (Victim::Process, of_process),
        }
    }

    /// Starts a worker, kills it, starts the next one, and so on.
    fn look_after(
        &self,
        index: usize,
        tally: &Mutex<Tally>,
        calm: &AtomicBool,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let mut admin = runtime.block_on(self.admin());
        let random = RealHost::new("random", self.order.connector());
        let mut worker = self.start(index);
        while !stop.load(Ordering::Relaxed) {
            if calm.load(Ordering::Relaxed) {
                worker.listen(Duration::from_millis(20));
                continue;
            }
            let (victim, wanted) = self.next_victim(&mut lock(tally));
            let until = Instant::now() + Duration::from_millis(300);
            let stands = |worker: &Worker| {
                let has_session = victim == Victim::Process || !worker.sessions.is_empty();
                worker.phase == wanted && has_session
            };
            while !stands(&worker) && Instant::now() < until {
                worker.listen(Duration::from_millis(20));
            }
            // Anywhere in the phase: a statement takes about this long, a handler a little longer.
            let within = if wanted == Phase::Handling {
                2_000
            } else {
                500
            };
            std::thread::sleep(Duration::from_micros(random.random() % within));
            match victim {
                Victim::Process => {
                    worker.kill();
                    worker.listen_to_the_end();
                    lock(tally).settled.append(&mut worker.settled);
                    lock(tally).count(victim, worker.phase);
                    worker = self.start(index);
                }
                Victim::Session => {
                    worker.listen(Duration::ZERO);
                    let Some(session) = worker.sessions.pop() else {
                        continue;
                    };
                    if runtime.block_on(self.end_session(&mut admin, session)) {
                        lock(tally).count(victim, worker.phase);
                    }
                }
            }
        }
        let (status, settled) = worker.finish();
        lock(tally).settled.extend(settled);
        match status.success() {
            true => Ok(()),
            false => Err(format!("a worker failed: {status}")),
        }
    }

    /// Ends a session on the server; whether it was there.
    async fn end_session(&self, admin: &mut RealSession, session: i64) -> bool {
        use rowlock_model::Session;
        let sql = match self.order.dialect {
            Dialect::Postgres => format!("SELECT pg_terminate_backend({session})"),
            _ => format!("KILL {session}"),
        };
        match admin.exec(&sql, &[]).await {
            Ok(reply) => reply.scalar() != Some(&Value::Bool(false)),
            // Of a session that has ended already.
            Err(_) => false,
        }
    }

    async fn verify(&self, tally: &Tally) -> Result<(), String> {
        let mut admin = self.admin().await;
        let name = &self.order.table;
        let twice = format!(
            "SELECT count(*) FROM (SELECT id FROM {name}_finished GROUP BY id HAVING count(*) > 1) t"
        );
        match number(&mut admin, &twice).await {
            0 => {}
            twice => return Err(format!("{twice} rows were settled twice")),
        }
        let finished = format!("SELECT count(*) FROM {name}_finished");
        let finished = number(&mut admin, &finished).await;
        if finished != tally.rows {
            return Err(format!("{finished} of {} rows were settled", tally.rows));
        }
        let believed: BTreeSet<i64> = tally.settled.iter().copied().collect();
        if believed.len() != tally.settled.len() {
            return Err("two workers believe to have settled one row".to_owned());
        }
        // A crash spends no attempt in the row-lock form; elsewhere each claim counts one.
        let counted = format!("SELECT sum(attempt - 1) FROM {name}_finished");
        let counted = number(&mut admin, &counted).await;
        let is_right = match self.order.form {
            Form::RowLock => counted == 0,
            Form::Lease | Form::Advisory => counted >= tally.rows,
        };
        match is_right {
            true => Ok(()),
            false => Err(format!(
                "{counted} claims were counted for {} rows",
                tally.rows
            )),
        }
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn number(admin: &mut RealSession, sql: &str) -> i64 {
    let reply = run(admin, sql).await;
    let text = reply.scalar().map(ToString::to_string).unwrap_or_default();
    text.parse().expect("a number")
}

/// A folder for what a worker leaves behind when it is killed.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rowlock-worker-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder for a worker");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A worker process and what it told.
struct Worker {
    process: Child,
    _scratch: Scratch,
    /// Closed to make it end.
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    phase: Phase,
    /// The server's numbers of its sessions, the newest last.
    sessions: Vec<i64>,
    settled: Vec<i64>,
}

impl Worker {
    fn start(order: &Order) -> Worker {
        let program = std::env::current_exe().expect("this program");
        let scratch = Scratch::new();
        let mut process = Command::new(program)
            .env(WORKER, order.write())
            .env("TMPDIR", &scratch.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker starts");
        let stdin = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        Worker {
            process,
            _scratch: scratch,
            stdin,
            lines,
            phase: Phase::Other,
            sessions: Vec::new(),
            settled: Vec::new(),
        }
    }

    /// Takes note of what it told, waiting at most this long for the first line; of its phase only
    /// up to the next one that it enters.
    fn listen(&mut self, most: Duration) {
        let mut wait = most;
        loop {
            match self.lines.recv_timeout(wait) {
                Ok(line) => self.note(&line),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    // It will be seen to have failed when it is waited for.
                    std::thread::sleep(most);
                    return;
                }
            }
            wait = Duration::ZERO;
        }
    }

    /// Takes note of everything until the process is gone.
    fn listen_to_the_end(&mut self) {
        while let Ok(line) = self.lines.recv() {
            self.note(&line);
        }
    }

    fn note(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest.parse::<i64>()) {
            ("connected", Ok(session)) => self.sessions.push(session),
            ("claiming", _) => self.phase = Phase::Claiming,
            ("handling", _) => self.phase = Phase::Handling,
            ("settling", _) => self.phase = Phase::Settling,
            ("settled", Ok(id)) => {
                self.phase = Phase::Other;
                self.settled.push(id);
            }
            _ => self.phase = Phase::Other,
        }
    }

    /// Kills the process: SIGKILL, at once.
    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Lets it end its round; how it ended, and what it settled.
    fn finish(mut self) -> (ExitStatus, Vec<i64>) {
        drop(self.stdin.take());
        self.listen_to_the_end();
        let status = self.process.wait().expect("a child process ends");
        (status, std::mem::take(&mut self.settled))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
