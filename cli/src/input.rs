//! Finds and reads the files that the command line names.

use std::fs;
use std::path::{Path, PathBuf};

use rowlock_reports::Diagnostic;
use rowlock_scenarios::{FileError, Scenario, Source};

use crate::exit::Failure;

/// Reads every scenario that `paths` name: files as they are, directories searched for `*.toml`.
///
/// # Errors
/// Every problem of every file; nothing is run if one of them is wrong.
pub(crate) fn scenarios(paths: &[PathBuf]) -> Result<Vec<Scenario>, Failure> {
    let mut problems = Vec::new();
    let mut scenarios = Vec::new();
    for file in files(paths)? {
        match source(&file).map(Scenario::parse) {
            Ok(Ok(scenario)) => scenarios.push(scenario),
            Ok(Err(error)) => problems.extend(diagnostics(&error)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(scenarios)
    } else {
        Err(Failure::Files(problems))
    }
}

/// The files that `paths` name, those of a directory sorted.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut out = Vec::new();
    for path in paths {
        if !path.is_dir() {
            out.push(path.clone());
            continue;
        }
        let before = out.len();
        search(path, &mut out).map_err(|e| unreadable(path, &e))?;
        if out.len() == before {
            let none = Diagnostic::file(path.display().to_string(), "no scenario (*.toml) in here");
            return Err(Failure::Files(vec![none]));
        }
    }
    Ok(out)
}

/// Adds the scenarios in a directory and below it. Manifests of cargo are none; hidden directories
/// and `target` are passed over.
fn search(directory: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let entries: std::io::Result<Vec<PathBuf>> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect();
    let mut entries = entries?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                search(&path, out)?;
            }
        } else if name.ends_with(".toml") && name != "Cargo.toml" {
            out.push(path);
        }
    }
    Ok(())
}

/// Reads one file.
pub(crate) fn source(file: &Path) -> Result<Source, Diagnostic> {
    let path = file.display().to_string();
    match fs::read_to_string(file) {
        Ok(text) => Ok(Source::new(path, text)),
        Err(error) => Err(Diagnostic::file(path, error.to_string())),
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
