//! Names for the addresses that a panicking kernel, or a native program that fails, prints.
//!
//! The kernel prints `@backtrace` and one line `  #N 0xADDRESS` for each frame, and `  at 0xADDRESS` for a
//! program that raised an exception; programs print lines like that. The symbols are in the ELF files
//! that were booted, where only this side can read them.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol, SymbolKind};
use std::path::Path;

/// Functions of a program, by address.
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Of an ELF file; none if it cannot be read, for this is only a help.
    pub fn load(elf: &Path) -> Symbols {
        Symbols(std::fs::read(elf).ok().and_then(|data| functions(&data)).unwrap_or_default())
    }

    /// `line` with the function's name behind the address, if it is a line of a backtrace.
    pub fn annotate(&self, line: &str) -> String {
        match frame_address(line).and_then(|address| self.name(address)) {
            Some(name) => format!("{line}  {name}"),
            None => line.to_owned(),
        }
    }

    fn name(&self, address: u64) -> Option<String> {
        let behind = self.0.partition_point(|(start, _)| *start <= address);
        let (start, name) = &self.0[behind.checked_sub(1)?];
        Some(format!("{:#}+{:#x}", rustc_demangle::demangle(name), address - start))
    }
}

fn functions(data: &[u8]) -> Option<Vec<(u64, String)>> {
    let file: ElfFile64 = ElfFile64::parse(data).ok()?;
    let mut all: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
        .collect();
    all.sort();
    Some(all)
}

/// The address in `  #N 0xADDRESS`, as the kernel prints it, or `  at 0xADDRESS`, as programs do.
fn frame_address(line: &str) -> Option<u64> {
    let (before, address) = line.split_once(" 0x")?;
    let number = before.strip_prefix("  #").and_then(|number| number.parse::<u32>().ok());
    if before != "  at" && number.is_none() {
        return None;
    }
    u64::from_str_radix(address.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_get_names() {
        let symbols = Symbols(vec![(0x1000, "first".into()), (0x2000, "second".into())]);
        assert_eq!(symbols.annotate("  #0 0x1010"), "  #0 0x1010  first+0x10");
        assert_eq!(symbols.annotate("  #1 0x2000"), "  #1 0x2000  second+0x0");
        assert_eq!(symbols.annotate("  #1 0xfff"), "  #1 0xfff");
        assert_eq!(symbols.annotate("#1 0x2000"), "#1 0x2000");
        assert_eq!(symbols.annotate("  at 0x2001"), "  at 0x2001  second+0x1");
        assert_eq!(symbols.annotate("looked at 0x2001"), "looked at 0x2001");
    }

    #[test]
    fn own_functions_are_found() {
        let own = Symbols::load(&std::env::current_exe().unwrap());
        assert!(own.0.iter().any(|(_, name)| name.contains("own_functions_are_found")));
    }
}
