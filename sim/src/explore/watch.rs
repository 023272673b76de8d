//! Letting the monitors see what happened.

use std::sync::Arc;

use rowlock_model::Value;
use rowlock_model::schedule::{Choice, ProcessId, SessionId};

use super::footprints::Own;
use super::monitor::{Inspect, Remark, Seen, What};
use super::world::{Flaw, Happened, World};
use crate::database::Database;

impl<D: Database> World<D> {
    /// Lets the monitors see what happened.
    pub(super) fn watch(&mut self, choice: Choice) -> Result<(), Flaw> {
        let happened = std::mem::take(&mut self.happened);
        let result = self.watch_all(choice, &happened);
        self.happened = happened;
        result
    }

    fn watch_all(&mut self, choice: Choice, happened: &Happened) -> Result<(), Flaw> {
        let process = happened.process.map(ProcessId);
        let name = match process {
            Some(ProcessId(p)) => Arc::clone(&self.actors[usize::from(p)].name),
            None => "".into(),
        };
        let label = self.label(happened);
        let event = Seen {
            choice,
            process,
            name: &name,
            what: What::Other,
        };
        let what = match happened.session {
            Some(session) if happened.waits || happened.pauses || happened.answer.is_some() => {
                What::Statement {
                    session: SessionId(session),
                    step: label.as_deref(),
                    answer: happened.answer.as_ref(),
                }
            }
            _ => What::Other,
        };
        self.show(&Seen { what, ..event })?;
        for (entered, node) in &happened.entered {
            let trie = self.actors[usize::from(*entered)].trie;
            let notes = self.tries[trie].node(*node).notes.clone();
            for note in &notes {
                let what = What::Note {
                    name: &note.name,
                    values: &note.values,
                };
                self.show(&Seen { what, ..event })?;
            }
        }
        if happened.finished {
            let what = What::Finished;
            self.show(&Seen { what, ..event })?;
        }
        Ok(())
    }

    /// The name of the step that a choice was about.
    pub(super) fn label(&self, happened: &Happened) -> Option<Arc<str>> {
        let (node, at) = happened.request?;
        let process = usize::from(happened.process?);
        let trie = &self.tries[self.actors[process].trie];
        trie.node(node).pending[at].label.clone()
    }

    fn show(&mut self, seen: &Seen<'_>) -> Result<(), Flaw> {
        for at in 0..self.monitors.len() {
            if self.monitors[at].ignores(seen) {
                continue;
            }
            self.touch(Own::Monitor(at));
            let state = self.monitor_states[at];
            let db = &mut self.db;
            let mut run = |sql: &str, args: &[Value]| {
                let query = db.prepare(sql);
                db.query(query, args)
            };
            let mut inspect = Inspect { run: &mut run };
            let (after, remark) = self.monitors[at].see(state, seen, &mut inspect);
            self.set_monitor(at, after);
            self.judge(at, remark)?;
        }
        Ok(())
    }

    /// Lets the monitors judge a complete run.
    pub(super) fn judge_end(&mut self) -> Result<(), Flaw> {
        for at in 0..self.monitors.len() {
            let remark = self.monitors[at].end(self.monitor_states[at]);
            self.judge(at, remark)?;
        }
        Ok(())
    }

    fn judge(&mut self, at: usize, remark: Remark) -> Result<(), Flaw> {
        match remark {
            Remark::Fine => {}
            Remark::Happened => self.occurred[at] = true,
            Remark::Violated(detail) => {
                return Err(Flaw::Violation {
                    property: self.monitors[at].name().to_owned(),
                    detail,
                });
            }
            Remark::Failed(error) => {
                return Err(Flaw::of_query(self.monitors[at].name(), error));
            }
        }
        Ok(())
    }
}
