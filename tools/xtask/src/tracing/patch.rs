//! Puts probes into an image.
//!
//! The compiler (`-Z instrument-xray=always`) leaves room for 11 bytes at each entry and exit of
//! each function, and a list of these places in the section `xray_instr_map`:
//!
//! ```text
//! entry, tail call:  jmp over the rest   →   mov r10d, WORD; call trace_probe
//! exit:              ret; nothing        →   mov r10d, WORD; jmp trace_probe
//! ```
//!
//! An entry of the list has 32 bytes: where the place and its function are, each as a difference to
//! where that is written, then the kind of place, a byte that means nothing here, and the version of
//! the format.

use super::sources::{Lines, Sources};
use ::trace::dump::Function;
use ::trace::event::FUNCTION_BITS;
use ::trace::probe::{USER_STRIDE, USER_WINDOW};
use ::trace::What;
use anyhow::{ensure, Context, Result};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

const ENTRY_BYTES: usize = 32;
const PLACE_BYTES: usize = 11;
const VERSION: u8 = 2;

/// What the compiler says of a place.
const ENTRY: u8 = 0;
const EXIT: u8 = 1;
const TAIL_CALL: u8 = 2;

/// Numbers the functions of several images.
pub struct Patcher {
    sources: Sources,
    pub images: Vec<String>,
    pub functions: BTreeMap<u32, Function>,
}

/// One place for a probe.
struct Place {
    address: u64,
    function: u64,
    kind: u8,
}

impl Patcher {
    /// Of a project in this folder.
    pub fn new(root: &Path) -> Patcher {
        let sources = Sources { root: root.to_owned() };
        Patcher { sources, images: Vec::new(), functions: BTreeMap::new() }
    }

    /// `data`, an ELF file, with probes in all places; those of user mode find their buffers.
    ///
    /// # Errors
    ///
    /// It was not built for this, or not as the compiler does that.
    pub fn patch(&mut self, name: &str, mut data: Vec<u8>, kernel: bool) -> Result<Vec<u8>> {
        let file: ElfFile64 = ElfFile64::parse(&*data).context("it is no ELF file")?;
        let symbols = Symbols::of(&file);
        let lines = Lines::of(&file)?;
        let places = places(&file)?;
        let probe = symbols.variable("trace_probe")?;
        let offsets = Offsets::of(&file);
        let variables = match kernel {
            // Set by the kernel, when there are buffers.
            true => Vec::new(),
            false => vec![("trace_base", USER_WINDOW), ("trace_stride", USER_STRIDE)],
        };
        let mut patches: Vec<(usize, Vec<u8>)> = Vec::new();
        for (variable, value) in variables {
            let at = offsets.find(symbols.variable(variable)?)?;
            patches.push((at, value.to_le_bytes().to_vec()));
        }
        let image = self.images.len() as u32;
        self.images.push(name.to_owned());
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        for place in &places {
            let number = *numbers.entry(place.function).or_insert_with(|| {
                let number = self.functions.last_key_value().map_or(0, |(last, _)| last + 1);
                let name = symbols.function(place.function);
                let file = self.sources.name(lines.file(place.function));
                self.functions.insert(number, Function { image, name, file });
                number
            });
            ensure!(number >> FUNCTION_BITS == 0, "there are too many functions");
            patches.push((offsets.find(place.address)?, place.code(number, probe)?));
        }
        for (at, bytes) in patches {
            data[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(data)
    }
}

impl Place {
    /// What stands there from now on.
    fn code(&self, function: u32, probe: u64) -> Result<Vec<u8>> {
        const MOV_R10D: [u8; 2] = [0x41, 0xba];
        const CALL: u8 = 0xe8;
        const JMP: u8 = 0xe9;
        let (what, transfer) = match self.kind {
            ENTRY => (What::Enter(function), CALL),
            TAIL_CALL => (What::Exit(function), CALL),
            _ => (What::Exit(function), JMP),
        };
        let from = self.address + PLACE_BYTES as u64;
        let distance = i32::try_from(probe.wrapping_sub(from) as i64)
            .context("a function is too far from the probe")?;
        let mut code = MOV_R10D.to_vec();
        code.extend(what.word().to_le_bytes());
        code.push(transfer);
        code.extend(distance.to_le_bytes());
        debug_assert_eq!(code.len(), PLACE_BYTES);
        Ok(code)
    }
}

fn places(file: &ElfFile64) -> Result<Vec<Place>> {
    let section = file
        .section_by_name("xray_instr_map")
        .context("it was not built with places for probes")?;
    let (start, data) = (section.address(), section.data()?);
    ensure!(data.len().is_multiple_of(ENTRY_BYTES), "its list of places is cut off");
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
    let entries = data.chunks_exact(ENTRY_BYTES).zip((start..).step_by(ENTRY_BYTES));
    entries
        .map(|(entry, at)| {
            let (kind, version) = (entry[16], entry[18]);
            ensure!(version == VERSION, "its list of places has version {version}");
            ensure!(matches!(kind, ENTRY | EXIT | TAIL_CALL), "it has places of kind {kind}");
            Ok(Place {
                address: at.wrapping_add(word(entry, 0)),
                function: (at + 8).wrapping_add(word(entry, 8)),
                kind,
            })
        })
        .collect()
}

/// Names of functions and addresses of variables.
struct Symbols {
    by_address: HashMap<u64, String>,
    by_name: HashMap<String, u64>,
}

impl Symbols {
    fn of(file: &ElfFile64) -> Symbols {
        let (mut by_address, mut by_name) = (HashMap::new(), HashMap::new());
        for symbol in file.symbols().filter(|symbol| symbol.is_definition()) {
            let Ok(name) = symbol.name() else { continue };
            by_name.insert(name.to_owned(), symbol.address());
            if symbol.kind() == SymbolKind::Text {
                let name = format!("{:#}", rustc_demangle::demangle(name));
                by_address.insert(symbol.address(), name);
            }
        }
        Symbols { by_address, by_name }
    }

    fn variable(&self, name: &str) -> Result<u64> {
        self.by_name.get(name).copied().with_context(|| format!("it has no {name}"))
    }

    fn function(&self, address: u64) -> String {
        let name = self.by_address.get(&address);
        name.map_or_else(|| format!("{address:#x}"), Clone::clone)
    }
}

/// Where in the file what is at an address is.
struct Offsets(Vec<(std::ops::Range<u64>, u64)>);

impl Offsets {
    fn of(file: &ElfFile64) -> Offsets {
        let in_file = file.sections().filter_map(|section| {
            let (offset, size) = section.file_range()?;
            (section.address() != 0).then(|| (section.address()..section.address() + size, offset))
        });
        Offsets(in_file.collect())
    }

    fn find(&self, address: u64) -> Result<usize> {
        let part = self.0.iter().find(|(range, _)| range.contains(&address));
        let (range, offset) = part.with_context(|| format!("{address:#x} is not in the file"))?;
        Ok((address - range.start + offset) as usize)
    }
}
