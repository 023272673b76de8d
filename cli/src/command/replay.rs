//! `rowlock replay`: runs schedules and compares every step with what the file expects.

use rowlock_reports::replay::{self as report, Replayed, Summary};
use rowlock_reports::{Columns, json};
use rowlock_scenarios::replay::{Conclusion, ReplayError, Script, allowed, replay};
use rowlock_scenarios::stage::Stage;

use crate::args::Format;
use crate::config::{self, Target};
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::Output;
use crate::scripts::{Item, Trouble, items};
use crate::stages::{self, Stages};

/// Runs every schedule that is meant.
pub(crate) fn run(mut config: config::Replay, output: &Output) -> Result<Exit, Failure> {
    let loaded = input::schedules(&config.paths)?;
    if matches!(config.target, Target::Simulator) {
        let databases = items(&loaded, &config.narrow, &config.pinned);
        let databases = databases.iter().map(|item| item.case.database);
        stages::only_simulated(&mut config.narrow, databases, output);
    }
    let items = items(&loaded, &config.narrow, &config.pinned);
    if items.is_empty() {
        return Err(nothing_to_run());
    }
    let columns = Columns::of(items.iter().map(|item| &item.case));
    let mut stages = Stages::new(&config.target);
    let mut exit = Exit::Met;
    let mut confirmed: u64 = 0;
    for item in &items {
        let stage = stages.of(item.case.database)?;
        let simulated = match config.target {
            Target::Simulator => None,
            _ => stages::simulated(item.case.database),
        };
        let (run, tries) = match until_settled(stage, simulated, item.script, config.tries) {
            Ok(run) => run,
            Err(error) => {
                exit = exit.and(trouble(item, error, output)?);
                continue;
            }
        };
        let replayed = Replayed {
            case: item.case.clone(),
            schedule: item.name.clone(),
            replay: run,
            tries,
        };
        exit = exit.and(match replayed.summary() {
            Summary::Confirmed => Exit::Met,
            Summary::OtherBranch => Exit::Open,
            Summary::Differs if replayed.is_unsupported() => Exit::Open,
            Summary::Refuted | Summary::Differs => Exit::NotMet,
        });
        confirmed += u64::from(replayed.summary() == Summary::Confirmed);
        tell(&replayed, columns, &config, output)?;
    }
    let all = items.len() as u64;
    match config.report.format {
        Format::Human => output.line(&report::summary(all, confirmed, "confirmed"))?,
        Format::Json => output.line(&json::replay_summary(all, confirmed, exit.number()))?,
    }
    Ok(exit)
}

/// No schedule fits what was asked for.
pub(crate) fn nothing_to_run() -> Failure {
    Failure::Usage(
        "no schedule is left to run; `rowlock list` shows the pinned ones and their databases"
            .to_owned(),
    )
}

/// Says what went wrong; only a server that cannot be used ends the run.
pub(crate) fn trouble(
    item: &Item<'_>,
    error: ReplayError,
    output: &Output,
) -> Result<Exit, Failure> {
    let (diagnostic, exit) = match item.trouble(error) {
        Trouble::Fatal(failure) => return Err(failure),
        Trouble::Unsupported(diagnostic) => (diagnostic, Exit::Open),
        Trouble::Wrong(diagnostic) => (diagnostic, Exit::Usage),
    };
    output.failure(&Failure::Files(vec![diagnostic]));
    Ok(exit)
}

/// Runs a schedule, again where the server took another branch: one that the simulator, if there is
/// one of it, allows.
fn until_settled(
    stage: &mut dyn Stage,
    mut simulated: Option<Box<dyn Stage>>,
    script: Script<'_>,
    tries: u32,
) -> Result<(rowlock_scenarios::replay::Replay, u32), ReplayError> {
    let mut number = 1;
    loop {
        let mut run = replay(stage, script)?;
        let diverged = matches!(run.conclusion, Conclusion::DivergedAt(_));
        if let Some(simulated) = simulated.as_deref_mut().filter(|_| diverged) {
            let allowed = allowed(simulated, script, &run, false);
            if let Ok(allowed) = allowed {
                run.judge(allowed.difference.is_none());
            }
        }
        if number >= tries || !run.took_other_branch() {
            return Ok((run, number));
        }
        number += 1;
    }
}

fn tell(
    replayed: &Replayed,
    columns: Columns,
    config: &config::Replay,
    output: &Output,
) -> Result<(), Failure> {
    let steps = config.report.steps;
    if config.report.format == Format::Json {
        output.line(&report::json(replayed))?;
        return if steps {
            output.write(&report::json_steps(replayed))
        } else {
            Ok(())
        };
    }
    let manner = &output.manner;
    output.line(&report::line(replayed, columns, manner))?;
    if steps || replayed.summary() != Summary::Confirmed {
        output.line(&format!("\n{}", report::lanes(replayed, manner)))?;
    }
    Ok(())
}
