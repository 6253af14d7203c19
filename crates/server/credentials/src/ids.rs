//! User or group ids.

/// The four ids of a kind that a process has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ids {
    /// Who it belongs to.
    pub real: u32,
    /// On whose behalf it acts.
    pub effective: u32,
    /// What it may go back to.
    pub saved: u32,
    /// On whose behalf it opens files: the effective one, unless it was set apart.
    pub file: u32,
}

impl Ids {
    /// All the same.
    pub const fn all(id: u32) -> Ids {
        Ids { real: id, effective: id, saved: id, file: id }
    }
    /// Real, effective and saved.
    pub const fn triple(&self) -> [u32; 3] {
        [self.real, self.effective, self.saved]
    }
    /// Is it one of these three?
    pub fn has(&self, id: u32) -> bool {
        self.triple().contains(&id)
    }
    /// Are all three this one?
    pub fn are(&self, id: u32) -> bool {
        self.triple() == [id; 3]
    }
}
