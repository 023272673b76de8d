//! The shape of SQL text: what is quoted, what is a comment, where a statement ends. No grammar.

use rowlock_model::Dialect;

/// If a quoted text, quoted name, dollar quote or comment begins at byte `at`, the byte after its
/// end; a token that is not closed ends with the text.
pub fn opaque_end(sql: &str, at: usize, dialect: Dialect) -> Option<usize> {
    let rest = &sql[at..];
    let mysql = matches!(dialect, Dialect::MySql | Dialect::MariaDb);
    let end = |length: usize| Some(at + length);
    match rest.as_bytes().first()? {
        b'\'' => {
            let escapes = mysql || (dialect == Dialect::Postgres && after_e(sql, at));
            end(quoted_length(rest, b'\'', escapes))
        }
        b'"' => end(quoted_length(rest, b'"', mysql)),
        b'`' if dialect != Dialect::Postgres => end(quoted_length(rest, b'`', false)),
        b'[' if dialect == Dialect::Sqlite => end(rest.find(']').map_or(rest.len(), |i| i + 1)),
        b'$' if dialect == Dialect::Postgres && !after_word(sql, at) => {
            let tag = dollar_tag(rest)?;
            end(rest[tag.len()..]
                .find(tag)
                .map_or(rest.len(), |i| i + 2 * tag.len()))
        }
        b'-' if rest.starts_with("--") && (!mysql || dashes_are_comment(rest)) => {
            end(line_length(rest))
        }
        b'#' if mysql => end(line_length(rest)),
        b'/' if rest.starts_with("/*") => end(comment_length(rest, dialect)),
        _ => None,
    }
}

/// The statements of a script: byte ranges that begin with the first character that is neither
/// blank nor comment and end before the semicolon. Empty statements are left out.
///
/// A semicolon inside quotes, dollar quotes, comments, or parentheses does
/// not end a statement on PostgreSQL (`psqlscan.l`); the body of a SQLite or MySQL trigger is not
/// recognised.
pub fn statements(sql: &str, dialect: Dialect) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    let mut end = 0;
    let mut parentheses = 0usize;
    let mut at = 0;
    while at < sql.len() {
        if let Some(after) = opaque_end(sql, at, dialect) {
            if !is_comment(&sql[at..], dialect) {
                start.get_or_insert(at);
                end = after;
            }
            at = after;
            continue;
        }
        let c = sql[at..].chars().next().unwrap_or(' ');
        match c {
            '(' => parentheses += 1,
            ')' => parentheses = parentheses.saturating_sub(1),
            _ => {}
        }
        if c == ';' && parentheses == 0 {
            found.extend(start.take().map(|start| start..end));
        } else if !c.is_whitespace() {
            start.get_or_insert(at);
            end = at + c.len_utf8();
        }
        at += c.len_utf8();
    }
    found.extend(start.map(|start| start..end));
    found
}

fn is_comment(rest: &str, dialect: Dialect) -> bool {
    rest.starts_with("--")
        || rest.starts_with("/*")
        || (rest.starts_with('#') && dialect != Dialect::Postgres)
}

fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// MySQL takes `--` as a comment only before a blank, a control character or the end.
fn dashes_are_comment(rest: &str) -> bool {
    rest[2..]
        .chars()
        .next()
        .is_none_or(|c| c.is_whitespace() || c.is_control())
}

/// Comments nest on PostgreSQL and nowhere else.
fn comment_length(rest: &str, dialect: Dialect) -> usize {
    if dialect != Dialect::Postgres {
        return rest[2..].find("*/").map_or(rest.len(), |i| i + 4);
    }
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// A doubled quote inside is read as two tokens side by side, which cover the same bytes.
fn quoted_length(rest: &str, quote: u8, escapes: bool) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && escapes {
            at += 1;
        } else if bytes[at] == quote {
            return at + 1;
        }
        at += 1;
    }
    rest.len()
}

/// Whether the quote at `at` belongs to an escape string: an `E` that is a word of its own.
fn after_e(sql: &str, at: usize) -> bool {
    let before = &sql[..at];
    before.ends_with(['e', 'E']) && !after_word(sql, at - 1)
}

/// Whether the byte at `at` directly follows a word.
pub(crate) fn after_word(sql: &str, at: usize) -> bool {
    sql[..at]
        .chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

/// `$$` or `$tag$` at the beginning.
fn dollar_tag(rest: &str) -> Option<&str> {
    let name_end = rest[1..].find('$')? + 1;
    let name = &rest[1..name_end];
    let valid = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    valid.then(|| &rest[..=name_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(sql: &str, dialect: Dialect) -> Vec<&str> {
        statements(sql, dialect)
            .into_iter()
            .map(|range| &sql[range])
            .collect()
    }

    #[test]
    fn semicolons_that_end_nothing() {
        let pg = Dialect::Postgres;
        assert_eq!(split("a ; b;", pg), ["a", "b"]);
        assert_eq!(split("'a;''b;' ; c", pg), ["'a;''b;'", "c"]);
        assert_eq!(split("$$a;$$; $x$;$$;$x$", pg), ["$$a;$$", "$x$;$$;$x$"]);
        assert_eq!(split("/* a /* ; */ ; */ b -- ;\n; c", pg), ["b", "c"]);
        assert_eq!(split(r"E'\';' ; b", pg), [r"E'\';'", "b"]);
        assert_eq!(split(r"'\' ; b", pg), [r"'\'", "b"]);
        assert_eq!(split("f(a;b);c", pg), ["f(a;b)", "c"]);
        assert_eq!(split(";; ; -- nothing", pg), Vec::<&str>::new());
        assert_eq!(split("a$1;b", pg), ["a$1", "b"]);
    }

    #[test]
    fn each_database_has_its_own_quotes_and_comments() {
        assert_eq!(split(r"'\';' ; b", Dialect::MySql), [r"'\';'", "b"]);
        assert_eq!(split("a # ;\n; `;`", Dialect::MySql), ["a", "`;`"]);
        assert_eq!(split("1--;1", Dialect::MySql), ["1--", "1"]);
        assert_eq!(split("[;] ; b", Dialect::Sqlite), ["[;]", "b"]);
        assert_eq!(split("/* /* ; */ a; */", Dialect::Sqlite), ["a", "*/"]);
    }
}
