//! What a run printed against what was expected.

/// Where two outputs part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line of the permutation's output, from 1.
    pub line: usize,
    /// What was expected there; `None`: nothing more.
    pub expected: Option<String>,
    /// What came; `None`: nothing more.
    pub got: Option<String>,
}

impl Difference {
    /// The first difference of two texts, if they differ.
    pub fn first(expected: &str, got: &str) -> Option<Difference> {
        if expected == got {
            return None;
        }
        let (mut a, mut b) = (expected.split('\n'), got.split('\n'));
        let mut line = 0;
        loop {
            line += 1;
            let (expected, got) = (a.next(), b.next());
            if expected != got || expected.is_none() {
                return Some(Difference {
                    line,
                    expected: expected.map(str::to_owned),
                    got: got.map(str::to_owned),
                });
            }
        }
    }
}

/// The output of each permutation in a whole output, and what stands before the first.
pub fn permutations_of(output: &str) -> (&str, Vec<&str>) {
    let start = "\nstarting permutation:";
    let mut starts: Vec<usize> = output.match_indices(start).map(|(at, _)| at).collect();
    let head = &output[..starts.first().copied().unwrap_or(output.len())];
    starts.push(output.len());
    let parts = starts.windows(2).map(|ends| &output[ends[0]..ends[1]]);
    (head, parts.collect())
}

/// The outputs of one file that count as right: the first, and its alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Whole outputs.
    pub outputs: Vec<String>,
}

impl Expected {
    /// The differences of the alternative that fits best: for each run, by its number from 1, `None`
    /// if it is equal. The permutations of one run are all compared with the same alternative.
    pub fn compare(&self, head: &str, runs: &[(usize, &str)]) -> Vec<Option<Difference>> {
        let against = |output: &String| -> Vec<Option<Difference>> {
            let (expected_head, parts) = permutations_of(output);
            let differs = Difference::first(expected_head, head);
            let compare = |(number, got): &(usize, &str)| {
                let expected = parts.get(number - 1).copied().unwrap_or("");
                differs.clone().or_else(|| Difference::first(expected, got))
            };
            runs.iter().map(compare).collect()
        };
        let count = |found: &Vec<Option<Difference>>| found.iter().filter(|d| d.is_some()).count();
        // The first of those with the fewest differences.
        let best = self.outputs.iter().map(against).min_by_key(count);
        best.unwrap_or_default()
    }
}
