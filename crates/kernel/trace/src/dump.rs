//! A trace as a file.
//!
//! All numbers are little-endian; a text is its length in bytes (`u32`) and UTF-8.
//!
//! ```text
//! "TESSERA TRACE 2\n"
//! u32   bit 0: the time-stamp counter counted instructions, and did not run at some constant rate
//!       bit 1: what was before the first program is not to be shown
//! u32   number of images, and a text for each: its name; the kernel is the first
//! u32   number of functions, and for each: u32 number (ascending), u32 image, text name, text file
//! u32   number of cores, and for each: u64 events lost, u64 events, and the events
//! u32   CRC-32 of everything before
//! ```

use crate::event::{Event, NoEvent, FUNCTION_BITS};
use std::collections::BTreeMap;
use std::fmt;

const MAGIC: &[u8] = b"TESSERA TRACE 2\n";

/// A function that has probes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Which of [`Dump::images`] it is in.
    pub image: u32,
    /// Its path, as in Rust.
    pub name: String,
    /// The source file that it is written in, as seen from the root of the project; empty if that is
    /// not known.
    pub file: String,
}

/// What one core recorded, in the order in which it did.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CoreEvents {
    pub events: Vec<Event>,
    /// Events for which the buffer had no room, at the end.
    pub lost: u64,
}

/// A whole trace.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Dump {
    /// Times are in instructions, not in ticks of a clock.
    pub counts_instructions: bool,
    /// Only what happened from the first program on is to be shown; what was before is there to understand it.
    pub begins_with_program: bool,
    /// Names of the programs; the first is the kernel.
    pub images: Vec<String>,
    /// By their numbers in events.
    pub functions: BTreeMap<u32, Function>,
    pub cores: Vec<CoreEvents>,
}

/// Why a file is no trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It does not begin like one.
    NotATrace,
    /// It ends too early, at this byte.
    Truncated(usize),
    /// Something was changed in it.
    Checksum,
    /// There is more behind its end.
    TooLong,
    /// A name is not UTF-8, a number is out of its range, or a function is in no image.
    Malformed(&'static str),
    /// There are 8 bytes that no probe writes.
    Event(NoEvent),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NotATrace => f.write_str("this is no trace of Tessera"),
            Damage::Truncated(at) => write!(f, "the trace is cut off at byte {at}"),
            Damage::Checksum => f.write_str("the trace is damaged: its checksum is wrong"),
            Damage::TooLong => f.write_str("there is something behind the trace's end"),
            Damage::Malformed(what) => write!(f, "the trace is damaged: {what}"),
            Damage::Event(event) => write!(f, "the trace is damaged: {event}"),
        }
    }
}

impl std::error::Error for Damage {}

impl Dump {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put(
            &mut out,
            u32::from(self.counts_instructions) | u32::from(self.begins_with_program) << 1,
        );
        put(&mut out, self.images.len() as u32);
        self.images.iter().for_each(|name| put_text(&mut out, name));
        put(&mut out, self.functions.len() as u32);
        for (number, function) in &self.functions {
            put(&mut out, *number);
            put(&mut out, function.image);
            put_text(&mut out, &function.name);
            put_text(&mut out, &function.file);
        }
        put(&mut out, self.cores.len() as u32);
        for core in &self.cores {
            out.extend(core.lost.to_le_bytes());
            out.extend((core.events.len() as u64).to_le_bytes());
            out.extend(core.events.iter().flat_map(|event| event.0.to_le_bytes()));
        }
        let checksum = crc32fast::hash(&out);
        put(&mut out, checksum);
        out
    }

    /// The trace in a file.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with it. A trace that is returned has only events that a probe writes, of
    /// functions that it names.
    pub fn from_bytes(bytes: &[u8]) -> Result<Dump, Damage> {
        if !bytes.starts_with(MAGIC) {
            return Err(Damage::NotATrace);
        }
        let mut reader = Reader { bytes, at: MAGIC.len() };
        let flags = reader.u32()?;
        if flags > 3 {
            return Err(Damage::Malformed("an unknown clock"));
        }
        let (counts_instructions, begins_with_program) = (flags & 1 != 0, flags & 2 != 0);
        let images = (0..reader.u32()?).map(|_| reader.text()).collect::<Result<Vec<_>, _>>()?;
        let functions = reader.functions(&images)?;
        let cores =
            (0..reader.u32()?).map(|_| reader.core(&functions)).collect::<Result<Vec<_>, _>>()?;
        let sum = crc32fast::hash(&bytes[..reader.at]);
        if reader.u32()? != sum {
            return Err(Damage::Checksum);
        }
        if reader.at != bytes.len() {
            return Err(Damage::TooLong);
        }
        Ok(Dump { counts_instructions, begins_with_program, images, functions, cores })
    }
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u32);
    out.extend(text.as_bytes());
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or(Damage::Truncated(self.bytes.len()))?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        self.take(N)?.try_into().map_err(|_| Damage::Truncated(self.bytes.len()))
    }

    fn u32(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, Damage> {
        let length = self.u32()? as usize;
        let text = std::str::from_utf8(self.take(length)?);
        Ok(text.map_err(|_| Damage::Malformed("a name is not UTF-8"))?.to_owned())
    }

    fn functions(&mut self, images: &[String]) -> Result<BTreeMap<u32, Function>, Damage> {
        let mut functions = BTreeMap::new();
        for _ in 0..self.u32()? {
            let (number, image) = (self.u32()?, self.u32()?);
            let (name, file) = (self.text()?, self.text()?);
            if number >> FUNCTION_BITS != 0 {
                return Err(Damage::Malformed("a function's number is too large"));
            }
            if image as usize >= images.len() {
                return Err(Damage::Malformed("a function is in no image"));
            }
            if functions.last_key_value().is_some_and(|(last, _)| *last >= number) {
                return Err(Damage::Malformed("functions are not in order"));
            }
            functions.insert(number, Function { image, name, file });
        }
        Ok(functions)
    }

    fn core(&mut self, functions: &BTreeMap<u32, Function>) -> Result<CoreEvents, Damage> {
        use crate::event::What;
        let lost = self.u64()?;
        let bytes = self.u64()?.checked_mul(8).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = self.take(bytes.ok_or(Damage::Truncated(self.bytes.len()))?)?;
        let events = bytes.as_chunks().0.iter().map(|word| {
            let event = Event(u64::from_le_bytes(*word));
            match event.what().map_err(Damage::Event)? {
                What::Enter(function) | What::Exit(function)
                    if !functions.contains_key(&function) =>
                {
                    Err(Damage::Malformed("an event of an unknown function"))
                }
                _ => Ok(event),
            }
        });
        Ok(CoreEvents { events: events.collect::<Result<_, _>>()?, lost })
    }
}
