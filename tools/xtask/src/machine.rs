//! The emulated machine: what a user may choose about it, and QEMU's command line for it.

use crate::disk::{self, Disk};
use crate::map;
use crate::net::{self, Network};
use crate::nvdimm::{self, Module, ReadOnly};
use crate::project::Project;
use crate::share::{self, Folder};
use crate::swap;
use anyhow::{bail, ensure, Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs};

pub const QEMU: &str = "qemu-system-x86_64";

/// Values that the guest writes to the debug-exit port; QEMU ends with `2 * value + 1`.
pub const EXIT_ORDERLY: i32 = 0x10 * 2 + 1;
pub const EXIT_PANIC: i32 = 0x11 * 2 + 1;

/// How the cores are chosen where Linux programs have their homes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Homes {
    /// All at the core of the servers.
    One,
    /// Where least is to be done.
    Load,
    /// At random, by this seed.
    Seed(u64),
}

impl FromStr for Homes {
    type Err = String;

    fn from_str(text: &str) -> Result<Homes, String> {
        match text {
            "one" => Ok(Homes::One),
            "load" => Ok(Homes::Load),
            _ => text.parse().map(Homes::Seed).map_err(|_| "neither one, load nor a number".into()),
        }
    }
}

impl fmt::Display for Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Homes::One => f.write_str("one"),
            Homes::Load => f.write_str("load"),
            Homes::Seed(seed) => seed.fmt(f),
        }
    }
}

/// Options of the machine, common to `run`, `test` and `bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct MachineOptions {
    /// Processor cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cores: u32,
    /// NUMA nodes: cores and memory are divided evenly over them, in order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub nodes: u32,
    /// Memory, such as 512M or 2G; at least 32M (38M for 64 cores), and 16M more than the boot image, which grows with the files given
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub mem: MemorySize,
    /// A memory disk of this size, /dev/ram0, such as 64K or 16G: whole pages, taken from the memory when they are
    /// first written
    #[arg(long, value_name = "SIZE", value_parser = parse_disk)]
    pub md: Option<u64>,
    /// Persistent memory: FILE, which is made (64M) if it is not there, and keeps what the guest stores in it. At
    /// physical address 512 GiB in every boot. domain=cpu (as without it): what was stored survives a power failure;
    /// domain=memory: only what was written back from the caches; the guest is told
    #[arg(long, value_name = "FILE[:SIZE][,domain=cpu|memory]", value_parser = nvdimm::parse)]
    pub nvdimm: Option<nvdimm::Wish>,
    /// A disk for pages that leave memory when there is too little: SIZE, such as 512M, for this run, or FILE, whose contents are
    /// lost
    #[arg(long, value_name = "SIZE|FILE", value_parser = swap::parse)]
    pub swap: Option<swap::Wish>,
    /// A folder of this machine: an option of `./x run` alone
    #[arg(skip)]
    pub share: Option<share::Wish>,
    /// The network: options of `./x run` alone
    #[arg(skip)]
    pub net: net::Wish,
    /// Disks: an option of `./x run` alone
    #[arg(skip)]
    pub disks: Vec<disk::Wish>,
    /// Errors of the disks: a file with rules for the emulator's `blkdebug`, for tests
    #[arg(long, hide = true, value_name = "FILE")]
    pub disk_errors: Option<PathBuf>,
    /// The same of the disk for pages
    #[arg(long, hide = true, value_name = "FILE")]
    pub swap_errors: Option<PathBuf>,
    /// A root image
    #[arg(skip)]
    pub root_image: Option<PathBuf>,
    /// Count instructions: one instruction takes one nanosecond of the guest's time, and every run
    /// is the same (no KVM; several cores take turns)
    #[arg(long)]
    pub icount: bool,
    /// With --icount: cores take very short turns, so that they work almost at the same time, and the
    /// kernel counts how many of them do (/proc/tessera/cores)
    #[arg(long, hide = true, requires = "icount", conflicts_with = "nodes")]
    pub turns: bool,
    /// The core at which the first program has its home
    #[arg(long, hide = true, value_name = "CORE")]
    pub home: Option<u32>,
    /// Which cores do what programs ask of the kernel: where least is to be done (load), that of the servers (one), or at random by a seed
    #[arg(long, value_name = "load|one|SEED", default_value_t = Homes::Load)]
    pub homes: Homes,
    /// Programs and their parts are at random places
    #[arg(skip)]
    pub randmaps: bool,
    /// Paging with five levels (LA57): addresses of 57 bits (no KVM)
    #[arg(long)]
    pub la57: bool,
    /// An IOMMU, which the kernel uses to keep a device to the memory that it was given; a function of a device that
    /// nobody has attached to any memory reaches all of it, as without (no KVM)
    #[arg(long)]
    pub iommu: bool,
    /// A device that copies as it is told (QEMU's edu): for tests
    #[arg(skip)]
    pub edu: bool,
    /// Features that the processor shall not have, by QEMU's names, such as smap,smep (no KVM)
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Take commands of QEMU's monitor (QMP) at this socket, which is made: for tests
    #[arg(long, hide = true, value_name = "SOCKET")]
    pub qmp: Option<PathBuf>,
    /// Wait for gdb on this TCP port before the first instruction
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "1234")]
    pub gdb: Option<u16>,
}

/// What the system itself needs besides its boot image, in MiB.
const SYSTEM_MIB: u64 = 16;

impl MachineOptions {
    /// Does the host's own processor do?
    fn can_use_kvm(&self) -> bool {
        let addressable = self.nvdimm.is_none() || nvdimm::host_can_address();
        !self.icount
            && self.gdb.is_none()
            && !self.la57
            && !self.iommu
            && self.without.is_empty()
            && addressable
    }
}

impl MachineOptions {
    /// Fails if an image, and `more` MiB for something else, leave too little memory.
    pub fn check_memory(&self, image: &Path, more: u64) -> Result<()> {
        let bytes = fs::metadata(image).with_context(|| format!("{}", image.display()))?.len();
        let image = bytes.div_ceil(1 << 20);
        let (mem, needed) = (self.mem.mib, SYSTEM_MIB + image + more);
        let rest = if more > 0 { format!(", {more} for the trace") } else { String::new() };
        ensure!(
            mem >= needed,
            "--mem {mem}M is too little; at least --mem {needed}M: {SYSTEM_MIB} MiB for the system, {image} for the \
             image with the program and its files{rest}"
        );
        Ok(())
    }
}

impl Default for MachineOptions {
    fn default() -> Self {
        let mem = MemorySize { mib: 1024 };
        MachineOptions {
            cores: 1,
            nodes: 1,
            mem,
            md: None,
            nvdimm: None,
            swap: None,
            share: None,
            net: net::Wish::default(),
            disks: Vec::new(),
            disk_errors: None,
            swap_errors: None,
            root_image: None,
            icount: false,
            turns: false,
            home: None,
            homes: Homes::One,
            randmaps: false,
            la57: false,
            iommu: false,
            edu: false,
            without: Vec::new(),
            qmp: None,
            gdb: None,
        }
    }
}

/// A whole number of MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySize {
    pub mib: u64,
}

/// `512M`, `2G`.
pub fn parse_size(text: &str) -> Result<MemorySize> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: u64 = match digits.parse() {
        Ok(number) => number,
        Err(_) => bail!("a size is a number and M, G or T, such as 512M"),
    };
    let mib = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "M" => number,
        "G" => number.saturating_mul(1 << 10),
        "T" => number.saturating_mul(1 << 20),
        _ => bail!("a size is a number and M, G or T, such as 512M"),
    };
    if !(32..=1 << 20).contains(&mib) {
        bail!("the machine can have between 32M and 1T");
    }
    Ok(MemorySize { mib })
}

/// `4K`, `16G`, or bytes; the bytes of a memory disk.
fn parse_disk(text: &str) -> Result<u64> {
    const WRONG: &str = "a size is a number and K, M, G or T, such as 64M, or bytes";
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: u64 = digits.parse().map_err(|_| anyhow::anyhow!(WRONG))?;
    let shift = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => bail!(WRONG),
    };
    let bytes = number.saturating_mul(1 << shift);
    ensure!((PAGE..=LARGEST_DISK).contains(&bytes), "a memory disk has between 4K and 64T");
    ensure!(bytes.is_multiple_of(PAGE), "a memory disk has whole pages of 4096 bytes");
    Ok(bytes)
}

const PAGE: u64 = 4096;
/// As large as the largest file.
const LARGEST_DISK: u64 = 64 << 40;

/// Everything that one boot needs.
pub struct Boot {
    pub kernel: PathBuf,
    pub image: PathBuf,
    /// The kernel's command line: `key=value`, separated by spaces.
    pub command_line: String,
    pub options: MachineOptions,
    /// Run on the host's processor; decided by [`crate::kvm::usable`].
    pub kvm: bool,
    /// What the program's streams go over.
    pub streams: Streams,
    /// A file that is the machine's memory: below 2.75 GiB, a physical address is an offset in it.
    pub memory_file: Option<PathBuf>,
    /// Persistent memory.
    pub nvdimm: Option<Module>,
    /// A root file system that is only read.
    pub root_image: Option<ReadOnly>,
    /// A folder of the host.
    pub share: Option<Folder>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// Where pages go.
    pub swap: Option<swap::Disk>,
    /// The network.
    pub net: Network,
}

/// What the program's streams go over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Streams {
    /// The first serial port, all of them.
    Serial,
    /// Ports of a virtio console, each one of its own.
    Device,
}

/// File descriptors, inherited by QEMU, that are the far ends of the guest's ports.
#[derive(Clone, Copy)]
pub struct Ports {
    /// The second serial port.
    pub control: i32,
    /// The first one, or the port of the device with the input.
    pub first: i32,
    /// The ports of the device with standard output and error.
    pub others: Option<[i32; 2]>,
    /// The port of the device that files come out of, if there is to be one.
    pub files: Option<i32>,
}

impl Ports {
    /// All of them.
    pub fn all(self) -> impl Iterator<Item = i32> {
        let others = self.others.into_iter().flatten().chain(self.files);
        [self.control, self.first].into_iter().chain(others)
    }
}

pub fn arguments(boot: &Boot, ports: Ports) -> Vec<OsString> {
    let options = &boot.options;
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |text: &str| arguments.extend(text.split_whitespace().map(OsString::from));
    add("-machine q35 -nodefaults -no-user-config -no-reboot -display none -vga none");
    if options.iommu {
        // Before all devices. With addresses of 48 bits it reaches all memory that there can be.
        add("-device intel-iommu,aw-bits=48,intremap=off");
    }
    if options.edu {
        add("-device edu,dma_mask=0x7fffffffffff");
    }
    if boot.kvm {
        add("-accel kvm -cpu host");
    } else {
        // Byte-counting string instructions (ERMS) and protection keys distort what TCG measures.
        // Counted instructions are those of all cores, which take turns then.
        let threads = match (options.cores, options.icount) {
            (1, _) => "",
            (_, true) => ",thread=single",
            (_, false) => ",thread=multi",
        };
        let lacks: String = options.without.iter().map(|name| format!(",-{name}")).collect();
        add(&format!("-accel tcg{threads} -cpu max,-erms,-pku{lacks}"));
    }
    if options.icount {
        // The date and what the machine calls random are the same in every run too.
        add("-icount shift=0,sleep=off -seed 1 -rtc base=2026-01-01,clock=vm");
    }
    if let Some(port) = options.gdb {
        add(&format!("-gdb tcp::{port} -S"));
    }
    let mib = options.mem.mib;
    let room = nvdimm::room(boot.nvdimm.as_ref(), boot.root_image.as_ref(), mib);
    add(&format!("-smp {} -m {mib}M{room}", options.cores));
    if options.nodes > 1 {
        // A node is at least a socket.
        add(&format!("-smp sockets={}", options.cores));
        (0..options.nodes).for_each(|node| add(&numa_node(options, node)));
    }
    if let Some(file) = &boot.memory_file {
        let (size, path) = (options.mem.mib, file.display());
        let backend =
            format!("memory-backend-file,id=memory,size={size}M,share=on,mem-path={path}");
        add(&format!("-object {backend} -machine memory-backend=memory"));
    }
    add("-device isa-debug-exit,iobase=0xf4,iosize=0x04");
    // What a slow reader does not take stays with whoever writes: sockets, and no virtconsole, which drops it.
    add(&format!("-chardev socket,id=first,fd={}", ports.first));
    match ports.others {
        None => add("-serial chardev:first"),
        Some([out, err]) => {
            add("-serial null");
            add(&format!("-chardev socket,id=out,fd={out} -chardev socket,id=err,fd={err}"));
            let mut names = vec!["first", "out", "err"];
            if let Some(files) = ports.files {
                add(&format!("-chardev socket,id=files,fd={files}"));
                names.push("files");
            }
            // Number 0 is one too.
            let most = names.len() + 1;
            // Else a device of this kind goes round the IOMMU.
            let platform = if options.iommu { ",iommu_platform=on" } else { "" };
            add(&format!(
                "-device virtio-serial-pci,id=streams,disable-legacy=on,max_ports={most},vectors=1{platform}"
            ));
            for (number, name) in (1..).zip(names) {
                add(&format!(
                    "-device virtserialport,bus=streams.0,nr={number},chardev={name},name={name}"
                ));
            }
        }
    }
    add(&format!("-chardev socket,id=control,fd={} -serial chardev:control", ports.control));
    if let Some(module) = &boot.nvdimm {
        arguments.extend(module.arguments());
    }
    if let Some(image) = &boot.root_image {
        arguments.extend(image.arguments());
    }
    if let Some(folder) = &boot.share {
        arguments.extend(folder.arguments(options.iommu));
    }
    arguments.extend(disk::arguments(&boot.disks, options.iommu, options.disk_errors.as_deref()));
    if let Some(disk) = &boot.swap {
        arguments.extend(disk.arguments(options.iommu, options.swap_errors.as_deref()));
    }
    arguments.extend(boot.net.arguments(options.iommu));
    if let Some(socket) = &options.qmp {
        let at = format!("unix:{},server=on,wait=off", socket.display());
        arguments.extend(["-qmp".into(), at.into()]);
    }
    arguments.extend(["-kernel".into(), boot.kernel.clone().into()]);
    arguments.extend(["-initrd".into(), boot.image.clone().into()]);
    let la57 = if options.la57 { " la57" } else { "" };
    let home = options.home.map_or(String::new(), |core| format!(" home={core}"));
    let homes = match (options.homes, options.cores) {
        // There is nothing to choose.
        (Homes::One, _) | (_, 1) => String::new(),
        (homes, _) => format!(" homes={homes}"),
    };
    let randmaps = if options.randmaps { " randmaps" } else { "" };
    let turns = if options.turns { " occupancy=turns" } else { "" };
    // So that a guest which cannot use the device says so, and does not write where nobody reads.
    let streams = if boot.streams == Streams::Device { " streams=device" } else { "" };
    let disk = options.md.map_or(String::new(), |bytes| format!(" md={bytes}"));
    let share = boot.share.as_ref().map_or(String::new(), Folder::command_line);
    let disks = disk::command_line(&boot.disks);
    let swap = boot.swap.as_ref().map_or("", swap::Disk::command_line);
    let net = boot.net.command_line();
    let words = format!(
        "{}{la57}{home}{homes}{randmaps}{turns}{streams}{disk}{share}{disks}{swap}{net}",
        boot.command_line
    );
    arguments.extend(["-append".into(), words.into()]);
    arguments
}

/// One NUMA node with its cores and its memory.
fn numa_node(options: &MachineOptions, node: u32) -> String {
    let MachineOptions { cores, nodes, .. } = *options;
    let first = |node: u32| (node * cores).div_ceil(nodes);
    let cpus = format!("{}-{}", first(node), first(node + 1) - 1);
    let even = options.mem.mib / u64::from(nodes);
    let rest = if node + 1 == nodes { options.mem.mib % u64::from(nodes) } else { 0 };
    format!(
        "-object memory-backend-ram,id=node{node},size={}M \
         -numa node,nodeid={node},memdev=node{node},cpus={cpus}",
        even + rest
    )
}

impl Boot {
    /// A boot of the built kernel with `image`; picks the accelerator.
    pub fn new(project: &Project, image: &Path, options: &MachineOptions) -> Result<Boot> {
        if options.nodes > options.cores {
            bail!("every NUMA node has a core: --nodes cannot be more than --cores");
        }
        options.check_memory(image, 0)?;
        let nvdimm = options.nvdimm.as_ref();
        let nvdimm = nvdimm.map(|wish| Module::open(wish, options.mem.mib)).transpose()?;
        let root_image = options.root_image.as_deref().map(ReadOnly::open).transpose()?;
        let share = options.share.as_ref().map(Folder::open).transpose()?;
        let swap = options.swap.as_ref().map(swap::Disk::open).transpose()?;
        Ok(Boot {
            kernel: project.kernel(map::variant()),
            image: image.to_owned(),
            command_line: String::new(),
            options: options.clone(),
            kvm: options.can_use_kvm() && crate::kvm::usable(project),
            streams: Streams::Serial,
            memory_file: None,
            nvdimm,
            root_image,
            share,
            disks: Disk::open_all(&options.disks)?,
            swap,
            net: Network::open(&options.net)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_all_cores_and_all_memory() {
        let mem = MemorySize { mib: 1000 };
        let options = MachineOptions { cores: 7, nodes: 3, mem, ..MachineOptions::default() };
        let nodes = [0, 1, 2].map(|node| numa_node(&options, node));
        for (node, expected) in
            nodes.iter().zip([("333M", "0-2"), ("333M", "3-4"), ("334M", "5-6")])
        {
            let (size, cpus) = expected;
            assert!(node.contains(&format!("size={size} ")) && node.ends_with(cpus), "{node}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("128M").unwrap().mib, 128);
        assert_eq!(parse_size("2g").unwrap().mib, 2048);
        assert_eq!(parse_size("1GiB").unwrap().mib, 1024);
        assert_eq!(parse_size("1T").unwrap().mib, 1 << 20);
        for wrong in ["", "M", "12", "2T", "1P", "-1G", "1M", "99999999999999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        for (text, bytes) in [("4096", 4096), ("4k", 4096), ("64MiB", 64 << 20), ("64T", 64 << 40)]
        {
            assert_eq!(parse_disk(text).unwrap(), bytes);
        }
        for wrong in ["", "1", "4095", "5000", "65T", "4P", "18446744073709551615T", "-1"] {
            assert!(parse_disk(wrong).is_err(), "{wrong}");
        }
    }
}
