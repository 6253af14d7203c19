//! Native programs as files and as processes: how one is told from a Linux program, and what it is
//! started with.
//!
//! A native program carries an ELF note ([`NOTE`]) in the first [`NOTE_WITHIN`] bytes of its file.
//! A process that executes it gets a new domain, without the Linux personality, and is told at
//! [`crate::layout::NATIVE_ARGUMENTS`] with what: fields that end with NUL, each a letter and a
//! text. `a` is an argument (the first is the program's name), `e` an environment variable, `d` the
//! description of the next file descriptor in decimal digits (0: closed).

/// Bytes of the file in which the note must lie.
pub const NOTE_WITHIN: usize = 1024;
/// Version of what a native program and its surroundings agree about.
pub const VERSION: u32 = 1;
/// The whole note: lengths of name and description, type, name, version.
pub const NOTE: Note = Note(*b"\x08\0\0\0\x04\0\0\0\x01\0\0\0Tessera\0\x01\0\0\0");

/// Type of [`NOTE`].
#[repr(C, align(4))]
pub struct Note(pub [u8; 24]);

const _: () = assert!(NOTE.0[20] == VERSION as u8);

/// File descriptors that a native program inherits.
pub const DESCRIPTORS: usize = 3;

/// Is there a native program's note in these bytes, the contents of a `PT_NOTE` segment?
pub fn is_native(notes: &[u8]) -> bool {
    // Notes begin at multiples of four bytes.
    let (words, _) = notes.as_chunks::<4>();
    let (own, _) = NOTE.0.as_chunks::<4>();
    words.windows(own.len()).any(|note| note.first() == own.first() && note == own)
}
