//! What each reduction saves on scenario files, as the table in `docs/soundness.md`:
//! `cargo run --release -p rowlock-sim --example reductions_table scenarios/*/*.toml`.
//!
//! Every case on PostgreSQL is explored to the end, violations or not. The larger ones have a line each.

use rowlock_model::verdict::Limits;
use rowlock_scenarios::{Scenario, Source};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::{Reductions, Survey};
use rowlock_sim::scenario::explorer;

/// States from which on a case has a line of its own.
const LARGE: u64 = 1_000;
/// States after which a case is given up.
const STATES_MAX: u64 = 100_000;

const NONE: Reductions = Reductions::NONE;
const COLUMNS: [Reductions; 6] = [
    NONE,
    Reductions {
        sleep_sets: true,
        ..NONE
    },
    Reductions {
        invisible_steps: true,
        ..NONE
    },
    Reductions {
        symmetry: true,
        ..NONE
    },
    Reductions {
        row_order: true,
        ..NONE
    },
    Reductions::ALL,
];

fn main() {
    println!("| case | none | sleep sets | invisible steps | symmetry | row order | all |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut totals = [(0, 0); COLUMNS.len()];
    let (mut cases, mut given_up) = (0, 0);
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        let Ok(scenario) = Scenario::parse(Source::new(path.as_str(), text)) else {
            continue;
        };
        for case in &scenario.cases {
            if case.processes.is_empty() || case.database != rowlock_model::Dialect::Postgres {
                continue;
            }
            let survey = |reductions| -> Option<Survey> {
                let explorer = explorer(case, Postgres::default(), &|_, _, _| None).ok()?;
                let limits = Limits {
                    states: STATES_MAX,
                    ..Limits::default()
                };
                let explorer = explorer.limits(limits).reductions(reductions);
                let survey = explorer.survey().ok()?;
                let limited = survey
                    .violated
                    .keys()
                    .any(|name| name.starts_with("limit: "));
                (!limited).then_some(survey)
            };
            let all: Option<Vec<Survey>> = COLUMNS.map(survey).into_iter().collect();
            let Some(all) = all else {
                given_up += 1;
                continue;
            };
            cases += 1;
            for (total, found) in totals.iter_mut().zip(&all) {
                total.0 += found.states;
                total.1 += found.transitions;
            }
            if all[0].states >= LARGE {
                let name = path.rsplit('/').next().unwrap_or(&path);
                let cells = all.iter().map(|s| cell(s.states, s.transitions));
                let cells: Vec<String> = cells.collect();
                let variant = match &*case.variant {
                    "" => String::new(),
                    variant => format!(", {variant}"),
                };
                let (isolation, cells) = (case.isolation, cells.join(" | "));
                println!("| {name}{variant}, {isolation} | {cells} |");
            }
        }
    }
    let cells: Vec<String> = totals.iter().map(|(s, t)| cell(*s, *t)).collect();
    println!("| **{cases} cases** | {} |", cells.join(" | "));
    if given_up > 0 {
        println!(
            "\n{given_up} cases have more than {STATES_MAX} states, or cannot be explored so."
        );
    }
}

fn cell(states: u64, transitions: u64) -> String {
    format!("{states} / {transitions}")
}
