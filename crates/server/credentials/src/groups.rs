//! Supplementary groups.

use alloc::rc::Rc;
use alloc::vec::Vec;

/// The groups that a process is in beside its own one: copies share the list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groups(Option<Rc<[u32]>>);

impl Groups {
    /// How many there may be.
    pub const MOST: usize = 65536;
    /// None.
    pub const NONE: Groups = Groups(None);

    /// These, in ascending order, as they are shown.
    pub fn new(mut ids: Vec<u32>) -> Groups {
        ids.sort_unstable();
        Groups((!ids.is_empty()).then(|| ids.into()))
    }
    /// All of them, in ascending order.
    pub fn ids(&self) -> &[u32] {
        self.0.as_deref().unwrap_or_default()
    }
    /// Is this one of them?
    #[inline]
    pub fn has(&self, id: u32) -> bool {
        self.0.as_ref().is_some_and(|ids| ids.binary_search(&id).is_ok())
    }
}
