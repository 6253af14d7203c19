//! Deliberate bugs, so that a test can show that the model check sees them. In a build without tests
//! there are none, and asking costs nothing.

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mutation {
    /// A core that has deleted its copies does not say so.
    DropAcknowledgement,
    /// The home lets every operation begin at once.
    SkipLock,
    /// The home does not note which core a copy went to.
    ForgetForeignCopy,
    /// The home forgets ancestors of the same region when a capability has no copies any more.
    ForgetAncestors,
    /// Memory is given back without asking who else covers it.
    ReclaimUnasked,
    /// Memory is given back twice.
    ReclaimTwice,
    /// The old owner does not learn that it is none any more.
    KeepOwnership,
    /// The new owner is not told.
    DeleteWithoutHeir,
    /// Nobody tries again when a lock is gone.
    NoWake,
    /// A Retype asks no other core.
    CheckLocally,
    /// One core that has something made of it does not count.
    LastAnswerWins,
    /// A capability stays locked on the core that coordinated.
    StayLocked,
    /// What the slot holds is not looked at again after waiting.
    TrustOldSlot,
    /// Only one of the other cores deletes its copies.
    SweepOne,
    /// Copies go from one core after the other, and nobody locks them before.
    SkipMark,
    /// The sender of a copy sets no hints.
    SendUnmarked,
    /// The home is not told when an operation is given up.
    KeepRegion,
    /// What a core with a copy covers counts, though it may not have the copy any more.
    StaleCover,
    /// The rest of a region is not looked at behind the first part that is covered.
    StopAtCover,
    /// The home does not ask who has made objects of itself.
    ForgetMakers,
    /// Who destroys an object does not look whether its pool has opened it since it was asked. (A bug of a CPU driver.)
    #[cfg(test)]
    DestroyOpened,
}

impl Mutation {
    /// Does it take an object to see it?
    #[cfg(test)]
    pub fn is_of_objects(self) -> bool {
        matches!(self, Mutation::ForgetMakers | Mutation::DestroyOpened)
    }

    /// All of them.
    #[cfg(test)]
    pub const ALL: &'static [Mutation] = &[
        Mutation::DropAcknowledgement,
        Mutation::SkipLock,
        Mutation::ForgetForeignCopy,
        Mutation::ForgetAncestors,
        Mutation::ReclaimUnasked,
        Mutation::ReclaimTwice,
        Mutation::KeepOwnership,
        Mutation::DeleteWithoutHeir,
        Mutation::NoWake,
        Mutation::CheckLocally,
        Mutation::LastAnswerWins,
        Mutation::StayLocked,
        Mutation::TrustOldSlot,
        Mutation::SweepOne,
        Mutation::SkipMark,
        Mutation::SendUnmarked,
        Mutation::KeepRegion,
        Mutation::StaleCover,
        Mutation::StopAtCover,
        Mutation::ForgetMakers,
        Mutation::DestroyOpened,
    ];
}

/// Which bug there is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Bug {
    #[cfg(test)]
    pub mutation: Option<Mutation>,
}

impl Bug {
    /// Is it this one?
    #[inline(always)]
    pub fn is(self, mutation: Mutation) -> bool {
        #[cfg(test)]
        return self.mutation == Some(mutation);
        #[cfg(not(test))]
        {
            // Used in tests only.
            let _ = mutation;
            false
        }
    }
}
