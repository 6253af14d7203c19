//! Loans: lend, recall, and copies between what was lent and the memory of a borrower.

use crate::errors::Check;
use crate::{Answer, Cap, Errors, Model, SlotKey, Words, PAGE};
use captypes::invocations::{Copied, Reply};
use captypes::{op, CapType, Place, RamAttrs, Rights, Status};

/// Most Frames that are lent at once, and most if entries lose the right to write.
const MOST_FRAMES: u32 = 128;
const MOST_FRAMES_LOWERED: u32 = 24;
/// Most Loans that begin in one Frame.
const MOST_LOANS: usize = 64;
/// Most entries that lose the right to write at once.
const MOST_LOWERED: u64 = 512;
/// Most bytes that one operation copies.
const MOST_COPIED: u64 = 256 << 10;
/// Attributes that are inherited: the node, and whether memory is persistent.
const INHERITED: u16 = RamAttrs::NODE | RamAttrs::PERSISTENT.0;

/// A copy between a run of Loans and memory of an executor.
#[derive(Clone, Copy)]
struct Transfer {
    offset: u64,
    va: u64,
    bytes: u64,
    /// To the executor?
    out: bool,
}

/// The pages of which a capability has something.
pub(crate) fn pages_of(cap: &Cap) -> (u64, u64) {
    (cap.base / PAGE * PAGE, cap.end().next_multiple_of(PAGE))
}

impl Model {
    /// Is any part of this memory lent?
    pub(crate) fn is_lent(&self, cap: &Cap) -> bool {
        let mut loans = self.slots.values().filter(|loan| loan.ty == CapType::Loan);
        cap.ty == CapType::Frame && loans.any(|loan| loan.overlaps(cap.base, cap.end()))
    }

    pub(crate) fn lend(&mut self, who: usize, target: Place, args: op::Lend) -> Answer {
        let mut check = Check::default();
        let frames = check.get(self.run(who, target, args.count));
        let own = self.run_to_change(&mut check, who, args.dst, args.count);
        let copies = match args.copies {
            Place::NULL => Some(Vec::new()),
            place => self.run_to_change(&mut check, who, place, args.count),
        };
        let taken = |slots: &Option<Vec<SlotKey>>| {
            slots.iter().flatten().any(|slot| self.slots.contains_key(slot))
        };
        check.demand(!taken(&own) && !taken(&copies), Status::Occupied);
        let both = copies.iter().flatten().any(|slot| own.iter().flatten().any(|own| own == slot));
        check.demand(!both, Status::OutOfRange);
        let known = [Rights::READ, Rights::READ.or(Rights::WRITE)].contains(&args.rights);
        check.demand(known, Status::Invalid);
        let loans = frames.and_then(|frames| self.loans_of(&mut check, &frames, &args));
        let lowered = loans.iter().flatten().map(|loan| self.entries_lowered(loan)).sum::<u64>();
        check.demand(!args.lower || lowered <= MOST_LOWERED, Status::OutOfRange);
        let ((loans, own), copies) = check.passed(loans.zip(own).zip(copies))?;
        self.loans += 1;
        for (n, (loan, slot)) in loans.into_iter().zip(own).enumerate() {
            let loan = Cap { badge: self.loans, ..loan };
            if args.lower {
                self.lower(&loan);
            }
            self.put(slot, loan);
            if let Some(&copy) = copies.get(n) {
                self.put(copy, Cap { rights: args.rights, ..loan });
            }
        }
        Ok(Words::masked(0, 0))
    }

    /// What would be lent of some Frames.
    fn loans_of(&self, check: &mut Check, frames: &[SlotKey], args: &op::Lend) -> Option<Vec<Cap>> {
        let most = if args.lower { MOST_FRAMES_LOWERED } else { MOST_FRAMES };
        check.demand(args.count <= most, Status::OutOfRange);
        let (mut before, mut loans) = (0, Vec::new());
        let end = args.offset.checked_add(args.bytes);
        check.demand(end.is_some() && args.bytes > 0 && !frames.is_empty(), Status::OutOfRange);
        let end = end?;
        for slot in frames {
            let frame = match self.slots.get(slot) {
                Some(frame) => *frame,
                None => {
                    check.demand(false, Status::Empty);
                    continue;
                }
            };
            check.demand(frame.ty == CapType::Frame, Status::WrongType);
            check.demand(frame.rights.has(args.rights), Status::NoRights);
            let (first, past) = (args.offset.max(before), end.min(before + frame.bytes));
            check.demand(self.loans_beginning_in(&frame) < MOST_LOANS, Status::OutOfRange);
            // Each has a part of it.
            check.demand(first < past, Status::OutOfRange);
            if first >= past {
                continue;
            }
            loans.push(Cap {
                ty: CapType::Loan,
                base: frame.base + first - before,
                bytes: past - first,
                rights: args.rights.or(Rights::REVOKE),
                attrs: RamAttrs(frame.attrs.0 & INHERITED),
                badge: 0,
                mapping: None,
            });
            before += frame.bytes;
        }
        check.demand(end <= before, Status::OutOfRange);
        (loans.len() == frames.len()).then_some(loans)
    }

    fn loans_beginning_in(&self, frame: &Cap) -> usize {
        let begins = |cap: &&Cap| cap.ty == CapType::Loan && frame.covers(cap.base, cap.base + 1);
        let mut all: Vec<(u64, u64, u32)> = Vec::new();
        for loan in self.slots.values().filter(begins) {
            let own = (loan.base, loan.bytes, loan.badge);
            if !all.contains(&own) {
                all.push(own);
            }
        }
        all.len()
    }

    /// Entries that a Loan would lower, and everything else that is in the way.
    fn entries_lowered(&self, loan: &Cap) -> u64 {
        let (base, end) = pages_of(loan);
        let mut seen: Vec<&Cap> = Vec::new();
        for cap in self.slots.values().filter(|cap| cap.overlaps(base, end)) {
            let leaf = cap.mapping.is_some() || cap.ty == CapType::Loan;
            if leaf && !seen.iter().any(|other| other.is_copy_of(cap)) {
                seen.push(cap);
            }
        }
        let entries = |cap: &Cap| match cap.mapping {
            Some(mapping) if !mapping.is_table => {
                let page = crate::page_bytes(mapping.level);
                let first = base.saturating_sub(cap.base) / page;
                (end - cap.base).div_ceil(page).min(u64::from(mapping.count)) - first
            }
            _ => 1,
        };
        seen.into_iter().map(entries).sum()
    }

    /// Nobody can write to the pages of a Loan through the entries that there are.
    fn lower(&mut self, loan: &Cap) {
        let (base, end) = pages_of(loan);
        for entry in self.entries.values_mut() {
            let shows = !entry.zero && entry.address < end && base < entry.address + entry.page;
            if shows && !entry.opaque {
                entry.write = false;
            }
        }
    }

    pub(crate) fn recall(&mut self, who: usize, target: Place, args: op::Recall) -> Answer {
        let mut check = Check::default();
        let slots = self.run_to_change(&mut check, who, target, args.count);
        for cap in slots.iter().flatten().filter_map(|slot| self.slots.get(slot)) {
            check.demand(cap.ty == CapType::Loan, Status::WrongType);
            let may = cap.ty != CapType::Loan || cap.rights.has(Rights::REVOKE);
            check.demand(may, Status::NoRights);
        }
        let mut count = 0;
        for slot in check.passed(slots)? {
            let Some(&cap) = self.slots.get(&slot) else { continue };
            let copies = self.slots.iter().filter(|(_, other)| other.is_copy_of(&cap));
            let copies: Vec<SlotKey> = copies.map(|(&key, _)| key).collect();
            copies.into_iter().for_each(|key| self.delete_slot(key));
            count += 1;
        }
        Ok(Words::one(count))
    }

    /// The first Loan of a run, to be used with a right.
    fn lent(&self, who: usize, place: Place, right: Rights) -> Result<SlotKey, Errors> {
        let slot = self.used(who, place).map_err(Errors::one)?;
        let cap = &self.slots[&slot];
        let mut check = Check::default();
        check.demand(cap.ty == CapType::Loan, Status::WrongType);
        check.demand(cap.rights.has(right), Status::NoRights);
        check.passed(Some(slot))
    }

    pub(crate) fn copy_out(&mut self, who: usize, target: Place, args: op::CopyOut) -> Answer {
        let first = self.lent(who, target, Rights::READ)?;
        let op::CopyOut { offset, to, bytes } = args;
        Ok(self.transfer(who, first, Transfer { offset, va: to, bytes, out: true }))
    }

    pub(crate) fn copy_in(&mut self, who: usize, target: Place, args: op::CopyIn) -> Answer {
        let first = self.lent(who, target, Rights::WRITE)?;
        let op::CopyIn { offset, from, bytes } = args;
        Ok(self.transfer(who, first, Transfer { offset, va: from, bytes, out: false }))
    }

    /// The address of a byte of the run that begins in a slot.
    fn byte_of_run(&self, (node, index): SlotKey, right: Rights, mut offset: u64) -> Option<u64> {
        let first = self.slots[&(node, index)];
        for index in index.. {
            let loan = self.slots.get(&(node, index))?;
            let same = loan.ty == CapType::Loan && loan.badge == first.badge;
            if !same || !loan.rights.has(right) {
                return None;
            }
            if offset < loan.bytes {
                return Some(loan.base + offset);
            }
            offset -= loan.bytes;
        }
        None
    }

    /// Piece by piece, of which each is in one page on both sides, and in one Loan.
    fn transfer(&mut self, who: usize, first: SlotKey, transfer: Transfer) -> Words {
        let root = self.executors[who].vspace;
        let right = if transfer.out { Rights::READ } else { Rights::WRITE };
        let (mut done, mut short) = (0, 0);
        while done < transfer.bytes.min(MOST_COPIED) {
            let at = transfer.offset.checked_add(done);
            let lent = at.and_then(|at| self.byte_of_run(first, right, at));
            let Some(lent) = lent else {
                short = 1;
                break;
            };
            let va = transfer.va.wrapping_add(done);
            let found = if va >> 47 == 0 { self.translate(root, va) } else { None };
            let Some(found) = found.filter(|found| found.write || !transfer.out) else {
                short = 2;
                break;
            };
            self.mark(root, va, transfer.out);
            let mut bytes = 1;
            let left = transfer.bytes.min(MOST_COPIED) - done;
            while bytes < left
                && !(lent + bytes).is_multiple_of(PAGE)
                && !(va + bytes).is_multiple_of(PAGE)
                && self.byte_of_run(first, right, transfer.offset + done + bytes)
                    == Some(lent + bytes)
            {
                bytes += 1;
            }
            let (from, to) =
                if transfer.out { (lent, found.address) } else { (found.address, lent) };
            self.copied((from, found.zero && !transfer.out), to, bytes);
            done += bytes;
        }
        let copied = Copied { bytes: done, short };
        Words { value: copied.encode(), mask: [u64::MAX; 6], or: Errors::NONE }
    }

    /// Bytes of one page were copied to another: what is known of the first word there.
    fn copied(&mut self, (from, zeros): (u64, bool), to: u64, bytes: u64) {
        let page = to / PAGE * PAGE;
        if to - page >= 8 {
            return;
        }
        let whole = to == page && bytes >= 8;
        let known = if !whole || !(zeros || from.is_multiple_of(PAGE)) {
            Some(None)
        } else if zeros {
            None
        } else if self.is_memory(from) {
            self.contents.get(&from).copied()
        } else {
            self.contents.get(&from).copied().or(Some(None))
        };
        match known {
            Some(word) => self.contents.insert(page, word),
            None => self.contents.remove(&page),
        };
    }

    /// Can it be said what comes of a copy between a run and these addresses? Nothing is known of what the executor
    /// lives on, nor of devices.
    pub(crate) fn knows_memory(&self, who: usize, va: u64, bytes: u64, out: bool) -> bool {
        const OWN: u64 = 4 << 39;
        let root = self.executors[who].vspace;
        if va >> 47 != 0 {
            return true;
        }
        let end = va.saturating_add(bytes.min(MOST_COPIED));
        let mut pages = (va / PAGE..end.div_ceil(PAGE)).map(|page| page * PAGE);
        va >= OWN
            && pages.all(|va| match self.translate(root, va) {
                Some(found) if found.zero => true,
                Some(found) if out && !found.write => true,
                Some(found) => {
                    let page = found.address / PAGE * PAGE;
                    self.is_memory(page) || !out && self.is_table(page)
                }
                None => true,
            })
    }
}
