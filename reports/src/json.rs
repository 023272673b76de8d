//! Results as JSON lines: one object a line, each with `"schema": 1` and a `"type"`. Within one
//! schema number keys are only added. Nothing here depends on the time that anything took, so equal
//! results give equal bytes.

use rowlock_model::schedule::{Choice, Event, Statement};
use rowlock_model::verdict::{Bounds, Interleavings, Verdict};
use rowlock_model::{Outcome, Value};
use serde::Serialize;

use crate::frame::Frame;
use crate::terminal::{Case, CaseResult, Tally};

/// The number in every object.
pub const SCHEMA: u32 = 1;

/// Serialises one object as one line without its newline.
pub(crate) fn line(object: &impl Serialize) -> String {
    // Strings, numbers, lists and maps with text keys always serialise.
    serde_json::to_string(object).unwrap_or_default()
}

#[derive(Serialize)]
struct CaseObject<'a> {
    schema: u32,
    r#type: &'static str,
    #[serde(flatten)]
    case: CaseKeys<'a>,
    title: &'a str,
    verdict: &'static str,
    expected: &'a str,
    found: &'a str,
    met: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    property: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<&'a Bounds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<CountsObject>,
}

/// The keys that name a case.
#[derive(Serialize)]
pub(crate) struct CaseKeys<'a> {
    file: &'a str,
    variant: Option<&'a str>,
    database: &'static str,
    isolation: &'static str,
}

impl<'a> CaseKeys<'a> {
    pub(crate) fn of(case: &'a Case) -> CaseKeys<'a> {
        CaseKeys {
            file: &case.file,
            variant: case.variant.as_deref(),
            database: case.database.name(),
            isolation: case.isolation.name(),
        }
    }
}

#[derive(Serialize)]
struct CountsObject {
    states: u64,
    transitions: u64,
    statements: u64,
    terminal_states: u64,
    executions: u64,
    waits: u64,
    /// A decimal number, or `infinite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    interleavings: Option<String>,
}

/// The number of interleavings: all digits, `infinite`, or `more than 2^128`.
fn interleavings(count: Interleavings) -> String {
    match count {
        Interleavings::Exactly(count) => count.to_string(),
        Interleavings::Beyond => "more than 2^128".to_owned(),
        Interleavings::Endless => "infinite".to_owned(),
    }
}

/// The object of one case (`"type": "case"`).
pub fn case(result: &CaseResult) -> String {
    let exploration = result.exploration.as_ref();
    let violation = match exploration.map(|e| &e.verdict) {
        Some(Verdict::Violated(violation)) => Some(&**violation),
        _ => None,
    };
    let (verdict, why) = match exploration.map(|e| &e.verdict) {
        None => ("unsupported", result.reason.as_deref()),
        Some(Verdict::Holds) => ("holds", None),
        Some(Verdict::Violated(v)) => ("violated", Some(v.detail.as_str())),
        Some(Verdict::Vacuous(why)) => ("vacuous", Some(why.as_str())),
        Some(Verdict::Incomplete(why)) => ("incomplete", Some(why.as_str())),
        Some(Verdict::Unsupported(what)) => ("unsupported", Some(what.what.as_str())),
    };
    line(&CaseObject {
        schema: SCHEMA,
        r#type: "case",
        case: CaseKeys::of(&result.case),
        title: &result.case.title,
        verdict,
        expected: &result.expected,
        found: &result.found,
        met: result.met,
        property: violation.map(|v| v.property.as_str()),
        detail: why,
        events: violation.map(|v| v.schedule.events.len()),
        schedule_file: result.schedule_file.as_deref(),
        bounds: exploration.map(|e| &e.bounds),
        counts: exploration.map(|e| CountsObject {
            states: e.counts.states,
            transitions: e.counts.transitions,
            statements: e.counts.statements,
            terminal_states: e.counts.terminal_states,
            executions: e.counts.executions,
            waits: e.counts.waits,
            interleavings: e.counts.interleavings.map(interleavings),
        }),
    })
}

#[derive(Serialize)]
struct StepObject<'a> {
    schema: u32,
    r#type: &'static str,
    #[serde(flatten)]
    case: Option<CaseKeys<'a>>,
    schedule: &'a str,
    index: usize,
    event: &'static str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Vec<serde_json::Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    micros: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<String>,
    outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<&'a [String]>,
    matters: bool,
}

/// The objects of a schedule's events (`"type": "step"`), one a line, each line with its newline.
/// `schedule` says which schedule of the case this is: `violation`, or the name of a pinned one.
pub fn steps(case: Option<&Case>, schedule: &str, events: &[Event], matters: &[usize]) -> String {
    let mut out = String::new();
    for (index, event) in events.iter().enumerate() {
        let object = step(case, schedule, index, event, matters.contains(&index));
        out.push_str(&line(&object));
        out.push('\n');
    }
    out
}

fn step<'a>(
    case: Option<&'a Case>,
    schedule: &'a str,
    index: usize,
    event: &'a Event,
    matters: bool,
) -> StepObject<'a> {
    let statement: Option<&Statement> = event.statement.as_ref();
    StepObject {
        schema: SCHEMA,
        r#type: "step",
        case: case.map(CaseKeys::of),
        schedule,
        index,
        event: Frame::of(event).kind.name(),
        session: &event.actor,
        step: event.step.as_deref(),
        sql: statement.map(|s| &*s.sql),
        args: statement
            .filter(|s| !s.args.is_empty())
            .map(|s| s.args.iter().map(value).collect()),
        micros: match event.choice {
            Choice::Advance(micros) => Some(micros),
            _ => None,
        },
        loss: match event.choice {
            Choice::Lose(_, _, loss) => Some(loss.to_string()),
            _ => None,
        },
        outcome: event.outcome.as_ref().map(|outcome| match outcome {
            Outcome::Pauses(row) if !row.is_empty() => format!("pauses before {row}"),
            outcome => outcome.to_string(),
        }),
        message: match &event.outcome {
            Some(Outcome::Failed(error)) => Some(&error.message),
            _ => None,
        },
        waits_for: match &event.outcome {
            Some(Outcome::Waits(behind)) => Some(behind),
            _ => None,
        },
        matters,
    }
}

/// JSON's own type where it has one, otherwise the text that `psql` would print.
pub fn value(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(i) => (*i).into(),
        other => other.to_string().into(),
    }
}

#[derive(Serialize)]
struct SummaryObject {
    schema: u32,
    r#type: &'static str,
    cases: u64,
    met: u64,
    holds: u64,
    violated: u64,
    open: u64,
    pinned: u64,
    pinned_same: u64,
    exit_code: u8,
}

/// The last object (`"type": "summary"`).
pub fn summary(tally: &Tally, exit_code: u8) -> String {
    line(&SummaryObject {
        schema: SCHEMA,
        r#type: "summary",
        cases: tally.cases,
        met: tally.met,
        holds: tally.holds,
        violated: tally.violated,
        open: tally.open,
        pinned: tally.pinned,
        pinned_same: tally.pinned_same,
        exit_code,
    })
}

#[derive(Serialize)]
struct ReplaySummaryObject {
    schema: u32,
    r#type: &'static str,
    schedules: u64,
    same: u64,
    exit_code: u8,
}

/// The last object of replays and mirrors (`"type": "summary"`): `same` schedules were confirmed,
/// or the same on both.
pub fn replay_summary(schedules: u64, same: u64, exit_code: u8) -> String {
    line(&ReplaySummaryObject {
        schema: SCHEMA,
        r#type: "summary",
        schedules,
        same,
        exit_code,
    })
}

#[derive(Serialize)]
struct SpecObject<'a> {
    schema: u32,
    r#type: &'static str,
    spec: &'a str,
    permutation: usize,
    ending: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    equal: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<DifferenceObject<'a>>,
}

#[derive(Serialize)]
struct DifferenceObject<'a> {
    line: usize,
    expected: Option<&'a str>,
    got: Option<&'a str>,
}

/// The object of one permutation of an isolation spec (`"type": "permutation"`). `equal` is there
/// only if something was expected.
pub fn spec_permutation(
    spec: &str,
    permutation: usize,
    ending: &str,
    reason: Option<&str>,
    equal: Option<bool>,
    difference: Option<&rowlock_scenarios::spec::Difference>,
) -> String {
    line(&SpecObject {
        schema: SCHEMA,
        r#type: "permutation",
        spec,
        permutation,
        ending,
        reason,
        equal,
        difference: difference.map(|d| DifferenceObject {
            line: d.line,
            expected: d.expected.as_deref(),
            got: d.got.as_deref(),
        }),
    })
}

#[derive(Serialize)]
struct SpecSummaryObject {
    schema: u32,
    r#type: &'static str,
    permutations: u64,
    right: u64,
    exit_code: u8,
}

/// The last object of `rowlock spec` (`"type": "summary"`).
pub fn spec_summary(permutations: u64, right: u64, exit_code: u8) -> String {
    line(&SpecSummaryObject {
        schema: SCHEMA,
        r#type: "summary",
        permutations,
        right,
        exit_code,
    })
}

#[derive(Serialize)]
struct StartObject<'a> {
    schema: u32,
    r#type: &'static str,
    rowlock: &'a str,
    seed: u64,
}

/// The first object of a run (`"type": "start"`): the program's version and the seed.
pub fn start(version: &str, seed: u64) -> String {
    line(&StartObject {
        schema: SCHEMA,
        r#type: "start",
        rowlock: version,
        seed,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use rowlock_model::schedule::{Loss, ProcessId, RequestId, Schedule};
    use rowlock_model::verdict::{Counts, Exploration, Violation};
    use rowlock_model::{Dialect, Isolation};

    use super::*;

    fn case_of(verdict: Option<Verdict>) -> CaseResult {
        CaseResult {
            case: Case {
                file: "a.toml".into(),
                title: "t".into(),
                variant: None,
                database: Dialect::Postgres,
                isolation: Isolation::ReadCommitted,
            },
            expected: "holds".into(),
            found: "x".into(),
            met: false,
            exploration: verdict.map(|verdict| Exploration {
                verdict,
                bounds: Bounds::default(),
                counts: Counts::default(),
            }),
            reason: Some("MERGE".into()),
            schedule_file: None,
            elapsed: Duration::from_secs(1),
        }
    }

    fn events() -> Vec<Event> {
        vec![
            Event {
                choice: Choice::Lose(ProcessId(0), RequestId(0), Loss::ReplyLost),
                actor: "w".into(),
                step: Some("take".into()),
                statement: Some(Statement {
                    sql: "SELECT $1".into(),
                    args: vec![Value::Int(1), Value::Null, Value::Timestamp(0)],
                    batch: false,
                }),
                outcome: Some(Outcome::Waits(vec!["v".into()])),
            },
            Event {
                choice: Choice::Advance(5),
                actor: "".into(),
                step: None,
                statement: None,
                outcome: None,
            },
        ]
    }

    #[test]
    fn cases() {
        let violation = Violation {
            property: "p".into(),
            detail: "d".into(),
            schedule: Schedule { events: events() },
            matters: vec![0],
        };
        let text = [
            case(&case_of(Some(Verdict::Violated(Box::new(violation))))),
            case(&case_of(None)),
        ]
        .join("\n");
        expect![[r#"
            {"schema":1,"type":"case","file":"a.toml","variant":null,"database":"postgres","isolation":"read committed","title":"t","verdict":"violated","expected":"holds","found":"x","met":false,"property":"p","detail":"d","events":2,"bounds":{"crashes":0,"kills":0,"losses":0,"clock":0,"cancels":0,"rounds":0},"counts":{"states":0,"transitions":0,"statements":0,"terminal_states":0,"executions":0,"waits":0}}
            {"schema":1,"type":"case","file":"a.toml","variant":null,"database":"postgres","isolation":"read committed","title":"t","verdict":"unsupported","expected":"holds","found":"x","met":false,"detail":"MERGE"}"#]].assert_eq(&text);
    }

    #[test]
    fn steps_and_ends() {
        let text = format!(
            "{}\n{}{}\n",
            start("0.1.0", 7),
            steps(None, "violation", &events(), &[0]),
            summary(&Tally::default(), 0)
        );
        expect![[r#"
            {"schema":1,"type":"start","rowlock":"0.1.0","seed":7}
            {"schema":1,"type":"step","schedule":"violation","index":0,"event":"lose","session":"w","step":"take","sql":"SELECT $1","args":[1,null,"1970-01-01 00:00:00"],"loss":"reply-lost","outcome":"waits","waits_for":["v"],"matters":true}
            {"schema":1,"type":"step","schedule":"violation","index":1,"event":"advance","session":"","micros":5,"outcome":null,"matters":false}
            {"schema":1,"type":"summary","cases":0,"met":0,"holds":0,"violated":0,"open":0,"pinned":0,"pinned_same":0,"exit_code":0}
        "#]].assert_eq(&text);
    }
}
