//! Nodes as ordered lists of runs: memory in proportion to the number of mappings.
//!
//! The list of a node is contiguous, so that an entry is found by bisection.

use crate::{OutOfMemory, Run, Runs, Shadow, Values, ENTRIES};
use alloc::vec::Vec;

/// The shadow whose nodes are ordered lists.
#[derive(Clone, Copy, Debug)]
pub struct Lists;

impl Shadow for Lists {
    type Runs<T: Copy> = ListRuns<T>;
    type Values<T: Copy + PartialEq> = ListValues<T>;
}

/// Runs in the order of their entries.
#[derive(Clone, Debug)]
pub struct ListRuns<T>(Vec<Run<T>>);

impl<T> ListRuns<T> {
    /// Place in the list of the run that covers `at`, or of the first one behind.
    fn position(&self, at: u32) -> usize {
        self.0.partition_point(|run| run.end() <= at)
    }
}

impl<T: Copy> Runs<T> for ListRuns<T> {
    fn new() -> Self {
        ListRuns(Vec::new())
    }

    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        Ok(self.0.try_reserve(more)?)
    }

    fn insert(&mut self, run: Run<T>) {
        let position = self.position(run.first);
        debug_assert!(self.0.get(position).is_none_or(|next| run.end() <= next.first));
        self.0.insert(position, run);
    }

    fn remove(&mut self, first: u32) {
        let position = self.position(first);
        if self.0.get(position).is_some_and(|run| run.first == first) {
            self.0.remove(position);
        }
    }

    fn get(&self, at: u32) -> Option<Run<T>> {
        self.next(at).filter(|run| run.first <= at)
    }

    fn next(&self, at: u32) -> Option<Run<T>> {
        self.0.get(self.position(at)).copied()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Run<T>>()
    }
}

/// Runs of equal values.
#[derive(Clone, Debug)]
pub struct ListValues<T>(ListRuns<T>);

impl<T: Copy + PartialEq> Values<T> for ListValues<T> {
    fn new() -> Self {
        ListValues(ListRuns::new())
    }

    fn reserve(&mut self, _: T) -> Result<(), OutOfMemory> {
        // The run itself, and what is left behind it of one that it cuts.
        self.0.reserve(2)
    }

    fn set(&mut self, mut first: u32, mut end: u32, value: T) {
        while let Some(run) = self.0.next(first).filter(|run| run.first < end) {
            self.0.remove(run.first);
            if run.value == value {
                (first, end) = (first.min(run.first), end.max(run.end()));
                continue;
            }
            if run.first < first {
                self.0.insert(Run { count: first - run.first, ..run });
            }
            if run.end() > end {
                self.0.insert(Run { first: end, count: run.end() - end, ..run });
            }
        }
        self.0.insert(Run { first, count: end - first, value });
        self.join(first);
        self.join(end);
    }

    fn clear(&mut self, first: u32, end: u32) {
        if self.0.reserve(1).is_err() {
            // They stay, which costs memory and nothing else.
            return;
        }
        while let Some(run) = self.0.next(first).filter(|run| run.first < end) {
            self.0.remove(run.first);
            if run.first < first {
                self.0.insert(Run { count: first - run.first, ..run });
            }
            if run.end() > end {
                self.0.insert(Run { first: end, count: run.end() - end, ..run });
            }
        }
    }

    fn get(&self, at: u32) -> Option<T> {
        self.0.get(at).map(|run| run.value)
    }

    fn same_until(&self, at: u32) -> u32 {
        self.0.get(at).map_or(at + 1, |run| run.end()).min(ENTRIES)
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl<T: Copy + PartialEq> ListValues<T> {
    /// Makes one run of the two that meet at `at`, if they have the same value.
    fn join(&mut self, at: u32) {
        if at == 0 || at >= ENTRIES {
            return;
        }
        let (Some(left), Some(right)) = (self.0.get(at - 1), self.0.get(at)) else { return };
        if left.first != right.first && left.value == right.value {
            self.0.remove(left.first);
            self.0.remove(right.first);
            self.0.insert(Run { count: left.count + right.count, ..left });
        }
    }
}
