//! Histories of a program: a trie whose nodes are what a process has seen.
//!
//! The code under test is opaque, but its state is a function of the program and of the events
//! that it has seen, so a node stands for that state: same node, same pending requests. Each node
//! is polled once, when it is first reached; after that, moving along an edge costs a comparison.
//! When a second branch leaves a node whose live futures went along the first, the process is
//! built anew by replaying the recorded events, without running any SQL.
//!
//! Identical processes share a trie. What would differ between them, or between two times, is
//! noted when the code looks at it (host clock, name, randomness), and the edge is then keyed by it
//! as well.
//!
//! The code must be deterministic. It is checked: every rebuilt history is compared node by node
//! with what was recorded, and beyond that the first nodes and then some are rebuilt on purpose.

use std::fmt::Write as _;
use std::sync::Arc;

use rowlock_model::Dialect;
use rustc_hash::FxHashMap;

use super::error::ExploreError;
use crate::database::{Request, StatementId};
use crate::host::{Ask, Event, Finish, Given, Label, Live, Note, Observed, Program, Rest};

/// A node: one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    /// No history any more: the process crashed or is done.
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);
}

/// Who is polled, and when.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) process: usize,
    pub(crate) name: Arc<str>,
    pub(crate) now_micros: i64,
}

/// What a pending request does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Runs on a session of the process.
    Run(u16, Request),
    /// Opens a session.
    Connect,
    /// Ends after so many microseconds.
    Sleep(i64),
}

/// A pending request.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: u32,
    pub(crate) action: Action,
    pub(crate) label: Option<Label>,
    pub(crate) orphan: bool,
    pub(crate) main: bool,
}

/// A process after one history.
pub(crate) struct Node {
    pub(crate) pending: Vec<Pending>,
    pub(crate) closed: Vec<u16>,
    pub(crate) sessions: u16,
    pub(crate) places: Vec<u16>,
    pub(crate) notes: Vec<Note>,
    pub(crate) finish: Option<Finish>,
    /// Nothing but a new history: no session was closed, no sleep begins, nothing has ended.
    pub(crate) is_calm: bool,
    /// Sessions that the harness opened stand where they stood.
    pub(crate) keeps_places: bool,
    /// Where answers lead that the server gives by number: request, number, history.
    known: Vec<(u32, u32, NodeId)>,
    rest: Rest,
    origin: Origin,
    edges: Edges<Event>,
    live: Option<Live>,
}

/// How a node is reached.
#[derive(Clone)]
struct Origin {
    from: From,
    viewer: Viewer,
}

#[derive(Clone)]
enum From {
    /// A round begins with this local state.
    Start(u32),
    /// An event after another history.
    After(NodeId, Event),
}

/// Children by key; scanned while few.
struct Edges<K> {
    list: Vec<(K, Edge)>,
    index: FxHashMap<K, u32>,
}

const SCANNED_MAX: usize = 8;

impl<K> Default for Edges<K> {
    fn default() -> Edges<K> {
        Edges {
            list: Vec::new(),
            index: FxHashMap::default(),
        }
    }
}

impl<K: Eq + std::hash::Hash + Clone> Edges<K> {
    fn get(&self, key: &K) -> Option<&Edge> {
        if self.list.len() <= SCANNED_MAX {
            return self.list.iter().find(|(k, _)| k == key).map(|(_, e)| e);
        }
        self.index.get(key).map(|at| &self.list[*at as usize].1)
    }

    fn slot(&mut self, key: &K) -> Option<&mut Edge> {
        self.list.iter_mut().find(|(k, _)| k == key).map(|(_, e)| e)
    }

    fn push(&mut self, key: K, edge: Edge) {
        if self.list.len() == SCANNED_MAX {
            for (at, (k, _)) in self.list.iter().enumerate() {
                self.index.insert(k.clone(), at as u32);
            }
        }
        if self.list.len() >= SCANNED_MAX {
            self.index.insert(key.clone(), self.list.len() as u32);
        }
        self.list.push((key, edge));
    }
}

/// Where an event leads.
enum Edge {
    /// Always to the same history.
    To(NodeId),
    /// That depends on what the code looked at while it was polled.
    Seen(Observed, Vec<(i64, usize, NodeId)>),
}

impl Edge {
    fn to(&self, viewer: &Viewer) -> Option<NodeId> {
        match self {
            Edge::To(node) => Some(*node),
            Edge::Seen(observed, list) => {
                let (time, who) = seen(*observed, viewer);
                list.iter()
                    .find(|(t, w, _)| *t == time && *w == who)
                    .map(|(_, _, node)| *node)
            }
        }
    }
}

/// What of the viewer counts, given what was looked at.
fn seen(observed: Observed, viewer: &Viewer) -> (i64, usize) {
    (
        if observed.clock { viewer.now_micros } else { 0 },
        if observed.identity { viewer.process } else { 0 },
    )
}

/// All histories of one program.
pub(crate) struct Trie {
    program: Program,
    dialect: Dialect,
    sessions: usize,
    nodes: Vec<Node>,
    roots: Edges<u32>,
    /// Nodes that were polled for the first time: distinct histories.
    pub(crate) polls: u64,
    /// Polls for rebuilding and auditing.
    pub(crate) rebuild_polls: u64,
}

/// Prepares a statement text.
pub(crate) type Prepare<'a> = &'a mut dyn FnMut(&str) -> StatementId;

impl Trie {
    pub(crate) fn new(program: Program, dialect: Dialect, sessions: usize) -> Trie {
        Trie {
            program,
            dialect,
            sessions,
            nodes: Vec::new(),
            roots: Edges::default(),
            polls: 0,
            rebuild_polls: 0,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Number of histories.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The history of a round that begins with local state `local`.
    pub(crate) fn root(
        &mut self,
        local: u32,
        viewer: &Viewer,
        prepare: Prepare<'_>,
    ) -> Result<NodeId, ExploreError> {
        if let Some(node) = self.roots.get(&local).and_then(|edge| edge.to(viewer)) {
            return Ok(node);
        }
        let mut live = Live::new(&self.program, self.dialect, self.sessions, local);
        let rest = live.start(viewer.process, &viewer.name, viewer.now_micros);
        let origin = Origin {
            from: From::Start(local),
            viewer: viewer.clone(),
        };
        self.add(origin, rest, live, prepare)
    }

    /// The history of a round that begins with local state `local`, if it is known and the same for
    /// all.
    pub(crate) fn plain_root(&self, local: u32) -> Option<NodeId> {
        match self.roots.get(&local) {
            Some(Edge::To(node)) => Some(*node),
            _ => None,
        }
    }

    /// The history after an answer by number, if it is known and the same for all.
    #[inline]
    pub(crate) fn after_known(&self, node: NodeId, request: u32, number: u32) -> Option<NodeId> {
        let known = self.node(node).known.iter();
        let mut found = known.filter(|(r, n, _)| *r == request && *n == number);
        found.next().map(|(.., next)| *next)
    }

    /// Remembers where an answer by number leads, if that is the same for all.
    pub(crate) fn remember(&mut self, node: NodeId, request: u32, number: u32, event: &Event) {
        if let Some(Edge::To(next)) = self.node(node).edges.get(event) {
            let next = *next;
            let known = &mut self.nodes[node.0 as usize].known;
            known.push((request, number, next));
        }
    }

    /// The history after `event` was added to that of `node`.
    pub(crate) fn advance(
        &mut self,
        node: NodeId,
        event: Event,
        viewer: impl FnOnce() -> Viewer,
        prepare: Prepare<'_>,
    ) -> Result<NodeId, ExploreError> {
        let edge = self.node(node).edges.get(&event);
        if let Some(Edge::To(child)) = edge {
            return Ok(*child);
        }
        let viewer = viewer();
        if let Some(child) = edge.and_then(|edge| edge.to(&viewer)) {
            return Ok(child);
        }
        let mut live = match self.nodes[node.0 as usize].live.take() {
            Some(live) => live,
            None => self.rebuild(node, &viewer)?,
        };
        let rest = live.tell(&event, viewer.process, &viewer.name, viewer.now_micros);
        let origin = Origin {
            from: From::After(node, event),
            viewer,
        };
        self.add(origin, rest, live, prepare)
    }

    fn add(
        &mut self,
        origin: Origin,
        rest: Rest,
        live: Live,
        prepare: Prepare<'_>,
    ) -> Result<NodeId, ExploreError> {
        let id = NodeId(self.nodes.len() as u32);
        self.polls += 1;
        self.link(&origin, rest.observed, id)?;
        let pending = rest.pending.iter().map(|ask| Pending {
            id: ask.id,
            action: action(&ask.ask, prepare),
            label: ask.label.clone(),
            orphan: ask.orphan,
            main: ask.main,
        });
        let pending: Vec<Pending> = pending.collect();
        let sleeps = |p: &Pending| matches!(p.action, Action::Sleep(_));
        let mut places = rest.places.iter().enumerate();
        self.nodes.push(Node {
            is_calm: rest.closed.is_empty() && rest.finish.is_none() && !pending.iter().any(sleeps),
            keeps_places: places.all(|(at, local)| usize::from(*local) == at),
            known: Vec::new(),
            pending,
            closed: rest.closed.clone(),
            sessions: rest.sessions,
            places: rest.places.clone(),
            notes: rest.notes.clone(),
            finish: rest.finish.clone(),
            // Statements may still be on their way when a process is done.
            live: (rest.finish.is_none() || !rest.pending.is_empty()).then_some(live),
            edges: Edges::default(),
            rest,
            origin,
        });
        if is_audited(self.nodes.len()) {
            let viewer = self.nodes[id.0 as usize].origin.viewer.clone();
            self.rebuild(id, &viewer)?;
        }
        Ok(id)
    }

    /// Enters a new node under its parent.
    fn link(
        &mut self,
        origin: &Origin,
        observed: Observed,
        id: NodeId,
    ) -> Result<(), ExploreError> {
        let plain = observed == Observed::default();
        let (time, who) = seen(observed, &origin.viewer);
        let fresh = || match plain {
            true => Edge::To(id),
            false => Edge::Seen(observed, vec![(time, who, id)]),
        };
        let known = match &origin.from {
            From::Start(local) => self.roots.slot(local),
            From::After(parent, event) => self.nodes[parent.0 as usize].edges.slot(event),
        };
        match known {
            Some(Edge::Seen(before, list)) if *before == observed => list.push((time, who, id)),
            Some(_) => {
                return Err(ExploreError::nondeterministic(
                    &origin.viewer.name,
                    "it looked at the clock or its name in one run and not in another".to_owned(),
                ));
            }
            None => match &origin.from {
                From::Start(local) => self.roots.push(*local, fresh()),
                From::After(parent, event) => {
                    self.nodes[parent.0 as usize]
                        .edges
                        .push(event.clone(), fresh());
                }
            },
        }
        Ok(())
    }

    /// Builds the process after the history of `node` anew and compares it with the record.
    fn rebuild(&mut self, node: NodeId, viewer: &Viewer) -> Result<Live, ExploreError> {
        let mut path = vec![node];
        let local = loop {
            let last = *path.last().expect("a path has a node");
            match &self.node(last).origin.from {
                From::Start(local) => break *local,
                From::After(parent, _) => path.push(*parent),
            }
        };
        path.reverse();
        let mut live = Live::new(&self.program, self.dialect, self.sessions, local);
        for (at, id) in path.iter().enumerate() {
            let node = self.node(*id);
            // A viewer that was looked at is the same for all who get here; else anyone will do.
            let by = match node.rest.observed == Observed::default() {
                true => viewer,
                false => &node.origin.viewer,
            };
            let rest = match &node.origin.from {
                From::Start(_) => live.start(by.process, &by.name, by.now_micros),
                From::After(_, event) => live.tell(event, by.process, &by.name, by.now_micros),
            };
            self.rebuild_polls += 1;
            let node = self.node(*id);
            if rest != node.rest {
                return Err(ExploreError::nondeterministic(
                    &viewer.name,
                    self.difference(&path[..=at], &node.rest, &rest),
                ));
            }
        }
        Ok(live)
    }

    /// Two runs of the same history, side by side.
    fn difference(&self, path: &[NodeId], first: &Rest, second: &Rest) -> String {
        let mut text = String::from("after the same history it went on differently\nhistory:\n");
        for id in path {
            match &self.node(*id).origin.from {
                From::Start(local) if *local == 0 => text.push_str("  start\n"),
                From::Start(local) => {
                    let _ = writeln!(text, "  start with local state number {local}");
                }
                From::After(parent, event) => {
                    let _ = writeln!(text, "  {}", describe_event(self.node(*parent), event));
                }
            }
        }
        let _ = write!(
            text,
            "first run:  {}\nsecond run: {}",
            describe_rest(first),
            describe_rest(second)
        );
        text
    }
}

/// Whether the n-th node is rebuilt at once: the first ones, then exponentially rarer, and a few.
fn is_audited(n: usize) -> bool {
    n <= 8 || n.is_power_of_two() || n.is_multiple_of(256)
}

fn action(ask: &Ask, prepare: Prepare<'_>) -> Action {
    match ask {
        Ask::Exec(session, sql, args) => {
            Action::Run(*session, Request::Exec(prepare(sql), Arc::clone(args)))
        }
        Ask::Batch(session, sql) => Action::Run(*session, Request::Batch(Arc::clone(sql))),
        Ask::Connect => Action::Connect,
        Ask::Sleep(micros) => Action::Sleep(*micros),
    }
}

impl Node {
    /// The pending request with this number, and its place.
    pub(crate) fn find(&self, id: u32) -> Option<(usize, &Pending)> {
        self.pending.iter().enumerate().find(|(_, p)| p.id == id)
    }

    /// Whether the code looked at its clock when it got here.
    pub(crate) fn looked_at_clock(&self) -> bool {
        self.rest.observed.clock
    }

    /// Whether the code looked at its name, or drew a random number, when it got here.
    pub(crate) fn looked_at_name(&self) -> bool {
        self.rest.observed.identity
    }

    /// What the process asked for in a pending request.
    pub(crate) fn ask(&self, at: usize) -> &Ask {
        &self.rest.pending[at].ask
    }
}

fn describe_ask(ask: &Ask) -> String {
    match ask {
        Ask::Exec(_, sql, args) if args.is_empty() => sql.to_string(),
        Ask::Exec(_, sql, args) => {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            format!("{sql} [{}]", args.join(", "))
        }
        Ask::Batch(_, sql) => sql.to_string(),
        Ask::Connect => "connect".to_owned(),
        Ask::Sleep(micros) => format!("sleep {micros} us"),
    }
}

fn describe_event(before: &Node, event: &Event) -> String {
    let (id, what) = match event {
        Event::Cancel(id) => (*id, "cancelled".to_owned()),
        Event::Reply(id, given) => (*id, describe_given(given)),
    };
    match before.rest.pending.iter().find(|ask| ask.id == id) {
        Some(pending) => format!("{}: {what}", describe_ask(&pending.ask)),
        None => what,
    }
}

fn describe_given(given: &Given) -> String {
    match given {
        Given::Exec(result) => rowlock_model::Outcome::of(result).to_string(),
        Given::Batch(Ok(batch)) => match &batch.error {
            Some(error) => error.to_string(),
            None => "ok".to_owned(),
        },
        Given::Batch(Err(error)) | Given::Connected(Err(error)) => error.to_string(),
        Given::Connected(Ok(())) | Given::Slept => "ok".to_owned(),
        Given::Forgotten => "over, nobody waited".to_owned(),
    }
}

fn describe_rest(rest: &Rest) -> String {
    if let Some(finish) = &rest.finish {
        return format!("{finish:?}");
    }
    let asks: Vec<String> = rest.pending.iter().map(|p| describe_ask(&p.ask)).collect();
    asks.join("; ")
}
