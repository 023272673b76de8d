//! Explores one case of a scenario on the simulator.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rowlock_model::schedule::ProcessId;
use rowlock_model::verdict::{Exploration, Limits, Unsupported, Verdict};
use rowlock_model::{DbError, Dialect, Guarantee};
use rowlock_reports::Diagnostic;
use rowlock_scenarios::scenario::{Process, Step, StepAction};
use rowlock_scenarios::{Case, Scenario};
use rowlock_sim::database::{Answer, Database};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::explore::{
    ExploreError, Explorer, Inspect, Monitor, OnProgress, Random, Reductions, Remark, Seen,
    Strategy, What,
};
use rowlock_sim::pooler::Pooler;

use crate::checkpoint;
use crate::config::Checkpoint;
use crate::output::ProgressLine;

/// How to explore.
#[derive(Clone, Debug)]
pub(crate) struct Mode {
    pub(crate) limits: Limits,
    pub(crate) reductions: Reductions,
    pub(crate) seed: u64,
    /// So many random schedules instead of all.
    pub(crate) random: Option<u64>,
    pub(crate) strategy: Strategy,
    /// Asked of every case, beside what its file asks for.
    pub(crate) guarantees: Vec<Guarantee>,
    /// What few delays reach comes first.
    pub(crate) anytime: bool,
    /// Whole runs instead of states.
    pub(crate) run_by_run: bool,
    /// Where the search writes down how far it is.
    pub(crate) checkpoint: Option<Checkpoint>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Explored {
    /// A verdict.
    Done(Exploration),
    /// The simulator does not model something that the case uses.
    Unsupported(Diagnostic),
    /// The file is wrong in a way that shows only when it is run.
    Wrong(Diagnostic),
}

/// Explores `case`.
pub(crate) fn explore(
    scenario: &Scenario,
    case: &Case,
    mode: &Mode,
    progress: &ProgressLine,
) -> Explored {
    match case.database {
        Dialect::Postgres if case.pooler > 0 => {
            let db = Pooler::new(Postgres::default(), case.pooler);
            explore_on(db, scenario, case, mode, progress)
        }
        Dialect::Postgres => explore_on(Postgres::default(), scenario, case, mode, progress),
        Dialect::Sqlite => explore_on(Sqlite::default(), scenario, case, mode, progress),
        Dialect::MySql | Dialect::MariaDb => {
            let db = crate::stages::innodb(case.database);
            explore_on(db, scenario, case, mode, progress)
        }
    }
}

fn explore_on<D: Database>(
    db: D,
    scenario: &Scenario,
    case: &Case,
    mode: &Mode,
    progress: &ProgressLine,
) -> Explored {
    let explorer = match rowlock_sim::scenario::explorer(case, db, &|_, _, _| None) {
        Ok(explorer) => explorer,
        Err(error) => {
            return Explored::Wrong(Diagnostic::file(&*scenario.source.path, error.to_string()));
        }
    };
    let wrong = Rc::default();
    let mut explorer = explorer.limits(mode.limits.clone());
    for guarantee in &mode.guarantees {
        explorer = explorer.guarantee(*guarantee);
    }
    let explorer = explorer.reductions(mode.reductions).monitor(WrongSql {
        processes: case.processes.clone(),
        found: Rc::clone(&wrong),
    });
    let result = match &mode.checkpoint {
        None => run(explorer, mode, progress),
        Some(checkpoint) => {
            let whose = checkpoint::name(scenario, case, mode);
            let on_progress = &mut watch(mode, progress);
            match checkpoint::explore(explorer, checkpoint, &whose, on_progress) {
                Ok(result) => result,
                Err(message) => {
                    let path = checkpoint.file.display().to_string();
                    return Explored::Wrong(Diagnostic::file(&*path, message));
                }
            }
        }
    };
    if let Some(wrong) = wrong.take() {
        return Explored::Wrong(wrong.diagnostic(scenario));
    }
    match result {
        Ok(exploration) => match &exploration.verdict {
            Verdict::Unsupported(what) => Explored::Unsupported(unsupported(scenario, case, what)),
            _ => Explored::Done(exploration),
        },
        Err(error) => failed(scenario, case, &error),
    }
}

fn run<D: Database>(
    explorer: Explorer<D>,
    mode: &Mode,
    progress: &ProgressLine,
) -> Result<Exploration, ExploreError> {
    let on_progress: &mut OnProgress<'_> = &mut watch(mode, progress);
    match mode.random {
        None if mode.anytime => explorer.anytime(on_progress),
        None if mode.run_by_run => explorer.run_by_run(on_progress),
        // Nothing left out: the number of interleavings can be told.
        None if mode.reductions == Reductions::NONE => {
            Ok(explorer.run_detailed(on_progress)?.exploration)
        }
        None => explorer.run_with(on_progress),
        Some(executions) => {
            let seed = mode.seed;
            explorer.random(
                Random {
                    seed,
                    executions,
                    strategy: mode.strategy,
                },
                on_progress,
            )
        }
    }
}

/// Shows how far a search is, and ends it when its time is over.
fn watch<'a>(
    mode: &'a Mode,
    progress: &'a ProgressLine,
) -> impl FnMut(&rowlock_sim::explore::Progress) -> ControlFlow<String> + 'a {
    let start = Instant::now();
    let time_limit = Duration::from_millis(mode.limits.time_ms);
    move |seen| {
        progress.update(seen, start.elapsed());
        if !time_limit.is_zero() && start.elapsed() > time_limit {
            return ControlFlow::Break(format!("time limit of {time_limit:?}"));
        }
        ControlFlow::Continue(())
    }
}

/// Why an exploration could not be carried out, at its place in the file.
fn failed(scenario: &Scenario, case: &Case, error: &ExploreError) -> Explored {
    let mut diagnostic = Diagnostic::file(&*scenario.source.path, error.to_string());
    match error {
        ExploreError::Sql { error, .. } => {
            place(&mut diagnostic, scenario, case, error);
            Explored::Wrong(diagnostic)
        }
        _ => Explored::Wrong(diagnostic),
    }
}

/// What is not modelled, at its place in the file.
fn unsupported(scenario: &Scenario, case: &Case, what: &Unsupported) -> Diagnostic {
    let mut diagnostic = Diagnostic::file(&*scenario.source.path, what.what.clone());
    let at = what.position.unwrap_or(0);
    let steps = case.processes.iter().flat_map(|process| process.steps());
    let mut spans = steps.filter_map(|step| match (&step.action, &what.sql) {
        (StepAction::Sql(bound), Some(sql)) if bound.sql == *sql => Some(bound.locate(at)),
        (StepAction::Batch(text), Some(sql)) if text.text == *sql => Some(text.locate(at..at + 1)),
        _ => None,
    });
    let span = spans.next().or_else(|| match &what.sql {
        None => Some(case.setup.as_ref()?.locate(at..at + 1)),
        Some(_) => None,
    });
    if span.is_some() {
        diagnostic.source = scenario.source.text.to_string();
        diagnostic.span = span;
        diagnostic.label = "the simulator does not model this".to_owned();
    }
    diagnostic
}

/// Points at the set-up, the only SQL outside of steps and properties.
fn place(diagnostic: &mut Diagnostic, scenario: &Scenario, case: &Case, error: &DbError) {
    let (Some(setup), Some(position)) = (&case.setup, error.position) else {
        return;
    };
    diagnostic.source = scenario.source.text.to_string();
    diagnostic.span = Some(setup.locate(position..position + 1));
}

/// Statements that can never have worked: no program is written so that it meets these errors.
struct WrongSql {
    processes: Vec<Process>,
    found: Rc<RefCell<Option<Wrong>>>,
}

/// Such a statement.
#[derive(Debug)]
struct Wrong {
    step: Step,
    error: DbError,
}

/// Syntax errors and unknown names (PostgreSQL's class 42 as far as it is about names).
const WRONG_CODES: [&str; 6] = ["42601", "42P01", "42703", "42883", "42P02", "42P18"];

impl WrongSql {
    fn wrong(&self, process: ProcessId, step: &str, answer: &Answer) -> Option<Wrong> {
        let error = match answer {
            Answer::Exec(result) => result.as_ref().err(),
            Answer::Batch(Ok(batch)) => batch.error.as_ref(),
            Answer::Batch(Err(error)) => Some(error),
        }?;
        let steps = self.processes.get(usize::from(process.0))?.steps();
        let step = steps.iter().find(|s| *s.name == *step)?;
        let expected = step.continue_on_error || step.retry.contains(&error.class);
        (!expected && WRONG_CODES.contains(&&*error.code)).then(|| Wrong {
            step: step.clone(),
            error: error.clone(),
        })
    }
}

impl Monitor for WrongSql {
    type State = ();

    fn name(&self) -> &str {
        "the SQL is right"
    }

    fn start(&self) {}

    fn see(&self, (): &mut (), seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        let What::Statement {
            step: Some(step),
            answer: Some(answer),
            ..
        } = seen.what
        else {
            return Remark::Fine;
        };
        match seen.process.and_then(|p| self.wrong(p, step, answer)) {
            None => Remark::Fine,
            Some(wrong) => {
                let detail = wrong.error.to_string();
                self.found.borrow_mut().get_or_insert(wrong);
                Remark::Violated(detail)
            }
        }
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        let What::Statement {
            step: Some(step),
            answer: Some(answer),
            ..
        } = seen.what
        else {
            return true;
        };
        let wrong = seen.process.and_then(|p| self.wrong(p, step, answer));
        wrong.is_none()
    }

    fn is_symmetric(&self) -> bool {
        true
    }
}

impl Wrong {
    fn diagnostic(&self, scenario: &Scenario) -> Diagnostic {
        let at = self.error.position.unwrap_or(0);
        let span = match &self.step.action {
            StepAction::Sql(bound) if self.error.position.is_some() => bound.locate(at),
            StepAction::Sql(bound) => bound.text.span.clone(),
            StepAction::Batch(text) => text.locate(at..at + 1),
            _ => 0..0,
        };
        Diagnostic {
            path: scenario.source.path.to_string(),
            source: scenario.source.text.to_string(),
            title: self.error.message.to_string(),
            span: Some(span),
            label: format!("{} in step `{}`", self.error.code, self.step.name),
            help: None,
        }
    }
}
