//! Random small programs: a few sessions with a few statements each.

use std::rc::Rc;

use proptest::prelude::*;
use rowlock_model::verdict::{Bounds, Limits};
use rowlock_model::{DbError, ErrorClass, Isolation, Session, Value};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::{Control, Explorer, ProcessSpec, Worker};
use rowlock_sim::toy::{Mutant, Toy};

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
    /// Whether the statements are one transaction.
    pub(crate) block: bool,
    pub rolls_back: bool,
    /// Whether it begins again when it is refused.
    pub(crate) retries: bool,
    pub(crate) statements: Vec<Statement>,
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) clients: Vec<Client>,
    pub(crate) crashes: u32,
}

const SETUP: &str = "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL); \
    CREATE TABLE b (id INT PRIMARY KEY, v INT NOT NULL UNIQUE); \
    INSERT INTO a VALUES (1, 0), (2, 0); INSERT INTO b VALUES (1, 0), (2, 10)";

impl Statement {
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

async fn run(client: &Client, session: &mut impl Session) -> Result<(), DbError> {
    if client.block {
        session.exec("BEGIN", &[]).await?;
    }
    let mut register = 0;
    for statement in &client.statements {
        let (text, args) = statement.text(register);
        let reply = session.exec(&text, &args).await?;
        if let Some(read) = reply.scalar().and_then(Value::as_int) {
            register = read;
        }
    }
    if client.block {
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
    if client.block && error.class != ErrorClass::ConnectionLost {
        let _ = session.exec("ROLLBACK", &[]).await;
    }
    let refused = matches!(
        error.class,
        ErrorClass::Serialization | ErrorClass::Deadlock | ErrorClass::Contention
    );
    match client.retries && refused {
        true => Control::Again(()),
        false => Control::Done,
    }
}

impl Program {
    /// The exploration of it.
    pub(crate) fn explorer(&self) -> Explorer<Postgres> {
        let mut explorer = Explorer::new(Postgres::default())
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
            .bounds(Bounds {
                crashes: self.crashes,
                ..Bounds::default()
            });
        let mut at = 0;
        while at < self.clients.len() {
            let client = &self.clients[at];
            let same = self.clients[at..].iter().take_while(|c| *c == client);
            let count = same.count();
            let shared = Rc::new(client.clone());
            let step = move |worker: Worker, (): ()| work(worker, Rc::clone(&shared));
            let spec = ProcessSpec::steps(format!("client{at}"), (), step)
                .count(count)
                .isolation(client.isolation);
            explorer = explorer.add(spec);
            at += count;
        }
        explorer
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
                block,
                rolls_back,
                retries,
                statements,
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
    let clients = prop_oneof![
        3 => (client(), client()).prop_map(|(a, b)| vec![a, b]),
        1 => client().prop_map(|a| vec![a.clone(), a]),
        1 => (client(), client()).prop_map(|(mut a, mut b)| {
            a.statements.truncate(2);
            b.statements.truncate(2);
            vec![a.clone(), a, b]
        }),
    ];
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
        let mut explorer = Explorer::new(Toy::new(self.rows).with(self.mutant))
            .without_contention()
            .may_hang()
            .always("nothing is done", "done")
            .at_end("nothing is left running", "running")
            .bounds(Bounds {
                crashes: self.crashes,
                ..Bounds::default()
            });
        let mut at = 0;
        while at < self.clients.len() {
            let client = &self.clients[at];
            let count = self.clients[at..]
                .iter()
                .take_while(|c| *c == client)
                .count();
            let shared = Rc::new(client.clone());
            let step = move |worker: Worker, (): ()| toy_work(worker, Rc::clone(&shared));
            let spec = ProcessSpec::steps(format!("client{at}"), (), step);
            explorer = explorer.add(spec.count(count));
            at += count;
        }
        explorer
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
