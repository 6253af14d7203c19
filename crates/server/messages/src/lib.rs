//! Messages of a queue (System V), each of a kind, and which of them a receiver wants.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// What a message costs besides its bytes.
pub const OVERHEAD: usize = 64;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its kind, greater than 0.
    pub kind: i64,
    /// Its bytes.
    pub text: Box<[u8]>,
}

/// Which message is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The first one.
    Any,
    /// The first one of a kind.
    Kind(i64),
    /// The first one of another kind.
    Other(i64),
    /// The first one of the lowest kind, if that is at most this.
    UpTo(i64),
    /// The one at this place.
    Place(i64),
}

impl Wanted {
    /// As `msgrcv` says it: `kind`, whether others than those, or the place, are meant.
    pub fn of(kind: i64, except: bool, place: bool) -> Wanted {
        match kind {
            _ if place => Wanted::Place(kind),
            0 => Wanted::Any,
            ..0 => Wanted::UpTo(kind.checked_neg().unwrap_or(i64::MAX)),
            _ if except => Wanted::Other(kind),
            _ => Wanted::Kind(kind),
        }
    }
}

/// Messages in the order in which they came.
#[derive(Default)]
pub struct Queue {
    messages: VecDeque<Message>,
    bytes: usize,
}

impl Queue {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns `true` if there is none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What they cost whoever keeps them.
    pub fn memory(&self) -> usize {
        self.bytes + OVERHEAD * self.messages.len()
    }

    /// Is there room for so many bytes in a queue of `most`? Messages without bytes count as one each.
    pub fn has_room(&self, bytes: usize, most: usize) -> bool {
        self.bytes + bytes <= most && self.messages.len() < most
    }

    /// Adds one.
    pub fn add(&mut self, message: Message) {
        self.bytes += message.text.len();
        self.messages.push_back(message);
    }

    /// The place of what is wanted.
    pub fn find(&self, wanted: Wanted) -> Option<usize> {
        let by = |is: &dyn Fn(i64) -> bool| self.messages.iter().position(|one| is(one.kind));
        match wanted {
            Wanted::Any => by(&|_| true),
            Wanted::Kind(kind) => by(&|is| is == kind),
            Wanted::Other(kind) => by(&|is| is != kind),
            Wanted::UpTo(most) => {
                let lowest = self.messages.iter().map(|one| one.kind).min()?;
                by(&|is| is == lowest).filter(|_| lowest <= most)
            }
            Wanted::Place(at) => usize::try_from(at).ok().filter(|&at| at < self.messages.len()),
        }
    }

    /// The message at a place.
    pub fn get(&self, place: usize) -> Option<&Message> {
        self.messages.get(place)
    }

    /// Takes the message at a place out.
    pub fn take(&mut self, place: usize) -> Option<Message> {
        let taken = self.messages.remove(place)?;
        self.bytes -= taken.text.len();
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The receiver's rules, as the manual page says them, by sorting.
    fn naive(list: &[(i64, usize)], kind: i64, except: bool) -> Option<usize> {
        let mut order: Vec<usize> = (0..list.len()).collect();
        if kind < 0 {
            order.sort_by_key(|&at| list[at].0);
            order.retain(|&at| i128::from(list[at].0) <= -i128::from(kind));
        } else if kind > 0 {
            order.retain(|&at| (list[at].0 == kind) != except);
        }
        order.first().copied()
    }

    proptest! {
        #[test]
        fn as_the_manual_says(
            steps in proptest::collection::vec((1..5i64, -6..6i64, any::<bool>(), 0..3usize), 1..60)
        ) {
            let (mut queue, mut model) = (Queue::default(), Vec::new());
            for (kind, wanted, except, what) in steps {
                if what == 0 {
                    let found = queue.find(Wanted::of(wanted, except, false));
                    prop_assert_eq!(found, naive(&model, wanted, except));
                    if let Some(at) = found {
                        let taken = queue.take(at).unwrap();
                        prop_assert_eq!((taken.kind, taken.text.len()), model.remove(at));
                    }
                } else {
                    let text = vec![7; kind as usize * what].into();
                    queue.add(Message { kind, text });
                    model.push((kind, kind as usize * what));
                }
                let bytes: usize = model.iter().map(|one| one.1).sum();
                prop_assert_eq!((queue.len(), queue.bytes()), (model.len(), bytes));
                prop_assert_eq!(queue.has_room(3, 40), bytes + 3 <= 40 && model.len() < 40);
                let place = Wanted::of(wanted, false, true);
                let is_there = wanted >= 0 && (wanted as usize) < model.len();
                prop_assert_eq!(queue.find(place).is_some(), is_there);
            }
        }
    }

    #[test]
    fn the_lowest_kind_of_all() {
        let mut queue = Queue::default();
        queue.add(Message { kind: i64::MAX, text: [].into() });
        assert_eq!(queue.find(Wanted::of(i64::MIN, false, false)), Some(0));
        assert_eq!(queue.find(Wanted::of(-1, true, false)), None);
    }
}
