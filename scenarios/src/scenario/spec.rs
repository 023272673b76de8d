//! An isolation spec as a scenario: every interleaving of what its sessions send.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rowlock_model::schedule::Granularity;
use rowlock_model::verdict::Bounds;
use rowlock_model::{Dialect, Isolation};

use super::process::{check_name, is_label};
use super::reader::Reader;
use super::{
    Body, Case, Event, EventTest, Expectation, Process, Program, Property, Scenario, Step,
    StepAction, Test, When, no_such,
};
use crate::binding::Bound;
use crate::expr::{self, Attribute, Expr, Kind, Layout, Name};
use crate::source::{FileError, Problem, Source, Text};
use crate::spec::{Spec, SpecSession, StepId};
use crate::sqltext::statements;

/// What no interleaving may come to: a name, and the event that must not happen. Each error is one
/// of them, but for those of statements in a transaction that has failed before.
const FINDINGS: [(&str, &str); 5] = [
    ("no deadlock", "step.class == 'deadlock'"),
    ("no serialization failure", "step.class == 'serialization'"),
    ("no lock failure", "step.class == 'contention'"),
    ("no cancelled statement", "step.class == 'cancelled'"),
    (
        "no other error",
        "step.class != '' and step.class != 'transaction-aborted' and step.class != 'deadlock' \
         and step.class != 'serialization' and step.class != 'contention' \
         and step.class != 'cancelled'",
    ),
];

/// Reads a spec as a scenario with a case for each variant and level.
pub(super) fn scenario(source: Source, levels: &[Isolation]) -> Result<Scenario, FileError> {
    let spec = Spec::as_written(&source)?;
    let mut reader = Reader {
        source,
        problems: Vec::new(),
    };
    let mut cases = Vec::new();
    for variant in variants(&spec) {
        let processes = processes(&spec, &variant, &mut reader);
        for level in levels {
            cases.push(case(&spec, &variant, &processes, *level, &mut reader));
        }
    }
    if !reader.problems.is_empty() {
        return Err(FileError::new(reader.source, reader.problems));
    }
    let file = Path::new(&*reader.source.path).file_name();
    let file = file.unwrap_or_default().to_string_lossy();
    Ok(Scenario {
        title: format!("isolation spec {file}").into(),
        description: "".into(),
        sources: Vec::new(),
        cases,
        source: reader.source,
    })
}

/// What each session sends between its set-up and its teardown.
struct Variant {
    name: Arc<str>,
    steps: Vec<Vec<StepId>>,
}

/// Without permutations all steps. With permutations one variant for each choice of steps that
/// some permutation makes; permutations that differ only in how sessions take turns are the same.
fn variants(spec: &Spec) -> Vec<Variant> {
    let of_session = |session: usize, ids: &mut dyn Iterator<Item = StepId>| -> Vec<StepId> {
        ids.filter(|id| id.session == session).collect()
    };
    let sessions = 0..spec.sessions.len();
    if !spec.is_explicit {
        let all = |session| of_session(session, &mut spec.steps().map(|(id, _)| id));
        return vec![Variant {
            name: "".into(),
            steps: sessions.map(all).collect(),
        }];
    }
    let mut seen = BTreeSet::new();
    let mut variants = Vec::new();
    for (number, permutation) in spec.permutations.iter().enumerate() {
        let sent = |session| {
            of_session(
                session,
                &mut permutation.entries.iter().map(|entry| entry.step),
            )
        };
        let steps: Vec<Vec<StepId>> = sessions.clone().map(sent).collect();
        if seen.insert(steps.clone()) {
            let name = format!("permutation {}", number + 1).into();
            variants.push(Variant { name, steps });
        }
    }
    if let [only] = &mut variants[..] {
        only.name = "".into();
    }
    variants
}

fn case(
    spec: &Spec,
    variant: &Variant,
    processes: &[Process],
    isolation: Isolation,
    reader: &mut Reader,
) -> Case {
    let (properties, events) = findings(reader);
    let of_level = |process: &Process| Process {
        isolation,
        events: Arc::clone(&events),
        ..process.clone()
    };
    Case {
        variant: Arc::clone(&variant.name),
        description: "".into(),
        database: Dialect::Postgres,
        isolation,
        setup: one_message(&spec.setups, &reader.source),
        // A timeout of the file can run out; without one the clock has nowhere to go.
        bounds: Bounds {
            clock: 1,
            ..Bounds::default()
        },
        granularity: Granularity::default(),
        pooler: 0,
        needs_contention: true,
        guarantees: Vec::new(),
        processes: processes.iter().map(of_level).collect(),
        properties,
        pinned: Vec::new(),
        expect: Expectation::Holds,
    }
}

fn processes(spec: &Spec, variant: &Variant, reader: &mut Reader) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::new();
    for (session, steps) in spec.sessions.iter().zip(&variant.steps) {
        if !is_label(&session.name) {
            let message = format!("`{}` is not a process name", session.name);
            let problem = Problem::new(session.span.clone(), message);
            let help = "letters, digits, `_` and `-`, beginning with a letter";
            reader.problems.push(problem.help(help));
        }
        if processes.iter().any(|p| *p.label == *session.name) {
            let message = format!("two sessions are named `{}`", session.name);
            reader.problem(session.span.clone(), message);
        }
        let steps = program(spec, session, steps, reader);
        if steps.is_empty() {
            continue;
        }
        let label: Arc<str> = session.name.as_str().into();
        processes.push(Process {
            group: Arc::clone(&label),
            label,
            sessions: 1,
            isolation: Isolation::ReadCommitted,
            connect: None,
            skew_micros: 0,
            body: Body::Steps(Arc::new(Program {
                steps,
                vars: Vec::new(),
                repeat: false,
                until: None,
                layout: Layout::default(),
                reads_round: false,
                rounds: 0,
                cancels: 0,
                last_use: Vec::new(),
                var_spans: Vec::new(),
                vars_read: BTreeSet::new(),
            })),
            events: Arc::from([]),
        });
    }
    processes
}

/// The set-up of a session, its steps, its teardown.
fn program(spec: &Spec, session: &SpecSession, ids: &[StepId], reader: &mut Reader) -> Vec<Step> {
    for id in ids {
        let step = spec.step(*id);
        check_name(&step.name, &step.span, "a step", reader);
    }
    let setup = session.setup.iter().map(|sql| ("setup", sql));
    let steps = ids.iter().map(|id| spec.step(*id));
    let steps = steps.map(|step| (step.name.as_str(), &step.sql));
    let teardown = session.teardown.iter().map(|sql| ("teardown", sql));
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut unique = |name: &str| -> Arc<str> {
        let others = (2..).map(|number| format!("{name}_{number}"));
        let mut all = std::iter::once(name.to_owned()).chain(others);
        // There is always a next number.
        let free = all.find(|name| !names.contains(name)).unwrap_or_default();
        names.insert(free.clone());
        free.into()
    };
    let sent = setup.chain(steps).chain(teardown);
    sent.map(|(name, sql)| Step {
        name: unique(name),
        action: match statements(&sql.text, Dialect::Postgres)[..] {
            [_] => StepAction::Sql(Bound::verbatim(sql.clone())),
            _ => StepAction::Batch(sql.clone()),
        },
        when: None,
        set: Vec::new(),
        session: 0,
        retry: Vec::new(),
        // The isolation tester goes on after an error, too.
        continue_on_error: true,
        cancel: false,
    })
    .collect()
}

/// Set-ups as one message in which every byte keeps its distance from the others, so that places in
/// it are places in the file: what stands between two of them becomes a `;` and blanks.
fn one_message(setups: &[Text], source: &Source) -> Option<Text> {
    let (first, rest) = setups.split_first()?;
    let mut message = first.text.to_string();
    let mut span = first.span.clone();
    let start = first.verbatim?;
    for next in rest {
        // It begins with `}` and ends with `{`. The line end closes a comment.
        let between = start + message.len()..next.verbatim?;
        message.push_str("\n;");
        let between = &source.text.as_bytes()[between][2..];
        message.extend(between.iter().map(|byte| match byte {
            b'\n' => '\n',
            _ => ' ',
        }));
        message.push_str(&next.text);
        span.end = next.span.end;
    }
    Some(Text {
        text: message.into(),
        span,
        verbatim: Some(start),
    })
}

/// The properties, and the events by which every process tells them.
fn findings(reader: &mut Reader) -> (Vec<Property>, Arc<[Event]>) {
    let mut properties = Vec::new();
    let mut events = Vec::new();
    for (property, (name, condition)) in FINDINGS.into_iter().enumerate() {
        properties.push(Property {
            name: name.into(),
            when: When::Always,
            test: Test::Event(EventTest {
                query: None,
                has_end: false,
                at_least: None,
                at_most: Some(0),
            }),
            span: 0..0,
        });
        events.extend(condition_of(condition, reader).map(|condition| Event {
            property,
            ends: false,
            steps: Vec::new(),
            condition,
            per: None,
            args: Vec::new(),
        }));
    }
    (properties, events.into())
}

/// A condition over the class of the step that was just done.
fn condition_of(condition: &str, reader: &mut Reader) -> Option<Expr> {
    let text = Text {
        text: condition.into(),
        span: 0..0,
        verbatim: None,
    };
    let parsed = expr::parse(&text, Kind::Bool, &mut |path| match &path.second {
        Some((attribute, quoted)) if path.first == "step" => {
            let attribute = Attribute::named(attribute, *quoted, true);
            let kind = attribute.kind();
            Ok((Name::Done(attribute), kind))
        }
        _ => Err(no_such("step", path.first, &[])),
    });
    parsed.map_err(|problem| reader.problems.push(problem)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scenario, FileError> {
        Scenario::of_spec(
            Source::new("a.spec", text),
            &[Isolation::ReadCommitted, Isolation::Serializable],
        )
    }

    /// `label: step step`, one line a process.
    fn outline(case: &Case) -> Vec<String> {
        let names = |process: &Process| {
            let names: Vec<&str> = process.steps().iter().map(|step| &*step.name).collect();
            format!("{}: {}", process.label, names.join(" "))
        };
        case.processes.iter().map(names).collect()
    }

    #[test]
    fn each_session_is_a_process_and_each_level_a_case() {
        let scenario = read(
            "setup { CREATE TABLE t (id int); }\nteardown { DROP TABLE t; }\n\
             session one setup { BEGIN; SET lock_timeout = 5; } step a { SELECT 1; }\n\
             step b { SELECT '1'; -- \u{e9}\n} teardown { COMMIT; }\n\
             session two step c { SELECT 2; SELECT 3 }",
        )
        .expect("it is right");
        let levels: Vec<String> = scenario.cases.iter().map(Case::key).collect();
        assert_eq!(levels, ["postgres/read committed", "postgres/serializable"]);
        for case in &scenario.cases {
            assert_eq!(outline(case), ["one: setup a b teardown", "two: c"]);
            assert!(case.processes.iter().all(|p| p.isolation == case.isolation));
            assert!(
                case.processes
                    .iter()
                    .all(|p| p.events.len() == FINDINGS.len())
            );
        }
        let steps = scenario.cases[0].processes[0].steps();
        assert!(
            matches!(&steps[0].action, StepAction::Batch(text) if text.text.starts_with("BEGIN"))
        );
        let StepAction::Sql(bound) = &steps[2].action else {
            panic!("one statement: {:?}", steps[2]);
        };
        assert_eq!(&scenario.source.text[bound.locate(7)], "'");
        assert!(matches!(
            scenario.cases[0].processes[1].steps()[0].action,
            StepAction::Batch(_)
        ));
    }

    #[test]
    fn permutations_that_send_the_same_are_one_variant() {
        let sessions = "session one step a { SELECT 1 } step b { SELECT 2 }\n\
                        session two step c { SELECT 3 } step d { SELECT 4 }\n\
                        session three step e { SELECT 5 }\n";
        let variants = |permutations: &str| {
            let scenario = read(&format!("{sessions}{permutations}")).expect("it is right");
            let cases = scenario.cases.iter().step_by(2);
            let of = |case: &Case| (case.variant.to_string(), outline(case));
            cases.map(of).collect::<Vec<_>>()
        };
        let all = ["one: a b", "two: c d", "three: e"].map(String::from);
        assert_eq!(variants(""), [(String::new(), all.to_vec())]);
        let some = vec!["one: b a b_2".to_owned(), "two: c".to_owned()];
        assert_eq!(
            variants("permutation b c a b\npermutation c b a b"),
            [(String::new(), some.clone())]
        );
        let other = vec!["two: d".to_owned()];
        assert_eq!(
            variants("permutation b c a b\npermutation b a b c\npermutation d"),
            [
                ("permutation 1".to_owned(), some),
                ("permutation 3".to_owned(), other)
            ]
        );
    }

    #[test]
    fn setups_are_one_message_that_knows_its_places() {
        let scenario = read(
            "setup { CREATE TABLE t (); -- \u{e9} }\n# \u{e9}\nsetup { CREATE TABLE u () }\n\
             session one step a { SELECT 1 }",
        )
        .expect("it is right");
        let setup = scenario.cases[0].setup.clone().expect("a set-up");
        let found = statements(&setup.text, Dialect::Postgres);
        let texts: Vec<&str> = found.iter().map(|at| &setup.text[at.clone()]).collect();
        assert!(
            texts.len() == 2 && texts[0].starts_with("CREATE TABLE t ()"),
            "{texts:?}"
        );
        let at = setup.text.find("u ()").expect("the second one");
        assert_eq!(&scenario.source.text[setup.locate(at..at + 4)], "u ()");
    }

    #[test]
    fn what_cannot_be_explored_is_told_with_its_place() {
        let error = read(
            "session \"1\" step a { SELECT 1 }\nsession two step \"a b\" { SELECT 1 }\n\
             session two step deadlock { SELECT 1 }",
        )
        .expect_err("names that schedules cannot say");
        assert_eq!(
            error.to_string(),
            "a.spec:1:9: `1` is not a process name\n    \
             help: letters, digits, `_` and `-`, beginning with a letter\n\
             a.spec:2:18: `a b` cannot name a step: letters, digits and `_` only\n\
             a.spec:3:9: two sessions are named `two`\n\
             a.spec:3:18: `deadlock` has a meaning of its own and cannot name a step"
        );
    }
}
