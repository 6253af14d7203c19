use crate::Test;
pub const TESTS: &[Test] = &[];
