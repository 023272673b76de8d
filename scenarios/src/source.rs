//! Files, places in them, and problems found there.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A file that was read, for messages and carets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path as the user wrote it; `<text>` if there is none.
    pub path: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
}

/// A place in a file, as editors count: both from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl Source {
    /// A file's text under the path by which the user knows it.
    pub fn new(path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Source {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Line and column of a byte offset; an offset past the end counts as the end.
    pub fn position(&self, offset: usize) -> Position {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.text[..end];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Position {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, in words of the file.
    pub message: String,
    /// The bytes of the file that it is about; a caret goes under them.
    pub span: Range<usize>,
    /// What to do about it, if that is known.
    pub help: Option<String>,
}

impl Problem {
    /// A problem without advice.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            span,
            help: None,
        }
    }

    /// The same problem with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }
}

/// A file that cannot be used: every problem that was found in it, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub source: Source,
    /// What is wrong; never empty.
    pub problems: Vec<Problem>,
}

impl FileError {
    /// Sorts the problems as a reader meets them.
    pub(crate) fn new(source: Source, mut problems: Vec<Problem>) -> FileError {
        debug_assert!(!problems.is_empty());
        problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
        problems.dedup();
        FileError { source, problems }
    }

    /// Line and column of a problem.
    pub fn position(&self, problem: &Problem) -> Position {
        self.source.position(problem.span.start)
    }
}

/// One line a problem: `file:line:column: message`, its help indented below.
impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(
                f,
                "{}:{}: {}",
                self.source.path,
                self.position(problem),
                problem.message
            )?;
            if let Some(help) = &problem.help {
                write!(f, "\n    help: {help}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for FileError {}

/// A text that stands in a file, for mapping offsets in the text to offsets in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub text: Arc<str>,
    /// The bytes of the file that the token takes, quotes included.
    pub span: Range<usize>,
    /// Where the text begins in the file, if it stands there byte for byte (it does not if the
    /// token has escapes).
    pub verbatim: Option<usize>,
}

impl Text {
    /// Where bytes of this text stand in the file; the whole token if it has escapes.
    pub fn locate(&self, bytes: Range<usize>) -> Range<usize> {
        match self.verbatim {
            Some(start) => start + bytes.start..start + bytes.end,
            None => self.span.clone(),
        }
    }
}
