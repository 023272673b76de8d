//! Finds and reads the files that the command line names.

use std::fs;
use std::path::{Path, PathBuf};

use rowlock_model::{Dialect, Isolation};
use rowlock_reports::Diagnostic;
use rowlock_scenarios::scenario::default_isolation;
use rowlock_scenarios::schedule::ScheduleFile;
use rowlock_scenarios::spec::Spec;
use rowlock_scenarios::{FileError, Scenario, Source};

use crate::exit::Failure;

/// Reads every scenario that `paths` name: files as they are, directories searched for `*.toml` and
/// `*.spec`. Isolation specs say no level: they are read with `levels`, or with the server's default.
///
/// # Errors
/// Every problem of every file; nothing is run if one of them is wrong.
pub(crate) fn scenarios(paths: &[PathBuf], levels: &[Isolation]) -> Result<Vec<Scenario>, Failure> {
    let mut problems = Vec::new();
    let mut scenarios = Vec::new();
    let default = [default_isolation(Dialect::Postgres)];
    let levels = if levels.is_empty() { &default } else { levels };
    let read = |file: &Path, source| match file.extension().is_some_and(|e| e == "spec") {
        true => Scenario::of_spec(source, levels),
        false => Scenario::parse(source),
    };
    for file in files(paths, &["toml", "spec"])? {
        match source(&file).map(|source| read(&file, source)) {
            Ok(Ok(scenario)) => scenarios.push(scenario),
            Ok(Err(error)) => problems.extend(diagnostics(&error)),
            Err(problem) => problems.push(*problem),
        }
    }
    if problems.is_empty() {
        Ok(scenarios)
    } else {
        Err(Failure::Files(problems))
    }
}

/// Reads every isolation spec that `paths` name.
///
/// # Errors
/// Every problem of every file; nothing is run if one of them is wrong.
pub(crate) fn specs(paths: &[PathBuf]) -> Result<Vec<(Source, Spec)>, Failure> {
    let mut problems = Vec::new();
    let mut specs = Vec::new();
    for file in files(paths, &["spec"])? {
        match source(&file) {
            Ok(source) => match Spec::parse(&source) {
                Ok(spec) => specs.push((source, spec)),
                Err(error) => problems.extend(diagnostics(&error)),
            },
            Err(problem) => problems.push(*problem),
        }
    }
    if problems.is_empty() {
        Ok(specs)
    } else {
        Err(Failure::Files(problems))
    }
}

/// A file with schedules.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// A scenario, for its pinned schedules.
    Scenario(Box<Scenario>),
    /// A schedule file, with its path.
    Schedule(String, Box<ScheduleFile>),
}

/// Reads every scenario and schedule that `paths` name; directories are searched for both.
///
/// # Errors
/// Every problem of every file; nothing is run if one of them is wrong.
pub(crate) fn schedules(paths: &[PathBuf]) -> Result<Vec<Loaded>, Failure> {
    let mut problems = Vec::new();
    let mut loaded = Vec::new();
    for file in files(paths, &["toml", "schedule"])? {
        match source(&file).map(load) {
            Ok(Ok(file)) => loaded.push(file),
            Ok(Err(error)) => problems.extend(diagnostics(&error)),
            Err(problem) => problems.push(*problem),
        }
    }
    if problems.is_empty() {
        Ok(loaded)
    } else {
        Err(Failure::Files(problems))
    }
}

/// A schedule says that it is one in its first line; anything else is a scenario, unless its name
/// says otherwise.
fn load(source: Source) -> Result<Loaded, FileError> {
    let path = source.path.to_string();
    if source.text.starts_with("rowlock schedule") || path.ends_with(".schedule") {
        let file = ScheduleFile::parse(source)?;
        return Ok(Loaded::Schedule(path, Box::new(file)));
    }
    Ok(Loaded::Scenario(Box::new(Scenario::parse(source)?)))
}

/// The files that `paths` name; of a directory those with one of `extensions`, sorted.
fn files(paths: &[PathBuf], extensions: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let mut out = Vec::new();
    for path in paths {
        if !path.is_dir() {
            out.push(path.clone());
            continue;
        }
        let before = out.len();
        search(path, extensions, &mut out).map_err(|e| unreadable(path, &e))?;
        if out.len() == before {
            let what = format!("no file *.{} in here", extensions.join(" or *."));
            let none = Diagnostic::file(path.display().to_string(), what);
            return Err(Failure::Files(vec![none]));
        }
    }
    Ok(out)
}

/// Adds the files in a directory and below it. Manifests of cargo are none; hidden directories
/// and `target` are passed over.
fn search(directory: &Path, extensions: &[&str], out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let entries: std::io::Result<Vec<PathBuf>> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect();
    let mut entries = entries?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                search(&path, extensions, out)?;
            }
        } else if name != "Cargo.toml"
            && path
                .extension()
                .is_some_and(|e| extensions.iter().any(|x| *x == e))
        {
            out.push(path);
        }
    }
    Ok(())
}

/// Reads one file.
pub(crate) fn source(file: &Path) -> Result<Source, Box<Diagnostic>> {
    let path = file.display().to_string();
    match fs::read_to_string(file) {
        Ok(text) => Ok(Source::new(path, text)),
        Err(error) => Err(Box::new(Diagnostic::file(path, error.to_string()))),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let problem = Diagnostic::file(path.display().to_string(), error.to_string());
    Failure::Files(vec![problem])
}

/// Every problem of a file with its place.
pub(crate) fn diagnostics(error: &FileError) -> Vec<Diagnostic> {
    let problems = error.problems.iter();
    problems
        .map(|problem| Diagnostic {
            path: error.source.path.to_string(),
            source: error.source.text.to_string(),
            title: problem.message.clone(),
            span: Some(problem.span.clone()),
            label: String::new(),
            help: problem.help.clone(),
        })
        .collect()
}
