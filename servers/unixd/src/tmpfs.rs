//! Options of `tmpfs`.

use unixproto::Errno;

const PAGE: u64 = 4096;
/// The mode of its root.
const MODE: u32 = 0o1777;

/// The names of all options.
pub const OPTIONS: [&[u8]; 11] = [
    b"size",
    b"nr_blocks",
    b"nr_inodes",
    b"mode",
    b"uid",
    b"gid",
    b"huge",
    b"mpol",
    b"inode32",
    b"inode64",
    b"noswap",
];

/// What a mount of `tmpfs` is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Pages that its files may have; `u64::MAX`: any number.
    pub pages: Option<u64>,
    /// Inodes that it may have.
    pub inodes: Option<u64>,
    /// The mode of its root.
    pub mode: u32,
    /// The owner of its root.
    pub uid: Option<u32>,
    /// The group of its root.
    pub gid: Option<u32>,
}

/// A number with a unit, as sizes of memory are written: in bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        b't' | b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn unlimited(number: u64) -> u64 {
    if number == 0 {
        u64::MAX
    } else {
        number
    }
}

impl Options {
    /// Reads options, with commas between them. `ram`: bytes of memory, for sizes that are a part of it.
    ///
    /// # Errors
    /// `EINVAL`: there is no such option, or it has another kind of value.
    pub fn parse(text: &[u8], ram: u64) -> Result<Options, Errno> {
        let mut options = Options { pages: None, inodes: None, mode: MODE, uid: None, gid: None };
        let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            options.set(name, value, ram).ok_or(Errno::EINVAL)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str, ram: u64) -> Option<()> {
        match name {
            "size" => {
                let bytes = match value.strip_suffix('%') {
                    Some(part) => ram / 100 * part.parse::<u64>().ok()?.min(1 << 20),
                    None => size(value)?,
                };
                self.pages = Some(unlimited(bytes.div_ceil(PAGE)));
            }
            "nr_blocks" => self.pages = Some(unlimited(size(value)?)),
            "nr_inodes" => self.inodes = Some(unlimited(size(value)?)),
            "mode" => self.mode = u32::from_str_radix(value, 8).ok()? & 0o7777,
            "uid" => self.uid = Some(value.parse().ok()?),
            "gid" => self.gid = Some(value.parse().ok()?),
            // What is about pages and numbers that programs do not see.
            "huge" | "mpol" | "inode32" | "inode64" | "noswap" => {}
            _ => return None,
        }
        Some(())
    }

    /// Pages that its files may have: half of all memory, if nothing else is said.
    pub fn pages(&self, ram: u64) -> u64 {
        self.pages.unwrap_or(ram / PAGE / 2)
    }

    /// Inodes that it may have.
    pub fn inodes(&self, ram: u64) -> u64 {
        self.inodes.unwrap_or(ram / PAGE / 2)
    }
}
