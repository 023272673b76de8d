//! Blocks with `EXCEPTION`: a savepoint around their body (manual, "Trapping Errors").

use rowlock_model::{DbError, ErrorClass, Value};

use super::super::{Exec, Stop};
use super::frame::{Frame, Slot};
use super::step::Go;
use super::{Entered, Outcome};
use crate::plan::types::Type;
use crate::sql::plpgsql::{Block, Condition, Handler};

impl Exec<'_> {
    /// Runs the body of a block, and its handler if it fails with what one catches.
    pub(super) fn guarded(&mut self, frame: &mut Frame<'_>, block: &Block) -> Result<Go, Stop> {
        let fresh = !self.run.is_replaying();
        let opened = match self.open_frame() {
            Entered::Now(opened) => opened,
            Entered::Before(Outcome::Block(state, go)) => {
                frame.state = state;
                return Ok(go);
            }
            Entered::Before(Outcome::Caught(state, error)) => {
                frame.state = state;
                return self.handle(frame, block, *error);
            }
            Entered::Before(other) => panic!("the journal has {other:?} where a block begins"),
        };
        if fresh {
            self.store.open_block(self.session);
        }
        let levels = self.store.xact(self.session).levels.len();
        let depth = self.run.enter_block();
        let slots = frame.state.slots.len();
        let result = self.steps(frame, &block.body);
        match result {
            Ok(go) => {
                self.run.leave_block(depth);
                self.store.close_block(self.session);
                self.close_frame(&opened, Outcome::Block(frame.state.clone(), go.clone()));
                Ok(go)
            }
            Err(Stop::Wait) => Err(Stop::Wait),
            Err(Stop::Error(mut error)) => {
                self.run.leave_block(depth);
                debug_assert!(levels >= 2);
                self.store.rollback_savepoint(self.session);
                if !block.handlers.iter().any(|h| catches(h, &error)) {
                    return Err(Stop::Error(error));
                }
                error.position = None;
                frame.state.slots.truncate(slots);
                self.run.give_up();
                let caught = Outcome::Caught(frame.state.clone(), error.clone());
                self.close_frame(&opened, caught);
                self.handle(frame, block, *error)
            }
        }
    }

    fn handle(&mut self, frame: &mut Frame<'_>, block: &Block, error: DbError) -> Result<Go, Stop> {
        let handler = block.handlers.iter().find(|h| catches(h, &error));
        let handler = handler.unwrap_or_else(|| unreachable!("it was caught"));
        let slots = frame.state.slots.len();
        for (name, text) in [("sqlstate", &error.code), ("sqlerrm", &error.message)] {
            let slot = Slot::value(name, Type::Text, Value::Text(text.clone()));
            frame.state.slots.push(slot);
        }
        frame.caught.push(error);
        let result = self.steps(frame, &handler.body);
        frame.caught.pop();
        frame.state.slots.truncate(slots);
        result
    }
}

/// Whether a handler catches an error.
fn catches(handler: &Handler, error: &DbError) -> bool {
    // What is not modelled cannot be survived, and neither can the end of the session.
    if matches!(
        error.class,
        ErrorClass::Unsupported | ErrorClass::ConnectionLost
    ) {
        return false;
    }
    handler.conditions.iter().any(|condition| match condition {
        Condition::Others => !matches!(&*error.code, "57014" | "P0004"),
        Condition::State(state) => match state.strip_suffix("000") {
            Some(class) => error.code.starts_with(class),
            None => error.code == *state,
        },
    })
}
