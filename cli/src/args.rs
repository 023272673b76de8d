//! The command line as typed. What it means is in [`crate::config`].

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

const EXIT_CODES: &str = "\
Exit codes:
  0  every expectation met; every replay as expected
  1  a property violated unexpectedly, another expectation not met, or a replay that differs
  2  wrong command line, scenario or schedule file
  3  a limit was hit, or nothing contended: the question was not answered
  4  environment: a server cannot be started, reached or used, or a file not written";

/// Finds the interleaving that breaks database locking code, and proves it on a real server.
#[derive(Debug, Parser)]
#[command(name = "rowlock", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Global {
    /// When to use colour; `auto` also heeds NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Colour,
    /// Show every statement in full
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// No progress line
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// If it goes to a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// JSON lines.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(Check),
    Replay(Replay),
    Mirror(Mirror),
    Spec(Spec),
    Mysqltest(Mysqltest),
    Show(Show),
    List(List),
    Servers(Servers),
    #[command(subcommand)]
    Bench(Bench),
}

/// Measure on real servers
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    Claims(BenchClaims),
}

/// Claim and settle rows as fast as it goes, in every form, beside the same work without claim logic
///
/// Starts a throwaway server, with durability on, and drains the same number of rows in each
/// configuration. The references do the same round trips and commits on rows that are dealt out
/// beforehand.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchClaims {
    /// postgres, mysql, mariadb, sqlite or all
    #[arg(long, value_name = "DATABASE", default_value = "postgres")]
    pub(crate) on: String,
    /// Rows in each configuration
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) rows: u32,
    /// Workers (may be repeated)
    #[arg(long, value_name = "N", default_values_t = [1, 4])]
    pub(crate) workers: Vec<u32>,
    /// Rows a claim (may be repeated)
    #[arg(long, value_name = "N", default_values_t = [1, 10])]
    pub(crate) batch: Vec<u32>,
    /// How long a handler works on a row (may be repeated)
    #[arg(long, value_name = "DURATION", default_values_t = ["0ms".to_owned()])]
    pub(crate) handler: Vec<String>,
    /// Runs of each configuration, one way after the other; the median is reported
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,
    /// A table for people, or JSON lines
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: BenchFormat,
    /// Also writes a plot
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `--format` of `bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// Columns.
    Table,
    /// One JSON object a line.
    Json,
}

/// Explore every interleaving of scenarios and compare with the verdicts that the files expect
///
/// Pinned schedules are run on the simulator as well. Directories are searched for `*.toml` files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rowlock check scenarios
  rowlock check job.toml --on sim:postgres --isolation 'repeatable read'
  rowlock check job.toml --write-schedules out      then: rowlock replay out/... --on postgres
  rowlock check big.toml --random 100000 --seed 7")]
pub(crate) struct Check {
    /// Scenario files, isolation specs of PostgreSQL (`*.spec`), or directories
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) narrow: Narrow,
    /// Only this database: sim:postgres, sim:mysql, sim:mariadb, sim:sqlite (may be repeated)
    #[arg(long, value_name = "DATABASE")]
    pub(crate) on: Vec<String>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// What need not be explored twice: `all`, `none`, or some of `sleep-sets`, `invisible-steps`,
    /// `symmetry`, `row-order`, with commas between them
    #[arg(
        long,
        value_name = "LIST",
        default_value = "all",
        env = "ROWLOCK_REDUCE"
    )]
    pub(crate) reduce: String,
    /// Seed of every random decision
    #[arg(long, value_name = "N", default_value_t = 1, env = "ROWLOCK_SEED")]
    pub(crate) seed: u64,
    /// Run this many random schedules instead of exploring all of them
    #[arg(long, value_name = "N")]
    pub(crate) random: Option<u64>,
    /// Who goes on in a random schedule: uniform, pct (or pct:DEPTH), pos or urw
    #[arg(long, value_name = "STRATEGY", default_value = "uniform")]
    pub(crate) strategy: String,
    /// Begin with what few delays reach (0 to 3), then explore everything
    #[arg(long, conflicts_with = "random")]
    pub(crate) anytime: bool,
    /// Explore run by run, one for each order of what depends on each other, instead of state by state:
    /// for small programs, and to judge the other search
    #[arg(long, conflicts_with_all = ["random", "anytime"])]
    pub(crate) run_by_run: bool,
    /// Write down now and then how far the search is, and go on from there if the file exists; one
    /// case only
    #[arg(long, value_name = "FILE", conflicts_with_all = ["random", "anytime", "run_by_run"])]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Time between two checkpoints
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) checkpoint_every: String,
    /// Explore so many cases at the same time; the output is the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Ask every case for these as well: `serializable`, `no leak`, `no deadlock`, `can finish`, `no
    /// starvation`, `no G1a` and so on, `anomalies`, `all`, with commas between them
    #[arg(long, value_name = "LIST")]
    pub(crate) guarantee: Option<String>,
    /// Write the schedule of each violation into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) write_schedules: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Which cases of a scenario are meant.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Narrow {
    /// Only this isolation level, such as 'read committed' (may be repeated)
    #[arg(long, value_name = "LEVEL")]
    pub(crate) isolation: Vec<String>,
    /// Only this variant; `` (empty) is the top level of the file (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Vec<String>,
}

/// Resources of one exploration. Hitting a limit gives the verdict `incomplete`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits of each exploration")]
pub(crate) struct Limits {
    /// Distinct states
    #[arg(long, value_name = "N", env = "ROWLOCK_MAX_STATES")]
    pub(crate) max_states: Option<u64>,
    /// Memory, such as 512M or 8G
    #[arg(long, value_name = "BYTES", env = "ROWLOCK_MAX_MEMORY")]
    pub(crate) max_memory: Option<String>,
    /// Time, such as 500ms, 30s or 5min
    #[arg(long, value_name = "DURATION", env = "ROWLOCK_MAX_TIME")]
    pub(crate) max_time: Option<String>,
    /// Events on one path
    #[arg(long, value_name = "N", env = "ROWLOCK_MAX_DEPTH")]
    pub(crate) max_depth: Option<u32>,
}

/// How results are reported.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Report")]
pub(crate) struct Report {
    /// Output for people, or one JSON object a line
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: Format,
    /// Also report each step of the schedules that are shown
    #[arg(long)]
    pub(crate) steps: bool,
}

/// Run a schedule, or the pinned schedules of a scenario, and compare the outcome of every step
///
/// Each step must come out as the file says: same rows, same error code, blocked where it says so and
/// behind whom. A live server must be one that rowlock started itself, or a database that is marked
/// as disposable, because replays drop tables and end sessions:
///   COMMENT ON DATABASE mydb IS 'rowlock: disposable'
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rowlock replay out/job.schedule --on postgres
  rowlock replay scenarios/bugs --on postgres
  rowlock replay job.schedule --on sim
  ROWLOCK_ON=postgres://me:secret@db/scratch rowlock replay job.schedule")]
pub(crate) struct Replay {
    /// Schedule files, scenario files, or directories with scenarios
    #[arg(required = true, value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) narrow: Narrow,
    /// Only pinned schedules with this name (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) pinned: Vec<String>,
    /// Runs of one schedule where the server may take another branch than the schedule
    #[arg(long, value_name = "N", default_value_t = 20, env = "ROWLOCK_TRIES")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Run schedules on the simulator and on a live server side by side and show the first difference
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  rowlock mirror scenarios --on postgres")]
pub(crate) struct Mirror {
    #[command(flatten)]
    pub(crate) replay: Replay,
}

/// Run isolation specs of PostgreSQL as they are, and print what its isolation tester prints
///
/// With `--expected`, compare instead with the outputs in a directory (`NAME.out`, `NAME_0.out` to
/// `NAME_9.out`); the exit code is 0 only if every permutation is equal. With `--against`, compare with
/// what another server prints in the same run; where a server leaves the order open, a permutation is
/// equal if one of several runs there printed the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rowlock spec deadlock-hard.spec --on sim
  rowlock spec specs --on sim --expected expected
  rowlock spec specs --on sim --against postgres --isolation 'repeatable read'
  rowlock spec specs/nowait.spec --on postgres --isolation serializable --permutations 1-3")]
pub(crate) struct Spec {
    /// Spec files, or directories with them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) target: Target,
    /// The sessions' default isolation level, such as 'repeatable read'
    #[arg(long, value_name = "LEVEL")]
    pub(crate) isolation: Option<String>,
    /// Compare with the outputs in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "against")]
    pub(crate) expected: Option<PathBuf>,
    /// Compare with this server (as for `--on`)
    #[arg(long, value_name = "SERVER")]
    pub(crate) against: Option<String>,
    /// How often a file is run there while something differs
    #[arg(long, value_name = "N", default_value_t = 3, requires = "against")]
    pub(crate) tries: u32,
    /// Only permutations with these numbers, such as 7 or 3-5 (may be repeated)
    #[arg(long, value_name = "A-B")]
    pub(crate) permutations: Vec<String>,
    /// Output for people, or one JSON object a permutation
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: Format,
}

/// Run tests of MySQL and MariaDB (mysqltest scripts) and compare with the results beside them
///
/// A script's result is NAME.result in the same folder, or in `r` beside its folder `t`. Options in
/// NAME-master.opt are given to a throwaway server. `./provision mysql-tests mariadb-tests` fetches
/// the tests.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rowlock mysqltest mysql-test/suite/innodb/t/iodku.test --on mysql
  rowlock mysqltest mysql-test/main/locking_clause.test --on mariadb:10.11 --print")]
pub(crate) struct Mysqltest {
    /// Scripts
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) target: Target,
    /// The top of the test tree, for files that scripts include; found by itself where there is one
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Print what the scripts print, and compare nothing
    #[arg(long)]
    pub(crate) print: bool,
}

/// Where schedules are run.
#[derive(Clone, clap::Args)]
pub(crate) struct Target {
    /// postgres, mysql, mariadb (also mariadb:11.8) or sqlite (a throwaway server; for postgres the
    /// server of ROWLOCK_POSTGRES_URL, if that is set), sim (the simulator), or the URL of a
    /// disposable database
    #[arg(
        long,
        value_name = "SERVER",
        env = "ROWLOCK_ON",
        hide_env_values = true
    )]
    pub(crate) on: String,
    /// Used for `--on postgres` instead of a throwaway server
    #[arg(
        long,
        value_name = "URL",
        env = "ROWLOCK_POSTGRES_URL",
        hide_env_values = true
    )]
    pub(crate) postgres_url: Option<String>,
}

/// URLs have passwords.
impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

/// Draw schedules as one lane a session, or the processes and properties of scenarios
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// Schedule or scenario file
    #[arg(required = true, value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) narrow: Narrow,
    /// Only pinned schedules with this name (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) pinned: Vec<String>,
}

/// List the servers on which schedules can be replayed here
#[derive(Debug, clap::Args)]
pub(crate) struct Servers {
    /// Also start each of them, and say its version
    #[arg(long)]
    pub(crate) start: bool,
}

/// List the cases of scenarios and what is expected of them
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Scenario files or directories
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}
