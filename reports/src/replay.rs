//! Replays: what was expected of each step, and what came.

use rowlock_model::schedule::Event;
use rowlock_model::{ErrorClass, Outcome};
use rowlock_scenarios::replay::{
    Agreement, Conclusion, Difference, Mirror, Replay, Step, StepVerdict,
};
use serde::Serialize;

use crate::frame::Frame;
use crate::json::{self, CaseKeys, SCHEMA};
use crate::lanes::Lanes;
use crate::layout::{counted, filler};
use crate::style::paint;
use crate::terminal::{Case, Columns, Manner};

/// A schedule that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The case that the schedule belongs to.
    pub case: Case,
    /// The name of the pinned schedule, or `schedule`.
    pub schedule: String,
    /// The run; the last one if there were several.
    pub replay: Replay,
    /// How often it was run, because the server took another branch.
    pub tries: u32,
}

/// What a replay comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// Every step and the end as expected.
    Confirmed,
    /// Every step as expected, but not the end.
    Refuted,
    /// A step is not as expected.
    Differs,
    /// The server went another way where it is free to choose, each time.
    OtherBranch,
}

impl Summary {
    /// The word that reports use.
    pub fn word(self) -> &'static str {
        match self {
            Summary::Confirmed => "confirmed",
            Summary::Refuted => "refuted",
            Summary::Differs => "differs",
            Summary::OtherBranch => "other branch",
        }
    }
}

impl Replayed {
    /// The step at which the run left the schedule.
    fn diverged(&self) -> Option<(usize, &Step)> {
        match self.replay.conclusion {
            Conclusion::DivergedAt(at) => Some((at, self.replay.steps.get(at)?)),
            Conclusion::Confirmed | Conclusion::Refuted => None,
        }
    }

    /// What it comes to.
    pub fn summary(&self) -> Summary {
        match (&self.replay.conclusion, self.diverged()) {
            (Conclusion::Confirmed, _) => Summary::Confirmed,
            (Conclusion::Refuted, _) => Summary::Refuted,
            (_, Some((_, step))) if matches!(step.verdict, StepVerdict::OtherBranch { .. }) => {
                Summary::OtherBranch
            }
            (Conclusion::DivergedAt(_), _) => Summary::Differs,
        }
    }

    /// Whether the run ended at something that the simulator does not model.
    pub fn is_unsupported(&self) -> bool {
        let Some((_, step)) = self.diverged() else {
            return false;
        };
        step.events.iter().any(|event| match &event.outcome {
            Some(Outcome::Failed(error)) => error.class == ErrorClass::Unsupported,
            _ => false,
        })
    }

    /// What was expected and what came, at the step or query that is not as expected.
    fn difference(&self) -> Option<(&str, &str)> {
        if let Some((_, step)) = self.diverged() {
            return match &step.verdict {
                StepVerdict::Differs { expected, got }
                | StepVerdict::OtherBranch { expected, got } => Some((expected, got)),
                StepVerdict::Same => None,
            };
        }
        let query = self.replay.finals.iter().find(|query| !query.same)?;
        Some((&query.expected, &query.got))
    }
}

/// One line: what was run, where, and what it comes to.
pub fn line(replayed: &Replayed, columns: Columns, manner: &Manner) -> String {
    let summary = replayed.summary();
    let palette = &manner.palette;
    let (word, style) = match summary {
        Summary::Confirmed => ("ok", palette.good),
        Summary::OtherBranch => ("open", palette.warn),
        Summary::Refuted | Summary::Differs => ("FAILED", palette.bad),
    };
    let name = replayed.case.name();
    let target = replayed.case.target();
    let mut line = format!(
        "{}{}  {name}{}  {target}{}  {}: {}",
        paint(style, word),
        filler(word, 6),
        filler(&name, columns.name),
        filler(&target, columns.target),
        replayed.schedule,
        summary.word(),
    );
    if let Some((at, _)) = replayed.diverged() {
        line.push_str(&format!(" at step {}", at + 1));
    }
    let steps = counted(replayed.replay.steps.len() as u64, "step");
    let mut cost = format!("{}, {steps}", replayed.replay.server);
    if replayed.tries > 1 {
        cost.push_str(&format!(", {} tries", replayed.tries));
    }
    line.push_str(&format!("  {}", paint(palette.dim, &cost)));
    line
}

/// The last line: how many schedules there were, and how many of them are as they should be.
pub fn summary(all: u64, good: u64, word: &str) -> String {
    format!("\n{}, {good} {word}", counted(all, "schedule"))
}

/// The run as lanes, with what was expected where something else came.
pub fn lanes(replayed: &Replayed, manner: &Manner) -> String {
    let events = events(&replayed.replay);
    let frames = Frame::all(&events);
    let mut lanes = Lanes::new(&frames, manner.width);
    lanes.palette = manner.palette;
    lanes.verbose = manner.verbose;
    if let (Some(_), Some((expected, _))) = (replayed.diverged(), replayed.difference()) {
        let last = frames.len().saturating_sub(1);
        lanes.notes.insert(last, format!("expected: {expected}"));
    }
    let mut out = lanes.render();
    for query in replayed.replay.finals.iter().filter(|query| !query.same) {
        out.push_str(&format!(
            "\nat the end: {}\n  expected: {}\n  got:      {}\n",
            crate::shorten::one_line(&query.sql),
            query.expected,
            query.got
        ));
    }
    out
}

/// Every event of a run, in order.
fn events(replay: &Replay) -> Vec<Event> {
    let steps = replay.steps.iter();
    steps.flat_map(|step| step.events.iter().cloned()).collect()
}

#[derive(Serialize)]
struct ReplayObject<'a> {
    schema: u32,
    r#type: &'static str,
    #[serde(flatten)]
    case: CaseKeys<'a>,
    schedule: &'a str,
    server: &'a str,
    verdict: &'static str,
    steps: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    diverged_at: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    got: Option<&'a str>,
}

/// The object of one replay (`"type": "replay"`).
pub fn json(replayed: &Replayed) -> String {
    let difference = replayed.difference();
    json::line(&ReplayObject {
        schema: SCHEMA,
        r#type: "replay",
        case: CaseKeys::of(&replayed.case),
        schedule: &replayed.schedule,
        server: &replayed.replay.server,
        verdict: replayed.summary().word(),
        steps: replayed.replay.steps.len(),
        diverged_at: replayed.diverged().map(|(at, _)| at),
        expected: difference.map(|(expected, _)| expected),
        got: difference.map(|(_, got)| got),
    })
}

/// The objects of its steps (`"type": "step"`), each line with its newline.
pub fn json_steps(replayed: &Replayed) -> String {
    let events = events(&replayed.replay);
    json::steps(Some(&replayed.case), &replayed.schedule, &events, &[])
}

/// A schedule on the simulator and on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The case that the schedule belongs to.
    pub case: Case,
    /// The name of the pinned schedule, or `schedule`.
    pub schedule: String,
    /// Both runs.
    pub mirror: Mirror,
}

/// One line: what was run, and whether both agree.
pub fn mirror_line(mirrored: &Mirrored, columns: Columns, manner: &Manner) -> String {
    let palette = &manner.palette;
    let (word, style, what) = match &mirrored.mirror.difference {
        None if mirrored.mirror.agreement == Agreement::OtherBranch => {
            ("ok", palette.good, "other branch".to_owned())
        }
        None => ("ok", palette.good, "same".to_owned()),
        Some(Difference { step, .. }) => {
            let place = match step {
                Some(at) => format!("at step {}", at + 1),
                None => "at the end".to_owned(),
            };
            ("FAILED", palette.bad, format!("differs {place}"))
        }
    };
    let name = mirrored.case.name();
    let target = mirrored.case.target();
    let steps = counted(mirrored.mirror.right.steps.len() as u64, "step");
    let mut cost = format!("{}, {steps}", mirrored.mirror.right.server);
    if mirrored.mirror.branches > 1 {
        cost.push_str(&format!(", {} branches", mirrored.mirror.branches));
    }
    format!(
        "{}{}  {name}{}  {target}{}  {}: {what}  {}",
        paint(style, word),
        filler(word, 6),
        filler(&name, columns.name),
        filler(&target, columns.target),
        mirrored.schedule,
        paint(palette.dim, &cost),
    )
}

/// Both runs up to the first difference, which is shown below the lanes of the server.
pub fn mirror_lanes(mirrored: &Mirrored, manner: &Manner) -> String {
    let Some(difference) = &mirrored.mirror.difference else {
        return String::new();
    };
    let steps = &mirrored.mirror.right.steps;
    let shown = difference
        .step
        .map_or(steps.len(), |at| (at + 1).min(steps.len()));
    let events: Vec<Event> = steps[..shown]
        .iter()
        .flat_map(|s| s.events.iter().cloned())
        .collect();
    let frames = Frame::all(&events);
    let mut lanes = Lanes::new(&frames, manner.width);
    lanes.palette = manner.palette;
    lanes.verbose = manner.verbose;
    format!(
        "{}\n{}: {}\n{}: {}\n",
        lanes.render(),
        mirrored.mirror.left.server,
        difference.left,
        mirrored.mirror.right.server,
        difference.right,
    )
}

#[derive(Serialize)]
struct MirrorObject<'a> {
    schema: u32,
    r#type: &'static str,
    #[serde(flatten)]
    case: CaseKeys<'a>,
    schedule: &'a str,
    servers: [&'a str; 2],
    same: bool,
    agreement: &'static str,
    branches: u32,
    steps: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    differs_at: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    got: Option<[&'a str; 2]>,
}

/// The object of one mirrored schedule (`"type": "mirror"`).
pub fn mirror_json(mirrored: &Mirrored) -> String {
    let mirror = &mirrored.mirror;
    let difference = mirror.difference.as_ref();
    json::line(&MirrorObject {
        schema: SCHEMA,
        r#type: "mirror",
        case: CaseKeys::of(&mirrored.case),
        schedule: &mirrored.schedule,
        servers: [&mirror.left.server, &mirror.right.server],
        same: difference.is_none(),
        agreement: match mirror.agreement {
            Agreement::Same => "same",
            Agreement::OtherBranch => "other branch",
            Agreement::Differs => "differs",
        },
        branches: mirror.branches,
        steps: mirror.right.steps.len(),
        differs_at: difference.and_then(|d| d.step),
        got: difference.map(|d| [d.left.as_str(), d.right.as_str()]),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use rowlock_model::schedule::{Choice, ProcessId, RequestId, Statement};
    use rowlock_model::{Dialect, Isolation, Reply};
    use rowlock_scenarios::replay::FinalQuery;

    use super::*;
    use crate::style::Palette;

    fn manner() -> Manner {
        Manner {
            width: 80,
            palette: Palette::plain(),
            verbose: false,
        }
    }

    fn step(verdict: StepVerdict) -> Step {
        Step {
            token: "a:take".into(),
            events: vec![Event {
                choice: Choice::Step(ProcessId(0), RequestId(0)),
                actor: "a".into(),
                step: Some("take".into()),
                statement: Some(Statement {
                    sql: "UPDATE job SET state = 'done'".into(),
                    args: vec![],
                    batch: false,
                }),
                outcome: Some(Outcome::Done(Reply {
                    affected: 1,
                    ..Reply::tag("UPDATE")
                })),
            }],
            waiting: vec![],
            verdict,
        }
    }

    fn replayed(conclusion: Conclusion, verdict: StepVerdict) -> Replayed {
        Replayed {
            case: Case {
                file: "a.toml".into(),
                title: "t".into(),
                variant: None,
                database: Dialect::Postgres,
                isolation: Isolation::ReadCommitted,
            },
            schedule: "as reported".into(),
            replay: Replay {
                server: "PostgreSQL 15.18".into(),
                steps: vec![step(StepVerdict::Same), step(verdict)],
                finals: vec![FinalQuery {
                    sql: "SELECT count(*) FROM job".into(),
                    expected: "1 row (2)".into(),
                    got: "1 row (1)".into(),
                    outcome: Outcome::Waits(Vec::new()),
                    same: conclusion != Conclusion::Refuted,
                }],
                conclusion,
                numbers: Vec::new(),
                ended: None,
            },
            tries: 1,
        }
    }

    #[test]
    fn every_conclusion_has_its_line_and_its_reason() {
        let differs = || StepVerdict::Differs {
            expected: "waits (b)".into(),
            got: "1 affected".into(),
        };
        let other = || StepVerdict::OtherBranch {
            expected: "1 affected".into(),
            got: "waits".into(),
        };
        let runs = [
            replayed(Conclusion::Confirmed, StepVerdict::Same),
            replayed(Conclusion::Refuted, StepVerdict::Same),
            replayed(Conclusion::DivergedAt(1), differs()),
            replayed(Conclusion::DivergedAt(1), other()),
        ];
        let mut text = String::new();
        for run in &runs {
            let columns = Columns::of([&run.case]);
            text.push_str(&format!(
                "{}\n{}\n",
                line(run, columns, &manner()),
                json(run)
            ));
        }
        text.push_str(&lanes(&runs[1], &manner()));
        text.push_str(&lanes(&runs[2], &manner()));
        expect![[r#"
            ok      a.toml  postgres/read committed  as reported: confirmed  PostgreSQL 15.18, 2 steps
            {"schema":1,"type":"replay","file":"a.toml","variant":null,"database":"postgres","isolation":"read committed","schedule":"as reported","server":"PostgreSQL 15.18","verdict":"confirmed","steps":2}
            FAILED  a.toml  postgres/read committed  as reported: refuted  PostgreSQL 15.18, 2 steps
            {"schema":1,"type":"replay","file":"a.toml","variant":null,"database":"postgres","isolation":"read committed","schedule":"as reported","server":"PostgreSQL 15.18","verdict":"refuted","steps":2,"expected":"1 row (2)","got":"1 row (1)"}
            FAILED  a.toml  postgres/read committed  as reported: differs at step 2  PostgreSQL 15.18, 2 steps
            {"schema":1,"type":"replay","file":"a.toml","variant":null,"database":"postgres","isolation":"read committed","schedule":"as reported","server":"PostgreSQL 15.18","verdict":"differs","steps":2,"diverged_at":1,"expected":"waits (b)","got":"1 affected"}
            open    a.toml  postgres/read committed  as reported: other branch at step 2  PostgreSQL 15.18, 2 steps
            {"schema":1,"type":"replay","file":"a.toml","variant":null,"database":"postgres","isolation":"read committed","schedule":"as reported","server":"PostgreSQL 15.18","verdict":"other branch","steps":2,"diverged_at":1,"expected":"1 affected","got":"waits"}
                  a
               1  take: UPDATE job SET state = 'done' → 1 affected
               2  take: UPDATE job SET state = 'done' → 1 affected

            at the end: SELECT count(*) FROM job
              expected: 1 row (2)
              got:      1 row (1)
                  a
               1  take: UPDATE job SET state = 'done' → 1 affected
               2  take: UPDATE job SET state = 'done' → 1 affected
                  expected: waits (b)
        "#]].assert_eq(&text);
    }
}
