//! Long searches: killed in the middle, resumed, and with the same result; cases at the same time,
//! with the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of this test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

fn rowlock(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowlock"));
    command.args(arguments).env_remove("ROWLOCK_SEED");
    command
}

/// Standard output and the exit code.
fn run(arguments: &[&str]) -> (String, Option<i32>) {
    let output = rowlock(arguments).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    (text, output.status.code())
}

/// Four workers that meet at each statement: a few thousand states.
const SCENARIO: &str = "
title = 'workers that count'
databases = ['postgres']
setup = '''
CREATE TABLE job (id INT PRIMARY KEY, runs INT NOT NULL);
INSERT INTO job VALUES (1, 0);
'''

[[process]]
name = 'worker'
count = 4
step = [
  { sql = '''UPDATE job SET runs = runs + 1 WHERE id = 1''' },
  { sql = '''SELECT 1 FROM job WHERE id = 1''' },
  { sql = '''SELECT 2 FROM job WHERE id = 1''' },
  { sql = '''UPDATE job SET runs = runs + 1 WHERE id = 1''' },
  { sql = '''SELECT 3 FROM job WHERE id = 1''' },
]

[[at_end]]
name = 'all ran'
sql = '''SELECT 1 FROM job WHERE runs <> 8'''
";

/// Ends the child as `kill -9` does.
fn kill(child: &mut Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it is gone");
}

#[test]
fn a_killed_search_goes_on_and_comes_to_the_same() {
    let folder = folder("long");
    let scenario = folder.join("pass.toml");
    fs::write(&scenario, SCENARIO).expect("written");
    let scenario = scenario.to_str().expect("text");
    let (whole, interrupted) = (folder.join("whole"), folder.join("interrupted"));
    let arguments = |file: &Path| -> Vec<String> {
        let file = file.to_str().expect("text");
        [
            "check",
            scenario,
            "--format",
            "json",
            "--reduce",
            "none",
            "--checkpoint",
            file,
        ]
        .iter()
        .chain(&["--checkpoint-every", "0ms"])
        .map(ToString::to_string)
        .collect()
    };
    let of = |file: &Path| -> Vec<String> { arguments(file) };
    let strings = of(&whole);
    let plain: Vec<&str> = strings.iter().map(String::as_str).collect();
    let expected = run(&plain);
    assert_eq!(expected.1, Some(0), "{}", expected.0);
    assert!(
        !whole.exists(),
        "a checkpoint of a question that is answered"
    );

    let strings = of(&interrupted);
    let plain: Vec<&str> = strings.iter().map(String::as_str).collect();
    let mut kills = 0;
    let mut last = 0;
    for _ in 0..3 {
        let mut child = rowlock(&plain)
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        let since = Instant::now();
        // Until it has written something new.
        let length = || fs::metadata(&interrupted).map_or(0, |m| m.len());
        while length() <= last && child.try_wait().expect("a child").is_none() {
            assert!(since.elapsed() < Duration::from_secs(120), "no checkpoint");
            std::thread::sleep(Duration::from_millis(2));
        }
        if child.try_wait().expect("a child").is_some() {
            break;
        }
        kill(&mut child);
        kills += 1;
        last = length();
    }
    assert!(kills > 0, "it was done before it could be killed");
    let bytes = fs::read(&interrupted).expect("a checkpoint is left");
    assert_eq!(run(&plain), expected);
    assert!(!interrupted.exists());

    // Of another question, and damaged.
    fs::write(&interrupted, &bytes).expect("written");
    let mut others = plain.clone();
    others.extend(["--guarantee", "no leak"]);
    assert_eq!(run(&others).1, Some(2));
    fs::write(&interrupted, &bytes[..bytes.len() / 2]).expect("written");
    assert_eq!(run(&plain).1, Some(2));
}

#[test]
fn a_search_without_memory_is_incomplete_and_goes_on_with_more() {
    let folder = folder("memory");
    let scenario = folder.join("pass.toml");
    fs::write(&scenario, SCENARIO).expect("written");
    let scenario = scenario.to_str().expect("text");
    let file = folder.join("checkpoint");
    let file = file.to_str().expect("text");
    let common = ["check", scenario, "--reduce", "none", "--checkpoint", file];
    let few = [&common[..], &["--max-memory", "16K"]].concat();
    let (text, code) = run(&few);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("incomplete: 16384 bytes of memory"), "{text}");
    let (text, code) = run(&common);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn cases_at_the_same_time_come_out_in_the_same_bytes() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/bugs");
    let scenarios = scenarios.to_str().expect("text");
    let one = run(&[
        "check",
        scenarios,
        "--format",
        "json",
        "--steps",
        "--max-states",
        "300",
        "--on",
        "sim:mysql",
    ]);
    let four = run(&[
        "check",
        scenarios,
        "--format",
        "json",
        "--steps",
        "--max-states",
        "300",
        "--on",
        "sim:mysql",
        "--jobs",
        "4",
    ]);
    assert!(one.0.lines().count() > 20, "{}", one.0);
    assert_eq!(one, four);
}
