//! The text of `/proc/self/maps`.

use crate::backend::ObjectId;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::PAGE;
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

impl Space {
    /// The lines of `/proc/self/maps`.
    pub fn maps_text(&self, mut name: impl FnMut(ObjectId) -> ObjectName) -> String {
        let mut text = String::new();
        for entry in self.map.entries() {
            let object = entry.object.map(&mut name).unwrap_or_default();
            let line_start = text.len();
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{:08x}-{:08x} {}{} {:08x} {:02x}:{:02x} {} ",
                entry.start * PAGE,
                entry.end * PAGE,
                entry.prot,
                if entry.flags.has(Flags::SHARED) { 's' } else { 'p' },
                if entry.object.is_some() { entry.offset * PAGE } else { 0 },
                object.device.0,
                object.device.1,
                object.inode,
            );
            let label = match object.path.as_str() {
                "" => self.label(entry),
                path => path,
            };
            if !label.is_empty() {
                while text.len() - line_start < 73 {
                    text.push(' ');
                }
                text.push_str(label);
            }
            text.push('\n');
        }
        text
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
