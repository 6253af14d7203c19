//! A file of persistent memory, as the boot after a power failure would find it.
//!
//! The same crates recover it as in the machine ([`morsel`], [`pmfs`]), in a copy in the memory of the host; what is in it can be
//! written to a folder, where ordinary programs look at it. That takes a few milliseconds, where a boot takes half a second.

#![forbid(unsafe_code)]

mod machine;
mod names;

use machine::Machine;
use morsel::{At, Memory, Record, Recovery};
use names::Area;
use pmfs::{Ino, Kind, Mount, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, FileExt, PermissionsExt};
use std::path::Path;

const PAGE: u64 = 4096;

/// Why it is not as the algorithms leave it.
#[derive(Debug)]
pub enum Wrong {
    /// There is no such pool, or none that can be used.
    Size,
    /// Recovery, or an operation on an object, says so.
    Objects(morsel::Refused),
    /// The mount of the names says so.
    Names(pmfs::Refused),
    /// Names or attributes that cannot be read.
    Inode(pmfs::Error),
    /// A page is missing of an object that must have all.
    Hole { number: u32, page: u64 },
    /// There is no object with names.
    NoNames,
    /// To recover it once more changes it.
    Unsettled,
    /// Frames that are in use and can be reached from nowhere.
    Lost(usize),
    /// The folder.
    Host(io::Error),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Wrong {}

impl From<morsel::Refused> for Wrong {
    fn from(refused: morsel::Refused) -> Wrong {
        Wrong::Objects(refused)
    }
}

impl From<pmfs::Refused> for Wrong {
    fn from(refused: pmfs::Refused) -> Wrong {
        Wrong::Names(refused)
    }
}

impl From<pmfs::Error> for Wrong {
    fn from(error: pmfs::Error) -> Wrong {
        Wrong::Inode(error)
    }
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        Wrong::Host(error)
    }
}

/// A pool that was recovered.
pub struct PoolImage {
    machine: Machine,
}

impl PoolImage {
    /// Recovers a copy of a file of persistent memory whose first byte is at `address`.
    ///
    /// # Errors
    /// [`Wrong`]: the boot would refuse it. [`Wrong::Unsettled`] if the boot after it would find something else.
    pub fn recover(bytes: &[u8], address: u64) -> Result<PoolImage, Wrong> {
        let machine = Machine::new(bytes, address / PAGE).ok_or(Wrong::Size)?;
        machine.inspect()?;
        recover(&machine)?;
        let again = machine.booted();
        recover(&again)?;
        match again.is_same(&machine) {
            true => Ok(PoolImage { machine }),
            false => Err(Wrong::Unsettled),
        }
    }

    /// Writes the files, links and folders of `/pmem` below a folder that is empty, with their permissions.
    ///
    /// # Errors
    /// [`Wrong`].
    pub fn extract(&self, folder: &Path) -> Result<(), Wrong> {
        self.with_names(|fs| {
            let mut linked = BTreeMap::new();
            self.extract_dir(fs, fs.root(), folder, &mut linked)
        })
    }

    /// Does what a start does with contents that no file names, then destroys those of all files: all of the pool but
    /// the names must be free then.
    ///
    /// # Errors
    /// [`Wrong`]; [`Wrong::Lost`].
    pub fn empty(self) -> Result<(), Wrong> {
        let (names, contents) = self.objects()?;
        for number in contents {
            let morsels = self.machine.morsels();
            let record = morsels.open(number)?;
            morsels.destroy(record)?;
            while !morsels.reap(record)? {}
        }
        // What can be reached is counted by recovery.
        let reached = self.machine.booted();
        recover(&reached)?;
        if reached.morsels().open(names).is_err() {
            return Err(Wrong::NoNames);
        }
        match self.machine.used().abs_diff(reached.used()) {
            0 => Ok(()),
            lost => Err(Wrong::Lost(lost)),
        }
    }

    /// The object with the names, and all others.
    fn objects(&self) -> Result<(u32, BTreeSet<u32>), Wrong> {
        let morsels = self.machine.morsels();
        let pages = morsel::pages_of(morsels.anchor(morsels.directory()).order());
        let numbers = 1..pages as u32 * morsel::RECORDS;
        let mut all: BTreeSet<u32> = numbers.filter(|&id| morsels.open(id).is_ok()).collect();
        let names = all.pop_first().ok_or(Wrong::NoNames)?;
        Ok((names, all))
    }

    fn with_names<R>(
        &self,
        work: impl FnOnce(&pmfs::Fs<Area<'_>>) -> Result<R, Wrong>,
    ) -> Result<R, Wrong> {
        let (names, contents) = self.objects()?;
        let mut mount = Mount::new(Area::new(&self.machine, names)?, 1)?;
        while !mount.step(|number| contents.contains(&number))? {}
        work(&mount.finish()?)
    }

    fn extract_dir(
        &self,
        fs: &pmfs::Fs<Area<'_>>,
        dir: Ino,
        folder: &Path,
        linked: &mut BTreeMap<Ino, std::path::PathBuf>,
    ) -> Result<(), Wrong> {
        for entry in fs.read_dir(dir, 0)? {
            let path = folder.join(OsStr::from_bytes(&entry.name));
            let stat = fs.stat(entry.ino)?;
            if stat.kind != Kind::Dir {
                if let Some(first) = linked.get(&entry.ino) {
                    fs::hard_link(first, &path)?;
                    continue;
                }
                linked.insert(entry.ino, path.clone());
            }
            match stat.kind {
                Kind::Dir => {
                    fs::create_dir(&path)?;
                    self.extract_dir(fs, entry.ino, &path, linked)?;
                }
                Kind::File => self.extract_file(&stat, &path)?,
                Kind::Symlink => symlink(OsStr::from_bytes(&fs.read_link(entry.ino)?), &path)?,
                // Nobody needs them outside.
                Kind::Fifo | Kind::Char | Kind::Block | Kind::Socket => {}
            }
            if matches!(stat.kind, Kind::Dir | Kind::File) {
                fs::set_permissions(&path, Permissions::from_mode(stat.attr.mode.into()))?;
            }
        }
        Ok(())
    }

    fn extract_file(&self, stat: &Stat, path: &Path) -> Result<(), Wrong> {
        let file = File::create_new(path)?;
        let Some(number) = stat.content else { return Ok(()) };
        let morsels = self.machine.morsels();
        let record = morsels.open(number)?;
        let limit = morsels.limit(record);
        file.set_len(limit)?;
        for page in 0..limit.div_ceil(PAGE) {
            if let Some(bytes) = self.page(record, page)? {
                let count = (limit - page * PAGE).min(PAGE) as usize;
                file.write_all_at(&bytes[..count], page * PAGE)?;
            }
        }
        Ok(())
    }

    fn page(&self, record: Record, page: u64) -> Result<Option<Vec<u8>>, Wrong> {
        let frame = self.machine.morsels().look_at(record, page, |frame| frame)?;
        Ok(frame.map(|frame| {
            let words = (0..512).map(|index| self.machine.load(At { frame, index }));
            words.flat_map(u64::to_le_bytes).collect()
        }))
    }
}

fn recover(machine: &Machine) -> Result<(), Wrong> {
    let (morsels, mut recovery) = (machine.morsels(), Recovery::new());
    while !recovery.step(&morsels)? {}
    Ok(())
}
