//! `rowlock servers`: where schedules can be replayed here.

use rowlock_model::Dialect;
use rowlock_real::server::{self, Installed};
use rowlock_real::{RealStage, Target};
use rowlock_scenarios::stage::Stage;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Lists the servers; with `start`, also starts one of each database.
pub(crate) fn run(start: bool, output: &Output) -> Result<Exit, Failure> {
    output.line("sim       the simulator, built in")?;
    let found = server::installed();
    for server in &found {
        output.line(&describe(server))?;
    }
    for (dialect, program) in [
        (Dialect::Postgres, "initdb"),
        (Dialect::MySql, "mysqld"),
        (Dialect::MariaDb, "mariadbd"),
    ] {
        if !found.iter().any(|s| s.dialect == dialect) {
            let name = dialect.name();
            output.line(&format!(
                "{name:8}  not installed (no {program} found); or give a URL"
            ))?;
        }
    }
    if !start {
        return Ok(Exit::Met);
    }
    let mut exit = Exit::Met;
    for name in ["postgres", "mysql", "mariadb", "sqlite"] {
        match version(name) {
            Ok(version) => output.line(&format!("{name} started: {version}"))?,
            Err(message) => {
                output.line(&format!("{name} does not start: {message}"))?;
                exit = Exit::Environment;
            }
        }
    }
    Ok(exit)
}

fn describe(server: &Installed) -> String {
    let place = match &server.directory {
        Some(directory) => format!("  {}", directory.display()),
        None => String::new(),
    };
    format!("{:8}  {}{place}", server.dialect, server.version)
}

/// Starts a server and asks for its version.
fn version(name: &str) -> Result<String, String> {
    let target: Target = name.parse().map_err(|e| format!("{e}"))?;
    let mut stage = RealStage::open(&target).map_err(|e| e.to_string())?;
    stage.version().map_err(|e| e.to_string())
}
