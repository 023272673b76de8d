//! The same workload in stateright, shuttle, loom and Rowlock, in one run: N workers empty a table of
//! M rows, with crashes.
//!
//! `cargo bench -p rowlock-benches --features rivals --bench side_by_side [-- PAIRS]`
//!
//! Times are processor time of the whole process. What is compared is run in turn, pair by pair, and
//! the ratio given is the median over the pairs, so that other programs on the machine disturb both
//! sides alike. Memory is the peak of a process of its own.

mod model;
mod threads;

use std::ops::ControlFlow;
use std::process::Command;
use std::time::{Duration, Instant};

use model::Size;
use rowlock::sim::explore::Random;
use rowlock::sim::toy::{self, Toy};
use rowlock::{Bounds, Explorer, Reductions, Verdict};
use rowlock_benches::queue_sql;

/// A way to exhaust the workload; gives states and transitions.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    exhaust: fn(Size) -> (u64, u64),
}

const WAYS: [Way; 6] = [
    Way {
        name: "stateright",
        exhaust: |size| model::exhaust(size, false),
    },
    Way {
        name: "stateright-symmetry",
        exhaust: |size| model::exhaust(size, true),
    },
    Way {
        name: "rowlock-toy",
        exhaust: |size| toy(size, Reductions::NONE),
    },
    Way {
        name: "rowlock-toy-symmetry",
        exhaust: |size| toy(size, SYMMETRY),
    },
    Way {
        name: "rowlock-sql",
        exhaust: |size| sql(size, Reductions::NONE),
    },
    Way {
        name: "rowlock-sql-reduced",
        exhaust: |size| sql(size, Reductions::ALL),
    },
];

const SYMMETRY: Reductions = Reductions {
    symmetry: true,
    ..Reductions::NONE
};

fn bounds(size: Size) -> Bounds {
    Bounds {
        crashes: u32::from(size.crashes),
        ..Bounds::default()
    }
}

fn toy_workers(size: Size) -> Explorer<Toy> {
    Explorer::new(Toy::new(size.rows as u8))
        .steps("worker", (), toy::worker)
        .count(size.workers)
        .bounds(bounds(size))
        .prompt_notice()
}

fn toy(size: Size, reductions: Reductions) -> (u64, u64) {
    let explorer = toy_workers(size).reductions(reductions);
    let found = explorer.run().expect("it can be explored");
    assert_eq!(found.verdict, Verdict::Holds);
    (found.counts.states, found.counts.transitions)
}

fn sql(size: Size, reductions: Reductions) -> (u64, u64) {
    let explorer = queue_sql(size.workers, size.rows)
        .bounds(bounds(size))
        .prompt_notice()
        .reductions(reductions);
    let found = explorer.run().expect("it can be explored");
    assert_eq!(found.verdict, Verdict::Holds);
    (found.counts.states, found.counts.transitions)
}

/// Processor time of this process so far, all its threads included; where the system does not say,
/// the time since `begin`.
fn processor_time(begin: Instant) -> Duration {
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let user: u64 = fields.get(11)?.parse().ok()?;
        let system: u64 = fields.get(12)?.parse().ok()?;
        Some(user + system)
    };
    // A hundred ticks are a second on every Linux.
    ticks().map_or_else(
        || begin.elapsed(),
        |ticks| Duration::from_millis(ticks * 10),
    )
}

/// Seconds of one run, from as many as take a fifth of a second.
fn seconds(begin: Instant, way: Way, size: Size) -> f64 {
    let start = processor_time(begin);
    let mut runs = 0u32;
    loop {
        (way.exhaust)(size);
        runs += 1;
        let taken = processor_time(begin) - start;
        if taken > Duration::from_millis(200) {
            return taken.as_secs_f64() / f64::from(runs);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn way(name: &str) -> Way {
    let found = WAYS.iter().find(|way| way.name == name);
    *found.expect("ways are named as in the table")
}

/// The peak of memory that one run takes in a process of its own, in MiB.
fn memory(way: Way, size: Size) -> Option<f64> {
    let me = std::env::current_exe().ok()?;
    let Size {
        workers,
        rows,
        crashes,
    } = size;
    let output = Command::new(me)
        .args(["--peak", way.name])
        .args([workers, rows, usize::from(crashes)].map(|n| n.to_string()))
        .output()
        .ok()?;
    let kib: f64 = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// In the process of its own: runs and prints the peak in KiB.
fn print_peak(args: &[String]) {
    let number = |at: usize| args[at].parse::<usize>().expect("a number");
    let size = Size {
        workers: number(1),
        rows: number(2),
        crashes: number(3) as u8,
    };
    (way(&args[0]).exhaust)(size);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", peak.unwrap_or("0 kB").trim().trim_end_matches(" kB"));
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if args.first().is_some_and(|arg| arg == "--peak") {
        return print_peak(&args[1..]);
    }
    let pairs = args.first().and_then(|arg| arg.parse().ok()).unwrap_or(10);
    let begin = Instant::now();
    exhaustive(begin);
    ratios(begin, pairs);
    executions(begin);
}

const SIZES: [Size; 4] = [size(4, 4, 0), size(5, 4, 0), size(5, 4, 1), size(5, 4, 2)];

const fn size(workers: usize, rows: usize, crashes: u8) -> Size {
    Size {
        workers,
        rows,
        crashes,
    }
}

fn exhaustive(begin: Instant) {
    println!("everything explored, one thread\n");
    println!("| workers, rows, crashes | by | states | transitions | ms | M states/s | MiB |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for size in SIZES {
        for way in WAYS {
            if way.name == "rowlock-sql" && size.crashes > 1 {
                continue;
            }
            let (states, transitions) = (way.exhaust)(size);
            let time = seconds(begin, way, size);
            let peak = memory(way, size).map_or("?".to_owned(), |peak| format!("{peak:.0}"));
            println!(
                "| {},{},{} | {} | {states} | {transitions} | {:.2} | {:.2} | {peak} |",
                size.workers,
                size.rows,
                size.crashes,
                way.name,
                time * 1e3,
                states as f64 / time / 1e6,
            );
        }
    }
}

fn ratios(begin: Instant, pairs: usize) {
    println!("\nmedian ratio of times over {pairs} pairs; below 1, Rowlock is faster\n");
    println!("| workers, rows, crashes | ratio | median | least | most |");
    println!("| --- | --- | --- | --- | --- |");
    let compared = [
        ("rowlock-toy", "stateright"),
        ("rowlock-toy-symmetry", "stateright-symmetry"),
        ("rowlock-sql-reduced", "stateright"),
        ("rowlock-sql-reduced", "stateright-symmetry"),
    ];
    for size in &SIZES[1..] {
        for (ours, theirs) in compared {
            let pair = || seconds(begin, way(ours), *size) / seconds(begin, way(theirs), *size);
            let all: Vec<f64> = (0..pairs).map(|_| pair()).collect();
            let least = all.iter().copied().fold(f64::MAX, f64::min);
            let most = all.iter().copied().fold(0.0, f64::max);
            println!(
                "| {},{},{} | {ours} / {theirs} | {:.2} | {least:.2} | {most:.2} |",
                size.workers,
                size.rows,
                size.crashes,
                median(all),
            );
        }
    }
}

fn executions(begin: Instant) {
    println!("\nexecutions\n");
    println!("| workers, rows | by | executions | executions/s | M statements/s |");
    println!("| --- | --- | --- | --- | --- |");
    let line = |size: Size, by: &str, runs: u64, statements: Option<u64>, time: f64| {
        println!(
            "| {},{} | {by} | {runs} | {:.0} | {} |",
            size.workers,
            size.rows,
            runs as f64 / time,
            statements.map_or("-".to_owned(), |n| format!("{:.2}", n as f64 / time / 1e6)),
        );
    };
    for size in [size(3, 2, 0), size(4, 3, 0), size(5, 4, 0)] {
        let start = processor_time(begin);
        let statements = threads::shuttle_random(size, 20_000);
        let time = (processor_time(begin) - start).as_secs_f64();
        line(size, "shuttle, random", 20_000, Some(statements), time);
        let random = |executions| Random {
            seed: 1,
            executions,
            ..Random::default()
        };
        let start = processor_time(begin);
        let found = toy_workers(size).random(random(200_000), &mut |_| ControlFlow::Continue(()));
        let counts = found.expect("it can be run").counts;
        let time = (processor_time(begin) - start).as_secs_f64();
        let statements = Some(counts.statements);
        line(
            size,
            "rowlock-toy, random",
            counts.executions,
            statements,
            time,
        );
        let start = processor_time(begin);
        let explorer = queue_sql(size.workers, size.rows);
        let found = explorer.random(random(20_000), &mut |_| ControlFlow::Continue(()));
        let counts = found.expect("it can be run").counts;
        let time = (processor_time(begin) - start).as_secs_f64();
        let statements = Some(counts.statements);
        line(
            size,
            "rowlock-sql, random",
            counts.executions,
            statements,
            time,
        );
    }
    for size in [size(2, 1, 0), size(2, 2, 0), size(3, 1, 0)] {
        let start = processor_time(begin);
        let (runs, all) = threads::loom_exhaust(size, Duration::from_secs(20));
        let time = (processor_time(begin) - start).as_secs_f64();
        let by = if all {
            "loom, every one"
        } else {
            "loom, cut off"
        };
        line(size, by, runs, None, time);
    }
}
