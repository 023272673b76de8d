//! Masking secrets in texts that people will read.

use std::sync::Arc;

/// What stands in place of a secret.
const MASK: &str = "***";

/// Shorter values are not masked: they would mangle ordinary text.
const SHORTEST: usize = 4;

/// Values that must not be shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Longest first, so that a secret inside another one leaves no rest.
    values: Vec<Arc<str>>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

impl Secrets {
    /// No secrets; passwords in connection strings are masked all the same.
    pub fn none() -> Secrets {
        Secrets::default()
    }

    /// The same secrets and this one. A value of fewer than four bytes is not masked.
    #[must_use]
    pub fn and(mut self, value: &str) -> Secrets {
        if value.len() >= SHORTEST {
            self.values.push(value.into());
            self.values.sort_by_key(|v| std::cmp::Reverse(v.len()));
            self.values.dedup();
        }
        self
    }

    /// The same secrets and the password of a connection string, as written and, in a URL, as it is
    /// meant: `postgresql://user:secret@host/db`, `host=h password='a b'`.
    #[must_use]
    pub fn and_those_of(self, connection: &str) -> Secrets {
        let mut secrets = self;
        for (start, end) in passwords(connection) {
            let written = &connection[start..end];
            let plain = written.trim_matches('\'').replace("\\'", "'");
            secrets = secrets.and(written).and(&plain).and(&decoded(written));
        }
        secrets
    }

    /// The text with every secret masked, and every password in a connection string in it.
    pub fn mask(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = 0;
        for (start, end) in passwords(text) {
            masked.push_str(&text[rest..start]);
            masked.push_str(MASK);
            rest = end;
        }
        masked.push_str(&text[rest..]);
        for value in &self.values {
            if masked.contains(&**value) {
                masked = masked.replace(&**value, MASK);
            }
        }
        masked
    }
}

/// Where the passwords of connection strings are in a text, in order.
fn passwords(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let rest = &text[from..];
        let url = rest.find("://").map(|at| (at, true));
        let keyword = find_keyword(rest).map(|at| (at, false));
        let Some((at, is_url)) = url.into_iter().chain(keyword).min() else {
            break;
        };
        let span = match is_url {
            true => in_url(rest, at + "://".len()),
            false => Some(in_keyword(rest, at)),
        };
        match span {
            Some((start, end)) => {
                if start < end {
                    found.push((from + start, from + end));
                }
                from += end.max(at + 1);
            }
            None => from += at + "://".len(),
        }
    }
    found
}

/// The password in `user:password@`, if a URL's authority begins at `start`.
fn in_url(text: &str, start: usize) -> Option<(usize, usize)> {
    let authority = &text[start..];
    let end = authority
        .find(|c: char| c.is_whitespace() || "/?#\"'".contains(c))
        .unwrap_or(authority.len());
    let at = authority[..end].rfind('@')?;
    let colon = authority[..at].find(':')?;
    Some((start + colon + 1, start + at))
}

/// Where the value behind a `password =` begins.
fn find_keyword(text: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower[from..].find("password") {
        let after = from + at + "password".len();
        let value = lower[after..].trim_start();
        if let Some(value) = value.strip_prefix('=') {
            return Some(text.len() - value.trim_start().len());
        }
        from = after;
    }
    None
}

/// The value that begins at `start`: quoted, or up to the next blank.
fn in_keyword(text: &str, start: usize) -> (usize, usize) {
    let value = &text[start..];
    let quoted = value.strip_prefix('\'');
    let end = match quoted {
        Some(quoted) => {
            let mut escaped = false;
            let close = quoted.find(|c| {
                let closes = c == '\'' && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            });
            close.map_or(value.len(), |close| close + 2)
        }
        None => value
            .find(|c: char| c.is_whitespace() || "&,;\"')".contains(c))
            .unwrap_or(value.len()),
    };
    (start, start + end)
}

/// A text with `%41` replaced by what it stands for; as it is if that is no text.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = text.get(i + 1..i + 3).filter(|_| bytes[i] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_ordinary_text_is_not_mangled() {
        let secrets = Secrets::none().and("hunter22").and("hunter").and("abc");
        assert_eq!(secrets.mask("hunter22, hunter, abc"), "***, ***, abc");
        assert_eq!(format!("{secrets:?}"), "Secrets(2)");
    }

    #[test]
    fn passwords_in_connection_strings_are_masked_wherever_they_stand() {
        let mask = |text| Secrets::none().mask(text);
        assert_eq!(
            mask("cannot reach postgresql://app:s3cr@t@db:5432/x: refused"),
            "cannot reach postgresql://app:***@db:5432/x: refused"
        );
        assert_eq!(
            mask("host=db password=s3cret user=app"),
            "host=db password=*** user=app"
        );
        assert_eq!(
            mask(r"PASSWORD = 'it\'s a secret' host=db"),
            "PASSWORD = *** host=db"
        );
        assert_eq!(
            mask("postgresql://db/x?user=a&password=x1&sslmode=off"),
            "postgresql://db/x?user=a&password=***&sslmode=off"
        );
        for plain in [
            "https://example.org/a:b@c",
            "the password was wrong",
            "mail to a@b.c: done",
            "://",
            "password=",
        ] {
            assert_eq!(mask(plain), plain);
        }
    }

    #[test]
    fn the_password_of_a_connection_is_known_again_elsewhere() {
        let url = Secrets::none().and_those_of("postgresql://app:p%40ss%21@db/x");
        assert_eq!(
            url.mask("refused p@ss! and p%40ss%21"),
            "refused *** and ***"
        );
        let keywords = Secrets::none().and_those_of("host=db password='two words'");
        assert_eq!(keywords.mask("said two words"), "said ***");
    }
}
