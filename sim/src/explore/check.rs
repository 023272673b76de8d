//! Checking properties in a state.

use rowlock_model::schedule::Choice;
use rowlock_model::{Row, Value};

use super::monitor::{StateProperty, When};
use super::trie::Action;
use super::world::{Flaw, Phase, World};
use crate::database::{Database, Internal};

/// How a state without work is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Every process is done or has crashed.
    Over,
    /// Some process would go on if the clock moved further than the bounds allow.
    Cut,
    /// Some process waits for ever.
    Stuck,
}

/// The properties that are queries.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) properties: Vec<StateProperty>,
    /// Of each property, whether a row has ever been seen.
    pub(crate) occurred: Vec<bool>,
    /// Processes that wait for ever are not a violation.
    pub(crate) may_hang: bool,
}

impl Checks {
    /// Prepares the queries.
    pub(crate) fn prepare(&mut self, db: &mut impl Database) {
        for property in &mut self.properties {
            property.query = db.prepare(&property.sql);
        }
        self.occurred = vec![false; self.properties.len()];
    }

    /// Checks what must hold in every state, and notes what has happened.
    pub(crate) fn state<D: Database>(&mut self, world: &mut World<D>) -> Result<(), Flaw> {
        self.check(world, |property| property.when != When::AtEnd)
    }

    /// Checks again what may have changed although nothing was committed.
    pub(crate) fn live_state<D: Database>(&mut self, world: &mut World<D>) -> Result<(), Flaw> {
        self.check(world, |property| {
            property.live && property.when != When::AtEnd
        })
    }

    /// Checks a state in which nothing is left to do.
    pub(crate) fn end<D: Database>(&mut self, world: &mut World<D>) -> Result<End, Flaw> {
        let end = world.end();
        match end {
            End::Over => {
                self.check(world, |property| property.when == When::AtEnd)?;
                world.judge_end()?;
                world.judge_serial()?;
            }
            End::Stuck if !self.may_hang => {
                return Err(Flaw::Violation {
                    property: "stuck".to_owned(),
                    detail: world.describe_stuck(),
                });
            }
            End::Stuck | End::Cut => {}
        }
        Ok(end)
    }

    fn check<D: Database>(
        &mut self,
        world: &mut World<D>,
        which: impl Fn(&StateProperty) -> bool,
    ) -> Result<(), Flaw> {
        for (at, property) in self.properties.iter().enumerate() {
            if !which(property) || (property.when == When::Sometimes && self.occurred[at]) {
                continue;
            }
            let rows = world
                .db
                .find(property.query, &[])
                .map_err(|error| Flaw::of_query(&property.name, error))?;
            if rows.is_empty() {
                continue;
            }
            self.occurred[at] = true;
            if property.when != When::Sometimes {
                return Err(Flaw::Violation {
                    property: property.name.clone(),
                    detail: describe_rows(&rows),
                });
            }
        }
        Ok(())
    }
}

fn describe_rows(rows: &[Row]) -> String {
    const SHOWN_MAX: usize = 5;
    let mut text = format!(
        "{} row{}:",
        rows.len(),
        if rows.len() == 1 { "" } else { "s" }
    );
    for row in rows.iter().take(SHOWN_MAX) {
        let values: Vec<String> = row.iter().map(Value::to_string).collect();
        text.push_str(&format!(" ({})", values.join(", ")));
    }
    if rows.len() > SHOWN_MAX {
        text.push_str(" ...");
    }
    text
}

impl<D: Database> World<D> {
    /// What kind of end a state without work is.
    fn end(&mut self) -> End {
        let waits = |phase: Phase| phase == Phase::Running;
        if !self.processes.iter().any(|process| waits(process.phase)) {
            return End::Over;
        }
        // A sleeper, or whoever waits for one, goes on when time passes.
        if !self.timers.is_empty() || self.time_would_help() {
            return End::Cut;
        }
        End::Stuck
    }

    /// Whether a timer of the server (a lock timeout, say) would end a wait.
    fn time_would_help(&mut self) -> bool {
        let mut deadlines = Vec::new();
        self.db.deadlines(&mut deadlines);
        let Some(last) = deadlines.into_iter().max() else {
            return false;
        };
        let mark = self.mark();
        self.db
            .set_now_micros(last + super::choices::JUST_AFTER_MICROS);
        let mut internals: Vec<Internal> = Vec::new();
        self.db.pending(&mut internals);
        self.undo_to(mark);
        !internals.is_empty()
    }

    /// Who waits for what.
    fn describe_stuck(&self) -> String {
        let waits = self.db.waits();
        let mut parts = Vec::new();
        for (process, state) in self.processes.iter().enumerate() {
            if state.phase != Phase::Running {
                continue;
            }
            let on = self.node(process).pending.iter().find_map(|pending| {
                let Action::Run(local, _) = pending.action else {
                    return None;
                };
                let line = self.line(process, local);
                let wait = waits.iter().find(|w| self.line_of(w.session) == line)?;
                let blockers: Vec<String> = wait
                    .blockers
                    .iter()
                    .map(|session| self.session_name(self.line_of(*session)).to_string())
                    .collect();
                // A prepared transaction is nobody.
                Some(match &blockers[..] {
                    [] => wait.object.clone(),
                    all => format!("{} held by {}", wait.object, all.join(", ")),
                })
            });
            let name = &self.actors[process].name;
            parts.push(match on {
                Some(on) => format!("{name} waits for {on}"),
                None => format!("{name} waits"),
            });
        }
        parts.join("; ")
    }

    /// Whether the clock may move.
    pub(crate) fn may_advance(choices: &[Choice]) -> bool {
        choices
            .iter()
            .any(|choice| matches!(choice, Choice::Advance(_)))
    }
}
