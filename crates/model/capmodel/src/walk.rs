//! What the processor does with an address: the walk over four levels, and faults.

use crate::{page_bytes, Entry, Model, PAGE};
use captypes::CapType;

/// How an address is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Access {
    /// Reads eight bytes.
    Read = 0,
    /// Writes eight bytes.
    Write = 1,
    /// Calls what is there.
    Execute = 2,
}

/// What comes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It is done. What a read finds, and the bits of that which the rules determine.
    Done {
        /// The word.
        value: u64,
        /// The bits that count.
        mask: u64,
    },
    /// The processor raises a page fault with this error code.
    Fault {
        /// Bit 0: something is mapped there; bit 1: write; bit 2: user mode; bit 4: fetch.
        error: u64,
    },
}

/// Bits of an entry that the kernel has for itself.
const IGNORED_BY_PROCESSOR: u64 = 0b111 << 9 | 0x7ff << 52;

const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const USER: u64 = 4;
const FETCH: u64 = 16;

/// Where an address leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Translation {
    /// Physical address.
    pub address: u64,
    /// Bytes of the page.
    pub page: u64,
    /// Allowed at every level.
    pub write: bool,
    /// Allowed at every level.
    pub execute: bool,
    /// It is the kernel's page of zeros.
    pub zero: bool,
}

/// Which entry of a table of `level` an address selects.
pub(crate) fn index(level: u8, va: u64) -> u32 {
    (va / page_bytes(level) % 512) as u32
}

impl Model {
    /// The walk: present only if every level is, with the rights that all levels allow.
    pub(crate) fn translate(&self, root: u64, va: u64) -> Option<Translation> {
        let (mut table, mut write, mut execute) = (root, true, true);
        for level in (1..=4).rev() {
            let entry = self.entries.get(&(table, index(level, va)))?;
            write &= entry.write;
            execute &= entry.execute;
            if entry.page != 0 {
                let address = entry.address + va % entry.page;
                let (page, zero) = (entry.page, entry.zero);
                return Some(Translation { address, page, write, execute, zero });
            }
            table = entry.address;
        }
        None
    }

    /// The processor notes in the entries of every level that they were used.
    pub(crate) fn mark(&mut self, root: u64, va: u64, write: bool) {
        let mut table = root;
        for level in (1..=4).rev() {
            let Some(entry) = self.entries.get_mut(&(table, index(level, va))) else { return };
            entry.accessed = true;
            if entry.page != 0 {
                entry.dirty |= write;
                return;
            }
            table = entry.address;
        }
    }

    /// Is this the address of a page table?
    pub(crate) fn is_table(&self, page: u64) -> bool {
        self.slots.values().any(|cap| cap.base == page && cap.level().is_some())
    }

    /// Does the entry show a table as a page?
    pub(crate) fn shows_table(&self, entry: &Entry) -> bool {
        entry.page == PAGE && self.is_table(entry.address)
    }

    /// What is at a physical address: the first word of a page, or an entry of a table.
    fn word_at(&self, address: u64) -> (u64, u64) {
        let page = address - address % PAGE;
        if self.is_table(page) {
            let (word, mask) = self.entry_word(page, (address % PAGE / 8) as u32);
            return (word, mask & !IGNORED_BY_PROCESSOR);
        }
        let unknown = self.contents.get(&page).copied();
        match unknown {
            _ if address != page => (0, 0),
            Some(Some(word)) => (word, u64::MAX),
            Some(None) => (0, 0),
            None if self.is_memory(page) => (0, u64::MAX),
            None => (0, 0),
        }
    }

    /// Is it zeroed memory, rather than something that was there before?
    pub(crate) fn is_memory(&self, page: u64) -> bool {
        let frames = self.slots.values().filter(|cap| cap.covers(page, page + PAGE));
        frames.into_iter().any(|cap| cap.ty == CapType::Frame)
    }

    /// Executor `who` uses an address of its address space. A write writes `value`.
    pub fn touch(&mut self, who: usize, va: u64, access: Access, value: u64) -> Seen {
        let root = self.executors[who].vspace;
        let found = self.translate(root, va);
        let cause = match access {
            Access::Read => 0,
            Access::Write => WRITE,
            Access::Execute => FETCH,
        };
        let Some(found) = found else { return Seen::Fault { error: USER | cause } };
        let allowed = match access {
            Access::Read => true,
            Access::Write => found.write,
            Access::Execute => found.execute,
        };
        if !allowed {
            return Seen::Fault { error: USER | cause | PRESENT };
        }
        self.mark(root, va, access == Access::Write);
        match access {
            Access::Read if found.zero => Seen::Done { value: 0, mask: u64::MAX },
            Access::Read => {
                let (value, mask) = self.word_at(found.address);
                Seen::Done { value, mask }
            }
            Access::Write => {
                if found.address % PAGE == 0 {
                    self.contents.insert(found.address, Some(value));
                }
                Seen::Done { value: 0, mask: 0 }
            }
            Access::Execute => Seen::Done { value: 0, mask: 0 },
        }
    }

    /// The physical address to which an address of an executor leads.
    pub fn address_of(&self, who: usize, va: u64) -> Option<u64> {
        self.translate(self.executors[who].vspace, va).map(|found| found.address)
    }

    /// Can this access be tried, whatever the kernel has done? Code must be a return, and what is not
    /// ours must not be written. Nor is code executed in a large page but at its beginning: QEMU (at
    /// least up to 7.2) keeps what it has translated there when such a page is forgotten, unlike a
    /// processor.
    pub fn is_harmless(&self, who: usize, va: u64, access: Access) -> bool {
        const RETURN: u64 = 0xc3;
        let Some(found) = self.translate(self.executors[who].vspace, va) else { return true };
        match access {
            Access::Read => true,
            Access::Write => !found.write || self.is_memory(found.address - found.address % PAGE),
            Access::Execute if !found.execute => true,
            Access::Execute => {
                va % found.page < PAGE && self.word_at(found.address).0 & 0xff == RETURN
            }
        }
    }
}
