//! A disk for pages that leave memory: `./x run --swap SIZE|FILE`.

use crate::nvdimm::with_commas;
use anyhow::{ensure, Context, Result};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Most of it (the memory of the machine that describes it has 0.2 % of that).
const MOST: u64 = 64 << 30;
const LEAST: u64 = 2 << 20;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The first page of a swap area of so many pages: version 1, no bad pages, a label for whoever asks (`union swap_header`).
fn header(pages: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    page[1024..1028].copy_from_slice(&1u32.to_le_bytes());
    let last = u32::try_from(pages - 1).unwrap_or(u32::MAX);
    page[1028..1032].copy_from_slice(&last.to_le_bytes());
    page[1052..1059].copy_from_slice(b"tessera");
    page[4086..].copy_from_slice(b"SWAPSPACE2");
    page
}

/// What a user says of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// A file that is there only as long as the machine.
    Size(u64),
    /// Whatever is in it is lost.
    File(PathBuf),
}

/// Rules for the emulator's `blkdebug`, from words: `write after 100` (requests), or `read of 2048` (a sector).
pub fn rules(words: &str) -> Result<String> {
    use std::fmt::Write;
    let inject = |what: String| {
        format!("[inject-error]\n{what}errno = \"5\"\nonce = \"off\"\nimmediately = \"off\"\n")
    };
    if let Some(count) = words.strip_prefix("write after ") {
        let count: u32 = count.parse()?;
        let mut rules = String::new();
        for state in 1..=count {
            let next = state + 1;
            write!(
                rules,
                "[set-state]\nevent = \"write_aio\"\nstate = \"{state}\"\nnew_state = \"{next}\"\n"
            )?;
        }
        let state = count + 1;
        return Ok(rules
            + &inject(format!(
                "event = \"write_aio\"\niotype = \"write\"\nstate = \"{state}\"\n"
            )));
    }
    let sector: u64 = words.strip_prefix("read of ").context("what fails?")?.parse()?;
    Ok(inject(format!("event = \"none\"\niotype = \"read\"\nsector = \"{sector}\"\n")))
}

/// Takes an option apart: a size, such as 512M, or the name of a file that is there.
pub fn parse(text: &str) -> Result<Wish> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let shift = match text[digits..].trim_end_matches("iB") {
        "K" | "k" => Some(10),
        "M" | "m" => Some(20),
        "G" | "g" => Some(30),
        _ => None,
    };
    if let (Some(shift), Ok(number), false) =
        (shift, text[..digits].parse::<u64>(), Path::new(text).exists())
    {
        let bytes = number.checked_shl(shift).filter(|bytes| bytes >> shift == number);
        let bytes = bytes.filter(|bytes| (LEAST..=MOST).contains(bytes));
        let bytes = bytes.with_context(|| format!("{text}: 2M to 64G"))?;
        return Ok(Wish::Size(bytes));
    }
    ensure!(Path::new(text).is_file(), "{text}: neither a size, such as 512M, nor a file");
    Ok(Wish::File(text.into()))
}

/// The disk.
pub struct Disk {
    path: PathBuf,
    is_ours: bool,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl Disk {
    /// Finds or makes its file.
    pub fn open(wish: &Wish) -> Result<Disk> {
        match wish {
            Wish::File(path) => {
                let named = || format!("--swap {}", path.display());
                let file = OpenOptions::new().read(true).write(true).open(path);
                let bytes = file.with_context(named)?.metadata().with_context(named)?.len();
                ensure!(bytes >= LEAST, "{}: it is smaller than 2M", named());
                ensure!(bytes <= MOST, "{}: it is larger than 64G", named());
                Ok(Disk { path: path.clone(), is_ours: false })
            }
            Wish::Size(bytes) => {
                let number = MADE.fetch_add(1, Ordering::Relaxed);
                let name = format!("tessera-swap-{}-{number}", std::process::id());
                let path = std::env::temp_dir().join(name);
                let made = File::create_new(&path).and_then(|file| file.set_len(*bytes));
                let disk = Disk { path, is_ours: true };
                made.with_context(|| format!("{}", disk.path.display()))?;
                Ok(disk)
            }
        }
    }

    /// Writes what Linux wants to find on a disk for pages, as its `mkswap` does. Tessera looks at nothing of it.
    pub fn format(&self) -> Result<()> {
        let named = || format!("{}", self.path.display());
        let file = OpenOptions::new().write(true).open(&self.path).with_context(named)?;
        let pages = file.metadata().with_context(named)?.len() / PAGE;
        file.write_all_at(&header(pages), 0).with_context(named)
    }

    /// Words of the kernel's command line.
    pub fn command_line(&self) -> &'static str {
        " swap=1"
    }

    /// The emulator's options. `iommu`: there is one. `rules`: of errors, for `blkdebug`. Of several disks this is the last on the bus.
    pub fn arguments(&self, iommu: bool, rules: Option<&Path>) -> Vec<OsString> {
        let mut backend =
            OsString::from("if=none,id=swap,format=raw,cache=unsafe,werror=report,rerror=report,");
        match rules {
            None => backend.push("file="),
            Some(rules) => {
                backend.push("file.driver=blkdebug,file.config=");
                backend.push(with_commas(rules));
                backend.push(",file.image.driver=file,file.image.filename=");
            }
        }
        backend.push(with_commas(&self.path));
        // Else a device of this kind goes round the IOMMU.
        let platform = if iommu { ",iommu_platform=on" } else { "" };
        let device =
            format!("virtio-blk-pci,drive=swap,addr=1e,disable-legacy=on,vectors=1{platform}");
        vec!["-drive".into(), backend, "-device".into(), device.into()]
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_ours {
            // Nobody needs it, whoever else may have removed it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_mkswap_writes_it() {
        let page = header(8192);
        assert_eq!(page.len(), 4096);
        assert_eq!(page[1024..1032], [1, 0, 0, 0, 0xff, 0x1f, 0, 0]);
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(page.iter().filter(|byte| **byte != 0).count(), 3 + 7 + 10);
    }

    #[test]
    fn sizes_and_files() {
        assert_eq!(parse("512M").unwrap(), Wish::Size(512 << 20));
        assert_eq!(parse("2048K").unwrap(), Wish::Size(2 << 20));
        for wrong in ["", "2047K", "65G", "12", "99999999999999999999G", "/no/such/file"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
