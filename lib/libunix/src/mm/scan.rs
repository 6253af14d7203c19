//! `PAGEMAP_SCAN`: which pages of a range are of which kinds, as ranges.

use super::{leases, user, Mm};
use crate::errno::{Errno, Result};
use abi::layout::{PAGE, USER_END};
use alloc::vec;
use alloc::vec::Vec;
use userfault::Why;
use uvm::pagemap::{MAPPED, PRESENT, SHARED, SOFT_DIRTY, SWAPPED, ZEROS};

/// The number of the request.
pub const SCAN: u32 = 0xc060_6610;

/// `PAGE_IS_*`.
mod kind {
    pub const WRITTEN: u64 = 1 << 1;
    pub const FILE: u64 = 1 << 2;
    pub const PRESENT: u64 = 1 << 3;
    pub const SWAPPED: u64 = 1 << 4;
    pub const ZEROS: u64 = 1 << 5;
    pub const SOFT_DIRTY: u64 = 1 << 7;
    /// With those that no page is of here: `PAGE_IS_WPALLOWED`, `PAGE_IS_HUGE`, `PAGE_IS_GUARD`.
    pub const ALL: u64 = 0x1ff;
}

/// `struct pm_scan_arg`.
#[derive(Clone, Copy)]
struct Wanted {
    start: u64,
    end: u64,
    to: u64,
    room: u64,
    most: u64,
    inverted: u64,
    mask: u64,
    anyof: u64,
    told: u64,
}

const ARG_WORDS: usize = 12;
/// Which of its words says how far it has come.
const WALK_END: u64 = 4 * 8;
/// `struct page_region`, in words.
const REGION: usize = 3;
/// Pages that are looked at together.
const PIECE: u64 = 1024;
/// Ranges that are kept before they are told.
const KEPT: usize = 256;

impl Wanted {
    fn of(words: [u64; ARG_WORDS]) -> Result<Wanted> {
        const PROTECT: u64 = 1;
        const CHECK: u64 = 2;
        let [size, flags, start, end, _, to, room, most, inverted, mask, anyof, told] = words;
        let is_sane = size == 8 * ARG_WORDS as u64
            && flags & !(PROTECT | CHECK) == 0
            && (inverted | mask | anyof | told) & !kind::ALL == 0
            && start.is_multiple_of(PAGE);
        if !is_sane {
            return Err(Errno::EINVAL);
        }
        if end < start || end > USER_END {
            return Err(Errno::EFAULT);
        }
        if to == 0 && room > 0 || room > u64::from(u32::MAX) / (8 * REGION as u64) {
            return Err(Errno::EINVAL);
        }
        // No memory has its writes noted by who is not asked (UFFD_FEATURE_WP_ASYNC).
        if flags != 0 && start < end {
            return Err(Errno::EPERM);
        }
        let most = if most == 0 { u64::MAX } else { most };
        let end = end.next_multiple_of(PAGE);
        Ok(Wanted { start, end, to, room, most, inverted, mask, anyof, told })
    }

    fn wants(&self, kinds: u64) -> bool {
        let kinds = kinds ^ self.inverted;
        kinds & self.mask == self.mask && (self.anyof == 0 || kinds & self.anyof != 0)
    }
}

/// What was found, on its way to the program.
struct Found {
    to: u64,
    /// Ranges that were told, and those that are to be.
    told: u64,
    kept: Vec<[u64; REGION]>,
    pages: u64,
}

impl Found {
    /// One page more. `false`: there is no room, or these are enough.
    fn add(&mut self, mm: &mut Mm, wanted: &Wanted, page: u64, kinds: u64) -> Result<bool> {
        if self.pages == wanted.most {
            return Ok(false);
        }
        let (at, kinds) = (page * PAGE, kinds & wanted.told);
        if let Some(last) = self.kept.last_mut().filter(|last| last[1] == at && last[2] == kinds) {
            last[1] = at + PAGE;
        } else {
            if self.told + self.kept.len() as u64 == wanted.room {
                return Ok(false);
            }
            if self.kept.len() == KEPT {
                self.flush(mm)?;
            }
            self.kept.push([at, at + PAGE, kinds]);
        }
        self.pages += 1;
        Ok(true)
    }

    fn flush(&mut self, mm: &mut Mm) -> Result<()> {
        for region in self.kept.drain(..) {
            user::copy_out(mm, self.to + self.told * 8 * REGION as u64, &region)?;
            self.told += 1;
        }
        Ok(())
    }
}

/// The kinds of a page, by its word.
fn kinds(mm: &Mm, page: u64, word: u64) -> u64 {
    let bit = |of: u64, kind: u64| if word & of != 0 { kind } else { 0 };
    let hidden = mm.userfaults.hidden(page);
    let is_protected = hidden.is_some_and(|hidden| hidden.why == Why::Protected);
    bit(PRESENT, kind::PRESENT)
        | bit(SWAPPED, kind::SWAPPED)
        | bit(SHARED, kind::FILE)
        | bit(ZEROS, kind::ZEROS)
        | bit(SOFT_DIRTY, kind::SOFT_DIRTY)
        // What is not protected counts as written to, as on Linux.
        | if is_protected { 0 } else { kind::WRITTEN }
}

/// The request: answers how many ranges there are.
pub fn scan(mm: &mut Mm, arg: u64) -> Result<u64> {
    let words: [u64; ARG_WORDS] = user::copy_in(mm, arg)?;
    let wanted = Wanted::of(words)?;
    leases::end_all(mm);
    let kept = Vec::with_capacity(KEPT.min(wanted.room as usize));
    let mut found = Found { to: wanted.to, told: 0, kept, pages: 0 };
    let (mut page, end) = (wanted.start / PAGE, wanted.end / PAGE);
    let mut words = vec![0; PIECE.min(end - page) as usize];
    'all: while page < end {
        // Over what nobody has mapped.
        let next = mm.space.map().within(page, end).next().map(|entry| entry.start);
        let Some(next) = next else {
            page = end;
            break;
        };
        page = next;
        let count = (end - page).min(PIECE) as usize;
        let Mm { space, caps, .. } = mm;
        space.page_words(caps, page, &mut words[..count]);
        for &word in &words[..count] {
            let is_wanted = word & MAPPED != 0 && wanted.wants(kinds(mm, page, word));
            if is_wanted
                && wanted.to != 0
                && !found.add(mm, &wanted, page, kinds(mm, page, word))?
            {
                break 'all;
            }
            page += 1;
        }
    }
    found.flush(mm)?;
    user::copy_out(mm, arg + WALK_END, &(page * PAGE))?;
    Ok(found.told)
}
