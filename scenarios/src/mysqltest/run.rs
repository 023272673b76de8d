//! Carries scripts out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, Dialect, ErrorClass, Reply};

use super::TestError;
use super::parse::{Block, Command, Node, parse};
use super::print::{Manner, text};
use crate::stage::{Answer, Stage};

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is looked for its answer.
const LOOK: Duration = Duration::from_millis(20);

/// The replies of a statement, and the error that ended it.
#[derive(Clone, Debug, Default)]
struct Results {
    replies: Vec<Reply>,
    error: Option<DbError>,
}

#[derive(Debug)]
struct Connection {
    name: String,
    id: SessionId,
    /// A statement is on its way, or its results were not asked for.
    sent: bool,
    results: Option<Results>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Info {
    Off,
    Once,
    On,
}

pub(super) struct Tester<'a> {
    stage: &'a mut dyn Stage,
    root: PathBuf,
    output: String,
    variables: BTreeMap<String, String>,
    connections: Vec<Connection>,
    current: Option<String>,
    manner: Manner,
    logs_queries: bool,
    logs_results: bool,
    logs_connections: bool,
    shows_warnings: bool,
    /// Whether it is told how many rows a statement affected; after the next one no more.
    shows_info: Info,
    /// Users that the script made. Connections of them are root's: what privileges forbid shows in the
    /// comparison with the result.
    users: Vec<String>,
    aborts_on_error: bool,
    /// The errors that the next statement may end with.
    expected: Vec<String>,
    /// The next statement is only sent.
    sends: bool,
    ended: bool,
}

impl<'a> Tester<'a> {
    pub(super) fn new(stage: &'a mut dyn Stage, root: &Path) -> Tester<'a> {
        // MariaDB's tester tells of connections unless it is told not to.
        let logs_connections = stage.dialect() == Dialect::MariaDb;
        let mut variables = BTreeMap::new();
        // What the runner of the suites sets where none of these modes is asked for.
        for mode in ["CURSOR", "PS", "SP", "VIEW", "OPT_TRACE", "JSON_EXPLAIN"] {
            variables.insert(format!("{mode}_PROTOCOL"), "0".to_owned());
        }
        Tester {
            stage,
            root: root.to_owned(),
            output: String::new(),
            variables,
            connections: Vec::new(),
            current: None,
            manner: Manner::default(),
            logs_queries: true,
            logs_results: true,
            logs_connections,
            shows_warnings: true,
            shows_info: Info::Off,
            users: Vec::new(),
            aborts_on_error: true,
            expected: Vec::new(),
            sends: false,
            ended: false,
        }
    }

    pub(super) fn into_output(self) -> String {
        self.output
    }

    pub(super) fn run(&mut self, script: &Path) -> Result<(), TestError> {
        self.stage.reset(&[])?;
        self.open("default")?;
        self.file(script)
    }

    fn file(&mut self, path: &Path) -> Result<(), TestError> {
        let bytes = std::fs::read(path)
            .map_err(|error| TestError::File(format!("{}: {error}", path.display())))?;
        let nodes = parse(&String::from_utf8_lossy(&bytes))?;
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        self.nodes(&nodes, &directory)
    }

    fn nodes(&mut self, nodes: &[Node], directory: &Path) -> Result<(), TestError> {
        for node in nodes {
            if self.ended {
                break;
            }
            match node {
                Node::Command(command) => self.command(command, directory)?,
                Node::Block(block) => self.block(block, directory)?,
            }
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, directory: &Path) -> Result<(), TestError> {
        while !self.ended && self.holds(&block.condition, block.line)? {
            self.nodes(&block.body, directory)?;
            if !block.repeats {
                break;
            }
        }
        Ok(())
    }

    /// Whether a condition is true: `$x`, `!$x`, `` `query` ``, `$x == text`.
    fn holds(&mut self, condition: &str, line: usize) -> Result<bool, TestError> {
        let (negated, condition) = match condition.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, condition),
        };
        if condition.starts_with('$') {
            for operator in ["==", "!=", "<=", ">=", "<", ">"] {
                let Some((left, right)) = condition.split_once(operator) else {
                    continue;
                };
                let left = self.value(left.trim(), line)?;
                let right = self.value(right.trim().trim_matches(['\'', '"']), line)?;
                let order = match (left.parse::<i64>(), right.parse::<i64>()) {
                    (Ok(left), Ok(right)) => left.cmp(&right),
                    _ => left.to_lowercase().cmp(&right.to_lowercase()),
                };
                let holds = match operator {
                    "==" => order.is_eq(),
                    "!=" => order.is_ne(),
                    "<=" => order.is_le(),
                    ">=" => order.is_ge(),
                    "<" => order.is_lt(),
                    _ => order.is_gt(),
                };
                return Ok(holds != negated);
            }
        }
        let value = self.value(condition, line)?;
        let value = value.trim();
        Ok((!value.is_empty() && value != "0") != negated)
    }

    /// The value of an expression of the tester.
    fn value(&mut self, expression: &str, line: usize) -> Result<String, TestError> {
        if let Some(query) = expression
            .strip_prefix('`')
            .and_then(|e| e.strip_suffix('`'))
        {
            let query = self.expanded(query);
            let reply = self.ask(&query, line)?;
            let row = reply.rows.first();
            return Ok(row.map_or_else(String::new, |row| {
                let values: Vec<String> = row.iter().map(text).collect();
                values.join("\t")
            }));
        }
        let of_query = expression
            .strip_prefix("query_get_value(")
            .and_then(|e| e.strip_suffix(')'));
        if let Some(arguments) = of_query {
            let arguments = self.expanded(arguments);
            let mut parts = arguments.rsplitn(3, ',');
            let (row, column, query) = (parts.next(), parts.next(), parts.next());
            let (Some(row), Some(column), Some(query)) = (row, column, query) else {
                return Err(TestError::script(
                    line,
                    "query_get_value needs three arguments",
                ));
            };
            let reply = self.ask(query.trim().trim_matches('"'), line)?;
            let wanted = |name: &str| name.eq_ignore_ascii_case(column.trim());
            let column = reply.columns.iter().position(|c| wanted(&c.name));
            let row = row
                .trim()
                .parse::<usize>()
                .ok()
                .and_then(|n| n.checked_sub(1));
            let value = row
                .and_then(|row| reply.rows.get(row))
                .zip(column)
                .and_then(|(row, column)| row.get(column));
            return Ok(value.map_or_else(|| "No such row".to_owned(), text));
        }
        Ok(self.expanded(expression))
    }

    /// The text with variables replaced. One that was never set is empty.
    fn expanded(&self, source: &str) -> String {
        let mut out = String::new();
        let mut rest = source;
        while let Some(at) = rest.find('$') {
            if let Some(before) = rest[..at].strip_suffix('\\') {
                out += before;
                out.push('$');
                rest = &rest[at + 1..];
                continue;
            }
            out += &rest[..at];
            rest = &rest[at + 1..];
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            match end {
                0 => out.push('$'),
                _ => out += self.variables.get(&rest[..end]).map_or("", String::as_str),
            }
            rest = &rest[end..];
        }
        out + rest
    }

    fn print(&mut self, line: &str) {
        self.output += line;
        self.output.push('\n');
    }

    fn command(&mut self, command: &Command, directory: &Path) -> Result<(), TestError> {
        let (line, rest) = (command.line, command.rest.as_str());
        match command.word.as_str() {
            "" => return self.statement(rest, command),
            "eval" | "evalp" => return self.statement(&self.expanded(rest), command),
            "send" | "send_eval" => {
                self.sends = true;
                if !rest.is_empty() {
                    let sql = match command.word.as_str() {
                        "send" => rest.to_owned(),
                        _ => self.expanded(rest),
                    };
                    return self.statement(&sql, command);
                }
            }
            "reap" => return self.reap(line, ""),
            "echo" => {
                let text = self.expanded(rest);
                self.print(&text);
            }
            "let" => self.assign(rest, line)?,
            "inc" => self.count(rest, 1),
            "dec" => self.count(rest, -1),
            "source" => {
                let name = first_word(&self.expanded(rest));
                if self.housekeeping(&name, line)? {
                    return Ok(());
                }
                let places = [directory.join(&name), self.root.join(&name)];
                let found = places.into_iter().find(|place| place.is_file());
                let path = found
                    .ok_or_else(|| TestError::script(line, format!("there is no file `{name}`")))?;
                self.file(&path)?;
            }
            "error" => {
                let names = rest.split(',').map(|name| name.trim().to_owned());
                self.expected = names.collect();
            }
            "connect" => self.connect(command)?,
            "connection" => {
                let name = first_word(&self.expanded(rest));
                self.switch(&name, line)?;
            }
            "disconnect" | "dirty_close" => self.disconnect(&command.word, rest, line)?,
            "sleep" | "real_sleep" => {
                let seconds: f64 = self.expanded(rest).trim().parse().unwrap_or(0.0);
                self.pass(Duration::from_secs_f64(seconds))?;
            }
            "replace_result" => {
                let words = words(&self.expanded(rest));
                self.manner.texts = pairs(words);
            }
            "replace_column" => {
                let pairs = pairs(words(&self.expanded(rest))).into_iter();
                let numbered = |(n, text): (String, String)| Some((n.parse().ok()?, text));
                self.manner.columns = pairs.filter_map(numbered).collect();
            }
            "enable_info" if rest.eq_ignore_ascii_case("once") => self.shows_info = Info::Once,
            "enable_info" => self.shows_info = Info::On,
            "disable_info" => self.shows_info = Info::Off,
            "sorted_result" => self.manner.is_sorted = true,
            "vertical_results" => self.manner.is_vertical = true,
            "horizontal_results" => self.manner.is_vertical = false,
            "exit" => self.ended = true,
            "die" => return Err(TestError::script(line, self.expanded(rest))),
            "skip" => return Err(TestError::Skipped(self.expanded(rest))),
            other => self.switch_option(other),
        }
        Ok(())
    }

    /// Files that ask how the server was built (it has InnoDB, always), or wait for it to be done with
    /// something. The stage waits by itself: for the end of sessions, and until whoever is busy has
    /// an answer or is blocked.
    fn housekeeping(&mut self, file: &str, line: usize) -> Result<bool, TestError> {
        match file.strip_prefix("include/") {
            Some(
                "count_sessions.inc"
                | "wait_until_count_sessions.inc"
                | "wait_until_disconnected.inc"
                | "have_innodb.inc",
            ) => self.collect()?,
            Some("wait_condition.inc") => self.wait_for_condition(line)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Waits until the query in `$wait_condition` gives something true. Where it reads what the
    /// simulator does not model, everybody is at rest, which is what it waits for.
    fn wait_for_condition(&mut self, line: usize) -> Result<(), TestError> {
        const LOOK: Duration = Duration::from_millis(120);
        const LOOKS: usize = 250;
        let condition = self.variables.get("wait_condition").cloned();
        let condition = self.expanded(&condition.unwrap_or_default());
        for _ in 0..LOOKS {
            self.collect()?;
            let reply = match self.ask(&condition, line) {
                Err(TestError::Unsupported(_)) => return Ok(()),
                reply => reply?,
            };
            let value = reply
                .rows
                .first()
                .map_or_else(String::new, |row| text(&row[0]));
            if !matches!(value.as_str(), "" | "0" | "NULL") {
                return Ok(());
            }
            self.pass(LOOK)?;
        }
        let message = format!("what was waited for did not come: {condition}");
        Err(TestError::script(line, message))
    }

    fn switch_option(&mut self, word: &str) {
        let (on, what) = match word.split_once('_') {
            Some(("enable", what)) => (true, what),
            Some(("disable", what)) => (false, what),
            // About optimisers and parsers that are set up by other runners.
            _ => return,
        };
        match what {
            "query_log" => self.logs_queries = on,
            "result_log" => self.logs_results = on,
            "connect_log" => self.logs_connections = on,
            "warnings" => self.shows_warnings = on,
            "abort_on_error" => self.aborts_on_error = on,
            // How the tester talks to the server makes no difference here.
            _ => {}
        }
    }

    fn assign(&mut self, text: &str, line: usize) -> Result<(), TestError> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| TestError::script(line, "`let` without `=`"))?;
        let value = self.value(value.trim(), line)?;
        let name = name.trim().trim_start_matches('$').to_owned();
        self.variables.insert(name, value);
        // A query inside of `let` used up what was said for the next statement.
        self.expected.clear();
        Ok(())
    }

    fn count(&mut self, variable: &str, by: i64) {
        let name = variable.trim().trim_start_matches('$').to_owned();
        let value: i64 = self
            .variables
            .get(&name)
            .and_then(|v| v.trim().parse().ok())
            .unwrap_or(0);
        self.variables.insert(name, (value + by).to_string());
    }

    fn open(&mut self, name: &str) -> Result<(), TestError> {
        let id = self.stage.connect(name, None)?;
        self.connections.push(Connection {
            name: name.to_owned(),
            id,
            sent: false,
            results: None,
        });
        self.current = Some(name.to_owned());
        Ok(())
    }

    fn connect(&mut self, command: &Command) -> Result<(), TestError> {
        let line = command.line;
        let arguments = self.expanded(&command.rest);
        let inner = arguments
            .trim()
            .trim_start_matches('(')
            .trim_end_matches(')');
        let mut parts = inner.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default().to_owned();
        let user = parts.nth(1).unwrap_or_default();
        let is_made = self.users.iter().any(|made| made == user);
        if !matches!(user, "" | "root") && !is_made {
            let what = format!("line {line}: a connection as another user than root");
            return Err(TestError::Unsupported(what));
        }
        if self.connections.iter().any(|c| c.name == name) {
            return Err(TestError::script(
                line,
                format!("connection `{name}` is open"),
            ));
        }
        if self.logs_connections && self.logs_queries {
            let text = self.expanded(&command.text);
            let text = text.replacen('(', " ", 1).replace(')', "");
            self.print(&format!("{};", text.trim_end()));
        }
        self.open(&name)
    }

    fn switch(&mut self, name: &str, line: usize) -> Result<(), TestError> {
        if !self.connections.iter().any(|c| c.name == name) {
            return Err(TestError::script(line, format!("no connection `{name}`")));
        }
        if self.logs_connections && self.logs_queries {
            self.print(&format!("connection {name};"));
        }
        self.current = Some(name.to_owned());
        Ok(())
    }

    fn disconnect(&mut self, word: &str, name: &str, line: usize) -> Result<(), TestError> {
        let name = first_word(&self.expanded(name));
        let at = self.connections.iter().position(|c| c.name == name);
        let at = at.ok_or_else(|| TestError::script(line, format!("no connection `{name}`")))?;
        let gone = self.connections.remove(at);
        self.stage.terminate(gone.id)?;
        self.collect()?;
        if self.logs_connections && self.logs_queries {
            self.print(&format!("{word} {name};"));
        }
        if self.current.as_ref() == Some(&name) {
            self.current = None;
        }
        Ok(())
    }

    fn connection(&mut self, line: usize) -> Result<&mut Connection, TestError> {
        let current = self.current.clone();
        let found = self
            .connections
            .iter_mut()
            .find(|c| Some(&c.name) == current.as_ref());
        found.ok_or_else(|| TestError::script(line, "no connection is open"))
    }

    /// Sends a statement over the current connection.
    fn send(&mut self, sql: &str, line: usize) -> Result<(), TestError> {
        let connection = self.connection(line)?;
        if connection.sent {
            let name = connection.name.clone();
            let message = format!("connection `{name}` has results to reap");
            return Err(TestError::script(line, message));
        }
        connection.sent = true;
        connection.results = None;
        let statement = Statement {
            sql: sql.into(),
            args: Vec::new(),
            // The body of a routine, or several statements.
            batch: sql.contains(';'),
        };
        let id = connection.id;
        self.stage.send(id, &statement)?;
        Ok(())
    }

    /// Takes the answers that are there.
    fn collect(&mut self) -> Result<(), TestError> {
        for completion in self.stage.settle(None)? {
            let session = completion.session;
            let Some(connection) = self.connections.iter_mut().find(|c| c.id == session) else {
                continue;
            };
            connection.results = Some(match completion.answer {
                Answer::Exec(Ok(reply)) => Results {
                    replies: vec![reply],
                    error: None,
                },
                Answer::Exec(Err(error)) | Answer::Batch(Err(error)) => Results {
                    replies: Vec::new(),
                    error: Some(error),
                },
                Answer::Batch(Ok(batch)) => Results {
                    replies: batch.replies,
                    error: batch.error,
                },
            });
        }
        Ok(())
    }

    fn pass(&mut self, time: Duration) -> Result<(), TestError> {
        self.stage.advance(time)?;
        self.collect()
    }

    /// Waits for the results of the current connection.
    fn results(&mut self, line: usize) -> Result<Results, TestError> {
        let mut waited = Duration::ZERO;
        loop {
            self.collect()?;
            let connection = self.connection(line)?;
            if let Some(results) = connection.results.take() {
                connection.sent = false;
                return Ok(results);
            }
            if waited > PATIENCE {
                return Err(TestError::script(line, "a statement has no answer"));
            }
            self.stage.advance(LOOK)?;
            waited += LOOK;
        }
    }

    /// Runs a query of the tester itself.
    fn ask(&mut self, sql: &str, line: usize) -> Result<Reply, TestError> {
        self.send(sql, line)?;
        let mut results = self.results(line)?;
        match results.error {
            Some(error) if error.class == ErrorClass::Unsupported => {
                Err(TestError::Unsupported(error.message.to_string()))
            }
            Some(error) if self.expected.is_empty() => {
                Err(TestError::script(line, format!("`{sql}` failed: {error}")))
            }
            Some(_) => Ok(Reply::default()),
            None => Ok(results.replies.pop().unwrap_or_default()),
        }
    }

    fn statement(&mut self, sql: &str, command: &Command) -> Result<(), TestError> {
        if self.logs_queries {
            let text = self.manner.text(&format!("{sql}{}", command.delimiter));
            self.print(&text);
        }
        if sql
            .trim_start()
            .to_lowercase()
            .contains("call mtr.add_suppression")
        {
            // About the log of the server, which nobody reads here.
            self.expected.clear();
            return Ok(());
        }
        if let Some(users) = users_of(sql) {
            self.users.extend(users);
            self.expected.clear();
            return Ok(());
        }
        if self.current.is_none() {
            return self.gone(command.line);
        }
        let before = match self.shows_warnings && leaves_warnings(sql) {
            true => self.warnings(command.line)?,
            false => String::new(),
        };
        self.send(sql, command.line)?;
        if std::mem::take(&mut self.sends) {
            self.manner.forget();
            // It is on its way before anything else happens.
            return self.collect();
        }
        self.reap(command.line, &before)
    }

    /// A statement over a connection that was closed.
    fn gone(&mut self, line: usize) -> Result<(), TestError> {
        let error = DbError::new(ErrorClass::Other, "2006", "MySQL server has gone away");
        let results = Results {
            replies: Vec::new(),
            error: Some(error),
        };
        self.tell(results, line, "")
    }

    /// Waits for results and tells them. Warnings that were there before are not new ones.
    fn reap(&mut self, line: usize, before: &str) -> Result<(), TestError> {
        if !self.connection(line)?.sent {
            return Err(TestError::script(
                line,
                "nothing was sent that could be reaped",
            ));
        }
        let results = self.results(line)?;
        self.tell(results, line, before)
    }

    fn tell(&mut self, results: Results, line: usize, before: &str) -> Result<(), TestError> {
        let number = results.error.as_ref().map_or("0", |error| &error.code);
        self.variables
            .insert("mysql_errno".to_owned(), number.to_owned());
        let mut text = String::new();
        for reply in &results.replies {
            if !reply.columns.is_empty() {
                text += &self.manner.rows(reply);
            }
        }
        let expected = std::mem::take(&mut self.expected);
        match &results.error {
            Some(error) if error.class == ErrorClass::Unsupported => {
                let what = format!("line {line}: {}", error.message);
                return Err(TestError::Unsupported(what));
            }
            Some(error) if expected.is_empty() && self.aborts_on_error => {
                return Err(TestError::script(line, format!("failed: {error}")));
            }
            Some(error) => {
                text += &match &*expected {
                    [] | [_] => self.manner.error(error),
                    // With 0 in the first place either is fine, and neither is told.
                    [first, ..] if first == "0" => String::new(),
                    _ => "Got one of the listed errors\n".to_owned(),
                };
            }
            None => {
                let info = self.info(&results, line)?;
                if self.shows_warnings {
                    let warnings = self.warnings(line)?;
                    if warnings != before {
                        text += &warnings;
                    }
                }
                text += &info;
            }
        }
        if self.shows_info == Info::Once {
            self.shows_info = Info::Off;
        }
        if self.logs_results {
            self.output += &text;
        }
        self.manner.forget();
        Ok(())
    }

    /// `affected rows: 1`, and what the server told besides.
    fn info(&mut self, results: &Results, line: usize) -> Result<String, TestError> {
        if self.shows_info == Info::Off {
            return Ok(String::new());
        }
        let id = self.connection(line)?.id;
        let Some(told) = self.stage.info(id) else {
            let what = format!("line {line}: what the server told besides the answer");
            return Err(TestError::Unsupported(what));
        };
        let rows = results
            .replies
            .last()
            .map_or(0, |reply| match reply.columns.is_empty() {
                true => reply.affected,
                false => reply.rows.len() as u64,
            });
        let mut text = format!("affected rows: {rows}\n");
        if !told.is_empty() {
            text += &format!("info: {told}\n");
        }
        Ok(text)
    }

    /// The warnings of the last statement, as they are printed after it.
    fn warnings(&mut self, line: usize) -> Result<String, TestError> {
        self.send("SHOW WARNINGS", line)?;
        let results = self.results(line)?;
        let rows = results.replies.first().map_or(&[][..], |reply| &reply.rows);
        if rows.is_empty() {
            return Ok(String::new());
        }
        let mut out = "Warnings:\n".to_owned();
        for row in rows {
            let values: Vec<String> = row.iter().map(text).collect();
            out += &values.join("\t");
            out.push('\n');
        }
        Ok(self.manner.text(&out))
    }
}

/// Whether a statement that has no warnings of its own leaves those of the one before in place (MySQL
/// manual, `SHOW WARNINGS`: statements that use no tables do).
fn leaves_warnings(sql: &str) -> bool {
    let lower = sql.trim_start().to_lowercase();
    let word: String = lower
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .collect();
    match word.as_str() {
        "select" => !lower.contains("from"),
        "begin" | "commit" | "do" | "release" | "rollback" | "savepoint" | "set" | "start"
        | "unlock" | "use" | "xa" => true,
        _ => false,
    }
}

/// The users that a statement is about, if it is one about users and privileges. Such a statement is not
/// sent: everything is done as root.
fn users_of(sql: &str) -> Option<Vec<String>> {
    let lower = sql.trim().to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let list = match words[..] {
        ["create" | "drop", "user", ..] => lower.split_once("user")?.1,
        ["grant", ..] => lower.split_once(" to ")?.1,
        _ => return None,
    };
    let list = list
        .trim_start_matches(" if not exists")
        .trim_start_matches(" if exists");
    let name = |user: &str| {
        let name = user.split('@').next().unwrap_or_default().trim();
        name.trim_matches(['\'', '"', '`']).to_owned()
    };
    Some(list.split(',').map(name).collect())
}

fn first_word(text: &str) -> String {
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Words with quotes taken off.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' | '"' => {
                let inner = &rest[1..];
                inner.split_once(first).unwrap_or((inner, ""))
            }
            _ => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

fn pairs(words: Vec<String>) -> Vec<(String, String)> {
    let mut words = words.into_iter();
    let mut pairs = Vec::new();
    while let Some(from) = words.next() {
        pairs.push((from, words.next().unwrap_or_default()));
    }
    pairs
}
