//! Reads along what a server sends.
//!
//! sqlx hides things that replies need: PostgreSQL's command tags, notices, transaction status and
//! the columns of an empty result; MySQL's status flags and columns. All of them are on the wire. So
//! sqlx is let connect to a socket of ours, whose bytes go to the server and back unchanged, and
//! the server's messages are recorded on the way. Only the first that the client sends, in which it
//! says how it wants to be served, may be changed: sqlx leaves no choice there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Notify;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A socket file.
    Socket(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

/// How a server's stream of bytes is cut into messages.
pub(crate) trait Framing: Default + Send + 'static {
    /// One message.
    type Message: Clone + Send + 'static;

    /// Adds bytes as they came.
    fn push(&mut self, bytes: &[u8]);

    /// Takes the next complete message.
    fn next(&mut self) -> Option<Self::Message>;
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The record of one connection.
#[derive(Debug)]
pub(crate) struct Tap<M> {
    state: Mutex<State<M>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<M> {
    messages: Vec<M>,
    ended: bool,
}

impl<M: Clone + Send + 'static> Tap<M> {
    /// Connects to a server and waits for one client on a socket at `path`, which must be in a
    /// directory that nobody else can enter. `greet` may change what the client sends first.
    pub(crate) async fn open<F: Framing<Message = M>>(
        endpoint: &Endpoint,
        path: &Path,
        greet: fn(&mut [u8]),
    ) -> io::Result<Arc<Tap<M>>> {
        let server: Box<dyn Stream> = match endpoint {
            Endpoint::Socket(path) => Box::new(UnixStream::connect(path).await?),
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let listener = UnixListener::bind(path)?;
        let tap = Arc::new(Tap {
            state: Mutex::new(State {
                messages: Vec::new(),
                ended: false,
            }),
            changed: Notify::new(),
        });
        tokio::spawn(relay::<F>(listener, server, greet, Arc::clone(&tap)));
        Ok(tap)
    }

    /// Forgets all messages up to the last that `ends` an answer. What came after it without being
    /// asked for (the reason for which the server ended the session) stays.
    pub(crate) fn forget_through(&self, ends: impl Fn(&M) -> bool) {
        let messages = &mut self.lock().messages;
        let answered = messages.iter().rposition(ends).map_or(0, |last| last + 1);
        messages.drain(..answered);
    }

    /// Takes all messages recorded so far.
    pub(crate) fn take(&self) -> Vec<M> {
        std::mem::take(&mut self.lock().messages)
    }

    /// Waits until the last message is one that `ends` an answer, or the server has ended the
    /// connection.
    pub(crate) async fn settled(&self, ends: impl Fn(&M) -> bool) {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                if state.ended || state.messages.last().is_some_and(&ends) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Waits, at most for `time`, for more messages; returns at once if there are any.
    pub(crate) async fn changed(&self, time: Duration) {
        let changed = self.changed.notified();
        {
            let state = self.lock();
            if state.ended || !state.messages.is_empty() {
                return;
            }
        }
        let _ = tokio::time::timeout(time, changed).await;
    }

    /// The messages recorded so far.
    pub(crate) fn messages(&self) -> Vec<M> {
        self.lock().messages.clone()
    }

    /// Whether there is such a message among those recorded.
    pub(crate) fn has(&self, what: impl Fn(&M) -> bool) -> bool {
        self.lock().messages.iter().any(what)
    }

    /// Whether the server has closed the connection.
    pub(crate) fn ended(&self) -> bool {
        self.lock().ended
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().expect("no panic while locked")
    }
}

async fn relay<F: Framing>(
    listener: UnixListener,
    server: Box<dyn Stream>,
    greet: fn(&mut [u8]),
    tap: Arc<Tap<F::Message>>,
) {
    if let Ok((client, _)) = listener.accept().await {
        drop(listener);
        let (mut from_server, mut to_server) = tokio::io::split(server);
        let (mut from_client, mut to_client) = client.into_split();
        let forward = async {
            let mut first = vec![0; 16 * 1024];
            if let Ok(length @ 1..) = from_client.read(&mut first).await {
                greet(&mut first[..length]);
                let _ = to_server.write_all(&first[..length]).await;
            }
            // A client that is gone is seen by the server as the end of the connection.
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            let _ = to_server.shutdown().await;
        };
        let backward = async {
            let mut framing = F::default();
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                let bytes = &buffer[..length];
                // Recorded first: who sees a message through the client finds it in the record.
                framing.push(bytes);
                tap.lock()
                    .messages
                    .extend(std::iter::from_fn(|| framing.next()));
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
