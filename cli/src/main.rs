//! The command `rowlock`.

use std::process::ExitCode;

use clap::Parser;

mod args;
mod checkpoint;
mod command;
mod config;
mod exit;
mod explore;
mod input;
mod output;
mod schedule;
mod scripts;
mod stages;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let output = output::Output::new(&args.global);
    match run(args, &output) {
        Ok(exit) => exit.code(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit().code()
        }
    }
}

/// Carries out one command.
fn run(args: args::Args, output: &output::Output) -> Result<exit::Exit, exit::Failure> {
    match args.command {
        args::Command::Check(args) => command::check::run(config::Check::of(args)?, output),
        args::Command::Servers(args) => command::servers::run(args.start, output),
        args::Command::Show(args) => command::show::run(&args, output),
        args::Command::Replay(args) => command::replay::run(config::Replay::of(args)?, output),
        args::Command::Mirror(args) => {
            command::mirror::run(config::Replay::of(args.replay)?, output)
        }
        args::Command::Mysqltest(args) => command::mysqltest::run(args, output),
        args::Command::Spec(args) => command::spec::run(&config::Spec::of(args)?, output),
        args::Command::Bench(args::Bench::Claims(args)) => command::bench::run(&args, output),
        args::Command::List(args) => command::list::run(&args.paths, output),
    }
}
