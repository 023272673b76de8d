//! Shortens a statement to a given width, keeping what tells statements apart: the verb, the table
//! and the condition. For people only; the statement itself is shown in full elsewhere.

use crate::layout::{cut, width};

/// `sql` on one line, at most `limit` columns wide.
///
/// Parts are left out in the order in which a reader misses them least: bodies of CTEs and
/// sub-selects, select and RETURNING lists, SET and VALUES lists; then the end is cut off.
pub fn shorten(sql: &str, limit: usize) -> String {
    let mut text = one_line(sql);
    let steps: [fn(&str) -> String; 4] = [
        without_subqueries,
        |t| without_clause(t, &["SELECT", "RETURNING"]),
        |t| without_clause(t, &["VALUES", "SET"]),
        without_parentheses,
    ];
    for step in steps {
        if width(&text) <= limit {
            return text;
        }
        text = step(&text);
    }
    cut(&text, limit)
}

/// `sql` with every run of blanks (outside of quotes) as one space, without comments at line ends
/// and without a final semicolon.
pub fn one_line(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut quote = None;
    let mut chars = sql
        .trim()
        .trim_end_matches(';')
        .trim_end()
        .chars()
        .peekable();
    while let Some(c) = chars.next() {
        match quote {
            Some(q) => {
                if c == q {
                    quote = None;
                }
                out.push(if c == '\n' { ' ' } else { c });
            }
            None if c == '-' && chars.peek() == Some(&'-') => {
                while chars.next_if(|c| *c != '\n').is_some() {}
            }
            None if c.is_whitespace() => {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            None => {
                if matches!(c, '\'' | '"' | '`') {
                    quote = Some(c);
                }
                out.push(c);
            }
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// A word, a quoted text, a parenthesis or another character, with its place in the line.
#[derive(Clone, Copy, PartialEq)]
struct Token {
    start: usize,
    end: usize,
    depth: usize,
}

/// Tokens of a line; a parenthesis has the depth of the text around it.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let (mut i, mut depth) = (0, 0);
    while i < bytes.len() {
        let start = i;
        match bytes[i] {
            b' ' => {
                i += 1;
                continue;
            }
            q @ (b'\'' | b'"' | b'`') => {
                i += 1;
                while i < bytes.len() && bytes[i] != q {
                    i += 1;
                }
                i = (i + 1).min(bytes.len());
            }
            b'(' => i += 1,
            b')' => {
                i += 1;
                depth = usize::saturating_sub(depth, 1);
            }
            b if is_word(b) => {
                while i < bytes.len() && is_word(bytes[i]) {
                    i += 1;
                }
            }
            _ => i += 1,
        }
        out.push(Token {
            start,
            end: i,
            depth,
        });
        if bytes[start] == b'(' {
            depth += 1;
        }
    }
    out
}

/// Bytes of other scripts count as words, so that no character is ever cut in two.
fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

fn is_keyword(text: &str, token: Token, words: &[&str]) -> bool {
    let word = &text[token.start..token.end];
    words.iter().any(|w| w.eq_ignore_ascii_case(word))
}

/// Replaces the byte ranges, which ascend and do not overlap, by `…`.
fn replace(text: &str, ranges: &[(usize, usize)]) -> String {
    let mut out = String::new();
    let mut from = 0;
    for &(start, end) in ranges {
        // Not worth it: a short list says more than the room that is gained.
        if end <= start + 5 {
            continue;
        }
        out.push_str(&text[from..start]);
        out.push('…');
        from = end;
    }
    out.push_str(&text[from..]);
    out
}

/// Leaves out what stands between parentheses of the outermost level, if `which` says so.
fn fold_parentheses(text: &str, which: impl Fn(Option<Token>) -> bool) -> String {
    let tokens = tokens(text);
    let mut ranges = Vec::new();
    for (i, open) in tokens.iter().enumerate() {
        if open.depth != 0 || &text[open.start..open.end] != "(" {
            continue;
        }
        let close = tokens[i + 1..]
            .iter()
            .find(|t| t.depth == 0 && &text[t.start..t.end] == ")");
        if let Some(close) = close
            && which(tokens.get(i + 1).copied())
        {
            ranges.push((open.end, close.start));
        }
    }
    replace(text, &ranges)
}

fn without_subqueries(text: &str) -> String {
    const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
    fold_parentheses(text, |first| {
        first.is_some_and(|t| is_keyword(text, t, &VERBS))
    })
}

fn without_parentheses(text: &str) -> String {
    fold_parentheses(text, |_| true)
}

/// Leaves out what follows one of `heads` up to the next clause.
fn without_clause(text: &str, heads: &[&str]) -> String {
    const CLAUSES: [&str; 16] = [
        "SELECT",
        "FROM",
        "WHERE",
        "SET",
        "VALUES",
        "RETURNING",
        "ORDER",
        "GROUP",
        "HAVING",
        "LIMIT",
        "FOR",
        "ON",
        "UNION",
        "UPDATE",
        "INSERT",
        "DELETE",
    ];
    let outer: Vec<Token> = tokens(text).into_iter().filter(|t| t.depth == 0).collect();
    let mut ranges = Vec::new();
    for (i, head) in outer.iter().enumerate() {
        if !is_keyword(text, *head, heads) {
            continue;
        }
        // `SET TRANSACTION ..` and `SET lock_timeout ..` are statements, not clauses.
        if i == 0 && is_keyword(text, *head, &["SET"]) {
            continue;
        }
        let Some(first) = outer.get(i + 1) else {
            continue;
        };
        let end = outer[i + 1..]
            .iter()
            .position(|t| is_keyword(text, *t, &CLAUSES))
            .map_or(text.len(), |n| outer[i + n].end);
        if end > first.start {
            ranges.push((first.start, end));
        }
    }
    replace(text, &ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = "UPDATE job SET state = 'running', owner = $1\n  WHERE id = (SELECT id FROM job \
                         WHERE state = 'ready' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)\n  RETURNING id, payload;";

    #[test]
    fn leaves_out_what_is_missed_least() {
        assert_eq!(
            shorten(CLAIM, 200),
            "UPDATE job SET state = 'running', owner = $1 WHERE id = (SELECT id FROM job WHERE \
             state = 'ready' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, payload"
        );
        assert_eq!(
            shorten(CLAIM, 100),
            "UPDATE job SET state = 'running', owner = $1 WHERE id = (…) RETURNING id, payload"
        );
        assert_eq!(
            shorten(CLAIM, 75),
            "UPDATE job SET state = 'running', owner = $1 WHERE id = (…) RETURNING …"
        );
        assert_eq!(
            shorten(CLAIM, 45),
            "UPDATE job SET … WHERE id = (…) RETURNING …"
        );
        assert_eq!(shorten(CLAIM, 20), "UPDATE job SET … WH…");
    }

    #[test]
    fn common_table_expressions_fold_to_their_names() {
        let sql = "WITH room AS MATERIALIZED (SELECT count(*) AS n FROM job), pick AS (SELECT id FROM \
                   job LIMIT 1 FOR UPDATE) UPDATE job SET state = 'picked' FROM pick WHERE job.id = pick.id";
        assert_eq!(
            shorten(sql, 80),
            "WITH room AS MATERIALIZED (…), pick AS (…) UPDATE job SET … FROM pick WHERE job…"
        );
    }

    #[test]
    fn blanks_in_quotes_and_settings_stay() {
        assert_eq!(
            one_line("SELECT  'a  -- b' -- gone\n  , 1 ;"),
            "SELECT 'a  -- b' , 1"
        );
        assert_eq!(
            shorten("SET default_transaction_isolation = 'serializable'", 20),
            "SET default_transac…"
        );
        assert_eq!(
            shorten("SELECT a, b, c FROM t WHERE x = 'FROM a ('", 30),
            "SELECT … FROM t WHERE x = 'FR…"
        );
    }
}
