//! `rowlock mirror`: the simulator and a live server side by side.

use rowlock_reports::replay::{self as report, Mirrored};
use rowlock_reports::{Columns, json};
use rowlock_scenarios::replay::{Mirror, ReplayError, Script, mirror};
use rowlock_scenarios::stage::Stage;

use crate::args::Format;
use crate::command::replay::{nothing_to_run, trouble};
use crate::config::{self, Target};
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::Output;
use crate::scripts::items;
use crate::stages::{self, Stages};

/// Runs every schedule that is meant on both.
pub(crate) fn run(config: config::Replay, output: &Output) -> Result<Exit, Failure> {
    if matches!(config.target, Target::Simulator) {
        return Err(Failure::Usage(
            "--on sim: `mirror` compares the simulator with a live server, such as postgres"
                .to_owned(),
        ));
    }
    let loaded = input::schedules(&config.paths)?;
    let items = items(&loaded, &config.narrow, &config.pinned);
    if items.is_empty() {
        return Err(nothing_to_run());
    }
    let columns = Columns::of(items.iter().map(|item| &item.case));
    let mut live = Stages::new(&config.target);
    let mut exit = Exit::Met;
    let mut same: u64 = 0;
    for item in &items {
        let dialect = item.case.database;
        let Some(mut simulated) = stages::simulated(dialect) else {
            return Err(Failure::Usage(format!("{dialect} is not simulated")));
        };
        let live = live.of(dialect)?;
        let run = until_same(&mut *simulated, live, item.script, config.tries);
        let (mirror, tries) = match run {
            Ok(run) => run,
            Err(error) => {
                exit = exit.and(trouble(item, error, output)?);
                continue;
            }
        };
        let agrees = mirror.difference.is_none();
        same += u64::from(agrees);
        exit = exit.and(if agrees { Exit::Met } else { Exit::NotMet });
        let mirrored = Mirrored {
            case: item.case.clone(),
            schedule: item.name.clone(),
            mirror,
            tries,
        };
        tell(&mirrored, columns, &config, output)?;
    }
    let all = items.len() as u64;
    match config.report.format {
        Format::Human => output.line(&report::summary(all, same, "the same"))?,
        Format::Json => output.line(&json::replay_summary(all, same, exit.number()))?,
    }
    Ok(exit)
}

/// Runs a schedule on both, again where the server took another branch than the schedule.
fn until_same(
    simulated: &mut dyn Stage,
    live: &mut dyn Stage,
    script: Script<'_>,
    tries: u32,
) -> Result<(Mirror, u32), ReplayError> {
    let mut number = 1;
    loop {
        let run = mirror(simulated, live, script)?;
        let again = run.difference.is_some() && run.right.took_other_branch();
        if number >= tries || !again {
            return Ok((run, number));
        }
        number += 1;
    }
}

fn tell(
    mirrored: &Mirrored,
    columns: Columns,
    config: &config::Replay,
    output: &Output,
) -> Result<(), Failure> {
    if config.report.format == Format::Json {
        return output.line(&report::mirror_json(mirrored));
    }
    let manner = &output.manner;
    output.line(&report::mirror_line(mirrored, columns, manner))?;
    let lanes = report::mirror_lanes(mirrored, manner);
    if lanes.is_empty() {
        return Ok(());
    }
    output.line(&format!("\n{lanes}"))
}
