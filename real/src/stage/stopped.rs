//! Backends of a throwaway PostgreSQL server that are held back by the operating system.
//!
//! A backend that is granted a lock goes on when the system lets it run, and other sessions may get
//! several statements in before that. `SIGSTOP` makes the system take that long. A backend is stopped
//! only while it sleeps in the wait for a lock: it holds nothing then that others need in order to run.

use rowlock_scenarios::stage::StageError;
use rustix::process::{Pid, Signal, kill_process};

use super::failure;

/// They all go on when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Stopped(Vec<i64>);

impl Stopped {
    /// Stops those of `backends` that run, and lets all others go on.
    pub(super) fn set(&mut self, backends: &[i64]) -> Result<(), StageError> {
        self.release(|backend| !backends.contains(&backend));
        for backend in backends {
            if !self.has(*backend) {
                signal(*backend, Signal::STOP).map_err(|error| {
                    failure(format!("backend {backend} cannot be held back: {error}"))
                })?;
                self.0.push(*backend);
            }
        }
        Ok(())
    }

    /// Lets some go on.
    pub(super) fn release(&mut self, which: impl Fn(i64) -> bool) {
        self.0.retain(|backend| {
            let goes_on = which(*backend);
            if goes_on {
                // It may have ended.
                let _ = signal(*backend, Signal::CONT);
            }
            !goes_on
        });
    }

    /// Whether none is held back.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a backend is held back.
    pub(super) fn has(&self, backend: i64) -> bool {
        self.0.contains(&backend)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.release(|_| true);
    }
}

fn signal(backend: i64, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(backend).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("no process id"))?;
    Ok(kill_process(pid, signal)?)
}
