//! PostgreSQL's own isolation suite on the simulator: every permutation in `tiers.txt` prints what the
//! suite expects, byte for byte, or is refused as not modelled. Wrong output is a failure always.
//!
//! The suite is fetched when the test runs (`isolation_suite/fetch.sh`) and kept in the target
//! directory. Where that fails the tests are ignored, by name; with `ROWLOCK_REQUIRE_LIVE=1` that is
//! a failure. How many permutations must at least be equal stands below, so that a loss is noticed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use rowlock_scenarios::Source;
use rowlock_scenarios::spec::{self, Ending, Expected, Spec};
use rowlock_sim::bench::SimBench;

const TIERS: &str = include_str!("isolation_suite/tiers.txt");

/// Specs that must come out equal in whole. A spec that is not named here may be refused.
const EQUAL: &str = include_str!("isolation_suite/equal.txt");

/// A million rows: too slow without optimisation.
const SLOW: &[&str] = &["multiple-row-versions"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let suite = if arguments.list {
        Err("not needed".to_owned())
    } else {
        suite()
    };
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    let mut trials = Vec::new();
    for (name, permutations) in listed() {
        let suite = suite.clone();
        let ignored = (suite.is_err() && !required)
            || (cfg!(debug_assertions) && SLOW.contains(&name.as_str()));
        let title = format!("isolation::{name}");
        let trial = Trial::test(title, move || one(&suite?, &name, &permutations));
        trials.push(trial.with_ignored_flag(ignored));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The permutations of each spec that are listed.
fn listed() -> BTreeMap<String, Vec<usize>> {
    let mut listed: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for line in TIERS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ').skip(1);
        let name = words.next().expect("a line names a spec");
        let permutations = listed.entry(name.to_owned()).or_default();
        for range in words.next().expect("a line has numbers").split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<usize>().expect("a number");
            permutations.extend(number(first)..=number(last));
        }
    }
    listed
}

/// The directory of the suite, fetched if it is not there yet.
fn suite() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("isolation-suite");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isolation_suite/fetch.sh");
    let output = Command::new(&script).arg(&target).output();
    let output = output.map_err(|error| format!("{}: {error}", script.display()))?;
    match output.status.success() {
        true => Ok(target),
        false => Err(format!(
            "PostgreSQL's isolation suite cannot be fetched: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

fn one(suite: &Path, name: &str, permutations: &[usize]) -> Result<(), Failed> {
    let path = suite.join(format!("specs/{name}.spec"));
    let spec = Spec::parse(&Source::new(
        path.display().to_string(),
        std::fs::read_to_string(&path)?,
    ))?;
    let files = std::iter::once(format!("{name}.out"))
        .chain((0..10).map(|n| format!("{name}_{n}.out")))
        .filter_map(|file| std::fs::read_to_string(suite.join("expected").join(file)).ok());
    let expected = Expected {
        outputs: files.collect(),
    };
    let mut runs = Vec::new();
    let wanted = |number: usize| permutations.contains(&number);
    spec::run(&spec, name, &mut SimBench::new(None), wanted, |run| {
        runs.push(run);
    })?;
    let outputs: Vec<(usize, &str)> = runs.iter().map(|r| (r.number, r.output.as_str())).collect();
    let differences = expected.compare(&spec.head(), &outputs);
    let must_be_equal = EQUAL.lines().any(|line| line == name);
    for (run, difference) in runs.iter().zip(&differences) {
        match (&run.ending, difference) {
            (Ending::Complete, None) => {}
            (Ending::Unsupported(_), _) if !must_be_equal => {}
            (ending, difference) => {
                return Err(
                    format!("permutation {}: {ending:?}, {difference:#?}", run.number).into(),
                );
            }
        }
    }
    match runs.len() == permutations.len() {
        true => Ok(()),
        false => Err("not every permutation was run".into()),
    }
}
