//! Golden scripts of simulated MySQL and MariaDB: what is answered, who waits for whom, and what is locked.
//!
//! A script is a list of commands, `---`, and the output, which `UPDATE_GOLDENFILES=1 cargo test -p
//! rowlock-sim --test innodb_scripts` writes anew. Expected output comes from a real server.
//!
//! | command | meaning |
//! | --- | --- |
//! | `a:> SQL` | session `a` (opened when first named) sends one statement |
//! | `level "read committed"` | the level of sessions opened from here on |
//! | `clock ms=1200` | time passes on the server |
//! | `granularity row` | from now on statements pause before record locks |
//! | `continue a` | session `a`, which pauses before a record lock, goes on |
//! | `kill a` | the server ends a session |
//! | `locks` | all explicit locks in MySQL's notation |

mod innodb;

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use goldenscript::{Command, Context, Runner};
use innodb::{Outcome, Server, Target, result_text};
use rowlock_model::schedule::SessionId;
use rowlock_sim::database::Database;

struct Scripted(Server);

impl Scripted {
    fn outcome(&self, session: SessionId, outcome: Outcome) -> String {
        match outcome {
            Outcome::Done(result) => result_text(&result, self.0.db.reported_id(session)) + "\n",
            Outcome::Blocked => {
                let blockers = self.0.db.shown_blockers(session);
                let names: Vec<String> = blockers.iter().map(|s| self.0.name(*s)).collect();
                format!("waits for {}\n", names.join(", "))
            }
            Outcome::Paused(before) => format!("pauses before {before}\n"),
        }
    }

    fn settle(&mut self, output: &mut String) {
        for (session, result) in self.0.settle() {
            let text = result_text(&result, self.0.db.reported_id(session));
            let _ = writeln!(output, "{} goes on: {text}", self.0.name(session));
        }
        for (session, before) in std::mem::take(&mut self.0.paused) {
            let _ = writeln!(output, "{} pauses before {before}", self.0.name(session));
        }
    }
}

impl Runner for Scripted {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let mut output = String::new();
        if let Some(name) = &context.prefix {
            let session = self.0.session(name);
            let outcome = self.0.send(session, &command.name);
            output = self.outcome(session, outcome);
            self.settle(&mut output);
            return Ok(output);
        }
        let mut args = command.consume_args();
        match &*command.name {
            "level" => {
                let level = args.next_pos().ok_or("which level?")?;
                self.0.level = level.parse()?;
            }
            "clock" => {
                let ms: i64 = args.take_key("ms").ok_or("ms=?")?.parse()?;
                let now = self.0.db.now_micros();
                self.0.db.set_now_micros(now + ms * 1_000);
                self.settle(&mut output);
            }
            "granularity" => {
                let granularity = args.next_pos().ok_or("which?")?.parse()?;
                self.0.db.set_granularity(granularity)?;
            }
            "continue" => {
                let name = args.next_pos().ok_or("which session?")?.to_owned();
                let session = self.0.session(&name);
                if !self.0.db.pauses().iter().any(|p| p.session == session) {
                    return Err(format!("{name} does not pause").into());
                }
                let outcome = self.0.proceed(session);
                output = self.outcome(session, outcome);
                self.settle(&mut output);
            }
            "kill" => {
                let name = args.next_pos().ok_or("which session?")?.to_owned();
                let session = self.0.session(&name);
                self.0.db.terminate(session);
                self.settle(&mut output);
            }
            "locks" => output = self.0.locks(None).replace(" | ", "\n"),
            other => return Err(format!("unknown command {other}").into()),
        }
        args.reject_next()?;
        Ok(output)
    }
}

fn run_folder(folder: &str, target: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/scripts")
        .join(folder);
    let mut scripts = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder of scripts is readable") {
            let path = entry.expect("its entries are").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                scripts.push(path);
            }
        }
    }
    scripts.sort();
    assert!(!scripts.is_empty(), "there are no scripts");
    for script in scripts {
        let mut server = Scripted(Server::new(&Target::parse(target)));
        if let Err(error) = goldenscript::run(&mut server, &script) {
            panic!("{}: {error}", script.display());
        }
    }
}

#[test]
fn mysql() {
    run_folder("mysql", "mysql-9.7@rr");
}

#[test]
fn mariadb() {
    run_folder("mariadb", "mariadb-10.11@rr");
}
