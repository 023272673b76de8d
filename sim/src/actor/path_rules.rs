//! The properties that the write paths promise to their callers, as monitors of what the actor tells.

use rowlock_model::Value;
use rowlock_model::paths::promise;

use crate::database::Database;
use crate::explore::{Explorer, Inspect, Monitor, Remark, Seen, What};

/// Adds all of them but for `except`.
pub(super) fn watch<D: Database>(mut explorer: Explorer<D>, except: &[&str]) -> Explorer<D> {
    let watched = |promise| !except.contains(&promise);
    if watched(promise::A_LOST_RACE_IS_INVISIBLE) {
        explorer = explorer.monitor(LostRaceIsInvisible);
    }
    if watched(promise::ONE_CREATOR) {
        explorer = explorer.monitor(OneCreator);
    }
    for (name, note) in [
        (promise::ACKNOWLEDGED_IS_STORED, "acknowledged"),
        (promise::TOLD_IS_STORED, "told"),
    ] {
        if watched(name) {
            explorer = explorer.monitor(IsStored { name, note });
        }
    }
    explorer
}

fn note<'a>(seen: &Seen<'a>, name: &str) -> Option<&'a [Value]> {
    match seen.what {
        What::Note { name: told, values } if told == name => Some(values),
        _ => None,
    }
}

/// No error of the database reaches a caller.
#[derive(Clone, Copy, Debug)]
struct LostRaceIsInvisible;

impl Monitor for LostRaceIsInvisible {
    type State = ();

    fn name(&self) -> &str {
        promise::A_LOST_RACE_IS_INVISIBLE
    }

    fn start(&self) {}

    fn see(&self, (): &mut (), seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        match note(seen, "failed") {
            Some([code, ..]) => Remark::Violated(format!("{} is told of error {code}", seen.name)),
            _ => Remark::Fine,
        }
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        note(seen, "failed").is_none()
    }

    fn is_symmetric(&self) -> bool {
        true
    }
}

/// Of those who make the same thing one has made it.
#[derive(Clone, Copy, Debug)]
struct OneCreator;

impl Monitor for OneCreator {
    /// What was made.
    type State = Vec<Value>;

    fn name(&self) -> &str {
        promise::ONE_CREATOR
    }

    fn start(&self) -> Vec<Value> {
        Vec::new()
    }

    fn see(&self, made: &mut Vec<Value>, seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        let Some([key, ..]) = note(seen, "created") else {
            return Remark::Fine;
        };
        if made.contains(key) {
            return Remark::Violated(format!("{} believes to have made {key} as well", seen.name));
        }
        made.push(key.clone());
        made.sort_by_key(Value::to_string);
        Remark::Fine
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        note(seen, "created").is_none()
    }

    fn is_symmetric(&self) -> bool {
        true
    }
}

/// What a caller is told of is stored at that moment, committed.
#[derive(Clone, Copy, Debug)]
struct IsStored {
    name: &'static str,
    note: &'static str,
}

impl Monitor for IsStored {
    type State = ();

    fn name(&self) -> &str {
        self.name
    }

    fn start(&self) {}

    fn see(&self, (): &mut (), seen: &Seen<'_>, db: &mut Inspect<'_>) -> Remark {
        let Some([Value::Int(channel), Value::Int(session), Value::Int(height)]) =
            note(seen, self.note)
        else {
            return Remark::Fine;
        };
        let sql = format!(
            "SELECT height FROM tower_acked \
             WHERE channel = {channel} AND session = {session} AND height = {height}"
        );
        match db.query(&sql, &[]) {
            Ok(rows) if rows.is_empty() => Remark::Violated(format!(
                "{} is told of height {height}, which is not stored",
                seen.name
            )),
            Ok(_) => Remark::Fine,
            Err(error) => Remark::Failed(error),
        }
    }

    fn is_symmetric(&self) -> bool {
        true
    }
}
