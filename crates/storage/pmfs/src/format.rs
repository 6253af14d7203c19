//! Making an empty file system.

use crate::area::Area;
use crate::fs::{clear_heads, Attr, Kind, What};
use crate::layout::{
    check, high_water, word, InodeHead, Line, EXTENT, HEAD, HIGH_WATER, MAGIC, ROOT, SUPER_CHECK,
    SUPER_MAGIC, SUPER_VERSION, UNFINISHED, VERSION, WORDS,
};
use crate::log;
use crate::mount::Refused;

/// How many lines there are.
pub(crate) fn capacity<A: Area>(area: &A) -> Line {
    (area.words() / WORDS).min(Line::MAX as u64 - 1) as Line
}

/// The check of the superblock.
pub(crate) fn super_check() -> u64 {
    check(&[MAGIC, VERSION]) as u64
}

/// Makes an empty file system whose root directory has these attributes, in an area whose first word is zero. If the power
/// fails meanwhile there is none, and it can be made again.
///
/// # Errors
/// [`Refused::InUse`]: there is one, or something else. [`Refused::TooSmall`].
pub fn format<A: Area>(area: &A, root: Attr) -> Result<(), Refused> {
    let capacity = capacity(area);
    if capacity <= ROOT {
        return Err(Refused::TooSmall);
    }
    if area.load(SUPER_MAGIC) != 0 {
        return Err(Refused::InUse);
    }
    crate::modify::write_inode(area, ROOT, What::Dir, &root, 0);
    let head = InodeHead { kind: Kind::Dir, mode: root.mode, length: 0, generation: 0 };
    area.store(word(ROOT, HEAD), head.word());
    area.write_back(ROOT as u64);
    let high = (ROOT + EXTENT).min(capacity);
    clear_heads(area, ROOT + 1..high);
    log::clear(area);
    area.store(HIGH_WATER, high_water(high));
    area.store(UNFINISHED, 0);
    area.write_back(HIGH_WATER / WORDS);
    area.fence();
    area.store(SUPER_VERSION, VERSION);
    area.store(SUPER_CHECK, super_check());
    area.store(SUPER_MAGIC, MAGIC);
    area.write_back(SUPER_MAGIC / WORDS);
    area.fence();
    Ok(())
}
