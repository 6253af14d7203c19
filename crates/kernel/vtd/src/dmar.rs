//! The firmware's table DMAR: which units there are.

use crate::PAGE;

/// A unit's structure.
const UNIT: u64 = 0;
/// In its flags: it has all functions that no other unit of the segment names.
const ALL_FUNCTIONS: u64 = 1;
/// Physical addresses have at most so many bits.
const ADDRESS_BITS: u32 = 52;

/// Physical address of the registers of the unit that all PCI functions of segment 0 go through. `entries`: the
/// bytes of the table behind its head, from byte 48 on. `None` if there is none, or more than one, so that it is not known
/// which functions go through which; or if the table is malformed.
pub fn unit(entries: &[u8]) -> Option<u64> {
    let (mut found, mut left) = (None, entries);
    while !left.is_empty() {
        let length = number(left, 2, 2)? as usize;
        if length < 4 || length > left.len() {
            return None;
        }
        let (entry, rest) = left.split_at(length);
        if number(entry, 0, 2)? == UNIT && number(entry, 6, 2)? == 0 {
            let base = number(entry, 8, 8)?;
            let all = number(entry, 4, 1)? & ALL_FUNCTIONS != 0;
            if found.is_some() || !all || !is_sound(base) {
                return None;
            }
            found = Some(base);
        }
        left = rest;
    }
    found
}

fn is_sound(base: u64) -> bool {
    base != 0 && base.is_multiple_of(PAGE) && base >> ADDRESS_BITS == 0
}

/// A little-endian number of `bytes` bytes at `at`, if they are there.
fn number(entry: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let bytes = entry.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}
