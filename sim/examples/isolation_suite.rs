//! Runs PostgreSQL's isolation suite on the simulator, at each default isolation level, and prints the
//! table in `docs/isolation-suite.md`: `isolation_suite DIRECTORY [--verbose] [SPEC...]`, where the
//! directory has `specs` and `expected`. With names of specs, prints their differences instead.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rowlock_model::Isolation;
use rowlock_scenarios::Source;
use rowlock_scenarios::spec::{self, Ending, Expected, Run, Spec};
use rowlock_sim::bench::SimBench;

const TIERS: &str = include_str!("../tests/isolation_suite/tiers.txt");

/// A million rows.
const SLOW: &[&str] = &["multiple-row-versions"];

const LEVELS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Serializable,
];

fn main() {
    let mut verbose = false;
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    args.retain(|arg| {
        verbose |= arg == "--verbose";
        arg != "--verbose"
    });
    let directory = args.first().expect("the directory of the suite");
    let directory = Path::new(directory);
    if args.len() > 1 {
        for name in &args[1..] {
            show(directory, name, verbose);
        }
        return;
    }
    table(directory);
}

/// One run of a spec, by permutation.
struct Found {
    runs: Vec<Run>,
    /// Whether each is as one of the shipped outputs has it.
    equal: Vec<bool>,
    differences: Vec<Option<spec::Difference>>,
    elapsed: Duration,
}

fn run(directory: &Path, name: &str, level: Isolation) -> Found {
    let path = directory.join(format!("specs/{name}.spec"));
    let text = std::fs::read_to_string(&path).expect("the spec can be read");
    let spec = Spec::parse(&Source::new(path.display().to_string(), text)).expect("a spec");
    let files = std::iter::once(format!("{name}.out"))
        .chain((0..10).map(|n| format!("{name}_{n}.out")))
        .filter_map(|file| std::fs::read_to_string(directory.join("expected").join(file)).ok());
    let expected = Expected {
        outputs: files.collect(),
    };
    let start = Instant::now();
    let mut runs = Vec::new();
    let ended = spec::run(
        &spec,
        name,
        &mut SimBench::new(Some(level)),
        |_| true,
        |run| runs.push(run),
    );
    let elapsed = start.elapsed();
    if let Err(error) = ended {
        eprintln!("{name}: {error}");
    }
    let outputs: Vec<(usize, &str)> = runs.iter().map(|r| (r.number, r.output.as_str())).collect();
    let differences = expected.compare(&spec.head(), &outputs);
    let equal = runs
        .iter()
        .zip(&differences)
        .map(|(run, difference)| run.ending == Ending::Complete && difference.is_none())
        .collect();
    Found {
        runs,
        equal,
        differences,
        elapsed,
    }
}

fn show(directory: &Path, name: &str, verbose: bool) {
    let found = run(directory, name, Isolation::ReadCommitted);
    let mut shown = BTreeMap::new();
    for (run, difference) in found.runs.iter().zip(&found.differences) {
        let what = match (&run.ending, difference) {
            (Ending::Complete, None) => continue,
            (Ending::Complete, Some(d)) => {
                format!("line {}\n    - {:?}\n    + {:?}", d.line, d.expected, d.got)
            }
            (Ending::Unsupported(what) | Ending::Stuck(what), _) => what.clone(),
        };
        if verbose || shown.insert(what.clone(), ()).is_none() && shown.len() < 4 {
            println!("  {name} {}: {what}", run.number);
        }
    }
    let equal = found.equal.iter().filter(|equal| **equal).count();
    let of = found.equal.len();
    println!("{name}: {equal} of {of} ({} ms)", found.elapsed.as_millis());
}

fn table(directory: &Path) {
    println!(
        "| tier | spec | permutations | read committed | repeatable read | serializable | refused |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut totals: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut elapsed = Duration::ZERO;
    for line in TIERS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (tier, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let numbers = numbers(words.next().unwrap_or(""));
        if cfg!(debug_assertions) && SLOW.contains(&name) {
            totals.entry(tier).or_default()[0] += numbers.len();
            let of = numbers.len();
            println!("| {tier} | {name} | {of} | - | - | - | not run without optimisation |");
            continue;
        }
        let mut cells = Vec::new();
        let mut reasons: Vec<String> = Vec::new();
        let total = totals.entry(tier).or_default();
        total[0] += numbers.len();
        for (i, level) in LEVELS.into_iter().enumerate() {
            let found = run(directory, name, level);
            let is_equal = |n: &&usize| found.equal.get(**n - 1) == Some(&true);
            let equal = numbers.iter().filter(is_equal).count();
            total[i + 1] += equal;
            cells.push(equal.to_string());
            if i == 0 {
                elapsed += found.elapsed;
                for run in found
                    .runs
                    .iter()
                    .filter(|run| numbers.contains(&run.number))
                {
                    if let Ending::Unsupported(what) = &run.ending
                        && !reasons.contains(what)
                    {
                        reasons.push(what.clone());
                    }
                }
            }
        }
        let reasons: Vec<&str> = reasons
            .iter()
            .map(|what| what.trim_start_matches("not modelled: "))
            .collect();
        println!(
            "| {tier} | {name} | {} | {} | {} |",
            numbers.len(),
            cells.join(" | "),
            reasons.join("; ")
        );
    }
    for (tier, [all, rc, rr, ser]) in &totals {
        println!("| {tier} | **all** | **{all}** | **{rc}** | **{rr}** | **{ser}** | |");
    }
    eprintln!("read committed took {} ms", elapsed.as_millis());
}

fn numbers(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().expect("a number");
        numbers.extend(number(first)..=number(last));
    }
    numbers
}
