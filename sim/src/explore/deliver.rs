//! Telling a process what it waits for, and taking over what it does then.

use std::sync::Arc;

use super::error::ExploreError;
use super::footprints::Own;
use super::trie::{Action, NodeId, Pending, Viewer};
use super::world::{Client, Flaw, Line, Phase, Process, Timer, World, open_session};
use crate::database::Database;
use crate::host::{Event, Finish};

/// Rounds of a step function without a request after which it counts as spinning.
const EMPTY_ROUNDS_MAX: u32 = 1_000;

impl<D: Database> World<D> {
    /// A process is told something.
    pub(super) fn deliver(&mut self, process: usize, event: Event) -> Result<(), Flaw> {
        let World {
            db,
            tries,
            actors,
            processes,
            ..
        } = self;
        let actor = &actors[process];
        let now_micros = db.now_micros() + actor.skew_micros;
        let viewer = || Viewer {
            process,
            name: Arc::clone(&actor.name),
            now_micros,
        };
        let node = processes[process].node;
        let prepare = &mut |sql: &str| db.prepare(sql);
        let trie = actor.trie;
        let next = tries[trie].advance(node, event, viewer, prepare)?;
        self.note_looks(trie, next);
        self.enter(process, next)
    }

    /// A process has looked at its clock or its name on its way to a node.
    fn note_looks(&mut self, trie: usize, node: NodeId) {
        let node = self.tries[trie].node(node);
        let (clock, name) = (node.looked_at_clock(), node.looked_at_name());
        self.tells_apart |= name;
        if clock {
            self.touch(Own::Time);
        }
    }

    /// A process has come to rest at `node`: sessions are closed, sleeps begin, a next round does.
    pub(super) fn enter(&mut self, process: usize, mut node: NodeId) -> Result<(), Flaw> {
        for _ in 0..EMPTY_ROUNDS_MAX {
            if let Some(next) = self.next_round(process, node)? {
                node = next;
            }
            let Some(local) = self.rest_at(process, node)? else {
                return Ok(());
            };
            let old = self.processes[process];
            if self.rules.rounds > 0 {
                if old.rounds + 1 >= self.rules.rounds {
                    self.end_process(process, Phase::Done);
                    return self.check_leaks(process);
                }
                let rounds = old.rounds + 1;
                self.set_process(process, Process { rounds, ..old });
            }
            self.replace_sessions(process, node);
            if self.actors[process].reconnects {
                self.reconnect(process)?;
            }
            let viewer = self.viewer(process);
            let db = &mut self.db;
            let trie = &mut self.tries[self.actors[process].trie];
            node = trie.root(local, &viewer, &mut |sql| db.prepare(sql))?;
            let trie = self.actors[process].trie;
            self.note_looks(trie, node);
        }
        Err(Flaw::Error(ExploreError::Actor {
            process: self.actors[process].name.to_string(),
            detail: "its step function is called again and again without making a request"
                .to_owned(),
        }))
    }

    /// The first history of the next round, if nothing happens between the rounds that anybody could
    /// see.
    fn next_round(&mut self, process: usize, node: NodeId) -> Result<Option<NodeId>, Flaw> {
        let trie = &self.tries[self.actors[process].trie];
        let found = trie.node(node);
        let Some(Finish::Again(local)) = &found.finish else {
            return Ok(None);
        };
        let is_quiet = self.rules.rounds == 0
            && self.timers.is_empty()
            && !self.is_watched()
            && found.closed.is_empty()
            && found.pending.is_empty()
            && found.keeps_places;
        let next = trie.plain_root(*local);
        if is_quiet && next.is_some() && self.actors[process].reconnects {
            self.reconnect(process)?;
        }
        Ok(next.filter(|_| is_quiet))
    }

    /// Takes over what a process did on its way to `node`. Returns the local state with which the
    /// next round begins, if one does.
    fn rest_at(&mut self, process: usize, id: NodeId) -> Result<Option<u32>, Flaw> {
        let trie = self.actors[process].trie;
        if self.is_watched() {
            self.happened.entered.push((process as u8, id));
        } else if self.timers.is_empty() && self.tries[trie].node(id).is_calm {
            let old = self.processes[process];
            self.set_process(process, Process { node: id, ..old });
            return Ok(None);
        }
        let closed = self.tries[trie].node(id).closed.len();
        for at in 0..closed {
            let local = self.tries[trie].node(id).closed[at];
            let line = self.line(process, local);
            let state = self.lines[line];
            let client = Client::Away;
            self.set_line(line, Line { client, ..state });
        }
        let old = self.processes[process];
        let was_done = old.node != NodeId::NONE && self.node(process).finish == Some(Finish::Done);
        self.set_process(process, Process { node: id, ..old });
        self.begin_sleeps(process);
        let failed = |property: &str, detail: &str| Flaw::Violation {
            property: property.to_owned(),
            detail: format!("{}: {detail}", self.actors[process].name),
        };
        match &self.tries[trie].node(id).finish {
            None => Ok(None),
            Some(Finish::Again(local)) => Ok(Some(*local)),
            Some(Finish::Done) => {
                self.happened.finished = !was_done;
                // What the process sent without waiting for the answer still arrives.
                if self.node(process).pending.is_empty() {
                    self.end_process(process, Phase::Done);
                    self.check_leaks(process)?;
                }
                Ok(None)
            }
            Some(Finish::Failed(error)) => Err(failed("failed", error)),
            Some(Finish::Panicked(message)) => Err(failed("panic", message)),
            Some(Finish::Hangs) => Err(failed(
                "stuck",
                "its tasks wait for each other, and for nothing that a server knows of",
            )),
            Some(Finish::Stuck(detail)) => Err(Flaw::Error(ExploreError::Actor {
                process: self.actors[process].name.to_string(),
                detail: detail.clone(),
            })),
        }
    }

    /// Sleeps that are new begin now; those that are over or dropped are forgotten.
    fn begin_sleeps(&mut self, process: usize) {
        let sleeps = |pending: &Pending| match pending.action {
            Action::Sleep(micros) => Some((pending.id, micros)),
            Action::Run(..) | Action::Connect => None,
        };
        let none = !self
            .node(process)
            .pending
            .iter()
            .any(|p| sleeps(p).is_some());
        if none && self.timers.is_empty() {
            return;
        }
        let now = self.db.now_micros();
        let mut timers = self.timers.clone();
        timers.retain(|timer| usize::from(timer.process) != process);
        for (request, micros) in self.node(process).pending.iter().filter_map(sleeps) {
            let known = self
                .timers
                .iter()
                .find(|timer| usize::from(timer.process) == process && timer.request == request);
            timers.push(Timer {
                process: process as u8,
                request,
                due: known.map_or(now.saturating_add(micros), |timer| timer.due),
            });
        }
        timers.sort_unstable_by_key(|timer| (timer.process, timer.request));
        self.set_timers(timers);
    }

    /// Sessions of the harness that were lost are replaced before the next round, as a pool would.
    fn reconnect(&mut self, process: usize) -> Result<(), Flaw> {
        for local in 0..self.actors[process].sessions as u16 {
            let line = self.line(process, local);
            if self.lines[line].client == Client::Open {
                continue;
            }
            open_session(&mut self.db, &self.actors[process], local)?;
            self.add_line(Line::open(process, local));
        }
        Ok(())
    }

    /// Sessions that the process has put in the place of those of the harness take their numbers.
    fn replace_sessions(&mut self, process: usize, node: NodeId) {
        for place in 0..self.actors[process].sessions as u16 {
            let trie = &self.tries[self.actors[process].trie];
            let local = trie.node(node).places[usize::from(place)];
            if local != place {
                let line = self.line(process, local);
                let state = self.lines[line];
                self.set_line(
                    line,
                    Line {
                        local: place,
                        ..state
                    },
                );
            }
        }
    }
}
