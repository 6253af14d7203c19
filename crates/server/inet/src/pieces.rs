//! Bytes of a stream that wait to be read, in the pieces in which they were sent: a large piece is queued as it is, without being copied;
//! small ones are gathered.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Up to so many bytes are added to the piece before, if that has been small, too.
const SMALL: usize = 2048;
/// Bytes of a piece that small ones are gathered in.
const GATHERED: usize = 8192;

/// Pieces for which there is room in a queue that is empty.
const KEPT: usize = 16;

/// Can bytes be gathered in a piece?
fn has_room(piece: &Vec<u8>, bytes: &[u8]) -> bool {
    piece.capacity().max(GATHERED) - piece.len() >= bytes.len()
}

/// The bytes.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// None of them is empty.
    all: VecDeque<Vec<u8>>,
    /// Bytes of the first that were read.
    read: usize,
    /// Bytes that were not.
    len: usize,
}

/// There is no memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl Pieces {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: Vec<u8>) -> Result<(), NoMemory> {
        let is_gathered = bytes.len() <= SMALL
            && (bytes.is_empty() || self.all.back().is_some_and(|last| has_room(last, &bytes)));
        if is_gathered {
            return self.gather(&bytes);
        }
        self.all.try_reserve(1).map_err(|_| NoMemory)?;
        self.len += bytes.len();
        self.all.push_back(bytes);
        Ok(())
    }

    /// Adds a copy of bytes.
    pub fn gather(&mut self, bytes: &[u8]) -> Result<(), NoMemory> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(last) = self.all.back_mut().filter(|last| has_room(last, bytes)) {
            // It grows by doubling, so each byte of it is moved once more at most.
            last.try_reserve(bytes.len()).map_err(|_| NoMemory)?;
            last.extend_from_slice(bytes);
        } else {
            self.all.try_reserve(1).map_err(|_| NoMemory)?;
            let mut piece = Vec::new();
            piece.try_reserve_exact(bytes.len()).map_err(|_| NoMemory)?;
            piece.extend_from_slice(bytes);
            self.all.push_back(piece);
        }
        self.len += bytes.len();
        Ok(())
    }

    /// The last byte.
    pub fn last(&self) -> Option<u8> {
        self.all.back().and_then(|piece| piece.last().copied())
    }

    /// Shows up to `most` bytes, without the first `passed`, part by part, and how many were before each. Answers how many.
    pub fn look(&self, (passed, most): (usize, usize), mut to: impl FnMut(usize, &[u8])) -> usize {
        let mut done = 0;
        let mut skip = self.read + passed;
        for piece in &self.all {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let part = &piece[skip..];
            let part = &part[..part.len().min(most - done)];
            if part.is_empty() {
                break;
            }
            to(done, part);
            done += part.len();
            skip = 0;
        }
        done
    }

    /// The first `count` bytes, of those that there are, were read.
    pub fn drop_first(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.len -= left;
        while left > 0 {
            let Some(first) = self.all.front() else { return };
            let rest = first.len() - self.read;
            if left < rest {
                self.read += left;
                self.shrink_first();
                return;
            }
            left -= rest;
            self.read = 0;
            self.all.pop_front();
        }
        if self.all.is_empty() && self.all.capacity() > KEPT {
            // Room that many pieces needed is not kept.
            self.all = VecDeque::new();
        }
    }
}

impl Pieces {
    /// What is left of a piece does not hold the memory of much more. That moves a byte at most once, and a few a second time.
    fn shrink_first(&mut self) {
        let Some(first) = self.all.front_mut() else { return };
        let rest = &first[self.read..];
        if rest.len() > first.capacity() / 4 {
            return;
        }
        let mut new = Vec::new();
        // Without memory it stays as it is.
        if new.try_reserve_exact(rest.len()).is_ok() {
            new.extend_from_slice(rest);
            (*first, self.read) = (new, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Gather(usize),
        Read(usize),
        Look(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let size = || prop_oneof![0usize..20, 0usize..3000, 0usize..40_000];
        let step = prop_oneof![
            size().prop_map(Step::Push),
            size().prop_map(Step::Gather),
            size().prop_map(Step::Read),
            size().prop_map(Step::Look),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn pieces_are_a_queue_of_bytes(steps in steps()) {
            let (mut pieces, mut model) = (Pieces::default(), VecDeque::new());
            let mut next = 0u8;
            for step in steps {
                let mut make = |len: usize| -> Vec<u8> {
                    (0..len).map(|_| { next = next.wrapping_mul(5).wrapping_add(3); next }).collect()
                };
                match step {
                    Step::Push(len) => {
                        let bytes = make(len);
                        model.extend(&bytes);
                        prop_assert_eq!(pieces.push(bytes), Ok(()));
                    }
                    Step::Gather(len) => {
                        let bytes = make(len);
                        model.extend(&bytes);
                        prop_assert_eq!(pieces.gather(&bytes), Ok(()));
                    }
                    Step::Read(most) | Step::Look(most) => {
                        let mut got = Vec::new();
                        let count = pieces.look((0, most), |before, part| {
                            assert_eq!(before, got.len());
                            got.extend_from_slice(part);
                        });
                        let expected: Vec<u8> = model.iter().copied().take(most).collect();
                        prop_assert!(got == expected && count == got.len());
                        if matches!(step, Step::Read(_)) {
                            pieces.drop_first(count);
                            model.drain(..count);
                        }
                    }
                }
                prop_assert_eq!(pieces.len(), model.len());
                // What small pieces take is bounded by what they hold.
                let taken: usize = pieces.all.iter().map(Vec::capacity).sum();
                let held = pieces.len();
                prop_assert!(taken <= 8 * held + 64, "{taken} for {held}");
                prop_assert!(pieces.all.len() <= 2 + 2 * held / SMALL);
            }
        }
    }
}
