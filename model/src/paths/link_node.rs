//! Opening a channel needs the peer's link node, and closing the last one removes it.
//!
//! ```sql
//! CREATE TABLE link_node (peer text PRIMARY KEY, body text NOT NULL, writes int NOT NULL);
//! CREATE TABLE channel (id bigint PRIMARY KEY, peer text NOT NULL);
//! ```
//!
//! Invariant: *an open channel has its link node.* The opener reads the node and writes the channel,
//! the closer reads the channels and deletes the node: unless the opener [`Touch`]es the node, both
//! commit at READ COMMITTED and REPEATABLE READ. A touch comes after the read that decided, so at
//! READ COMMITTED no touch helps.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Inside, Touch, Touched, ask};
use crate::retry::{Stop, Work};
use crate::{Session, Value};

/// Adds a channel, and the link node of its peer if there is none.
#[derive(Clone, Debug)]
pub struct OpenChannel {
    /// The channel.
    pub channel: i64,
    /// The peer.
    pub peer: Arc<str>,
    /// What becomes of a link node that is there already.
    pub touch: Touch,
}

impl<S: Session> Work<S> for OpenChannel {
    type Output = ();
    type Refusal = Infallible;

    fn reset(&mut self) {}

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<(), Stop<Infallible>> {
        let peer = Value::Text(Arc::clone(&self.peer));
        let sql = "SELECT body FROM link_node WHERE peer = $1";
        let found = ask(session, sql, std::slice::from_ref(&peer)).await?;
        if found.rows.is_empty() {
            let sql = "INSERT INTO link_node (peer, body, writes) VALUES ($1, 'new', 0)";
            ask(session, sql, std::slice::from_ref(&peer)).await?;
        } else {
            let node = Touched {
                table: "link_node",
                key: ("peer", peer.clone()),
                bytes: "body",
                count: "writes",
            };
            self.touch.row(session, node).await?;
        }
        let sql = "INSERT INTO channel (id, peer) VALUES ($1, $2)";
        ask(session, sql, &[self.channel.into(), peer]).await?;
        Ok(())
    }
}

/// Removes a channel, and the link node of its peer if that was the last one.
#[derive(Clone, Debug)]
pub struct CloseChannel {
    /// The channel.
    pub channel: i64,
    /// The peer.
    pub peer: Arc<str>,
}

impl<S: Session> Work<S> for CloseChannel {
    type Output = ();
    type Refusal = Infallible;

    fn reset(&mut self) {}

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<(), Stop<Infallible>> {
        let peer = [Value::Text(Arc::clone(&self.peer))];
        let sql = "DELETE FROM channel WHERE id = $1";
        ask(session, sql, &[self.channel.into()]).await?;
        let open = ask(session, "SELECT id FROM channel WHERE peer = $1", &peer).await?;
        if open.rows.is_empty() {
            ask(session, "DELETE FROM link_node WHERE peer = $1", &peer).await?;
        }
        Ok(())
    }
}
