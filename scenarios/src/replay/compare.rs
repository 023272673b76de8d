//! Whether two outcomes are the same.

use rowlock_model::{DbError, ErrorClass, Outcome, Reply, Value};

/// Whether `got` is the outcome `expected`.
///
/// Replies are compared whole: columns with their types, rows, affected rows, tag. Errors by code,
/// not by message, which changes with locale and version; a lost connection by its class. Waiting
/// by whom it waits for, if that is known. Values of the server's clock differ from run to run: two
/// of the same type count as the same.
pub(super) fn same(expected: &Outcome, got: &Outcome) -> bool {
    match (expected, got) {
        (Outcome::Done(expected), Outcome::Done(got)) => same_reply(expected, got),
        (Outcome::Failed(expected), Outcome::Failed(got)) => same_error(expected, got),
        (Outcome::Waits(expected), Outcome::Waits(got)) => {
            expected.is_empty() || got.is_empty() || expected == got
        }
        (Outcome::Pauses(expected), Outcome::Pauses(got)) => {
            expected.is_empty() || got.is_empty() || expected == got
        }
        _ => false,
    }
}

fn same_error(expected: &DbError, got: &DbError) -> bool {
    let lost = |error: &DbError| error.class == ErrorClass::ConnectionLost;
    expected.code == got.code || (lost(expected) && lost(got))
}

fn same_reply(expected: &Reply, got: &Reply) -> bool {
    expected.columns == got.columns
        && expected.affected == got.affected
        && expected.tag == got.tag
        && expected.rows.len() == got.rows.len()
        && expected.rows.iter().zip(got.rows.iter()).all(|(e, g)| {
            e.len() == g.len() && e.iter().zip(g.iter()).all(|(e, g)| same_value(e, g))
        })
}

fn same_value(expected: &Value, got: &Value) -> bool {
    matches!(
        (expected, got),
        (Value::Timestamp(_), Value::Timestamp(_)) | (Value::TimestampTz(_), Value::TimestampTz(_))
    ) || expected == got
}

/// An outcome with what tells it apart from one that looks alike.
pub(super) fn describe(outcome: &Outcome, other: &Outcome) -> String {
    let short = match outcome {
        Outcome::Waits(blockers) if !blockers.is_empty() => {
            format!("waits ({})", blockers.join(", "))
        }
        Outcome::Pauses(row) if !row.is_empty() => format!("pauses before {row}"),
        _ => outcome.to_string(),
    };
    match (outcome, other) {
        (Outcome::Failed(error), _) => format!("{short} {}", error.message),
        (Outcome::Done(reply), Outcome::Done(_)) if short == other.to_string() => {
            let columns = reply.columns.iter();
            let columns: Vec<String> = columns
                .map(|column| format!("{} {}", column.name, column.type_name))
                .collect();
            format!(
                "{short} [{}; {} affected; tag {}]",
                columns.join(", "),
                reply.affected,
                reply.tag
            )
        }
        _ => short,
    }
}
