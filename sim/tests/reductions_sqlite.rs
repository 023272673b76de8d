//! Footprints of SQLite are whole: random small programs come to the same ends and the same violations
//! with what commutes left out, and without.
//!
//! `CASES=5000 cargo test --release -p rowlock-sim --test reductions_sqlite` tries 5,000 programs.

use std::rc::Rc;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use rowlock_model::verdict::{Bounds, Limits};
use rowlock_model::{DbError, ErrorClass, Session, Value};
use rowlock_sim::database::Database;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::explore::{Broken, Control, Explorer, ProcessSpec, Reductions, Survey, Worker};

const SLEEP_SETS: Reductions = Reductions {
    sleep_sets: true,
    ..Reductions::NONE
};
const INVISIBLE_STEPS: Reductions = Reductions {
    invisible_steps: true,
    ..Reductions::NONE
};
const SYMMETRY: Reductions = Reductions {
    symmetry: true,
    ..Reductions::NONE
};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    /// How its transaction begins; without one each statement is its own.
    begin: Option<&'static str>,
    rolls_back: bool,
    retries: bool,
    /// Texts; `?` is the value that the session read last.
    statements: Vec<String>,
}

#[derive(Clone, Debug)]
struct Program {
    clients: Vec<Client>,
    bounds: Bounds,
}

const SETUP: &str = "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL); \
    CREATE TABLE b (id INT PRIMARY KEY, v INT NOT NULL, UNIQUE (v)); \
    INSERT INTO a VALUES (1, 0), (2, 0); INSERT INTO b VALUES (1, 0), (2, 10)";

async fn run(client: &Client, session: &mut impl Session) -> Result<(), DbError> {
    if let Some(begin) = client.begin {
        session.exec(begin, &[]).await?;
    }
    let mut register = 0;
    for text in &client.statements {
        let args = match text.contains('?') {
            true => vec![Value::Int(register + 1)],
            false => Vec::new(),
        };
        let reply = session.exec(text, &args).await?;
        if let Some(read) = reply.scalar().and_then(Value::as_int) {
            register = read;
        }
    }
    if client.begin.is_some() {
        let end = if client.rolls_back {
            "ROLLBACK"
        } else {
            "COMMIT"
        };
        session.exec(end, &[]).await?;
    }
    Ok(())
}

async fn work(mut worker: Worker, client: Rc<Client>) -> Control<()> {
    let mut session = worker.session();
    let Err(error) = run(&client, &mut session).await else {
        return Control::Done;
    };
    if client.begin.is_some() && error.class != ErrorClass::ConnectionLost {
        let _ = session.exec("ROLLBACK", &[]).await;
    }
    let refused = matches!(
        error.class,
        ErrorClass::Serialization | ErrorClass::Deadlock
    );
    match client.retries && refused {
        true => Control::Again(()),
        false => Control::Done,
    }
}

impl Program {
    fn explorer<D: Database>(&self, database: D) -> Explorer<D> {
        let mut explorer = Explorer::new(database)
            .setup(SETUP)
            .without_contention()
            .may_hang()
            .no_deadlock()
            .always("a stays small", "SELECT id FROM a WHERE v > 2")
            .at_end("b ends small", "SELECT id FROM b WHERE v = 2")
            .limits(Limits {
                states: 100_000,
                ..Limits::default()
            })
            .bounds(self.bounds.clone());
        let mut at = 0;
        while at < self.clients.len() {
            let client = &self.clients[at];
            let count = self.clients[at..]
                .iter()
                .take_while(|c| *c == client)
                .count();
            let shared = Rc::new(client.clone());
            let step = move |worker: Worker, (): ()| work(worker, Rc::clone(&shared));
            let spec = ProcessSpec::steps(format!("client{at}"), (), step).count(count);
            explorer = explorer.add(spec);
            at += count;
        }
        explorer
    }

    fn survey<D: Database>(
        &self,
        database: D,
        reductions: Reductions,
        broken: Broken,
    ) -> Result<Survey, String> {
        let explorer = self.explorer(database).reductions(reductions);
        let survey = explorer.broken(broken).survey();
        survey.map_err(|error| error.to_string())
    }

    fn agree<D: Database>(&self, database: impl Fn() -> D) -> Result<(), String> {
        let survey = |reductions| self.survey(database(), reductions, Broken::Nothing);
        let all = survey(Reductions::NONE)?;
        for (reductions, what, exact) in [
            (SLEEP_SETS, "sleep sets", true),
            (INVISIBLE_STEPS, "invisible steps", true),
            (SYMMETRY, "symmetry", false),
            (Reductions::ALL, "all reductions", false),
        ] {
            let some = survey(reductions)?;
            if let Some(lost) = all.missing_in(&some) {
                return Err(format!("{what}: {lost}"));
            }
            if let Some(invented) = some.missing_in(&all) {
                return Err(format!("{what}, the other way round: {invented}"));
            }
            if exact && all.exact != some.exact {
                let why = "an end is lost for one of several identical processes";
                return Err(format!("{what}: {why}"));
            }
        }
        let traces = self.explorer(database()).traces(20_000);
        if let Some(traces) = traces.map_err(|error| error.to_string())? {
            if let Some(lost) = all.missing_in(&traces) {
                return Err(format!("run by run: {lost}"));
            }
            if let Some(invented) = traces.missing_in(&all) {
                return Err(format!("run by run, the other way round: {invented}"));
            }
        }
        Ok(())
    }
}

fn table() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b")]
}

/// Statements that any database takes.
fn common() -> BoxedStrategy<String> {
    let row = || (table(), 1..=3i64);
    prop_oneof![
        row().prop_map(|(t, id)| format!("SELECT v FROM {t} WHERE id = {id}")),
        table().prop_map(|t| format!("SELECT count(*) FROM {t} WHERE v > 0")),
        row().prop_map(|(t, id)| format!("UPDATE {t} SET v = v + 1 WHERE id = {id}")),
        row().prop_map(|(t, id)| format!("UPDATE {t} SET v = ? WHERE id = {id}")),
        row().prop_map(|(t, k)| format!("UPDATE {t} SET v = v + 1 WHERE v < {k}")),
        row().prop_map(|(t, id)| format!("INSERT INTO {t} VALUES ({id}, ?)")),
        row().prop_map(|(t, id)| format!("DELETE FROM {t} WHERE id = {id}")),
        row().prop_map(|(t, k)| format!("DELETE FROM {t} WHERE v = {k}")),
    ]
    .boxed()
}

fn of_sqlite() -> BoxedStrategy<String> {
    let row = || (table(), 1..=3i64);
    prop_oneof![
        8 => common(),
        1 => table().prop_map(|t| {
            format!("UPDATE {t} SET v = v + 1 WHERE id = (SELECT id FROM {t} WHERE v < 2 LIMIT 1) RETURNING id")
        }),
        1 => row().prop_map(|(t, id)| {
            format!("INSERT INTO {t} VALUES ({id}, ?) ON CONFLICT DO NOTHING")
        }),
        1 => row().prop_map(|(t, id)| format!("INSERT OR REPLACE INTO {t} VALUES ({id}, ?)")),
    ]
    .boxed()
}

fn program(
    statement: fn() -> BoxedStrategy<String>,
    begin: BoxedStrategy<Option<&'static str>>,
) -> impl Strategy<Value = Program> {
    let client = move || {
        let statements = prop::collection::vec(statement(), 1..=3);
        (
            begin.clone(),
            prop::bool::weighted(0.15),
            prop::bool::weighted(0.3),
            statements,
        )
            .prop_map(|(begin, rolls_back, retries, statements)| Client {
                begin,
                rolls_back,
                retries,
                statements,
            })
    };
    let clients = prop_oneof![
        3 => (client(), client()).prop_map(|(a, b)| vec![a, b]),
        1 => client().prop_map(|a| vec![a.clone(), a]),
        1 => (client(), client()).prop_map(|(mut a, mut b)| {
            a.statements.truncate(2);
            b.statements.truncate(2);
            vec![a.clone(), a, b]
        }),
    ];
    let bounds = prop_oneof![
        6 => Just((0, 0, 0, 0)),
        2 => Just((1, 0, 0, 0)),
        1 => Just((0, 1, 0, 0)),
        1 => Just((0, 0, 1, 0)),
        1 => Just((0, 0, 0, 1)),
    ];
    let bounds = bounds.prop_map(|(crashes, kills, losses, clock)| Bounds {
        crashes,
        kills,
        losses,
        clock,
        ..Bounds::default()
    });
    (clients, bounds).prop_map(|(clients, bounds)| Program { clients, bounds })
}

fn sqlite() -> impl Strategy<Value = Program> {
    let begin = prop_oneof![
        Just(None),
        Just(Some("BEGIN")),
        Just(Some("BEGIN IMMEDIATE"))
    ];
    program(of_sqlite, begin.boxed())
}

fn check<D: Database>(
    cases: u32,
    programs: &impl Strategy<Value = Program>,
    database: impl Fn() -> D,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(programs, |program| {
        program
            .agree(&database)
            .map_err(|why| match why.contains("not modelled") {
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

/// Of so many programs: in how many a broken rule loses something, states without reductions, and with.
fn reduced<D: Database>(
    programs: &impl Strategy<Value = Program>,
    database: impl Fn() -> D,
    broken: Broken,
) -> (u32, u64, u64) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[13; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut losses, mut without, mut with) = (0, 0, 0);
    for _ in 0..60 {
        let tree = programs.new_tree(&mut runner).expect("a program");
        let program = tree.current();
        let all = program.survey(database(), Reductions::NONE, Broken::Nothing);
        let Ok(all) = all else { continue };
        let some = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            program.survey(database(), SLEEP_SETS, broken)
        }));
        // A footprint that is too small is noticed at once as well.
        let Ok(Ok(some)) = some else {
            losses += 1;
            continue;
        };
        losses += u32::from(all.missing_in(&some).is_some());
        without += all.transitions;
        with += some.transitions;
    }
    (losses, without, with)
}

/// Otherwise the tests above would show nothing.
#[test]
fn steps_are_left_out_and_too_many_would_be_noticed() {
    let (losses, without, with) = reduced(&sqlite(), Sqlite::default, Broken::Nothing);
    assert_eq!(losses, 0);
    assert!(with < without, "{with} steps of {without}");
    assert!(reduced(&sqlite(), Sqlite::default, Broken::Conflicts).0 > 0);
    assert!(reduced(&sqlite(), Sqlite::default, Broken::Reads).0 > 0);
}

#[test]
fn programs_on_sqlite_lose_nothing() {
    check(cases(), &sqlite(), Sqlite::default);
}

fn cases() -> u32 {
    let cases = std::env::var("CASES").ok().and_then(|n| n.parse().ok());
    cases.unwrap_or(150)
}
