//! The texts of `/proc/self/maps` and `smaps`.

use crate::backend::{Backend, ObjectId};
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{NoMemory, Prot, PAGE, REGION_PAGES};
use crate::usage::Residency;
use alloc::string::String;
use core::fmt::Write;

/// What is shown of each entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// A line.
    Lines,
    /// A line, and how much of it is in memory: `smaps`.
    Each,
    /// How much is in memory of all of them: `smaps_rollup`.
    Sum,
}

/// How an object is shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectName {
    /// Device number, major and minor.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Path.
    pub path: String,
}

/// A range that is not in the map and is shown all the same.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Rights as they are shown.
    pub rights: &'static str,
    /// Name.
    pub name: &'static str,
}

/// The name of shared anonymous memory.
pub const SHARED_MEMORY: &str = "/dev/zero (deleted)";

/// Where the name starts in a line.
const NAME_COLUMN: usize = 73;

/// Appends `value` in base 16, with at least `digits` digits.
fn push_hex(text: &mut String, value: u64, digits: u32) {
    let needed = (64 - value.leading_zeros()).div_ceil(4).max(digits);
    for place in (0..needed).rev() {
        let digit = (value >> (4 * place) & 15) as u8;
        text.push((if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }) as char);
    }
}

/// Appends a line with its name.
fn push_line(
    text: &mut String,
    range: (u64, u64),
    rights: &str,
    offset: u64,
    object: &ObjectName,
    name: &str,
) {
    let start = text.len();
    push_hex(text, range.0, 8);
    text.push('-');
    push_hex(text, range.1, 8);
    text.push(' ');
    text.push_str(rights);
    text.push(' ');
    push_hex(text, offset, 8);
    text.push(' ');
    push_hex(text, object.device.0 as u64, 2);
    text.push(':');
    push_hex(text, object.device.1 as u64, 2);
    match object.inode {
        0 => text.push_str(" 0 "),
        // Writing to a string cannot fail.
        inode => drop(write!(text, " {inode} ")),
    }
    if !name.is_empty() {
        const SPACES: &str = match core::str::from_utf8(&[b' '; NAME_COLUMN]) {
            Ok(spaces) => spaces,
            Err(_) => "",
        };
        text.push_str(&SPACES[(text.len() - start).min(NAME_COLUMN)..]);
        text.push_str(name);
    }
    text.push('\n');
}

impl Space {
    /// The lines of `/proc/self/maps`, and then those of `more`, which are above everything mapped.
    ///
    /// Of a page that perhaps another process has, too, nobody knows how many have it: it counts half in
    /// `Pss`.
    ///
    /// # Errors
    ///
    /// There is no memory for so long a text.
    pub fn maps_text<B: Backend>(
        &self,
        b: &B,
        detail: Detail,
        mut name: impl FnMut(ObjectId) -> ObjectName,
        more: &[Span],
    ) -> Result<String, NoMemory> {
        const USUAL: usize = 100;
        const OF_AMOUNTS: usize = 800;
        let mut text = String::new();
        let lines = match detail {
            Detail::Sum => 1,
            _ => self.map.entries().count() + more.len(),
        };
        let each = if detail == Detail::Lines { USUAL } else { USUAL + OF_AMOUNTS };
        text.try_reserve(lines * each).map_err(|_| NoMemory)?;
        if detail == Detail::Sum {
            self.push_sum(&mut text, b, more);
            return Ok(text);
        }
        let nothing = ObjectName::default();
        let mut last = (None, ObjectName::default());
        let mut entries = self.map.entries().peekable();
        while let Some(first) = entries.next() {
            // For the program it is one mapping, whatever has become objects of its own.
            let (mut whole, mut amounts) = (*first, Amounts::default());
            let counts = detail == Detail::Each;
            if counts {
                amounts = self.amounts(b, first);
            }
            while let Some(next) = entries.next_if(|next| is_one(&whole, next)) {
                whole.end = next.end;
                if counts {
                    amounts = amounts.plus(&self.amounts(b, next));
                }
            }
            let entry = &whole;
            let object = entry.object.filter(|_| !entry.flags.has(Flags::OWN));
            if object.is_some() && object != last.0 {
                last = (object, object.map(&mut name).unwrap_or_default());
            }
            let (object, offset) = match object {
                Some(_) => (&last.1, entry.offset * PAGE),
                None => (&nothing, 0),
            };
            let is_large = entry.flags.has(Flags::LARGE_PAGES);
            let label = match object.path.as_str() {
                "" | SHARED_MEMORY if is_large => "/anon_hugepage (deleted)",
                "" => self.label(entry),
                path => path,
            };
            let bit = |prot, letter| if entry.prot.has(prot) { letter } else { b'-' };
            let rights = [
                bit(Prot::READ, b'r'),
                bit(Prot::WRITE, b'w'),
                bit(Prot::EXEC, b'x'),
                if entry.flags.has(Flags::SHARED) { b's' } else { b'p' },
            ];
            let rights = core::str::from_utf8(&rights).unwrap_or_default();
            let range = (entry.start * PAGE, entry.end * PAGE);
            push_line(&mut text, range, rights, offset, object, label);
            if detail == Detail::Each {
                push_size(&mut text, entry.pages(), entry.flags);
                push_amounts(&mut text, &amounts);
                push_flags(&mut text, entry);
            }
        }
        for span in more {
            let range = (span.start, span.end);
            push_line(&mut text, range, span.rights, 0, &nothing, span.name);
            if detail == Detail::Each {
                push_size(&mut text, (span.end - span.start) / PAGE, Flags(0));
                push_amounts(&mut text, &Amounts::default());
                text.push_str("THPeligible:    0\nVmFlags: rd mr de \n");
            }
        }
        Ok(text)
    }

    /// The text of `smaps_rollup`.
    fn push_sum(&self, text: &mut String, b: &impl Backend, more: &[Span]) {
        let mut sum = Amounts::default();
        for entry in self.map.entries() {
            sum = sum.plus(&self.amounts(b, entry));
        }
        let start = self.map.entries().next().map_or(0, |entry| entry.start * PAGE);
        let above = more.iter().map(|span| span.end);
        let end = above.chain(self.map.entries().map(|entry| entry.end * PAGE)).max().unwrap_or(0);
        push_line(text, (start, end), "---p", 0, &ObjectName::default(), "[rollup]");
        push_amounts(text, &sum);
    }

    /// What is in memory of an entry.
    fn amounts(&self, b: &impl Backend, entry: &Entry) -> Amounts {
        let resident = self.residency(b, entry);
        let is_shared = entry.flags.has(Flags::SHARED);
        if entry.flags.has(Flags::LARGE_PAGES) {
            // As on Linux these count apart, and not as resident.
            let all = resident.all();
            return match is_shared {
                true => Amounts { shared_apart: all, ..Amounts::default() },
                false => Amounts { private_apart: all, ..Amounts::default() },
            };
        }
        let is_memory = entry.object.is_some_and(|object| b.object_is_memory(object));
        let Residency { own, shared, objects, large, out } = resident;
        if entry.flags.has(Flags::OWN) {
            let locked = Self::locked(entry.flags, &resident);
            let private = objects;
            return Amounts { private, large_anons: large, locked, out, ..Amounts::default() };
        }
        let (clean, shared_memory) = if is_shared { (0, objects) } else { (objects, 0) };
        let (large_memory, large_file) = if is_memory { (large, 0) } else { (0, large) };
        Amounts {
            private: own,
            shared_anons: shared,
            clean,
            shared_memory,
            large_memory,
            large_file,
            locked: Self::locked(entry.flags, &resident),
            out,
            ..Amounts::default()
        }
    }

    fn label(&self, entry: &Entry) -> &'static str {
        let heap = (self.brk_start / PAGE, self.brk.div_ceil(PAGE));
        if entry.flags.has(Flags::STACK) {
            "[stack]"
        } else if entry.start < heap.1 && heap.0 < entry.end {
            "[heap]"
        } else {
            ""
        }
    }
}

/// Is private memory that goes on in another entry the same for the program, whatever it consists of?
fn is_one(entry: &Entry, next: &Entry) -> bool {
    let flags = |entry: &Entry| entry.flags.without(Flags::OWN);
    entry.is_private_anonymous()
        && next.is_private_anonymous()
        && entry.end == next.start
        && entry.prot == next.prot
        && flags(entry) == flags(next)
}

/// What `smaps` says of an entry, in pages.
#[derive(Clone, Copy, Default)]
struct Amounts {
    /// Nobody else has them: what is private, and has been written to.
    private: u64,
    /// Perhaps others have them.
    shared_anons: u64,
    /// Pages of files that are mapped privately, and not written to.
    clean: u64,
    /// Pages of shared memory.
    shared_memory: u64,
    /// Pages of memory and of files that pages of 2 MiB show.
    large_memory: u64,
    large_file: u64,
    /// The same of private memory.
    large_anons: u64,
    /// What was asked for in pages of 2 MiB.
    shared_apart: u64,
    private_apart: u64,
    locked: u64,
    /// What has left memory.
    out: u64,
}

impl Amounts {
    fn plus(&self, other: &Amounts) -> Amounts {
        Amounts {
            private: self.private + other.private,
            shared_anons: self.shared_anons + other.shared_anons,
            clean: self.clean + other.clean,
            shared_memory: self.shared_memory + other.shared_memory,
            large_memory: self.large_memory + other.large_memory,
            large_file: self.large_file + other.large_file,
            large_anons: self.large_anons + other.large_anons,
            shared_apart: self.shared_apart + other.shared_apart,
            private_apart: self.private_apart + other.private_apart,
            locked: self.locked + other.locked,
            out: self.out + other.out,
        }
    }
}

/// KiB of a page.
const PAGE_KIB: u64 = PAGE >> 10;

fn push_kib(text: &mut String, name: &str, kib: u64) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name:<15} {kib:>8} kB");
}

fn push_size(text: &mut String, pages: u64, flags: Flags) {
    let is_large = flags.has(Flags::LARGE_PAGES);
    // Private ones are so many small ones.
    let is_shown_so = is_large && flags.has(Flags::SHARED);
    let kib = |large: bool| if large { REGION_PAGES * PAGE_KIB } else { PAGE_KIB };
    push_kib(text, "Size:", pages * PAGE_KIB);
    push_kib(text, "KernelPageSize:", kib(is_large));
    push_kib(text, "MMUPageSize:", kib(is_shown_so));
}

fn push_amounts(text: &mut String, amounts: &Amounts) {
    let &Amounts { private, shared_anons, clean, shared_memory, large_memory, large_file, .. } =
        amounts;
    let &Amounts { shared_apart, private_apart, large_anons, locked, out, .. } = amounts;
    let anonymous = private + shared_anons;
    let resident = anonymous + clean + shared_memory;
    let written = anonymous + shared_memory;
    let half = |pages: u64| pages * PAGE_KIB / 2;
    for (name, kib) in [
        ("Rss:", resident * PAGE_KIB),
        ("Pss:", private * PAGE_KIB + half(resident - private)),
        ("Pss_Dirty:", private * PAGE_KIB + half(written - private)),
        ("Shared_Clean:", clean * PAGE_KIB),
        ("Shared_Dirty:", (shared_anons + shared_memory) * PAGE_KIB),
        ("Private_Clean:", 0),
        ("Private_Dirty:", private * PAGE_KIB),
        ("Referenced:", resident * PAGE_KIB),
        ("Anonymous:", anonymous * PAGE_KIB),
        ("LazyFree:", 0),
        ("AnonHugePages:", large_anons * PAGE_KIB),
        ("ShmemPmdMapped:", large_memory * PAGE_KIB),
        ("FilePmdMapped:", large_file * PAGE_KIB),
        ("Shared_Hugetlb:", shared_apart * PAGE_KIB),
        ("Private_Hugetlb:", private_apart * PAGE_KIB),
        ("Swap:", out * PAGE_KIB),
        ("SwapPss:", out * PAGE_KIB),
        ("Locked:", locked * PAGE_KIB),
    ] {
        push_kib(text, name, kib);
    }
}

/// The last two lines of an entry of `smaps`.
fn push_flags(text: &mut String, entry: &Entry) {
    let (prot, flags) = (entry.prot, entry.flags);
    let (is_shared, is_large) = (flags.has(Flags::SHARED), flags.has(Flags::LARGE_PAGES));
    let may_write = !flags.has(Flags::NEVER_WRITE);
    text.push_str("THPeligible:    0\nVmFlags: ");
    for (is_so, name) in [
        (prot.has(Prot::READ), "rd "),
        (prot.has(Prot::WRITE), "wr "),
        (prot.has(Prot::EXEC), "ex "),
        (is_shared, "sh "),
        (true, "mr "),
        (may_write, "mw "),
        (true, "me "),
        (is_shared, "ms "),
        (flags.has(Flags::GROWS_DOWN), "gd "),
        (flags.has(Flags::LOCKED), "lo "),
        (flags.has(Flags::DONT_FORK), "dc "),
        (is_large, "de "),
        (!is_shared && prot.has(Prot::WRITE) && !is_large, "ac "),
        (flags.has(Flags::NO_RESERVE), "nr "),
        (is_large, "ht "),
        (flags.has(Flags::WIPE_ON_FORK), "wf "),
        (flags.has(Flags::WANTS_LARGE), "hg "),
        (flags.has(Flags::WANTS_SMALL), "nh "),
    ] {
        if is_so {
            text.push_str(name);
        }
    }
    text.push('\n');
}
