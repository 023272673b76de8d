//! The front: what is explored, within which bounds, and what must hold.

use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::ops::ControlFlow;

use rowlock_model::schedule::{Choice, Granularity, Schedule};
use rowlock_model::verdict::{Bounds, Counts, Exploration, Limits, Verdict, Violation};
use rowlock_model::{DbError, Dialect, Guarantee, Isolation};

use super::check::Checks;
use super::error::ExploreError;
use super::history::History;
use super::monitor::{Monitor, NoDeadlock, Numbered, NumberedMonitor, StateProperty, When};
use super::program::{Ending, ProcessSpec, StepEnding, Worker};
use super::random::{Random, Sampler};
use super::reduce::{Broken, Reducer, Reductions};
use super::replay::Replayed;
use super::search::{Found, OnProgress, Search, Until};
use super::survey::{Enumeration, Survey};
use super::symmetry::Symmetry;
use super::trie::Trie;
use super::world::{Flaw, World};
use crate::database::{Answer, Database, Progress as Reached, Request, RowOrder, StatementId};

/// Explores what processes do to each other in one database.
///
/// ```
/// # use rowlock_sim::explore::Explorer;
/// # use rowlock_sim::toy::{self, Toy};
/// let exploration = Explorer::new(Toy::new(2))
///     .steps("worker", (), toy::worker)
///     .count(3)
///     .run()?;
/// assert_eq!(exploration.verdict, rowlock_model::verdict::Verdict::Holds);
/// # Ok::<(), rowlock_sim::explore::ExploreError>(())
/// ```
pub struct Explorer<D> {
    db: D,
    setup: Vec<String>,
    specs: Vec<ProcessSpec>,
    bounds: Bounds,
    pub(super) limits: Limits,
    properties: Vec<StateProperty>,
    monitors: Vec<Box<dyn NumberedMonitor>>,
    contention_expected: bool,
    prompt_notice: bool,
    may_hang: bool,
    granularity: Granularity,
    pub(super) reductions: Reductions,
    broken: Broken,
    guarantees: Vec<Guarantee>,
}

/// What an exploration found, beyond its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Detailed {
    /// The conclusion.
    pub exploration: Exploration,
    /// Exact number of interleavings covered, if it is finite and everything was explored, without
    /// reductions: what they leave out is not counted.
    pub interleavings: Option<f64>,
    /// Polls spent on rebuilding processes and on auditing them.
    pub rebuild_polls: u64,
}

impl<D> Debug for Explorer<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explorer")
            .field("processes", &self.specs)
            .field("bounds", &self.bounds)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<D: Database> Explorer<D> {
    /// Explores processes of this database, whose tables may have been set up already.
    pub fn new(db: D) -> Explorer<D> {
        Explorer {
            db,
            setup: Vec::new(),
            specs: Vec::new(),
            bounds: Bounds::default(),
            limits: Limits::default(),
            properties: Vec::new(),
            monitors: Vec::new(),
            contention_expected: true,
            prompt_notice: false,
            may_hang: false,
            granularity: Granularity::Statement,
            reductions: Reductions::default(),
            broken: Broken::Nothing,
            guarantees: Vec::new(),
        }
    }

    /// Runs a script before anything else, sent as one message.
    #[must_use]
    pub fn setup(mut self, sql: impl Into<String>) -> Explorer<D> {
        self.setup.push(sql.into());
        self
    }

    /// Adds a process that runs `main` once.
    #[must_use]
    pub fn process<F, Fut>(self, name: impl Into<String>, main: F) -> Explorer<D>
    where
        F: Fn(Worker) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: Ending,
    {
        self.add(ProcessSpec::new(name, main))
    }

    /// Adds a process that calls `step` again and again; see [`ProcessSpec::steps`].
    #[must_use]
    pub fn steps<L, F, Fut>(self, name: impl Into<String>, local: L, step: F) -> Explorer<D>
    where
        L: Clone + Eq + Hash + Debug + 'static,
        F: Fn(Worker, L) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: StepEnding<L>,
    {
        self.add(ProcessSpec::steps(name, local, step))
    }

    /// Adds a process.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "a builder's method, not a sum"
    )]
    pub fn add(mut self, spec: ProcessSpec) -> Explorer<D> {
        self.specs.push(spec);
        self
    }

    fn last(mut self, change: impl FnOnce(ProcessSpec) -> ProcessSpec) -> Explorer<D> {
        let spec = self.specs.pop();
        self.specs.extend(spec.map(change));
        self
    }

    /// So many of the process that was added last.
    #[must_use]
    pub fn count(self, count: usize) -> Explorer<D> {
        self.last(|spec| spec.count(count))
    }

    /// So many sessions for the process that was added last.
    #[must_use]
    pub fn sessions(self, sessions: usize) -> Explorer<D> {
        self.last(|spec| spec.sessions(sessions))
    }

    /// The isolation level of the process that was added last.
    #[must_use]
    pub fn isolation(self, isolation: Isolation) -> Explorer<D> {
        self.last(|spec| spec.isolation(isolation))
    }

    /// How far the clock of the process that was added last is ahead of the server's.
    #[must_use]
    pub fn skew_micros(self, skew_micros: i64) -> Explorer<D> {
        self.last(|spec| spec.skew_micros(skew_micros))
    }

    /// The process that was added last may be cancelled; see [`ProcessSpec::cancellable`].
    #[must_use]
    pub fn cancellable(self) -> Explorer<D> {
        self.last(ProcessSpec::cancellable)
    }

    /// How many faults may happen.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Explorer<D> {
        self.bounds = bounds;
        self
    }

    /// What the search may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Explorer<D> {
        self.limits = limits;
        self
    }

    fn property(mut self, name: impl Into<String>, when: When, sql: impl Into<String>) -> Self {
        let sql = sql.into();
        self.properties.push(StateProperty {
            name: name.into(),
            when,
            live: reads_live_state(&sql),
            sql,
            query: StatementId(0),
        });
        self
    }

    /// In every committed state, this query returns no row.
    #[must_use]
    pub fn always(self, name: impl Into<String>, sql: impl Into<String>) -> Explorer<D> {
        self.property(name, When::Always, sql)
    }

    /// In at least one committed state, this query returns a row.
    #[must_use]
    pub fn sometimes(self, name: impl Into<String>, sql: impl Into<String>) -> Explorer<D> {
        self.property(name, When::Sometimes, sql)
    }

    /// When nothing is left to do, this query returns no row.
    #[must_use]
    pub fn at_end(self, name: impl Into<String>, sql: impl Into<String>) -> Explorer<D> {
        self.property(name, When::AtEnd, sql)
    }

    /// A property that watches events.
    #[must_use]
    pub fn monitor(mut self, monitor: impl Monitor + 'static) -> Explorer<D> {
        self.monitors.push(Box::new(Numbered::new(monitor)));
        self
    }

    /// No statement ends as the victim of a deadlock.
    #[must_use]
    pub fn no_deadlock(self) -> Explorer<D> {
        self.monitor(NoDeadlock)
    }

    /// What every run has to keep, whatever the program is about. Asked for twice is asked for once.
    #[must_use]
    pub fn guarantee(mut self, guarantee: Guarantee) -> Explorer<D> {
        if self.guarantees.contains(&guarantee) {
            return self;
        }
        self.guarantees.push(guarantee);
        match guarantee {
            Guarantee::NoDeadlock => self.no_deadlock(),
            _ => self,
        }
    }

    /// Nothing needs to contend: switches the verdict `vacuous` for lack of contention off.
    #[must_use]
    pub fn without_contention(mut self) -> Explorer<D> {
        self.contention_expected = false;
        self
    }

    /// Processes that wait for ever are no violation.
    #[must_use]
    pub fn may_hang(mut self) -> Explorer<D> {
        self.may_hang = true;
        self
    }

    /// Where one statement may give way to another: with [`Granularity::Row`] every switch between
    /// two row locks of a statement is explored too.
    #[must_use]
    pub fn granularity(mut self, granularity: Granularity) -> Explorer<D> {
        self.granularity = granularity;
        self
    }

    /// The server notices a crash at once. Hides what half-open connections do.
    #[must_use]
    pub fn prompt_notice(mut self) -> Explorer<D> {
        self.prompt_notice = true;
        self
    }

    /// What the exhaustive search may leave out because it would find nothing new.
    #[must_use]
    pub fn reductions(mut self, reductions: Reductions) -> Explorer<D> {
        self.reductions = reductions;
        self
    }

    /// Breaks a rule of the reductions on purpose, for tests that must then fail.
    #[must_use]
    pub fn broken(mut self, broken: Broken) -> Explorer<D> {
        self.broken = broken;
        self
    }

    /// Everything that the interleavings come to, violations or not: for comparing reductions.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn survey(self) -> Result<Survey, ExploreError> {
        let (limits, reductions, broken) = (self.limits.clone(), self.reductions, self.broken);
        let Ok(mut run) = self.start()? else {
            return Ok(Survey::default());
        };
        // Ends are compared without the order of rows that nobody sees.
        run.world.db.set_row_order(RowOrder::Watched);
        let reducer = run.reducer(reductions, broken);
        let until = Until::Everything;
        let search = Search::new(&mut run.world, &mut run.checks, &limits, until, reducer);
        let found = search.run(&mut |_| ControlFlow::Continue(()))?;
        let mut survey = found.survey.unwrap_or_default();
        survey.states = found.states;
        survey.transitions = found.transitions;
        survey.violated.extend(
            found
                .stopped
                .map(|limit| (format!("limit: {limit}"), Vec::new())),
        );
        Ok(survey)
    }

    /// The same by running every interleaving from beginning to end; `None` if that takes more than
    /// `transitions_max` steps, which it soon does.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn enumerate(self, transitions_max: u64) -> Result<Option<Survey>, ExploreError> {
        let Ok(mut run) = self.start()? else {
            return Ok(Some(Survey::default()));
        };
        run.world.db.set_row_order(RowOrder::Watched);
        let enumeration = Enumeration {
            world: &mut run.world,
            checks: &mut run.checks,
            transitions_max,
            survey: Survey::default(),
            path: Vec::new(),
        };
        enumeration.run()
    }

    /// Explores every interleaving within the bounds.
    ///
    /// # Errors
    /// The exploration cannot be carried out; see [`ExploreError`].
    pub fn run(self) -> Result<Exploration, ExploreError> {
        self.run_with(&mut |_| ControlFlow::Continue(()))
    }

    /// As [`run`](Self::run), and reports its progress.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn run_with(self, progress: &mut OnProgress<'_>) -> Result<Exploration, ExploreError> {
        Ok(self.search(progress, false)?.exploration)
    }

    /// As [`run_with`](Self::run_with), with more figures.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn run_detailed(self, progress: &mut OnProgress<'_>) -> Result<Detailed, ExploreError> {
        self.search(progress, true)
    }

    fn search(
        self,
        progress: &mut OnProgress<'_>,
        detailed: bool,
    ) -> Result<Detailed, ExploreError> {
        let limits = self.limits.clone();
        match self.start()? {
            Ok(run) => run.search(&limits, progress, detailed),
            Err(exploration) => Ok(without_details(exploration)),
        }
    }

    /// Runs interleavings at random.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn random(
        self,
        random: Random,
        progress: &mut OnProgress<'_>,
    ) -> Result<Exploration, ExploreError> {
        let limits = self.limits.clone();
        let mut run = match self.start()? {
            Ok(run) => run,
            Err(exploration) => return Ok(exploration),
        };
        let sampler = Sampler::new(&mut run.world, &mut run.checks, random, &limits);
        let sampled = sampler.run(random.executions, progress)?;
        let mut counts = run.counts();
        counts.states = sampled.seen.distinct;
        counts.transitions = sampled.transitions;
        counts.executions = sampled.executions;
        if let Some(what) = sampled.unsupported {
            return Ok(run.exploration(Verdict::Unsupported(Box::new(what)), counts));
        }
        let verdict = match (sampled.violation, sampled.stopped) {
            (Some(path), _) => run.smaller(path)?,
            (None, Some(limit)) => Verdict::Incomplete(limit),
            (None, None) => match run.vacuous(sampled.ends) {
                Some(why) => Verdict::Vacuous(why),
                None => Verdict::Incomplete(format!(
                    "{} random executions found nothing: {}",
                    sampled.executions, sampled.seen
                )),
            },
        };
        Ok(run.exploration(verdict, counts))
    }

    /// Runs the choices of a schedule.
    ///
    /// # Errors
    /// [`ExploreError::Schedule`] names the first event that is not possible; else see
    /// [`run`](Self::run).
    pub fn replay(self, schedule: &Schedule) -> Result<Replayed, ExploreError> {
        let choices: Vec<Choice> = schedule.events.iter().map(|event| event.choice).collect();
        match self.start()? {
            Ok(mut run) => run.world.replay(&mut run.checks, &choices),
            Err(exploration) => Ok(match exploration.verdict {
                Verdict::Violated(violation) => Replayed {
                    violation: Some((violation.property, violation.detail)),
                    ..Replayed::default()
                },
                _ => Replayed::default(),
            }),
        }
    }

    /// Sets up and starts the processes. What is violated or not modelled before the first choice
    /// is a conclusion already.
    pub(super) fn start(mut self) -> Result<Result<Run<D>, Exploration>, ExploreError> {
        let conclude = |flaw, bounds| {
            let verdict = match flaw {
                Flaw::Error(error) => return Err(error),
                Flaw::Unsupported(what) => Verdict::Unsupported(Box::new(what)),
                Flaw::Violation { property, detail } => Verdict::Violated(Box::new(Violation {
                    property,
                    detail,
                    schedule: Schedule::default(),
                    matters: Vec::new(),
                })),
            };
            Ok(Err(Exploration {
                verdict,
                bounds,
                counts: Counts::default(),
            }))
        };
        for sql in &self.setup {
            if let Err(flaw) = set_up(&mut self.db, sql) {
                return conclude(flaw, self.bounds);
            }
        }
        let mut checks = Checks {
            properties: self.properties,
            occurred: Vec::new(),
            may_hang: self.may_hang,
        };
        checks.prepare(&mut self.db);
        // SQLite has no server: the system frees the locks of a process that is gone.
        let prompt = self.prompt_notice || self.db.dialect() == Dialect::Sqlite;
        let world = World::new(self.db, &self.specs, &self.bounds, self.monitors, prompt);
        let granularity = self.granularity;
        let started = world.and_then(|mut world| {
            // Only what the processes send pauses, not what prepares their sessions.
            let set = world.db.set_granularity(granularity);
            set.map_err(|error| Flaw::of_sql("the granularity".to_owned(), error))?;
            world.no_leak = self.guarantees.contains(&Guarantee::NoLeak);
            let mut anomalies = self.guarantees.clone();
            anomalies.retain(|wanted| Guarantee::ANOMALIES.contains(wanted));
            if !anomalies.is_empty() {
                world.history = Some(Box::new(History::new(&anomalies)));
            }
            if self.guarantees.contains(&Guarantee::Serializable) {
                world.keep_logs();
            }
            world.start().map(|()| world)
        });
        match started {
            Ok(world) => Ok(Ok(Run {
                world,
                checks,
                bounds: self.bounds,
                contention_expected: self.contention_expected,
                guarantees: self.guarantees,
                reductions: self.reductions,
                broken: self.broken,
            })),
            Err(flaw) => conclude(flaw, self.bounds),
        }
    }
}

/// What was asked, for reports.
impl<D> Explorer<D> {
    /// The database.
    pub fn database(&self) -> &D {
        &self.db
    }

    /// The scripts that are run before anything else.
    pub fn setup_scripts(&self) -> &[String] {
        &self.setup
    }

    /// The processes.
    pub fn specs(&self) -> &[ProcessSpec] {
        &self.specs
    }

    /// Where statements give way.
    pub fn present_granularity(&self) -> Granularity {
        self.granularity
    }

    /// How many faults may happen.
    pub fn fault_bounds(&self) -> &Bounds {
        &self.bounds
    }
}

/// Whether a query may see more than what is committed: locks, sessions, transactions. Judged by the
/// names of the views that show them; a mistake costs time only.
fn reads_live_state(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    ["pg_", "innodb_", "_schema", "data_lock"]
        .iter()
        .any(|name| sql.contains(name))
}

fn without_details(exploration: Exploration) -> Detailed {
    Detailed {
        exploration,
        interleavings: None,
        rebuild_polls: 0,
    }
}

/// Runs a script in a session of its own.
fn set_up(db: &mut impl Database, sql: &str) -> Result<(), Flaw> {
    let session = db.connect(None);
    let error = match db.submit(session, &Request::Batch(sql.into())) {
        Reached::Done(Answer::Batch(Ok(batch))) => batch.error,
        Reached::Done(Answer::Batch(Err(error)) | Answer::Exec(Err(error))) => Some(error),
        Reached::Done(Answer::Exec(Ok(_))) => None,
        Reached::Waits | Reached::Pauses => Some(DbError::unsupported("a set-up that waits", None)),
    };
    if !db.is_gone(session) {
        db.terminate(session);
    }
    match error {
        Some(error) => Err(Flaw::of_sql("the set-up".to_owned(), error)),
        None => Ok(()),
    }
}

/// An exploration under way.
pub(super) struct Run<D> {
    pub(super) world: World<D>,
    pub(super) checks: Checks,
    bounds: Bounds,
    contention_expected: bool,
    pub(super) guarantees: Vec<Guarantee>,
    pub(super) reductions: Reductions,
    broken: Broken,
}

impl<D: Database> Run<D> {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            statements: self.world.statements,
            waits: self.world.waits,
            polls: self.world.tries.iter().map(|trie: &Trie| trie.polls).sum(),
            ..Counts::default()
        }
    }

    pub(super) fn exploration(self, verdict: Verdict, counts: Counts) -> Exploration {
        Exploration {
            verdict,
            bounds: self.bounds,
            counts,
        }
    }

    /// The exhaustive search.
    pub(super) fn search(
        mut self,
        limits: &Limits,
        progress: &mut OnProgress<'_>,
        detailed: bool,
    ) -> Result<Detailed, ExploreError> {
        let reducer = self.reducer(self.reductions, self.broken);
        let reduced = reducer.is_some();
        // Without the graph of states, which only questions of detail and violations need.
        let quick = reduced || !detailed;
        let until = match quick {
            true => Until::AnyViolation,
            false => Until::SmallViolation,
        };
        let search = Search::new(&mut self.world, &mut self.checks, limits, until, reducer);
        let mut found = search.run(progress)?;
        if quick && !found.violations.is_empty() {
            // The smallest schedule may be among what was left out.
            (self.world.statements, self.world.waits) = (0, 0);
            self.world.db.set_row_order(RowOrder::Counts);
            let witness = std::mem::take(&mut found.witness);
            let until = Until::SmallViolation;
            let search = Search::new(&mut self.world, &mut self.checks, limits, until, None);
            found = search.run(progress)?;
            if found.violations.is_empty() {
                return self.conclude_witness(witness, &found);
            }
        }
        let complete =
            found.violations.is_empty() && found.unsupported.is_none() && found.stopped.is_none();
        let liveness = match complete {
            true => self.liveness(limits, progress)?,
            false => None,
        };
        let mut detailed = self.conclude_search(found, !quick)?;
        if let Some(verdict) = liveness {
            detailed.exploration.verdict = verdict;
        }
        Ok(detailed)
    }

    /// What a search uses to leave things out.
    fn reducer(&mut self, mut reductions: Reductions, broken: Broken) -> Option<Reducer> {
        if reductions.row_order {
            let order = match broken {
                Broken::RowOrder => RowOrder::Ignored,
                _ => RowOrder::Hidden,
            };
            self.world.db.set_row_order(order);
            reductions.row_order = self.world.db.row_order() == order;
        }
        // A property that looks at locks or sessions sees more than what is committed.
        reductions.invisible_steps &= !self.checks.properties.iter().any(|p| p.live);
        if !self.world.db.footprints_are_shown() {
            reductions.sleep_sets = false;
            reductions.invisible_steps = false;
        }
        let symmetry = match reductions.symmetry {
            true => Symmetry::of(&self.world),
            false => None,
        };
        reductions.symmetry = symmetry.is_some();
        let any = reductions.any();
        any.then(|| Reducer::new(reductions, broken, symmetry))
    }

    /// A violation whose smallest schedule was not found within the limits.
    fn conclude_witness(
        mut self,
        witness: Vec<Choice>,
        found: &Found,
    ) -> Result<Detailed, ExploreError> {
        let verdict = self.smaller(witness)?;
        let mut counts = self.counts();
        counts.states = found.states;
        counts.transitions = found.transitions;
        Ok(without_details(self.exploration(verdict, counts)))
    }

    fn conclude_search(mut self, found: Found, detailed: bool) -> Result<Detailed, ExploreError> {
        let mut counts = self.counts();
        counts.states = found.states;
        counts.transitions = found.transitions;
        counts.terminal_states = found.terminal_states;
        let mut interleavings = None;
        let verdict = if !found.violations.is_empty() {
            let world = &self.world;
            let path = found.graph.smallest_path(
                &found.violations,
                |choice| world.process_of(choice),
                world.actors.len(),
            );
            Verdict::Violated(Box::new(self.violated(&path)?))
        } else if let Some(what) = found.unsupported {
            Verdict::Unsupported(Box::new(what))
        } else if let Some(limit) = found.stopped {
            Verdict::Incomplete(limit)
        } else {
            if detailed {
                interleavings = found.graph.interleavings();
                counts.interleavings = Some(found.graph.paths());
            }
            match self.vacuous(found.ends) {
                Some(why) => Verdict::Vacuous(why),
                None => Verdict::Holds,
            }
        };
        let rebuild_polls = self.world.tries.iter().map(|trie| trie.rebuild_polls).sum();
        Ok(Detailed {
            exploration: self.exploration(verdict, counts),
            interleavings,
            rebuild_polls,
        })
    }

    /// Runs a violating path again and writes down what it did.
    pub(super) fn violated(&mut self, path: &[Choice]) -> Result<Violation, ExploreError> {
        let replayed = self.world.replay(&mut self.checks, path)?;
        let (property, detail) = replayed
            .violation
            .expect("a path to a violation violates again");
        Ok(Violation {
            property,
            detail,
            schedule: replayed.schedule,
            matters: replayed.matters,
        })
    }

    /// Why the question was empty, if it was.
    pub(super) fn vacuous(&self, ends: u64) -> Option<String> {
        for (at, property) in self.checks.properties.iter().enumerate() {
            if property.when == When::Sometimes && !self.checks.occurred[at] {
                return Some(format!("`{}` never happened", property.name));
            }
        }
        for (at, monitor) in self.world.monitors.iter().enumerate() {
            if monitor.must_happen() && !self.world.occurred[at] {
                return Some(format!("`{}` never happened", monitor.name()));
            }
        }
        let asks_about_ends = |p: &StateProperty| p.when == When::AtEnd;
        if ends == 0 && self.checks.properties.iter().any(asks_about_ends) {
            return Some("no run came to its end within the bounds".to_owned());
        }
        if self.contention_expected && !self.world.contention.found {
            return Some("nothing contended".to_owned());
        }
        None
    }
}
