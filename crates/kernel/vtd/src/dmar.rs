//! The firmware's table DMAR: which units there are, and which functions go through them.

use crate::PAGE;

/// A unit's structure.
const UNIT: u64 = 0;
/// Bytes of it before its scopes.
const UNIT_BYTES: usize = 16;
/// In its flags: it has all functions that no other unit of the segment names.
const ALL_FUNCTIONS: u64 = 1;
/// Physical addresses have at most so many bits.
const ADDRESS_BITS: u32 = 52;
/// A scope that is one function, and its bytes if that is named by one step from its bus.
const FUNCTION: u64 = 1;
const FUNCTION_BYTES: usize = 8;

/// A set of functions of the first bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Functions([u64; 4]);

impl Functions {
    /// All of them.
    pub const ALL: Functions = Functions([u64::MAX; 4]);
    const NONE: Functions = Functions([0; 4]);

    /// Is a function (device and function number) in it?
    pub const fn has(&self, function: u8) -> bool {
        self.0[function as usize / 64] >> (function % 64) & 1 != 0
    }

    fn add(&mut self, function: u8) {
        self.0[usize::from(function) / 64] |= 1 << (function % 64);
    }
}

/// What the table says of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Physical address of its registers.
    pub base: u64,
    /// What goes through it.
    pub functions: Functions,
}

/// The unit of PCI segment 0. `entries`: the bytes of the table behind its head, from byte 48 on. `None` if there is
/// none, or more than one, or if the table is malformed.
pub fn unit(entries: &[u8]) -> Option<Unit> {
    let (mut found, mut left) = (None, entries);
    while !left.is_empty() {
        let length = number(left, 2, 2)? as usize;
        let (entry, rest) = cut(left, length, 4)?;
        if number(entry, 0, 2)? == UNIT && number(entry, 6, 2)? == 0 {
            let base = number(entry, 8, 8)?;
            let functions = match number(entry, 4, 1)? & ALL_FUNCTIONS {
                0 => scopes(entry.get(UNIT_BYTES..)?)?,
                _ => Functions::ALL,
            };
            if found.is_some() || !is_sound(base) {
                return None;
            }
            found = Some(Unit { base, functions });
        }
        left = rest;
    }
    found
}

/// The functions of the first bus that are named one by one. What is behind a bridge is on another bus.
fn scopes(mut left: &[u8]) -> Option<Functions> {
    let mut functions = Functions::NONE;
    while !left.is_empty() {
        let length = number(left, 1, 1)? as usize;
        let (scope, rest) = cut(left, length, 6)?;
        let is_function = number(scope, 0, 1)? == FUNCTION && scope.len() == FUNCTION_BYTES;
        if is_function && number(scope, 5, 1)? == 0 {
            let (device, function) = (number(scope, 6, 1)?, number(scope, 7, 1)?);
            if device >= 32 || function >= 8 {
                return None;
            }
            functions.add((device << 3 | function) as u8);
        }
        left = rest;
    }
    Some(functions)
}

/// A structure of `length` bytes, which are at least so many, and what follows it.
fn cut(bytes: &[u8], length: usize, least: usize) -> Option<(&[u8], &[u8])> {
    (length >= least).then(|| bytes.split_at_checked(length)).flatten()
}

fn is_sound(base: u64) -> bool {
    base != 0 && base.is_multiple_of(PAGE) && base >> ADDRESS_BITS == 0
}

/// A little-endian number of `bytes` bytes at `at`, if they are there.
fn number(entry: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let bytes = entry.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}
