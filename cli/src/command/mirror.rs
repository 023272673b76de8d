//! `rowlock mirror`: the simulator and a live server side by side.

use rowlock_reports::replay::{self as report, Mirrored};
use rowlock_reports::{Columns, json};
use rowlock_scenarios::replay::mirror;

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
        let mirror = match mirror(&mut *simulated, live, item.script) {
            Ok(mirror) => mirror,
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
