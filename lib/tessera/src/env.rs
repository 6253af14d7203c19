//! Arguments and environment.

use abi::native::DESCRIPTORS;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use libos::abi;

static START: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Remembers where the fields of [`abi::native`] are.
///
/// # Safety
/// They are mapped there, for good, and nobody writes them.
pub(crate) unsafe fn set(start: *const u8, bytes: usize) {
    START.store(start.cast_mut(), Relaxed);
    BYTES.store(bytes, Relaxed);
}

/// The texts of the fields with this letter.
fn fields(letter: u8) -> impl Iterator<Item = &'static [u8]> {
    let start = START.load(Relaxed);
    let all = match start.is_null() {
        true => &[],
        // SAFETY: by the promise of whoever called `set`.
        false => unsafe { core::slice::from_raw_parts(start.cast_const(), BYTES.load(Relaxed)) },
    };
    all.split(|&byte| byte == 0).filter_map(move |field| match field.split_first() {
        Some((&first, text)) if first == letter => Some(text),
        _ => None,
    })
}

fn text(bytes: &'static [u8]) -> &'static str {
    // What is no UTF-8 ends where it ceases to be some.
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}

/// The arguments, of which the first is the program's name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Args(());

/// The arguments.
pub fn args() -> Args {
    Args(())
}

impl Args {
    /// How many.
    pub fn len(&self) -> usize {
        self.iter().count()
    }
    /// None at all, not even a name?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The argument with this number; 0 is the program's name.
    pub fn get(&self, index: usize) -> Option<&'static str> {
        self.iter().nth(index)
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'static str> {
        fields(b'a').map(text)
    }
    /// The number that an argument is; `None` if it is missing or none.
    pub fn number(&self, index: usize) -> Option<u64> {
        self.get(index)?.parse().ok()
    }
}

/// The value of an environment variable.
pub fn var(name: &str) -> Option<&'static str> {
    vars().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// All environment variables.
pub fn vars() -> impl Iterator<Item = (&'static str, &'static str)> {
    fields(b'e').filter_map(|field| text(field).split_once('='))
}

/// The descriptions behind standard input, output and error; 0: closed.
pub(crate) fn descriptions() -> [u32; DESCRIPTORS] {
    let mut found = [0; DESCRIPTORS];
    for (place, field) in found.iter_mut().zip(fields(b'd')) {
        *place = text(field).parse().unwrap_or(0);
    }
    found
}
