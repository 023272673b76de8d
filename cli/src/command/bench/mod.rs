//! `rowlock bench claims`: how many rows a second the claim forms take and settle.

mod place;
mod work;

use std::fmt::Write as _;
use std::time::Duration;

use rowlock_model::Dialect;

use crate::args::{BenchClaims, BenchFormat};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use place::Place;
use work::{Load, Measured, Way};

/// Measures every configuration on every database that was asked for.
pub(crate) fn run(args: &BenchClaims, output: &Output) -> Result<Exit, Failure> {
    let mut handlers = Vec::new();
    for text in &args.handler {
        let pause = rowlock_scenarios::scenario::duration(text);
        handlers.push(pause.map_err(|why| Failure::Usage(format!("--handler {text}: {why}")))?);
    }
    if args.rows == 0 || args.workers.contains(&0) || args.batch.contains(&0) {
        return Err(Failure::Usage(
            "--rows, --workers and --batch are numbers from 1".to_owned(),
        ));
    }
    let runtime = tokio::runtime::Runtime::new()?;
    for dialect in databases(&args.on)? {
        let environment = |why: String| Failure::Environment(format!("{dialect}: {why}"));
        let place = runtime
            .block_on(Place::open(dialect))
            .map_err(environment)?;
        if args.format == BenchFormat::Table {
            output.line(&format!("{}, {} rows each", place.version(), args.rows))?;
            output.line(HEAD)?;
        }
        for handler in &handlers {
            for workers in &args.workers {
                for batch in &args.batch {
                    let load = Load {
                        rows: args.rows,
                        workers: *workers,
                        batch: *batch,
                        handler: *handler,
                    };
                    for way in Way::on(dialect) {
                        let measured = runtime
                            .block_on(work::measure(&place, *way, load))
                            .map_err(environment)?;
                        let line = match args.format {
                            BenchFormat::Table => row(*way, load, &measured),
                            BenchFormat::Json => json(&place, *way, load, &measured),
                        };
                        output.line(&line)?;
                    }
                }
            }
        }
    }
    Ok(Exit::Met)
}

fn databases(on: &str) -> Result<Vec<Dialect>, Failure> {
    if on == "all" {
        return Ok(Dialect::ALL.to_vec());
    }
    let dialect: Result<Dialect, _> = on.parse();
    match dialect {
        Ok(dialect) => Ok(vec![dialect]),
        Err(error) => Err(Failure::Usage(format!("{error}, or all"))),
    }
}

const HEAD: &str =
    "way                    workers  batch  handler     rows/s  claim p50  claim p99  connections";

fn row(way: Way, load: Load, measured: &Measured) -> String {
    format!(
        "{:22} {:>7} {:>6} {:>8} {:>10.0} {:>10} {:>10} {:>12}",
        way.name(),
        load.workers,
        load.batch,
        millis(load.handler),
        measured.rows_per_second(),
        millis(measured.percentile(50)),
        millis(measured.percentile(99)),
        measured.connections,
    )
}

fn millis(duration: Duration) -> String {
    format!("{:.1}ms", duration.as_secs_f64() * 1000.0)
}

fn json(place: &Place, way: Way, load: Load, measured: &Measured) -> String {
    let mut line = String::from("{\"schema\":1,\"type\":\"bench\"");
    let _ = write!(
        line,
        ",\"server\":\"{}\",\"way\":\"{}\",\"workers\":{},\"batch\":{},\"handler_us\":{}",
        place.version(),
        way.name(),
        load.workers,
        load.batch,
        load.handler.as_micros(),
    );
    let _ = write!(
        line,
        ",\"rows\":{},\"rows_per_second\":{:.1},\"claim_p50_us\":{},\"claim_p99_us\":{},\"connections\":{}}}",
        load.rows,
        measured.rows_per_second(),
        measured.percentile(50).as_micros(),
        measured.percentile(99).as_micros(),
        measured.connections,
    );
    line
}
