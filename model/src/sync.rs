//! What the tasks of one process share: a short lock, a notification, a semaphore, an async mutex.
//!
//! Everything here is built on one plain mutex and on [`std::task::Waker`], and on no runtime: it
//! works under tokio, in the simulator, and, compiled with `--cfg loom`, in loom's model checker.
//! Wakers are always called after the lock is released.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

#[cfg(loom)]
use loom::sync::{Mutex as RawMutex, MutexGuard as RawGuard};
#[cfg(not(loom))]
use std::sync::{Mutex as RawMutex, MutexGuard as RawGuard};

/// A mutex for critical sections without an await in them.
///
/// A panic in a critical section does not poison it: what it guards here is changed in one step.
pub struct Lock<T>(RawMutex<T>);

impl<T> Lock<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Lock<T> {
        Lock(RawMutex::new(value))
    }

    /// Runs `change` with the lock held. The lock is not reentrant.
    pub fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut guard: RawGuard<'_, T> = match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        change(&mut guard)
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Lock<T> {
        Lock::new(T::default())
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// Tells tasks that something changed.
///
/// Take [`Notify::listen`] first, then look at what may have changed, then await: a notification
/// between the look and the await is not lost.
#[derive(Debug, Default)]
pub struct Notify {
    state: Lock<NotifyState>,
}

#[derive(Default)]
struct NotifyState {
    /// Counts notifications; a listener is done when it differs from the one it started with.
    generation: u64,
    /// Wakers of the tasks that listen, by listener.
    wakers: Vec<(u64, Waker)>,
    next_listener: u64,
}

impl Notify {
    /// A notification with nobody listening.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes every task that listens now.
    pub fn notify_all(&self) {
        let woken = self.state.with(|state| {
            state.generation += 1;
            std::mem::take(&mut state.wakers)
        });
        for (_, waker) in woken {
            waker.wake();
        }
    }

    /// A future that is ready after the next [`Notify::notify_all`], counted from this call.
    pub fn listen(&self) -> Listen<'_> {
        let (generation, listener) = self.state.with(|state| {
            state.next_listener += 1;
            (state.generation, state.next_listener)
        });
        Listen {
            notify: self,
            generation,
            listener,
        }
    }
}

/// The future of [`Notify::listen`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Listen<'a> {
    notify: &'a Notify,
    generation: u64,
    listener: u64,
}

impl Future for Listen<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (generation, listener) = (self.generation, self.listener);
        self.notify.state.with(|state| {
            if state.generation != generation {
                return Poll::Ready(());
            }
            state.wakers.retain(|(id, _)| *id != listener);
            state.wakers.push((listener, context.waker().clone()));
            Poll::Pending
        })
    }
}

impl Drop for Listen<'_> {
    fn drop(&mut self) {
        let listener = self.listener;
        self.notify
            .state
            .with(|state| state.wakers.retain(|(id, _)| *id != listener));
    }
}

/// A counting semaphore that serves in the order of arrival.
#[derive(Debug)]
pub struct Semaphore {
    state: Lock<SemaphoreState>,
}

struct SemaphoreState {
    free: usize,
    /// Those who wait, in the order of arrival.
    queue: VecDeque<(u64, Waker)>,
    /// Those who were given a permit and have not been polled since.
    granted: Vec<u64>,
    next_ticket: u64,
}

impl SemaphoreState {
    /// Gives one permit to the first in the queue, or keeps it; returns whom to wake.
    fn give_back(&mut self) -> Option<Waker> {
        match self.queue.pop_front() {
            Some((ticket, waker)) => {
                self.granted.push(ticket);
                Some(waker)
            }
            None => {
                self.free += 1;
                None
            }
        }
    }
}

impl Semaphore {
    /// A semaphore with `permits` permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore {
            state: Lock::new(SemaphoreState {
                free: permits,
                queue: VecDeque::new(),
                granted: Vec::new(),
                next_ticket: 0,
            }),
        }
    }

    /// Waits for a permit. It is given back by dropping it.
    pub fn acquire(&self) -> Acquire<'_> {
        Acquire {
            semaphore: self,
            ticket: None,
        }
    }

    /// A permit if there is one now. Never overtakes those who wait: while somebody does, nothing is
    /// free.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        let taken = self.state.with(|state| {
            let free = state.free > 0;
            state.free -= usize::from(free);
            free
        });
        taken.then_some(Permit(self))
    }

    fn give_back(&self) {
        let woken = self.state.with(SemaphoreState::give_back);
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}

/// The right to one of the things that a [`Semaphore`] counts.
#[derive(Debug)]
pub struct Permit<'a>(&'a Semaphore);

impl Permit<'_> {
    /// Keeps the permit beyond this value; [`Semaphore::restore`] gives it back.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Semaphore {
    /// Gives back a permit that was kept with [`Permit::keep`].
    pub fn restore(&self) {
        self.give_back();
    }
}

/// The future of [`Semaphore::acquire`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    /// The place in the queue, once there is one.
    ticket: Option<u64>,
}

impl<'a> Future for Acquire<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        let mut ticket = self.ticket;
        let ready = self.semaphore.state.with(|state| match ticket {
            Some(mine) if state.granted.contains(&mine) => {
                state.granted.retain(|t| *t != mine);
                ticket = None;
                true
            }
            Some(mine) => {
                if let Some(place) = state.queue.iter_mut().find(|(t, _)| *t == mine) {
                    place.1 = context.waker().clone();
                }
                false
            }
            // While somebody waits there is nothing free: permits go to the queue directly.
            None if state.free > 0 => {
                state.free -= 1;
                true
            }
            None => {
                state.next_ticket += 1;
                ticket = Some(state.next_ticket);
                state
                    .queue
                    .push_back((state.next_ticket, context.waker().clone()));
                false
            }
        });
        self.ticket = ticket;
        if ready {
            Poll::Ready(Permit(self.semaphore))
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(mine) = self.ticket else { return };
        let woken = self.semaphore.state.with(|state| {
            state.queue.retain(|(ticket, _)| *ticket != mine);
            let given = state.granted.iter().position(|ticket| *ticket == mine);
            given.and_then(|index| {
                state.granted.remove(index);
                state.give_back()
            })
        });
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}

/// A mutex that may be held across an await. Served in the order of arrival.
pub struct Mutex<T> {
    permit: Semaphore,
    /// Empty while the value is with a guard: so a guard can be sent to another thread.
    value: Lock<Option<T>>,
}

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex {
            permit: Semaphore::new(1),
            value: Lock::new(Some(value)),
        }
    }

    /// Waits for the mutex.
    pub async fn lock(&self) -> Guard<'_, T> {
        let permit = self.permit.acquire().await;
        Guard {
            value: self.value.with(Option::take),
            mutex: self,
            _permit: permit,
        }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

/// The value of a [`Mutex`], while it is held.
pub struct Guard<'a, T> {
    value: Option<T>,
    mutex: &'a Mutex<T>,
    /// Dropped after the value was put back: fields drop after `Drop::drop`.
    _permit: Permit<'a>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
            .as_ref()
            .expect("a guard has its value until it is dropped")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
            .as_mut()
            .expect("a guard has its value until it is dropped")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        let value = self.value.take();
        self.mutex.value.with(|slot| *slot = value);
    }
}

impl<T> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
