//! Capabilities that were sent to this core, for whoever knows the key.
//!
//! A *box* has a key. The client that has asked for the key owns the box until it has emptied it, and what
//! lies there goes with that client. In a box that nobody owns, a capability belongs to its sender, and
//! goes with the sender. So nothing lies here for anybody who is not there any more.

use alloc::collections::{BTreeMap, VecDeque};
use libos::interface::OwnedCap;
use libos::{domain, Place, Status};

/// Boxes, capabilities in them and on their way that there may be at a time.
const MOST: usize = 1024;

/// Who sent something: a core, and the number of the client there.
pub type Sender = (u32, u32);

/// A capability that waits.
struct Letter {
    cap: OwnedCap,
    from: Sender,
}

/// The capabilities of one key, and the client that owns them and is told of them by this bit.
#[derive(Default)]
struct Box {
    letters: VecDeque<Letter>,
    owner: Option<(u32, u64)>,
}

/// All that is here or announced.
#[derive(Default)]
pub struct Mail {
    boxes: BTreeMap<u64, Box>,
    /// Empty slots for what was announced, by the words of their places.
    announced: BTreeMap<u64, OwnedCap>,
}

impl Mail {
    /// Boxes, capabilities in them and on their way here.
    pub fn count(&self) -> usize {
        let letters: usize = self.boxes.values().map(|place| place.letters.len()).sum();
        self.boxes.len() + letters + self.announced.len()
    }

    /// `NoMemory`: there are too many.
    pub fn check_room(&self) -> Result<(), Status> {
        (self.count() < MOST).then_some(()).ok_or(Status::NoMemory)
    }

    /// A slot for a capability that will come: the word of its place.
    pub fn announce(&mut self) -> Result<u64, Status> {
        self.check_room()?;
        let slot = domain::with(|domain| domain.slot())?;
        let place = Place::own(slot).0;
        self.announced.insert(place, OwnedCap::own(slot));
        Ok(place)
    }

    /// It will not come.
    pub fn withdraw(&mut self, place: u64) {
        self.announced.remove(&place);
    }

    /// It has come. Who is to be told.
    pub fn arrived(&mut self, place: u64, key: u64, from: Sender) -> Option<(u32, u64)> {
        let cap = self.announced.remove(&place)?;
        self.put(key, cap, from)
    }

    /// A capability for whoever knows the key. Who is to be told.
    pub fn put(&mut self, key: u64, cap: OwnedCap, from: Sender) -> Option<(u32, u64)> {
        let place = self.boxes.entry(key).or_default();
        place.letters.push_back(Letter { cap, from });
        place.owner
    }

    /// A client wants to be told. Is there something already?
    pub fn expect(&mut self, key: u64, client: u32, bit: u64) -> Result<bool, Status> {
        self.check_room()?;
        let place = self.boxes.entry(key).or_default();
        place.owner = Some((client, bit));
        Ok(!place.letters.is_empty())
    }

    /// The next one for this key. `Again`: there is none yet.
    pub fn take(&mut self, key: u64) -> Result<OwnedCap, Status> {
        let place = self.boxes.get_mut(&key).ok_or(Status::Again)?;
        let letter = place.letters.pop_front().ok_or(Status::Again)?;
        if place.letters.is_empty() {
            self.boxes.remove(&key);
        }
        Ok(letter.cap)
    }

    /// A client of this core has gone, and with it what lies in its boxes.
    pub fn owner_gone(&mut self, client: u32) {
        self.boxes.retain(|_, place| place.owner.is_none_or(|(owner, _)| owner != client));
    }

    /// A client of some core has gone, and with it what it has sent and nobody owns.
    pub fn sender_gone(&mut self, sender: Sender) {
        self.boxes.retain(|_, place| {
            if place.owner.is_none() {
                place.letters.retain(|letter| letter.from != sender);
            }
            place.owner.is_some() || !place.letters.is_empty()
        });
    }
}
