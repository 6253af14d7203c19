//! Capabilities that come from other cores, for whoever of this core knows the key.

use alloc::collections::{BTreeMap, VecDeque};
use libos::interface::OwnedCap;
use libos::{domain, Cap, CapAddr, Place, Status};

/// Capabilities that may be on the way or lie here at a time.
const MOST: usize = 1024;

/// The capabilities of one key, and who wants to know of them.
#[derive(Default)]
struct Box {
    caps: VecDeque<OwnedCap>,
    bell: Option<(OwnedCap, u64)>,
}

/// All that is here or announced.
#[derive(Default)]
pub struct Mail {
    boxes: BTreeMap<u64, Box>,
    /// Empty slots for what was announced, by the words of their places.
    announced: BTreeMap<u64, CapAddr>,
}

impl Mail {
    /// A slot for a capability that will come: the word of its place.
    pub fn announce(&mut self) -> Result<u64, Status> {
        if self.announced.len() + self.boxes.len() >= MOST {
            return Err(Status::NoMemory);
        }
        let slot = domain::with(|domain| domain.slot())?;
        let place = Place::own(slot).0;
        self.announced.insert(place, slot);
        Ok(place)
    }

    /// It will not come.
    pub fn withdraw(&mut self, place: u64) {
        if let Some(slot) = self.announced.remove(&place) {
            let _ = domain::free_slot(slot);
        }
    }

    /// It has come, for whoever knows the key.
    pub fn arrived(&mut self, place: u64, key: u64) {
        if let Some(slot) = self.announced.remove(&place) {
            self.put(key, OwnedCap::own(slot));
        }
    }

    /// A capability for whoever knows the key.
    pub fn put(&mut self, key: u64, cap: OwnedCap) {
        let place = self.boxes.entry(key).or_default();
        place.caps.push_back(cap);
        if let Some((bell, bit)) = &place.bell {
            // Who waits may have gone.
            let _ = bell.cap().notify(*bit);
        }
    }

    /// Who knows the key wants to be told. `NoMemory`: too many do.
    pub fn expect(&mut self, key: u64, bell: OwnedCap, bit: u64) -> Result<(), Status> {
        if self.boxes.len() >= MOST {
            return Err(Status::NoMemory);
        }
        let place = self.boxes.entry(key).or_default();
        if !place.caps.is_empty() {
            let _ = bell.cap().notify(bit);
        }
        place.bell = Some((bell, bit));
        Ok(())
    }

    /// The next one for this key. `Again`: there is none yet, or the monitors work on it and it cannot
    /// be moved; then the bell rings at once.
    pub fn take(&mut self, key: u64) -> Result<OwnedCap, Status> {
        let place = self.boxes.get_mut(&key).ok_or(Status::Again)?;
        let mut cap = place.caps.pop_front().ok_or(Status::Again)?;
        if !cap.try_relocate() {
            place.caps.push_back(cap);
            if let Some((bell, bit)) = &place.bell {
                let _ = bell.cap().notify(*bit);
            }
            return Err(Status::Again);
        }
        if place.caps.is_empty() {
            self.boxes.remove(&key);
        }
        Ok(cap)
    }
}
