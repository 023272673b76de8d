//! `rowlock show`: scenarios and their schedules for a person.

use rowlock_model::verdict::Violation;
use rowlock_reports::style::paint;
use rowlock_reports::{Lanes, pinned, terminal};
use rowlock_scenarios::pinned::Pinned;
use rowlock_scenarios::scenario::{Body, Process, StepAction, Test, When};
use rowlock_scenarios::schedule::ScheduleFile;
use rowlock_scenarios::{Case, Scenario};

use crate::args;
use crate::config::Narrow;
use crate::exit::{Exit, Failure};
use crate::input::{self, Loaded};
use crate::output::Output;

/// Draws every case that is meant.
pub(crate) fn run(args: &args::Show, output: &Output) -> Result<Exit, Failure> {
    let narrow = Narrow::of(&args.narrow)?;
    for file in input::schedules(&args.paths)? {
        match file {
            Loaded::Scenario(scenario) => {
                header(&scenario, output)?;
                for case in &scenario.cases {
                    if narrow.includes(&case.variant, case.database, case.isolation) {
                        show(case, &args.pinned, output)?;
                    }
                }
            }
            Loaded::Schedule(path, file) => schedule(&path, &file, output)?,
        }
    }
    Ok(Exit::Met)
}

/// A schedule file: what it shows, and its lanes.
fn schedule(path: &str, file: &ScheduleFile, output: &Output) -> Result<(), Failure> {
    let manner = &output.manner;
    let target = format!("{}/{}", file.database, file.isolation);
    if file.property.is_empty() {
        let title = paint(manner.palette.strong, &file.title);
        output.line(&format!("{title}  ({target})\n"))?;
        return output.write(&terminal::lanes(&file.schedule, &file.matters, manner));
    }
    let violation = Violation {
        property: file.property.to_string(),
        detail: file.detail.to_string(),
        schedule: file.schedule.clone(),
        matters: file.matters.clone(),
    };
    let replay = format!("rowlock replay {path} --on {}", file.database);
    output.write(&terminal::violation(
        &file.title,
        &target,
        &violation,
        &replay,
        manner,
    ))
}

fn header(scenario: &Scenario, output: &Output) -> Result<(), Failure> {
    let palette = output.manner.palette;
    output.line(&paint(palette.strong, &scenario.title))?;
    output.line(&paint(palette.dim, &scenario.source.path))?;
    if !scenario.description.is_empty() {
        output.line(&format!("\n{}", scenario.description.trim()))?;
    }
    Ok(())
}

fn show(case: &Case, pinned: &[String], output: &Output) -> Result<(), Failure> {
    let palette = output.manner.palette;
    let variant = match &*case.variant {
        "" => String::new(),
        name => format!(", {name}"),
    };
    let title = format!("{}{variant}: {}", case.key(), case.expect);
    output.line(&format!("\n{}", paint(palette.strong, &title)))?;
    if !case.description.is_empty() {
        output.line(case.description.trim())?;
    }
    for process in &case.processes {
        output.write(&steps(process))?;
    }
    for property in &case.properties {
        let when = match property.when {
            When::Always => "always",
            When::Sometimes => "sometimes",
            When::AtEnd => "at end",
        };
        let test = match &property.test {
            Test::Sql(_) => "query",
            _ => "event",
        };
        output.line(&format!("  {when}: {} ({test})", property.name))?;
    }
    let wanted = |p: &&Pinned| pinned.is_empty() || pinned.iter().any(|name| **name == *p.name);
    for pinned in case.pinned.iter().filter(wanted) {
        output.line(&format!("\n  pinned: {}\n", pinned.name))?;
        output.write(&lanes(pinned, output))?;
    }
    Ok(())
}

/// The steps of a process, one a line.
fn steps(process: &Process) -> String {
    let mut out = format!("  {}\n", process.label);
    if let Body::Actor { name, .. } = &process.body {
        out.push_str(&format!("    actor {}\n", name.text));
    }
    for step in process.steps() {
        let what = match &step.action {
            StepAction::Sql(bound) => rowlock_reports::shorten::one_line(&bound.text.text),
            StepAction::Batch(text) => rowlock_reports::shorten::one_line(&text.text),
            StepAction::Sleep(by) => format!("sleeps {by:?}"),
            StepAction::App(what) => format!("({what})"),
            StepAction::Close => "closes the session".to_owned(),
        };
        out.push_str(&format!("    {}: {what}\n", step.name));
    }
    out
}

fn lanes(pinned: &Pinned, output: &Output) -> String {
    let frames = pinned::frames(pinned);
    let mut lanes = Lanes::new(&frames, output.manner.width);
    lanes.palette = output.manner.palette;
    lanes.verbose = output.manner.verbose;
    lanes.render()
}
