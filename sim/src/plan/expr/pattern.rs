//! Regular expressions of `~` (manual, 9.7.3).
//!
//! Whether a text matches does not depend on which of several matches is taken, so an engine with other
//! preferences than PostgreSQL's gives the same answer; what a match is taken out of (`regexp_replace`)
//! does, and is not modelled. A pattern is translated only as far as both read it alike.

use regex::RegexBuilder;
use rowlock_model::{DbError, Value};

use super::Function;
use super::function::string;

/// The value of a function of patterns: text, then pattern.
///
/// # Errors
/// `unsupported` for a pattern that is not modelled.
pub(super) fn call(function: Function, args: &[&Value]) -> Result<Value, DbError> {
    let Function::Matches { fold } = function else {
        panic!("{function:?} is not a function of patterns");
    };
    let pattern = string(args[1]);
    if !is_common(pattern) {
        return Err(DbError::unsupported("this regular expression", None));
    }
    // `.` matches a newline, `^` and `$` only at the ends, as without options in PostgreSQL.
    let built = RegexBuilder::new(pattern)
        .dot_matches_new_line(true)
        .case_insensitive(fold)
        .build();
    match built {
        Ok(regex) => Ok(Value::Bool(regex.is_match(string(args[0])))),
        Err(_) => Err(DbError::unsupported("this regular expression", None)),
    }
}

/// Whether both engines read a pattern alike: no constraint escapes, back references, look-around or
/// embedded options, and only the class escapes that both have.
fn is_common(pattern: &str) -> bool {
    if pattern.starts_with("***") {
        return false;
    }
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('d' | 'D' | 'w' | 'W' | 's' | 'S') if !in_class => {}
                Some(escaped) if escaped.is_ascii_punctuation() => {}
                _ => return false,
            },
            '[' if in_class => {
                // Only the named classes, `[:alpha:]`, mean the same.
                if rest.peek() != Some(&':') {
                    return false;
                }
                while rest.next_if(|c| *c != ']').is_some() {}
                rest.next();
            }
            '[' => {
                in_class = true;
                rest.next_if_eq(&'^');
                if rest.peek() == Some(&']') {
                    return false;
                }
            }
            ']' => in_class = false,
            // Set operations of the other engine.
            '&' | '~' | '-' if in_class && rest.peek() == Some(&c) => return false,
            '(' if !in_class && rest.peek() == Some(&'?') => {
                rest.next();
                if rest.peek() != Some(&':') {
                    return false;
                }
            }
            '{' if !in_class && !rest.peek().is_some_and(char::is_ascii_digit) => return false,
            '+' | '*' | '?' | '}' if !in_class && matches!(rest.peek(), Some('+' | '*')) => {
                return false;
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_engines_read_differently_is_refused() {
        for pattern in [
            "^a.*b$",
            r"\d+\.x",
            "[^a-z]{2,3}",
            "[[:alpha:]]",
            "(?:a|b)+?",
        ] {
            assert!(is_common(pattern), "{pattern}");
        }
        for pattern in [
            r"\mword", r"(a)\1", "(?=a)", "(?i)a", "***=a", "a**", "[[=a=]]", r"[\d]",
        ] {
            assert!(!is_common(pattern), "{pattern}");
        }
    }
}
