//! Random operations: undo restores everything, and the fingerprint is a function of the state.
