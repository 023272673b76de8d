//! Scripts of several sessions, compared step by step with transcripts of the servers
//! (`innodb/experiments.txt`): replies, who blocks whom, who goes on, lock lists.

mod innodb;

use std::collections::BTreeMap;

use innodb::{Outcome, Server, Target, report, result_text};
use rowlock_sim::database::Database;
use rowlock_sim::engine::innodb::session::Waiting;

#[derive(Default)]
struct Experiment {
    name: String,
    setup: Vec<String>,
    init: Vec<String>,
    script: Vec<String>,
    outcomes: Vec<(Vec<String>, Vec<String>)>,
}

fn experiments() -> Vec<Experiment> {
    let text = include_str!("innodb/experiments.txt");
    let mut all: Vec<Experiment> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            all.push(Experiment {
                name: name.to_owned(),
                ..Experiment::default()
            });
            continue;
        }
        let Some(last) = all.last_mut() else { continue };
        if let Some(event) = line.strip_prefix("  ") {
            if let Some((_, events)) = last.outcomes.last_mut() {
                events.push(event.to_owned());
            }
        } else if let Some((word, rest)) = line.split_once(' ') {
            let rest = rest.to_owned();
            match word {
                "setup" => last.setup.push(rest),
                "init" => last.init.push(rest),
                "script" => last.script.push(rest),
                _ => {
                    let targets = rest.split(' ').map(str::to_owned).collect();
                    last.outcomes.push((targets, Vec::new()));
                }
            }
        }
    }
    all
}

/// Row numbers of tables without a key differ from server to server.
fn mask_row_numbers(locks: &str) -> String {
    let mut masked = String::new();
    let mut rest = locks;
    while let Some(at) = rest.find("GEN_CLUST_INDEX") {
        let (before, after) = rest.split_at(at);
        masked += before;
        let Some(open) = after.find('{') else { break };
        let close = after.find('}').unwrap_or(after.len());
        masked += &after[..=open];
        let data = &after[open + 1..close];
        masked += if data.starts_with("supremum") {
            data
        } else {
            "row number"
        };
        rest = &after[close..];
    }
    masked += rest;
    let mut parts: Vec<&str> = masked.split(" | ").collect();
    parts.sort_unstable();
    parts.join(" | ")
}

struct Run {
    server: Server,
    events: Vec<String>,
    /// What each session answered last.
    last: BTreeMap<String, String>,
}

impl Run {
    /// Lets sessions go on; they are listed by name, as in the transcripts.
    fn settle(&mut self, how: &str) {
        let mut events = Vec::new();
        for (session, result) in self.server.settle() {
            let text = result_text(&result, self.server.db.reported_id(session));
            let name = self.server.name(session);
            events.push(format!("{name} {how} {text}"));
            self.last.insert(name, text);
        }
        events.sort();
        if !how.is_empty() {
            self.events.extend(events);
        }
    }

    fn blocked(&self, name: &str) -> String {
        let session = self.server.sessions[name];
        match self.server.db.waits_for(session) {
            Some(Waiting::Row) => {
                let blockers = self.server.db.shown_blockers(session);
                let mut names: Vec<String> =
                    blockers.iter().map(|s| self.server.name(*s)).collect();
                names.sort();
                format!("row {}", names.join(","))
            }
            Some(Waiting::Metadata) if self.server.db.flavour().is_mariadb() => {
                "Waiting for table metadata lock".to_owned()
            }
            Some(Waiting::Metadata) => "TABLE".to_owned(),
            Some(Waiting::UserLock) if self.server.db.flavour().is_mariadb() => {
                "User lock".to_owned()
            }
            Some(Waiting::UserLock) => "USER LEVEL LOCK".to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn waits(&self) -> String {
        let mut waits = Vec::new();
        for name in self.server.sessions.keys() {
            let session = self.server.sessions[name];
            if !self.server.db.is_busy(session) {
                continue;
            }
            let blockers = self.server.db.shown_blockers(session);
            let mut names: Vec<String> = blockers.iter().map(|s| self.server.name(*s)).collect();
            names.sort();
            waits.push(format!("{name} row {}", names.join(",")));
        }
        waits.join("; ")
    }

    fn step(&mut self, line: &str) {
        let (who, what) = line.split_once(':').expect("session: statement");
        let what = what.trim();
        match who {
            "LOCKS" => {
                let of = (!what.is_empty()).then_some(what);
                let locks = mask_row_numbers(&self.server.locks(of));
                self.events
                    .push(format!("locks {locks}").trim_end().to_owned());
            }
            "WAITS" => {
                let waits = self.waits();
                self.events.push(format!("waits {waits}"));
            }
            "SLEEP" => {
                let seconds: f64 = what.parse().expect("seconds");
                let now = self.server.db.now_micros();
                self.server.db.set_now_micros(now + (seconds * 1e6) as i64);
                self.settle("");
            }
            "WAITDONE" => {
                let text = self.last.get(what).cloned().unwrap_or_default();
                self.events.push(format!("{what} done {text}"));
            }
            "CLOSE" => {
                let session = self.server.sessions[what];
                self.server.db.terminate(session);
                self.events.push(format!("{what} disconnects"));
                self.settle("");
            }
            "KILL" => {
                let (query, name) = match what.strip_prefix('Q') {
                    Some(name) => ("query ", name),
                    None => ("", what),
                };
                let admin = self.server.session("ADM");
                // Connections are numbered in the order in which they were made.
                let own = self.server.send(admin, "select connection_id()");
                let Outcome::Done(Ok(reply)) = own else {
                    panic!("the connection has no number: {own:?}")
                };
                let first = reply.rows[0][0].as_int().expect("it is a number") - i64::from(admin.0);
                let id = first + i64::from(self.server.sessions[name].0);
                self.server.send(admin, &format!("kill {query}{id}"));
                self.events.push(format!("KILL {what}"));
                self.settle("last");
            }
            "ADM" => {
                let admin = self.server.session("ADM");
                if let Outcome::Done(Ok(reply)) = self.server.send(admin, what) {
                    self.events
                        .push(format!("ADM {}", innodb::rows_text(&reply)));
                }
            }
            name => {
                let session = self.server.session(name);
                if self.server.db.is_busy(session) {
                    self.events.push(format!("{name} skipped"));
                    return;
                }
                match self.server.send(session, what) {
                    Outcome::Done(result) => {
                        let text = result_text(&result, self.server.db.reported_id(session));
                        self.events.push(format!("{name} {text}"));
                        self.last.insert(name.to_owned(), text);
                        self.settle("goes on");
                    }
                    Outcome::Blocked | Outcome::Paused(_) => {
                        let before = self.events.len();
                        self.settle("goes on");
                        // Whoever died of its wait is told of after the wait.
                        let later = self.events.split_off(before);
                        if self.server.db.is_busy(session) {
                            let blocked = self.blocked(name);
                            self.events.push(format!("{name} BLOCKS {blocked}"));
                        }
                        self.events.extend(later);
                    }
                }
            }
        }
    }
}

/// Runs a script; who goes on first where several can is what `picks` says.
fn run(experiment: &Experiment, target: &Target, picks: &[usize]) -> (Vec<String>, Vec<usize>) {
    let mut server = Server::new(target);
    let setup: Vec<String> = experiment
        .setup
        .iter()
        .filter(|sql| !sql.starts_with("drop table"))
        .cloned()
        .collect();
    server.setup(&setup);
    server.inits.clone_from(&experiment.init);
    server.picks = picks.to_vec();
    let mut run = Run {
        server,
        events: Vec::new(),
        last: BTreeMap::new(),
    };
    for line in &experiment.script {
        run.step(line);
    }
    (run.events, run.server.choices)
}

/// A line of a session's last answer that it had given before already.
fn is_repeated(event: &str, before: &[String]) -> bool {
    let mut words = event.splitn(3, ' ');
    let (Some(name), Some("last"), Some(rest)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let earlier = before
        .iter()
        .rev()
        .find(|e| e.starts_with(&format!("{name} ")) && !e.contains(" BLOCKS"));
    let blocked = before
        .iter()
        .rev()
        .find(|e| e.starts_with(&format!("{name} ")));
    blocked.is_some_and(|e| !e.contains(" BLOCKS"))
        && earlier.is_some_and(|e| e.ends_with(rest) || e.ends_with(&format!(" {rest}")))
}

fn expected(events: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for event in events {
        // How long it took is not compared.
        let event = event.split(" after ~").next().unwrap_or(event).to_owned();
        if is_repeated(&event, &kept) {
            continue;
        }
        // The client's own words for a connection that is gone, and numbers of connections.
        let event = match event
            .split_once(" (SSL")
            .or_else(|| event.split_once(" (Broken"))
        {
            Some((text, _)) => text.to_owned(),
            None => event,
        };
        kept.push(mask_threads(&event));
    }
    kept
}

fn mask_threads(event: &str) -> String {
    let Some(rows) = event.strip_prefix("ADM [[") else {
        return event.to_owned();
    };
    let rows = rows.split("], [").map(|row| match row.split_once(", ") {
        Some((_, rest)) => format!("thread, {rest}"),
        None => row.to_owned(),
    });
    format!("ADM [[{}", rows.collect::<Vec<_>>().join("], ["))
}

/// Long messages were cut off when they were written down.
const MESSAGE_MAX: usize = 160;

fn is_equal_event(found: &str, expected: &str) -> bool {
    found == expected || (expected.len() >= MESSAGE_MAX && found.starts_with(expected))
}

fn is_equal(found: &[String], expected: &[String]) -> bool {
    let mut pairs = found.iter().zip(expected);
    found.len() == expected.len() && pairs.all(|(found, expected)| is_equal_event(found, expected))
}

fn compare(experiment: &Experiment, target: &Target, events: &[String]) -> Result<(), String> {
    let expected = expected(events);
    let mut picks: Vec<usize> = Vec::new();
    let mut first = None;
    // Where the server leaves open who goes on first, one of the orders must give the transcript.
    for _ in 0..64 {
        let (found, choices) = run(experiment, target, &picks);
        let found: Vec<String> = found.iter().map(|event| mask_threads(event)).collect();
        if is_equal(&found, &expected) {
            return Ok(());
        }
        first.get_or_insert(found);
        picks.resize(choices.len(), 0);
        let next = (0..choices.len())
            .rev()
            .find(|at| picks[*at] + 1 < choices[*at]);
        let Some(at) = next else { break };
        picks[at] += 1;
        picks.truncate(at + 1);
    }
    let found = first.unwrap_or_default();
    let at = found
        .iter()
        .zip(&expected)
        .take_while(|(a, b)| is_equal_event(a, b))
        .count();
    let line = |events: &[String]| events.get(at).cloned().unwrap_or_default();
    let before = expected[..at].join("\n  ");
    Err(format!(
        "  {before}\n  found    {}\n  expected {}\n",
        line(&found),
        line(&expected)
    ))
}

#[test]
fn sessions_meet_as_on_the_servers() {
    let filter = std::env::var("ROW").unwrap_or_default();
    let mut failed = Vec::new();
    let mut total = 0;
    for experiment in experiments() {
        for (targets, events) in &experiment.outcomes {
            for name in targets {
                let full = format!("{name} {}", experiment.name);
                if !full.contains(&filter) {
                    continue;
                }
                total += 1;
                let target = Target::parse(name);
                let compared = std::panic::catch_unwind(|| compare(&experiment, &target, events));
                match compared {
                    Ok(Ok(())) => {}
                    Ok(Err(difference)) => failed.push((full, difference)),
                    Err(_) => failed.push((full, "  panicked\n".to_owned())),
                }
            }
        }
    }
    assert!(filter.is_empty() == (total == 521));
    let list = filter.is_empty().then_some("experiments-differs.txt");
    report("transcripts", total, &failed, list);
}
