//! Files below a folder, by names that somebody hostile chose: no link is ever followed on the way, so nothing
//! outside of the folder is written, whatever is in it.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    fchmod, futimens, mkdirat, openat, renameat, symlinkat, unlinkat, utimensat, AtFlags, Mode,
    OFlags, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of the mode that are kept: no program of the guest runs as another user here.
const KEPT: u32 = 0o777;
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// A folder.
pub struct Below(OwnedFd);

/// A file that does not have its name yet. Dropped before [`NewFile::finish`] it is gone.
pub struct NewFile<'a> {
    folder: &'a Below,
    temporary: String,
    /// Where its contents are written.
    pub file: File,
    named: bool,
}

impl Below {
    /// The folder at a path of ours, made with all above it if there is none.
    pub fn open(path: &Path) -> io::Result<Below> {
        std::fs::create_dir_all(path)?;
        Ok(Below(openat(rustix::fs::CWD, path, FOLDER, Mode::empty())?))
    }

    /// The folder with a name in it, made if there is none.
    pub fn make(&self, name: &[u8]) -> io::Result<Below> {
        let name = OsStr::from_bytes(name);
        match mkdirat(&self.0, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Below(openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// The same as far down as names go.
    pub fn make_all(&self, names: &[Vec<u8>]) -> io::Result<Below> {
        let mut at = Below(self.0.try_clone()?);
        for name in names {
            at = at.make(name)?;
        }
        Ok(at)
    }

    /// Gives the folder itself mode and time.
    pub fn set(&self, mode: u32, mtime: i64) -> io::Result<()> {
        futimens(&self.0, &times(mtime))?;
        Ok(fchmod(&self.0, Mode::from_raw_mode(mode & KEPT))?)
    }

    /// A new file, still without name.
    pub fn file(&self) -> io::Result<NewFile<'_>> {
        let temporary = temporary();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.0, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(NewFile { folder: self, temporary, file: file.into(), named: false })
    }

    /// A symbolic link, in place of what has the name.
    pub fn symlink(&self, name: &[u8], text: &[u8], mtime: i64) -> io::Result<()> {
        let temporary = temporary();
        symlinkat(OsStr::from_bytes(text), &self.0, &temporary)?;
        let named = utimensat(&self.0, &temporary, &times(mtime), AtFlags::SYMLINK_NOFOLLOW)
            .and_then(|()| renameat(&self.0, &temporary, &self.0, OsStr::from_bytes(name)));
        named.map_err(|error| {
            self.remove(&temporary);
            error.into()
        })
    }

    fn remove(&self, temporary: &str) {
        // What stays has a name that says what it is.
        let _ = unlinkat(self.0.as_fd(), temporary, AtFlags::empty());
    }
}

impl NewFile<'_> {
    /// Gives it mode, time, and a name, which it takes over from what had it.
    pub fn finish(mut self, name: &[u8], mode: u32, mtime: i64) -> io::Result<()> {
        fchmod(&self.file, Mode::from_raw_mode(mode & KEPT))?;
        futimens(&self.file, &times(mtime))?;
        renameat(&self.folder.0, &self.temporary, &self.folder.0, OsStr::from_bytes(name))?;
        self.named = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.named {
            self.folder.remove(&self.temporary);
        }
    }
}

/// A name that nothing has.
fn temporary() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(".x-out.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn times(mtime: i64) -> Timestamps {
    const SECOND: i64 = 1_000_000_000;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: mtime.div_euclid(SECOND),
            tv_nsec: mtime.rem_euclid(SECOND),
        },
    }
}
