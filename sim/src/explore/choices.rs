//! Which choices there are in a state of the world.

use rowlock_model::schedule::{Choice, Loss, ProcessId, RequestId, SessionId};

use super::trie::Action;
use super::world::{Client, Phase, World};
use crate::database::{Database, Internal};

/// How long after a deadline the clock also stops, in microseconds: far enough that `<` and `<=`
/// agree and that a live server can be shown the same, near enough that nothing else is due.
pub(crate) const JUST_AFTER_MICROS: i64 = 1_000;

/// Whether a choice carries work forward; the others are faults and time, which need not happen.
pub(crate) fn is_work(choice: Choice) -> bool {
    matches!(
        choice,
        Choice::Step(..)
            | Choice::Resume(_)
            | Choice::Continue(_)
            | Choice::Route(..)
            | Choice::Deadlock(_)
            | Choice::Expire(_)
            | Choice::Notice(_)
            | Choice::Late(_)
    )
}

/// Whether a choice is a fault that a bound counts, time aside.
pub(crate) fn is_fault(choice: Choice) -> bool {
    matches!(
        choice,
        Choice::Crash(_) | Choice::Kill(_) | Choice::Lose(..) | Choice::Cancel(..)
    )
}

impl<D: Database> World<D> {
    /// Appends every choice that the present state allows, in a fixed order. Returns whether one
    /// of them carries work forward.
    pub(crate) fn choices(&mut self, out: &mut Vec<Choice>) -> bool {
        let start = out.len();
        for process in 0..self.processes.len() {
            self.process_choices(process, out);
        }
        self.internal_choices(out);
        self.line_choices(out);
        let work = out[start..].iter().any(|choice| is_work(*choice));
        if self.budget.clock > 0 {
            self.clock_choices(out);
        }
        work
    }

    fn process_choices(&self, process: usize, out: &mut Vec<Choice>) {
        if self.processes[process].phase != Phase::Running {
            return;
        }
        let id = ProcessId(process as u8);
        for pending in &self.node(process).pending {
            let request = RequestId(pending.id);
            match &pending.action {
                Action::Run(local, _) => {
                    let at = self.line(process, *local);
                    let line = &self.lines[at];
                    if line.running.is_some() {
                        // Sent already.
                    } else {
                        out.push(Choice::Step(id, request));
                        let lossy = self.budget.losses > 0
                            && !pending.orphan
                            && line.client == Client::Open
                            && !self.db.is_gone(self.server_id(at));
                        if lossy {
                            for loss in [Loss::NotArrived, Loss::ReplyLost, Loss::StillRunning] {
                                out.push(Choice::Lose(id, request, loss));
                            }
                        }
                    }
                }
                Action::Connect => out.push(Choice::Step(id, request)),
                Action::Sleep(_) => {
                    if self.is_over(process, pending.id) {
                        out.push(Choice::Step(id, request));
                    }
                }
            }
            let cancels = self.budget.cancels > 0
                && self.actors[process].cancellable
                && pending.main
                && !pending.orphan;
            if cancels {
                out.push(Choice::Cancel(id, request));
            }
        }
        if self.budget.crashes > 0 {
            out.push(Choice::Crash(id));
        }
    }

    /// Whether a sleep is over.
    fn is_over(&self, process: usize, request: u32) -> bool {
        let now = self.db.now_micros();
        self.timers
            .iter()
            .find(|timer| usize::from(timer.process) == process && timer.request == request)
            .is_none_or(|timer| timer.due <= now)
    }

    fn internal_choices(&mut self, out: &mut Vec<Choice>) {
        let mut internals = std::mem::take(&mut self.internals);
        internals.clear();
        self.db.pending(&mut internals);
        let base = self.base;
        let here = |session: SessionId| SessionId(session.0 - base);
        out.extend(internals.iter().map(|internal| match internal {
            Internal::Resume(session) => Choice::Resume(here(*session)),
            Internal::Continue(session) => Choice::Continue(here(*session)),
            Internal::Route(session, backend) => Choice::Route(here(*session), *backend),
            Internal::Deadlock(session) => Choice::Deadlock(here(*session)),
            Internal::Expire(session) => Choice::Expire(here(*session)),
        }));
        self.internals = internals;
    }

    fn line_choices(&self, out: &mut Vec<Choice>) {
        for (at, line) in self.lines.iter().enumerate() {
            let id = SessionId(at as u8);
            if line.client == Client::Open && self.budget.kills == 0 {
                continue;
            }
            let server = self.server_id(at);
            if self.db.is_gone(server) {
                continue;
            }
            if line.late.is_some() {
                out.push(Choice::Late(id));
                continue;
            }
            let process = usize::from(line.process);
            let alive = self.processes[process].phase == Phase::Running;
            match line.client {
                Client::Open if alive => out.push(Choice::Kill(id)),
                Client::Open => {}
                // A server looks at its client only between two statements.
                Client::Lost | Client::Away => {
                    if !self.db.is_busy(server) && !self.has_orphan(process, at) {
                        out.push(Choice::Notice(id));
                    }
                }
            }
        }
    }

    /// Whether a statement is still on its way on a session that its process has closed.
    fn has_orphan(&self, process: usize, line: usize) -> bool {
        self.processes[process].phase == Phase::Running
            && self.lines[line].client == Client::Away
            && self.node(process).pending.iter().any(|pending| {
                matches!(pending.action, Action::Run(local, _) if self.line(process, local) == line)
            })
    }

    /// The clock may move to any instant at which something changes: the end of a sleep, a
    /// deadline in the server, the moment at which a process whose clock is off believes that the
    /// deadline has come; and just after a deadline.
    fn clock_choices(&self, out: &mut Vec<Choice>) {
        if self.processes.iter().all(|p| p.phase != Phase::Running) {
            return;
        }
        let now = self.db.now_micros();
        let mut instants: Vec<i64> = self.timers.iter().map(|timer| timer.due).collect();
        let mut deadlines = Vec::new();
        self.db.deadlines(&mut deadlines);
        for deadline in deadlines {
            let skews = self
                .actors
                .iter()
                .zip(&self.processes)
                .filter(|(_, process)| process.phase == Phase::Running)
                .map(|(actor, _)| actor.skew_micros);
            for skew in skews.chain([0]) {
                let at = deadline - skew;
                instants.extend([at, at + JUST_AFTER_MICROS]);
            }
        }
        instants.retain(|instant| *instant > now);
        instants.sort_unstable();
        instants.dedup();
        out.extend(instants.into_iter().map(|at| Choice::Advance(at - now)));
    }
}
