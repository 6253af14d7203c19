//! Events that wait to be read.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Events that wait, at most; then one that says that others are lost.
pub const MOST: usize = 16384;
/// Bytes of an event without its name.
pub const HEAD: usize = 16;

/// An event as it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: Box<[u8]>,
}

impl Event {
    /// Of these parts; no name is an empty one.
    pub fn new(wd: i32, mask: u32, cookie: u32, name: &[u8]) -> Event {
        Event { wd, mask, cookie, name: name.into() }
    }

    /// Bytes of the name with what follows it.
    fn name_bytes(&self) -> usize {
        match self.name.len() {
            0 => 0,
            length => (length + 1).next_multiple_of(HEAD),
        }
    }

    fn bytes(&self) -> usize {
        HEAD + self.name_bytes()
    }

    /// What it costs whoever keeps it.
    fn memory(&self) -> usize {
        size_of::<Event>() + self.name.len()
    }

    fn put(&self, to: &mut Vec<u8>) {
        let words = [self.wd as u32, self.mask, self.cookie, self.name_bytes() as u32];
        words.iter().for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
        let end = to.len() + self.name_bytes();
        to.extend_from_slice(&self.name);
        to.resize(end, 0);
    }

    /// Says the same as the one before it, which then is enough.
    fn repeats(&self, before: &Event) -> bool {
        let is_alike = (self.wd, self.mask) == (before.wd, before.mask);
        is_alike && self.name == before.name && self.mask & crate::mask::IGNORED == 0
    }
}

/// There is no room for one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Small;

/// Events in the order in which they came.
#[derive(Default)]
pub struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    memory: usize,
    /// One of them says that others are lost.
    is_full: bool,
}

impl Queue {
    /// Bytes that there are to be read.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What all that costs.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Adds an event, or one that says that it is lost; answers what it costs. There is always room for that.
    pub fn add(&mut self, event: Event, room: usize) -> usize {
        let event = match self.events.len() >= MOST || event.memory() > room {
            true if self.is_full => return 0,
            true => {
                self.is_full = true;
                Event::new(-1, crate::mask::Q_OVERFLOW, 0, &[])
            }
            false if self.events.back().is_some_and(|last| event.repeats(last)) => return 0,
            false => event,
        };
        let cost = event.memory();
        self.bytes += event.bytes();
        self.memory += cost;
        self.events.push_back(event);
        cost
    }

    /// The first events, as many as fit, and what they have cost.
    ///
    /// # Errors
    ///
    /// Not even the first one fits.
    pub fn take(&mut self, most: usize) -> Result<(Vec<u8>, usize), Small> {
        let (mut to, mut cost) = (Vec::new(), 0);
        while let Some(event) = self.events.front() {
            if to.len() + event.bytes() > most {
                if to.is_empty() {
                    return Err(Small);
                }
                break;
            }
            event.put(&mut to);
            cost += event.memory();
            self.is_full &= event.wd != -1;
            self.events.pop_front();
        }
        self.bytes -= to.len();
        self.memory -= cost;
        Ok((to, cost))
    }
}
