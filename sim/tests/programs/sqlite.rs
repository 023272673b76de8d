//! Programs on SQLite, with every kind of fault.

use proptest::prelude::*;
use rowlock_model::verdict::Bounds;
use rowlock_model::{ErrorClass, Value};
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::explore::Explorer;

use super::script::{self, Script, Text};

/// The text of a statement; `?` is one more than the value that the session read last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Template(String);

impl Text for Template {
    const RETRIED: &'static [ErrorClass] = &[ErrorClass::Serialization, ErrorClass::Deadlock];

    fn text(&self, register: i64) -> (String, Vec<Value>) {
        let args = match self.0.contains('?') {
            true => vec![Value::Int(register + 1)],
            false => Vec::new(),
        };
        (self.0.clone(), args)
    }
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    clients: Vec<Script<Template>>,
    bounds: Bounds,
}

impl Program {
    /// The exploration of it.
    pub(crate) fn explorer(&self) -> Explorer<Sqlite> {
        let explorer = script::explorer(Sqlite::default(), self.bounds.clone());
        script::with_clients(explorer, &self.clients, |label, client| {
            client.process(label)
        })
    }
}

fn table() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b")]
}

fn common() -> impl Strategy<Value = String> {
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
}

fn statement() -> impl Strategy<Value = Template> {
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
    .prop_map(Template)
}

fn client() -> impl Strategy<Value = Script<Template>> {
    let begin = prop_oneof![
        Just(None),
        Just(Some("BEGIN")),
        Just(Some("BEGIN IMMEDIATE"))
    ];
    (
        begin,
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.3),
        prop::collection::vec(statement(), 1..=3),
    )
        .prop_map(|(begin, rolls_back, retries, statements)| Script {
            begin,
            rolls_back,
            retries,
            statements,
        })
}

/// Random programs: two or three sessions, perhaps two of them alike.
pub(crate) fn programs() -> impl Strategy<Value = Program> {
    let clients = script::clients(client, |client| client.statements.truncate(2));
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
