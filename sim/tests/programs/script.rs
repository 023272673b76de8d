//! What a session of a random program does, on whichever database.

use std::rc::Rc;

use proptest::prelude::*;
use rowlock_model::verdict::{Bounds, Limits};
use rowlock_model::{DbError, ErrorClass, Session, Value};
use rowlock_sim::database::Database;
use rowlock_sim::explore::{Control, Explorer, ProcessSpec, Worker};

/// A statement.
pub(crate) trait Text {
    /// Errors after which a session that retries begins again.
    const RETRIED: &'static [ErrorClass];

    /// What is sent, and its arguments; the register is the value that the session read last.
    fn text(&self, register: i64) -> (String, Vec<Value>);
}

/// What a session does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Script<S> {
    /// How its transaction begins; without one each statement is its own.
    pub(crate) begin: Option<&'static str>,
    pub(crate) rolls_back: bool,
    /// Whether it begins again when it is refused.
    pub(crate) retries: bool,
    pub(crate) statements: Vec<S>,
}

impl<S: Text + Clone + 'static> Script<S> {
    /// The process that does so.
    pub(crate) fn process(&self, label: String) -> ProcessSpec {
        let shared = Rc::new(self.clone());
        let step = move |worker: Worker, (): ()| Rc::clone(&shared).work(worker);
        ProcessSpec::steps(label, (), step)
    }

    async fn work(self: Rc<Self>, mut worker: Worker) -> Control<()> {
        let mut session = worker.session();
        let Err(error) = self.run(&mut session).await else {
            return Control::Done;
        };
        if self.begin.is_some() && error.class != ErrorClass::ConnectionLost {
            let _ = session.exec("ROLLBACK", &[]).await;
        }
        match self.retries && S::RETRIED.contains(&error.class) {
            true => Control::Again(()),
            false => Control::Done,
        }
    }

    async fn run(&self, session: &mut impl Session) -> Result<(), DbError> {
        if let Some(begin) = self.begin {
            session.exec(begin, &[]).await?;
        }
        let mut register = 0;
        for statement in &self.statements {
            let (text, args) = statement.text(register);
            let reply = session.exec(&text, &args).await?;
            if let Some(read) = reply.scalar().and_then(Value::as_int) {
                register = read;
            }
        }
        if self.begin.is_some() {
            let end = if self.rolls_back {
                "ROLLBACK"
            } else {
                "COMMIT"
            };
            session.exec(end, &[]).await?;
        }
        Ok(())
    }
}

const SETUP: &str = "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL); \
    CREATE TABLE b (id INT PRIMARY KEY, v INT NOT NULL UNIQUE); \
    INSERT INTO a VALUES (1, 0), (2, 0); INSERT INTO b VALUES (1, 0), (2, 10)";

/// The exploration of a program in SQL, without its sessions.
pub(crate) fn explorer<D: Database>(database: D, bounds: Bounds) -> Explorer<D> {
    Explorer::new(database)
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
        .bounds(bounds)
}

/// Adds sessions; neighbours that are alike are processes of one kind.
pub(crate) fn with_clients<D: Database, C: PartialEq>(
    mut explorer: Explorer<D>,
    clients: &[C],
    process: impl Fn(String, &C) -> ProcessSpec,
) -> Explorer<D> {
    let mut number = 0;
    for alike in clients.chunk_by(PartialEq::eq) {
        let process = process(format!("client{number}"), &alike[0]);
        explorer = explorer.add(process.count(alike.len()));
        number += alike.len();
    }
    explorer
}

/// Two sessions, two that are alike, or three of which two are alike and all are shortened.
pub(crate) fn clients<C: Strategy + 'static>(
    client: impl Fn() -> C,
    shorten: fn(&mut C::Value),
) -> impl Strategy<Value = Vec<C::Value>>
where
    C::Value: Clone,
{
    prop_oneof![
        3 => (client(), client()).prop_map(|(a, b)| vec![a, b]),
        1 => client().prop_map(|a| vec![a.clone(), a]),
        1 => (client(), client()).prop_map(move |(mut a, mut b)| {
            shorten(&mut a);
            shorten(&mut b);
            vec![a.clone(), a, b]
        }),
    ]
}
