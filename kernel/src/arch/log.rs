//! The kernel's log: `log!("…")` writes one line of plain text to the second serial port.
//!
//! A line that begins with `@` is meant for the host's tools, not for people: `@backtrace`.
//! On the host the lines go to standard error.

/// Writes one formatted line to the kernel's log.
macro_rules! log {
    ($($arg:tt)*) => { $crate::arch::log::line(format_args!($($arg)*)) };
}
pub(crate) use log;

/// Writes `text` and a line end.
#[cfg(target_os = "none")]
pub fn line(text: core::fmt::Arguments) {
    use core::fmt::Write;
    let _lock = super::LogLock::take();
    // Writing to the port cannot fail.
    let _ = writeln!(super::LogPort, "{text}");
}

/// Writes `text` and a line end.
#[cfg(not(target_os = "none"))]
pub fn line(text: core::fmt::Arguments) {
    std::eprintln!("{text}");
}

/// Writes bytes as they are: lines of user mode.
#[cfg(target_os = "none")]
pub fn bytes(bytes: &[u8]) {
    use core::fmt::Write;
    let _lock = super::LogLock::take();
    for chunk in bytes.utf8_chunks() {
        // Writing to the port cannot fail.
        let _ = super::LogPort.write_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            let _ = super::LogPort.write_char('?');
        }
    }
}

/// Writes bytes as they are: lines of user mode.
#[cfg(not(target_os = "none"))]
pub fn bytes(bytes: &[u8]) {
    std::eprint!("{}", std::string::String::from_utf8_lossy(bytes));
}
