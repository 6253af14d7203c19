//! The text of `/proc/self/maps`.

use crate::backend::ObjectId;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{NoMemory, Prot, PAGE};
use alloc::string::String;
use core::fmt::Write;

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
    /// # Errors
    ///
    /// There is no memory for so long a text.
    pub fn maps_text(
        &self,
        mut name: impl FnMut(ObjectId) -> ObjectName,
        more: &[Span],
    ) -> Result<String, NoMemory> {
        const USUAL: usize = 100;
        let mut text = String::new();
        let lines = self.map.entries().count() + more.len();
        text.try_reserve(lines * USUAL).map_err(|_| NoMemory)?;
        let nothing = ObjectName::default();
        let mut last = (None, ObjectName::default());
        for entry in self.map.entries() {
            if entry.object.is_some() && entry.object != last.0 {
                last = (entry.object, entry.object.map(&mut name).unwrap_or_default());
            }
            let (object, offset) = match entry.object {
                Some(_) => (&last.1, entry.offset * PAGE),
                None => (&nothing, 0),
            };
            let label = match object.path.as_str() {
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
        }
        for span in more {
            let range = (span.start, span.end);
            push_line(&mut text, range, span.rights, 0, &nothing, span.name);
        }
        Ok(text)
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
