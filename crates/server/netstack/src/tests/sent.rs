//! A wire that keeps what it is told: of the tests, and of the fuzzer.

use super::{Wire, FRAME};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// See the module.
#[derive(Default)]
pub struct Sent {
    /// Frames, the oldest first.
    pub frames: VecDeque<Vec<u8>>,
    /// There is no room: what is sent is lost.
    pub is_full: bool,
}

impl Wire for Sent {
    fn has_room(&mut self) -> bool {
        !self.is_full
    }

    fn send<R>(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(bytes <= FRAME);
        let mut frame = vec![0; bytes];
        let result = fill(&mut frame);
        if !self.is_full {
            self.frames.push_back(frame);
        }
        result
    }
}
