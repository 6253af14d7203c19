//! What there is in the tree at first.

use crate::nodes::Tree;
use crate::open::device;
use crate::registers;
use bootarchive::{Entry, Kind};
use memfs::{Attr, Cred, Ino};
use unixproto::Errno;

/// Where files of the root file system are in the archive.
const ROOT_PREFIX: &[u8] = b"root/";
/// The terminal's name in `/dev`.
pub const CONSOLE: &[u8] = b"console";
/// Where pseudoterminals have their names.
pub const PTS: &[u8] = b"dev/pts";
const DEVICES: [(&[u8], u64, u32); 9] = [
    (b"null", device::NULL, 0o666),
    (b"zero", device::ZERO, 0o666),
    (b"full", device::FULL, 0o666),
    (b"random", device::RANDOM, 0o666),
    (b"urandom", device::URANDOM, 0o666),
    (b"tty", device::TTY, 0o666),
    (CONSOLE, device::CONSOLE, 0o620),
    (b"ttyS0", device::SERIAL, 0o620),
    (b"ptmx", device::PTMX, 0o666),
];
const DEV_LINKS: [(&[u8], &[u8]); 4] = [
    (b"fd", b"/proc/self/fd"),
    (b"stdin", b"/proc/self/fd/0"),
    (b"stdout", b"/proc/self/fd/1"),
    (b"stderr", b"/proc/self/fd/2"),
];

impl Tree {
    /// Fills the file system from the root image and the archive, then adds `/dev` and `/proc`. `now`: the time,
    /// nanoseconds since 1970.
    pub fn populate(&mut self, archive: &[u8], now: i64) -> Result<(), &'static str> {
        self.mount_image()?;
        let root = self.files().names().root();
        self.read_dir(root).map_err(|_| "the root image cannot be read")?;
        for entry in bootarchive::entries(archive) {
            let entry = entry.map_err(|_| "the boot archive is damaged")?;
            let Some(path) = entry.path.strip_prefix(ROOT_PREFIX) else { continue };
            if !path.is_empty() && self.add_entry(path, &entry, now).is_err() {
                libos::log!("unixd: cannot add /{}", alloc::string::String::from_utf8_lossy(path));
            }
        }
        self.add_dev_and_proc(now).map_err(|_| "no /dev and /proc")
    }

    /// The directory at a path, read, and made with everything above it if need be.
    fn directory(&mut self, path: &[u8], attr: Attr) -> Result<Ino, Errno> {
        let mut at = self.files().names().root();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            self.read_dir(at)?;
            let fs = self.files_mut().names_mut();
            at = match fs.lookup(at, name)? {
                Some(ino) => ino,
                None => fs.mkdir(at, name, attr.clone())?,
            };
        }
        self.read_dir(at)?;
        Ok(at)
    }

    fn add_entry(&mut self, path: &[u8], entry: &Entry, now: i64) -> Result<(), Errno> {
        let time = if entry.mtime == 0 { now } else { entry.mtime as i64 * 1_000_000_000 };
        // Owners of files do not matter to whoever makes them here.
        let attr = Attr { mode: entry.mode & 0o7777, cred: Cred::ROOT, now: time };
        let (mode, root) = (attr.mode, Attr { mode: 0o755, cred: Cred::ROOT, now });
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let (dir, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        let dir = self.directory(dir, root)?;
        if entry.kind() == Kind::Directory {
            let ino = self.directory(path, attr)?;
            return self.own_as(ino, mode, entry);
        }
        if entry.kind() == Kind::Other {
            return Ok(());
        }
        let files = self.files_mut();
        if files.names().lookup(dir, name)?.is_some() {
            files.names_mut().unlink(dir, name, &Cred::ROOT, now)?;
        }
        let ino = match entry.kind() {
            Kind::Symlink => {
                let node = memfs::Node::Symlink(entry.data.to_vec());
                files.names_mut().create(dir, name, node, attr)?
            }
            _ => {
                let place = (entry.offset as u64, entry.data.len() as u64);
                files.create_archived(dir, name, place, attr)?
            }
        };
        self.own_as(ino, mode, entry)
    }

    /// Gives what was made the mode and the owner that the archive says.
    fn own_as(&mut self, ino: Ino, mode: u32, entry: &Entry) -> Result<(), Errno> {
        let fs = self.files_mut().names_mut();
        let inode = fs.get_mut(ino)?;
        (inode.mode, inode.gid) = (mode, entry.gid);
        fs.give(ino, entry.uid)?;
        Ok(())
    }

    fn add_dev_and_proc(&mut self, now: i64) -> Result<(), Errno> {
        let attr = Attr { mode: 0o755, cred: Cred::ROOT, now };
        let dev = self.directory(b"dev", attr.clone())?;
        let fs = self.files_mut().names_mut();
        for (name, number, mode) in DEVICES {
            fs.create(dev, name, memfs::Node::Device(number), Attr { mode, ..attr.clone() })?;
        }
        if registers::are_there() {
            let attr = Attr { mode: 0o600, ..attr.clone() };
            fs.create(dev, b"hpet", memfs::Node::Device(device::HPET), attr)?;
        }
        for (name, text) in DEV_LINKS {
            let node = memfs::Node::Symlink(text.to_vec());
            fs.create(dev, name, node, Attr { mode: 0o777, ..attr.clone() })?;
        }
        self.directory(PTS, attr.clone())?;
        self.directory(b"dev/shm", Attr { mode: 0o1777, ..attr.clone() })?;
        self.directory(b"tmp", Attr { mode: 0o1777, ..attr.clone() })?;
        let proc = self.directory(b"proc", Attr { mode: 0o555, ..attr.clone() })?;
        self.show_proc(proc)
    }
}
