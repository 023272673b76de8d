//! Dependencies between committed transactions, and Adya's cycles among them.

use std::collections::VecDeque;

use rowlock_model::{Guarantee, Row};

use super::history::{Scan, State, Status, Version};

/// A dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Ww,
    Wr,
    /// A row was replaced that was read.
    RwItem,
    /// A search would find something else.
    RwCondition,
}

impl Kind {
    fn is_rw(self) -> bool {
        matches!(self, Kind::RwItem | Kind::RwCondition)
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Kind::Ww => "is overwritten by",
            Kind::Wr => "is read by",
            Kind::RwItem => "read what is replaced by",
            Kind::RwCondition => "searched for what is changed by",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: Kind,
    /// The events at both ends.
    pub(super) events: (u32, u32),
}

/// Something that is found.
pub(super) struct Finding {
    pub(super) guarantee: Guarantee,
    pub(super) edges: Vec<Edge>,
}

impl State {
    /// The dependencies between committed transactions, and reads of what should not be read.
    fn dependencies(&self) -> (Vec<Edge>, Vec<Finding>) {
        let mut edges = Vec::new();
        let mut dirty = Vec::new();
        for chain in &self.chains {
            let mut before: Option<&Version> = None;
            for version in chain.versions.iter().filter(|v| self.is_kept(v)) {
                if let Some(old) = before {
                    let events = (old.event, version.event);
                    add(&mut edges, old.by, version.by, Kind::Ww, events);
                }
                before = Some(version);
            }
        }
        for (at, transaction) in self.transactions.iter().enumerate() {
            if !matches!(transaction.status, Status::Committed(_)) {
                continue;
            }
            for ((chain, version), event) in &transaction.reads {
                self.read(at, *chain, *version, *event, &mut edges, &mut dirty);
            }
            for scan in &transaction.scans {
                self.scan(at, scan, &mut edges);
            }
        }
        (edges, dirty)
    }

    fn read(
        &self,
        at: usize,
        chain: usize,
        version: usize,
        event: u32,
        edges: &mut Vec<Edge>,
        dirty: &mut Vec<Finding>,
    ) {
        let versions = &self.chains[chain].versions;
        let Some(seen) = versions.get(version) else {
            return;
        };
        if let Some(by) = seen.by.filter(|by| *by != at) {
            let edge = Edge {
                from: by,
                to: at,
                kind: Kind::Wr,
                events: (seen.event, event),
            };
            let later = versions[version + 1..].iter().find(|v| v.by == Some(by));
            let status = match seen.undone {
                true => Status::RolledBack,
                false => self.transactions[by].status,
            };
            match (status, later) {
                (Status::RolledBack, _) => dirty.push(Finding {
                    guarantee: Guarantee::NoG1a,
                    edges: vec![edge],
                }),
                (Status::Committed(_), Some(later)) => dirty.push(Finding {
                    guarantee: Guarantee::NoG1b,
                    edges: vec![
                        edge,
                        Edge {
                            from: at,
                            to: by,
                            kind: Kind::RwItem,
                            events: (event, later.event),
                        },
                    ],
                }),
                _ => {}
            }
            if self.is_kept(seen) {
                edges.push(edge);
            }
        }
        let mut later = versions[version + 1..].iter();
        let next = later.find(|v| self.is_kept(v) && v.by != seen.by);
        if let Some(next) = next.filter(|_| self.is_kept(seen)) {
            let events = (event, next.event);
            add(edges, Some(at), next.by, Kind::RwItem, events);
        }
    }

    /// What a search saw of other transactions, and what it did not.
    fn scan(&self, at: usize, scan: &Scan, edges: &mut Vec<Edge>) {
        for chain in self.chains.iter().filter(|chain| chain.table == scan.table) {
            let passes = |row: &Option<Row>| match row {
                None => Some(false),
                Some(row) => scan.condition.test(row),
            };
            let mut before = Some(false);
            for version in chain.versions.iter().filter(|v| self.is_kept(v)) {
                let now = passes(&version.row);
                let changed = matches!((before, now), (Some(a), Some(b)) if a != b);
                before = now;
                let Some(by) = version.by.filter(|by| *by != at && changed) else {
                    continue;
                };
                let Status::Committed(Some(order)) = self.transactions[by].status else {
                    continue;
                };
                let seen = match scan.everything {
                    true => version.event < scan.event,
                    false => order < scan.seen,
                };
                edges.push(match seen {
                    true => Edge {
                        from: by,
                        to: at,
                        kind: Kind::Wr,
                        events: (version.event, scan.event),
                    },
                    false => Edge {
                        from: at,
                        to: by,
                        kind: Kind::RwCondition,
                        events: (scan.event, version.event),
                    },
                });
            }
        }
    }

    /// What is wrong, most special first, as far as it is asked for.
    pub(super) fn findings(&self, wanted: &[Guarantee]) -> Option<Finding> {
        let (edges, mut dirty) = self.dependencies();
        let plain = |edge: &Edge| !edge.kind.is_rw();
        let cycle = |guarantee, first: &dyn Fn(&Edge) -> bool, rest: &dyn Fn(&Edge) -> bool| {
            let edges = shortest_cycle(&edges, self.transactions.len(), first, rest)?;
            Some(Finding { guarantee, edges })
        };
        for guarantee in Guarantee::ANOMALIES {
            if !wanted.contains(&guarantee) {
                continue;
            }
            let found = match guarantee {
                Guarantee::NoG0 => {
                    let ww = |edge: &Edge| edge.kind == Kind::Ww;
                    cycle(guarantee, &ww, &ww)
                }
                Guarantee::NoG1a | Guarantee::NoG1b => {
                    let place = dirty.iter().position(|found| found.guarantee == guarantee);
                    place.map(|place| dirty.swap_remove(place))
                }
                Guarantee::NoG1c => {
                    let wr = |edge: &Edge| edge.kind == Kind::Wr;
                    cycle(guarantee, &wr, &plain)
                }
                Guarantee::NoGSingle => cycle(guarantee, &|edge| edge.kind.is_rw(), &plain),
                Guarantee::NoG2Item => {
                    let items = |edge: &Edge| edge.kind != Kind::RwCondition;
                    cycle(guarantee, &|edge| edge.kind == Kind::RwItem, &items)
                }
                _ => cycle(guarantee, &|edge| edge.kind.is_rw(), &|_| true),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Adds a dependency between two different transactions.
fn add(
    edges: &mut Vec<Edge>,
    from: Option<usize>,
    to: Option<usize>,
    kind: Kind,
    events: (u32, u32),
) {
    if let (Some(from), Some(to)) = (from, to)
        && from != to
    {
        edges.push(Edge {
            from,
            to,
            kind,
            events,
        });
    }
}

/// The shortest cycle with one edge of the first kind and the others of the second.
fn shortest_cycle(
    edges: &[Edge],
    count: usize,
    first: &dyn Fn(&Edge) -> bool,
    rest: &dyn Fn(&Edge) -> bool,
) -> Option<Vec<Edge>> {
    let mut best: Option<Vec<Edge>> = None;
    for start in edges.iter().filter(|edge| first(edge)) {
        let mut reached: Vec<Option<Edge>> = vec![None; count];
        let mut queue = VecDeque::from([start.to]);
        while let Some(at) = queue.pop_front() {
            if at == start.from {
                break;
            }
            for edge in edges.iter().filter(|edge| edge.from == at && rest(edge)) {
                if reached[edge.to].is_none() && edge.to != start.to {
                    reached[edge.to] = Some(*edge);
                    queue.push_back(edge.to);
                }
            }
        }
        if start.from == start.to {
            continue;
        }
        let mut path = Vec::new();
        let mut at = start.from;
        while let Some(edge) = reached[at] {
            path.push(edge);
            at = edge.from;
        }
        if at == start.to && !path.is_empty() {
            path.push(*start);
            path.reverse();
            if best.as_ref().is_none_or(|best| path.len() < best.len()) {
                best = Some(path);
            }
        }
    }
    best
}
