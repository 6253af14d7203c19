//! What is generated of the table of invocations: marshalling, and the enumerations to dispatch by.

use crate::invocations::Label;
use crate::replies::Reply;
use crate::words::ArgWords;
use crate::{Rights, Status, TypeSet};

/// One operation of the table.
pub trait Invocation: Sized {
    /// Its number.
    const LABEL: Label;
    /// The types on which it is invoked; empty: on any.
    const ON: TypeSet;
    /// The right that the invoked capability needs, if that is always the same.
    const NEEDS: Rights;
    /// How many argument words it uses.
    const ARGS: usize;
    /// Its results.
    type Reply: Reply;
    /// Arguments as they cross.
    fn encode(self) -> ArgWords;
    /// Arguments from what crossed.
    ///
    /// # Errors
    ///
    /// `Invalid` if a word stands for no value of its argument.
    fn decode(words: &ArgWords) -> Result<Self, Status>;
}

/// One line of the table, in words. Documentation is as the compiler keeps it: `doc = "text"`.
pub struct Operation {
    /// Its number.
    pub number: u16,
    /// Its name.
    pub name: &'static str,
    /// Heading of its group.
    pub heading: &'static str,
    /// The types on which it is invoked; empty: on any.
    pub on: TypeSet,
    /// The right that the invoked capability needs, if that is always the same.
    pub needs: Rights,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// Arguments in order.
    pub arguments: &'static [Argument],
    /// Type of the results.
    pub reply: &'static str,
}

/// An argument of an operation, in words.
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
}

macro_rules! invocations {
    ($(
        $(#[$group_doc:meta])*
        $group:ident($ops:ident) $heading:literal on [$($on:ident)*] {
            $($(#[$doc:meta])* $id:literal $name:ident (
                $($(#[$fdoc:meta])* $field:ident: $fty:ty),* $(,)?
            ) -> $reply:ty $(, needs $right:ident)?;)*
        }
    )*) => {
        /// The number of an operation.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        pub enum Label { $($($(#[$doc])* $name = $id,)*)* }

        impl Label {
            /// The operation with this number.
            #[inline(always)]
            pub const fn from_u16(id: u16) -> Option<Label> {
                match id { $($($id => Some(Label::$name),)*)* _ => None }
            }

            /// The operation in its group.
            #[inline(always)]
            pub const fn group(self) -> Group {
                match self { $($(Label::$name => Group::$group($ops::$name),)*)* }
            }
        }

        /// An operation, by what it is invoked on.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Group { $(#[doc = $heading] $group($ops),)* }

        $(
            #[doc = concat!("Operations on: ", $heading, ".")]
            $(#[$group_doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            #[repr(u16)]
            pub enum $ops { $($(#[$doc])* $name = $id,)* }
        )*

        /// What this table says, for the reference in `docs/capabilities.md`.
        pub const OPERATIONS: &[Operation] = &[$($(Operation {
            number: $id,
            name: stringify!($name),
            heading: $heading,
            on: on::$group,
            needs: Rights::NONE$(.or(Rights::$right))?,
            docs: &[$(stringify!($doc)),*],
            arguments: &[$(Argument {
                name: stringify!($field),
                ty: stringify!($fty),
                docs: &[$(stringify!($fdoc)),*],
            }),*],
            reply: stringify!($reply),
        },)*)*];

        /// One struct for each operation: its arguments.
        pub mod op {
            use super::*;
        $($(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $name { $($(#[$fdoc])* pub $field: $fty),* }

            impl Invocation for $name {
                const LABEL: Label = Label::$name;
                const ON: TypeSet = on::$group;
                const NEEDS: Rights = Rights::NONE$(.or(Rights::$right))?;
                const ARGS: usize = 0 $(+ <$fty as Words>::WORDS)*;
                type Reply = $reply;
                #[inline(always)]
                fn encode(self) -> ArgWords {
                    #[allow(unused_mut)]
                    let mut words = [0; 9];
                    #[allow(unused_mut)]
                    let mut _next = 0;
                    $(self.$field.put(&mut words, _next); _next += <$fty as Words>::WORDS;)*
                    words
                }
                #[inline(always)]
                fn decode(words: &ArgWords) -> Result<Self, Status> {
                    #[allow(unused_mut)]
                    let mut _next = 0;
                    $(let $field = <$fty as Words>::take(words, _next)?; _next += <$fty as Words>::WORDS;)*
                    // Those without fields do not use them.
                    let _ = words;
                    Ok($name { $($field),* })
                }
            }
        )*)*
        }

        /// The types on which the operations of each group are invoked.
        #[allow(non_upper_case_globals)]
        mod on {
            use super::{CapType, TypeSet};
            $(pub const $group: TypeSet = TypeSet::of(&[$(CapType::$on),*]);)*
        }
    };
}
pub(crate) use invocations;
