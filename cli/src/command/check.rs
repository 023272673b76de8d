//! `rowlock check`: explores scenarios and compares with the verdicts that their files expect.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rowlock_model::verdict::{Exploration, Verdict, Violation};
use rowlock_reports::replay::{self as report, Replayed, Summary};
use rowlock_reports::{Case as Named, CaseResult, Columns, Diagnostic, Tally, json, terminal};
use rowlock_scenarios::replay::replay;
use rowlock_scenarios::scenario::Expectation;
use rowlock_scenarios::{Case, Scenario};

use crate::args::Format;
use crate::command::replay::trouble;
use crate::config;
use crate::exit::{Exit, Failure};
use crate::explore::{Explored, Mode, explore};
use crate::input;
use crate::output::{Output, ProgressLine};
use crate::schedule;
use crate::scripts::{Item, named, pinned};
use crate::stages;

/// Checks every case that is meant.
pub(crate) fn run(mut config: config::Check, output: &Output) -> Result<Exit, Failure> {
    let scenarios = input::scenarios(&config.paths, &config.narrow.isolations)?;
    let databases = scenarios.iter().flat_map(|s| &s.cases).map(|c| c.database);
    stages::only_simulated(&mut config.narrow, databases, output);
    let cases = meant(&scenarios, &config.narrow);
    if cases.is_empty() {
        return Err(Failure::Usage(
            "no case is left to check; `rowlock list` shows what there is".to_owned(),
        ));
    }
    let explored = cases
        .iter()
        .filter(|meant| !meant.case.processes.is_empty());
    if config.checkpoint.is_some() && explored.count() != 1 {
        return Err(Failure::Usage(
            "--checkpoint is for one case; narrow them down with --on, --isolation and --variant"
                .to_owned(),
        ));
    }
    let columns = Columns::of(cases.iter().map(|meant| &meant.named));
    let mut check = Check {
        config: &config,
        output,
        columns,
        tally: Tally::default(),
        exit: Exit::Met,
    };
    check.start()?;
    let start = Instant::now();
    match config.jobs {
        1 => {
            for meant in &cases {
                check.case(meant)?;
            }
        }
        _ => check.at_once(&cases)?,
    }
    check.end(start.elapsed())
}

/// A case that is meant, with its scenario.
struct Meant<'a> {
    scenario: &'a Scenario,
    case: &'a Case,
    named: Named,
}

fn meant<'a>(scenarios: &'a [Scenario], narrow: &config::Narrow) -> Vec<Meant<'a>> {
    let all = scenarios
        .iter()
        .flat_map(|scenario| scenario.cases.iter().map(move |case| (scenario, case)));
    all.filter(|(_, case)| narrow.includes(&case.variant, case.database, case.isolation))
        .map(|(scenario, case)| Meant {
            scenario,
            case,
            named: named(scenario, case),
        })
        .collect()
}

/// A run under way.
struct Check<'a> {
    config: &'a config::Check,
    output: &'a Output,
    columns: Columns,
    tally: Tally,
    exit: Exit,
}

impl Check<'_> {
    fn json(&self) -> bool {
        self.config.report.format == Format::Json
    }

    /// The seed comes first, always: with it the run can be repeated.
    fn start(&self) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        let seed = self.config.seed;
        if self.json() {
            self.output.line(&json::start(version, seed))
        } else {
            self.output.line(&format!("rowlock {version}, seed {seed}"))
        }
    }

    fn case(&mut self, meant: &Meant<'_>) -> Result<(), Failure> {
        if !meant.case.processes.is_empty() {
            let (explored, elapsed) = self.explore(meant);
            self.explored(meant, explored, elapsed)?;
        }
        self.all_pinned(meant)
    }

    fn all_pinned(&mut self, meant: &Meant<'_>) -> Result<(), Failure> {
        for item in pinned(meant.scenario, meant.case, &[]) {
            self.pinned(&item)?;
        }
        Ok(())
    }

    /// Runs a pinned schedule on the simulator, where there is nothing to try twice.
    fn pinned(&mut self, item: &Item<'_>) -> Result<(), Failure> {
        let Some(mut stage) = stages::simulated(item.case.database) else {
            return Ok(());
        };
        self.tally.pinned += 1;
        let run = match replay(&mut *stage, item.script) {
            Ok(run) => run,
            Err(error) => {
                let exit = trouble(item, error, self.output)?;
                self.exit = self.exit.and(exit);
                return Ok(());
            }
        };
        let replayed = Replayed {
            case: item.case.clone(),
            schedule: item.name.clone(),
            replay: run,
            tries: 1,
        };
        let same = replayed.summary() == Summary::Confirmed;
        self.tally.pinned_same += u64::from(same);
        self.exit = self.exit.and(match (same, replayed.is_unsupported()) {
            (true, _) => Exit::Met,
            (false, true) => Exit::Open,
            (false, false) => Exit::NotMet,
        });
        if self.json() {
            self.output.line(&report::json(&replayed))?;
        } else if !same || self.output.manner.verbose {
            let manner = &self.output.manner;
            self.output
                .line(&report::line(&replayed, self.columns, manner))?;
            self.output
                .line(&format!("\n{}", report::lanes(&replayed, manner)))?;
        }
        Ok(())
    }

    fn mode(&self) -> Mode {
        Mode {
            limits: self.config.limits.clone(),
            reductions: self.config.reductions,
            seed: self.config.seed,
            random: self.config.random,
            strategy: self.config.strategy,
            guarantees: self.config.guarantees.clone(),
            anytime: self.config.anytime,
            run_by_run: self.config.run_by_run,
            checkpoint: self.config.checkpoint.clone(),
        }
    }

    /// Explores a case now.
    fn explore(&self, meant: &Meant<'_>) -> (Explored, Duration) {
        let start = Instant::now();
        let progress = ProgressLine::new(self.output, &meant.named.name());
        let explored = explore(meant.scenario, meant.case, &self.mode(), &progress);
        (explored, start.elapsed())
    }

    /// All cases, several at the same time; each is reported as soon as those before it are.
    fn at_once(&mut self, cases: &[Meant<'_>]) -> Result<(), Failure> {
        let jobs = self.config.jobs.min(cases.len());
        let mode = self.mode();
        let next = AtomicUsize::new(0);
        let (sender, done) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..jobs {
                let (sender, next, mode) = (sender.clone(), &next, &mode);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(meant) = cases.get(at) else { break };
                        let start = Instant::now();
                        let explored = (!meant.case.processes.is_empty()).then(|| {
                            let silent = ProgressLine::silent();
                            explore(meant.scenario, meant.case, mode, &silent)
                        });
                        if sender.send((at, explored, start.elapsed())).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let mut early = BTreeMap::new();
            let mut at = 0;
            for (case, explored, elapsed) in done {
                early.insert(case, (explored, elapsed));
                while let Some((explored, elapsed)) = early.remove(&at) {
                    if let Some(explored) = explored {
                        self.explored(&cases[at], explored, elapsed)?;
                    }
                    self.all_pinned(&cases[at])?;
                    at += 1;
                }
            }
            Ok(())
        })
    }

    fn explored(
        &mut self,
        meant: &Meant<'_>,
        explored: Explored,
        elapsed: Duration,
    ) -> Result<(), Failure> {
        match explored {
            Explored::Done(exploration) => self.concluded(meant, exploration, elapsed),
            Explored::Unsupported(problem) => self.unsupported(meant, &problem, elapsed),
            Explored::Wrong(problem) => {
                self.output.failure(&Failure::Files(vec![problem]));
                self.exit = self.exit.and(Exit::Usage);
                self.tally.cases += 1;
                self.tally.open += 1;
                Ok(())
            }
        }
    }

    fn concluded(
        &mut self,
        meant: &Meant<'_>,
        exploration: Exploration,
        elapsed: Duration,
    ) -> Result<(), Failure> {
        let met = self.is_met(&meant.case.expect, &exploration.verdict);
        match &exploration.verdict {
            Verdict::Holds => self.tally.holds += 1,
            Verdict::Violated(_) => self.tally.violated += 1,
            Verdict::Vacuous(_) | Verdict::Incomplete(_) | Verdict::Unsupported(_) => {
                self.tally.open += 1;
            }
        }
        let open = !matches!(exploration.verdict, Verdict::Holds | Verdict::Violated(_));
        let schedule_file = match (&exploration.verdict, &self.config.write_schedules) {
            (Verdict::Violated(violation), Some(directory)) => {
                Some(self.write_schedule(meant, violation, directory)?)
            }
            _ => None,
        };
        let result = CaseResult {
            case: meant.named.clone(),
            expected: meant.case.expect.to_string(),
            found: exploration.verdict.to_string(),
            met,
            exploration: Some(exploration),
            reason: None,
            schedule_file: schedule_file.map(|path| path.display().to_string()),
            elapsed,
        };
        self.count(met, open);
        self.report(meant, &result)
    }

    /// In random mode a finding is a finding, and finding nothing is what `holds` can hope for.
    fn is_met(&self, expected: &Expectation, found: &Verdict) -> bool {
        match (expected, found) {
            (Expectation::Holds, Verdict::Holds) => true,
            (Expectation::Holds, Verdict::Incomplete(_)) => self.config.random.is_some(),
            (Expectation::Violated(name), Verdict::Violated(v)) => **name == v.property,
            (Expectation::Vacuous, Verdict::Vacuous(_)) => true,
            (Expectation::Incomplete, Verdict::Incomplete(_)) => true,
            _ => false,
        }
    }

    fn unsupported(
        &mut self,
        meant: &Meant<'_>,
        problem: &Diagnostic,
        elapsed: Duration,
    ) -> Result<(), Failure> {
        let met = meant.case.expect == Expectation::Unsupported;
        if !met {
            let problem = problem.clone();
            self.output.failure(&Failure::Files(vec![problem]));
        }
        let result = CaseResult {
            case: meant.named.clone(),
            expected: meant.case.expect.to_string(),
            found: "unsupported".to_owned(),
            met,
            exploration: None,
            reason: Some(problem.title.clone()),
            schedule_file: None,
            elapsed,
        };
        self.tally.open += 1;
        self.count(met, true);
        self.report(meant, &result)
    }

    fn count(&mut self, met: bool, open: bool) {
        self.tally.cases += 1;
        self.tally.met += u64::from(met);
        let exit = match (met, open) {
            (true, _) => Exit::Met,
            (false, true) => Exit::Open,
            (false, false) => Exit::NotMet,
        };
        self.exit = self.exit.and(exit);
    }

    fn report(&self, meant: &Meant<'_>, result: &CaseResult) -> Result<(), Failure> {
        let violation = match result.exploration.as_ref().map(|e| &e.verdict) {
            Some(Verdict::Violated(violation)) => Some(&**violation),
            _ => None,
        };
        if self.json() {
            self.output.line(&json::case(result))?;
            if let Some(violation) = violation.filter(|_| self.config.report.steps) {
                let events = &violation.schedule.events;
                let steps =
                    json::steps(Some(&result.case), "violation", events, &violation.matters);
                self.output.write(&steps)?;
            }
            return Ok(());
        }
        let manner = &self.output.manner;
        self.output
            .line(&terminal::case_line(result, self.columns, manner))?;
        if let Some(violation) = violation {
            if !result.met || self.config.report.steps {
                let replay = self.replay_line(meant, violation, result)?;
                let target = result.case.target();
                let title = &result.case.title;
                let text = terminal::violation(title, &target, violation, &replay, manner);
                self.output.line(&format!("\n{text}"))?;
            } else if let Some(file) = &result.schedule_file {
                self.output.line(&format!("        schedule: {file}"))?;
            }
        }
        Ok(())
    }

    /// The line to paste that replays a violation; writes the schedule if that was not done yet.
    fn replay_line(
        &self,
        meant: &Meant<'_>,
        violation: &Violation,
        result: &CaseResult,
    ) -> Result<String, Failure> {
        let file = match &result.schedule_file {
            Some(file) => file.clone(),
            None => {
                let directory = std::env::temp_dir().join("rowlock");
                let path = self.write_schedule(meant, violation, &directory)?;
                path.display().to_string()
            }
        };
        Ok(format!(
            "rowlock replay {file} --on {}",
            meant.case.database
        ))
    }

    fn write_schedule(
        &self,
        meant: &Meant<'_>,
        violation: &Violation,
        directory: &Path,
    ) -> Result<PathBuf, Failure> {
        let path = directory.join(schedule::file_name(&meant.named));
        let text = schedule::of(meant.scenario, meant.case, violation).to_string();
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| Failure::Io(format!("{}: {error}", path.display())))?;
        Ok(path)
    }

    fn end(self, elapsed: Duration) -> Result<Exit, Failure> {
        if self.json() {
            let summary = json::summary(&self.tally, self.exit.number());
            self.output.line(&summary)?;
        } else {
            let summary = terminal::summary(&self.tally, elapsed, &self.output.manner);
            self.output.line(&format!("\n{summary}"))?;
        }
        Ok(self.exit)
    }
}
