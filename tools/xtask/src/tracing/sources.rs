//! Which source file a function is written in: from the line numbers in its image.

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use anyhow::{Context as _, Result};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The line numbers of an image.
pub struct Lines<'a>(addr2line::Context<Slice<'a>>);

impl<'a> Lines<'a> {
    /// None are found if it has none.
    pub fn of(file: &ElfFile64<'a>) -> Result<Lines<'a>> {
        let load = |id: SectionId| -> Result<Slice<'a>> {
            let section = file.section_by_name(id.name());
            let data = section.map(|section| section.data()).transpose()?;
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        let context = addr2line::Context::from_dwarf(Dwarf::load(load)?);
        Ok(Lines(context.context("its line numbers cannot be read")?))
    }

    /// The file of the function that begins at an address. What is there may have come from another
    /// file, inlined: the function's own is that of the outermost call.
    pub fn file(&self, function: u64) -> Option<&str> {
        let mut frames = self.0.find_frames(function).skip_all_loads().ok()?;
        let mut outermost = None;
        while let Ok(Some(frame)) = frames.next() {
            outermost = frame.location.and_then(|location| location.file);
        }
        outermost
    }
}

/// Where source files are.
pub struct Sources {
    /// The project's folder.
    pub root: PathBuf,
}

impl Sources {
    /// A file's name without what differs from one machine to the next: as seen from the root of the
    /// project, of Rust's source (`library/…`), or of all packages (`PACKAGE-VERSION/…`).
    pub fn name(&self, file: Option<&str>) -> String {
        let Some(file) = file else { return String::new() };
        if let Ok(own) = Path::new(file).strip_prefix(&self.root) {
            return own.to_string_lossy().into_owned();
        }
        if let Some((_, package)) = file.split_once("/registry/src/") {
            return package.split_once('/').map_or(package, |(_, path)| path).to_owned();
        }
        match file.find("/library/") {
            Some(at) => file[at + 1..].to_owned(),
            None => file.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let sources = Sources { root: "/home/me/tessera".into() };
        let name = |file| sources.name(Some(file));
        assert_eq!(name("/home/me/tessera/kernel/src/main.rs"), "kernel/src/main.rs");
        assert_eq!(
            name("/usr/lib/rustlib/src/rust/library/core/src/a.rs"),
            "library/core/src/a.rs"
        );
        assert_eq!(name("/rustc/0123/library/alloc/src/b.rs"), "library/alloc/src/b.rs");
        let package =
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/spin-0.1/src/a.rs";
        assert_eq!(name(package), "spin-0.1/src/a.rs");
        assert_eq!(sources.name(None), "");
    }

    #[test]
    fn own_functions_have_files() {
        let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file: ElfFile64 = ElfFile64::parse(&*data).unwrap();
        let lines = Lines::of(&file).unwrap();
        let mut files = file.symbols().filter(|symbol| {
            object::ObjectSymbol::name(symbol)
                .is_ok_and(|name| name.contains("own_functions_have_files"))
        });
        let mut known = files.by_ref().filter_map(|symbol| {
            lines.file(object::ObjectSymbol::address(&symbol)).map(String::from)
        });
        assert!(known.any(|file| file.ends_with("tracing/sources.rs")));
    }
}
