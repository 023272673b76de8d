//! Random small programs: a few sessions with a few statements each.

pub(crate) mod script;
pub(crate) mod sqlite;

use std::rc::Rc;

use proptest::prelude::*;
use rowlock_model::verdict::Bounds;
use rowlock_model::{ErrorClass, Isolation, Session as _, Value};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::{Control, Explorer, ProcessSpec, Worker};
use rowlock_sim::toy::{Mutant, Toy};

use script::{Script, Text};

/// A statement of a session. Tables are `a` and `b`, both with rows 1 and 2. What a statement reads
/// becomes the register of its session, which others write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Statement {
    Read(Table, i64),
    Count(Table),
    All(Table),
    Lock(Table, i64, &'static str),
    Claim(Table),
    Add(Table, i64),
    Store(Table, i64),
    Raise(Table, i64),
    Insert(Table, i64, &'static str),
    Delete(Table, i64),
    Advisory(&'static str, i64),
}

/// `a` or `b`; `b` has a unique column besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    A,
    B,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::A => "a",
            Table::B => "b",
        }
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) isolation: Isolation,
    pub(crate) script: Script<Statement>,
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) clients: Vec<Client>,
    pub(crate) crashes: u32,
}

impl Text for Statement {
    const RETRIED: &'static [ErrorClass] = &[
        ErrorClass::Serialization,
        ErrorClass::Deadlock,
        ErrorClass::Contention,
    ];

    fn text(&self, register: i64) -> (String, Vec<Value>) {
        let plain = |text: String| (text, Vec::new());
        match self {
            Statement::Read(t, id) => plain(format!("SELECT v FROM {} WHERE id = {id}", t.name())),
            Statement::Count(t) => plain(format!("SELECT count(*) FROM {} WHERE v > 0", t.name())),
            Statement::All(t) => plain(format!("SELECT v FROM {}", t.name())),
            Statement::Lock(t, id, how) => {
                plain(format!("SELECT v FROM {} WHERE id = {id} {how}", t.name()))
            }
            Statement::Claim(t) => plain(format!(
                "SELECT id FROM {} WHERE v < 2 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
                t.name()
            )),
            Statement::Add(t, id) => {
                plain(format!("UPDATE {} SET v = v + 1 WHERE id = {id}", t.name()))
            }
            Statement::Store(t, id) => (
                format!("UPDATE {} SET v = $1 WHERE id = {id}", t.name()),
                vec![Value::Int(register + 1)],
            ),
            Statement::Raise(t, k) => {
                plain(format!("UPDATE {} SET v = v + 1 WHERE v < {k}", t.name()))
            }
            Statement::Insert(t, id, conflict) => (
                format!("INSERT INTO {} VALUES ({id}, $1) {conflict}", t.name()),
                vec![Value::Int(register)],
            ),
            Statement::Delete(t, id) => plain(format!("DELETE FROM {} WHERE id = {id}", t.name())),
            Statement::Advisory(function, key) => plain(format!("SELECT {function}({key})")),
        }
    }
}

impl Program {
    /// The exploration of it.
    pub(crate) fn explorer(&self) -> Explorer<Postgres> {
        let bounds = Bounds {
            crashes: self.crashes,
            ..Bounds::default()
        };
        let explorer = script::explorer(Postgres::default(), bounds);
        script::with_clients(explorer, &self.clients, |label, client| {
            client.script.process(label).isolation(client.isolation)
        })
    }
}

fn table() -> impl Strategy<Value = Table> {
    prop_oneof![Just(Table::A), Just(Table::B)]
}

fn statement() -> impl Strategy<Value = Statement> {
    let row = || (table(), 1..=2i64);
    let strengths = prop_oneof![
        Just("FOR UPDATE"),
        Just("FOR SHARE"),
        Just("FOR UPDATE NOWAIT"),
        Just("FOR NO KEY UPDATE SKIP LOCKED"),
    ];
    let conflicts = prop_oneof![
        Just(""),
        Just("ON CONFLICT DO NOTHING"),
        Just("ON CONFLICT (id) DO UPDATE SET v = excluded.v + 1"),
    ];
    let functions = prop_oneof![
        Just("pg_advisory_xact_lock"),
        Just("pg_try_advisory_xact_lock"),
        Just("pg_advisory_lock"),
        Just("pg_advisory_unlock"),
    ];
    prop_oneof![
        row().prop_map(|(t, id)| Statement::Read(t, id)),
        table().prop_map(Statement::Count),
        (row(), strengths).prop_map(|((t, id), how)| Statement::Lock(t, id, how)),
        table().prop_map(Statement::Claim),
        row().prop_map(|(t, id)| Statement::Add(t, id)),
        row().prop_map(|(t, id)| Statement::Store(t, id)),
        row().prop_map(|(t, id)| Statement::Raise(t, id)),
        (table(), 2..=3i64, conflicts).prop_map(|(t, id, c)| Statement::Insert(t, id, c)),
        row().prop_map(|(t, id)| Statement::Delete(t, id)),
        (functions, 1..=2i64).prop_map(|(function, key)| Statement::Advisory(function, key)),
    ]
}

/// As [`statement`], or one that shows the order of rows.
fn statement_or_scan() -> impl Strategy<Value = Statement> {
    prop_oneof![
        8 => statement(),
        1 => table().prop_map(Statement::All),
    ]
}

fn client(statement: impl Strategy<Value = Statement>) -> impl Strategy<Value = Client> {
    let isolation = prop_oneof![
        2 => Just(Isolation::ReadCommitted),
        1 => Just(Isolation::RepeatableRead),
        1 => Just(Isolation::Serializable),
    ];
    let statements = prop::collection::vec(statement, 1..=4);
    (
        isolation,
        any::<bool>(),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.3),
        statements,
    )
        .prop_map(
            |(isolation, block, rolls_back, retries, statements)| Client {
                isolation,
                script: Script {
                    begin: block.then_some("BEGIN"),
                    rolls_back,
                    retries,
                    statements,
                },
            },
        )
}

/// Random SQL programs: two or three sessions, perhaps two of them alike.
pub(crate) fn sql() -> impl Strategy<Value = Program> {
    program(|| client(statement()))
}

/// The same with statements that show the order of rows.
pub(crate) fn sql_with_scans() -> impl Strategy<Value = Program> {
    program(|| client(statement_or_scan()))
}

fn program<C: Strategy<Value = Client> + 'static>(
    client: impl Fn() -> C,
) -> impl Strategy<Value = Program> {
    let clients = script::clients(client, |client| client.script.statements.truncate(2));
    let crashes = prop_oneof![3 => Just(0u32), 1 => Just(1u32)];
    (clients, crashes).prop_map(|(clients, crashes)| Program { clients, crashes })
}

/// A program on the toy database: statements by number, with the row for those that take one.
#[derive(Clone, Debug)]
pub(crate) struct ToyProgram {
    pub(crate) rows: u8,
    pub(crate) crashes: u32,
    pub(crate) mutant: Mutant,
    pub(crate) clients: Vec<ToyClient>,
}

/// Statements, and whether they are run again and again while they claim something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToyClient {
    pub(crate) repeats: bool,
    pub(crate) statements: Vec<(usize, i64)>,
}

const TOY_TEXTS: [&str; 4] = ["claim", "update $1", "commit", "done $1"];

async fn toy_work(mut worker: Worker, client: Rc<ToyClient>) -> Control<()> {
    let mut session = worker.session();
    let mut claimed = None;
    for (text, row) in &client.statements {
        let row = claimed.clone().unwrap_or(Value::Int(*row));
        let reply = session.exec(TOY_TEXTS[*text], &[row]).await;
        let reply = reply.expect("the statement is well-formed");
        if *text == 0 {
            claimed = reply.scalar().cloned();
        }
    }
    match client.repeats && claimed.is_some() {
        true => Control::Again(()),
        false => Control::Done,
    }
}

impl ToyProgram {
    /// The exploration of it.
    pub(crate) fn explorer(&self) -> Explorer<Toy> {
        let explorer = Explorer::new(Toy::new(self.rows).with(self.mutant))
            .without_contention()
            .may_hang()
            .always("nothing is done", "done")
            .at_end("nothing is left running", "running")
            .bounds(Bounds {
                crashes: self.crashes,
                ..Bounds::default()
            });
        script::with_clients(explorer, &self.clients, |label, client| {
            let shared = Rc::new(client.clone());
            let step = move |worker: Worker, (): ()| toy_work(worker, Rc::clone(&shared));
            ProcessSpec::steps(label, (), step)
        })
    }
}

/// Random programs on the toy database.
pub(crate) fn toy() -> impl Strategy<Value = ToyProgram> {
    let client = (
        prop::bool::weighted(0.4),
        prop::collection::vec((0..4usize, 0..2i64), 1..=4),
    )
        .prop_map(|(repeats, statements)| ToyClient {
            repeats,
            statements,
        });
    let mutant = prop_oneof![
        2 => Just(Mutant::None),
        1 => Just(Mutant::ClaimIgnoresLocks),
        1 => Just(Mutant::DoneWithoutOwner),
        1 => Just(Mutant::ClaimWaits),
    ];
    let clients = prop_oneof![
        1 => prop::collection::vec(client.clone(), 2..=3),
        1 => client.prop_map(|a| vec![a.clone(), a]),
    ];
    (2..=3u8, 0..=2u32, mutant, clients).prop_map(|(rows, crashes, mutant, clients)| ToyProgram {
        rows,
        crashes,
        mutant,
        clients,
    })
}
