//! What SQLite and MySQL do not tell: what a statement is, and, for SQLite, where statements end
//! and whether a transaction is open. Only words outside of quotes and comments count.

use std::ops::Range;
use std::sync::Arc;

use rowlock_model::{Dialect, TransactionStatus};
use rowlock_scenarios::sqltext;

/// The words, semicolons and parentheses of a text.
fn tokens(sql: &str, dialect: Dialect) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < sql.len() {
            let rest = &sql[at..];
            let first = rest.chars().next()?;
            let length = if let Some(end) = sqltext::opaque_end(sql, at, dialect) {
                end - at
            } else if first.is_alphanumeric() || first == '_' {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')
                    .unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let range = at..at + length;
            at += length;
            let is_word = first.is_alphanumeric() || first == '_';
            if is_word || matches!(first, ';' | '(' | ')') {
                return Some((range.clone(), &sql[range]));
            }
        }
        None
    })
}

/// The statements of a script for SQLite, without those that are empty. The body of a trigger ends at `END`.
pub(crate) fn split(sql: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut words: Vec<String> = Vec::new();
    let mut depth = 0usize;
    for (range, token) in tokens(sql, Dialect::Sqlite) {
        if token != ";" {
            let word = token.to_ascii_uppercase();
            let is_trigger = words.first().is_some_and(|w| w == "CREATE")
                && words.iter().take(4).any(|w| w == "TRIGGER");
            match word.as_str() {
                "BEGIN" | "CASE" if is_trigger => depth += 1,
                "END" if is_trigger => depth = depth.saturating_sub(1),
                _ => {}
            }
            words.push(word);
            continue;
        }
        if depth == 0 {
            if !words.is_empty() {
                statements.push(sql[start..range.end].trim());
            }
            start = range.end;
            words.clear();
        }
    }
    if !words.is_empty() {
        statements.push(sql[start..].trim());
    }
    statements
}

/// The first words of a statement in capitals.
fn words(sql: &str, dialect: Dialect, n: usize) -> Vec<String> {
    tokens(sql, dialect)
        .take(n)
        .map(|(_, token)| token.to_ascii_uppercase())
        .collect()
}

/// The command tag that other servers would send.
pub(crate) fn tag_of(sql: &str, dialect: Dialect) -> Arc<str> {
    let first = words(sql, dialect, 4);
    let Some(verb) = first.first() else {
        return "".into();
    };
    match verb.as_str() {
        "END" => "COMMIT".into(),
        // As PostgreSQL calls it.
        "START" if first.get(1).is_some_and(|word| word == "TRANSACTION") => {
            "START TRANSACTION".into()
        }
        "CREATE" | "DROP" | "ALTER" => {
            let object = first[1..]
                .iter()
                .find(|w| !matches!(w.as_str(), "TEMP" | "TEMPORARY" | "UNIQUE" | "VIRTUAL"));
            match object {
                Some(object) => format!("{verb} {object}").into(),
                None => verb.as_str().into(),
            }
        }
        "WITH" => verb_after_with(sql, dialect).into(),
        "VALUES" => "SELECT".into(),
        verb => verb.into(),
    }
}

/// What follows the common table expressions: the first verb outside of parentheses.
fn verb_after_with(sql: &str, dialect: Dialect) -> &'static str {
    let mut depth = 0i32;
    for (_, token) in tokens(sql, dialect) {
        match token {
            "(" => depth += 1,
            ")" => depth -= 1,
            word if depth == 0 => {
                let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE"];
                let verb = verbs.iter().find(|v| word.eq_ignore_ascii_case(v));
                if let Some(verb) = verb {
                    return verb;
                }
            }
            _ => {}
        }
    }
    "SELECT"
}

/// Whether a transaction is open, followed from the statements that succeeded.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    begun: bool,
    /// Open savepoints; the outermost opens a transaction if there is none.
    savepoints: Vec<String>,
}

impl Transaction {
    /// The present status; SQLite has no failed transactions.
    pub(crate) fn status(&self) -> TransactionStatus {
        match self.begun || !self.savepoints.is_empty() {
            true => TransactionStatus::InTransaction,
            false => TransactionStatus::Idle,
        }
    }

    /// Takes note of a statement. `rolled_back`: SQLite rolled everything back meanwhile.
    pub(crate) fn after(&mut self, sql: &str, succeeded: bool, rolled_back: bool) {
        let words = words(sql, Dialect::Sqlite, 4);
        let word = |i: usize| words.get(i).map_or("", String::as_str);
        if !succeeded {
            if rolled_back {
                *self = Transaction::default();
            }
            return;
        }
        match word(0) {
            "BEGIN" => self.begun = true,
            "COMMIT" | "END" => *self = Transaction::default(),
            "ROLLBACK" if words.iter().any(|w| w == "TO") => {
                let name = words.last().map_or("", String::as_str);
                if let Some(at) = self.savepoints.iter().rposition(|s| s == name) {
                    self.savepoints.truncate(at + 1);
                }
            }
            "ROLLBACK" => *self = Transaction::default(),
            "SAVEPOINT" => self.savepoints.push(word(1).to_owned()),
            "RELEASE" => {
                let name = match word(1) {
                    "SAVEPOINT" => word(2),
                    name => name,
                };
                if let Some(at) = self.savepoints.iter().rposition(|s| s == name) {
                    self.savepoints.truncate(at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_split_outside_of_quotes_and_triggers() {
        let script = "INSERT INTO t VALUES ('a;b'); -- c;\n\
            CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET x = 1; END; ;SELECT 1";
        assert_eq!(
            split(script),
            [
                "INSERT INTO t VALUES ('a;b');",
                "-- c;\nCREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET x = 1; END;",
                "SELECT 1",
            ]
        );
    }

    #[test]
    fn tags_name_the_verb() {
        assert_eq!(
            &*tag_of("-- x\n create unique index i on t(a)", Dialect::Sqlite),
            "CREATE INDEX"
        );
        assert_eq!(
            &*tag_of("WITH a AS (SELECT 1) DELETE FROM t", Dialect::Sqlite),
            "DELETE"
        );
        assert_eq!(&*tag_of("END", Dialect::Sqlite), "COMMIT");
        assert_eq!(
            &*tag_of("start transaction read only", Dialect::MySql),
            "START TRANSACTION"
        );
    }

    #[test]
    fn savepoints_open_and_close_transactions() {
        let mut transaction = Transaction::default();
        for (sql, open) in [
            ("SAVEPOINT a", true),
            ("SAVEPOINT b", true),
            ("ROLLBACK TO a", true),
            ("RELEASE a", false),
            ("BEGIN", true),
            ("SAVEPOINT a", true),
            ("RELEASE SAVEPOINT a", true),
            ("COMMIT", false),
        ] {
            transaction.after(sql, true, false);
            let expected = match open {
                true => TransactionStatus::InTransaction,
                false => TransactionStatus::Idle,
            };
            assert_eq!(transaction.status(), expected, "after {sql}");
        }
    }
}
