//! Reading the parameters of an actor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rowlock_model::Value;
use rowlock_model::claim::{Clock, FifoGuard, Mutation, Settlement, Table, promise};
use rowlock_model::guard::promise as guarded;
use rowlock_model::paths::promise as written;

use super::ActorError;

/// The parameters, and which of them were asked for.
pub(super) struct Params<'a> {
    given: &'a BTreeMap<Arc<str>, Value>,
    known: BTreeSet<&'static str>,
}

impl<'a> Params<'a> {
    pub(super) fn new(given: &'a BTreeMap<Arc<str>, Value>) -> Params<'a> {
        Params {
            given,
            known: BTreeSet::new(),
        }
    }

    fn get(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.insert(name);
        self.given.get(name)
    }

    /// A parameter that is a text.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<&'a str>, ActorError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    /// A parameter that is true or false; `default` if not given.
    pub(super) fn flag(&mut self, name: &'static str, default: bool) -> Result<bool, ActorError> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(name, "true or false")),
        }
    }

    /// A number from 0; `default` if not given.
    pub(super) fn number(&mut self, name: &'static str, default: u32) -> Result<u32, ActorError> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Int(number)) => {
                u32::try_from(*number).map_err(|_| wrong(name, "a number from 0"))
            }
            Some(_) => Err(wrong(name, "a number from 0")),
        }
    }

    /// A length of time, `"30s"`.
    pub(super) fn duration(&mut self, name: &'static str) -> Result<Option<Duration>, ActorError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match rowlock_scenarios::scenario::duration(text) {
            Ok(duration) => Ok(Some(duration)),
            Err(why) => Err(wrong(name, &format!("a length of time: {why}"))),
        }
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ActorError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(wrong(name, &format!("one of: {}", words.join(", "))))
            }
        }
    }

    /// The table that is claimed from: `table = "job"`, and a column for each role.
    ///
    /// `id` and `attempt` are named so unless said otherwise; an empty name takes a role away.
    pub(super) fn table(&mut self) -> Result<Table, ActorError> {
        let name = self.text("table")?.unwrap_or("job");
        let id = self.text("id")?.unwrap_or("id");
        let mut table = Table::new(name, id);
        type Role = fn(Table, &str) -> Table;
        let roles: [(&'static str, Option<&str>, Role); 7] = [
            ("schema", None, |t, c| t.schema(c)),
            ("attempt", Some("attempt"), |t, c| t.attempt(c)),
            ("locked_until", None, |t, c| t.locked_until(c)),
            ("fence", None, |t, c| t.fence(c)),
            ("priority", None, |t, c| t.priority(c)),
            ("retry_after", None, |t, c| t.retry_after(c)),
            ("processed_at", None, |t, c| t.processed_at(c)),
        ];
        for (role, default, set) in roles {
            let column = self.text(role)?.or(default);
            if let Some(column) = column.filter(|column| !column.is_empty()) {
                table = set(table, column);
            }
        }
        Ok(table)
    }

    /// What becomes of every row: `settle = "ack"`; `settle = "retry after 5s"`.
    pub(super) fn settlement(&mut self) -> Result<Settlement, ActorError> {
        let Some(text) = self.text("settle")? else {
            return Ok(Settlement::Ack);
        };
        match text {
            "ack" => Ok(Settlement::Ack),
            "drop" => Ok(Settlement::Drop),
            "retry" => Ok(Settlement::Retry),
            _ => {
                let delay = text.strip_prefix("retry after ");
                let delay = delay.map(rowlock_scenarios::scenario::duration);
                match delay {
                    Some(Ok(delay)) => Ok(Settlement::RetryAfter(delay)),
                    _ => Err(wrong("settle", "one of: ack, drop, retry, retry after 5s")),
                }
            }
        }
    }

    /// Whose clock decides: `clock = "host"`, `"database"`.
    pub(super) fn clock(&mut self) -> Result<Clock, ActorError> {
        let words = [("host", Clock::Host), ("database", Clock::Database)];
        Ok(self.word("clock", &words)?.unwrap_or_default())
    }

    /// Whether the queue is FIFO: `fifo = "lock"`, `"counts"`.
    pub(super) fn fifo(&mut self) -> Result<Option<FifoGuard>, ActorError> {
        let words = [("lock", FifoGuard::Lock), ("counts", FifoGuard::Counts)];
        self.word("fifo", &words)
    }

    /// A deliberate mistake, by name.
    pub(super) fn mutation(&mut self) -> Result<Option<Mutation>, ActorError> {
        self.word("mutation", &Mutation::NAMED)
    }

    /// Names of promises, with `, ` between them.
    pub(super) fn promises(&mut self, name: &'static str) -> Result<(), ActorError> {
        let text = self.text(name)?.unwrap_or_default();
        let all = [&promise::ALL[..], &guarded::ALL, &written::ALL].concat();
        let known = |word: &str| word.is_empty() || all.contains(&word);
        match text.split(", ").all(known) {
            true => Ok(()),
            false => Err(wrong(name, &format!("some of: {}", all.join(", ")))),
        }
    }

    /// No parameter may be left over.
    pub(super) fn finish(self) -> Result<(), ActorError> {
        for name in self.given.keys() {
            if !self.known.contains(&**name) {
                let known: Vec<&str> = self.known.into_iter().collect();
                return Err(ActorError {
                    param: Some(Arc::clone(name)),
                    message: format!("no parameter `{name}`; there are: {}", known.join(", ")),
                });
            }
        }
        Ok(())
    }
}

/// A value that does not fit.
pub(super) fn wrong(name: &str, expected: &str) -> ActorError {
    ActorError {
        param: Some(name.into()),
        message: format!("`{name}` must be {expected}"),
    }
}
