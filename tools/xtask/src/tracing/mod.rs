//! The function trace, on this side: probes are patched into what was built for them, and what they
//! recorded is taken out of the machine's memory when it has ended.

pub mod command;
mod page;
mod patch;
mod sources;
mod text;

use crate::compile::{self, Built, Scope, UserProgram};
use crate::log::Record;
use crate::machine::{Boot, MachineOptions};
use crate::project::Project;
use crate::toolchain::Variant;
use ::trace::dump::{CoreEvents, Dump, Function};
use ::trace::probe::{ALIGNMENT, HEADER_BYTES};
use ::trace::{Event, What};
use anyhow::{bail, ensure, Context, Result};
use patch::Patcher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Images with probes, and the functions that these name.
pub struct Traced {
    pub built: Built,
    images: Vec<String>,
    functions: BTreeMap<u32, Function>,
}

/// Builds everything with places for probes, and puts probes there.
pub fn build(project: &Project, scope: Scope) -> Result<Traced> {
    let built = compile::build_variant(project, scope, Variant::Traced)?;
    let folder = project.path("target/traced/images");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut patcher = Patcher::new(&project.root);
    let kernel = put_probes(&mut patcher, &folder, &built.kernel, true)?;
    let programs = built.programs.iter().map(|program| {
        let file = put_probes(&mut patcher, &folder, &program.file, false)?;
        Ok(UserProgram { file, ..program.clone() })
    });
    let programs = programs.collect::<Result<_>>()?;
    let built = Built { variant: Variant::Traced, scope, kernel, programs };
    Ok(Traced { built, images: patcher.images, functions: patcher.functions })
}

/// The patched copy of an image in `folder`.
fn put_probes(patcher: &mut Patcher, folder: &Path, image: &Path, kernel: bool) -> Result<PathBuf> {
    let name = image.file_name().and_then(|name| name.to_str()).context("an image has no name")?;
    let data = fs::read(image).with_context(|| format!("{}", image.display()))?;
    let patched = patcher
        .patch(name, data, kernel)
        .with_context(|| format!("cannot put probes into {}", image.display()))?;
    let copy = folder.join(name);
    // What is the same stays as old as it is: the boot image need not be made again.
    if !fs::read(&copy).is_ok_and(|old| old == patched) {
        // Another call of this tool may do the same.
        let temporary = folder.join(format!("{name}.{}", std::process::id()));
        fs::write(&temporary, patched)
            .and_then(|()| fs::rename(&temporary, &copy))
            .with_context(|| format!("cannot write {}", copy.display()))?;
    }
    Ok(copy)
}

/// A file for the machine's memory, which is deleted when this is dropped.
pub struct Memory(pub PathBuf);

impl Memory {
    pub fn new(project: &Project) -> Memory {
        Memory(project.state().join(format!("memory.{}", std::process::id())))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A file that stays behind is in the build folder and harms nobody.
        let _ = fs::remove_file(&self.0);
    }
}

/// A run whose trace is being recorded.
pub struct Recording {
    traced: Traced,
    memory: Memory,
}

impl Recording {
    /// Builds what is needed.
    pub fn new(project: &Project) -> Result<Recording> {
        Ok(Recording { traced: build(project, Scope::System)?, memory: Memory::new(project) })
    }

    /// What is to be booted.
    pub fn built(&self) -> &Built {
        &self.traced.built
    }

    /// Has a boot record into buffers of so many bytes.
    pub fn prepare(&self, boot: &mut Boot, bytes: u64) {
        boot.memory_file = Some(self.memory.0.clone());
        boot.command_line += &format!(" trace={bytes}");
    }

    /// Writes what was recorded; `boot_too`: the start of the system is to be shown.
    pub fn save(&self, boot: &Boot, log: &[Record], boot_too: bool, to: &Path) -> Result<()> {
        let mut dump = collect(&self.traced, &boot.options, &self.memory, log)?;
        dump.begins_with_program = !boot_too;
        fs::write(to, dump.to_bytes()).with_context(|| format!("cannot write {}", to.display()))
    }
}

/// Takes the trace out of the memory of a machine that has ended.
pub fn collect(
    traced: &Traced,
    machine: &MachineOptions,
    memory: &Memory,
    log: &[Record],
) -> Result<Dump> {
    let Some([address, bytes, cores]) = log.iter().find_map(buffers) else {
        bail!("the kernel did not say where its trace is: it ended before that, or has no probes");
    };
    let file = File::open(&memory.0).with_context(|| format!("{}", memory.0.display()))?;
    let cores = (0..cores).map(|core| read_buffer(&file, address + core * bytes, bytes));
    let cores = cores.collect::<Result<Vec<_>>>()?;
    let used: BTreeSet<u32> = cores.iter().flat_map(|core| &core.events).filter_map(used).collect();
    let mut functions = traced.functions.clone();
    functions.retain(|number, _| used.contains(number));
    let images = traced.images.clone();
    let (counts_instructions, begins_with_program) = (machine.icount, false);
    Ok(Dump { counts_instructions, begins_with_program, images, functions, cores })
}

/// The words of `@trace ADDRESS BYTES CORES`.
fn buffers(record: &Record) -> Option<[u64; 3]> {
    let [address, bytes, cores] = record.words.as_slice() else { return None };
    let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    (record.kind == "trace").then_some([address, bytes.parse().ok()?, cores.parse().ok()?])
}

fn used(event: &Event) -> Option<u32> {
    match event.what() {
        Ok(What::Enter(function) | What::Exit(function)) => Some(function),
        _ => None,
    }
}

/// The events in the buffer at a physical address, which is below the hole for devices: there
/// addresses are offsets in the file.
fn read_buffer(memory: &File, address: u64, bytes: u64) -> Result<CoreEvents> {
    const HOLE: u64 = 0x8000_0000;
    ensure!(
        address.is_multiple_of(ALIGNMENT) && bytes > HEADER_BYTES && address + bytes <= HOLE,
        "the kernel says that a buffer is at {address:#x}, which cannot be"
    );
    let mut header = [0; 16];
    memory.read_exact_at(&mut header, address)?;
    let word = |at| u64::from_le_bytes(std::array::from_fn(|n| header[at + n]));
    let (cursor, size) = (word(0), word(8));
    ensure!(
        size == bytes && cursor >= HEADER_BYTES && cursor.is_multiple_of(8),
        "the buffer of events at {address:#x} was overwritten"
    );
    let end = cursor.min(bytes);
    let mut data = vec![0; (end - HEADER_BYTES) as usize];
    memory.read_exact_at(&mut data, address + HEADER_BYTES)?;
    let events = data.as_chunks().0.iter().map(|word| Event(u64::from_le_bytes(*word)));
    // A place that was taken and not filled by the time that the machine ended.
    let events = events.filter(|event| event.0 != 0).collect();
    Ok(CoreEvents { events, lost: (cursor - end) / 8 })
}
