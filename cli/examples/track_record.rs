//! Makes the table in `scenarios/README.md` anew: every scenario of claims, guards and write skew
//! with its verdicts, the length of the shortest schedule that shows a violation, and the
//! server on which that schedule was replayed and came out the same.
//!
//! ```text
//! cargo run -p rowlock --example track_record                # from exploration
//! cargo run -p rowlock --example track_record -- confirm     # replays on live servers first
//! cargo run -p rowlock --example track_record -- check       # fails if the table is out of date
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folders whose scenarios are listed.
const FOLDERS: [&str; 3] = ["claims", "guards", "skew"];

const BEGIN: &str = "<!-- made by: cargo run -p rowlock --example track_record -->\n";
const END: &str = "<!-- end of the table -->\n";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    let task = std::env::args().nth(1).unwrap_or_default();
    let program = program()?;
    if task == "confirm" {
        confirm(&program, &root)?;
    }
    let readme = root.join("scenarios/README.md");
    let text = fs::read_to_string(&readme)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("no beginning of the table")?;
    let (_, after) = rest.split_once(END).ok_or("no end of the table")?;
    let table = table(&program, &root)?;
    let made = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    if task != "check" {
        fs::write(&readme, made)?;
    } else if made != text {
        return Err("scenarios/README.md is out of date; run this without `check`".into());
    }
    Ok(())
}

/// The command, built beside this example.
fn program() -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).ok_or("no folder")?;
    let program = folder.join(format!("rowlock{}", std::env::consts::EXE_SUFFIX));
    match program.exists() {
        true => Ok(program),
        false => Err(format!("build {} first", program.display()).into()),
    }
}

/// The folders that exist.
fn folders(root: &Path) -> Vec<String> {
    let paths = FOLDERS.iter().map(|folder| format!("scenarios/{folder}"));
    paths.filter(|path| root.join(path).exists()).collect()
}

/// Runs the command at the root and reads the lines that it prints.
fn lines(program: &Path, root: &Path, args: &[String]) -> Result<Vec<Value>, Box<dyn Error>> {
    let output = Command::new(program)
        .args(args)
        .args(["--format", "json", "--quiet"])
        .current_dir(root)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    Ok(lines?)
}

fn text<'a>(line: &'a Value, key: &str) -> &'a str {
    line[key].as_str().unwrap_or_default()
}

/// Replays every violating schedule, and stores which of them came out the same and where.
fn confirm(program: &Path, root: &Path) -> Result<(), Box<dyn Error>> {
    let out = std::env::temp_dir().join(format!("rowlock-track-{}", std::process::id()));
    let folder = out.to_str().ok_or("a folder without a name")?.to_owned();
    let mut args = vec!["check".to_owned()];
    args.extend(folders(root));
    args.extend(["--write-schedules".to_owned(), folder.clone()]);
    lines(program, root, &args)?;
    let mut schedules = Vec::new();
    for entry in fs::read_dir(&out)? {
        schedules.push(entry?.path().to_string_lossy().into_owned());
    }
    schedules.sort();
    let mut confirmed = String::from("schedule\tserver\n");
    for server in ["postgres", "mysql", "mariadb"] {
        let mut args = vec!["replay".to_owned(), "--on".to_owned(), server.to_owned()];
        let own = format!("-{server}-");
        args.extend(schedules.iter().filter(|name| name.contains(&own)).cloned());
        if args.len() == 3 {
            continue;
        }
        for line in lines(program, root, &args)? {
            if text(&line, "type") != "replay" {
                continue;
            }
            let name = Path::new(text(&line, "file")).file_stem();
            let name = name.and_then(|name| name.to_str()).unwrap_or_default();
            match text(&line, "verdict") {
                "confirmed" => writeln!(confirmed, "{name}\t{}", text(&line, "server"))?,
                verdict => eprintln!("{name}: {verdict}"),
            }
        }
    }
    fs::write(root.join("scenarios/confirmed.tsv"), confirmed)?;
    fs::remove_dir_all(out)?;
    Ok(())
}

/// The name of the schedule that `check --write-schedules` writes for a case.
fn schedule_name(line: &Value) -> String {
    let stem = Path::new(text(line, "file")).file_stem();
    let stem = stem.and_then(|stem| stem.to_str()).unwrap_or_default();
    let parts = [
        stem,
        text(line, "variant"),
        text(line, "database"),
        text(line, "isolation"),
    ];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    parts.join("-").chars().map(plain).collect()
}

fn table(program: &Path, root: &Path) -> Result<String, Box<dyn Error>> {
    let confirmed = fs::read_to_string(root.join("scenarios/confirmed.tsv")).unwrap_or_default();
    let confirmed: BTreeMap<&str, &str> = confirmed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let mut args = vec!["check".to_owned()];
    args.extend(folders(root));
    let mut table = String::from(
        "| scenario | variant | database | verdict | schedule | same on |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    let (mut cases, mut violated, mut same) = (0, 0, 0);
    for line in lines(program, root, &args)? {
        if text(&line, "type") != "case" {
            continue;
        }
        if line["met"] != Value::Bool(true) {
            let name = schedule_name(&line);
            return Err(format!("{name}: {} is not expected", text(&line, "found")).into());
        }
        let file = text(&line, "file").trim_start_matches("scenarios/");
        let is_violated = text(&line, "verdict") == "violated";
        let events = match (is_violated, line["events"].as_u64()) {
            (true, Some(events)) => format!("{events} events"),
            _ => String::new(),
        };
        let server = match is_violated {
            true => confirmed
                .get(&*schedule_name(&line))
                .copied()
                .unwrap_or_default(),
            false => "",
        };
        cases += 1;
        violated += usize::from(is_violated);
        same += usize::from(is_violated && !server.is_empty());
        writeln!(
            table,
            "| [{}]({file}) | {} | {}, {} | {} | {events} | {server} |",
            text(&line, "title").replace('|', "\\|"),
            text(&line, "variant"),
            text(&line, "database"),
            text(&line, "isolation"),
            text(&line, "found"),
        )?;
    }
    writeln!(
        table,
        "\n{cases} cases, {violated} of them violated; of those, the shortest schedules of {same} were \
         replayed and came out the same in every step."
    )?;
    Ok(table)
}
