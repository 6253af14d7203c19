//! Records of what was refused.

/// A request that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Bus (8 bits), device (5) and function (3).
    pub source: u16,
    /// The first byte of the page that was meant.
    pub address: u64,
    /// Why, as the unit says it.
    pub reason: u8,
    /// Was something to be written?
    pub is_write: bool,
}

impl Fault {
    /// In the second word of a record: it is in use. Written, it is free again.
    pub const IN_USE: u64 = 1 << 63;
    const READ: u64 = 1 << 62;

    /// What the words of a record say; `None` of one that is not in use.
    pub const fn decode(words: [u64; 2]) -> Option<Fault> {
        let [first, second] = words;
        if second & Self::IN_USE == 0 {
            return None;
        }
        Some(Fault {
            source: second as u16,
            address: first & !0xfff,
            reason: (second >> 32) as u8,
            is_write: second & Self::READ == 0,
        })
    }
}
