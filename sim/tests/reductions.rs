//! What the reductions leave out is nothing that counts: random small programs are explored with
//! reductions, without, and interleaving by interleaving, and must come to the same ends and the same
//! violations. And each rule matters: where it is broken on purpose, something is lost.
//!
//! `cargo test --release -p rowlock-sim --test reductions -- --ignored` runs 5,000 programs a set; another
//! set with `ROWLOCK_PROGRAMS_SEED=N`.

mod programs;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use rowlock_model::Session as _;
use rowlock_model::schedule::Choice;
use rowlock_model::verdict::Bounds;
use rowlock_sim::database::{Answer, Database};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::explore::{
    Broken, Control, Explorer, Inspect, Monitor, Reductions, Remark, Seen, Survey, What, Worker,
};
use rowlock_sim::toy::{self, Toy};

use programs::sqlite::Program as SqliteProgram;
use programs::{Program, ToyProgram};

const SLEEP_SETS: Reductions = Reductions {
    sleep_sets: true,
    ..Reductions::NONE
};
const SYMMETRY: Reductions = Reductions {
    symmetry: true,
    ..Reductions::NONE
};
const INVISIBLE_STEPS: Reductions = Reductions {
    invisible_steps: true,
    ..Reductions::NONE
};

const ROW_ORDER: Reductions = Reductions {
    row_order: true,
    ..Reductions::NONE
};

/// Without the order of rows, whose rule has a test of its own.
const FIRST_THREE: Reductions = Reductions {
    row_order: false,
    ..Reductions::ALL
};

/// Steps that an enumeration may take; most small programs stay below.
const ENUMERATION_MAX: u64 = 20_000;

/// Something that can be explored again and again.
trait Subject: std::fmt::Debug {
    type Database: Database;

    /// Whether sleep sets visit exactly the same states.
    const COUNTS_STATES: bool;

    /// The exploration of it.
    fn explorer(&self) -> Explorer<Self::Database>;

    /// Every interleaving, with states that are known left out.
    ///
    /// # Errors
    /// Why it cannot be explored.
    fn survey(&self, reductions: Reductions, broken: Broken) -> Result<Survey, String> {
        let explorer = self.explorer().reductions(reductions).broken(broken);
        explorer.survey().map_err(|error| error.to_string())
    }

    /// Every interleaving, run by run; `None` if there are too many.
    ///
    /// # Errors
    /// As [`survey`](Self::survey).
    fn enumerate(&self) -> Result<Option<Survey>, String> {
        let runs = self.explorer().enumerate(ENUMERATION_MAX);
        runs.map_err(|error| error.to_string())
    }

    /// One run for each order of what depends on each other; `None` if there are too many.
    ///
    /// # Errors
    /// As [`survey`](Self::survey).
    fn traces(&self) -> Result<Option<Survey>, String> {
        let runs = self.explorer().traces(ENUMERATION_MAX);
        runs.map_err(|error| error.to_string())
    }
}

impl Subject for Program {
    type Database = Postgres;

    /// The bookkeeping of SERIALIZABLE tells some states apart in which the same can happen.
    const COUNTS_STATES: bool = false;

    fn explorer(&self) -> Explorer<Postgres> {
        self.explorer()
    }
}

impl Subject for SqliteProgram {
    type Database = Sqlite;

    const COUNTS_STATES: bool = false;

    fn explorer(&self) -> Explorer<Sqlite> {
        self.explorer()
    }
}

impl Subject for ToyProgram {
    type Database = Toy;

    const COUNTS_STATES: bool = true;

    fn explorer(&self) -> Explorer<Toy> {
        self.explorer()
    }
}

/// Compares a survey with the one that knows everything.
fn compare(all: &Survey, some: &Survey, what: &str) -> Result<(), String> {
    match (all.missing_in(some), some.missing_in(all)) {
        (Some(lost), _) => Err(format!("{what}: {lost}")),
        (None, Some(invented)) => Err(format!("{what}, the other way round: {invented}")),
        (None, None) => Ok(()),
    }
}

/// Compares ends with identical processes told apart.
fn compare_exactly(all: &Survey, some: &Survey, what: &str) -> Result<(), String> {
    compare(all, some, what)?;
    match all.exact == some.exact {
        true => Ok(()),
        false => Err(format!(
            "{what}: an end is lost for one of several identical processes"
        )),
    }
}

fn agree<S: Subject>(subject: &S) -> Result<(), String> {
    let all = subject.survey(Reductions::NONE, Broken::Nothing)?;
    let sleep = subject.survey(SLEEP_SETS, Broken::Nothing)?;
    compare_exactly(&all, &sleep, "sleep sets")?;
    if S::COUNTS_STATES && sleep.states != all.states {
        return Err(format!(
            "sleep sets visit {} states instead of {}",
            sleep.states, all.states
        ));
    }
    let invisible = subject.survey(INVISIBLE_STEPS, Broken::Nothing)?;
    compare_exactly(&all, &invisible, "invisible steps")?;
    let symmetry = subject.survey(SYMMETRY, Broken::Nothing)?;
    compare(&all, &symmetry, "symmetry")?;
    let order = subject.survey(ROW_ORDER, Broken::Nothing)?;
    compare_exactly(&all, &order, "the order of rows")?;
    let both = subject.survey(Reductions::ALL, Broken::Nothing)?;
    compare(&all, &both, "all reductions")?;
    if let Some(runs) = subject.enumerate()? {
        compare_exactly(&runs, &all, "the search")?;
    }
    if let Some(traces) = subject.traces()? {
        compare_exactly(&all, &traces, "run by run")?;
    }
    Ok(())
}

/// Runs a check on random programs; a program that fails is made smaller, and shown with the schedule
/// of what is lost.
fn check<S: Strategy>(
    cases: u32,
    rng: TestRng,
    strategy: &S,
    check: impl Fn(&S::Value) -> Result<(), String>,
) where
    S::Value: std::fmt::Debug,
{
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(strategy, |program| {
        check(&program).map_err(|why| match why.contains("not modelled") {
            // Some order of the program's statements needs what the engine refuses; the next program.
            true => TestCaseError::reject(why),
            false => TestCaseError::fail(why),
        })
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, program)) => panic!("{why}\n{program:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// The same programs in every run. The long tests take another set with `ROWLOCK_PROGRAMS_SEED=N`.
fn rng() -> TestRng {
    TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32])
}

fn rng_of_sqlite() -> TestRng {
    TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32])
}

fn rng_of_the_long_tests() -> TestRng {
    let seed = std::env::var("ROWLOCK_PROGRAMS_SEED").ok();
    let seed = seed.map_or(7, |seed| seed.parse::<u8>().expect("a number below 256"));
    TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32])
}

#[test]
fn random_sql_programs_lose_nothing() {
    check(300, rng(), &programs::sql_with_scans(), agree);
}

#[test]
fn random_toy_programs_lose_nothing() {
    check(300, rng(), &programs::toy(), agree);
}

#[test]
fn random_sqlite_programs_lose_nothing() {
    check(150, rng_of_sqlite(), &programs::sqlite::programs(), agree);
}

#[test]
#[ignore = "takes minutes in release"]
fn many_random_sqlite_programs_lose_nothing() {
    check(
        5_000,
        rng_of_the_long_tests(),
        &programs::sqlite::programs(),
        agree,
    );
}

#[test]
#[ignore = "takes minutes in release"]
fn many_random_sql_programs_lose_nothing() {
    check(
        5_000,
        rng_of_the_long_tests(),
        &programs::sql_with_scans(),
        agree,
    );
}

#[test]
#[ignore = "takes minutes in release"]
fn many_random_toy_programs_lose_nothing() {
    check(5_000, rng_of_the_long_tests(), &programs::toy(), agree);
}

/// What is found of a program with a broken rule; `None` if it is noticed at once that a footprint is too
/// small.
fn survey_broken(program: &impl Subject, reductions: Reductions, broken: Broken) -> Option<Survey> {
    let survey = std::panic::AssertUnwindSafe(|| program.survey(reductions, broken));
    let survey = std::panic::catch_unwind(survey).ok()?;
    Some(survey.unwrap_or_else(|why| panic!("it cannot be explored: {why}")))
}

/// Whether a broken rule loses something in one of so many random programs.
fn loses<S: Strategy>(cases: u32, strategy: &S, broken: Broken) -> bool
where
    S::Value: Subject,
{
    let mut runner = TestRunner::new_with_rng(Config::default(), rng());
    (0..cases).any(|_| {
        let program = strategy.new_tree(&mut runner).expect("a program").current();
        let all = program.survey(Reductions::NONE, Broken::Nothing);
        let all = all.expect("a program of the toy can be explored");
        let some = survey_broken(&program, FIRST_THREE, broken);
        some.is_none_or(|some| compare(&all, &some, "").is_err())
    })
}

/// Of sixty programs on SQLite: in how many a broken rule loses something, steps without sleep sets, and
/// with.
fn reduced_on_sqlite(broken: Broken) -> (u32, u64, u64) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[13; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let programs = programs::sqlite::programs();
    let (mut losses, mut without, mut with) = (0, 0, 0);
    for _ in 0..60 {
        let program = programs.new_tree(&mut runner).expect("a program").current();
        let Ok(all) = program.survey(Reductions::NONE, Broken::Nothing) else {
            continue;
        };
        let Some(some) = survey_broken(&program, SLEEP_SETS, broken) else {
            losses += 1;
            continue;
        };
        losses += u32::from(all.missing_in(&some).is_some());
        without += all.transitions;
        with += some.transitions;
    }
    (losses, without, with)
}

/// Otherwise the programs on SQLite would show nothing.
#[test]
fn steps_are_left_out_on_sqlite_and_too_many_would_be_noticed() {
    let (losses, without, with) = reduced_on_sqlite(Broken::Nothing);
    assert_eq!(losses, 0);
    assert!(with < without, "{with} steps of {without}");
    assert!(reduced_on_sqlite(Broken::Conflicts).0 > 0);
    assert!(reduced_on_sqlite(Broken::Reads).0 > 0);
}

#[test]
fn sleeping_whether_or_not_steps_commute_loses_something() {
    assert!(loses(300, &programs::toy(), Broken::Conflicts));
}

#[test]
fn sleepers_that_keep_their_names_lose_something() {
    assert!(loses(300, &programs::toy(), Broken::SleepersKeepNames));
}

#[test]
fn reads_that_do_not_count_lose_something() {
    assert!(loses(300, &programs::sql(), Broken::Reads));
}

#[test]
fn invisible_steps_that_read_what_others_write_lose_something() {
    // The second look takes no lock that the transaction does not hold already: it only reads.
    let looks = |mut worker: Worker| async move {
        let mut session = worker.session();
        session.exec("BEGIN", &[]).await?;
        let query = "SELECT n FROM t";
        let first = session.exec(query, &[]).await?.rows;
        let second = session.exec(query, &[]).await?.rows;
        assert_eq!(first, second, "the row has changed");
        session.exec("COMMIT", &[]).await.map(|_| ())
    };
    let writes = |mut worker: Worker| async move {
        let mut session = worker.session();
        session.exec("UPDATE t SET n = 2", &[]).await.map(|_| ())
    };
    let survey = |broken| {
        let explorer = Explorer::new(Postgres::default())
            .setup("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
            .process("looks", looks)
            .process("writes", writes)
            .without_contention();
        let explorer = explorer.reductions(INVISIBLE_STEPS).broken(broken);
        explorer.survey().expect("it can be explored").violated
    };
    assert!(survey(Broken::Nothing).contains_key("panic"));
    assert!(survey(Broken::PrivateReads).is_empty());
}

fn workers(n: usize, m: u8, crashes: u32) -> Explorer<Toy> {
    Explorer::new(Toy::new(m))
        .steps("worker", (), toy::worker)
        .count(n)
        .bounds(Bounds {
            crashes,
            ..Bounds::default()
        })
        .prompt_notice()
}

/// The second process is faster than the first.
struct SecondFirst;

impl Monitor for SecondFirst {
    type State = u8;

    fn name(&self) -> &str {
        "the first one is first"
    }

    fn start(&self) -> u8 {
        0
    }

    fn see(&self, first: &mut u8, seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        let Some(process) = seen.process.filter(|_| !self.ignores(seen)) else {
            return Remark::Fine;
        };
        match *first {
            0 => *first = process.0 + 1,
            2 if process.0 == 0 => return Remark::Violated("the second was faster".to_owned()),
            _ => {}
        }
        Remark::Fine
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        !matches!(seen.what, What::Statement { .. })
    }
}

#[test]
fn events_that_a_monitor_sees_are_tried_in_every_order() {
    // A statement that touches nothing: only the monitor sees in which order they come.
    let once = |mut worker: Worker| async move {
        let mut session = worker.session();
        session.exec("update $1", &[]).await.map(|_| ())
    };
    let survey = |broken| {
        let explorer = Explorer::new(Toy::new(1))
            .process("a", once)
            .process("b", once);
        let explorer = explorer.monitor(SecondFirst).broken(broken);
        explorer.survey().expect("it can be explored")
    };
    assert_eq!(survey(Broken::Nothing).violated.len(), 1);
    assert!(survey(Broken::Monitors).violated.is_empty());
}

/// A small footprint is noticed in debug builds, where what sleeps must stay possible.
#[test]
#[cfg(debug_assertions)]
fn crashes_that_share_a_budget_depend_on_each_other() {
    assert!(loses(300, &programs::toy(), Broken::Budgets));
}

#[test]
fn a_loop_that_nobody_sees_puts_nobody_off() {
    let idle = |mut worker: Worker, (): ()| async move {
        let mut session = worker.session();
        session
            .exec("update $1", &[])
            .await
            .map(|_| Control::Again(()))
    };
    let claims = |mut worker: Worker| async move {
        let mut session = worker.session();
        session.exec("claim", &[]).await?;
        session.exec("commit", &[]).await.map(|_| ())
    };
    let survey = |broken| {
        let explorer = Explorer::new(Toy::new(1))
            .steps("idle", (), idle)
            .process("claims", claims)
            .always("nothing runs", "running");
        let explorer = explorer.reductions(INVISIBLE_STEPS).broken(broken);
        explorer.survey().expect("it can be explored").violated
    };
    assert!(survey(Broken::Nothing).contains_key("nothing runs"));
    assert!(survey(Broken::Cycles).is_empty());
}

/// Somebody finds no job, and after that the second statement of another one fails.
struct FailsLate;

impl FailsLate {
    fn finds_nothing(seen: &Seen<'_>) -> bool {
        let What::Statement {
            answer: Some(Answer::Exec(Ok(reply))),
            ..
        } = seen.what
        else {
            return false;
        };
        seen.name == "claims" && &*reply.tag == "SELECT" && reply.rows.is_empty()
    }

    fn fails(seen: &Seen<'_>) -> bool {
        let What::Statement {
            answer: Some(Answer::Exec(answer)),
            ..
        } = seen.what
        else {
            return false;
        };
        let second = matches!(seen.choice, Choice::Step(_, request) if request.0 == 1);
        seen.name == "marks" && answer.is_err() && second
    }
}

impl Monitor for FailsLate {
    type State = bool;

    fn name(&self) -> &str {
        "nobody fails late"
    }

    fn start(&self) -> bool {
        false
    }

    fn see(&self, found_nothing: &mut bool, seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        *found_nothing |= FailsLate::finds_nothing(seen);
        match *found_nothing && FailsLate::fails(seen) {
            true => Remark::Violated("it failed".to_owned()),
            false => Remark::Fine,
        }
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        !FailsLate::finds_nothing(seen) && !FailsLate::fails(seen)
    }
}

#[test]
fn a_fault_may_come_before_a_step_that_nobody_sees() {
    let marks = |mut worker: Worker| async move {
        let mut session = worker.session();
        for text in ["claim", "update $1"] {
            let _ = session.exec(text, &[]).await;
        }
    };
    let claims = |mut worker: Worker| async move {
        let mut session = worker.session();
        let _ = session.exec("claim", &[]).await;
    };
    let survey = |broken| {
        let explorer = Explorer::new(Toy::new(1))
            .process("marks", marks)
            .process("claims", claims)
            .monitor(FailsLate)
            .bounds(Bounds {
                kills: 1,
                ..Bounds::default()
            });
        let explorer = explorer.reductions(INVISIBLE_STEPS).broken(broken);
        explorer.survey().expect("it can be explored").violated
    };
    assert!(survey(Broken::Nothing).contains_key("nobody fails late"));
    assert!(survey(Broken::FaultsFirst).is_empty());
}

#[test]
fn a_worker_that_looks_at_its_name_is_not_exchanged() {
    // The second worker alone commits; who it is shows after two statements.
    let step = |mut worker: Worker| async move {
        let mut session = worker.session();
        session.exec("claim", &[]).await?;
        session.exec("update $1", &[]).await?;
        if &*worker.name() == "worker-2" {
            session.exec("commit", &[]).await?;
        }
        Ok::<(), rowlock_model::DbError>(())
    };
    let survey = |broken| {
        let explorer = Explorer::new(Toy::new(1))
            .process("worker", step)
            .count(2)
            .always("nothing runs", "running");
        let explorer = explorer.reductions(SYMMETRY).broken(broken);
        explorer.survey().expect("it can be explored").violated
    };
    assert!(survey(Broken::Nothing).contains_key("nothing runs"));
    assert!(survey(Broken::Names).is_empty());
}

/// Two processes insert a row each, and a third one reads the table as it lies there, or sorted.
fn inserts_and_reads(query: &'static str, reductions: Reductions, broken: Broken) -> Survey {
    let inserts = |id: i64| {
        move |mut worker: Worker| async move {
            let mut session = worker.session();
            let args = [rowlock_model::Value::Int(id)];
            session.exec("INSERT INTO t VALUES ($1)", &args).await?;
            Ok::<(), rowlock_model::DbError>(())
        }
    };
    let reads = move |mut worker: Worker| async move {
        let mut session = worker.session();
        let reply = session.exec(query, &[]).await?;
        let ids: Vec<Option<i64>> = reply.rows.iter().map(|row| row[0].as_int()).collect();
        assert_ne!(ids, [Some(2), Some(1)], "the second one was first");
        Ok::<(), rowlock_model::DbError>(())
    };
    Explorer::new(Postgres::default())
        .setup("CREATE TABLE t (id int PRIMARY KEY)")
        .process("one", inserts(1))
        .process("two", inserts(2))
        .process("reads", reads)
        .without_contention()
        .reductions(reductions)
        .broken(broken)
        .survey()
        .expect("it can be explored")
}

#[test]
fn whoever_reads_a_table_as_it_lies_there_sees_every_order_of_its_rows() {
    let unsorted = "SELECT id FROM t";
    for reductions in [Reductions::NONE, ROW_ORDER, Reductions::ALL] {
        let found = inserts_and_reads(unsorted, reductions, Broken::Nothing);
        assert!(found.violated.contains_key("panic"), "{reductions:?}");
    }
    let found = inserts_and_reads(unsorted, ROW_ORDER, Broken::RowOrder);
    assert!(found.violated.is_empty());
}

#[test]
fn an_order_of_rows_that_nobody_sees_makes_no_states() {
    let sorted = "SELECT id FROM t ORDER BY id";
    let all = inserts_and_reads(sorted, Reductions::NONE, Broken::Nothing);
    let some = inserts_and_reads(sorted, ROW_ORDER, Broken::Nothing);
    assert!(all.violated.is_empty() && some.violated.is_empty());
    compare_exactly(&all, &some, "the order of rows").unwrap_or_else(|lost| panic!("{lost}"));
    assert!(
        some.states < all.states,
        "{} of {}",
        some.states,
        all.states
    );
}

/// The smallest numbers that are known for these sizes, from a model written for the purpose.
#[test]
fn workers_that_claim_are_reduced_as_far_as_a_model_of_them() {
    let cases = [
        // workers, rows, transitions with sleep sets, states with invisible steps, with symmetry,
        // with both
        (3, 2, 361, 130, 45, 32),
        (3, 4, 3_109, 900, 314, 172),
        (4, 3, 6_934, 1_423, 197, 107),
        (4, 4, 25_293, 4_516, 597, 269),
    ];
    for (n, m, sleep, invisible, symmetry, both) in cases {
        let survey = |reductions| {
            let explorer = workers(n, m, 0).reductions(reductions);
            explorer.survey().expect("it can be explored")
        };
        let found = survey(SLEEP_SETS).transitions;
        assert!(found <= sleep, "({n},{m}): {found} transitions");
        let found = survey(INVISIBLE_STEPS).states;
        assert!(
            found <= invisible,
            "({n},{m}): {found} with invisible steps"
        );
        assert_eq!(survey(SYMMETRY).states, symmetry, "({n},{m})");
        let found = survey(Reductions {
            sleep_sets: false,
            ..Reductions::ALL
        });
        assert!(
            found.states <= both,
            "({n},{m}): {} with both",
            found.states
        );
    }
}

#[test]
fn workers_that_claim_lose_nothing() {
    for (n, m) in [(3, 2), (3, 4), (4, 3)] {
        for crashes in 0..=2 {
            let survey = |reductions| {
                let explorer = workers(n, m, crashes).reductions(reductions);
                explorer.survey().expect("it can be explored")
            };
            let all = survey(Reductions::NONE);
            let sleep = survey(SLEEP_SETS);
            assert_eq!(sleep.states, all.states, "({n},{m},{crashes})");
            for reductions in [SLEEP_SETS, INVISIBLE_STEPS, SYMMETRY, Reductions::ALL] {
                let some = survey(reductions);
                let what = format!("({n},{m},{crashes}) {reductions:?}");
                compare(&all, &some, &what).unwrap_or_else(|lost| panic!("{lost}"));
                println!("{what}: {} {}", some.states, some.transitions);
            }
        }
    }
}
