//! Upcalls of a dispatcher with the Linux ABI.

use crate::Lab;

/// Measures them. (To come.)
pub fn measure(_: &mut Lab) {}
