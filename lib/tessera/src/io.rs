//! Standard input, output and error.
//!
//! What is printed is collected and written when a line ends if standard output is a terminal, else
//! when much has come together; in any case before the program ends or reads standard input.
//! Standard error is written at once.

use crate::fs::File;
use crate::{env, unix};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use libos::local::Local;
pub use unixproto::Errno;

/// The result of input and output.
pub type Result<T> = core::result::Result<T, Errno>;

/// So much is collected at most.
const BUFFER: usize = 8 << 10;

/// What was printed and not written yet.
struct Output {
    buffer: Vec<u8>,
    file: Option<File>,
}

static OUTPUT: Local<Output> = Local::new(Output { buffer: Vec::new(), file: None });

impl Output {
    fn print(&mut self, text: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(text);
        let by_lines = self.file()?.is_terminal();
        let line_ends = by_lines && text.contains(&b'\n');
        if line_ends || self.buffer.len() >= BUFFER {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let text = core::mem::take(&mut self.buffer);
        self.file()?.write_all(&text)
    }

    fn file(&mut self) -> Result<&File> {
        if self.file.is_none() {
            self.file = Some(File::of_descriptor(1)?);
        }
        self.file.as_ref().ok_or(Errno::EBADF)
    }
}

/// Writes what was printed.
pub fn flush() {
    // Nobody is left to be told that standard output is closed.
    let _ = OUTPUT.try_with(Output::flush);
}

#[doc(hidden)]
pub fn print(arguments: fmt::Arguments) {
    if !unix::is_process() {
        return log(arguments);
    }
    let text = alloc::fmt::format(arguments);
    // As `print!` of a closed output.
    let _ = OUTPUT.try_with(|output| output.print(text.as_bytes()));
}

#[doc(hidden)]
pub fn print_error(arguments: fmt::Arguments) {
    if !unix::is_process() {
        return log(arguments);
    }
    let text = alloc::fmt::format(arguments);
    // There is nowhere to tell it.
    let _ = File::of_descriptor(2).and_then(|file| file.write_all(text.as_bytes()));
}

fn log(arguments: fmt::Arguments) {
    // There is nowhere to tell it.
    let _ = libos::log::KernelLog::new(libos::abi::slots::KERNEL).write_fmt(arguments);
}

/// Prints to standard output.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::io::print(::core::format_args!($($arg)*)) };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => {
        $crate::io::print(::core::format_args!("{}\n", ::core::format_args!($($arg)*)))
    };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::io::print_error(::core::format_args!("\n")) };
    ($($arg:tt)*) => {
        $crate::io::print_error(::core::format_args!("{}\n", ::core::format_args!($($arg)*)))
    };
}

/// Standard input, by bytes and by lines.
#[derive(Default)]
pub struct Stdin {
    buffer: Vec<u8>,
    used: usize,
}

/// Standard input. What one value has read ahead is lost to others.
pub fn stdin() -> Stdin {
    Stdin::default()
}

impl Stdin {
    /// The next line without its end; `None` at the end of the input.
    pub fn line(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            if self.used == self.buffer.len() && !self.fill()? {
                let text = String::from_utf8_lossy(&line).into_owned();
                return Ok((!line.is_empty()).then_some(text));
            }
            let rest = &self.buffer[self.used..];
            let end = rest.iter().position(|&byte| byte == b'\n');
            line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            self.used += end.map_or(rest.len(), |end| end + 1);
            if end.is_some() {
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
        }
    }

    /// The lines that are left.
    pub fn lines(mut self) -> impl Iterator<Item = Result<String>> {
        core::iter::from_fn(move || self.line().transpose())
    }

    /// Reads more. `false`: there is no more.
    fn fill(&mut self) -> Result<bool> {
        flush();
        self.buffer.resize(BUFFER, 0);
        self.used = 0;
        let read = File::of_descriptor(0)?.read(&mut self.buffer);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }
}

/// The description behind a standard descriptor.
pub(crate) fn description(descriptor: usize) -> Result<u32> {
    match env::descriptions().get(descriptor) {
        Some(&desc) if desc != 0 => Ok(desc),
        _ => Err(Errno::EBADF),
    }
}
