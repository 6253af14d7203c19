//! Machine-independent virtual memory of a Linux process.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
