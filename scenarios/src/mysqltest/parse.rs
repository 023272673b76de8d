//! The text of a mysqltest script as commands and blocks.

use super::TestError;

/// A command, or a block of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A command of the tester or an SQL statement.
    Command(Command),
    /// `if` or `while`.
    Block(Block),
}

/// A command of the tester or an SQL statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) line: usize,
    /// The command in lower case; empty for a statement.
    pub(super) word: String,
    /// What follows the word; the whole statement.
    pub(super) rest: String,
    /// All of it, as it stands in the file.
    pub(super) text: String,
    /// What ends statements here; it is printed after them.
    pub(super) delimiter: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) repeats: bool,
    pub(super) condition: String,
    pub(super) body: Vec<Node>,
}

/// The commands that are carried out; [`super::run`] says what each does.
const COMMANDS: &[&str] = &[
    "connect",
    "connection",
    "dec",
    "delimiter",
    "die",
    "dirty_close",
    "disable_abort_on_error",
    "disable_connect_log",
    "disable_info",
    "disable_metadata",
    "disable_ps_protocol",
    "disable_ps2_protocol",
    "disable_view_protocol",
    "disable_cursor_protocol",
    "disable_query_log",
    "disable_result_log",
    "disable_reconnect",
    "disable_warnings",
    "disconnect",
    "echo",
    "enable_abort_on_error",
    "enable_connect_log",
    "enable_ps_protocol",
    "enable_ps2_protocol",
    "enable_view_protocol",
    "enable_cursor_protocol",
    "enable_info",
    "enable_query_log",
    "enable_reconnect",
    "enable_result_log",
    "enable_warnings",
    "error",
    "eval",
    "evalp",
    "exit",
    "horizontal_results",
    "inc",
    "let",
    "real_sleep",
    "reap",
    "replace_column",
    "replace_result",
    "send",
    "send_eval",
    "skip",
    "skip_if_hypergraph",
    "sleep",
    "sorted_result",
    "source",
    "vertical_results",
];

/// Commands of the tester that are not carried out: a script that uses one is refused.
const REFUSED: &[&str] = &[
    "append_file",
    "assert",
    "cat_file",
    "change_user",
    "character_set",
    "chmod",
    "copy_file",
    "diff_files",
    "enable_metadata",
    "exec",
    "exec_in_background",
    "execw",
    "expr",
    "file_exists",
    "list_files",
    "lowercase_result",
    "mkdir",
    "output",
    "partially_sorted_result",
    "perl",
    "ping",
    "query_get_value",
    "query_horizontal",
    "query_vertical",
    "remove_file",
    "remove_files_wildcard",
    "replace_numeric_round",
    "replace_regex",
    "require",
    "reset_connection",
    "result_format",
    "rmdir",
    "send_quit",
    "send_shutdown",
    "shutdown_server",
    "start_timer",
    "system",
    "wait_for_slave_to_stop",
    "write_file",
];

struct Parser<'a> {
    text: &'a str,
    at: usize,
    delimiter: String,
}

/// Reads a script.
pub(super) fn parse(text: &str) -> Result<Vec<Node>, TestError> {
    let mut parser = Parser {
        text,
        at: 0,
        delimiter: ";".to_owned(),
    };
    let nodes = parser.nodes(false)?;
    Ok(nodes)
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn line(&self) -> usize {
        self.text[..self.at].matches('\n').count() + 1
    }

    fn error(&self, message: impl Into<String>) -> TestError {
        TestError::script(self.line(), message)
    }

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').map_or(self.rest().len(), |n| n + 1);
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest().len() - self.rest().trim_start().len();
        self.at += blanks;
    }

    fn nodes(&mut self, in_block: bool) -> Result<Vec<Node>, TestError> {
        let mut nodes = Vec::new();
        loop {
            self.skip_blanks();
            if self.rest().is_empty() {
                return match in_block {
                    true => Err(self.error("a block is not closed")),
                    false => Ok(nodes),
                };
            }
            if self.rest().starts_with('#') {
                self.skip_line();
                continue;
            }
            let line = self.line();
            let is_dashed = self.rest().starts_with("--");
            if is_dashed {
                self.at += 2;
                let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
                self.at += blanks;
            }
            if self.rest().starts_with('}') && in_block {
                self.at += 1;
                return Ok(nodes);
            }
            let word = self.word();
            if word == "if" || word == "while" {
                nodes.push(self.block(&word, line)?);
            } else if is_dashed {
                let end = self.rest().find('\n').unwrap_or(self.rest().len());
                let text = self.rest()[..end].trim_end_matches('\r').to_owned();
                self.skip_line();
                // Anything else after two dashes is a comment.
                if let Some(command) = self.command(&text, line)? {
                    nodes.push(Node::Command(command));
                }
            } else {
                let text = self.statement();
                match self.command(&text, line)? {
                    Some(command) => nodes.push(Node::Command(command)),
                    None if text.trim().is_empty() => {}
                    None => nodes.push(Node::Command(Command {
                        line,
                        word: String::new(),
                        text: text.clone(),
                        rest: text,
                        delimiter: self.delimiter.clone(),
                    })),
                }
            }
        }
    }

    /// The word that begins here, in lower case.
    fn word(&self) -> String {
        let word = self.rest().chars();
        let word = word.take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
        word.collect::<String>().to_lowercase()
    }

    fn block(&mut self, word: &str, line: usize) -> Result<Node, TestError> {
        self.at += word.len();
        self.skip_blanks();
        if !self.rest().starts_with('(') {
            return Err(self.error(format!("`{word}` has no condition")));
        }
        let mut depth = 0usize;
        let mut quote = None;
        let mut end = None;
        for (i, c) in self.rest().char_indices() {
            match (quote, c) {
                (Some(open), _) if open == c => quote = None,
                (None, '\'' | '"' | '`') => quote = Some(c),
                (None, '(') => depth += 1,
                (None, ')') => {
                    depth -= 1;
                    if depth == 0 {
                        end = Some(i);
                        break;
                    }
                }
                _ => {}
            }
        }
        let end = end.ok_or_else(|| self.error(format!("`{word}` has no end of its condition")))?;
        let condition = self.rest()[1..end].trim().to_owned();
        self.at += end + 1;
        self.skip_blanks();
        if !self.rest().starts_with('{') {
            return Err(self.error(format!("`{word}` has no block")));
        }
        self.at += 1;
        let body = self.nodes(true)?;
        Ok(Node::Block(Block {
            line,
            repeats: word == "while",
            condition,
            body,
        }))
    }

    /// The text up to the delimiter outside of quotes. Blanks at the begin of its lines are left
    /// out, as the tester does, unless the line before ends with a quote.
    fn statement(&mut self) -> String {
        let mut text = String::new();
        let mut quote: Option<char> = None;
        let mut after_quote = false;
        let mut at_line_start = true;
        let mut chars = self.rest().char_indices().peekable();
        let mut end = self.rest().len();
        while let Some((i, c)) = chars.next() {
            if quote.is_none() {
                if self.rest()[i..].starts_with(&self.delimiter) {
                    end = i + self.delimiter.len();
                    break;
                }
                if at_line_start && c.is_whitespace() {
                    continue;
                }
                if matches!(c, '\'' | '"' | '`') {
                    quote = Some(c);
                }
            } else if c == '\\' && quote != Some('`') {
                text.push(c);
                if let Some((_, escaped)) = chars.next() {
                    text.push(escaped);
                }
                continue;
            } else if quote == Some(c) {
                quote = None;
            }
            text.push(c);
            at_line_start = c == '\n' && quote.is_none() && !after_quote;
            after_quote = quote.is_none() && matches!(c, '\'' | '"' | '`');
        }
        self.at += end;
        text
    }

    /// The command that a text is; nothing if it is a statement or a comment.
    fn command(&mut self, text: &str, line: usize) -> Result<Option<Command>, TestError> {
        let length = text
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        let word = text[..length].to_lowercase();
        if REFUSED.contains(&word.as_str()) {
            return Err(TestError::Unsupported(format!("line {line}: `{word}`")));
        }
        if !COMMANDS.contains(&word.as_str()) {
            return Ok(None);
        }
        let rest = &text[length..];
        let rest = match word.as_str() {
            // Blanks at the end are printed.
            "echo" => rest.strip_prefix([' ', '\t']).unwrap_or(rest).trim_start(),
            _ => rest.trim(),
        };
        let rest = rest.to_owned();
        if word == "delimiter" {
            let own = rest.strip_suffix(&self.delimiter);
            let new = own.filter(|own| !own.is_empty()).unwrap_or(&rest);
            self.delimiter = new.trim().to_owned();
        }
        Ok(Some(Command {
            line,
            word,
            rest,
            text: text.to_owned(),
            delimiter: self.delimiter.clone(),
        }))
    }
}
