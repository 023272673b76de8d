pub(crate) const TESTS: &[crate::Test] = &[];
