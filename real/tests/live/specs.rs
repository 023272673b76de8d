//! The simulator's own isolation specs on a live server: their expected outputs are what it prints.

use std::path::Path;

use rowlock_real::{LiveBench, Target};
use rowlock_scenarios::Source;
use rowlock_scenarios::spec::{self, Ending, Expected, Spec};

use super::{Test, TestResult};

pub(super) const TESTS: &[Test] = &[("own_specs", own_specs)];

fn own_specs() -> TestResult {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/specs/views");
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "spec") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let spec = Spec::parse(&Source::new(path.display().to_string(), text))?;
        let expected = Expected {
            outputs: vec![std::fs::read_to_string(path.with_extension("out"))?],
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut runs = Vec::new();
        let mut bench = LiveBench::open(&Target::Postgres, None)?;
        spec::run(&spec, &name, &mut bench, |_| true, |run| runs.push(run))?;
        let outputs: Vec<(usize, &str)> =
            runs.iter().map(|r| (r.number, r.output.as_str())).collect();
        let differences = expected.compare(&spec.head(), &outputs);
        for (run, difference) in runs.iter().zip(&differences) {
            if run.ending != Ending::Complete || difference.is_some() {
                let text = format!("{name}, permutation {}: {difference:#?}", run.number);
                return Err(text.into());
            }
        }
    }
    Ok(())
}
