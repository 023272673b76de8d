//! How fast interleavings are explored over real SQL text: N workers, M rows.
//!
//! Prints the exact counts of each size once, with the rates of that run, and then lets criterion
//! time repeated runs. `cargo bench -p rowlock-benches --bench explore`.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use rowlock::Verdict;
use rowlock_benches::queue;

/// Workers and rows.
const SIZES: [(usize, usize); 3] = [(3, 3), (4, 4), (5, 4)];

/// Larger ones take too long to be repeated; their rates are printed only.
const REPEATED: usize = 2;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(10))
        .configure_from_args();
    let statements = counts();
    let mut group = criterion.benchmark_group("explore");
    for ((workers, rows), statements) in SIZES.into_iter().zip(statements).take(REPEATED) {
        group.throughput(Throughput::Elements(statements));
        let name = BenchmarkId::from_parameter(format!("{workers}x{rows}"));
        group.bench_function(name, |bencher| {
            bencher.iter(|| queue(workers, rows).run().expect("it can be explored"));
        });
    }
    group.finish();
    criterion.final_summary();
}

/// Explores each size once and prints what it took; the statements executed.
fn counts() -> Vec<u64> {
    println!("size     states transitions statements  seconds   states/s statements/s");
    let explore = |(workers, rows): (usize, usize)| {
        let start = Instant::now();
        let found = queue(workers, rows).run().expect("it can be explored");
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(found.verdict, Verdict::Holds);
        let counts = found.counts;
        println!(
            "{:5} {:9} {:11} {:10} {seconds:8.3} {:10.0} {:12.0}",
            format!("{workers}x{rows}"),
            counts.states,
            counts.transitions,
            counts.statements,
            counts.states as f64 / seconds,
            counts.statements as f64 / seconds,
        );
        counts.statements
    };
    SIZES.into_iter().map(explore).collect()
}
