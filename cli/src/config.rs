//! The command line as meant: names resolved, units converted, defaults filled in.

use std::path::PathBuf;
use std::time::Duration;

use rowlock_model::verdict::Limits;
use rowlock_model::{Dialect, Guarantee, Isolation};
use rowlock_real::Target as Live;
use rowlock_sim::explore::{Reductions, Strategy};

use crate::args;
use crate::exit::Failure;

/// What `rowlock check` is to do.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) narrow: Narrow,
    pub(crate) limits: Limits,
    pub(crate) reductions: Reductions,
    pub(crate) seed: u64,
    pub(crate) random: Option<u64>,
    pub(crate) strategy: Strategy,
    pub(crate) guarantees: Vec<Guarantee>,
    pub(crate) anytime: bool,
    pub(crate) run_by_run: bool,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) jobs: usize,
    pub(crate) write_schedules: Option<PathBuf>,
    pub(crate) report: args::Report,
}

/// Where checkpoints are kept, and how often they are written.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) file: PathBuf,
    pub(crate) every: Duration,
}

fn checkpoint(file: Option<PathBuf>, every: &str) -> Result<Option<Checkpoint>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let wrong = || {
        Failure::Usage(format!(
            "--checkpoint-every {every}: expected 500ms, 30s or 5min"
        ))
    };
    let every = Duration::from_millis(milliseconds(every).ok_or_else(wrong)?);
    Ok(Some(Checkpoint { file, every }))
}

impl Check {
    /// Resolves the arguments.
    pub(crate) fn of(args: args::Check) -> Result<Check, Failure> {
        let mut narrow = Narrow::of(&args.narrow)?;
        narrow.databases = args
            .on
            .iter()
            .map(|on| simulated(on))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Check {
            paths: args.paths,
            narrow,
            limits: limits(&args.limits)?,
            reductions: reductions(&args.reduce)?,
            seed: args.seed,
            random: args.random,
            strategy: strategy(&args.strategy)?,
            anytime: args.anytime,
            run_by_run: args.run_by_run,
            checkpoint: checkpoint(args.checkpoint, &args.checkpoint_every)?,
            jobs: args.jobs.max(1),
            guarantees: Guarantee::list(args.guarantee.as_deref().unwrap_or_default())
                .map_err(|e| Failure::Usage(format!("--guarantee: {e}")))?,
            write_schedules: args.write_schedules,
            report: args.report,
        })
    }
}

/// Which cases are meant; an empty list stands for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Narrow {
    pub(crate) databases: Vec<Dialect>,
    pub(crate) isolations: Vec<Isolation>,
    pub(crate) variants: Vec<String>,
}

impl Narrow {
    /// Resolves the arguments; every database.
    pub(crate) fn of(args: &args::Narrow) -> Result<Narrow, Failure> {
        let isolations = args
            .isolation
            .iter()
            .map(|level| level.to_lowercase().parse())
            .collect::<Result<Vec<Isolation>, _>>()
            .map_err(|e| Failure::Usage(format!("--isolation: {e}")))?;
        Ok(Narrow {
            databases: Vec::new(),
            isolations,
            variants: args.variant.clone(),
        })
    }

    /// Whether a case is meant.
    pub(crate) fn includes(&self, variant: &str, database: Dialect, isolation: Isolation) -> bool {
        fn any<T: PartialEq>(list: &[T], item: &T) -> bool {
            list.is_empty() || list.contains(item)
        }
        any(&self.databases, &database)
            && any(&self.isolations, &isolation)
            && (self.variants.is_empty() || self.variants.iter().any(|v| v == variant))
    }
}

/// Where schedules are run.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// On the simulator, each on the database that it is for.
    Simulator,
    /// On a live server.
    Live(Live),
}

impl Target {
    /// Resolves `--on`. No message repeats a URL: it may hold a password.
    pub(crate) fn of(args: &args::Target) -> Result<Target, Failure> {
        if args.on == "sim" || args.on.strip_prefix("sim:").is_some_and(is_database) {
            return Ok(Target::Simulator);
        }
        let url = args
            .postgres_url
            .as_deref()
            .filter(|_| args.on == "postgres");
        let live = url.unwrap_or(&args.on).parse::<Live>();
        if let (Some(_), Ok(live)) = (url, &live)
            && live.dialect() != Dialect::Postgres
        {
            let message = format!("ROWLOCK_POSTGRES_URL: a URL of {}", live.dialect());
            return Err(Failure::Usage(message));
        }
        live.map(Target::Live).map_err(|e| {
            let place = if url.is_some() {
                "ROWLOCK_POSTGRES_URL"
            } else {
                "--on"
            };
            Failure::Usage(format!("{place}: {e}"))
        })
    }
}

fn is_database(name: &str) -> bool {
    name.parse::<Dialect>().is_ok()
}

/// What `rowlock replay` and `rowlock mirror` are to do.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) target: Target,
    pub(crate) narrow: Narrow,
    pub(crate) pinned: Vec<String>,
    pub(crate) tries: u32,
    pub(crate) report: args::Report,
}

impl Replay {
    /// Resolves the arguments.
    pub(crate) fn of(args: args::Replay) -> Result<Replay, Failure> {
        let target = Target::of(&args.target)?;
        let mut narrow = Narrow::of(&args.narrow)?;
        if let Target::Live(live) = &target {
            narrow.databases = vec![live.dialect()];
        }
        Ok(Replay {
            paths: args.paths,
            target,
            narrow,
            pinned: args.pinned,
            tries: args.tries.max(1),
            report: args.report,
        })
    }
}

/// What `rowlock spec` is to do.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) target: Target,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) expected: Option<PathBuf>,
    /// The server to compare with.
    pub(crate) against: Option<Target>,
    /// How often to run a file there.
    pub(crate) tries: u32,
    /// Permutations by number from 1; an empty list stands for all.
    pub(crate) permutations: Vec<std::ops::RangeInclusive<usize>>,
    pub(crate) format: args::Format,
}

impl Spec {
    /// Resolves the arguments.
    pub(crate) fn of(args: args::Spec) -> Result<Spec, Failure> {
        let level = |level: &String| level.to_lowercase().parse();
        let isolation = args.isolation.as_ref().map(level).transpose();
        let against = args.against.map(|on| args::Target {
            on,
            postgres_url: args.target.postgres_url.clone(),
        });
        Ok(Spec {
            paths: args.paths,
            target: Target::of(&args.target)?,
            isolation: isolation.map_err(|e| Failure::Usage(format!("--isolation: {e}")))?,
            expected: args.expected,
            against: against.map(|args| Target::of(&args)).transpose()?,
            tries: args.tries.max(1),
            permutations: args
                .permutations
                .iter()
                .map(|text| numbers(text))
                .collect::<Result<_, _>>()?,
            format: args.format,
        })
    }
}

/// `7` or `3-5`.
fn numbers(text: &str) -> Result<std::ops::RangeInclusive<usize>, Failure> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok(first..=last),
        _ => Err(Failure::Usage(format!(
            "--permutations {text}: expected a number from 1 or a range, such as 7 or 3-5"
        ))),
    }
}

/// `sim:postgres` as a database.
fn simulated(on: &str) -> Result<Dialect, Failure> {
    let Some(name) = on.strip_prefix("sim:") else {
        return Err(Failure::Usage(format!(
            "--on {on}: `check` explores simulated databases, such as sim:postgres; for a live \
             server use `rowlock replay` or `rowlock mirror`"
        )));
    };
    name.parse()
        .map_err(|e| Failure::Usage(format!("--on {on}: {e}")))
}

/// `uniform`, `pct`, `pct:5`, `pos` or `urw`.
fn strategy(name: &str) -> Result<Strategy, Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "--strategy {name}: expected uniform, pct, pct:DEPTH, pos or urw"
        ))
    };
    Ok(match name.split_once(':') {
        None if name == "uniform" => Strategy::Uniform,
        None if name == "pct" => Strategy::Pct { depth: 3 },
        None if name == "pos" => Strategy::Pos,
        None if name == "urw" => Strategy::Urw,
        Some(("pct", depth)) => Strategy::Pct {
            depth: depth.parse().map_err(|_| wrong())?,
        },
        _ => return Err(wrong()),
    })
}

/// `all`, `none`, or a list.
fn reductions(list: &str) -> Result<Reductions, Failure> {
    let mut on = match list {
        "all" => return Ok(Reductions::ALL),
        _ => Reductions::NONE,
    };
    for name in list.split(',').filter(|_| list != "none") {
        match name.trim() {
            "sleep-sets" => on.sleep_sets = true,
            "invisible-steps" => on.invisible_steps = true,
            "symmetry" => on.symmetry = true,
            "row-order" => on.row_order = true,
            other => {
                return Err(Failure::Usage(format!(
                    "--reduce {list}: `{other}` is none of all, none, sleep-sets, \
                     invisible-steps, symmetry, row-order"
                )));
            }
        }
    }
    Ok(on)
}

/// The limits, with the defaults of [`Limits`] where nothing is said.
fn limits(args: &args::Limits) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    if let Some(states) = args.max_states {
        limits.states = states;
    }
    if let Some(memory) = &args.max_memory {
        limits.memory_bytes = bytes(memory)
            .ok_or_else(|| Failure::Usage(format!("--max-memory {memory}: expected 512M or 8G")))?;
    }
    if let Some(time) = &args.max_time {
        limits.time_ms = milliseconds(time).ok_or_else(|| {
            Failure::Usage(format!("--max-time {time}: expected 500ms, 30s or 5min"))
        })?;
    }
    if let Some(depth) = args.max_depth {
        limits.depth = depth;
    }
    Ok(limits)
}

/// `8G`, `512M`, `64K` or plain bytes; powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// `500ms`, `30s`, `5min`, `1h`.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(bytes("512M"), Some(512 << 20));
        assert_eq!(bytes("7"), Some(7));
        assert_eq!(bytes("many"), None);
        assert_eq!(bytes("99999999999G"), None);
        assert_eq!(milliseconds("5min"), Some(300_000));
        assert_eq!(milliseconds("5"), None);
    }

    #[test]
    fn reductions_by_name() {
        assert_eq!(reductions("all").ok(), Some(Reductions::ALL));
        assert_eq!(reductions("none").ok(), Some(Reductions::NONE));
        let some = Reductions {
            symmetry: false,
            row_order: false,
            ..Reductions::ALL
        };
        assert_eq!(reductions("sleep-sets, invisible-steps").ok(), Some(some));
        assert!(matches!(reductions("sleep"), Err(Failure::Usage(_))));
    }

    #[test]
    fn strategies_by_name() {
        assert_eq!(strategy("pct").ok(), Some(Strategy::Pct { depth: 3 }));
        assert_eq!(strategy("pct:5").ok(), Some(Strategy::Pct { depth: 5 }));
        assert!(strategy("pos:5").is_err());
    }

    #[test]
    fn a_live_target_is_no_target_of_check() {
        assert!(matches!(simulated("sim:postgres"), Ok(Dialect::Postgres)));
        let Err(Failure::Usage(message)) = simulated("postgres") else {
            panic!("accepted");
        };
        assert!(message.contains("rowlock replay"), "{message}");
    }

    #[test]
    fn no_message_repeats_a_password() {
        for on in [
            "oracle://me:s3cret@db/x",
            "mysql://me:s3cret@:x",
            "mysql:9s3cret@db/x",
            "me:s3cret@db/x",
            "postgres://me:s3cret@:x",
        ] {
            let args = args::Target {
                on: on.to_owned(),
                postgres_url: None,
            };
            let message = format!("{:?}", Target::of(&args).unwrap_err());
            assert!(!message.contains("s3cret"), "{message}");
            let args = args::Target {
                on: "postgres".to_owned(),
                postgres_url: Some(on.to_owned()),
            };
            let message = format!("{:?}", Target::of(&args).unwrap_err());
            assert!(!message.contains("s3cret"), "{message}");
        }
    }

    #[test]
    fn nothing_said_means_everything() {
        let narrow = Narrow::default();
        assert!(narrow.includes("", Dialect::Sqlite, Isolation::Serializable));
        let narrow = Narrow {
            variants: vec!["fixed".into()],
            ..Narrow::default()
        };
        assert!(!narrow.includes("", Dialect::Sqlite, Isolation::Serializable));
        assert!(narrow.includes("fixed", Dialect::Sqlite, Isolation::Serializable));
    }
}
