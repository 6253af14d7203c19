//! Values as words of a message.

use crate::ring::MAX_WORDS;

/// A message that is none of its interface: from a peer that does not keep to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged;

/// Puts words one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    words: [u64; MAX_WORDS],
    len: usize,
}

impl Writer {
    /// Nothing yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Writer {
        Writer { words: [0; MAX_WORDS], len: 0 }
    }

    /// Adds a word. Interfaces check when they are compiled that all fit; what does not is dropped.
    pub fn put(&mut self, word: u64) {
        if let Some(place) = self.words.get_mut(self.len) {
            *place = word;
            self.len += 1;
        }
    }

    /// What was put.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

/// Takes them out again.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u64]);

impl<'a> Reader<'a> {
    /// From the first on.
    pub fn new(words: &'a [u64]) -> Reader<'a> {
        Reader(words)
    }

    /// The next word.
    pub fn take(&mut self) -> Result<u64, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*first)
    }
}

/// What crosses in messages.
pub trait Wire: Sized {
    /// How many words it takes at most.
    const WORDS: usize;
    /// Adds it.
    fn put(self, writer: &mut Writer);
    /// Takes it out.
    fn take(reader: &mut Reader) -> Result<Self, Damaged>;
}

macro_rules! numbers {
    ($($ty:ty)*) => { $(impl Wire for $ty {
        const WORDS: usize = 1;
        fn put(self, writer: &mut Writer) {
            writer.put(self as u64);
        }
        fn take(reader: &mut Reader) -> Result<Self, Damaged> {
            reader.take()?.try_into().map_err(|_| Damaged)
        }
    })* };
}
numbers!(u64 u32 u16 u8);

impl Wire for bool {
    const WORDS: usize = 1;
    fn put(self, writer: &mut Writer) {
        writer.put(u64::from(self));
    }
    fn take(reader: &mut Reader) -> Result<Self, Damaged> {
        match reader.take()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged),
        }
    }
}

impl<const N: usize> Wire for [u64; N] {
    const WORDS: usize = N;
    fn put(self, writer: &mut Writer) {
        self.into_iter().for_each(|word| writer.put(word));
    }
    fn take(reader: &mut Reader) -> Result<Self, Damaged> {
        let mut words = [0; N];
        for word in &mut words {
            *word = reader.take()?;
        }
        Ok(words)
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => { $(
        #[allow(non_snake_case, unused_variables)]
        impl<$($name: Wire),*> Wire for ($($name,)*) {
            const WORDS: usize = 0 $(+ $name::WORDS)*;
            fn put(self, writer: &mut Writer) {
                let ($($name,)*) = self;
                $($name.put(writer);)*
            }
            #[allow(clippy::unused_unit)]
            fn take(reader: &mut Reader) -> Result<Self, Damaged> {
                Ok(($($name::take(reader)?,)*))
            }
        }
    )* };
}
tuples!(() (A) (A B) (A B C) (A B C D) (A B C D E));

/// A short text: up to 8 `WORDS` bytes of UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text<const WORDS: usize> {
    bytes: [[u8; 8]; WORDS],
    len: u8,
}

impl<const WORDS: usize> Text<WORDS> {
    const FITS: () = assert!(WORDS < 32);

    /// This text, if it is not too long.
    pub fn new(text: &str) -> Option<Self> {
        let () = Self::FITS;
        let mut bytes = [[0; 8]; WORDS];
        bytes.as_flattened_mut().get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Text { bytes, len: text.len() as u8 })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.as_flattened().get(..self.len as usize).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl<const WORDS: usize> Wire for Text<WORDS> {
    const WORDS: usize = 1 + WORDS;
    fn put(self, writer: &mut Writer) {
        self.len.put(writer);
        self.bytes.map(u64::from_le_bytes).put(writer);
    }
    fn take(reader: &mut Reader) -> Result<Self, Damaged> {
        let len = u8::take(reader)?;
        let bytes = <[u64; WORDS]>::take(reader)?.map(u64::to_le_bytes);
        let text = bytes.as_flattened().get(..len as usize).ok_or(Damaged)?;
        core::str::from_utf8(text).map_err(|_| Damaged)?;
        Ok(Text { bytes, len })
    }
}
