//! What a part of this program does: its first argument says what.

use alloc::vec::Vec;
use libos::abi::layout::NATIVE_ARGUMENTS;
use libos::cores;

/// Runs it. Answers the exit status.
pub fn run(bytes: usize) -> u64 {
    // SAFETY: `spawnd` has mapped so many bytes there, for good.
    let fields = unsafe { core::slice::from_raw_parts(NATIVE_ARGUMENTS as *const u8, bytes) };
    let fields = fields.split(|&byte| byte == 0).filter_map(|field| field.strip_prefix(b"a"));
    let words: Vec<&str> = fields.filter_map(|word| core::str::from_utf8(word).ok()).collect();
    let number = |n: usize| words.get(n).and_then(|word| word.parse::<u64>().ok());
    match words.get(1).copied() {
        Some("add") => (2..words.len()).filter_map(number).sum(),
        // Which core it is, and whether it has memory to work with.
        Some("core") => {
            let pages: Vec<Vec<u8>> = (0..64).map(|n| alloc::vec![n; 4096]).collect();
            let sum: u64 = pages.iter().flatten().map(|&byte| u64::from(byte)).sum();
            if sum != 4096 * (0..64).sum::<u64>() {
                return 1000;
            }
            u64::from(cores::machine().this)
        }
        Some("crash") => {
            // SAFETY: raises an exception, which `spawnd` is told of.
            unsafe { core::arch::asm!("ud2", options(noreturn)) }
        }
        // Starts another part on another core, and that one another, and so on.
        Some("chain") => match (number(2), cores::machine()) {
            (Some(0), machine) => u64::from(machine.this),
            (Some(left), machine) => {
                let core = (machine.this + 1) % machine.count;
                let mut text = [0; 20];
                let part = cores::spawn_on(core, &[words[0], "chain", digits(left - 1, &mut text)]);
                part.and_then(cores::Part::wait).unwrap_or(1001)
            }
            _ => 1002,
        },
        Some("object") => number(2).map_or(1003, crate::objects::run),
        Some("pool") => number(2).map_or(1003, crate::objects::hold),
        Some(what) => match number(2) {
            Some(key) => crate::calls::part(what, key)
                .or_else(|| crate::lending::part(what, key))
                .or_else(|| crate::late::part(what, key))
                .unwrap_or_else(|| crate::sharing::part(what, key)),
            None => 1003,
        },
        None => 1004,
    }
}

/// A number in decimal.
pub fn digits(mut number: u64, text: &mut [u8; 20]) -> &str {
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return core::str::from_utf8(&text[at..]).unwrap_or_default();
        }
    }
}
