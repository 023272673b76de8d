//! Every example in the documentation of the formats is read as it stands.

use rowlock_scenarios::schedule::ScheduleFile;
use rowlock_scenarios::{Scenario, Source};

/// The fenced blocks of a language, with the line of each fence.
fn fences(markdown: &str, language: &str) -> Vec<(usize, String)> {
    let opening = format!("```{language}");
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (i, line) in markdown.lines().enumerate() {
        match &mut open {
            Some(_) if line == "```" => found.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
            None if line == opening => open = Some((i + 1, String::new())),
            None => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

#[test]
fn every_scenario_in_the_documentation_is_valid() {
    let examples = fences(include_str!("../../docs/scenario.md"), "toml");
    assert!(examples.len() >= 5);
    for (line, text) in examples {
        let source = Source::new(format!("docs/scenario.md, block at line {line}"), text);
        if let Err(error) = Scenario::parse(source) {
            panic!("{error}");
        }
    }
}

/// The examples stand in the form in which they are written, not only in one that can be read.
#[test]
fn every_schedule_in_the_documentation_is_valid() {
    let examples = fences(include_str!("../../docs/schedule.md"), "schedule");
    assert!(examples.len() >= 2);
    for (line, text) in examples {
        let path = format!("docs/schedule.md, block at line {line}");
        match ScheduleFile::parse(Source::new(path.clone(), text.clone())) {
            Ok(file) => assert_eq!(file.to_string(), text, "{path}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn every_scenario_of_the_corpus_is_valid() {
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder can be read") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml")
                && path.file_name().is_some_and(|name| name != "Cargo.toml")
            {
                let text = std::fs::read_to_string(&path).expect("the file can be read");
                if let Err(error) = Scenario::parse(Source::new(path.display().to_string(), text)) {
                    panic!("{error}");
                }
                read += 1;
            }
        }
    }
    assert!(read > 0);
}
