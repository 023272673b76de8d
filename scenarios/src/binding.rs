//! `:name` in the SQL of a step becomes an argument of the statement.

use std::sync::Arc;

use rowlock_model::Dialect;

use crate::expr::Name;
use crate::source::{Problem, Text};
use crate::sqltext::{after_word, opaque_end};

/// A statement with its arguments still to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The statement as the file has it.
    pub text: Text,
    /// The statement as it is sent, with the placeholders of the database.
    pub sql: Arc<str>,
    /// The arguments, in the order of the placeholders.
    pub args: Vec<Name>,
    /// For each placeholder in `sql`: its bytes there, and the bytes of the binding in the file's text.
    edits: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)>,
}

impl Bound {
    /// A statement that is sent as it is written.
    pub(crate) fn verbatim(text: Text) -> Bound {
        Bound {
            sql: text.text.clone(),
            text,
            args: Vec::new(),
            edits: Vec::new(),
        }
    }

    /// Where byte `offset` of the statement as sent stands in the file; a placeholder stands where
    /// its binding does.
    pub fn locate(&self, offset: usize) -> std::ops::Range<usize> {
        let mut original = offset;
        for (sent, written) in &self.edits {
            if sent.contains(&offset) {
                return self.text.locate(written.clone());
            }
            if sent.end <= offset {
                original = written.end + (offset - sent.end);
            }
        }
        let rest = self.text.text.get(original..).unwrap_or_default();
        let length = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .map(char::len_utf8)
            .sum::<usize>()
            .max(1);
        self.text.locate(original..original + length)
    }
}

/// Gives a name (`look`, and `id` if there is a second part) its meaning, or says in words why there
/// is no such name.
pub(crate) type Resolve<'a> = dyn FnMut(&str, Option<&str>) -> Result<Name, String> + 'a;

/// Replaces the bindings of a statement.
pub(crate) fn bind(
    text: &Text,
    dialect: Dialect,
    resolve: &mut Resolve<'_>,
    problems: &mut Vec<Problem>,
) -> Bound {
    let source = &*text.text;
    let mut sql = String::with_capacity(source.len());
    let mut args: Vec<Name> = Vec::new();
    let mut edits = Vec::new();
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        if let Some(end) = opaque_end(source, at, dialect) {
            sql.push_str(&source[at..end]);
            at = end;
            continue;
        }
        if let Some(length) = placeholder(source, at, dialect) {
            problems.push(
                Problem::new(
                    text.locate(at..at + length),
                    format!("a placeholder of {dialect} without an argument"),
                )
                .help("bind a value with `:name`"),
            );
        }
        let Some(binding) = binding(source, at) else {
            sql.push(c);
            at += c.len_utf8();
            continue;
        };
        let sent = sql.len();
        match resolve(binding.first, binding.second) {
            Ok(name) => placeholder_for(name, dialect, &mut sql, &mut args),
            Err(message) => {
                problems.push(Problem::new(text.locate(at..binding.end), message));
            }
        }
        edits.push((sent..sql.len(), at..binding.end));
        at = binding.end;
    }
    Bound {
        text: text.clone(),
        sql: sql.into(),
        args,
        edits,
    }
}

/// The bindings that a text has, as byte ranges; for texts that may have none.
pub(crate) fn bindings(source: &str, dialect: Dialect) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        at = match (opaque_end(source, at, dialect), binding(source, at)) {
            (Some(end), _) => end,
            (None, Some(binding)) => {
                found.push(at..binding.end);
                binding.end
            }
            (None, None) => at + c.len_utf8(),
        };
    }
    found
}

/// Writes a placeholder. PostgreSQL numbers them, so a name that occurs twice is one argument (and
/// has one type); elsewhere each occurrence is an argument of its own.
fn placeholder_for(name: Name, dialect: Dialect, sql: &mut String, args: &mut Vec<Name>) {
    if dialect != Dialect::Postgres {
        args.push(name);
        sql.push('?');
        return;
    }
    let index = args.iter().position(|arg| *arg == name).unwrap_or_else(|| {
        args.push(name);
        args.len() - 1
    });
    sql.push_str(&format!("${}", index + 1));
}

struct Binding<'a> {
    first: &'a str,
    second: Option<&'a str>,
    end: usize,
}

/// `:name` or `:name.name` at byte `at`. Not after another colon (a cast), a word, `)` or `]` (an
/// array slice), and not `:=`.
fn binding(source: &str, at: usize) -> Option<Binding<'_>> {
    let rest = source[at..].strip_prefix(':')?;
    if after_word(source, at) || source[..at].ends_with([':', ')', ']']) {
        return None;
    }
    let first = word(rest)?;
    let mut end = at + 1 + first.len();
    let second = source[end..].strip_prefix('.').and_then(word);
    if let Some(second) = second {
        end += 1 + second.len();
    }
    Some(Binding { first, second, end })
}

fn word(s: &str) -> Option<&str> {
    let length = s
        .find(|c: char| !crate::expr::is_word(c))
        .unwrap_or(s.len());
    s.starts_with(crate::expr::is_word_start)
        .then(|| &s[..length])
}

/// The length of a placeholder of the database's own at byte `at`.
fn placeholder(source: &str, at: usize, dialect: Dialect) -> Option<usize> {
    let rest = &source[at..];
    let follows = |accept: fn(char) -> bool| {
        let length = rest[1..].find(|c| !accept(c)).unwrap_or(rest.len() - 1);
        (length > 0).then_some(1 + length)
    };
    let first = rest.chars().next()?;
    match (dialect, first) {
        (Dialect::Postgres, '$') if !after_word(source, at) => follows(|c| c.is_ascii_digit()),
        (Dialect::Postgres, _) => None,
        (_, '?') => Some(1),
        (Dialect::Sqlite, '@' | '$') if !after_word(source, at) => follows(crate::expr::is_word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> Text {
        Text {
            text: sql.into(),
            span: 0..sql.len(),
            verbatim: Some(0),
        }
    }

    /// Names resolve to variables numbered by their length, so that tests can tell them apart.
    fn bound(sql: &str, dialect: Dialect) -> (String, Vec<usize>, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut resolve = |first: &str, second: Option<&str>| match first {
            "no" => Err("no such name".to_owned()),
            _ => Ok(Name::Var(first.len() + second.map_or(0, |s| 10 * s.len()))),
        };
        let bound = bind(&text(sql), dialect, &mut resolve, &mut problems);
        let args = bound.args.iter().map(|arg| match arg {
            Name::Var(n) => *n,
            _ => 0,
        });
        (bound.sql.to_string(), args.collect(), problems)
    }

    #[test]
    fn placeholders_of_each_database() {
        let sql = "UPDATE t SET o = :abc WHERE id = :ab.id OR x = :abc";
        assert_eq!(
            bound(sql, Dialect::Postgres),
            (
                "UPDATE t SET o = $1 WHERE id = $2 OR x = $1".into(),
                vec![3, 22],
                vec![]
            )
        );
        assert_eq!(
            bound(sql, Dialect::MySql),
            (
                "UPDATE t SET o = ? WHERE id = ? OR x = ?".into(),
                vec![3, 22, 3],
                vec![]
            )
        );
    }

    #[test]
    fn what_is_not_a_binding() {
        for sql in [
            "SELECT ':a', \":a\", $$:a$$, $x$ :a $x$, 1::int, x::int[] -- :a\n/* :a /* :a */ :a */",
            "SELECT a[b:c], f(x)[1:n], E'\\':a', y := 1, j ? 'k'",
        ] {
            assert_eq!(
                bound(sql, Dialect::Postgres),
                (sql.into(), vec![], vec![]),
                "{sql}"
            );
        }
        let sql = r#"SELECT '\':a', "\":a", `:a`, @a := 1 # :a"#;
        assert_eq!(bound(sql, Dialect::MySql), (sql.into(), vec![], vec![]));
    }

    #[test]
    fn problems_point_at_the_name() {
        let (_, _, problems) = bound("SELECT 'é', :no.x, $1", Dialect::Postgres);
        let spans: Vec<_> = problems.iter().map(|p| p.span.clone()).collect();
        assert_eq!(spans, [13..18, 20..22]);
        let (_, _, problems) = bound("SELECT ?, @x", Dialect::Sqlite);
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn offsets_of_the_sent_text_map_back() {
        let mut problems = Vec::new();
        let sql = "SELECT :a.id, :bb, wrong";
        let mut resolve = |first: &str, _: Option<&str>| Ok(Name::Var(first.len()));
        let bound = bind(&text(sql), Dialect::Postgres, &mut resolve, &mut problems);
        assert_eq!(&*bound.sql, "SELECT $1, $2, wrong");
        assert_eq!(bound.locate(0), 0..6);
        assert_eq!(bound.locate(7), 7..12);
        assert_eq!(bound.locate(8), 7..12);
        assert_eq!(bound.locate(11), 14..17);
        assert_eq!(bound.locate(15), 19..24);
    }
}
