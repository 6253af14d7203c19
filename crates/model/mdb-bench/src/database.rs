//! What all four data structures can do: the operations of G18 table 4.1.

use mdb::RawCap;

/// A place for a capability and its node; 64 bytes each.
pub trait Place: Default {
    /// Puts a capability into a place that is in no database.
    fn fill(&self, cap: RawCap);

    /// What is in it.
    fn cap(&self) -> RawCap;
}

/// A mapping database. The operations take slots, as a kernel has them after a lookup in the CSpace:
/// nobody has to search for a capability that the caller holds.
///
/// Slots that are said to be in the database are, and those to be inserted are not.
pub trait Database<'a>: Default {
    type Slot: Place + 'a;

    /// A heading of a table.
    const NAME: &'static str;

    /// Gets ready, while empty, for capabilities to so many bytes of memory.
    fn prepare(&mut self, _bytes: u64) {}

    /// Inserts many into an empty database, one after the other or so that nothing tells it apart.
    fn fill(&mut self, slots: &[&'a Self::Slot]) {
        slots.iter().for_each(|slot| self.insert(slot));
    }

    /// Inserts a capability of which nothing is known but its value.
    fn insert(&mut self, slot: &'a Self::Slot);

    /// What the slot holds then is not said.
    fn remove(&mut self, slot: &'a Self::Slot);

    /// The next one in the order.
    fn next(&self, slot: &'a Self::Slot) -> Option<&'a Self::Slot>;

    fn has_copies(&self, slot: &'a Self::Slot) -> bool;

    fn has_ancestors(&self, slot: &'a Self::Slot) -> bool;

    fn has_descendants(&self, slot: &'a Self::Slot) -> bool;

    /// A capability to memory in `[base, base + len)`, or around it.
    fn overlapping(&self, base: u64, len: u64) -> Option<&'a Self::Slot>;

    /// Whether its own invariants hold: order, balance, and what is noted of subtrees.
    fn is_sound(&self) -> bool;
}
