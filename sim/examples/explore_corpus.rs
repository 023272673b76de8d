//! Explores every case of the scenarios given, and prints what came out:
//! `cargo run -p rowlock-sim --example explore_corpus scenarios/bugs/*.toml`.

use std::ops::ControlFlow;
use std::time::Instant;

use rowlock_model::verdict::{Limits, Verdict};
use rowlock_scenarios::{Scenario, Source};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::scenario::explorer;

fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        let scenario = match Scenario::parse(Source::new(path.as_str(), text)) {
            Ok(scenario) => scenario,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        for case in &scenario.cases {
            if case.processes.is_empty() || case.database != rowlock_model::Dialect::Postgres {
                continue;
            }
            let name = path.rsplit('/').next().unwrap_or(&path);
            let what = format!("{name} [{}] {}", case.variant, case.isolation);
            let db = Postgres::new(1_764_500_000_000_000);
            let start = Instant::now();
            let explorer = match explorer(case, db, &|_, _, _| None) {
                Ok(explorer) => explorer.limits(Limits {
                    states: 300_000,
                    ..Limits::default()
                }),
                Err(error) => {
                    println!("BAD  {what}: {error}");
                    continue;
                }
            };
            let found = explorer.run_with(&mut |_| ControlFlow::Continue(()));
            let ms = start.elapsed().as_millis();
            match found {
                Err(error) => println!("ERR  {what}: {error}"),
                Ok(found) => {
                    let verdict = found.verdict.to_string();
                    let ok = verdict.starts_with(&case.expect.to_string());
                    let events = match &found.verdict {
                        Verdict::Violated(v) => v.schedule.events.len(),
                        _ => 0,
                    };
                    println!(
                        "{} {what}: {verdict} ({} states, {} statements, {events} events, {ms} ms), expected {}",
                        if ok { "ok  " } else { "DIFF" },
                        found.counts.states,
                        found.counts.statements,
                        case.expect
                    );
                }
            }
        }
    }
}
