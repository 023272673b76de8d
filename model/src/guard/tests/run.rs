//! `apply` and `sync`: what is known after every failure of anything.

use std::sync::{Arc, Mutex};

use super::*;

/// What destination, workspace and journal do, all counted together with the session's calls.
#[derive(Clone, Default)]
struct World {
    done: Arc<Mutex<Vec<String>>>,
    fails_at: Option<usize>,
    /// Another schema, another published checksum, no reservation.
    other_schema: bool,
    other_checksum: bool,
    reserved: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("{0} failed with secret hunter22")]
struct Broken(String);

impl World {
    fn step(&self, name: &str) -> Result<(), Broken> {
        let mut done = self.done.lock().unwrap();
        done.push(name.to_owned());
        match self.fails_at == Some(done.len() - 1) {
            true => Err(Broken(name.to_owned())),
            false => Ok(()),
        }
    }

    fn host(&self) -> FakeHost {
        let world = self.clone();
        server(move |call| {
            let words = [
                ("set_config", "deadline"),
                ("unlock", "unlock"),
                ("pg_advisory_lock", "lock"),
                ("pg_locks", "prove"),
            ];
            let word = words.iter().find(|(text, _)| call.sql.contains(text));
            let name = word.map_or(&*call.sql, |(_, word)| word);
            world.step(name).is_err().then(|| Err(lost()))
        })
    }

    fn log(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }
}

impl Destination for World {
    type Error = Broken;

    async fn schema(&mut self) -> Result<Arc<str>, Broken> {
        self.step("schema")?;
        Ok(if self.other_schema { "s2" } else { "s1" }.into())
    }

    async fn write(&mut self, operation: &Operation) -> Result<(), Broken> {
        self.step(&format!("write {}", operation.name))
    }
}

impl Workspace for World {
    type Error = Broken;

    async fn plan(&mut self, schema: &str) -> Result<Plan, Broken> {
        self.step("plan")?;
        let mut plan = plan();
        plan.schema = schema.into();
        Ok(plan)
    }

    async fn publish(&mut self, _plan: &Plan) -> Result<(), Broken> {
        self.step("publish")
    }

    async fn verify(&mut self, plan: &Plan) -> Result<String, Broken> {
        self.step("verify")?;
        Ok(match self.other_checksum {
            true => "another".to_owned(),
            false => plan.checksum(),
        })
    }
}

impl Journal for World {
    type Error = Broken;

    async fn reserve(&mut self) -> Result<bool, Broken> {
        self.step("reserve")?;
        Ok(!self.reserved)
    }

    async fn checkpoint(&mut self, _report: &Report) -> Result<(), Broken> {
        self.step("checkpoint")
    }

    async fn succeed(&mut self) -> Result<(), Broken> {
        self.step("succeed")
    }
}

fn plan() -> Plan {
    let operation = |name: &str, kind| Operation {
        name: name.into(),
        kind,
        content: "{}".into(),
    };
    Plan {
        configuration: "alpha".into(),
        schema: "s1".into(),
        operations: vec![
            operation("a", Kind::Create),
            operation("b", Kind::Delete),
            operation("c", Kind::Update),
            operation("d", Kind::Update),
        ],
    }
}

fn confirmed() -> Confirmation {
    Confirmation {
        binding: Some("alpha".into()),
        checksum: Some(plan().checksum().into()),
        write: true,
    }
}

fn options() -> GuardOptions {
    GuardOptions {
        secrets: Secrets::none().and("hunter22"),
        ..GuardOptions::default()
    }
}

fn run_apply(world: &World, confirmation: &Confirmation) -> Report {
    let host = world.host();
    let (mut destination, mut journal) = (world.clone(), world.clone());
    let report = host.run(apply(
        &host,
        &plan(),
        confirmation,
        &options(),
        &mut destination,
        &mut journal,
    ));
    assert_eq!(host.open_sessions(), 0);
    report
}

fn run_sync(world: &World, confirmation: &Confirmation) -> Report {
    let host = world.host();
    let (mut workspace, mut destination, mut journal) =
        (world.clone(), world.clone(), world.clone());
    let report = host.run(sync(
        &host,
        "alpha",
        confirmation,
        &options(),
        &mut workspace,
        &mut destination,
        &mut journal,
    ));
    assert_eq!(host.open_sessions(), 0);
    report
}

const WRITES: [&str; 7] = [
    "prove", "write a", "prove", "write c", "prove", "write d", "prove",
];

const END: [&str; 4] = ["unlock", "close", "checkpoint", "succeed"];

#[test]
fn an_applied_plan_is_proved_written_proved_released_and_recorded() {
    let world = World::default();
    let report = run_apply(&world, &confirmed());
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert_eq!(report.completed, ["a".into(), "c".into(), "d".into()]);
    assert_eq!(report.skipped, ["b".into()], "nothing is ever deleted");
    let start = ["reserve", "connect", "deadline", "lock", "prove", "schema"];
    assert_eq!(world.log(), [&start[..], &WRITES, &END].concat());
}

#[test]
fn a_sync_plans_and_publishes_under_the_guard() {
    let world = World::default();
    let report = run_sync(&world, &confirmed());
    assert_eq!(report.outcome, Outcome::Succeeded);
    let start = [
        "reserve", "connect", "deadline", "lock", "prove", "schema", "plan", "publish", "verify",
    ];
    assert_eq!(world.log(), [&start[..], &WRITES, &END].concat());
}

#[test]
fn every_failure_of_anything_is_failed_before_the_first_write_and_ambiguous_after_it() {
    type Runs = fn(&World, &Confirmation) -> Report;
    for run in [run_apply as Runs, run_sync] {
        let whole = World::default();
        run(&whole, &confirmed());
        let names = whole.log();
        let first_write = names.iter().position(|name| name == "write a").unwrap();
        for (index, name) in names.iter().enumerate() {
            let world = World {
                fails_at: Some(index),
                ..World::default()
            };
            let report = run(&world, &confirmed());
            let expected = match index < first_write {
                true => (Outcome::Failed, Execution::Failed),
                false => (Outcome::Ambiguous, Execution::Interrupted),
            };
            assert_eq!(
                (report.outcome, report.execution),
                expected,
                "{name} {index}"
            );
            let ambiguous = report.outcome == Outcome::Ambiguous;
            assert_eq!(report.reconciliation_required, ambiguous);
            assert!(report.stopped.is_some(), "{name}");
            assert!(!world.log().contains(&"succeed".to_owned()) || name == "succeed");
            // Every operation is in the record once: done, uncertain, or not sent.
            let uncertain = report.uncertain.iter();
            let known = report
                .completed
                .iter()
                .chain(&report.skipped)
                .chain(uncertain);
            let mut known: Vec<&str> = known.map(|name| &**name).collect();
            known.sort_unstable();
            let sent = index + 1 >= first_write;
            assert_eq!(
                known,
                if sent { &["a", "b", "c", "d"][..] } else { &[] },
                "{name}"
            );
            assert_eq!(report.uncertain.is_some(), name.starts_with("write"));
            assert!(!chain(&report.stopped.unwrap().1).contains("hunter22"));
        }
    }
}

#[test]
fn what_nobody_agreed_to_opens_no_connection() {
    type Runs = fn(&World, &Confirmation) -> Report;
    let cases: [(Runs, Confirmation, Refusal); 5] = [
        (
            run_apply,
            Confirmation {
                binding: None,
                ..confirmed()
            },
            Refusal::Binding,
        ),
        (
            run_apply,
            Confirmation {
                checksum: Some("stale".into()),
                ..confirmed()
            },
            Refusal::Checksum,
        ),
        (
            run_apply,
            Confirmation {
                checksum: None,
                ..confirmed()
            },
            Refusal::Checksum,
        ),
        (
            run_sync,
            Confirmation {
                binding: Some("beta".into()),
                ..confirmed()
            },
            Refusal::Binding,
        ),
        (
            run_sync,
            Confirmation {
                write: false,
                ..confirmed()
            },
            Refusal::Unconfirmed,
        ),
    ];
    for (run, confirmation, refusal) in cases {
        let world = World::default();
        let report = run(&world, &confirmation);
        assert_eq!(report.outcome, Outcome::Failed);
        assert_eq!(report.stopped, Some((Stage::Checks, refusal)));
        assert!(world.log().is_empty());
    }
    let world = World {
        reserved: true,
        ..World::default()
    };
    let report = run_apply(&world, &confirmed());
    assert_eq!(report.stopped, Some((Stage::Reserve, Refusal::Reserved)));
    assert_eq!(world.log(), ["reserve"]);
}

#[test]
fn another_schema_or_another_published_plan_is_not_written() {
    let world = World {
        other_schema: true,
        ..World::default()
    };
    let report = run_apply(&world, &confirmed());
    assert_eq!(report.stopped, Some((Stage::Schema, Refusal::Schema)));
    let world = World {
        other_checksum: true,
        ..World::default()
    };
    let report = run_sync(&world, &confirmed());
    assert_eq!(report.stopped, Some((Stage::Verify, Refusal::Checksum)));
    assert!(!world.log().iter().any(|name| name.starts_with("write")));
}

#[test]
fn a_checksum_is_of_every_field() {
    let sums = [
        plan(),
        Plan {
            configuration: "alphas".into(),
            schema: "1".into(),
            ..plan()
        },
        Plan {
            operations: plan().operations[..3].to_vec(),
            ..plan()
        },
    ];
    let mut sums: Vec<String> = sums.iter().map(Plan::checksum).collect();
    assert!(sums.iter().all(|sum| sum.len() == 64));
    sums.dedup();
    assert_eq!(sums.len(), 3);
}
