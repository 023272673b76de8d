//! A case of a scenario file as an exploration.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowlock_model::schedule::Choice;
use rowlock_model::{Host as _, Row, Value};
use rowlock_scenarios::actor::{EVENT_NOTE, Progress, step};
use rowlock_scenarios::monitor::{self, EventMonitor, EventState};
use rowlock_scenarios::scenario::{Body, Case, Event, Process, Test, When};
use rowlock_scenarios::script::{self, Script, ScriptState, Told};

use crate::actor;
use crate::database::{Answer, Database};
use crate::explore::{
    Control, Explorer, Inspect, Monitor, ProcessSpec, Remark, Seen, What, Worker,
};
use crate::host::SimHost;

/// Code in Rust that scenarios name as `actor = "..."`: gives the process that runs it, or says
/// what is wrong with its parameters; `None` if it is none of the caller's, but perhaps one of
/// [`crate::actor`].
pub type Actors<'a> =
    dyn Fn(&Process, &str, &BTreeMap<Arc<str>, Value>) -> Option<Result<ProcessSpec, String>> + 'a;

/// A case cannot be explored as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("process `{process}`: {message}")]
pub struct CaseError {
    /// The process.
    pub process: Arc<str>,
    /// What is wrong.
    pub message: String,
}

/// The exploration of a case on `db`, an empty database of the case's kind. Limits, modes and
/// progress are the caller's.
///
/// # Errors
/// An actor that does not exist, or does not take its parameters.
pub fn explorer<D: Database>(
    case: &Case,
    mut db: D,
    actors: &Actors<'_>,
) -> Result<Explorer<D>, CaseError> {
    if let Err(error) = db.pool(case.pooler) {
        return Err(CaseError {
            process: "pooler".into(),
            message: error.message.to_string(),
        });
    }
    // Scripts count their rounds themselves: one of them is many rounds of a step function.
    let mut bounds = case.bounds.clone();
    bounds.rounds = 0;
    let mut explorer = Explorer::new(db)
        .bounds(bounds)
        .granularity(case.granularity);
    if !case.needs_contention {
        explorer = explorer.without_contention();
    }
    if let Some(setup) = &case.setup {
        explorer = explorer.setup(&*setup.text);
    }
    let mut processes = &case.processes[..];
    while let Some(first) = processes.first() {
        let count = alike(processes);
        explorer = explorer.add(spec(case, first, count, actors)?);
        processes = &processes[count..];
    }
    let bodies = case.processes.iter().map(|process| &process.body);
    explorer = actor::watch(
        explorer,
        bodies.filter_map(|body| match body {
            Body::Actor { name, params } => Some((&*name.text, params)),
            Body::Steps(_) => None,
        }),
    );
    for guarantee in &case.guarantees {
        explorer = explorer.guarantee(*guarantee);
    }
    Ok(properties(explorer, case))
}

/// How many of the processes, from the first one on, differ in nothing but their number: a group of
/// scripts that is declared at once.
fn alike(processes: &[Process]) -> usize {
    let group = &processes[0].group;
    let is_next = |(at, process): (usize, &Process)| {
        let is_script = matches!(process.body, Body::Steps(_));
        is_script && process.group == *group && *process.label == *format!("{group}-{}", at + 1)
    };
    let count = (processes.iter().enumerate())
        .take_while(|found| is_next(*found))
        .count();
    count.max(1)
}

fn spec(
    case: &Case,
    process: &Process,
    count: usize,
    actors: &Actors<'_>,
) -> Result<ProcessSpec, CaseError> {
    let failed = |message| CaseError {
        process: process.label.clone(),
        message,
    };
    let mut spec = match &process.body {
        Body::Steps(_) => {
            let script = Script::of(process, case.database);
            scripted(
                script
                    .ok_or_else(|| failed("it has no steps".to_owned()))?
                    .shared(|| SimHost.process_name()),
                process,
            )
        }
        Body::Actor { name, params } => match actors(process, &name.text, params) {
            Some(spec) => spec.map_err(failed)?,
            None => actor::process(&name.text, &process.label, params)
                .map_err(|error| failed(error.message))?,
        },
    };
    spec.name = match count {
        1 => process.label.to_string(),
        _ => process.group.to_string(),
    };
    spec.count = count;
    spec.sessions = usize::from(process.sessions);
    spec.isolation = Some(process.isolation);
    spec.skew_micros = process.skew_micros;
    spec.connect = process.connect.as_ref().map(|script| script.text.clone());
    Ok(spec)
}

/// A process of steps: one step a round, so that all it remembers is its [`ScriptState`].
fn scripted(script: Script, process: &Process) -> ProcessSpec {
    let start = script.start();
    let script = Arc::new(script);
    let round = move |worker: Worker, mut state: ScriptState| {
        let script = Arc::clone(&script);
        async move {
            let host = worker.host;
            let mut sessions: Vec<_> = worker.sessions.into_iter().map(Some).collect();
            let progress = step(&script, &host, &mut sessions, &mut state).await?;
            for (place, session) in sessions.into_iter().enumerate() {
                // A session that the step opened anew is there in the next step as well.
                if let Some(session) = session
                    && !session.is_kept()
                {
                    host.keep(place, session);
                }
            }
            Ok::<_, rowlock_scenarios::expr::EvalError>(match progress {
                Progress::Again => Control::Again(state),
                Progress::Ended | Progress::Stopped => Control::Done,
            })
        }
    };
    let mut spec = ProcessSpec::steps(process.label.to_string(), start, round);
    // It knows itself which of its sessions are gone.
    spec.reconnects = false;
    spec
}

fn properties<D: Database>(mut explorer: Explorer<D>, case: &Case) -> Explorer<D> {
    for property in &case.properties {
        let Test::Sql(sql) = &property.test else {
            continue;
        };
        let (name, sql) = (&*property.name, &*sql.text);
        explorer = match property.when {
            When::Always => explorer.always(name, sql),
            When::Sometimes => explorer.sometimes(name, sql),
            When::AtEnd => explorer.at_end(name, sql),
        };
    }
    let events: Arc<[ActorEvents]> = case.processes.iter().map(ActorEvents::of).collect();
    for monitor in EventMonitor::of(case) {
        explorer = explorer.monitor(Watched {
            monitor,
            events: Arc::clone(&events),
        });
    }
    explorer
}

/// The events of a process that is an actor: it does not tell them itself.
struct ActorEvents {
    label: Arc<str>,
    events: Option<Arc<[Event]>>,
}

impl ActorEvents {
    fn of(process: &Process) -> ActorEvents {
        ActorEvents {
            label: process.label.clone(),
            events: match process.body {
                Body::Steps(_) => None,
                Body::Actor { .. } => Some(Arc::clone(&process.events)),
            },
        }
    }
}

/// A property over events as a monitor of the explorer.
struct Watched {
    monitor: EventMonitor,
    events: Arc<[ActorEvents]>,
}

impl Watched {
    fn tell(
        &self,
        state: &mut EventState,
        process: usize,
        told: &Told,
        db: &mut Inspect<'_>,
    ) -> Remark {
        if told.property != self.monitor.property() {
            return Remark::Fine;
        }
        let rows: Option<Vec<Row>> = match self.monitor.query().filter(|_| !told.ends) {
            None => None,
            Some(sql) => match db.query(sql, &told.args) {
                Ok(rows) => Some(rows),
                Err(error) => return Remark::Failed(error),
            },
        };
        remark(self.monitor.see(state, process, told, rows.as_deref()))
    }

    /// What the answer to a step of an actor tells this property.
    fn of_actor(&self, process: usize, step: &str, answer: &Answer) -> Result<Vec<Told>, String> {
        let ActorEvents { label, events } = &self.events[process];
        let answer = match answer {
            Answer::Exec(result) => script::Answer::Exec(result.clone()),
            Answer::Batch(result) => script::Answer::Batch(result.clone()),
        };
        let mut all = Vec::new();
        for event in events.iter().flat_map(|events| events.iter()) {
            if event.property == self.monitor.property() {
                let told = event.of_actor(label, step, &answer);
                all.extend(told.map_err(|error| error.to_string())?);
            }
        }
        Ok(all)
    }
}

fn remark(remark: monitor::Remark) -> Remark {
    match remark {
        monitor::Remark::Fine => Remark::Fine,
        monitor::Remark::Happened => Remark::Happened,
        monitor::Remark::Violated(detail) => Remark::Violated(detail),
    }
}

impl Monitor for Watched {
    type State = EventState;

    fn name(&self) -> &str {
        self.monitor.name()
    }

    fn start(&self) -> EventState {
        self.monitor.start()
    }

    fn see(&self, state: &mut EventState, seen: &Seen<'_>, db: &mut Inspect<'_>) -> Remark {
        let Some(process) = seen.process.map(|process| usize::from(process.0)) else {
            return Remark::Fine;
        };
        match seen.what {
            What::Note { name, values } if name == EVENT_NOTE => match Told::from_values(values) {
                Some(told) => self.tell(state, process, &told, db),
                None => Remark::Fine,
            },
            What::Statement {
                step: Some(step),
                answer: Some(answer),
                ..
            } if self.events[process].events.is_some() => {
                match self.of_actor(process, step, answer) {
                    Err(error) => Remark::Violated(error),
                    Ok(all) => all
                        .iter()
                        .map(|told| self.tell(state, process, told, db))
                        .find(|remark| *remark != Remark::Fine)
                        .unwrap_or(Remark::Fine),
                }
            }
            What::Finished => remark(self.monitor.gone(state, process)),
            What::Other if matches!(seen.choice, Choice::Crash(_)) => {
                remark(self.monitor.gone(state, process))
            }
            What::Note { .. } | What::Statement { .. } | What::Other => Remark::Fine,
        }
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        let Some(process) = seen.process.map(|process| usize::from(process.0)) else {
            return true;
        };
        match seen.what {
            What::Note { name, values } if name == EVENT_NOTE => match Told::from_values(values) {
                Some(told) => told.property != self.monitor.property(),
                None => true,
            },
            What::Statement {
                step: Some(_),
                answer: Some(_),
                ..
            } => self.events[process].events.is_none(),
            What::Finished => false,
            What::Other => !matches!(seen.choice, Choice::Crash(_)),
            What::Note { .. } | What::Statement { .. } => true,
        }
    }

    fn end(&self, state: &EventState) -> Remark {
        remark(self.monitor.at_end(state))
    }

    fn is_symmetric(&self) -> bool {
        self.monitor.is_symmetric()
    }

    fn must_happen(&self) -> bool {
        self.monitor.when() == When::Sometimes
    }
}
