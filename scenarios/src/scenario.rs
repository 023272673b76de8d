//! A scenario, resolved: what `docs/scenario.md` describes, checked and ready to be run.

mod levels;
mod parse;
mod pinned;
mod process;
mod property;
mod reader;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rowlock_model::schedule::Granularity;
use rowlock_model::verdict::Bounds;
use rowlock_model::{Dialect, ErrorClass, Guarantee, Isolation, Value};

use crate::binding::Bound;
use crate::expr::{Expr, Layout, Name};
use crate::pinned::Pinned;
use crate::source::{FileError, Source, Text};

pub(crate) use process::no_such;
pub use reader::duration;

/// A scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file.
    pub source: Source,
    /// One line.
    pub title: Arc<str>,
    /// What it is about; may be empty.
    pub description: Arc<str>,
    /// Where it comes from.
    pub sources: Vec<Arc<str>>,
    /// Every (variant, database, isolation level), in the order of the file.
    pub cases: Vec<Case>,
}

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// Everything that is wrong in the file, each with its place.
    pub fn parse(source: Source) -> Result<Scenario, FileError> {
        parse::scenario(source)
    }

    /// Reads an isolation spec of PostgreSQL ([`crate::spec`]) as a scenario: each session is a
    /// process that sends its set-up, its steps and its teardown, at each of `levels`. No error may
    /// come up in any interleaving. `docs/isolation-suite.md` says what that means for
    /// permutations and teardowns.
    ///
    /// # Errors
    /// What is wrong in the file, and names that a schedule cannot say, each with its place.
    pub fn of_spec(source: Source, levels: &[Isolation]) -> Result<Scenario, FileError> {
        spec::scenario(source, levels)
    }
}

/// One question: a variant of the scenario on one database at one isolation level.
#[derive(Clone, Debug)]
pub struct Case {
    /// The variant's name; empty for the top level.
    pub variant: Arc<str>,
    /// The variant's description; may be empty.
    pub description: Arc<str>,
    /// The database.
    pub database: Dialect,
    /// The default level of every session that does not have its own.
    pub isolation: Isolation,
    /// The script that makes the initial state, one message; `None` if there is none.
    pub setup: Option<Text>,
    /// The faults that an exploration may inject.
    pub bounds: Bounds,
    /// Where statements give way, in the exploration and, unless they say otherwise, in pinned
    /// schedules.
    pub granularity: Granularity,
    /// Server connections of the pooler between processes and server; 0: there is none.
    pub pooler: u8,
    /// False if the file says `contention = "none"`.
    pub needs_contention: bool,
    /// What is asked of every run without a property of its own.
    pub guarantees: Vec<Guarantee>,
    /// The processes, one for each label; empty if the case is not explored.
    pub processes: Vec<Process>,
    /// What must hold.
    pub properties: Vec<Property>,
    /// The fixed schedules that give outcomes for this database and level.
    pub pinned: Vec<Pinned>,
    /// The expected verdict.
    pub expect: Expectation,
}

impl Case {
    /// `postgres/read committed`, the key that the file uses for it.
    pub fn key(&self) -> String {
        format!("{}/{}", self.database, self.isolation)
    }
}

/// The level that a server uses when nobody asks for one.
pub fn default_isolation(database: Dialect) -> Isolation {
    match database {
        Dialect::Postgres => Isolation::ReadCommitted,
        Dialect::MySql | Dialect::MariaDb => Isolation::RepeatableRead,
        Dialect::Sqlite => Isolation::Serializable,
    }
}

/// One client program.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its label: `worker-1`, or the name itself if there is one of it.
    pub label: Arc<str>,
    /// The name in the file; processes with the same `group` differ only in their label.
    pub group: Arc<str>,
    /// How many sessions it opens.
    pub sessions: u8,
    /// Its sessions' level.
    pub isolation: Isolation,
    /// A script that is sent on each session after opening it.
    pub connect: Option<Text>,
    /// Microseconds that its host's clock is ahead of the server's.
    pub skew_micros: i64,
    /// What it runs.
    pub body: Body,
    /// What it tells the properties.
    pub events: Arc<[Event]>,
}

impl Process {
    /// Its steps; none if it is an actor.
    pub fn steps(&self) -> &[Step] {
        match &self.body {
            Body::Steps(program) => &program.steps,
            Body::Actor { .. } => &[],
        }
    }
}

/// What a process runs.
#[derive(Clone, Debug)]
pub enum Body {
    /// Steps of the file.
    Steps(Arc<Program>),
    /// Code in Rust, by name.
    Actor {
        /// The name.
        name: Text,
        /// Its parameters.
        params: BTreeMap<Arc<str>, Value>,
    },
}

/// The steps of a process, compiled for one database.
#[derive(Clone, Debug)]
pub struct Program {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The variables' first values, by slot.
    pub vars: Vec<Value>,
    /// Begin again after the last step.
    pub repeat: bool,
    /// Ends a repeated program after a round.
    pub until: Option<Expr>,
    /// Which names stand in which slot of the local state.
    pub layout: Layout,
    /// Whether an expression or binding reads `round`.
    pub reads_round: bool,
    /// Times that the steps may be run (`bounds.rounds`); 0 = no bound.
    pub rounds: u32,
    /// Times that its client may stop waiting for a reply (`bounds.cancels`).
    pub cancels: u32,
    /// For each result slot the index of the last step that reads it: its value can be
    /// forgotten when that one is over.
    pub(crate) last_use: Vec<usize>,
    /// Where each variable first stands in the file.
    pub(crate) var_spans: Vec<Range<usize>>,
    /// The variables that the process itself reads.
    pub(crate) vars_read: BTreeSet<usize>,
}

/// One step of a process.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name, unique in the process.
    pub name: Arc<str>,
    /// What it does.
    pub action: StepAction,
    /// Left out unless this is true.
    pub when: Option<Expr>,
    /// Variables (slots) set when the step is done without an error, in order.
    pub set: Vec<(usize, Expr)>,
    /// The session that sends it, from 0.
    pub session: u8,
    /// Classes of errors that restart the process.
    pub retry: Vec<ErrorClass>,
    /// Whether any other error is passed over.
    pub continue_on_error: bool,
    /// Whether the client may stop waiting for the reply (`bounds.cancels`).
    pub cancel: bool,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// Sends one statement.
    Sql(Bound),
    /// Sends a script as one message.
    Batch(Text),
    /// Waits on the host's clock.
    Sleep(Duration),
    /// Does something by itself, described for people.
    App(Arc<str>),
    /// Closes the session.
    Close,
}

/// Something that must hold.
#[derive(Clone, Debug)]
pub struct Property {
    /// Its name, unique in the case.
    pub name: Arc<str>,
    /// When it is asked.
    pub when: When,
    /// What is asked.
    pub test: Test,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

/// When a property is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After every step.
    Always,
    /// At least once in the exploration.
    Sometimes,
    /// At the end of every complete run.
    AtEnd,
}

/// What a property asks.
#[derive(Clone, Debug)]
pub enum Test {
    /// A query on the committed state: no row for always and at-end, a row for sometimes.
    Sql(Text),
    /// A count of events.
    Event(EventTest),
}

/// A count of events: how often one of the [`Event`]s of this property happens, in any process.
#[derive(Clone, Debug)]
pub struct EventTest {
    /// A query that is run on the committed state right after the event, with the event's arguments;
    /// the event counts only if it returns a row.
    pub query: Option<Query>,
    /// Whether something ends what the event began; then the processes inside are counted.
    pub has_end: bool,
    /// It must happen so often in a run.
    pub at_least: Option<u32>,
    /// It may happen so often in a run.
    pub at_most: Option<u32>,
}

/// A query with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// As the file has it.
    pub text: Text,
    /// As it is sent.
    pub sql: Arc<str>,
}

/// What a process tells a property: compiled for the names of one process.
#[derive(Clone, Debug)]
pub struct Event {
    /// Index of the property in [`Case::properties`].
    pub property: usize,
    /// It ends what the property's other event began.
    pub ends: bool,
    /// The steps after which it is asked, by name; empty for any step.
    pub steps: Vec<Arc<str>>,
    /// What must be true.
    pub condition: Expr,
    /// Counted for each value of this by itself.
    pub per: Option<Expr>,
    /// The arguments of the property's query.
    pub args: Vec<Name>,
}

/// The verdict that the file expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Every property holds.
    Holds,
    /// This property does not hold.
    Violated(Arc<str>),
    /// Nothing contends, or a `sometimes` never happens.
    Vacuous,
    /// A limit is hit.
    Incomplete,
    /// The simulator does not model something that the case uses.
    Unsupported,
}

impl std::fmt::Display for Expectation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expectation::Holds => f.write_str("holds"),
            Expectation::Violated(name) => write!(f, "violated: {name}"),
            Expectation::Vacuous => f.write_str("vacuous"),
            Expectation::Incomplete => f.write_str("incomplete"),
            Expectation::Unsupported => f.write_str("unsupported"),
        }
    }
}
