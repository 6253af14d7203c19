//! `struct utsname`.

use crate::system;

const FIELD: usize = system::__NEW_UTS_LEN as usize + 1;
/// Bytes of the structure.
pub const UTSNAME_BYTES: usize = size_of::<system::new_utsname>();

/// The release, for `uname` and `/proc/version`.
pub const RELEASE: &str = "6.1.0-tessera";
/// The version.
pub const VERSION: &str = concat!("#1 Tessera ", env!("CARGO_PKG_VERSION"));

/// The structure, for a host and its domain.
pub fn utsname(node: &[u8], domain: &[u8]) -> [u8; UTSNAME_BYTES] {
    let mut out = [0; UTSNAME_BYTES];
    let fields: [&[u8]; 6] =
        [b"Linux", node, RELEASE.as_bytes(), VERSION.as_bytes(), b"x86_64", domain];
    for (field, text) in out.chunks_mut(FIELD).zip(fields) {
        let n = text.len().min(FIELD - 1);
        field[..n].copy_from_slice(&text[..n]);
    }
    out
}
