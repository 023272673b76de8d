//! The schedule file: reading is the inverse of writing, and mistakes are told with their place.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rowlock_model::schedule::{
    Choice, Event, Granularity, Loss, ProcessId, RequestId, Schedule, SessionId, Statement,
};
use rowlock_model::verdict::Bounds;
use rowlock_model::{
    Column, DbError, Dialect, ErrorClass, Isolation, Notice, Outcome, Reply, Value,
};
use rowlock_scenarios::Source;
use rowlock_scenarios::schedule::{ScheduleFile, ScheduleProcess};
use rowlock_scenarios::stage::Numbered;
use rust_decimal::Decimal;

/// Texts that are likely to be mistaken for syntax, and any other.
fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            " ",
            "ok",
            "''",
            "a: b",
            ":= 'x'",
            "  | x",
            "\n",
            "\r\n",
            "a\r",
            "x\n\n y \n",
            "\t",
            "#1",
            "+30s",
            "-> ok",
            "script",
            "resumes",
            "crash",
            "lost",
            "cancelled",
            "@3",
            "%1",
            "worker-1",
            "worker-1/2",
            "events",
            "\u{feff}",
            "\u{2028}",
            "é\\n",
            "(1, 2)",
            "a;b",
        ])
        .prop_map(Arc::from),
        "[a-z' :=|()#,\\\\\n-]{0,12}".prop_map(Arc::from),
        any::<String>().prop_map(Arc::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        (any::<i64>(), 0u32..28).prop_map(|(m, s)| Value::Decimal(Decimal::new(m, s))),
        text().prop_map(Value::Text),
        vec(any::<u8>(), 0..5).prop_map(|bytes| Value::Bytes(bytes.into())),
        any::<i32>().prop_map(Value::Date),
        (0i32..40_000).prop_map(Value::Date),
        any::<i64>().prop_map(Value::Time),
        (0i64..86_400_000_000).prop_map(Value::Time),
        any::<i64>().prop_map(Value::Timestamp),
        (0i64..4_000_000_000_000_000).prop_map(Value::Timestamp),
        (0i64..4_000_000_000_000_000).prop_map(Value::TimestampTz),
        any::<(i32, i32, i64)>().prop_map(|(months, days, micros)| Value::Interval {
            months,
            days,
            micros
        }),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        vec(inner, 0..3).prop_map(|items| Value::Array(items.into()))
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let columns = vec((text(), text()), 0..3);
    let rows = vec(vec(value(), 0..3), 0..3);
    let notices = vec((text(), text()), 0..2);
    let tag = prop_oneof![text(), Just("UPDATE".into()), Just("SELECT".into())];
    (columns, rows, 0u64..4, tag, notices).prop_map(|(columns, rows, affected, tag, notices)| {
        Reply {
            columns: columns
                .into_iter()
                .map(|(name, type_name)| Column { name, type_name })
                .collect(),
            rows: rows.into_iter().map(Into::into).collect(),
            affected,
            tag,
            notices: notices
                .into_iter()
                .map(|(severity, message)| Notice { severity, message })
                .collect(),
        }
    })
}

fn error() -> impl Strategy<Value = DbError> {
    let class = prop::sample::select(ErrorClass::NAMED.to_vec());
    let optional = || option::of(text());
    (
        class,
        text(),
        text(),
        optional(),
        optional(),
        option::of(0usize..99),
    )
        .prop_map(
            |((_, class), code, message, detail, constraint, position)| DbError {
                class,
                code,
                message,
                detail,
                constraint,
                position,
            },
        )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        reply().prop_map(Outcome::Done),
        error().prop_map(Outcome::Failed),
        vec(text().prop_map(|t| t.to_string()), 0..3).prop_map(Outcome::Waits),
        text().prop_map(|t| Outcome::Pauses(t.to_string())),
    ]
}

fn choice() -> impl Strategy<Value = Choice> {
    let process = || (0u8..4).prop_map(ProcessId);
    let session = || (0u8..6).prop_map(SessionId);
    let request = || any::<u32>().prop_map(RequestId);
    let loss = prop::sample::select(vec![Loss::NotArrived, Loss::ReplyLost, Loss::StillRunning]);
    prop_oneof![
        (process(), request()).prop_map(|(p, r)| Choice::Step(p, r)),
        (process(), request()).prop_map(|(p, r)| Choice::Cancel(p, r)),
        (process(), request(), loss).prop_map(|(p, r, l)| Choice::Lose(p, r, l)),
        process().prop_map(Choice::Crash),
        session().prop_map(Choice::Resume),
        session().prop_map(Choice::Deadlock),
        session().prop_map(Choice::Expire),
        session().prop_map(Choice::Notice),
        session().prop_map(Choice::Kill),
        session().prop_map(Choice::Late),
        session().prop_map(Choice::Continue),
        (session(), any::<u8>()).prop_map(|(s, backend)| Choice::Route(s, backend)),
        any::<i64>().prop_map(Choice::Advance),
        (0i64..100).prop_map(|s| Choice::Advance(s * 1_000_000)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let actor = prop_oneof![
        text(),
        Just("worker-1".into()),
        Just("worker-2".into()),
        Just("worker-2/2".into()),
    ];
    let statement = (text(), vec(value(), 0..3), any::<bool>())
        .prop_map(|(sql, args, batch)| Statement { sql, args, batch });
    (
        choice(),
        actor,
        option::of(text()),
        option::of(statement),
        option::of(outcome()),
    )
        .prop_map(|(choice, actor, step, statement, outcome)| Event {
            choice,
            actor,
            step,
            statement,
            outcome,
        })
}

fn process(label: &'static str) -> impl Strategy<Value = ScheduleProcess> {
    let isolation = option::of(prop::sample::select(Isolation::ALL.to_vec()));
    (1u8..3, isolation, any::<i64>(), option::of(text())).prop_map(
        move |(sessions, isolation, skew_micros, connect)| ScheduleProcess {
            label: label.into(),
            sessions,
            isolation,
            skew_micros,
            connect,
        },
    )
}

fn file() -> impl Strategy<Value = ScheduleFile> {
    let bounds = (0u32..3, 0u32..3, 0u32..3).prop_map(|(crashes, clock, rounds)| Bounds {
        crashes,
        clock,
        rounds,
        ..Bounds::default()
    });
    let processes = prop_oneof![
        Just(Vec::new()),
        (process("worker-1"), process("worker-2")).prop_map(|(a, b)| vec![a, b]),
    ];
    let world = (
        prop::sample::select(Dialect::ALL.to_vec()),
        prop::sample::select(Isolation::ALL.to_vec()),
        bounds,
        processes,
        option::of(text()),
        option::of(text()),
    );
    (world, vec(text(), 4), vec(event(), 0..4)).prop_map(|(world, texts, events)| {
        let (database, isolation, bounds, processes, setup, check) = world;
        let granularity = match events.len() % 2 {
            0 => Granularity::Statement,
            _ => Granularity::Row,
        };
        ScheduleFile {
            title: texts[0].clone(),
            variant: texts[1].clone(),
            property: texts[2].clone(),
            detail: texts[3].clone(),
            check,
            database,
            isolation,
            bounds,
            granularity,
            // Independent of the granularity, which goes by the number of events.
            pooler: (texts[0].len() % 4) as u8,
            processes,
            setup,
            matters: (0..events.len()).step_by(2).collect(),
            numbers: match events.len() {
                0 => Vec::new(),
                n => vec![(Numbered::Process, n as i64), (Numbered::Transaction, -7)],
            },
            schedule: Schedule { events },
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn reading_is_the_inverse_of_writing(file in file()) {
        let text = file.to_string();
        match ScheduleFile::parse(Source::new("x", text.clone())) {
            Ok(read) => prop_assert_eq!(read, file, "{}", text),
            Err(error) => prop_assert!(false, "{error}\n{text}"),
        }
    }
}
