//! Persistent memory of the emulated machine: a file of this one.
//!
//! It is at the same physical address in every boot, whatever else the machine has: what is stored there may hold
//! physical addresses. That is far above any other memory, and as high as the emulator's 40 bits of a
//! physical address allow with room for large files.

use anyhow::{bail, ensure, Context, Result};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Physical address of its first byte.
pub const ADDRESS: u64 = 512 << 30;
/// Pages are as large as this at most, and pools take as much at least.
const UNIT: u64 = 2 << 20;
/// Of a file that is not there yet, unless its size is given.
const USUAL_SIZE: u64 = 64 << 20;
/// With [`MOST_MEMORY_MIB`] the emulator's windows for devices, which are behind, still end below 1 TiB.
const LARGEST: u64 = 192 << 30;
/// Most memory of a machine that has some of it.
const MOST_MEMORY_MIB: u64 = 256 << 10;

/// What a user says of it: `FILE[:SIZE][,domain=cpu|memory]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    file: PathBuf,
    /// Bytes.
    size: Option<u64>,
    domain: Domain,
}

/// What survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// What was stored: the caches are written back by what is left of the power.
    Cpu,
    /// What has been written back from the caches.
    Memory,
}

/// Takes an option apart.
pub fn parse(text: &str) -> Result<Wish> {
    let (rest, domain) = match text.rsplit_once(",domain=") {
        None => (text, Domain::Cpu),
        Some((rest, "cpu")) => (rest, Domain::Cpu),
        Some((rest, "memory")) => (rest, Domain::Memory),
        Some((_, other)) => bail!("the domain is cpu or memory, not {other:?}"),
    };
    let is_size = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let (file, size) = match rest.rsplit_once(':').filter(|(_, size)| is_size(size)) {
        Some((file, size)) => (file, Some(parse_size(size)?)),
        None => (rest, None),
    };
    ensure!(!file.is_empty(), "the name of a file is missing");
    Ok(Wish { file: file.into(), size, domain })
}

fn parse_size(text: &str) -> Result<u64> {
    const WRONG: &str = "a size is a number and M, G or T, such as 64M";
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => bail!(WRONG),
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    let bytes = bytes.context(WRONG)?;
    ensure!(bytes.is_multiple_of(UNIT) && bytes > 0, "persistent memory has a multiple of 2M");
    ensure!(bytes <= LARGEST, "persistent memory has at most {}", in_words(LARGEST));
    Ok(bytes)
}

fn in_words(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ => format!("{bytes} bytes"),
    }
}

/// A file as persistent memory, of this machine alone as long as this lives.
pub struct Module {
    file: PathBuf,
    bytes: u64,
    domain: Domain,
    _lock: File,
}

impl Module {
    /// Opens the file, or makes it if it is not there. `mib`: the other memory of the machine.
    pub fn open(wish: &Wish, mib: u64) -> Result<Module> {
        ensure!(
            mib <= MOST_MEMORY_MIB,
            "with --nvdimm, --mem is at most {}",
            in_words(MOST_MEMORY_MIB << 20)
        );
        let named = || format!("--nvdimm {}", wish.file.display());
        let (file, bytes) = open_file(wish).with_context(named)?;
        // A file system without locks has none.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            bail!("{}: another machine has it", named());
        }
        let name = std::path::absolute(&wish.file).with_context(named)?;
        Ok(Module { file: name, bytes, domain: wish.domain, _lock: file })
    }

    /// The emulator's other options.
    pub fn arguments(&self) -> Vec<OsString> {
        let domain = match self.domain {
            Domain::Cpu => "cpu",
            Domain::Memory => "mem-ctrl",
        };
        let mut backend = OsString::from(format!(
            "memory-backend-file,id=nvdimm,share=on,size={},mem-path=",
            self.bytes
        ));
        backend.push(with_commas(&self.file));
        vec![
            "-machine".into(),
            format!("nvdimm=on,nvdimm-persistence={domain}").into(),
            "-object".into(),
            backend,
            "-device".into(),
            format!("nvdimm,id=nvdimm0,memdev=nvdimm,addr={ADDRESS:#x}").into(),
        ]
    }
}

/// A file that the machine only reads.
pub struct ReadOnly {
    file: PathBuf,
    bytes: u64,
}

impl ReadOnly {
    /// Of all bytes of a file.
    pub fn open(file: &Path) -> Result<ReadOnly> {
        let named = || format!("{}", file.display());
        let bytes = fs::metadata(file).with_context(named)?.len();
        ensure!(bytes.is_multiple_of(UNIT) && bytes > 0, "{} has {bytes} bytes", named());
        Ok(ReadOnly { file: std::path::absolute(file).with_context(named)?, bytes })
    }

    /// The emulator's options. Its place is the first that is free: nothing in it knows its address.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut backend = OsString::from(format!(
            "memory-backend-file,id=image,share=on,readonly=on,size={},mem-path=",
            self.bytes
        ));
        backend.push(with_commas(&self.file));
        let device = "nvdimm,id=nvdimm1,memdev=image,unarmed=on";
        ["-machine", "nvdimm=on", "-object"]
            .map(OsString::from)
            .into_iter()
            .chain([backend, "-device".into(), device.into()])
            .collect()
    }
}

/// What follows the size of the memory, `mib` MiB, in the emulator's option `-m`: room for modules. The room begins
/// somewhere behind that memory, and by the first 4 GiB at most later than that is large.
pub fn room(written: Option<&Module>, read: Option<&ReadOnly>, mib: u64) -> String {
    /// One more: where a module begins is rounded up.
    const GIB: u64 = 1 << 30;
    let slots = u32::from(written.is_some()) + u32::from(read.is_some());
    let bytes = written.map_or(0, |module| ADDRESS + module.bytes)
        + read.map_or(0, |image| image.bytes.next_multiple_of(GIB) + GIB);
    match slots {
        0 => String::new(),
        _ => {
            let more = bytes.div_ceil(1 << 20).next_multiple_of(1 << 10);
            format!(",slots={slots},maxmem={}M", mib + more)
        }
    }
}

/// As the emulator wants it: a comma is two.
pub fn with_commas(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let doubled = path.as_os_str().as_bytes().iter().flat_map(|&byte| {
        let times = if byte == b',' { 2 } else { 1 };
        std::iter::repeat_n(byte, times)
    });
    OsString::from_vec(doubled.collect())
}

/// The file, and the bytes of it that are memory.
fn open_file(wish: &Wish) -> Result<(File, u64)> {
    let is_new = match fs::metadata(&wish.file) {
        Ok(what) if what.is_dir() => bail!("is a folder; persistent memory is a file"),
        Ok(what) if !what.is_file() => bail!("is no regular file"),
        // One without contents has nothing to lose.
        Ok(what) => what.len() == 0,
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(error.into()),
    };
    let mut options = File::options();
    options.read(true).write(true).create(is_new);
    let file = options.open(&wish.file).context("cannot be opened to read and write")?;
    if is_new {
        let bytes = wish.size.unwrap_or(USUAL_SIZE);
        file.set_len(bytes).with_context(|| format!("cannot be {}", in_words(bytes)))?;
    }
    let bytes = file.metadata()?.len();
    if let Some(wanted) = wish.size.filter(|&wanted| wanted != bytes) {
        let (has, wanted) = (in_words(bytes), in_words(wanted));
        bail!("has {has}, not {wanted}; without a size, it is used as it is");
    }
    let usable = bytes / UNIT * UNIT;
    ensure!(usable > 0, "has {}; persistent memory has at least 2M", in_words(bytes));
    ensure!(usable <= LARGEST, "has {}; at most {}", in_words(bytes), in_words(LARGEST));
    Ok((file, usable))
}

/// Can this machine's own processor address it? What is not known is tried.
pub fn host_can_address() -> bool {
    const NEEDED: u32 = 40;
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    physical_bits(&text).is_none_or(|bits| bits >= NEEDED)
}

fn physical_bits(cpuinfo: &str) -> Option<u32> {
    let line = cpuinfo.lines().find(|line| line.starts_with("address sizes"))?;
    line.split_once(':')?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(file: &str, size: Option<u64>, domain: Domain) -> Wish {
        Wish { file: file.into(), size, domain }
    }

    #[test]
    fn options_are_taken_apart() {
        let good = [
            ("a.img", wish("a.img", None, Domain::Cpu)),
            ("a.img:128M", wish("a.img", Some(128 << 20), Domain::Cpu)),
            ("/x/a:b:2g,domain=memory", wish("/x/a:b", Some(2 << 30), Domain::Memory)),
            ("a,b:c,domain=cpu", wish("a,b:c", None, Domain::Cpu)),
            ("a:192GiB", wish("a", Some(192 << 30), Domain::Cpu)),
        ];
        for (text, expected) in good {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
        let bad = [
            ("", "missing"),
            (":64M", "missing"),
            ("a:64", "a size is"),
            ("a:64K", "a size is"),
            ("a:0M", "multiple of 2M"),
            ("a:3M", "multiple of 2M"),
            ("a:193G", "at most 192G"),
            ("a:99999999999T", "a size is"),
            ("a:99999999999999999999999M", "a size is"),
            ("a,domain=disk", "cpu or memory"),
        ];
        for (text, part) in bad {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("nvdimm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn files_are_made_kept_and_refused() {
        let folder = folder("files");
        let named = |name: &str| folder.join(name).display().to_string();
        let open = |text: &str| Module::open(&parse(text).unwrap(), 1024);
        let error = |text: &str| format!("{:#}", open(text).err().unwrap());
        assert_eq!(open(&named("new")).unwrap().bytes, 64 << 20);
        assert_eq!(open(&format!("{}:4M", named("small"))).unwrap().bytes, 4 << 20);
        // What is there stays as it is.
        fs::write(named("odd"), vec![7; (4 << 20) + 5]).unwrap();
        assert_eq!(open(&named("odd")).unwrap().bytes, 4 << 20);
        assert_eq!(fs::metadata(named("odd")).unwrap().len(), (4 << 20) + 5);
        assert_eq!(open(&format!("{}:4M", named("small"))).unwrap().bytes, 4 << 20);
        assert!(error(&format!("{}:6M", named("small"))).contains("has 4M, not 6M"));
        fs::write(named("tiny"), "x").unwrap();
        assert!(error(&named("tiny")).contains("at least 2M"));
        assert!(error(&folder.display().to_string()).contains("is a folder"));
        assert!(error(&named("none/new")).contains("cannot be opened"));
        assert!(error("/dev/null").contains("is no regular file"));
        let first = open(&named("new")).unwrap();
        assert!(error(&named("new")).contains("another machine has it"));
        drop(first);
        assert!(Module::open(&parse(&named("new")).unwrap(), 512 << 10).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_emulator_is_told_all() {
        let folder = folder("arguments");
        let name = folder.join("a,b c");
        let module = |domain: &str| {
            Module::open(&parse(&format!("{}:2M{domain}", name.display())).unwrap(), 256).unwrap()
        };
        let words: Vec<String> = module(",domain=memory")
            .arguments()
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        assert!(words[1].ends_with("nvdimm-persistence=mem-ctrl"));
        assert!(words[3].contains("size=2097152,") && words[3].ends_with("/a,,b c"));
        assert!(words[5].ends_with("addr=0x8000000000"));
        assert!(module("").arguments()[1].to_str().unwrap().ends_with("=cpu"));
        let module = module("");
        assert_eq!(room(Some(&module), None, 256), ",slots=1,maxmem=525568M");
        let image = ReadOnly { file: name, bytes: (1 << 30) + (2 << 20) };
        assert_eq!(room(None, Some(&image), 256), ",slots=1,maxmem=3328M");
        assert_eq!(room(Some(&module), Some(&image), 256), ",slots=2,maxmem=528640M");
        assert_eq!(room(None, None, 256), "");
        let words = image.arguments().join(" ".as_ref()).into_string().unwrap();
        assert!(words.contains("readonly=on,size=1075838976,") && words.ends_with("unarmed=on"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_processor_says_how_wide_addresses_are() {
        let text = "model name\t: x\naddress sizes\t: 39 bits physical, 48 bits virtual\n";
        assert_eq!(physical_bits(text), Some(39));
        assert_eq!(physical_bits(""), None);
    }
}
