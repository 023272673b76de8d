//! `rowlock mysqltest`: runs tests of MySQL and MariaDB.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rowlock_model::Dialect;
use rowlock_real::server::MySqlServer;
use rowlock_real::{RealStage, Target as Live};
use rowlock_scenarios::mysqltest::{self, TestError};
use rowlock_scenarios::stage::Stage;

use crate::args;
use crate::config::Target;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::stages;

/// Runs every script.
pub(crate) fn run(args: args::Mysqltest, output: &Output) -> Result<Exit, Failure> {
    let target = Target::of(&args.target)?;
    let mut exit = Exit::Met;
    let mut equal = 0;
    for script in &args.paths {
        let mut stage = stage(&target, &args.target.on, script)?;
        let own = mysqltest::root_of(script);
        let root = args.root.as_deref().or(own).unwrap_or(Path::new("."));
        let run = mysqltest::run(&mut *stage, script, root);
        if args.print {
            output.write(&run.output)?;
        }
        let name = script.display();
        let found = match run.error {
            Some(TestError::Stage(error)) => return Err(Failure::Environment(error.message)),
            Some(error) => {
                output.error_line(&format!("{name}: {error}"));
                match error {
                    TestError::Unsupported(_) | TestError::Skipped(_) => Exit::Open,
                    TestError::File(_) => Exit::Usage,
                    _ => Exit::NotMet,
                }
            }
            None if args.print => Exit::Met,
            None => compare(script, &run.output, output)?,
        };
        equal += usize::from(found == Exit::Met);
        exit = exit.and(found);
    }
    if !args.print {
        output.line(&format!("{equal} of {} equal", args.paths.len()))?;
    }
    Ok(exit)
}

/// Compares with the result that comes with a script.
fn compare(script: &Path, got: &str, output: &Output) -> Result<Exit, Failure> {
    let name = script.display();
    let Some(result) = mysqltest::result_of(script) else {
        return Err(Failure::Usage(format!("{name} has no result; see --print")));
    };
    let expected =
        fs::read(&result).map_err(|e| Failure::Io(format!("{}: {e}", result.display())))?;
    match mysqltest::difference(&String::from_utf8_lossy(&expected), got) {
        None => {
            output.line(&format!("ok      {name}"))?;
            Ok(Exit::Met)
        }
        Some((line, expected, got)) => {
            output.line(&format!("FAILED  {name}, line {line} of its result:"))?;
            output.line(&format!("  - {expected}"))?;
            output.line(&format!("  + {got}"))?;
            Ok(Exit::NotMet)
        }
    }
}

/// Where a script runs: on a server with its options.
fn stage(target: &Target, on: &str, script: &Path) -> Result<Box<dyn Stage>, Failure> {
    let environment = |message: String| Failure::Environment(message);
    match target {
        Target::Simulator => {
            let database = on.strip_prefix("sim:").and_then(|name| name.parse().ok());
            let database = database.unwrap_or(Dialect::MySql);
            let options = mysqltest::options_of(script);
            stages::simulated_with(database, &options)
                .map_err(|error| Failure::Usage(error.to_string()))
        }
        Target::Live(Live::MySql(flavour, version)) => {
            let options = mysqltest::options_of(script);
            let server = MySqlServer::start_with(*flavour, version.as_deref(), &options)
                .map_err(|error| environment(error.to_string()))?;
            let stage = RealStage::on_mysql_server(Arc::new(server));
            stage
                .map(|stage| Box::new(stage) as Box<dyn Stage>)
                .map_err(|error| environment(error.message))
        }
        Target::Live(live) => RealStage::open(live)
            .map(|stage| Box::new(stage) as Box<dyn Stage>)
            .map_err(|error| environment(error.message)),
    }
}
