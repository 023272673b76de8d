//! A graph whose nodes are pruned when no edge needs them.
//!
//! ```sql
//! CREATE TABLE graph_node (id bigint PRIMARY KEY);
//! CREATE TABLE graph_edge (id bigint PRIMARY KEY, a bigint NOT NULL, b bigint NOT NULL);
//! ```
//!
//! Invariant: *edges have their nodes.* Adding an edge reads its nodes and writes neither; pruning
//! reads the edges and deletes nodes. With a mutex of the process around both, one process is safe at
//! every level; a second process on the same database has a mutex of its own, and needs
//! SERIALIZABLE.

use std::convert::Infallible;

use super::{Inside, Store, ask};
use crate::retry::{Stop, TransactionError, Work};
use crate::sync::Mutex;
use crate::{Host, Session, Value};

/// The graph, as one process shares it among its tasks.
#[derive(Debug)]
pub struct Graph {
    /// Taken before the transaction begins, and held until it has ended. Always before a connection:
    /// whoever holds one and waits for the mutex may wait for whoever waits for a connection.
    mutex: Option<Mutex<()>>,
    /// Never pruned.
    source: i64,
}

/// An edge between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its number.
    pub id: i64,
    /// One end.
    pub a: i64,
    /// The other end.
    pub b: i64,
}

/// The edge is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("edge {0} is there already")]
pub struct EdgeExists(pub i64);

impl Graph {
    /// A graph whose node `source` is never pruned. With `is_guarded`, one change at a time in this
    /// process.
    pub fn new(source: i64, is_guarded: bool) -> Graph {
        Graph {
            mutex: is_guarded.then(|| Mutex::new(())),
            source,
        }
    }

    /// Adds an edge, and its nodes as far as they are missing.
    ///
    /// # Errors
    /// Refused with [`EdgeExists`]; or what the transaction came to.
    pub async fn add_edge<H: Host>(
        &self,
        store: &Store<H>,
        edge: Edge,
    ) -> Result<(), TransactionError<EdgeExists>> {
        let _one_at_a_time = match &self.mutex {
            Some(mutex) => Some(mutex.lock().await),
            None => None,
        };
        store.run(&mut AddEdge(edge)).await
    }

    /// Deletes the nodes without edges; how many there were.
    ///
    /// # Errors
    /// What the transaction came to.
    pub async fn prune_nodes<H: Host>(
        &self,
        store: &Store<H>,
    ) -> Result<usize, TransactionError<Infallible>> {
        let _one_at_a_time = match &self.mutex {
            Some(mutex) => Some(mutex.lock().await),
            None => None,
        };
        let mut prune = Prune {
            source: self.source,
        };
        store.run(&mut prune).await
    }
}

struct AddEdge(Edge);

impl<S: Session> Work<S> for AddEdge {
    type Output = ();
    type Refusal = EdgeExists;

    fn reset(&mut self) {}

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<(), Stop<EdgeExists>> {
        let Edge { id, a, b } = self.0;
        let sql = "SELECT id FROM graph_edge WHERE id = $1";
        if !ask(session, sql, &[id.into()]).await?.rows.is_empty() {
            return Err(Stop::Refused(EdgeExists(id)));
        }
        for node in [a, b] {
            let sql = "SELECT id FROM graph_node WHERE id = $1";
            if ask(session, sql, &[node.into()]).await?.rows.is_empty() {
                let sql = "INSERT INTO graph_node (id) VALUES ($1)";
                ask(session, sql, &[node.into()]).await?;
            }
        }
        let sql = "INSERT INTO graph_edge (id, a, b) VALUES ($1, $2, $3)";
        ask(session, sql, &[id.into(), a.into(), b.into()]).await?;
        Ok(())
    }
}

struct Prune {
    source: i64,
}

impl<S: Session> Work<S> for Prune {
    type Output = usize;
    type Refusal = Infallible;

    fn reset(&mut self) {}

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<usize, Stop<Infallible>> {
        let nodes = ask(session, "SELECT id FROM graph_node ORDER BY id", &[]).await?;
        let edges = ask(session, "SELECT a, b FROM graph_edge ORDER BY id", &[]).await?;
        let is_used = |node: &Value| edges.rows.iter().any(|row| row.contains(node));
        let mut pruned = 0;
        for row in nodes.rows.iter() {
            let Some(node) = row.first() else { continue };
            if *node == Value::Int(self.source) || is_used(node) {
                continue;
            }
            let sql = "DELETE FROM graph_node WHERE id = $1";
            ask(session, sql, std::slice::from_ref(node)).await?;
            pruned += 1;
        }
        Ok(pruned)
    }
}
