//! Calls to `unixd`.
