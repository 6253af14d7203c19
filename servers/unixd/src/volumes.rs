//! What is mounted, and what stands where.

use crate::nodes::{Node, Tree};
use crate::procfs::ProcNode;
use crate::share::folder_of;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use memfs::Ino;
use mounttable::{Gone, MountId, Mounts, SpaceId};
use piecewise::Limits;
use unixproto::Errno;

/// Mounts that there may be in all name spaces.
pub const MOUNTS_MAX: usize = 4096;
/// Device numbers of volumes beside the root begin here.
const FIRST_DEVICE: u64 = 0x20;

/// Flags of mounts, by Linux's numbers.
pub mod flag {
    pub const RDONLY: u32 = 1;
    pub const NOSUID: u32 = 2;
    pub const NODEV: u32 = 4;
    pub const NOEXEC: u32 = 8;
    pub const NOATIME: u32 = 0x400;
    pub const NODIRATIME: u32 = 0x800;
    pub const RELATIME: u32 = 0x20_0000;
    /// Those that a mount has for itself.
    pub const OF_MOUNT: u32 = RDONLY | NOSUID | NODEV | NOEXEC | NOATIME | NODIRATIME | RELATIME;
}

/// The kinds of what is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The tree at the root.
    Root,
    /// A tree in memory of its own, by its number there, and its root.
    Tmpfs(u32, Ino),
    /// Processes.
    Proc,
    /// The machine.
    Sys,
    /// Names of pseudoterminals.
    Devpts,
    /// Message queues of a name space.
    Mqueue,
    /// Files that survive.
    Pmem,
    /// The folder of the host.
    Host,
    /// A disk.
    Disk(u32),
}

/// What is mounted, in one place or several.
pub struct Volume {
    pub kind: Kind,
    /// Its source, as tables of mounts have it.
    pub source: Vec<u8>,
    /// `st_dev` of what is in it.
    pub device: u64,
    /// The user name space of who has made it: who may change it for all who see it.
    pub owner: u64,
    /// Nothing in it is changed, whatever mount it is changed by.
    pub read_only: Cell<bool>,
}

impl Volume {
    /// The name of its kind.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Root | Kind::Tmpfs(..) => "tmpfs",
            Kind::Proc => "proc",
            Kind::Sys => "sysfs",
            Kind::Devpts => "devpts",
            Kind::Mqueue => "mqueue",
            Kind::Pmem => "pmfs",
            Kind::Host => "9p",
            Kind::Disk(_) => "ext4",
        }
    }
}

/// A node as it is seen in a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    pub mount: MountId,
    pub node: Node,
}

/// Where a process stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Working directory.
    pub cwd: Spot,
    /// Root directory.
    pub root: Spot,
    /// Mount name space.
    pub space: SpaceId,
}

/// All that is mounted.
pub struct Mounted {
    pub table: Mounts<Node, Volume>,
    /// That of the first process.
    pub first: Standing,
    /// Directories of files that mounts show or cover, and how many mounts.
    pub places: BTreeMap<Node, (Node, u32)>,
    /// Another number each time that something may be mounted elsewhere than before.
    pub turn: u64,
}

impl Mounted {
    /// The tree at the root and nothing else.
    pub fn new(root: Ino) -> Mounted {
        let mut table = Mounts::new(Limits::of(MOUNTS_MAX));
        let volume = Volume {
            kind: Kind::Root,
            source: b"tessera".to_vec(),
            device: 1,
            owner: 0,
            read_only: Cell::new(false),
        };
        let node = Node::Mem(root);
        let made = table.first_space(node, flag::RELATIME, Rc::new(volume));
        let space = made.unwrap_or(SpaceId(0));
        let mount = table.space(space).map_or(MountId(0), |space| space.root);
        let root = Spot { mount, node };
        Mounted {
            table,
            first: Standing { cwd: root, root, space },
            places: BTreeMap::new(),
            turn: 0,
        }
    }
}

/// `st_dev` of a volume with a number.
pub fn device_of_volume(number: u32) -> u64 {
    let minor = FIRST_DEVICE + u64::from(number);
    minor & 0xff | (minor & !0xff) << 12
}

impl Tree {
    /// What is mounted where.
    #[inline]
    pub fn mounts(&self) -> &Mounts<Node, Volume> {
        &self.mounted().table
    }

    /// Where the first process stands.
    pub fn first(&self) -> Standing {
        self.mounted().first
    }

    /// What is seen at a node in a mount: whatever was mounted there last.
    #[inline]
    pub fn top(&self, mut spot: Spot) -> Spot {
        while let Some(mount) = self.mounts().covering(spot.mount, spot.node) {
            match self.mounts().get(mount) {
                Ok(found) => spot = Spot { mount, node: found.root },
                Err(_) => break,
            }
        }
        spot
    }

    /// Flags of a mount, with what holds for all of its volume.
    pub fn flags(&self, mount: MountId) -> u32 {
        self.mounts().get(mount).map_or(0, |mount| {
            mount.flags | if mount.volume.read_only.get() { flag::RDONLY } else { 0 }
        })
    }

    /// `EROFS` if nothing is changed by a mount.
    #[inline]
    pub fn may_write(&self, mount: MountId) -> Result<(), Errno> {
        match self.flags(mount) & flag::RDONLY {
            0 => Ok(()),
            _ => Err(Errno::EROFS),
        }
    }

    /// Mounts something at the start, where nobody is told.
    pub fn show(&mut self, at: Node, root: Node, volume: Volume) -> Result<(), Errno> {
        let mount = self.mounted().first.root.mount;
        self.mount((Spot { mount, node: at }, root), flag::RELATIME, Rc::new(volume), 0)?;
        Ok(())
    }

    /// Mounts something.
    pub fn mount(
        &mut self,
        (at, root): (Spot, Node),
        flags: u32,
        volume: Rc<Volume>,
        uid: u32,
    ) -> Result<MountId, Errno> {
        let table = &mut self.mounted_mut().table;
        let mount = table.mount((at.mount, at.node), root, flags, volume, uid)?;
        self.hold_for_mount(at.node);
        self.hold_for_mount(root);
        Ok(mount)
    }

    /// A mount shows a file, or covers it, that was found in a directory.
    pub fn note_place(&mut self, node: Node, dir: Node) {
        let is_file = matches!(node, Node::Mem(ino)
            if self.files().names().get(ino).is_ok_and(|inode| !inode.is_dir()));
        if is_file && matches!(dir, Node::Mem(_)) && !self.mounted().places.contains_key(&node) {
            self.hold(dir);
            self.mounted_users().places.insert(node, (dir, 0));
        }
    }

    /// A mount shows a node, or covers it.
    pub fn hold_for_mount(&mut self, node: Node) {
        self.hold(node);
        if let Some((_, count)) = self.mounted_users().places.get_mut(&node) {
            *count += 1;
        }
    }

    /// Not any more.
    pub fn release_from_mount(&mut self, node: Node) {
        self.release(node);
        let places = &mut self.mounted_users().places;
        if let Some((dir, count)) = places.get_mut(&node) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                let dir = *dir;
                places.remove(&node);
                self.release(dir);
            }
        }
    }

    /// Somebody stands somewhere.
    pub fn hold_spot(&mut self, spot: Spot) {
        self.hold(spot.node);
        self.hold_mount(spot.mount);
    }

    /// A process stands somewhere.
    pub fn hold_standing(&mut self, standing: &Standing) {
        self.hold_spot(standing.cwd);
        self.hold_spot(standing.root);
        self.mounted_users().table.join(standing.space);
    }

    /// Keeps a mount alive.
    #[inline]
    pub fn hold_mount(&mut self, mount: MountId) {
        self.mounted_users().table.hold(mount);
    }

    /// Ends a [`Tree::hold_mount`].
    #[inline]
    pub fn release_mount(&mut self, mount: MountId) {
        if let Some(gone) = self.mounted_users().table.release(mount) {
            self.let_go([gone]);
        }
    }

    /// A process has a name space no more.
    pub fn leave_space(&mut self, space: SpaceId) {
        let gone = self.mounted_users().table.leave(space);
        self.let_go(gone);
    }

    /// Lets go what a mount held that is gone.
    pub fn let_go(&mut self, gone: impl IntoIterator<Item = Gone<Node, Volume>>) {
        for one in gone {
            match one {
                Gone::At(node) => self.release_from_mount(node),
                Gone::Root(node, volume) => {
                    self.release_from_mount(node);
                    self.drop_volume(volume);
                }
            }
        }
    }

    /// One less has what can be mounted. A disk stays with its server until somebody unmounts it or the session ends.
    pub fn drop_volume(&mut self, volume: Rc<Volume>) {
        if let (Kind::Tmpfs(number, top), 1) = (volume.kind, Rc::strong_count(&volume)) {
            self.files_mut().names_mut().drop_volume(number, top);
        }
    }

    /// Mounts something at no place.
    pub fn mount_detached(
        &mut self,
        root: Node,
        flags: u32,
        volume: Rc<Volume>,
        uid: u32,
    ) -> Result<MountId, Errno> {
        let mount = self.mounted_mut().table.detached(root, flags, volume, uid)?;
        self.hold_for_mount(root);
        Ok(mount)
    }

    /// A mount that is still at no place goes.
    pub fn dissolve(&mut self, mount: MountId) {
        if self.mounts().is_detached(mount) {
            let gone = self.mounted_mut().table.dissolve(mount);
            self.let_go(gone);
        }
    }

    /// Where a node is in what it belongs to: from the root of that on.
    fn inner_path(&self, node: Node) -> Result<Vec<u8>, Errno> {
        let mut path = match node {
            Node::Proc(ProcNode::Root) => Vec::new(),
            Node::Proc(ProcNode::Made(number)) => {
                let above = if self.made().is_tunable(number) { "/sys" } else { "" };
                [above, &self.made().path(number)].concat().into_bytes()
            }
            // A file has no place of its own: where it was mounted is known.
            Node::Mem(ino) if !self.files().names().get(ino)?.is_dir() => {
                let (dir, _) = self.mounted().places.get(&node).ok_or(Errno::ENOENT)?;
                let Node::Mem(above) = *dir else { return Err(Errno::ENOENT) };
                let names = self.files().names();
                let name = names.get(above)?.dir()?.name_of(ino).ok_or(Errno::ENOENT)?.to_vec();
                let mut path = self.inner_path(*dir)?;
                path.push(b'/');
                path.extend(name);
                path
            }
            Node::Mem(ino) => self.files().names().path_of(ino)?,
            Node::Proc(node) => crate::procfs::path_of(node).split_off(b"/proc".len()),
            Node::Share(node) => self.share_of(node)?.path(node)?,
        };
        if path == b"/" {
            path.clear();
        }
        Ok(path)
    }

    /// The path of a node from the root of a volume on, as it is shown.
    pub fn path_in_volume(&self, node: Node, volume: &Volume) -> Vec<u8> {
        let mut path = self.inner_path(node).unwrap_or_default();
        let above: &[u8] = match volume.kind {
            Kind::Pmem => b"/pmem",
            Kind::Devpts => b"/dev/pts",
            _ => b"",
        };
        path = path.split_off(path.len().min(above.len()));
        if path.is_empty() {
            path.push(b'/');
        }
        path
    }

    /// The path from one node to another one that is below it in what they belong to; of itself nothing.
    pub fn path_below(&self, base: Node, node: Node) -> Result<Option<Vec<u8>>, Errno> {
        if base == node {
            return Ok(Some(Vec::new()));
        }
        let (base, mut path) = (self.inner_path(base)?, self.inner_path(node)?);
        let is_below = path.starts_with(&base) && path.get(base.len()) == Some(&b'/');
        Ok(is_below.then(|| path.split_off(base.len())))
    }

    /// The path of a directory as it is seen from a root. What does not lead there begins with `(unreachable)`.
    pub fn path_of(&self, spot: Spot, root: Spot) -> Result<Vec<u8>, Errno> {
        let (mut path, mut at) = (Vec::new(), spot);
        loop {
            if at.mount == root.mount {
                if let Some(above) = self.path_below(root.node, at.node)? {
                    path.splice(..0, above);
                    break;
                }
            }
            let mount = self.mounts().get(at.mount).map_err(|_| Errno::ENOENT)?;
            path.splice(..0, self.path_below(mount.root, at.node)?.ok_or(Errno::ENOENT)?);
            match mount.at {
                Some((mount, node)) => at = Spot { mount, node },
                None => {
                    if path.is_empty() {
                        path.push(b'/');
                    }
                    path.splice(..0, b"(unreachable)".iter().copied());
                    break;
                }
            }
            if path.len() > 4 * memfs::PATH_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    /// The path of a name in a directory.
    pub fn path_in(&self, dir: Spot, name: &[u8], root: Spot) -> Result<Vec<u8>, Errno> {
        let mut path = self.path_of(dir, root)?;
        if name != b"." {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        Ok(path)
    }

    /// The volume of a disk, if it is mounted anywhere.
    pub fn disk_volume(&self, folder: u32) -> Option<Rc<Volume>> {
        self.shown(folder).and_then(|volume| volume.upgrade())
    }

    /// What is shown of a share is mounted from now on.
    pub fn share_volume(
        &mut self,
        node: u32,
        kind: Kind,
        source: Vec<u8>,
        device: u64,
    ) -> Rc<Volume> {
        let folder = folder_of(node) as u32;
        let volume =
            Rc::new(Volume { kind, source, device, owner: 0, read_only: Cell::new(false) });
        self.set_shown(folder, &volume);
        volume
    }
}
