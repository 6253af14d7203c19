//! A binary buddy allocator with a lock: lists of free blocks by size, linked through the frames' own entries.

use crate::Allocator;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Orders 0 to 10, as Linux has by default.
const ORDERS: usize = 11;
const NONE: u32 = u32::MAX;
/// Of a frame: it is not the first of a free block.
const USED: u8 = u8::MAX;

/// The allocator.
pub struct LockedBuddy(Mutex<Buddy>);

struct Buddy {
    /// The first block of each order.
    heads: [u32; ORDERS],
    /// Of a free block: its order and its neighbours in the list.
    orders: Vec<u8>,
    next: Vec<u32>,
    previous: Vec<u32>,
    free: usize,
}

impl Buddy {
    fn push(&mut self, frame: usize, order: usize) {
        let head = self.heads[order];
        (self.orders[frame], self.next[frame], self.previous[frame]) = (order as u8, head, NONE);
        if head != NONE {
            self.previous[head as usize] = frame as u32;
        }
        self.heads[order] = frame as u32;
    }

    fn remove(&mut self, frame: usize) {
        let (next, previous) = (self.next[frame], self.previous[frame]);
        match previous {
            NONE => self.heads[self.orders[frame] as usize] = next,
            previous => self.next[previous as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        self.orders[frame] = USED;
    }

    fn take(&mut self, order: usize) -> Option<usize> {
        let found = (order..ORDERS).find(|&order| self.heads[order] != NONE)?;
        let frame = self.heads[found] as usize;
        self.remove(frame);
        // The upper halves of what is too large are free.
        (order..found).rev().for_each(|half| self.push(frame + (1 << half), half));
        self.free -= 1 << order;
        Some(frame)
    }

    fn give(&mut self, frame: usize, order: usize) {
        self.free += 1 << order;
        let (mut frame, mut order) = (frame, order);
        while order + 1 < ORDERS {
            let buddy = frame ^ 1 << order;
            if self.orders.get(buddy) != Some(&(order as u8)) {
                break;
            }
            self.remove(buddy);
            frame &= buddy;
            order += 1;
        }
        self.push(frame, order);
    }
}

impl LockedBuddy {
    fn lock(&self) -> MutexGuard<'_, Buddy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allocator for LockedBuddy {
    fn new(frames: usize, _threads: usize) -> LockedBuddy {
        let mut buddy = Buddy {
            heads: [NONE; ORDERS],
            orders: vec![USED; frames],
            next: vec![NONE; frames],
            previous: vec![NONE; frames],
            free: 0,
        };
        let largest = 1 << (ORDERS - 1);
        let whole = frames / largest * largest;
        for first in (0..whole).step_by(largest).rev() {
            buddy.give(first, ORDERS - 1);
        }
        (whole..frames).for_each(|frame| buddy.give(frame, 0));
        LockedBuddy(Mutex::new(buddy))
    }
    fn take(&self, order: usize, _thread: usize) -> Option<usize> {
        self.lock().take(order)
    }
    fn give(&self, frame: usize, order: usize, _thread: usize) {
        self.lock().give(frame, order);
    }
    fn free(&self) -> usize {
        self.lock().free
    }
}
