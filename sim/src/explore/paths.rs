//! How many interleavings a graph of states stands for.

use rowlock_model::verdict::Interleavings;

use super::graph::Graph;

impl Graph {
    /// The exact number of paths from the initial state to states without edges.
    pub(crate) fn paths(&self) -> Interleavings {
        const NEW: u32 = 0;
        const OPEN: u32 = 1;
        const DONE: u32 = 2;
        let states = self.states();
        let mut marks = vec![NEW; states];
        let mut paths: Vec<Option<u128>> = vec![Some(0); states];
        let mut stack = vec![(0u32, false)];
        while let Some((state, done)) = stack.pop() {
            let at = state as usize;
            if done {
                let mut sum = Some(0u128);
                let mut none = true;
                for (to, _) in self.edges(state) {
                    none = false;
                    sum = sum
                        .zip(paths[to as usize])
                        .and_then(|(a, b)| a.checked_add(b));
                }
                paths[at] = if none { Some(1) } else { sum };
                marks[at] = DONE;
                continue;
            }
            if marks[at] != NEW {
                continue;
            }
            marks[at] = OPEN;
            stack.push((state, true));
            for (to, _) in self.edges(state) {
                match marks[to as usize] {
                    OPEN => return Interleavings::Endless,
                    NEW => stack.push((to, false)),
                    _ => {}
                }
            }
        }
        match paths.first().copied().flatten() {
            Some(count) => Interleavings::Exactly(count),
            None => Interleavings::Beyond,
        }
    }
}

#[cfg(test)]
mod tests {
    use rowlock_model::schedule::{Choice, ProcessId, RequestId};

    use super::*;
    use crate::explore::graph::Packed;

    fn graph(edges: &[(u32, u32)]) -> Graph {
        let mut graph = Graph::default();
        for (from, to) in edges {
            let choice = Choice::Step(ProcessId(*to as u8), RequestId(*to));
            graph.expand(*from, &[(*to, Packed::from(choice))]);
        }
        graph
    }

    #[test]
    fn paths_are_counted_exactly_or_endless() {
        let diamond = graph(&[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
        assert_eq!(diamond.paths(), Interleavings::Exactly(2));
        let cycle = graph(&[(0, 1), (1, 2), (2, 0)]);
        assert_eq!(cycle.paths(), Interleavings::Endless);
        // Sixty times two ways each; and a hundred and thirty times, which is more than fits.
        let chain = |n: u32| -> Vec<(u32, u32)> {
            let link = |at: u32| {
                let (here, next) = (3 * at, 3 * at + 3);
                [
                    (here, here + 1),
                    (here, here + 2),
                    (here + 1, next),
                    (here + 2, next),
                ]
            };
            (0..n).flat_map(link).collect()
        };
        assert_eq!(graph(&chain(60)).paths(), Interleavings::Exactly(1 << 60));
        assert_eq!(graph(&chain(130)).paths(), Interleavings::Beyond);
        assert_eq!(
            Interleavings::Exactly(6_360).to_string(),
            "6,360 interleavings"
        );
        assert_eq!(
            Interleavings::Exactly(880_123_456_789).to_string(),
            "8.8e11 interleavings"
        );
    }
}
