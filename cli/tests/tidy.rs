//! Habits of this repository as tests. A failure says which file to mend.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("the workspace is above")
        .to_owned()
}

/// Every file of the project, relative to its root, sorted.
fn files() -> Vec<PathBuf> {
    fn walk(root: &Path, folder: &Path, out: &mut Vec<PathBuf>) {
        let mut entries: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let skipped = name == "target" || (name.starts_with('.') && name != ".ci");
            if skipped {
                continue;
            }
            if path.is_dir() {
                walk(root, &path, out);
            } else {
                out.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    let mut out = Vec::new();
    walk(&root(), &root(), &mut out);
    out
}

fn with_extension(extension: &str) -> Vec<PathBuf> {
    let wanted = |f: &PathBuf| f.extension().is_some_and(|e| e == extension);
    files().into_iter().filter(wanted).collect()
}

/// The text of a file; empty if it is not text.
fn read(file: &Path) -> String {
    String::from_utf8(fs::read(root().join(file)).unwrap()).unwrap_or_default()
}

/// Fails with all complaints at once.
fn report(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The texts between single backticks, outside of code blocks.
fn code_spans(markdown: &str) -> Vec<String> {
    let mut spans = Vec::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    spans
}

/// The targets of `[text](target)` that are files of this repository.
fn links(markdown: &str) -> Vec<String> {
    let targets = markdown
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|t| !t.contains("://") && !t.starts_with('#'));
    local
        .map(|t| t.split('#').next().unwrap_or(t).to_owned())
        .collect()
}

#[test]
fn paths_in_documents_exist() {
    const FOLDERS: [&str; 9] = [
        "model",
        "scenarios",
        "sim",
        "real",
        "reports",
        "benches",
        "cli",
        "docs",
        ".ci",
    ];
    let mut complaints = Vec::new();
    for file in with_extension("md") {
        let text = read(&file);
        let folder = root().join(file.parent().unwrap());
        for span in code_spans(&text) {
            let first = span.split('/').next().unwrap_or_default();
            let is_path = span.contains('/')
                && FOLDERS.contains(&first)
                && !span.contains(|c: char| c.is_whitespace() || "*<>{}$:".contains(c));
            if is_path && !root().join(&span).exists() {
                complaints.push(format!("{}: `{span}` does not exist", file.display()));
            }
        }
        for link in links(&text) {
            if !folder.join(&link).exists() {
                complaints.push(format!("{}: link to {link} leads nowhere", file.display()));
            }
        }
    }
    report(&complaints);
}

#[test]
fn open_ends_name_an_issue() {
    // Put together here, so that this file does not complain about itself.
    let markers = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
    ];
    let mut complaints = Vec::new();
    for file in with_extension("rs") {
        for (number, line) in read(&file).lines().enumerate() {
            if markers.iter().any(|m| line.contains(m)) && !line.contains('#') {
                complaints.push(format!(
                    "{}:{}: {}",
                    file.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    report(&complaints);
}

#[test]
fn nothing_depends_on_one_machine_or_registry() {
    let banned = [
        concat!("crates", ".io"),
        concat!("pypi", ".org"),
        concat!("registry.", "npmjs"),
        concat!("deb.", "debian"),
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/wo", "rk/"),
    ];
    let mut complaints = Vec::new();
    for file in files() {
        // The lock file names the registry by its nature.
        if file.ends_with("Cargo.lock") {
            continue;
        }
        for (number, line) in read(&file).lines().enumerate() {
            for word in banned.iter().filter(|w| line.contains(**w)) {
                complaints.push(format!("{}:{}: names {word}", file.display(), number + 1));
            }
        }
    }
    report(&complaints);
}

#[test]
fn every_module_file_is_part_of_a_crate() {
    let mut complaints = Vec::new();
    for file in with_extension("rs") {
        let inside = file.components().any(|c| c.as_os_str() == "src");
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !inside || ["lib", "main", "mod"].contains(&name.as_str()) {
            continue;
        }
        let folder = file.parent().unwrap();
        let sibling = |n: &str| folder.join(n);
        let parents = [
            sibling("lib.rs"),
            sibling("main.rs"),
            sibling("mod.rs"),
            folder.with_extension("rs"),
        ];
        let declared = parents
            .iter()
            .filter(|p| root().join(p).exists())
            .any(|p| read(p).lines().any(|l| declares(l, &name)));
        let path = format!("#[path = \"{name}.rs\"]");
        let siblings = with_extension("rs")
            .into_iter()
            .filter(|f| f.parent() == Some(folder));
        let declared = declared || siblings.into_iter().any(|f| read(&f).contains(&path));
        if !declared {
            complaints.push(format!("{}: no `mod {name}` leads here", file.display()));
        }
    }
    report(&complaints);
}

fn declares(line: &str, name: &str) -> bool {
    let line = line.trim();
    let after = line.strip_suffix(';').and_then(|l| l.rsplit_once("mod "));
    after.is_some_and(|(_, declared)| declared == name)
}

#[test]
fn every_shared_dependency_is_used() {
    let workspace: toml::Table = read(Path::new("Cargo.toml")).parse().unwrap();
    let declared: BTreeSet<String> = workspace["workspace"]["dependencies"]
        .as_table()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    let mut used = BTreeSet::new();
    for manifest in files().iter().filter(|f| f.ends_with("Cargo.toml")) {
        let manifest: toml::Table = read(manifest).parse().unwrap();
        let targets = manifest.get("target").and_then(toml::Value::as_table);
        let targets = targets.into_iter().flat_map(toml::Table::values);
        for table in targets.filter_map(toml::Value::as_table).chain([&manifest]) {
            for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
                if let Some(table) = table.get(section).and_then(toml::Value::as_table) {
                    used.extend(table.keys().cloned());
                }
            }
        }
    }
    let unused: Vec<String> = declared.difference(&used).cloned().collect();
    assert!(
        unused.is_empty(),
        "in Cargo.toml, but in no member: {unused:?}"
    );
}

#[test]
fn the_changelog_keeps_its_form() {
    const SECTIONS: [&str; 6] = [
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    ];
    let text = read(Path::new("CHANGELOG.md"));
    assert!(text.starts_with("# Changelog\n"));
    let mut complaints = Vec::new();
    let mut releases = 0;
    for line in text.lines() {
        if let Some(release) = line.strip_prefix("## ") {
            releases += 1;
            let good = if releases == 1 {
                release == "[Unreleased]"
            } else {
                is_release(release)
            };
            if !good {
                complaints.push(format!("CHANGELOG.md: unexpected heading `{line}`"));
            }
        } else if let Some(section) = line.strip_prefix("### ")
            && !SECTIONS.contains(&section)
        {
            complaints.push(format!("CHANGELOG.md: unexpected heading `{line}`"));
        }
    }
    assert!(releases > 0, "CHANGELOG.md has no `## [Unreleased]`");
    report(&complaints);
}

/// `[0.1.0] - 2026-11-30`.
fn is_release(heading: &str) -> bool {
    let Some((version, date)) = heading.split_once(" - ") else {
        return false;
    };
    let bracketed = version.starts_with('[') && version.ends_with(']');
    let numbers = version
        .trim_matches(['[', ']'])
        .split('.')
        .all(|n| n.parse::<u32>().is_ok());
    let parts: Vec<&str> = date.split('-').collect();
    bracketed && numbers && parts.len() == 3 && parts.iter().all(|p| p.parse::<u32>().is_ok())
}

/// Golden scripts live in folders named `scripts`, `testscripts` or `golden`; each of their sub-folders must be
/// read by a test of the same crate, or they would be compared with nothing.
#[test]
fn golden_files_belong_to_a_test() {
    let sources: Vec<(PathBuf, String)> = with_extension("rs")
        .into_iter()
        .map(|f| {
            let t = read(&f);
            (f, t)
        })
        .collect();
    let mut complaints = BTreeSet::new();
    for file in files() {
        let parts: Vec<String> = file
            .components()
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect();
        let Some(at) = parts
            .iter()
            .position(|p| ["scripts", "testscripts", "golden"].contains(&p.as_str()))
        else {
            continue;
        };
        // The folder itself, or a folder in it, is named by a source file of the crate.
        let names: Vec<String> = (at..parts.len() - 1)
            .map(|to| parts[at..=to].join("/"))
            .collect();
        let read_by_a_test = sources.iter().any(|(source, text)| {
            source.starts_with(&parts[0]) && names.iter().any(|n| text.contains(n.as_str()))
        });
        if !read_by_a_test {
            complaints.insert(format!("{}: no test reads it", file.display()));
        }
    }
    report(&complaints.into_iter().collect::<Vec<_>>());
}
