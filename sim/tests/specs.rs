//! Isolation specs of our own in `tests/specs`: the simulator prints, byte for byte, what a live
//! PostgreSQL printed (`NAME.out` beside each spec). The live tests run them on a server again.

use std::path::Path;

use rowlock_scenarios::Source;
use rowlock_scenarios::spec::{self, Ending, Expected, Spec};
use rowlock_sim::bench::SimBench;

fn run_folder(folder: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/specs")
        .join(folder);
    let mut specs = 0;
    let mut failed = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of specs is readable") {
        let path = entry.expect("its entries are").path();
        if path.extension().is_some_and(|e| e == "spec") {
            specs += 1;
            failed.extend(run_file(&path));
        }
    }
    assert!(specs > 0, "there are no specs");
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// What is wrong with the output of each permutation of a file.
fn run_file(path: &Path) -> Vec<String> {
    let read =
        |path: &Path| std::fs::read_to_string(path).expect("a spec and its output are there");
    let text = read(path);
    let spec = Spec::parse(&Source::new(path.display().to_string(), text)).expect("a spec");
    let expected = Expected {
        outputs: vec![read(&path.with_extension("out"))],
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut runs = Vec::new();
    let mut bench = SimBench::new(None);
    spec::run(&spec, &name, &mut bench, |_| true, |run| runs.push(run)).expect("it can be run");
    let outputs: Vec<(usize, &str)> = runs.iter().map(|r| (r.number, r.output.as_str())).collect();
    let differences = expected.compare(&spec.head(), &outputs);
    let told = runs.iter().zip(&differences);
    told.filter(|(run, difference)| run.ending != Ending::Complete || difference.is_some())
        .map(|(run, difference)| {
            let number = run.number;
            format!(
                "{name}, permutation {number}: {:?}, {difference:#?}",
                run.ending
            )
        })
        .collect()
}

#[test]
fn views() {
    run_folder("views");
}
