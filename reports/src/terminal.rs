//! Results for a person.

use std::time::Duration;

use anstyle::Style;
use rowlock_model::schedule::{Event, Schedule};
use rowlock_model::verdict::{Bounds, Exploration, Verdict, Violation};
use rowlock_model::{Dialect, Isolation, Outcome};

use crate::frame::Frame;
use crate::lanes::Lanes;
use crate::layout::{counted, filler, width};
use crate::style::{Palette, paint};

/// What was examined: one variant of a scenario on one database at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The file as the user named it.
    pub file: String,
    /// The scenario's title.
    pub title: String,
    /// The variant, if it has a name.
    pub variant: Option<String>,
    /// The database.
    pub database: Dialect,
    /// The isolation level.
    pub isolation: Isolation,
}

impl Case {
    /// `file (variant)`.
    pub fn name(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} ({variant})", self.file),
            None => self.file.clone(),
        }
    }

    /// `postgres/read committed`, as files write it.
    pub fn target(&self) -> String {
        format!("{}/{}", self.database, self.isolation)
    }
}

/// What became of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// What the file expects, in its own words: `violated: one owner`.
    pub expected: String,
    /// What was found, in the same words.
    pub found: String,
    /// Whether `found` is what was expected.
    pub met: bool,
    /// The exploration; `None` if the simulator does not model what the case uses.
    pub exploration: Option<Exploration>,
    /// Why there is no exploration, in one line.
    pub reason: Option<String>,
    /// Where the schedule of the violation was written.
    pub schedule_file: Option<String>,
    /// Wall-clock time. For people only: it is not part of the JSON.
    pub elapsed: Duration,
}

/// Widths of the columns that name a case, so that lines of one run stand below each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Of [`Case::name`].
    pub name: usize,
    /// Of [`Case::target`].
    pub target: usize,
}

impl Columns {
    /// Wide enough for all of `cases`.
    pub fn of<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Columns {
        cases
            .into_iter()
            .fold(Columns::default(), |widest, case| Columns {
                name: widest.name.max(width(&case.name())),
                target: widest.target.max(width(&case.target())),
            })
    }
}

/// How much to say, and how.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Columns of the terminal.
    pub width: usize,
    /// Colours.
    pub palette: Palette,
    /// Everything in full.
    pub verbose: bool,
}

/// One line: whether as expected, where, on what, what was found and what it took.
pub fn case_line(result: &CaseResult, columns: Columns, manner: &Manner) -> String {
    let palette = &manner.palette;
    let (word, style) = if result.met {
        ("ok", palette.good)
    } else {
        ("FAILED", palette.bad)
    };
    let name = result.case.name();
    let target = result.case.target();
    let mut line = format!("{}{}  ", paint(style, word), filler(word, 6));
    line.push_str(&format!("{name}{}  ", filler(&name, columns.name)));
    line.push_str(&format!("{target}{}  ", filler(&target, columns.target)));
    line.push_str(&result.found);
    if !result.met {
        let expected = format!(" (expected: {})", result.expected);
        line.push_str(&paint(palette.bad, &expected));
    }
    let cost = match &result.exploration {
        Some(exploration) => cost(exploration, result.elapsed),
        None => result.reason.clone().unwrap_or_default(),
    };
    if !cost.is_empty() {
        line.push_str("  ");
        line.push_str(&paint(palette.dim, &cost));
    }
    line
}

/// `412 states, 1,377 statements, 6 events, 0.04 s`.
fn cost(exploration: &Exploration, elapsed: Duration) -> String {
    let counts = &exploration.counts;
    let mut parts = Vec::new();
    if counts.executions > 0 {
        parts.push(counted(counts.executions, "run"));
    }
    match (counts.states, counts.interleavings) {
        (0, _) => {}
        (states, None) => parts.push(counted(states, "state")),
        (states, Some(paths)) => parts.push(format!("{} = {paths}", counted(states, "state"))),
    }
    parts.push(counted(counts.statements, "statement"));
    if let Verdict::Violated(violation) = &exploration.verdict {
        let n = violation.schedule.events.len() as u64;
        parts.push(format!("schedule of {}", counted(n, "event")));
    }
    parts.push(format!("{:.2} s", elapsed.as_secs_f64()));
    parts.join(", ")
}

/// The bounds that are not zero: `1 crash, 3 clock moves`; `no faults` if all are.
pub fn bounds(bounds: &Bounds) -> String {
    let plural = |n: u32, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    };
    let parts: Vec<String> = [
        plural(bounds.crashes, "crash", "crashes"),
        plural(bounds.kills, "killed session", "killed sessions"),
        plural(bounds.losses, "lost connection", "lost connections"),
        plural(bounds.clock, "clock move", "clock moves"),
        plural(bounds.cancels, "cancelled task", "cancelled tasks"),
        plural(bounds.rounds, "round a process", "rounds a process"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        "no faults".to_owned()
    } else {
        parts.join(", ")
    }
}

/// A violation in full: what was examined, the property, what was seen, the lanes, and the line
/// that replays it.
pub fn violation(
    title: &str,
    target: &str,
    violation: &Violation,
    replay: &str,
    manner: &Manner,
) -> String {
    let palette = &manner.palette;
    let mut out = format!(
        "{} {}  {}\n{}  {}\n",
        paint(palette.bad, "violated:"),
        paint(palette.strong, &violation.property),
        paint(palette.dim, &format!("({target})")),
        " ".repeat(7),
        title,
    );
    for line in violation.detail.lines() {
        out.push_str(&format!("{:9}{line}\n", ""));
    }
    out.push('\n');
    let (marked, legend) = marked(violation);
    out.push_str(&lanes(&violation.schedule, &marked, manner));
    if !marked.is_empty() {
        out.push_str(&format!("\n{} {legend}\n", paint(palette.bad, "●")));
    }
    if !replay.is_empty() {
        out.push_str(&format!("\nreplay it: {}\n", paint(palette.strong, replay)));
    }
    out
}

/// The events to mark, and what the mark says: those that make up the violation, or, where that is
/// not known, those that changed rows.
fn marked(violation: &Violation) -> (Vec<usize>, &'static str) {
    if !violation.matters.is_empty() {
        return (violation.matters.clone(), "makes up the violation");
    }
    let changed = |event: &Event| match &event.outcome {
        Some(Outcome::Done(reply)) => {
            matches!(&*reply.tag, "INSERT" | "UPDATE" | "DELETE" | "MERGE") && reply.affected > 0
        }
        _ => false,
    };
    let events = violation.schedule.events.iter().enumerate();
    let marked = events
        .filter(|(_, event)| changed(event))
        .map(|(index, _)| index);
    (marked.collect(), "changed rows")
}

/// The lanes of a schedule.
pub fn lanes(schedule: &Schedule, matters: &[usize], manner: &Manner) -> String {
    let frames = Frame::all(&schedule.events);
    let mut lanes = Lanes::new(&frames, manner.width);
    lanes.matters = matters;
    lanes.palette = manner.palette;
    lanes.verbose = manner.verbose;
    lanes.render()
}

/// How many cases there were, and how many of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases explored.
    pub cases: u64,
    /// Of these, as expected.
    pub met: u64,
    /// Violated, expected or not.
    pub violated: u64,
    /// Held within their bounds.
    pub holds: u64,
    /// Incomplete, vacuous or unsupported.
    pub open: u64,
    /// Pinned schedules run.
    pub pinned: u64,
    /// Of these, with every outcome as pinned.
    pub pinned_same: u64,
}

/// The last line of a run.
pub fn summary(tally: &Tally, elapsed: Duration, manner: &Manner) -> String {
    let palette = &manner.palette;
    let all_met = tally.cases == tally.met && tally.pinned == tally.pinned_same;
    let style: Style = if all_met { palette.good } else { palette.bad };
    let head = format!(
        "{}, {} as expected",
        counted(tally.cases, "case"),
        tally.met
    );
    let mut line = paint(style, &head);
    line.push_str(&format!(
        " ({} hold, {} violated, {} open)",
        tally.holds, tally.violated, tally.open
    ));
    if tally.pinned > 0 {
        line.push_str(&format!(
            "; {}, {} as pinned",
            counted(tally.pinned, "pinned schedule"),
            tally.pinned_same
        ));
    }
    line.push_str(&format!("; {:.1} s", elapsed.as_secs_f64()));
    line
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use rowlock_model::Reply;
    use rowlock_model::schedule::{Choice, ProcessId, RequestId, Statement};
    use rowlock_model::verdict::Counts;

    use super::*;

    fn manner() -> Manner {
        Manner {
            width: 80,
            palette: Palette::plain(),
            verbose: false,
        }
    }

    fn take(actor: &str) -> Event {
        Event {
            choice: Choice::Step(ProcessId(0), RequestId(0)),
            actor: actor.into(),
            step: Some("take".into()),
            statement: Some(Statement {
                sql: "UPDATE job SET owner = 'x' WHERE id = 1".into(),
                args: vec![],
                batch: false,
            }),
            outcome: Some(Outcome::Done(Reply {
                affected: 1,
                ..Reply::tag("UPDATE")
            })),
        }
    }

    fn result(verdict: Verdict, expected: &str, met: bool) -> CaseResult {
        CaseResult {
            case: Case {
                file: "scenarios/bugs/one.toml".into(),
                title: "two workers claim one job".into(),
                variant: Some("fixed".into()),
                database: Dialect::Postgres,
                isolation: Isolation::ReadCommitted,
            },
            expected: expected.into(),
            found: verdict.to_string(),
            met,
            exploration: Some(Exploration {
                verdict,
                bounds: Bounds::default(),
                counts: Counts {
                    states: 1234,
                    statements: 5678,
                    ..Counts::default()
                },
            }),
            reason: None,
            schedule_file: None,
            elapsed: Duration::from_millis(1234),
        }
    }

    fn one_owner() -> Violation {
        Violation {
            property: "one owner".into(),
            detail: "`take.affected == 1` happened 2 times, at most 1 is allowed".into(),
            schedule: Schedule {
                events: vec![take("worker-1"), take("worker-2")],
            },
            matters: vec![0, 1],
        }
    }

    #[test]
    fn one_line_a_case() {
        let holds = result(Verdict::Holds, "holds", true);
        let violated = result(Verdict::Violated(Box::new(one_owner())), "holds", false);
        let columns = Columns::of([&holds.case, &violated.case]);
        let lines = format!(
            "{}\n{}\n",
            case_line(&holds, columns, &manner()),
            case_line(&violated, columns, &manner())
        );
        expect![[r#"
            ok      scenarios/bugs/one.toml (fixed)  postgres/read committed  holds  1,234 states, 5,678 statements, 1.23 s
            FAILED  scenarios/bugs/one.toml (fixed)  postgres/read committed  violated: one owner (expected: holds)  1,234 states, 5,678 statements, schedule of 2 events, 1.23 s
        "#]].assert_eq(&lines);
    }

    #[test]
    fn a_violation_in_full() {
        let text = violation(
            "two workers claim one job",
            "postgres/read committed",
            &one_owner(),
            "rowlock replay one.schedule --on postgres",
            &manner(),
        );
        expect![[r#"
            violated: one owner  (postgres/read committed)
                     two workers claim one job
                     `take.affected == 1` happened 2 times, at most 1 is allowed

                  worker-1                              worker-2
            ●  1  take: UPDATE job SET … WHERE id = 1
                  → 1 affected
            ●  2                                        take: UPDATE job SET … WHERE id = 1
                                                        → 1 affected

              1, 2  UPDATE job SET owner = 'x' WHERE id = 1

            ● makes up the violation

            replay it: rowlock replay one.schedule --on postgres
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn bounds_and_tallies_in_words() {
        assert_eq!(bounds(&Bounds::default()), "no faults");
        let some = Bounds {
            crashes: 1,
            clock: 3,
            ..Bounds::default()
        };
        assert_eq!(bounds(&some), "1 crash, 3 clock moves");
        let tally = Tally {
            cases: 3,
            met: 2,
            violated: 1,
            holds: 2,
            open: 0,
            pinned: 1,
            pinned_same: 1,
        };
        expect!["3 cases, 2 as expected (2 hold, 1 violated, 0 open); 1 pinned schedule, 1 as pinned; 2.0 s"].assert_eq(&summary(&tally, Duration::from_secs(2), &manner()));
    }
}
