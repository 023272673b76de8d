//! mysqltest scripts: the tests of MySQL and MariaDB, run as they are on every [`Stage`].
//!
//! A script is a dialogue with sessions; what the tester prints is compared with the `.result` file
//! beside it. The subset that tests of locks and transactions use is carried out; a script that uses
//! another command is refused, with its name. What is printed, and how a script is cut into commands,
//! follows the manual "The MySQL Test Framework", chapter mysqltest.

mod parse;
mod print;
mod run;

use std::path::{Path, PathBuf};

use crate::stage::{Stage, StageError};

/// Why a script was not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestError {
    /// The stage failed.
    #[error("{0}")]
    Stage(#[from] StageError),
    /// The script uses something that is not carried out, or that the simulator does not model.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The script skips itself here, and says why.
    #[error("skipped: {0}")]
    Skipped(String),
    /// The script went wrong: a statement failed that was not expected to, say.
    #[error("line {line}: {message}")]
    Script {
        /// The line in its file, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A file that cannot be read.
    #[error("{0}")]
    File(String),
}

impl TestError {
    fn script(line: usize, message: impl Into<String>) -> TestError {
        TestError::Script {
            line,
            message: message.into(),
        }
    }
}

/// A run of a script, to its end or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What was printed.
    pub output: String,
    /// Why it ended early.
    pub error: Option<TestError>,
}

/// Runs a script on a stage, in an empty database. Files that it includes are looked for beside it and
/// in `root`, the top of the test tree.
pub fn run(stage: &mut dyn Stage, script: &Path, root: &Path) -> TestRun {
    let mut tester = run::Tester::new(stage, root);
    let error = tester.run(script).err();
    TestRun {
        output: tester.into_output(),
        error,
    }
}

/// Files that belong to a script: `NAME.result` is beside it, or in `r` beside its folder `t`.
pub fn result_of(script: &Path) -> Option<PathBuf> {
    let beside = script.with_extension("result");
    let name = beside.file_name()?;
    let other = script.parent()?.parent()?.join("r").join(name);
    [beside.clone(), other]
        .into_iter()
        .find(|path| path.is_file())
}

/// The options of the server that a script needs (`NAME-master.opt`).
pub fn options_of(script: &Path) -> Vec<String> {
    let name = script.file_stem().unwrap_or_default().to_string_lossy();
    let file = script.with_file_name(format!("{name}-master.opt"));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The top of the test tree of a script: the nearest folder above it that has a folder `include`, not
/// counting those of suites.
pub fn root_of(script: &Path) -> Option<&Path> {
    let tops = script
        .ancestors()
        .filter(|top| top.join("include").is_dir());
    tops.last()
}

/// The first line in which an output differs from what is expected: its number from 1, and both.
pub fn difference(expected: &str, got: &str) -> Option<(usize, String, String)> {
    let mut number = 1;
    let (mut expected, mut got) = (expected.lines(), got.lines());
    loop {
        let pair = (expected.next(), got.next());
        if pair == (None, None) {
            return None;
        }
        if pair.0 != pair.1 {
            let text = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
            return Some((number, text(pair.0), text(pair.1)));
        }
        number += 1;
    }
}
