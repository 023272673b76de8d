//! Makes the tables in `scenarios/README.md` anew: every scenario of claims, guards, write skew and
//! row locks with its verdicts, the length of the shortest schedule that shows a violation, and the
//! server on which that schedule was replayed and came out the same; and every mutant beside the
//! correct form. Fails if a number of the catalogue is neither in the table nor among the reasons,
//! if a mutant is not violated, or if its correct form does not hold.
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
const FOLDERS: [&str; 5] = ["claims", "guards", "locks", "pooler", "skew"];

/// The catalogue: letter, and how many numbers it has.
const CATALOGUE: [(char, u32); 4] = [('A', 34), ('B', 15), ('C', 22), ('D', 11)];

/// A mistake beside its correct form: what is right, what is wrong, and where both are shown, as
/// file, variant of the mistake, variant of the correct form.
struct Mutant {
    correct: &'static str,
    mutant: &'static str,
    shown: &'static [(&'static str, &'static str, &'static str)],
}

const MUTANTS: [Mutant; 16] = [
    Mutant {
        correct: "settle by id and token",
        mutant: "by id",
        shown: &[("claims/a09-settle-without-token.toml", "", "by token")],
    },
    Mutant {
        correct: "a token that counts up",
        mutant: "the end of the lease, in whole seconds",
        shown: &[
            ("claims/a01-same-second-token.toml", "", "fenced"),
            ("claims/a02-zombie-extension.toml", "", "fenced"),
            ("claims/a06-clock-steps-back.toml", "", "fenced"),
        ],
    },
    Mutant {
        correct: "choose in a CTE",
        mutant: "in a sub-select with LIMIT",
        shown: &[("claims/a11-limit-in-subquery.toml", "", "in a CTE")],
    },
    Mutant {
        correct: "the claim repeats the condition",
        mutant: "the condition is in the sub-select only",
        shown: &[
            ("claims/a10-predicate-only-in-subquery.toml", "", "repeated"),
            (
                "claims/a10-predicate-only-in-subquery.toml",
                "InnoDB: choose, then update by id",
                "InnoDB: choose, then update with the condition",
            ),
        ],
    },
    Mutant {
        correct: "a guard, then the head",
        mutant: "the head only",
        shown: &[
            ("claims/a15-fifo-without-a-guard.toml", "", "guarded"),
            (
                "claims/a15-fifo-without-a-guard.toml",
                "InnoDB, no guard",
                "InnoDB, guarded by a named lock",
            ),
        ],
    },
    Mutant {
        correct: "look again under the advisory lock",
        mutant: "do not",
        shown: &[(
            "claims/a19-advisory-without-recheck.toml",
            "",
            "looked at again",
        )],
    },
    Mutant {
        correct: "store, then unlock",
        mutant: "unlock, then store",
        shown: &[(
            "claims/a20-unlock-before-commit.toml",
            "",
            "stored, then unlocked",
        )],
    },
    Mutant {
        correct: "close the connection unless the unlock is confirmed",
        mutant: "ignore the answer",
        shown: &[
            ("claims/a21-reentrant-through-a-pool.toml", "", "closed"),
            (
                "claims/a22-transaction-pooler.toml",
                "",
                "one session from lock to unlock",
            ),
        ],
    },
    Mutant {
        correct: "prove by `pg_locks`, with process and kind of key",
        mutant: "by locking again; by the halves of the key",
        shown: &[
            ("guards/b06-proof-by-locking.toml", "", "by looking"),
            (
                "guards/b08-proof-by-halves.toml",
                "",
                "with process and kind",
            ),
        ],
    },
    Mutant {
        correct: "round the deadline up",
        mutant: "down",
        shown: &[("guards/b07-deadline-of-zero.toml", "", "rounded up")],
    },
    Mutant {
        correct: "make the conflict by a write",
        mutant: "by a lock",
        shown: &[
            (
                "skew/c22-materialised-by-a-lock.toml",
                "",
                "a write of the same value",
            ),
            (
                "skew/c22-materialised-by-a-lock.toml",
                "an advisory lock",
                "a write of the same value",
            ),
        ],
    },
    Mutant {
        correct: "an upsert at REPEATABLE READ, or the row tells",
        mutant: "an upsert at READ COMMITTED; a bare INSERT",
        shown: &[
            (
                "skew/c04-upsert-two-creators.toml",
                "",
                "the row tells who inserted it",
            ),
            (
                "skew/c03-bucket-bare-insert.toml",
                "",
                "hardened: an upsert that changes nothing",
            ),
        ],
    },
    Mutant {
        correct: "forget the cache before each attempt",
        mutant: "keep it",
        shown: &[(
            "skew/c10-cache-of-a-rolled-back-attempt.toml",
            "",
            "evicted before each attempt",
        )],
    },
    Mutant {
        correct: "roll back after a lock wait timeout",
        mutant: "go on",
        shown: &[("skew/c19-lock-wait-timeout.toml", "", "rolled back first")],
    },
    Mutant {
        correct: "keep the transaction alive, and look at what COMMIT answers",
        mutant: "ignore the error",
        shown: &[(
            "skew/c14-swallowed-error.toml",
            "",
            "a savepoint around the best effort",
        )],
    },
    Mutant {
        correct: "BEGIN IMMEDIATE",
        mutant: "DEFERRED",
        shown: &[("claims/a27-read-becomes-a-write.toml", "", "immediate")],
    },
];

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
    let cases = cases(&program, &root)?;
    catalogue(&cases, before)?;
    let table = format!("{}\n\n{}", table(&cases, &root)?, mutants(&cases)?);
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
    for server in ["postgres", "mysql", "mariadb", "sqlite"] {
        let mut args = vec!["replay".to_owned(), "--on".to_owned(), server.to_owned()];
        let own = format!("-{server}-");
        let of_server = schedules.iter().filter(|name| name.contains(&own));
        // Only PostgreSQL can be stopped between two row locks; elsewhere a pinned schedule shows it.
        let plain = of_server.filter(|name| server == "postgres" || !is_by_rows(name));
        args.extend(plain.cloned());
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

/// Whether statements of a schedule give way between row locks.
fn is_by_rows(path: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("\ngranularity: row\n"))
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

/// What `check` says of every case.
fn cases(program: &Path, root: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut args = vec!["check".to_owned()];
    args.extend(folders(root));
    let mut cases = lines(program, root, &args)?;
    cases.retain(|line| text(line, "type") == "case");
    match cases.iter().find(|line| line["met"] != Value::Bool(true)) {
        None => Ok(cases),
        Some(line) => {
            let name = schedule_name(line);
            Err(format!("{name}: {} is not expected", text(line, "found")).into())
        }
    }
}

/// The numbers with which a title begins: `A26`, `D1 to D10`.
fn numbers(title: &str) -> Vec<String> {
    let words: Vec<&str> = title.split([' ', ',', ':']).collect();
    let number = |word: &str| {
        let rest = word.strip_prefix(|c: char| CATALOGUE.iter().any(|(letter, _)| *letter == c));
        rest.is_some_and(|rest| rest.parse::<u32>().is_ok())
    };
    let first = words.iter().take_while(|word| number(word));
    first.map(|word| (*word).to_owned()).collect()
}

/// Every number of the catalogue is in the table, or has a row with the reason why not.
fn catalogue(cases: &[Value], reasons: &str) -> Result<(), Box<dyn Error>> {
    let mut there: Vec<String> = cases
        .iter()
        .flat_map(|case| numbers(text(case, "title")))
        .collect();
    let rows = reasons.lines().filter_map(|line| line.strip_prefix("| "));
    there.extend(rows.flat_map(numbers));
    let all = CATALOGUE
        .iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |n| format!("{letter}{n}")));
    let missing: Vec<String> = all.filter(|number| !there.contains(number)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("neither shown nor explained: {}", missing.join(", ")).into()),
    }
}

/// The places of a variant, with their verdicts: `postgres, mysql: holds`.
fn verdicts(cases: &[&Value]) -> String {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for case in cases {
        let place = format!("{}/{}", text(case, "database"), text(case, "isolation"));
        let verdict = text(case, "found");
        match found.iter_mut().find(|(known, _)| known == verdict) {
            Some((_, places)) => places.push(place),
            None => found.push((verdict.to_owned(), vec![place])),
        }
    }
    let parts = found
        .iter()
        .map(|(verdict, places)| format!("{verdict} ({})", places.join(", ")));
    parts.collect::<Vec<_>>().join("; ")
}

/// Every mutant beside its correct form.
fn mutants(cases: &[Value]) -> Result<String, Box<dyn Error>> {
    let mut table = String::from(
        "| correct | mutant | scenario | the mutant | the correct form |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for mutant in &MUTANTS {
        for (file, wrong, right) in mutant.shown {
            let of = |variant: &str| -> Vec<&Value> {
                let here = |case: &&Value| {
                    text(case, "file").trim_start_matches("scenarios/") == *file
                        && text(case, "variant") == variant
                };
                cases.iter().filter(here).collect()
            };
            let (wrong, right) = (of(wrong), of(right));
            let is = |case: &&&Value, verdict: &str| text(case, "verdict") == verdict;
            if !wrong.iter().any(|case| is(&case, "violated"))
                || !right.iter().any(|case| is(&case, "holds"))
            {
                return Err(format!("{file}: the mutant does not show beside its twin").into());
            }
            let name = text(wrong[0], "title")
                .split(' ')
                .next()
                .unwrap_or_default();
            writeln!(
                table,
                "| {} | {} | [{name}]({file}) | {} | {} |",
                mutant.correct,
                mutant.mutant,
                verdicts(&wrong),
                verdicts(&right),
            )?;
        }
    }
    writeln!(table, "\n{} mutants.", MUTANTS.len())?;
    Ok(table)
}

fn table(cases: &[Value], root: &Path) -> Result<String, Box<dyn Error>> {
    let confirmed = fs::read_to_string(root.join("scenarios/confirmed.tsv")).unwrap_or_default();
    let confirmed: BTreeMap<&str, &str> = confirmed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let mut table = String::from(
        "| scenario | variant | database | verdict | schedule | same on |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    let (mut violated, mut same) = (0, 0);
    for line in cases {
        let file = text(line, "file").trim_start_matches("scenarios/");
        let is_violated = text(line, "verdict") == "violated";
        let events = match (is_violated, line["events"].as_u64()) {
            (true, Some(events)) => format!("{events} events"),
            _ => String::new(),
        };
        let server = match is_violated {
            true => confirmed
                .get(&*schedule_name(line))
                .copied()
                .unwrap_or_default(),
            false => "",
        };
        violated += usize::from(is_violated);
        same += usize::from(is_violated && !server.is_empty());
        writeln!(
            table,
            "| [{}]({file}) | {} | {}, {} | {} | {events} | {server} |",
            text(line, "title").replace('|', "\\|"),
            text(line, "variant"),
            text(line, "database"),
            text(line, "isolation"),
            text(line, "found"),
        )?;
    }
    let cases = cases.len();
    writeln!(
        table,
        "\n{cases} cases, {violated} of them violated; of those, the shortest schedules of {same} were \
         replayed and came out the same in every step."
    )?;
    Ok(table)
}
