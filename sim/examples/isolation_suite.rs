//! Runs files of PostgreSQL's isolation suite on the simulator and says how many permutations come
//! out as shipped: `isolation_suite DIRECTORY [--level LEVEL] [--verbose] [SPEC...]`, where the
//! directory has `specs` and `expected`.

use std::path::Path;
use std::time::Instant;

use rowlock_model::Isolation;
use rowlock_scenarios::Source;
use rowlock_scenarios::spec::{self, Ending, Expected, Spec};
use rowlock_sim::bench::SimBench;

fn main() {
    let mut directory = None;
    let (mut level, mut verbose, mut names) = (None, false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--verbose" => verbose = true,
            "--level" => {
                let text = args.next().expect("a level follows --level");
                level = Some(text.parse::<Isolation>().expect("an isolation level"));
            }
            _ if directory.is_none() => directory = Some(arg),
            _ => names.push(arg),
        }
    }
    let directory = directory.expect("the directory of the suite is the first argument");
    let directory = Path::new(&directory);
    if names.is_empty() {
        let specs = std::fs::read_dir(directory.join("specs")).expect("the directory has specs");
        names = specs
            .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
            .collect();
        names.sort();
    }
    let (mut all, mut right) = (0, 0);
    for name in &names {
        let start = Instant::now();
        let (of, equal) = one(directory, name, level, verbose);
        println!(
            "{name}: {equal} of {of} ({} ms)",
            start.elapsed().as_millis()
        );
        all += of;
        right += equal;
    }
    println!("{right} of {all} permutations");
}

fn one(directory: &Path, name: &str, level: Option<Isolation>, verbose: bool) -> (usize, usize) {
    let path = directory.join(format!("specs/{name}.spec"));
    let text = std::fs::read_to_string(&path).expect("the file can be read");
    let spec = Spec::parse(&Source::new(path.display().to_string(), text)).expect("a spec");
    let mut head = String::new();
    for step in spec.unused() {
        head.push_str(&format!("unused step name: {step}\n"));
    }
    head.push_str(&format!(
        "Parsed test spec with {} sessions\n",
        spec.sessions.len()
    ));
    let files = std::iter::once(format!("{name}.out"))
        .chain((0..10).map(|n| format!("{name}_{n}.out")))
        .filter_map(|file| std::fs::read_to_string(directory.join("expected").join(file)).ok());
    let expected = Expected {
        outputs: files.collect(),
    };
    let mut runs = Vec::new();
    let ended = spec::run(
        &spec,
        name,
        &mut SimBench::new(level),
        |_| true,
        |run| {
            runs.push(run);
        },
    );
    if let Err(error) = ended {
        println!("  {name}: {error}");
    }
    let outputs: Vec<(usize, &str)> = runs.iter().map(|r| (r.number, r.output.as_str())).collect();
    let differences = expected.compare(&head, &outputs);
    let mut equal = 0;
    let mut shown = std::collections::BTreeSet::new();
    for (run, difference) in runs.iter().zip(&differences) {
        match (&run.ending, difference) {
            (Ending::Complete, None) => equal += 1,
            (Ending::Complete, Some(d)) => {
                if verbose || shown.len() < 3 {
                    println!("  {name} {}: line {}", run.number, d.line);
                    println!("    - {:?}\n    + {:?}", d.expected, d.got);
                    shown.insert(run.number.to_string());
                }
            }
            (Ending::Unsupported(what) | Ending::Stuck(what), _) => {
                if verbose || shown.insert(what.clone()) {
                    println!("  {name} {}: {what}", run.number);
                }
            }
        }
    }
    (spec.permutations.len(), equal)
}
