//! `rowlock spec`: runs PostgreSQL's isolation specs.

use std::fs;
use std::path::Path;

use rowlock_reports::json;
use rowlock_scenarios::Source;
use rowlock_scenarios::spec::{
    Bench, Difference, Ending, Expected, Run, Spec, SpecError, run as run_spec,
};
use rowlock_sim::bench::SimBench;

use crate::args::Format;
use crate::config::{self, Target};
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::Output;

/// Runs every file.
pub(crate) fn run(config: &config::Spec, output: &Output) -> Result<Exit, Failure> {
    let mut exit = Exit::Met;
    let mut total = Count::default();
    let specs = input::specs(&config.paths)?;
    let mut benches = Benches {
        one: bench(&config.target, config)?,
        other: match &config.against {
            Some(target) => Some(bench(target, config)?),
            None => None,
        },
    };
    for (source, spec) in specs {
        let (found, count) = file(config, &source, &spec, &mut benches, output)?;
        total.add(count);
        exit = exit.and(found);
    }
    let manner = match (&config.expected, &config.against) {
        (Some(_), _) => "as expected",
        (None, Some(_)) => "the same on both",
        (None, None) => "",
    };
    if config.format == Format::Json {
        output.line(&json::spec_summary(total.all, total.right, exit.number()))?;
    } else if !manner.is_empty() {
        output.line(&format!(
            "{} of {} permutations {manner}, {} unsupported",
            total.right, total.all, total.unsupported
        ))?;
    }
    Ok(exit)
}

/// What the files are run on.
struct Benches {
    one: Box<dyn Bench>,
    /// What the outputs are compared with.
    other: Option<Box<dyn Bench>>,
}

fn bench(target: &Target, config: &config::Spec) -> Result<Box<dyn Bench>, Failure> {
    match target {
        Target::Simulator => Ok(Box::new(SimBench::new(config.isolation))),
        Target::Live(target) => rowlock_real::LiveBench::open(target, config.isolation)
            .map(|bench| Box::new(bench) as Box<dyn Bench>)
            .map_err(|error| Failure::Environment(error.message)),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u64,
    right: u64,
    unsupported: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.all += other.all;
        self.right += other.right;
        self.unsupported += other.unsupported;
    }
}

/// Runs one file and reports on it.
fn file(
    config: &config::Spec,
    source: &Source,
    spec: &Spec,
    benches: &mut Benches,
    output: &Output,
) -> Result<(Exit, Count), Failure> {
    let name = Path::new(&*source.path)
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let head = spec.head();
    let prints = !compares(config) && config.format == Format::Human;
    if prints {
        for step in spec.unused() {
            output.error_line(&format!("unused step name: {step}"));
        }
        let sessions = spec.sessions.len();
        output.line(&format!("Parsed test spec with {sessions} sessions"))?;
    }
    let wanted = |number: usize| {
        let ranges = &config.permutations;
        ranges.is_empty() || ranges.iter().any(|range| range.contains(&number))
    };
    let mut runs: Vec<Run> = Vec::new();
    let mut written = Ok(());
    let ended = run_spec(spec, &name, &mut *benches.one, wanted, |run| {
        if prints && written.is_ok() {
            written = output.write(&run.output);
        }
        runs.push(run);
    });
    written?;
    let mut exit = Exit::Met;
    if let Err(error) = ended {
        match error {
            SpecError::Stage(error) => return Err(Failure::Environment(error.message)),
            error @ SpecError::Setup(_) => {
                output.error_line(&format!("{}: {error}", source.path));
                exit = Exit::NotMet;
            }
        }
    }
    let differences = match (&config.expected, &mut benches.other) {
        (Some(directory), _) => {
            let expected = expected(directory, &name)?;
            let outputs: Vec<(usize, &str)> =
                runs.iter().map(|r| (r.number, r.output.as_str())).collect();
            expected.compare(&head, &outputs)
        }
        (None, Some(other)) => against(config.tries, spec, &name, &mut **other, &runs)?,
        (None, None) => vec![None; runs.len()],
    };
    let mut count = Count::default();
    count.all = (1..=spec.permutations.len()).filter(|n| wanted(*n)).count() as u64;
    for (run, difference) in runs.iter().zip(&differences) {
        count.unsupported += u64::from(matches!(run.ending, Ending::Unsupported(_)));
        let right = run.ending == Ending::Complete && difference.is_none();
        count.right += u64::from(right);
        exit = exit.and(match &run.ending {
            Ending::Complete if right => Exit::Met,
            Ending::Unsupported(_) => Exit::Open,
            _ => Exit::NotMet,
        });
        match config.format {
            Format::Json => output.line(&line(config, &name, run, difference.as_ref()))?,
            Format::Human => tell(&name, run, difference.as_ref(), output)?,
        }
    }
    if compares(config) && config.format == Format::Human {
        output.line(&format!("{name}: {} of {}", count.right, count.all))?;
    }
    Ok((exit, count))
}

fn compares(config: &config::Spec) -> bool {
    config.expected.is_some() || config.against.is_some()
}

/// Runs the permutations on another server, up to `tries` times while some of them differ, and says
/// how each differs: not at all if one of the runs there printed the same.
fn against(
    tries: u32,
    spec: &Spec,
    name: &str,
    other: &mut dyn Bench,
    runs: &[Run],
) -> Result<Vec<Option<Difference>>, Failure> {
    let mut differences: Vec<Option<Difference>> = Vec::new();
    // What is not modelled differs from nothing.
    let is_modelled = |run: &&Run| !matches!(run.ending, Ending::Unsupported(_));
    if !runs.iter().any(|run| is_modelled(&run)) {
        return Ok(vec![None; runs.len()]);
    }
    for _ in 0..tries {
        let mut there: Vec<Run> = Vec::new();
        // All of them again: what one leaves behind in its sessions the next one meets.
        let wanted = |number: usize| {
            let mut runs = runs.iter().filter(is_modelled);
            runs.any(|run| run.number == number)
        };
        match run_spec(spec, name, other, wanted, |run| there.push(run)) {
            Ok(()) | Err(SpecError::Setup(_)) => {}
            Err(SpecError::Stage(error)) => return Err(Failure::Environment(error.message)),
        }
        let found = runs.iter().map(|run| {
            if !is_modelled(&run) {
                return None;
            }
            let same = there.iter().find(|other| other.number == run.number);
            let output = same.map_or("", |other| &other.output);
            Difference::first(output, &run.output)
        });
        differences = match differences.is_empty() {
            true => found.collect(),
            false => {
                let before = differences.into_iter();
                before.zip(found).map(|(old, new)| old.and(new)).collect()
            }
        };
        if differences.iter().all(Option::is_none) {
            break;
        }
    }
    Ok(differences)
}

/// The shipped output of a file and its alternatives `NAME_0.out` to `NAME_9.out`.
fn expected(directory: &Path, name: &str) -> Result<Expected, Failure> {
    let read = |file: String| fs::read_to_string(directory.join(file)).ok();
    let outputs: Vec<String> = std::iter::once(format!("{name}.out"))
        .chain((0..10).map(|n| format!("{name}_{n}.out")))
        .filter_map(read)
        .collect();
    match outputs.is_empty() {
        true => Err(Failure::Usage(format!(
            "there is no `{name}.out` in {}",
            directory.display()
        ))),
        false => Ok(Expected { outputs }),
    }
}

fn line(config: &config::Spec, name: &str, run: &Run, difference: Option<&Difference>) -> String {
    let (ending, reason) = match &run.ending {
        Ending::Complete => ("complete", None),
        Ending::Unsupported(what) => ("unsupported", Some(what.as_str())),
        Ending::Stuck(why) => ("stuck", Some(why.as_str())),
    };
    let equal = compares(config).then_some(run.ending == Ending::Complete && difference.is_none());
    json::spec_permutation(name, run.number, ending, reason, equal, difference)
}

/// For people: only what went wrong.
fn tell(
    name: &str,
    run: &Run,
    difference: Option<&Difference>,
    output: &Output,
) -> Result<(), Failure> {
    let place = format!("{name}, permutation {}", run.number);
    match &run.ending {
        Ending::Unsupported(what) => output.error_line(&format!("{place}: unsupported: {what}")),
        Ending::Stuck(why) => output.error_line(&format!("{place}: {why}")),
        Ending::Complete => {
            if let Some(difference) = difference {
                output.line(&format!("{place}, line {}:", difference.line))?;
                let show = |sign: char, line: &Option<String>| match line {
                    Some(line) => output.line(&format!("  {sign} {line}")),
                    None => Ok(()),
                };
                show('-', &difference.expected)?;
                show('+', &difference.got)?;
            }
        }
    }
    Ok(())
}
