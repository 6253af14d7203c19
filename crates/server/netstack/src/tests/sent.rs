//! A wire that keeps what it is told: of the tests, and of the fuzzer.

use super::{complete, Unsummed, Wire, FRAME};
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
    /// It sums what it is told to, as a device does.
    pub sums: bool,
    /// Segments that it has summed.
    pub summed: usize,
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

    fn sums(&self) -> bool {
        self.sums
    }

    fn send_unsummed<R>(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> (R, Option<Unsummed>),
    ) -> R {
        let (result, unsummed) = self.send(bytes, fill);
        if let Some(unsummed) = unsummed {
            assert!(self.sums);
            self.summed += 1;
            if let Some(frame) = self.frames.back_mut().filter(|_| !self.is_full) {
                *frame = complete(frame, unsummed).expect("there is a place for it");
            }
        }
        result
    }
}
