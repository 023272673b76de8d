//! Reads along what a PostgreSQL server sends.
//!
//! sqlx does not give out command tags, notices, the transaction status, or the columns of an
//! empty result of the simple protocol. All of them are on the wire. So sqlx is let connect to a
//! socket of ours, whose bytes go to the server and back unchanged, and the server's messages are
//! recorded on the way.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Notify;

use super::message::{self, Message, Splitter};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A socket file.
    Socket(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The record of one connection.
#[derive(Debug, Default)]
pub(super) struct Tap {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: Vec<Message>,
    ended: bool,
}

impl Tap {
    /// Connects to a server and waits for one client on a socket in `directory`, which must be
    /// readable by nobody else.
    pub(super) async fn open(endpoint: &Endpoint, directory: &Path) -> io::Result<Arc<Tap>> {
        let server: Box<dyn Stream> = match endpoint {
            Endpoint::Socket(path) => Box::new(UnixStream::connect(path).await?),
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let listener = UnixListener::bind(directory.join(SOCKET_NAME))?;
        let tap = Arc::new(Tap::default());
        tokio::spawn(relay(listener, server, Arc::clone(&tap)));
        Ok(tap)
    }

    /// Forgets what was answered to earlier requests. What came after them without being asked for
    /// (the reason for which the server ended the session) stays.
    pub(super) fn begin(&self) {
        let messages = &mut self.lock().messages;
        let answered = messages
            .iter()
            .rposition(|m| m.kind == message::READY_FOR_QUERY)
            .map_or(0, |last| last + 1);
        messages.drain(..answered);
    }

    /// Waits until the server is ready again or has ended the connection.
    pub(super) async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                let ready = state
                    .messages
                    .last()
                    .is_some_and(|m| m.kind == message::READY_FOR_QUERY);
                if ready || state.ended {
                    return;
                }
            }
            changed.await;
        }
    }

    /// What the server has sent since [`begin`](Self::begin).
    pub(super) fn messages(&self) -> Vec<Message> {
        self.lock().messages.clone()
    }

    /// Whether the server has sent a message of this kind since [`begin`](Self::begin).
    pub(super) fn has(&self, kind: u8) -> bool {
        self.lock().messages.iter().any(|m| m.kind == kind)
    }

    /// Whether the server has closed the connection.
    pub(super) fn ended(&self) -> bool {
        self.lock().ended
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }
}

/// What a client that is told this port looks for in the directory of the socket.
pub(super) const PORT: u16 = 1;
const SOCKET_NAME: &str = ".s.PGSQL.1";

async fn relay(listener: UnixListener, server: Box<dyn Stream>, tap: Arc<Tap>) {
    if let Ok((client, _)) = listener.accept().await {
        drop(listener);
        let (mut from_server, mut to_server) = tokio::io::split(server);
        let (mut from_client, mut to_client) = client.into_split();
        let forward = async {
            // A client that is gone is seen by the server as the end of the connection.
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            let _ = to_server.shutdown().await;
        };
        let backward = async {
            let mut splitter = Splitter::default();
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                let bytes = &buffer[..length];
                // Recorded first: who sees a message through the client finds it in the record.
                splitter.push(bytes);
                tap.lock()
                    .messages
                    .extend(std::iter::from_fn(|| splitter.next()));
                tap.changed.notify_waiters();
                if to_client.write_all(bytes).await.is_err() {
                    break;
                }
            }
            tap.lock().ended = true;
            tap.changed.notify_waiters();
            let _ = to_client.shutdown().await;
        };
        tokio::select! {
            () = backward => {}
            () = async { forward.await; std::future::pending().await } => {}
        }
    }
    tap.lock().ended = true;
    tap.changed.notify_waiters();
}
