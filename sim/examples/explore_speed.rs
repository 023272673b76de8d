//! How fast the explorer is by itself, on the toy database:
//! `cargo run --release -p rowlock-sim --example explore_speed [WORKERS ROWS CRASHES SYMMETRY]`.

use std::ops::ControlFlow;

use rowlock_model::verdict::Bounds;
use rowlock_sim::explore::{Explorer, Random, Reductions};
use rowlock_sim::toy::{self, Toy};

fn workers(n: usize, m: u8, crashes: u32) -> Explorer<Toy> {
    Explorer::new(Toy::new(m))
        .steps("worker", (), toy::worker)
        .count(n)
        .bounds(Bounds {
            crashes,
            ..Bounds::default()
        })
        .prompt_notice()
}

/// Seconds of processor time that this process has used, which other programs on a shared machine
/// disturb less than the time on the wall; where the system does not say, the latter.
fn processor_seconds(since: std::time::Instant) -> f64 {
    let used = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = used.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| since.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn main() {
    let begin = std::time::Instant::now();
    let args: Vec<usize> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("a number"))
        .collect();
    if let [n, m, crashes, symmetry] = args[..] {
        // One run, for a profiler.
        let reductions = Reductions {
            symmetry: symmetry > 0,
            ..Reductions::NONE
        };
        let explorer = workers(n, m as u8, crashes as u32).reductions(reductions);
        println!("{:?}", explorer.run().expect("it can be explored").counts);
        return;
    }
    println!("workers rows crashes    states transitions   ms  M states/s  M transitions/s");
    for (n, m, crashes) in [(4, 4, 0), (5, 4, 0), (4, 4, 1), (5, 4, 1), (5, 4, 2)] {
        let mut times = Vec::new();
        let mut counts = None;
        for _ in 0..7 {
            let start = processor_seconds(begin);
            let found = workers(n, m, crashes)
                .reductions(Reductions::NONE)
                .run()
                .expect("it can be explored");
            times.push(processor_seconds(begin) - start);
            counts = Some(found.counts);
        }
        times.sort_by(f64::total_cmp);
        let time = times[times.len() / 2];
        let counts = counts.expect("it ran");
        println!(
            "{n:7} {m:4} {crashes:7} {:9} {:11} {:6.1} {:9.2} {:9.2}",
            counts.states,
            counts.transitions,
            time * 1e3,
            counts.states as f64 / time / 1e6,
            counts.transitions as f64 / time / 1e6,
        );
    }
    for (n, m) in [(3, 2), (4, 3), (5, 4)] {
        let start = processor_seconds(begin);
        let random = Random {
            seed: 42,
            executions: 300_000,
            ..Random::default()
        };
        let found = workers(n, m, 0)
            .random(random, &mut |_| ControlFlow::Continue(()))
            .expect("it can be run");
        let time = processor_seconds(begin) - start;
        println!(
            "random ({n},{m}): {:.2} M executions/s, {:.1} M statements/s, {} states",
            found.counts.executions as f64 / time / 1e6,
            found.counts.statements as f64 / time / 1e6,
            found.counts.states
        );
    }
}
