//! Recording which objects a step reads and writes.

use crate::database::Footprint;

/// Collects the 64-bit names that a step touches. Off, it costs one branch a touch.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    on: bool,
    reads: Vec<u64>,
    writes: Vec<u64>,
}

impl Recorder {
    /// Starts with nothing recorded.
    pub fn begin(&mut self) {
        self.on = true;
        self.reads.clear();
        self.writes.clear();
    }

    /// Stops recording.
    pub fn off(&mut self) {
        self.on = false;
        self.reads.clear();
        self.writes.clear();
    }

    /// Whether names are being collected; lets a caller skip computing one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The step read the object called `name`.
    #[inline]
    pub fn read(&mut self, name: u64) {
        if self.on {
            self.reads.push(name);
        }
    }

    /// The step wrote the object called `name`.
    #[inline]
    pub fn write(&mut self, name: u64) {
        if self.on {
            self.writes.push(name);
        }
    }

    /// What was recorded so far, in canonical order.
    pub fn footprint(&self) -> Footprint {
        let mut writes = self.writes.clone();
        writes.sort_unstable();
        writes.dedup();
        let mut reads = self.reads.clone();
        reads.sort_unstable();
        reads.dedup();
        reads.retain(|name| writes.binary_search(name).is_err());
        Footprint { reads, writes }
    }
}
