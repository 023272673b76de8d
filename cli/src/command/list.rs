//! `rowlock list`: the cases of scenarios and what is expected of them.

use std::path::PathBuf;

use rowlock_reports::style::paint;
use rowlock_scenarios::Scenario;

use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::Output;

/// Lists every case of the scenarios in `paths`.
pub(crate) fn run(paths: &[PathBuf], output: &Output) -> Result<Exit, Failure> {
    for scenario in input::scenarios(paths, &[])? {
        list(&scenario, output)?;
    }
    Ok(Exit::Met)
}

fn list(scenario: &Scenario, output: &Output) -> Result<(), Failure> {
    let palette = output.manner.palette;
    output.line(&format!(
        "{}  {}",
        paint(palette.strong, &scenario.source.path),
        scenario.title
    ))?;
    for case in &scenario.cases {
        let variant = if case.variant.is_empty() {
            "-"
        } else {
            &*case.variant
        };
        let explored = if case.processes.is_empty() {
            "not explored".to_owned()
        } else {
            case.expect.to_string()
        };
        let key = case.key();
        output.line(&format!("  {variant:16}  {key:28}  {explored}"))?;
        for pinned in &case.pinned {
            let name = &pinned.name;
            output.line(&paint(palette.dim, &format!("  {:16}  pinned: {name}", "")))?;
        }
    }
    Ok(())
}
