//! `rowlock bench claims`: how many rows a second the claim forms take and settle.

mod place;
mod plot;
mod work;

use std::fmt::Write as _;
use std::time::Duration;

use rowlock_model::Dialect;

use crate::args::{BenchClaims, BenchFormat};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use place::Place;
use work::{Load, Measured, Way};

/// A configuration on one server, measured in each way.
struct Configured {
    server: String,
    load: Load,
    ways: Vec<(Way, Vec<Measured>)>,
}

impl Configured {
    /// The rows a second of a way: the median over its runs.
    fn rows_per_second(&self, way: Way) -> Option<f64> {
        let runs = &self.ways.iter().find(|(w, _)| *w == way)?.1;
        Some(median(runs.iter().map(Measured::rows_per_second)))
    }

    /// What a form reaches of its limit: the median of the runs that followed each other.
    fn of_limit(&self, way: Way) -> Option<f64> {
        let limit = way.limit()?;
        let of = |way| Some(&self.ways.iter().find(|(w, _)| *w == way)?.1);
        let pairs = of(way)?.iter().zip(of(limit)?);
        Some(median(
            pairs.map(|(a, b)| a.rows_per_second() / b.rows_per_second()),
        ))
    }
}

/// The one in the middle; of two, the lower.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or_default()
}

/// Measures every configuration on every database that was asked for.
pub(crate) fn run(args: &BenchClaims, output: &Output) -> Result<Exit, Failure> {
    let mut handlers = Vec::new();
    for text in &args.handler {
        let pause = rowlock_scenarios::scenario::duration(text);
        handlers.push(pause.map_err(|why| Failure::Usage(format!("--handler {text}: {why}")))?);
    }
    let counts = [args.rows, args.repeat];
    if counts.contains(&0) || args.workers.contains(&0) || args.batch.contains(&0) {
        return Err(Failure::Usage(
            "--rows, --repeat, --workers and --batch are numbers from 1".to_owned(),
        ));
    }
    let mut loads = Vec::new();
    for handler in &handlers {
        for workers in &args.workers {
            for batch in &args.batch {
                loads.push(Load {
                    rows: args.rows,
                    workers: *workers,
                    batch: *batch,
                    handler: *handler,
                });
            }
        }
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let mut results = Vec::new();
    for dialect in databases(&args.on)? {
        let environment = |why: String| Failure::Environment(format!("{dialect}: {why}"));
        let place = runtime
            .block_on(Place::open(dialect))
            .map_err(environment)?;
        if args.format == BenchFormat::Table {
            output.line(&format!("{}, {} rows each", place.version(), args.rows))?;
            output.line(HEAD)?;
        }
        for load in &loads {
            let measured = runtime
                .block_on(measure(&place, *load, args.repeat))
                .map_err(environment)?;
            for (way, runs) in &measured.ways {
                output.line(&match args.format {
                    BenchFormat::Table => row(&measured, *way, runs),
                    BenchFormat::Json => json(&measured, *way, runs),
                })?;
            }
            results.push(measured);
        }
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, plot::svg(&results))
            .map_err(|error| Failure::Environment(format!("{}: {error}", path.display())))?;
    }
    Ok(Exit::Met)
}

/// One configuration: every way once, then every way again, so that what changes on the machine
/// meanwhile changes for all.
async fn measure(place: &Place, load: Load, repeat: u32) -> Result<Configured, String> {
    let mut ways: Vec<(Way, Vec<Measured>)> = Way::on(place.dialect)
        .iter()
        .map(|way| (*way, Vec::new()))
        .collect();
    for _ in 0..repeat {
        for (way, runs) in &mut ways {
            runs.push(work::measure(place, *way, load).await?);
        }
    }
    Ok(Configured {
        server: place.version().to_owned(),
        load,
        ways,
    })
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

const HEAD: &str = "way                    workers  batch  handler     rows/s  of limit  claim p50  claim p99  \
     in claims  connections";

fn row(result: &Configured, way: Way, runs: &[Measured]) -> String {
    let load = result.load;
    let of_limit = result.of_limit(way);
    format!(
        "{:22} {:>7} {:>6} {:>8} {:>10.0} {:>9} {:>10} {:>10} {:>9.0}% {:>12}",
        way.name(),
        load.workers,
        load.batch,
        millis(load.handler),
        result.rows_per_second(way).unwrap_or_default(),
        of_limit.map_or(String::new(), |share| format!("{share:.2}")),
        millis(percentile(runs, 50)),
        millis(percentile(runs, 99)),
        100.0 * median(runs.iter().map(|run| run.share_of_claims(load.workers))),
        runs.iter().map(|run| run.connections).max().unwrap_or(0),
    )
}

/// Over all runs, the latency that so many of a hundred claims do not exceed: the median.
fn percentile(runs: &[Measured], percent: usize) -> Duration {
    let seconds = runs.iter().map(|run| run.percentile(percent).as_secs_f64());
    Duration::from_secs_f64(median(seconds))
}

fn millis(duration: Duration) -> String {
    format!("{:.1}ms", duration.as_secs_f64() * 1000.0)
}

fn json(result: &Configured, way: Way, runs: &[Measured]) -> String {
    let load = result.load;
    let mut line = String::from("{\"schema\":1,\"type\":\"bench\"");
    let _ = write!(
        line,
        ",\"server\":\"{}\",\"way\":\"{}\",\"workers\":{},\"batch\":{},\"handler_us\":{}",
        result.server,
        way.name(),
        load.workers,
        load.batch,
        load.handler.as_micros(),
    );
    let _ = write!(
        line,
        ",\"rows\":{},\"runs\":{},\"rows_per_second\":{:.1}",
        load.rows,
        runs.len(),
        result.rows_per_second(way).unwrap_or_default(),
    );
    if let Some(share) = result.of_limit(way) {
        let _ = write!(line, ",\"of_limit\":{share:.3}");
    }
    let _ = write!(
        line,
        ",\"claim_p50_us\":{},\"claim_p99_us\":{},\"in_claims\":{:.3},\"connections\":{}}}",
        percentile(runs, 50).as_micros(),
        percentile(runs, 99).as_micros(),
        median(runs.iter().map(|run| run.share_of_claims(load.workers))),
        runs.iter().map(|run| run.connections).max().unwrap_or(0),
    );
    line
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0].into_iter()), 1.0);
        assert_eq!(median(std::iter::empty()), 0.0);
    }
}
