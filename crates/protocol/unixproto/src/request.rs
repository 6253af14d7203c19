//! How requests and their results cross in the words of a message.

use crate::Errno;

/// The words of a message.
pub type Words = [u64; 6];

/// A value that crosses in one word.
pub trait Word: Sized {
    /// The word.
    fn to_word(self) -> u64;
    /// The value; `EINVAL` for a word that stands for none.
    fn from_word(word: u64) -> Result<Self, Errno>;
}

macro_rules! words {
    ($($ty:ty),*) => { $(impl Word for $ty {
        fn to_word(self) -> u64 { self as u64 }
        fn from_word(word: u64) -> Result<Self, Errno> {
            <$ty>::try_from(word).map_err(|_| Errno::EINVAL)
        }
    })* };
}
words!(u64, u32, u16, u8);

impl Word for i32 {
    fn to_word(self) -> u64 {
        self as i64 as u64
    }
    fn from_word(word: u64) -> Result<Self, Errno> {
        i32::try_from(word as i64).map_err(|_| Errno::EINVAL)
    }
}

impl Word for i64 {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Result<Self, Errno> {
        Ok(word as i64)
    }
}

impl Word for bool {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Result<Self, Errno> {
        match word {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The results of a request, beyond its error.
pub trait Reply: Sized {
    /// Words 1 to 5 of the answer.
    fn encode(self) -> Words;
    /// From the words of an answer; its error if it is one.
    fn decode(words: &Words) -> Result<Self, Errno>;
}

/// The answer that carries an error.
pub const fn error_words(error: Errno) -> Words {
    [error.0 as u64, 0, 0, 0, 0, 0]
}

pub(crate) fn check(words: &Words) -> Result<(), Errno> {
    match words[0] {
        0 => Ok(()),
        error => Err(Errno(u16::try_from(error).unwrap_or(Errno::EIO.0))),
    }
}

impl Reply for () {
    fn encode(self) -> Words {
        [0; 6]
    }
    fn decode(words: &Words) -> Result<Self, Errno> {
        check(words)
    }
}

/// One request of the table.
pub trait Request: Sized {
    /// Its number.
    const OP: u16;
    /// Its results.
    type Reply: Reply;
    /// As it crosses, with the lengths of `a` and `b`.
    fn encode(self, a: usize, b: usize) -> Words;
    /// From words 1 to 5.
    fn decode(words: &Words) -> Result<Self, Errno>;
}

/// How a request is declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Declared {
    /// Its number.
    pub op: u16,
    /// Its name.
    pub name: &'static str,
    /// The type of its results.
    pub reply: &'static str,
    /// Names and types of its words.
    pub fields: &'static [(&'static str, &'static str)],
}

/// A request by which the caller lends memory: the words in which address and length are.
pub mod lent {
    /// The address.
    pub const ADDRESS: usize = 4;
    /// How many bytes.
    pub const BYTES: usize = 5;
}

/// Word 0: the operation and the lengths of `a` and `b`.
pub const fn head(op: u16, a: usize, b: usize) -> u64 {
    op as u64 | (a as u64 & 0xffff) << 16 | (b as u64 & 0xffff) << 32
}

/// The number of the operation in a request.
pub const fn op_number(words: &Words) -> u16 {
    words[0] as u16
}

/// The lengths of `a` and `b`, when they fit the data area together.
pub fn lengths(words: &Words) -> Result<(usize, usize), Errno> {
    let (a, b) = ((words[0] >> 16 & 0xffff) as usize, (words[0] >> 32 & 0xffff) as usize);
    if a + b > crate::session::DATA_BYTES {
        return Err(Errno::EINVAL);
    }
    Ok((a, b))
}

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $fty:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: $fty),* }

        impl Reply for $name {
            #[inline]
            fn encode(self) -> Words {
                let mut words = [0; 6];
                let mut _next = 1;
                $(words[_next] = self.$field.to_word(); _next += 1;)*
                words
            }
            #[inline]
            fn decode(words: &Words) -> Result<Self, Errno> {
                check(words)?;
                let mut _next = 1;
                $(let $field = <$fty>::from_word(words[_next])?; _next += 1;)*
                Ok($name { $($field),* })
            }
        }
    )* };
}

macro_rules! requests {
    ($($(#[$doc:meta])* $id:literal $name:ident ( $($(#[$fdoc:meta])* $field:ident: $fty:ty),* $(,)? ) -> $reply:ty;)*) => {
        /// One struct for each request: its words.
        pub mod op {
            use super::*;
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $name { $($(#[$fdoc])* pub $field: $fty),* }

            impl Request for $name {
                const OP: u16 = $id;
                type Reply = $reply;
                #[inline]
                fn encode(self, a: usize, b: usize) -> Words {
                    #[allow(unused_mut)]
                    let mut words = [head($id, a, b), 0, 0, 0, 0, 0];
                    #[allow(unused_mut)]
                    let mut _next = 1;
                    $(words[_next] = self.$field.to_word(); _next += 1;)*
                    words
                }
                #[inline]
                fn decode(words: &Words) -> Result<Self, Errno> {
                    #[allow(unused_mut)]
                    let mut _next = 1;
                    $(let $field = <$fty>::from_word(words[_next])?; _next += 1;)*
                    // Requests without fields do not use them.
                    let _ = words;
                    Ok($name { $($field),* })
                }
            }
        )*
        }

        // Each field has a word, and there are five.
        $(const _: () = {
            const FIELDS: &[&str] = &[$(stringify!($field)),*];
            assert!(FIELDS.len() <= 5);
        };)*

        /// All requests as they are declared, for those who make up some.
        pub const TABLE: &[Declared] = &[$(Declared {
            op: $id,
            name: stringify!($name),
            reply: stringify!($reply),
            fields: &[$((stringify!($field), stringify!($fty))),*],
        },)*];

        /// Any request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Any { $($(#[$doc])* $name(op::$name),)* }

        impl Any {
            /// The request in a message: `ENOSYS` for an unknown number.
            pub fn decode(words: &Words) -> Result<Any, Errno> {
                match words[0] as u16 {
                    $($id => Ok(Any::$name(op::$name::decode(words)?)),)*
                    _ => Err(Errno::ENOSYS),
                }
            }
        }
    };
}

pub(crate) use {replies, requests};
