//! Scenario and schedule files, and the stage on which they are run.

pub mod stage;
