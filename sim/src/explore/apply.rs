//! Carrying out a choice.

use rowlock_model::ErrorClass;
use rowlock_model::schedule::{Choice, Loss, ProcessId, SessionId};
use rowlock_model::verdict::Unsupported;

use super::error::ExploreError;
use super::footprints::{Fault, Own};
use super::trie::{Action, NodeId};
use super::world::{
    Budget, Client, Flaw, Line, Phase, Process, World, broken, open_session, terminated,
};
use crate::database::{Answer, Database, Footprint, Internal, Progress, Request, Submitted};
use crate::host::{Event, Given};

impl<D: Database> World<D> {
    /// Carries out a choice that [`choices`](World::choices) listed.
    pub(crate) fn apply(&mut self, choice: Choice) -> Result<(), Flaw> {
        self.happened.answer = None;
        self.happened.process = self.process_of(choice).map(|p| p as u8);
        self.happened.session = None;
        self.happened.request = None;
        self.happened.waits = false;
        self.happened.pauses = false;
        self.happened.finished = false;
        self.happened.entered.clear();
        let records = self.tracking || !self.contention.found;
        if records {
            self.db.begin_footprint();
            self.touched.clear();
        }
        let result = self.carry_out_watched(choice);
        if records && !self.tracking {
            self.db.end_footprint();
        }
        if self.serial.is_some() {
            self.forget_rolled_back();
        }
        result
    }

    fn carry_out_watched(&mut self, choice: Choice) -> Result<(), Flaw> {
        self.begin_trace();
        let carried = self.carry_out(choice);
        let traced = self.end_trace();
        if !self.contention.found {
            self.meet();
        }
        // What a process says of itself comes before what is said about it.
        carried?;
        traced?;
        if !self.monitors.is_empty() {
            self.watch(choice)?;
        }
        Ok(())
    }

    /// Everything that the last choice touched, in the server and here. Only while tracking.
    pub(crate) fn take_footprint(&mut self) -> Footprint {
        let mut footprint = self.db.footprint();
        self.db.end_footprint();
        if let Some(process) = self.happened.process {
            self.touch(Own::Process(usize::from(process)));
        }
        footprint.writes.extend_from_slice(&self.touched);
        footprint.writes.sort_unstable();
        footprint.writes.dedup();
        footprint
    }

    /// Notes that the present choice depends on an object of the explorer and changes it.
    pub(super) fn touch(&mut self, object: Own) {
        if self.tracking {
            self.touched.push(object.name());
        }
    }

    fn carry_out(&mut self, choice: Choice) -> Result<(), Flaw> {
        match choice {
            Choice::Step(ProcessId(p), request) => self.step(usize::from(p), request.0),
            Choice::Resume(s) => self.internal(s, Internal::Resume),
            Choice::Continue(s) => self.internal(s, Internal::Continue),
            Choice::Route(s, backend) => self.internal(s, |s| Internal::Route(s, backend)),
            Choice::Deadlock(s) => self.internal(s, Internal::Deadlock),
            Choice::Expire(s) => self.internal(s, Internal::Expire),
            Choice::Crash(ProcessId(p)) => self.crash(usize::from(p)),
            Choice::Notice(s) => {
                self.happened.session = Some(s.0);
                let server = self.server_id(usize::from(s.0));
                self.db.terminate(server);
                Ok(())
            }
            Choice::Kill(s) => self.kill(usize::from(s.0)),
            Choice::Lose(ProcessId(p), request, loss) => self.lose(usize::from(p), request.0, loss),
            Choice::Late(s) => self.late(usize::from(s.0)),
            Choice::Advance(by) => {
                self.spend(None, |budget| &mut budget.clock);
                let now = self.db.now_micros();
                self.db.set_now_micros(now + by);
                Ok(())
            }
            Choice::Cancel(ProcessId(p), request) => {
                self.spend(Some(Fault::Cancel), |budget| &mut budget.cancels);
                let process = usize::from(p);
                self.note_request(process, request.0);
                self.deliver(process, Event::Cancel(request.0))
            }
        }
    }

    fn spend(&mut self, fault: Option<Fault>, of: impl FnOnce(&mut Budget) -> &mut u32) {
        // The clock is no object: moving it conflicts with everything.
        if let Some(fault) = fault {
            self.touch(Own::Budget(fault));
        }
        let mut budget = self.budget;
        *of(&mut budget) -= 1;
        self.set_budget(budget);
    }

    /// Remembers which request the choice is about.
    fn note_request(&mut self, process: usize, request: u32) {
        let found = self.node(process).find(request).map(|(at, _)| at);
        self.happened.request = found.map(|at| (self.processes[process].node, at));
    }

    /// Sees whom the process that acts meets in the server.
    fn meet(&mut self) {
        let Some(process) = self.happened.process else {
            return;
        };
        let Footprint { reads, writes } = self.db.footprint();
        for object in reads.iter().chain(&writes) {
            self.contention.found |= self.contention.writers.iter().any(|(other, writer)| {
                other == object && *writer != process && *object >= Footprint::SHARED_BELOW
            });
        }
        let written = writes.into_iter().map(|object| (object, process));
        self.contention.writers.extend(written);
    }

    fn step(&mut self, process: usize, request: u32) -> Result<(), Flaw> {
        let node = self.processes[process].node;
        let trie = &self.tries[self.actors[process].trie];
        let (at, pending) = trie
            .node(node)
            .find(request)
            .expect("a choice names a pending request");
        self.happened.request = Some((node, at));
        match &pending.action {
            Action::Run(local, _) => {
                let line = self.line(process, *local);
                self.happened.session = Some(line as u8);
                self.send(process, request, line, at)
            }
            Action::Connect => {
                let local = trie.node(node).sessions;
                if self.lines.len() >= 200 {
                    return Err(Flaw::Error(ExploreError::TooMany(format!(
                        "process `{}` opens more and more sessions; bound its rounds",
                        self.actors[process].name
                    ))));
                }
                let id = open_session(&mut self.db, &self.actors[process], local)?;
                debug_assert_eq!(self.line_of(id), self.lines.len());
                self.happened.session = Some(self.lines.len() as u8);
                self.add_line(Line::open(process, local));
                self.deliver(process, Event::Reply(request, Given::Connected(Ok(()))))
            }
            Action::Sleep(_) => self.deliver(process, Event::Reply(request, Given::Slept)),
        }
    }

    /// Sends the pending request at place `at` of a process's node.
    fn send(&mut self, process: usize, request: u32, line: usize, at: usize) -> Result<(), Flaw> {
        let state = self.lines[line];
        // What was sent before its session was closed still arrives.
        let orphan = self.node(process).pending[at].orphan;
        if state.client == Client::Lost || (state.client == Client::Away && !orphan) {
            let error = self.refusal(process, request, broken());
            return self.answer(process, request, line, error);
        }
        let progress = match self.submit(process, line, at) {
            Submitted::Known(number) => return self.answer_known(process, request, line, number),
            Submitted::Other(progress) => progress,
        };
        match progress {
            Progress::Done(answer) => self.answer(process, request, line, answer),
            Progress::Pauses => {
                self.happened.pauses = true;
                let running = Some(request);
                self.set_line(line, Line { running, ..state });
                Ok(())
            }
            Progress::Waits => {
                self.waits += 1;
                self.contention.found = true;
                self.happened.waits = true;
                let running = Some(request);
                self.set_line(line, Line { running, ..state });
                Ok(())
            }
        }
    }

    /// Gives the request at place `at` of a process's node to the server.
    fn submit(&mut self, process: usize, line: usize, at: usize) -> Submitted {
        self.statements += 1;
        let server = self.server_id(line);
        let node = self.processes[process].node;
        let trie = self.actors[process].trie;
        let Action::Run(_, request) = &self.tries[trie].node(node).pending[at].action else {
            unreachable!("only statements are sent");
        };
        if let Some(serial) = &mut self.serial {
            serial.sent(line, request);
        }
        if self.serial.is_some() || self.history.is_some() {
            let progress = self.db.submit(server, request);
            self.note_progress(line, &progress);
            return Submitted::Other(progress);
        }
        self.db.submit_numbered(server, request)
    }

    fn request(&self, process: usize, at: usize) -> Request {
        match &self.node(process).pending[at].action {
            Action::Run(_, request) => request.clone(),
            Action::Connect | Action::Sleep(_) => unreachable!("only statements are sent"),
        }
    }

    /// The answer of the matching kind that carries `error`.
    fn refusal(&self, process: usize, request: u32, error: rowlock_model::DbError) -> Answer {
        let batch = self
            .node(process)
            .find(request)
            .is_some_and(|(_, pending)| {
                matches!(pending.action, Action::Run(_, Request::Batch(_)))
            });
        match batch {
            true => Answer::Batch(Err(error)),
            false => Answer::Exec(Err(error)),
        }
    }

    /// The client of `line` gets an answer to `request` that the server gave by number.
    fn answer_known(
        &mut self,
        process: usize,
        request: u32,
        line: usize,
        number: u32,
    ) -> Result<(), Flaw> {
        let state = self.lines[line];
        let node = self.processes[process].node;
        let trie = self.actors[process].trie;
        let is_plain = state.client == Client::Open
            && state.running.is_none()
            && !self.is_watched()
            && !self.db.is_gone(self.server_id(line));
        if is_plain && let Some(next) = self.tries[trie].after_known(node, request, number) {
            return self.enter(process, next);
        }
        let answer = self.db.known_answer(number);
        let heard = self.tries[trie].node(node).find(request);
        let heard = heard.is_some_and(|(_, pending)| !pending.orphan);
        let event = (is_plain && heard).then(|| {
            let given = match answer.clone() {
                Answer::Exec(result) => Given::Exec(result),
                Answer::Batch(result) => Given::Batch(result),
            };
            Event::Reply(request, given)
        });
        self.answer(process, request, line, answer)?;
        if let Some(event) = event {
            self.tries[trie].remember(node, request, number, &event);
        }
        Ok(())
    }

    /// Whether somebody looks at events.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.recording || !self.monitors.is_empty()
    }

    /// The client of `line` gets the answer to `request`.
    fn answer(
        &mut self,
        process: usize,
        request: u32,
        line: usize,
        answer: Answer,
    ) -> Result<(), Flaw> {
        if let Some(error) = answer.error() {
            self.contention.found |= matches!(
                error.class,
                ErrorClass::Serialization
                    | ErrorClass::Deadlock
                    | ErrorClass::Contention
                    | ErrorClass::Unique
            );
            // It names the sessions of the cycle.
            self.tells_apart |= error.class == ErrorClass::Deadlock;
            if error.class == ErrorClass::Unsupported {
                return Err(Flaw::Unsupported(
                    self.describe_unsupported(process, request, error),
                ));
            }
        }
        let mut state = self.lines[line];
        state.running = None;
        if state.client == Client::Open && self.db.is_gone(self.server_id(line)) {
            state.client = Client::Lost;
        }
        self.set_line(line, state);
        if self.recording || !self.monitors.is_empty() {
            self.happened.answer = Some(answer.clone());
        }
        let orphan = self
            .node(process)
            .find(request)
            .is_none_or(|(_, pending)| pending.orphan);
        let given = match answer {
            _ if orphan => Given::Forgotten,
            Answer::Exec(result) => Given::Exec(result),
            Answer::Batch(result) => Given::Batch(result),
        };
        self.deliver(process, Event::Reply(request, given))
    }

    fn describe_unsupported(
        &self,
        process: usize,
        request: u32,
        error: &rowlock_model::DbError,
    ) -> Unsupported {
        let node = self.node(process);
        let sql = match node.find(request).map(|(at, _)| node.ask(at)) {
            Some(crate::host::Ask::Exec(_, sql, _) | crate::host::Ask::Batch(_, sql)) => {
                Some(sql.clone())
            }
            _ => None,
        };
        Unsupported {
            what: error.message.to_string(),
            sql,
            position: error.position,
        }
    }

    /// Something that the server does by itself in a session.
    fn internal(
        &mut self,
        session: SessionId,
        event: impl FnOnce(SessionId) -> Internal,
    ) -> Result<(), Flaw> {
        let line = usize::from(session.0);
        self.happened.session = Some(session.0);
        let server = self.server_id(line);
        let process = usize::from(self.lines[line].process);
        let running = self.lines[line].running;
        if let Some(request) = running {
            self.note_request(process, request);
        }
        let event = event(server);
        let progress = self.db.internal(event);
        self.note_progress(line, &progress);
        match progress {
            Progress::Pauses => {
                self.happened.pauses = true;
                Ok(())
            }
            Progress::Waits => {
                // A resumed session that waits again has contended before.
                self.contention.found = true;
                self.happened.waits = true;
                Ok(())
            }
            Progress::Done(answer) => match running {
                Some(request) if self.is_heard(line) => self.answer(process, request, line, answer),
                _ => {
                    let state = self.lines[line];
                    self.set_line(
                        line,
                        Line {
                            running: None,
                            ..state
                        },
                    );
                    Ok(())
                }
            },
        }
    }

    /// Whether somebody is there to take an answer of this session.
    fn is_heard(&self, line: usize) -> bool {
        let Line {
            process, client, ..
        } = self.lines[line];
        let process = usize::from(process);
        let running = self.processes[process].phase == Phase::Running;
        // A closed session whose last statement is still under way belongs to its process.
        running && (client == Client::Open || (client == Client::Away && self.has_request(line)))
    }

    fn has_request(&self, line: usize) -> bool {
        let Line {
            process, running, ..
        } = self.lines[line];
        running.is_some_and(|request| self.node(usize::from(process)).find(request).is_some())
    }

    fn crash(&mut self, process: usize) -> Result<(), Flaw> {
        self.spend(Some(Fault::Crash), |budget| &mut budget.crashes);
        self.end_process(process, Phase::Crashed);
        for line in 0..self.lines.len() {
            let state = self.lines[line];
            if usize::from(state.process) != process || state.client == Client::Away {
                continue;
            }
            let client = Client::Away;
            let running = None;
            self.set_line(
                line,
                Line {
                    client,
                    running,
                    ..state
                },
            );
            let server = self.server_id(line);
            if self.rules.prompt_notice && !self.db.is_gone(server) {
                self.db.terminate(server);
            }
        }
        Ok(())
    }

    pub(super) fn end_process(&mut self, process: usize, phase: Phase) {
        let old = self.processes[process];
        let node = NodeId::NONE;
        self.set_process(process, Process { node, phase, ..old });
        if self
            .timers
            .iter()
            .any(|timer| usize::from(timer.process) == process)
        {
            let mut timers = self.timers.clone();
            timers.retain(|timer| usize::from(timer.process) != process);
            self.set_timers(timers);
        }
    }

    fn kill(&mut self, line: usize) -> Result<(), Flaw> {
        self.spend(Some(Fault::Kill), |budget| &mut budget.kills);
        self.happened.session = Some(line as u8);
        let server = self.server_id(line);
        self.db.terminate(server);
        let Line {
            process, running, ..
        } = self.lines[line];
        let process = usize::from(process);
        match running {
            // The client hears of it at once if it waits for an answer, else when it asks next.
            Some(request) => {
                self.note_request(process, request);
                let error = self.refusal(process, request, terminated());
                self.answer(process, request, line, error)
            }
            None => Ok(()),
        }
    }

    fn lose(&mut self, process: usize, request: u32, loss: Loss) -> Result<(), Flaw> {
        self.spend(Some(Fault::Loss), |budget| &mut budget.losses);
        self.note_request(process, request);
        let Some((at, pending)) = self.node(process).find(request) else {
            unreachable!("a choice names a pending request");
        };
        let Action::Run(local, _) = pending.action else {
            unreachable!("only statements are lost");
        };
        let line = self.line(process, local);
        self.happened.session = Some(line as u8);
        let mut state = self.lines[line];
        state.client = Client::Lost;
        match loss {
            Loss::NotArrived => {}
            Loss::ReplyLost => {
                if let Submitted::Other(Progress::Done(answer)) = self.submit(process, line, at)
                    && let Some(error) = answer.error()
                    && error.class == ErrorClass::Unsupported
                {
                    return Err(Flaw::Unsupported(
                        self.describe_unsupported(process, request, error),
                    ));
                }
            }
            Loss::StillRunning => {
                let request = self.request(process, at);
                state.late = Some(self.number_late(request));
            }
        }
        self.set_line(line, state);
        let error = self.refusal(process, request, broken());
        self.answer(process, request, line, error)
    }

    /// Numbers a request that comes late; the same request has the same number.
    fn number_late(&mut self, request: Request) -> u32 {
        let known = self.late.iter().position(|late| *late == request);
        known.unwrap_or_else(|| {
            self.late.push(request);
            self.late.len() - 1
        }) as u32
    }

    fn late(&mut self, line: usize) -> Result<(), Flaw> {
        self.happened.session = Some(line as u8);
        let state = self.lines[line];
        let number = state.late.expect("a choice names a late statement");
        self.set_line(
            line,
            Line {
                late: None,
                ..state
            },
        );
        let request = self.late[number as usize].clone();
        let server = self.server_id(line);
        self.statements += 1;
        if let Some(serial) = &mut self.serial {
            serial.sent(line, &request);
        }
        let progress = self.db.submit(server, &request);
        self.note_progress(line, &progress);
        match progress {
            Progress::Waits => self.happened.waits = true,
            Progress::Pauses => self.happened.pauses = true,
            Progress::Done(answer) => {
                if self.recording || !self.monitors.is_empty() {
                    self.happened.answer = Some(answer);
                }
            }
        }
        Ok(())
    }
}
