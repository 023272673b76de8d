//! Runs PostgreSQL's isolation suite on the simulator.
//!
//! `isolation_suite DIRECTORY` prints the table in `docs/isolation-suite.md`: each spec at each default
//! isolation level. `isolation_suite DIRECTORY --speed` runs it once at READ COMMITTED and prints how
//! many permutations a second that were, and which specs took longest. `isolation_suite DIRECTORY
//! [--verbose] SPEC...` prints the differences of these specs. The directory has `specs` and `expected`.

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
    let (options, words): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|arg| arg.starts_with("--"));
    let has = |name: &str| options.iter().any(|option| option == name);
    let (directory, names) = words.split_first().expect("the directory of the suite");
    let directory = Path::new(directory);
    if has("--speed") {
        speed(directory);
    } else if names.is_empty() {
        table(directory);
    } else {
        for name in names {
            show(directory, name, has("--verbose"));
        }
    }
}

/// A line of the list: tier, spec, and the numbers of the permutations.
fn listed() -> impl Iterator<Item = (&'static str, &'static str, Vec<usize>)> {
    let lines = TIERS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or("");
        (word(), word(), numbers(word()))
    })
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

/// One run of a spec, by permutation.
struct Found {
    runs: Vec<Run>,
    /// Whether each is as one of the shipped outputs has it.
    equal: Vec<bool>,
    differences: Vec<Option<spec::Difference>>,
    elapsed: Duration,
}

impl Found {
    /// Why a permutation is not equal, if it is not.
    fn reason(&self, at: usize) -> Option<String> {
        match (&self.runs[at].ending, &self.differences[at]) {
            (Ending::Complete, None) => None,
            (Ending::Complete, Some(difference)) => {
                Some(format!("differs in line {}", difference.line))
            }
            (Ending::Unsupported(what), _) => {
                Some(what.trim_start_matches("not modelled: ").to_owned())
            }
            (Ending::Stuck(why), _) => Some(why.clone()),
        }
    }
}

fn run(directory: &Path, name: &str, level: Isolation, numbers: &[usize]) -> Found {
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
    let mut bench = SimBench::new(Some(level));
    let wanted = |number: usize| numbers.is_empty() || numbers.contains(&number);
    let ended = spec::run(&spec, name, &mut bench, wanted, |run| runs.push(run));
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

fn count(equal: &[bool]) -> usize {
    equal.iter().filter(|equal| **equal).count()
}

fn show(directory: &Path, name: &str, verbose: bool) {
    let found = run(directory, name, Isolation::ReadCommitted, &[]);
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
    let (equal, of) = (count(&found.equal), found.equal.len());
    println!("{name}: {equal} of {of} ({} ms)", found.elapsed.as_millis());
}

fn speed(directory: &Path) {
    let mut times: Vec<(Duration, &str, usize)> = Vec::new();
    for (_, name, numbers) in listed().filter(|(_, name, _)| !SLOW.contains(name)) {
        let found = run(directory, name, Isolation::ReadCommitted, &numbers);
        let complete = |run: &&Run| run.ending == Ending::Complete;
        let complete = found.runs.iter().filter(complete).count();
        times.push((found.elapsed, name, complete));
    }
    let elapsed: Duration = times.iter().map(|(time, ..)| *time).sum();
    let complete: usize = times.iter().map(|(.., complete)| complete).sum();
    let rate = complete as f64 / elapsed.as_secs_f64();
    println!(
        "{complete} permutations in {} ms: {rate:.0} a second, without {}",
        elapsed.as_millis(),
        SLOW.join(", ")
    );
    times.sort_by(|(a, ..), (b, ..)| b.cmp(a));
    for (time, name, complete) in times.iter().take(5) {
        println!("  {name}: {complete} in {} ms", time.as_millis());
    }
}

/// Permutations by number, in ranges: `1-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

fn table(directory: &Path) {
    println!(
        "| tier | spec | permutations | read committed | repeatable read | serializable | not equal at read committed |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut totals: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for (tier, name, numbers) in listed() {
        let total = totals.entry(tier).or_default();
        total[0] += numbers.len();
        if SLOW.contains(&name) && cfg!(debug_assertions) {
            println!(
                "| {tier} | {name} | {} | - | - | - | not run without optimisation |",
                numbers.len()
            );
            continue;
        }
        let mut cells = Vec::new();
        let mut reasons: Vec<(String, Vec<usize>)> = Vec::new();
        for (i, level) in LEVELS.into_iter().enumerate() {
            let found = run(directory, name, level, &numbers);
            let equal = count(&found.equal);
            total[i + 1] += equal;
            cells.push(equal.to_string());
            if i > 0 {
                continue;
            }
            for (at, run) in found.runs.iter().enumerate() {
                let Some(reason) = found.reason(at) else {
                    continue;
                };
                match reasons.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, numbers)) => numbers.push(run.number),
                    None => reasons.push((reason, vec![run.number])),
                }
            }
        }
        let reasons: Vec<String> = reasons
            .iter()
            .map(|(reason, of)| match of.len() == numbers.len() {
                true => reason.clone(),
                false => format!("{}: {reason}", ranges(of)),
            })
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
}
