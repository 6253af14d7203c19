//! What an invocation answers: zero for success, else one typed error.

macro_rules! status {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// The error of an invocation. A failed invocation changes nothing unless its
        /// documentation says otherwise.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Status { $($(#[$doc])* $name = $value,)* }

        impl Status {
            /// Every error, in order of its number.
            pub const ALL: &'static [Status] = &[$(Status::$name),*];

            /// What the table says of it, as the compiler keeps it: `doc = "text"`.
            pub const fn docs(self) -> &'static [&'static str] {
                match self { $(Status::$name => &[$(stringify!($doc)),*],)* }
            }

            /// The error for a non-zero status word; words of no known error read as `Invalid`.
            #[inline(always)]
            pub const fn from_word(word: u64) -> Result<(), Status> {
                if word == 0 {
                    Ok(())
                } else if word <= Self::ALL.len() as u64 {
                    Err(Self::ALL[word as usize - 1])
                } else {
                    Err(Status::Invalid)
                }
            }
        }
    };
}

status! {
    /// The label is none of the invoked type's, or an argument is malformed.
    Invalid = 1,
    /// The address names no slot: a CNode on the way is missing or the index is too large.
    NoSlot = 2,
    /// The source slot is empty.
    Empty = 3,
    /// The destination slot (or page-table entry) is in use.
    Occupied = 4,
    /// The capability is not of the type that the operation needs.
    WrongType = 5,
    /// The capability lacks a right.
    NoRights = 6,
    /// Offset, size or count is misaligned or outside the object.
    OutOfRange = 7,
    /// A descendant of the capability covers part of the range.
    HasDescendants = 8,
    /// A table of this level cannot hold what should be mapped in it.
    WrongLevel = 9,
    /// The dispatcher, endpoint or object is not in a state that allows this.
    WrongState = 10,
    /// Bounded work was done and more is left: invoke again with the same arguments.
    Again = 11,
    /// The other side of the endpoint is gone.
    PeerGone = 12,
    /// Not possible on this core alone: retry through the monitor.
    RetryThroughMonitor = 13,
    /// The service has no memory left to give.
    NoMemory = 14,
    /// The CPU or platform lacks what was asked for.
    Unsupported = 15,
    /// The caller was interrupted before the answer.
    Interrupted = 16,
    /// Others have it, too: with `WRITE_ALONE` it can be changed only while nobody else does.
    Shared = 17,
    /// The page is in a store.
    Out = 18,
}

// `from_word` relies on the numbers being consecutive.
const _: () = {
    let mut i = 0;
    while i < Status::ALL.len() {
        assert!(Status::ALL[i] as usize == i + 1);
        i += 1;
    }
};

impl Status {
    /// The word that crosses the system call.
    pub const fn to_word(self) -> u64 {
        self as u64
    }
}
