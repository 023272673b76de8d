//! The workload as a plain model in stateright: workers that claim rows, passing over locked ones.
//!
//! What a step means is what the statements of [`rowlock::sim::toy`] mean, so that the numbers of
//! states can be compared one by one.

use stateright::{Checker, Model, Property};

/// Workers, rows, crashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) workers: usize,
    pub(crate) rows: usize,
    pub(crate) crashes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Status {
    Pending,
    Running,
    Done,
}

/// Owner and lock are workers, one up; 0 = nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    status: Status,
    owner: u8,
    lock: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Worker {
    Idle,
    Locked(u8),
    Updated(u8),
    Claimed(u8),
    Quit,
    Crashed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    rows: Vec<Row>,
    workers: Vec<Worker>,
    crashes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Step(u8),
    Crash(u8),
    /// The lease of a crashed owner ends.
    Expire(u8),
}

impl State {
    pub(crate) fn new(size: Size) -> State {
        let row = Row {
            status: Status::Pending,
            owner: 0,
            lock: 0,
        };
        State {
            rows: vec![row; size.rows],
            workers: vec![Worker::Idle; size.workers],
            crashes: size.crashes,
        }
    }

    /// Carries out the next statement of a worker; whether it goes on.
    pub(crate) fn step(&mut self, worker: usize) -> bool {
        let me = worker as u8 + 1;
        let free = |row: &Row| row.status == Status::Pending && row.lock == 0;
        self.workers[worker] = match self.workers[worker] {
            Worker::Idle => match self.rows.iter().position(free) {
                Some(row) => {
                    self.rows[row].lock = me;
                    Worker::Locked(row as u8)
                }
                None => Worker::Quit,
            },
            Worker::Locked(row) => Worker::Updated(row),
            Worker::Updated(row) => {
                self.rows[usize::from(row)] = Row {
                    status: Status::Running,
                    owner: me,
                    lock: 0,
                };
                Worker::Claimed(row)
            }
            Worker::Claimed(row) => {
                let row = &mut self.rows[usize::from(row)];
                if row.owner == me && row.status == Status::Running {
                    row.status = Status::Done;
                    row.owner = 0;
                }
                Worker::Idle
            }
            over @ (Worker::Quit | Worker::Crashed) => over,
        };
        self.workers[worker] != Worker::Quit
    }

    fn crash(&mut self, worker: usize) {
        if let Worker::Locked(row) | Worker::Updated(row) = self.workers[worker] {
            self.rows[usize::from(row)].lock = 0;
        }
        self.workers[worker] = Worker::Crashed;
        self.crashes -= 1;
    }

    /// No row has two workers.
    pub(crate) fn one_holder(&self) -> bool {
        let mut holders = [0u8; 16];
        for worker in &self.workers {
            if let Worker::Locked(row) | Worker::Updated(row) | Worker::Claimed(row) = worker {
                holders[usize::from(*row)] += 1;
            }
        }
        holders.iter().all(|n| *n <= 1)
    }

    pub(crate) fn all_done(&self) -> bool {
        self.rows.iter().all(|row| row.status == Status::Done)
    }

    /// The same state with its workers sorted, and owners and locks numbered accordingly.
    fn sorted(&self) -> State {
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        let key = |worker: usize| {
            let me = worker as u8 + 1;
            let bits = self.rows.iter().enumerate().map(|(at, row)| {
                u32::from(row.owner == me) << at | u32::from(row.lock == me) << (at + 16)
            });
            (self.workers[worker], bits.fold(0, |all, bit| all | bit))
        };
        order.sort_by_key(|worker| key(*worker));
        let mut new = vec![0u8; self.workers.len() + 1];
        for (place, worker) in order.iter().enumerate() {
            new[worker + 1] = place as u8 + 1;
        }
        let rows = self.rows.iter().map(|row| Row {
            owner: new[usize::from(row.owner)],
            lock: new[usize::from(row.lock)],
            ..*row
        });
        State {
            rows: rows.collect(),
            workers: order.iter().map(|worker| self.workers[*worker]).collect(),
            crashes: self.crashes,
        }
    }
}

/// The model.
#[derive(Clone)]
pub(crate) struct Queue(pub(crate) Size);

impl Model for Queue {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, worker) in state.workers.iter().enumerate() {
            if !matches!(worker, Worker::Quit | Worker::Crashed) {
                actions.push(Action::Step(at as u8));
                if state.crashes > 0 {
                    actions.push(Action::Crash(at as u8));
                }
            }
        }
        for (at, row) in state.rows.iter().enumerate() {
            let orphan = row.status == Status::Running
                && row.lock == 0
                && row.owner > 0
                && state.workers[usize::from(row.owner) - 1] == Worker::Crashed;
            if orphan {
                actions.push(Action::Expire(at as u8));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step(worker) => {
                next.step(usize::from(worker));
            }
            Action::Crash(worker) => next.crash(usize::from(worker)),
            Action::Expire(row) => {
                let row = &mut next.rows[usize::from(row)];
                row.status = Status::Pending;
                row.owner = 0;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("one holder", |_, state: &State| {
            state.one_holder()
        })]
    }
}

/// Distinct states and transitions of an exhaustive search with one thread, depth first.
pub(crate) fn exhaust(size: Size, symmetry: bool) -> (u64, u64) {
    let checker = Queue(size).checker().threads(1);
    let checker = match symmetry {
        true => checker.symmetry_fn(State::sorted).spawn_dfs().join(),
        false => checker.spawn_dfs().join(),
    };
    checker.assert_properties();
    let (unique, generated) = (checker.unique_state_count(), checker.state_count());
    (unique as u64, generated as u64 - 1)
}
