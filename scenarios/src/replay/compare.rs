//! Whether two outcomes are the same.

use rowlock_model::{DbError, ErrorClass, Outcome, Reply, Value};

use super::numbers::Numbers;

/// Whether `got` is the outcome `expected`.
///
/// Replies are compared whole: columns with their types, rows, affected rows, tag. Errors by code,
/// not by message, which changes with locale and version; a lost connection by its class. Waiting
/// by whom it waits for, if that is known. Values of the server's clock differ from run to run: two
/// of the same type count as the same. So do the numbers of sessions and transactions: they are
/// compared by what they stand for.
pub(super) fn same(expected: &Outcome, got: &Outcome, numbers: &mut Numbers) -> bool {
    match (expected, got) {
        (Outcome::Done(expected), Outcome::Done(got)) => {
            let mut tried = numbers.clone();
            let same = same_reply(expected, got, &mut tried);
            if same {
                *numbers = tried;
            }
            same
        }
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

fn same_reply(expected: &Reply, got: &Reply, numbers: &mut Numbers) -> bool {
    expected.columns == got.columns
        && expected.affected == got.affected
        && expected.tag == got.tag
        && expected.rows.len() == got.rows.len()
        && expected
            .rows
            .iter()
            .zip(got.rows.iter())
            .all(|(e, g)| same_row(e, g, numbers))
}

fn same_row(expected: &[Value], got: &[Value], numbers: &mut Numbers) -> bool {
    expected.len() == got.len()
        && expected
            .iter()
            .zip(got.iter())
            .all(|(e, g)| same_value(e, g, numbers))
}

fn same_value(expected: &Value, got: &Value, numbers: &mut Numbers) -> bool {
    matches!(
        (expected, got),
        (Value::Timestamp(_), Value::Timestamp(_)) | (Value::TimestampTz(_), Value::TimestampTz(_))
    ) || numbers.agree(expected, got)
}

/// Of replies with more rows than this, only what differs is told.
const ROWS_IN_FULL: usize = 4;

/// The rows that only one of two replies has; `None` if both have the same, in whatever order.
fn rows_apart(reply: &Reply, other: &Reply) -> Option<String> {
    let mut others: Vec<_> = other.rows.iter().collect();
    let mut numbers = Numbers::default();
    let mut own = Vec::new();
    for row in reply.rows.iter() {
        match others.iter().position(|o| same_row(row, o, &mut numbers)) {
            Some(at) => {
                others.remove(at);
            }
            None => own.push(row),
        }
    }
    if own.is_empty() && others.is_empty() {
        return None;
    }
    let mut text = format!("{} rows", reply.rows.len());
    for row in own {
        let values: Vec<String> = row.iter().map(ToString::to_string).collect();
        text += &format!(", only here ({})", values.join(", "));
    }
    Some(text)
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
    if let (Outcome::Done(reply), Outcome::Done(against)) = (outcome, other)
        && reply.rows.len().max(against.rows.len()) > ROWS_IN_FULL
        && let Some(text) = rows_apart(reply, against)
    {
        return text;
    }
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
