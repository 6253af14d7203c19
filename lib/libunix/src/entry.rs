//! Where the kernel enters the library, and how the library returns to the program.

use core::arch::global_asm;

global_asm!(
    ".section .text.entry, \"ax\"",
    ".global upcall_run",
    "upcall_run:",
    "ud2",
    ".text",
);
