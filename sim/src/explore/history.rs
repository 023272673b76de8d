//! Who depends on whom: the transactions of a path, the versions of rows that they read and wrote, and
//! Adya's cycles among those that are committed.
//!
//! A version is known by its image (see [`crate::trace`]); the versions of a row form a chain in the
//! order in which they were written. From that follow the dependencies:
//!
//! * *ww*: a transaction replaced the version of another one;
//! * *wr*: it read the version of another one, or its search saw that a row of another one passes its
//!   condition, or does not any more;
//! * *rw*: it read a version that another one replaced, or its search did not see that a row of another
//!   one passes its condition, or does not any more.
//!
//! What a path has read is not a function of the state that it leads to, so it is part of the explored
//! state, written down so that steps that commute lead to the same: versions by writer, transactions by
//! session.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::Hash;
use std::rc::Rc;

use rowlock_model::{Guarantee, Row, Value};

use super::cycles::Finding;
use super::world::{Flaw, World};
use crate::database::Database;
use crate::trace::{Condition, Sees, Trace, is_same};
use crate::world::Digest;
use rowlock_model::verdict::Unsupported;

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Status {
    Open,
    /// Committed; if it wrote, after so many others that wrote.
    Committed(Option<u32>),
    RolledBack,
}

/// A transaction.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) line: usize,
    /// Of those of its session.
    pub(super) number: u32,
    pub(super) status: Status,
    /// Chain and version, with the event.
    pub(super) reads: BTreeMap<(usize, usize), u32>,
    pub(super) scans: Vec<Scan>,
}

/// A search for rows.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub(super) table: u32,
    pub(super) condition: Rc<Condition>,
    /// How many of the commits that wrote something it sees.
    pub(super) seen: u32,
    pub(super) everything: bool,
    pub(super) event: u32,
}

/// The versions of a row, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) table: u32,
    /// What it is known by, however the path got here.
    name: u128,
    pub(super) versions: Vec<Version>,
}

/// A version of a row.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// `None`: the row is deleted.
    pub(super) row: Option<Row>,
    /// The transaction; `None` if it was there before.
    pub(super) by: Option<usize>,
    /// It was taken back after somebody had read it.
    pub(super) undone: bool,
    pub(super) event: u32,
}

/// What was read and written on a path.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) transactions: Vec<Transaction>,
    /// Of each session, its open transaction, and how many there were.
    lines: Vec<(Option<usize>, u32)>,
    pub(super) chains: Vec<Chain>,
    /// The numbers of commits that wrote something.
    numbers: Vec<u64>,
    events: u32,
}

/// What is known of the present path.
#[derive(Debug, Default)]
pub(crate) struct History {
    wanted: Vec<Guarantee>,
    state: Rc<State>,
    before: Vec<Rc<State>>,
    hash: u128,
    hashes: Vec<u128>,
    /// The events of the cycle that was found last.
    pub(super) matters: Vec<usize>,
}

impl History {
    pub(crate) fn new(wanted: &[Guarantee]) -> History {
        History {
            wanted: wanted.to_vec(),
            ..History::default()
        }
    }

    pub(super) fn mark(&self) -> usize {
        self.before.len()
    }

    pub(super) fn undo_to(&mut self, mark: usize) {
        if self.before.len() > mark {
            self.before.truncate(mark + 1);
            self.hashes.truncate(mark + 1);
            if let (Some(state), Some(hash)) = (self.before.pop(), self.hashes.pop()) {
                self.state = state;
                self.hash = hash;
            }
        }
    }

    pub(super) fn hash(&self) -> u128 {
        self.hash
    }

    /// Takes over what a step did; `waits` if its statement is not done, and will do it all again.
    fn add(&mut self, traces: Vec<(usize, Trace)>, waits: bool) -> bool {
        self.before.push(Rc::clone(&self.state));
        self.hashes.push(self.hash);
        let state = Rc::make_mut(&mut self.state);
        state.events += 1;
        if traces.is_empty() {
            return false;
        }
        let mut ended = false;
        for (line, trace) in traces {
            ended |= state.add(line, trace, waits);
        }
        self.hash = state.digest();
        ended
    }
}

impl State {
    fn open(&mut self, line: usize) -> usize {
        if self.lines.len() <= line {
            self.lines.resize(line + 1, (None, 0));
        }
        let (open, count) = &mut self.lines[line];
        if let Some(open) = *open {
            return open;
        }
        let at = self.transactions.len();
        *open = Some(at);
        *count += 1;
        self.transactions.push(Transaction {
            line,
            number: *count,
            status: Status::Open,
            reads: BTreeMap::new(),
            scans: Vec::new(),
        });
        at
    }

    fn end(&mut self, line: usize, status: Status) -> bool {
        let Some((open, _)) = self.lines.get_mut(line) else {
            return false;
        };
        let Some(at) = open.take() else {
            return false;
        };
        self.transactions[at].status = status;
        true
    }

    /// Whether a transaction is over now.
    fn add(&mut self, line: usize, trace: Trace, waits: bool) -> bool {
        let event = self.events - 1;
        match trace {
            Trace::Scan {
                table,
                condition,
                sees,
                ..
            } if !waits => {
                let seen = match sees {
                    Sees::Upto(number) => self.numbers.partition_point(|n| *n <= number) as u32,
                    Sees::Committed | Sees::Everything => self.numbers.len() as u32,
                };
                let at = self.open(line);
                self.transactions[at].scans.push(Scan {
                    table,
                    condition,
                    seen,
                    everything: sees == Sees::Everything,
                    event,
                });
            }
            Trace::Read { table, row, .. } if !waits => {
                let place = self.find(table, &row);
                let at = self.open(line);
                let reads = &mut self.transactions[at].reads;
                reads.entry(place).or_insert(event);
            }
            Trace::Scan { .. } | Trace::Read { .. } => {}
            Trace::Write {
                table, old, new, ..
            } => {
                let at = self.open(line);
                let version = Version {
                    row: new,
                    by: Some(at),
                    undone: false,
                    event,
                };
                match old {
                    Some(old) => {
                        let (chain, _) = self.find(table, &old);
                        self.chains[chain].versions.push(version);
                    }
                    None => {
                        let number = self.transactions[at].number;
                        let name = |nth: u32| {
                            let mut digest = Digest::new(0x6368_6169);
                            (table, line, number, nth).hash(&mut digest);
                            digest.finish128()
                        };
                        // The first that is free: what was taken back leaves no trace.
                        let is_free = |name: &u128| {
                            let mut chains = self.chains.iter();
                            !chains.any(|c| c.name == *name && !c.versions.is_empty())
                        };
                        let name = (1..).map(name).find(is_free);
                        self.chains.push(Chain {
                            table,
                            name: name.unwrap_or_default(),
                            versions: vec![version],
                        });
                    }
                }
            }
            Trace::Undone { table, row, ended } => {
                let (chain, at) = self.find(table, &row);
                let at = at + usize::from(ended);
                let mut transactions = self.transactions.iter();
                let is_read = transactions.any(|t| t.reads.contains_key(&(chain, at)));
                let versions = &mut self.chains[chain].versions;
                if at >= versions.len() {
                    return false;
                }
                if is_read || at + 1 < versions.len() {
                    versions[at].undone = true;
                } else {
                    versions.remove(at);
                }
            }
            Trace::Committed(_, number) => {
                let order = number.map(|_| self.numbers.len() as u32);
                self.numbers.extend(number);
                return self.end(line, Status::Committed(order));
            }
            Trace::RolledBack(_) => return self.end(line, Status::RolledBack),
            Trace::Lost(_) => {}
        }
        false
    }

    /// The chain and the version that an image belongs to; a chain of its own if it is new.
    fn find(&mut self, table: u32, row: &Row) -> (usize, usize) {
        for same in [is_same as fn(&Row, &Row) -> bool, is_like] {
            for (at, chain) in self.chains.iter().enumerate().rev() {
                if chain.table != table {
                    continue;
                }
                let mut versions = chain.versions.iter().enumerate().rev();
                let found = versions.find(|(_, v)| v.row.as_ref().is_some_and(|r| same(r, row)));
                if let Some((version, _)) = found {
                    return (at, version);
                }
            }
        }
        let mut digest = Digest::new(0x696e_6974);
        (table, &row[..]).hash(&mut digest);
        self.chains.push(Chain {
            table,
            name: digest.finish128(),
            versions: vec![Version {
                row: Some(Row::clone(row)),
                by: None,
                undone: false,
                event: 0,
            }],
        });
        (self.chains.len() - 1, 0)
    }

    /// What a transaction is known by, however the path got here.
    fn name(&self, at: Option<usize>) -> (usize, u32) {
        at.map_or((usize::MAX, 0), |at| {
            let transaction = &self.transactions[at];
            (transaction.line, transaction.number)
        })
    }

    fn digest(&self) -> u128 {
        let mut sum = 0u128;
        for chain in self
            .chains
            .iter()
            .filter(|chain| !chain.versions.is_empty())
        {
            let mut digest = Digest::new(0x6869_7331);
            chain.name.hash(&mut digest);
            for version in &chain.versions {
                version.row.hash(&mut digest);
                (self.name(version.by), version.undone).hash(&mut digest);
            }
            sum = sum.wrapping_add(digest.finish128());
        }
        for transaction in &self.transactions {
            let mut digest = Digest::new(0x6869_7332);
            (transaction.line, transaction.number).hash(&mut digest);
            transaction.status.hash(&mut digest);
            let mut reads: Vec<(u128, usize)> = Vec::new();
            for (chain, version) in transaction.reads.keys() {
                reads.push((self.chains[*chain].name, *version));
            }
            reads.sort_unstable();
            reads.hash(&mut digest);
            let scans = transaction.scans.iter();
            let scans = scans.map(|s| (s.table, s.condition.name(), s.seen, s.everything));
            scans.collect::<BTreeSet<_>>().hash(&mut digest);
            sum = sum.wrapping_add(digest.finish128());
        }
        sum
    }

    pub(super) fn is_committed(&self, at: Option<usize>) -> bool {
        at.is_none_or(|at| matches!(self.transactions[at].status, Status::Committed(_)))
    }

    /// Whether a version is one that counts in the end.
    pub(super) fn is_kept(&self, version: &Version) -> bool {
        !version.undone && self.is_committed(version.by)
    }
}

/// Whether an image may be that of a version: columns that were not read are NULL.
fn is_like(version: &Row, row: &Row) -> bool {
    let same = |(a, b): (&Value, &Value)| a == b || b.is_null();
    version.iter().zip(row.iter()).all(same)
}

impl<D: Database> World<D> {
    /// Before a step: from now on the server tells what it reads and writes.
    pub(super) fn begin_trace(&mut self) {
        if self.history.is_some()
            && let Some(tracer) = self.db.tracer()
        {
            tracer.begin();
        }
    }

    /// After a step: takes over what it read and wrote, and looks for what is wrong if a transaction
    /// is over.
    pub(super) fn end_trace(&mut self) -> Result<(), Flaw> {
        if self.history.is_none() {
            return Ok(());
        }
        let unsupported = |what: &str| {
            Err(Flaw::Unsupported(Unsupported {
                what: format!("anomalies of {what}"),
                sql: None,
                position: None,
            }))
        };
        let Some(tracer) = self.db.tracer() else {
            return unsupported("this database");
        };
        let mut traces = Vec::new();
        for trace in tracer.end() {
            let session = match &trace {
                Trace::Scan { session, .. }
                | Trace::Read { session, .. }
                | Trace::Write { session, .. }
                | Trace::Committed(session, _)
                | Trace::RolledBack(session) => Some(*session),
                Trace::Undone { .. } => None,
                Trace::Lost(what) => return unsupported(what),
            };
            let line = session.map_or(0, |session| self.line_of(session));
            traces.push((line, trace));
        }
        let waits = self.happened.waits || self.happened.pauses;
        let Some(history) = &mut self.history else {
            return Ok(());
        };
        if !history.add(traces, waits) {
            return Ok(());
        }
        let Some(finding) = history.state.findings(&history.wanted) else {
            return Ok(());
        };
        let mut events: Vec<usize> = Vec::new();
        for edge in &finding.edges {
            events.extend([edge.events.0 as usize, edge.events.1 as usize]);
        }
        events.sort_unstable();
        events.dedup();
        history.matters = events;
        let state = Rc::clone(&history.state);
        let detail = self.describe_cycle(&state, &finding);
        Err(Flaw::Violation {
            property: finding.guarantee.name().to_owned(),
            detail,
        })
    }

    /// A cycle for a person: who, by which statements, depends on whom.
    fn describe_cycle(&self, state: &State, finding: &Finding) -> String {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for transaction in &state.transactions {
            let count = counts.entry(transaction.line).or_default();
            *count = (*count).max(transaction.number);
        }
        let name = |at: usize| {
            let transaction = &state.transactions[at];
            let name = self.session_name(transaction.line);
            match counts.get(&transaction.line) {
                Some(1) | None => name.to_string(),
                Some(_) => format!("transaction {} of {name}", transaction.number),
            }
        };
        let mut text = String::new();
        for edge in &finding.edges {
            if !text.is_empty() {
                text.push_str("; ");
            }
            let _ = write!(
                text,
                "{} (event {}) {} {} (event {})",
                name(edge.from),
                edge.events.0 + 1,
                edge.kind.text(),
                name(edge.to),
                edge.events.1 + 1
            );
        }
        text
    }
}
