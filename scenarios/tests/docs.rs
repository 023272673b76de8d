//! Every example in the documentation of the formats is read as it stands.

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
