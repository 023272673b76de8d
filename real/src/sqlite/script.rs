//! What SQLite does not tell: where statements end, what they are, and whether a transaction is
//! open. Only words outside of quotes and comments count.

use std::ops::Range;
use std::sync::Arc;

use rowlock_model::TransactionStatus;

/// The words and semicolons of a text.
fn tokens(sql: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < sql.len() {
            let rest = &sql[at..];
            let first = rest.chars().next()?;
            let length = if rest.starts_with("--") {
                rest.find('\n').map_or(rest.len(), |end| end + 1)
            } else if let Some(comment) = rest.strip_prefix("/*") {
                comment.find("*/").map_or(rest.len(), |end| end + 4)
            } else if matches!(first, '\'' | '"' | '`') {
                quoted(rest, first)
            } else if first == '[' {
                rest.find(']').map_or(rest.len(), |end| end + 1)
            } else if first.is_alphanumeric() || first == '_' {
                let end = rest
                    .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')
                    .unwrap_or(rest.len());
                at += end;
                return Some((at - end..at, &rest[..end]));
            } else if matches!(first, ';' | '(' | ')') {
                at += 1;
                return Some((at - 1..at, &rest[..1]));
            } else {
                first.len_utf8()
            };
            at += length;
        }
        None
    })
}

/// The length of a quoted text; a doubled quote stays inside.
fn quoted(text: &str, quote: char) -> usize {
    let mut from = 1;
    while let Some(end) = text[from..].find(quote) {
        let after = from + end + 1;
        if !text[after..].starts_with(quote) {
            return after;
        }
        from = after + 1;
    }
    text.len()
}

/// The statements of a script, without those that are empty. The body of a trigger ends at `END`.
pub(super) fn split(sql: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut words: Vec<String> = Vec::new();
    let mut depth = 0usize;
    for (range, token) in tokens(sql) {
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
fn words(sql: &str, n: usize) -> Vec<String> {
    tokens(sql)
        .take(n)
        .map(|(_, token)| token.to_ascii_uppercase())
        .collect()
}

/// The command tag that other servers would send.
pub(super) fn tag_of(sql: &str) -> Arc<str> {
    let first = words(sql, 4);
    let Some(verb) = first.first() else {
        return "".into();
    };
    match verb.as_str() {
        "END" => "COMMIT".into(),
        "CREATE" | "DROP" | "ALTER" => {
            let object = first[1..]
                .iter()
                .find(|w| !matches!(w.as_str(), "TEMP" | "TEMPORARY" | "UNIQUE" | "VIRTUAL"));
            match object {
                Some(object) => format!("{verb} {object}").into(),
                None => verb.as_str().into(),
            }
        }
        "WITH" => verb_after_with(sql).into(),
        "VALUES" => "SELECT".into(),
        verb => verb.into(),
    }
}

/// What follows the common table expressions: the first verb outside of parentheses.
fn verb_after_with(sql: &str) -> &'static str {
    let mut depth = 0i32;
    for (_, token) in tokens(sql) {
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
pub(super) struct Transaction {
    begun: bool,
    /// Open savepoints; the outermost opens a transaction if there is none.
    savepoints: Vec<String>,
}

impl Transaction {
    /// The present status; SQLite has no failed transactions.
    pub(super) fn status(&self) -> TransactionStatus {
        match self.begun || !self.savepoints.is_empty() {
            true => TransactionStatus::InTransaction,
            false => TransactionStatus::Idle,
        }
    }

    /// Takes note of a statement. `rolled_back`: SQLite rolled everything back meanwhile.
    pub(super) fn after(&mut self, sql: &str, succeeded: bool, rolled_back: bool) {
        let words = words(sql, 4);
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
            &*tag_of("-- x\n create unique index i on t(a)"),
            "CREATE INDEX"
        );
        assert_eq!(&*tag_of("WITH a AS (SELECT 1) DELETE FROM t"), "DELETE");
        assert_eq!(&*tag_of("END"), "COMMIT");
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
