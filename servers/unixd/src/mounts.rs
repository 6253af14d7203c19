//! `mount`, `umount`, `chroot` and `pivot_root`.

use crate::nodes::Node;
use crate::open::device;
use crate::pathops::{PathOps, DEVICE};
use crate::procfs::{self, ProcNode};
use crate::spaces::Opened;
use crate::tmpfs::Options;
use crate::volumes::{device_of_volume, flag, Kind, Spot, Standing, Volume};
use crate::wait::{done, Call, Tried};
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use credentials::Capability;
use memfs::{Attr, Names, Step};
use mounttable::{MountId, Propagation};
use unixproto::files::CWD;
use unixproto::{op, Errno};

const MS_REMOUNT: u32 = 0x20;
const MS_MANDLOCK: u32 = 0x40;
const MS_BIND: u32 = 0x1000;
const MS_MOVE: u32 = 0x2000;
const MS_REC: u32 = 0x4000;
const MS_SILENT: u32 = 0x8000;
const MS_UNBINDABLE: u32 = 0x2_0000;
const MS_PRIVATE: u32 = 0x4_0000;
const MS_SLAVE: u32 = 0x8_0000;
const MS_SHARED: u32 = 0x10_0000;
const MS_STRICTATIME: u32 = 0x100_0000;
/// How mounts follow what is mounted in others.
const PROPAGATION: u32 = MS_UNBINDABLE | MS_PRIVATE | MS_SLAVE | MS_SHARED;
/// So many mounts may cover each other at one place: whoever walks there passes all of them.
const STACK_MAX: usize = 64;
/// In the upper half, by programs of long ago.
const MAGIC: u32 = 0xc0ed_0000;

const MNT_FORCE: u32 = 1;
const MNT_DETACH: u32 = 2;
const MNT_EXPIRE: u32 = 4;
const UMOUNT_NOFOLLOW: u32 = 8;

/// The types of what can be mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FsType {
    Tmpfs,
    Ramfs,
    Proc,
    Sysfs,
    Devpts,
    Mqueue,
    Ext4,
}

impl FsType {
    /// By its name.
    pub fn named(name: &[u8]) -> Option<FsType> {
        Some(match name {
            b"tmpfs" => FsType::Tmpfs,
            b"ramfs" => FsType::Ramfs,
            b"proc" => FsType::Proc,
            b"sysfs" => FsType::Sysfs,
            b"devpts" => FsType::Devpts,
            b"mqueue" => FsType::Mqueue,
            b"ext4" | b"ext3" | b"ext2" => FsType::Ext4,
            _ => return None,
        })
    }
}

/// What is made to be mounted.
pub(crate) struct Wanted<'a> {
    pub kind: FsType,
    pub source: &'a [u8],
    pub options: &'a [u8],
    pub read_only: bool,
}

/// What `mount` is asked for.
struct Wish {
    kind: Option<Vec<u8>>,
    source: Vec<u8>,
    options: Vec<u8>,
    flags: u32,
    target: Spot,
    /// The directory of the target.
    dir: Node,
}

impl Wish {
    /// Flags of the mount itself.
    fn of_mount(&self) -> u32 {
        let mut flags = self.flags & (flag::OF_MOUNT & !flag::RELATIME);
        if self.flags & (flag::NOATIME | MS_STRICTATIME) == 0 {
            flags |= flag::RELATIME;
        }
        flags
    }
}

/// How mounts are to follow each other. `EINVAL`: that is none of the four ways.
pub(crate) fn propagation(flags: u32) -> Result<Propagation, Errno> {
    Ok(match flags {
        MS_SHARED => Propagation::Shared,
        MS_PRIVATE => Propagation::Private,
        MS_SLAVE => Propagation::Slave,
        MS_UNBINDABLE => Propagation::Unbindable,
        _ => return Err(Errno::EINVAL),
    })
}

impl PathOps<'_> {
    /// `EPERM` unless the process may change what is mounted in its name space.
    pub(crate) fn may_mount(&self) -> Result<(), Errno> {
        let proc = self.procs.get(self.caller.pid)?;
        let owner = self.tree.mounts().space(proc.stands.space).map_or(0, |space| space.owner);
        match proc.who.has_in(owner, Capability::SysAdmin) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// `EINVAL` unless a mount is in the name space of the process.
    pub(crate) fn is_own(&self, mount: MountId) -> Result<(), Errno> {
        let space = self.procs.get(self.caller.pid)?.stands.space;
        match self.tree.mounts().get(mount)?.space() == Some(space) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }

    fn is_dir(&self, spot: Spot) -> Result<bool, Errno> {
        Ok(matches!(self.view()?.step(spot)?, Step::Dir))
    }

    /// `ENOSPC`: too much is mounted at one place already.
    pub(crate) fn has_room_on(&self, mut spot: Spot) -> Result<(), Errno> {
        for _ in 0..STACK_MAX {
            let mount = self.tree.mounts().get(spot.mount)?;
            match mount.at {
                Some((above, node)) if mount.root == spot.node => {
                    spot = Spot { mount: above, node };
                }
                _ => return Ok(()),
            }
        }
        Err(Errno::ENOSPC)
    }

    /// Is a node the root of its mount?
    pub(crate) fn is_root(&self, spot: Spot) -> Result<bool, Errno> {
        Ok(self.tree.mounts().get(spot.mount)?.root == spot.node)
    }

    /// `mount`.
    pub fn mount(&mut self, call: &Call, op: op::Mount) -> Tried {
        let a = self.procs.a(self.caller, call)?;
        let target = self.procs.b(self.caller, call)?;
        let found = self.view()?.walk(CWD, &target, true)?;
        let (target, dir) = (found.spot()?, found.parent);
        self.may_mount()?;
        let mut texts = a.splitn(3, |&byte| byte == 0).map(<[u8]>::to_vec);
        let mut next = || texts.next().unwrap_or_default();
        let (kind, source, mut options) = (next(), next(), next());
        let end = options.iter().position(|&byte| byte == 0);
        options.truncate(end.unwrap_or(options.len()));
        let mut flags = op.flags as u32;
        if flags & 0xffff_0000 == MAGIC {
            flags &= 0xffff;
        }
        flags &= !(MS_SILENT | MS_MANDLOCK);
        let kind = op.has_kind.then_some(kind);
        if flags & (MS_REMOUNT | PROPAGATION) == 0 {
            self.has_room_on(target)?;
        }
        let wish = Wish { kind, source, options, flags, target, dir };
        match () {
            () if flags & (MS_REMOUNT | MS_BIND) == MS_REMOUNT | MS_BIND => {
                self.remount(&wish, true)
            }
            () if flags & MS_REMOUNT != 0 => self.remount(&wish, false),
            () if flags & MS_BIND != 0 => {
                self.bind(&wish)?;
                self.propagate(target)
            }
            () if flags & PROPAGATION != 0 => self.set_propagation(&wish),
            () if flags & MS_MOVE != 0 => {
                self.move_mount(&wish)?;
                self.propagate(target)
            }
            () => {
                self.new_mount(wish)?;
                self.propagate(target)
            }
        }
    }

    /// The roots of those that follow a mount, of which a node is at or below.
    fn roots_above(&self, target: Spot) -> BTreeSet<Node> {
        let mut roots = self.tree.mounts().roots_of_followers(target.mount);
        let shows = |root: &Node| matches!(self.tree.path_below(*root, target.node), Ok(Some(_)));
        roots.retain(shows);
        roots.into_iter().collect()
    }

    /// What was mounted at a place is mounted wherever that is followed. If it cannot be, it is nowhere.
    pub(crate) fn propagate(&mut self, target: Spot) -> Tried {
        let Some(top) = self.tree.mounts().covering(target.mount, target.node) else {
            return done(());
        };
        let (uid, roots, mut held) = (self.cred().uid, self.roots_above(target), Vec::new());
        let shows = |root, _| roots.contains(&root);
        let table = &mut self.tree.mounted_mut().table;
        let result = table.propagate(top, uid, shows, |node| held.push(node));
        for node in held {
            self.tree.hold_for_mount(node);
        }
        if let Err(error) = result {
            let gone = self.tree.mounted_mut().table.unmount(top, true)?;
            self.tree.let_go(gone);
            return Err(error);
        }
        done(())
    }

    /// Changes flags: of a mount, or also those of what it shows.
    fn remount(&mut self, wish: &Wish, only_mount: bool) -> Tried {
        let target = wish.target;
        self.is_own(target.mount)?;
        if !self.is_root(target)? {
            return Err(Errno::EINVAL);
        }
        let flags = wish.of_mount();
        self.may_have_flags(target.mount, flags)?;
        if !only_mount {
            let volume = self.tree.mounts().get(target.mount)?.volume.clone();
            let read_only = wish.flags & flag::RDONLY != 0;
            self.change_volume(&volume, &wish.options, Some(read_only))?;
        }
        self.tree.mounted_mut().table.get_mut(target.mount)?.flags = flags;
        done(())
    }

    /// `EPERM`: a mount keeps flags that it would not have any more.
    pub(crate) fn may_have_flags(&self, mount: MountId, flags: u32) -> Result<(), Errno> {
        match self.tree.mounts().get(mount)?.kept & !flags {
            0 => Ok(()),
            _ => Err(Errno::EPERM),
        }
    }

    /// Changes what is shown by all mounts of it.
    pub(crate) fn change_volume(
        &mut self,
        volume: &Volume,
        options: &[u8],
        read_only: Option<bool>,
    ) -> Result<(), Errno> {
        if !self.procs.get(self.caller.pid)?.who.has_in(volume.owner, Capability::SysAdmin) {
            return Err(Errno::EPERM);
        }
        if let Kind::Tmpfs(number, _) = volume.kind {
            let options = Options::parse(options, self.ram())?;
            let names = self.tree.files_mut().names_mut();
            let had = names.volume(number).ok_or(Errno::EINVAL)?;
            let pages = options.pages.unwrap_or(had.pages_limit);
            names.limit_volume(number, pages, options.inodes.unwrap_or(had.inodes_limit))?;
        }
        let Some(read_only) = read_only else { return Ok(()) };
        if let Kind::Disk(_) | Kind::Host = volume.kind {
            // Its server has it as it was mounted.
            if volume.read_only.get() && !read_only {
                return Err(Errno::EROFS);
            }
        }
        volume.read_only.set(read_only);
        Ok(())
    }

    fn ram(&self) -> u64 {
        crate::caps::memory().1
    }

    /// Shows a part of a mount somewhere else, too.
    fn bind(&mut self, wish: &Wish) -> Tried {
        if wish.source.is_empty() {
            return Err(Errno::EINVAL);
        }
        let found = self.view()?.walk(CWD, &wish.source, true)?;
        let (mut source, from_dir) = (found.spot()?, found.parent);
        self.is_own(source.mount)?;
        self.is_own(wish.target.mount)?;
        let all = wish.flags & MS_REC != 0;
        let visible = self.may_copy(source, all)?;
        if self.is_dir(source)? != self.is_dir(wish.target)? {
            return Err(Errno::ENOTDIR);
        }
        let to = Some((wish.target, wish.dir));
        if let Node::Proc(ProcNode::Space(pid, name)) = source.node {
            // It is there as long as it is mounted, whoever goes.
            let space = self.view()?.space(pid, name)?;
            if matches!(space, Opened::Mounts(..)) {
                // A name space of mounts in one of them might be in itself.
                return Err(Errno::EINVAL);
            }
            source.node = self.tree.bind(space)?;
        }
        let copied = self.copy_mounts((source, from_dir), all, &visible, to);
        if let (Err(_), Node::Proc(ProcNode::Bound(number))) = (&copied, source.node) {
            self.tree.unbind(number, 0);
        }
        copied?;
        done(())
    }

    /// `EINVAL`: what is seen at a place must not be shown elsewhere, with all that is mounted below it or without. Answers the nodes below it on which
    /// something is mounted.
    pub(crate) fn may_copy(&self, source: Spot, all: bool) -> Result<BTreeSet<Node>, Errno> {
        if self.tree.mounts().get(source.mount)?.follows.is_unbindable {
            return Err(Errno::EINVAL);
        }
        let mut visible = BTreeSet::new();
        if !self.is_dir(source)? {
            return Ok(visible);
        }
        for mount in self.tree.mounts().below(source.mount) {
            let mount = self.tree.mounts().get(mount)?;
            let Some((_, node)) = mount.at.filter(|(above, _)| *above == source.mount) else {
                continue;
            };
            if self.tree.path_below(source.node, node)?.is_some() {
                if !all && mount.is_locked {
                    return Err(Errno::EINVAL);
                }
                visible.insert(node);
            }
        }
        Ok(visible)
    }

    /// Copies what is seen at a place, found in a directory, to another one, or to none.
    pub(crate) fn copy_mounts(
        &mut self,
        (source, from_dir): (Spot, Node),
        all: bool,
        visible: &BTreeSet<Node>,
        to: Option<(Spot, Node)>,
    ) -> Result<MountId, Errno> {
        let (uid, mut held) = (self.cred().uid, Vec::new());
        let table = &mut self.tree.mounted_mut().table;
        let from = (source.mount, source.node);
        let at = to.map(|(target, _)| (target.mount, target.node));
        let seen = |node| visible.contains(&node);
        let made = table.bind(from, at, all, uid, seen, |node| held.push(node));
        if made.is_ok() {
            self.tree.note_place(source.node, from_dir);
            if let Some((target, dir)) = to {
                self.tree.note_place(target.node, dir);
            }
        }
        for node in held {
            self.tree.hold_for_mount(node);
        }
        made
    }

    /// Says how mounts follow each other.
    fn set_propagation(&mut self, wish: &Wish) -> Tried {
        let how = propagation(wish.flags & !(MS_REC | MS_SILENT))?;
        let Spot { mount, .. } = wish.target;
        self.is_own(mount)?;
        if !self.is_root(wish.target)? {
            return Err(Errno::EINVAL);
        }
        let table = &mut self.tree.mounted_mut().table;
        let all = match wish.flags & MS_REC {
            0 => alloc::vec![mount],
            _ => table.below(mount),
        };
        all.into_iter().try_for_each(|id| table.set_propagation(id, how))?;
        done(())
    }

    /// Is what is mounted in a mount followed?
    fn is_followed(&self, mount: MountId) -> Result<bool, Errno> {
        Ok(self.tree.mounts().get(mount)?.follows.group != 0)
    }

    fn move_mount(&mut self, wish: &Wish) -> Tried {
        if wish.source.is_empty() {
            return Err(Errno::EINVAL);
        }
        let source = self.view()?.walk(CWD, &wish.source, true)?.spot()?;
        self.relocate(source, (wish.target, wish.dir))
    }

    /// Moves a mount to a place, found in a directory.
    pub(crate) fn relocate(&mut self, source: Spot, (target, dir): (Spot, Node)) -> Tried {
        if !self.tree.mounts().is_detached(source.mount) {
            self.is_own(source.mount)?;
        }
        self.is_own(target.mount)?;
        let is_locked = self.tree.mounts().get(source.mount)?.is_locked;
        let fits = self.is_dir(source)? == self.is_dir(target)?;
        if !self.is_root(source)? || is_locked || !fits {
            return Err(Errno::EINVAL);
        }
        // Others would have it where it was, or cannot have it where it is to be.
        let mounts = self.tree.mounts();
        let above = mounts.get(source.mount)?.at;
        let tree = mounts.below(source.mount);
        let is_unbindable =
            |id: &MountId| mounts.get(*id).is_ok_and(|one| one.follows.is_unbindable);
        let stays = above.is_some_and(|(above, _)| self.is_followed(above) == Ok(true));
        if stays || self.is_followed(target.mount)? && tree.iter().any(is_unbindable) {
            return Err(Errno::EINVAL);
        }
        let roots = self.roots_above(target);
        let to = (target.mount, target.node);
        let uid = self.cred().uid;
        mounts.may_propagate(to, (tree.len(), uid), |root, _| roots.contains(&root))?;
        let before = self.tree.mounted_mut().table.relocate(source.mount, to)?;
        self.tree.note_place(target.node, dir);
        self.tree.hold_for_mount(target.node);
        if let Some(before) = before {
            self.tree.release_from_mount(before);
        }
        done(())
    }

    fn new_mount(&mut self, wish: Wish) -> Tried {
        let kind = wish.kind.as_ref().ok_or(Errno::EINVAL)?;
        let kind = FsType::named(kind).ok_or(Errno::ENODEV)?;
        let read_only = wish.flags & flag::RDONLY != 0;
        let wanted = Wanted { kind, source: &wish.source, options: &wish.options, read_only };
        let (root, volume) = self.volume(&wanted, Some(wish.target))?;
        let uid = self.cred().uid;
        let mounted = self.tree.mount((wish.target, root), wish.of_mount(), volume.clone(), uid);
        if mounted.is_err() {
            self.tree.drop_volume(volume);
        }
        mounted?;
        done(())
    }

    /// Makes something that can be mounted. What is to be mounted `at` a place must fit there.
    pub(crate) fn volume(
        &mut self,
        wanted: &Wanted,
        at: Option<Spot>,
    ) -> Result<(Node, Rc<Volume>), Errno> {
        match wanted.kind {
            FsType::Tmpfs | FsType::Ramfs => self.make_tmpfs(wanted, at),
            FsType::Proc => self.make_shown((Kind::Proc, ProcNode::Root), wanted, at),
            FsType::Sysfs => {
                self.make_shown((Kind::Sys, ProcNode::Made(crate::made::SYS)), wanted, at)
            }
            FsType::Devpts => self.make_devpts(wanted, at),
            FsType::Mqueue => self.make_mqueue(wanted, at),
            FsType::Ext4 => self.make_disk(wanted, at),
        }
    }

    /// `EINVAL`, `ENOTDIR`: a directory cannot be shown there.
    fn may_cover(&self, target: Option<Spot>) -> Result<(), Errno> {
        let Some(target) = target else { return Ok(()) };
        self.is_own(target.mount)?;
        match self.is_dir(target)? {
            true => Ok(()),
            false => Err(Errno::ENOTDIR),
        }
    }

    /// The user name space of the process, to which belongs what it makes.
    pub(crate) fn owner(&self) -> Result<u64, Errno> {
        Ok(self.procs.get(self.caller.pid)?.who.space_number())
    }

    fn make_tmpfs(
        &mut self,
        wanted: &Wanted,
        at: Option<Spot>,
    ) -> Result<(Node, Rc<Volume>), Errno> {
        let options = Options::parse(wanted.options, self.ram())?;
        self.may_cover(at)?;
        let mut cred = self.cred();
        (cred.uid, cred.gid) = (options.uid.unwrap_or(cred.uid), options.gid.unwrap_or(cred.gid));
        let attr = Attr { mode: options.mode, cred, now: self.clock.wall() };
        let limits = (options.pages(self.ram()), options.inodes(self.ram()));
        let owner = self.owner()?;
        let names = self.tree.files_mut().names_mut();
        let (number, top) = names.make_volume(limits, attr)?;
        let volume = Volume {
            kind: Kind::Tmpfs(number, top),
            source: wanted.source.to_vec(),
            device: device_of_volume(number),
            owner,
            read_only: Cell::new(wanted.read_only),
        };
        Ok((Node::Mem(top), Rc::new(volume)))
    }

    fn make_shown(
        &mut self,
        (kind, root): (Kind, ProcNode),
        wanted: &Wanted,
        at: Option<Spot>,
    ) -> Result<(Node, Rc<Volume>), Errno> {
        // What it shows belongs to name spaces of which there are only the first, but for processes.
        let proc = self.procs.get(self.caller.pid)?;
        let shows_own = proc.pids.as_ref().filter(|_| root == ProcNode::Root);
        let owner = shows_own.map_or(0, |space| space.owner_number());
        if !proc.who.has_in(owner, Capability::SysAdmin) {
            return Err(Errno::EPERM);
        }
        self.may_cover(at)?;
        let device = if kind == Kind::Proc { procfs::DEVICE } else { procfs::SYS_DEVICE };
        let volume = Volume {
            kind,
            source: wanted.source.to_vec(),
            device,
            owner: self.owner()?,
            read_only: Cell::new(wanted.read_only),
        };
        Ok((Node::Proc(root), Rc::new(volume)))
    }

    /// The names of pseudoterminals, of which there is one directory: what is said of another one has no effect.
    fn make_devpts(
        &mut self,
        wanted: &Wanted,
        at: Option<Spot>,
    ) -> Result<(Node, Rc<Volume>), Errno> {
        let mut options = wanted.options.split(|&byte| byte == b',').filter(|one| !one.is_empty());
        if !options.all(|option| FsType::Devpts.takes(option)) {
            return Err(Errno::EINVAL);
        }
        self.may_cover(at)?;
        let names = crate::ptys::directory(self.tree.files().names()).ok_or(Errno::ENODEV)?;
        let volume = Volume {
            kind: Kind::Devpts,
            source: wanted.source.to_vec(),
            device: DEVICE,
            owner: self.owner()?,
            read_only: Cell::new(wanted.read_only),
        };
        Ok((Node::Mem(names), Rc::new(volume)))
    }

    /// The message queues of the name space of the process, of which there is one directory.
    fn make_mqueue(
        &mut self,
        wanted: &Wanted,
        at: Option<Spot>,
    ) -> Result<(Node, Rc<Volume>), Errno> {
        let proc = self.procs.get(self.caller.pid)?;
        let space = proc.spaces.ipc.clone();
        if !proc.who.has_in(space.owner, Capability::SysAdmin) {
            return Err(Errno::EPERM);
        }
        if !wanted.options.is_empty() {
            return Err(Errno::EINVAL);
        }
        self.may_cover(at)?;
        let (number, top) = space.queues(self.tree.files_mut().names_mut(), self.clock.wall())?;
        let volume = Volume {
            kind: Kind::Mqueue,
            source: wanted.source.to_vec(),
            device: device_of_volume(number),
            owner: self.owner()?,
            read_only: Cell::new(wanted.read_only),
        };
        Ok((Node::Mem(top), Rc::new(volume)))
    }

    fn make_disk(
        &mut self,
        wanted: &Wanted,
        at: Option<Spot>,
    ) -> Result<(Node, Rc<Volume>), Errno> {
        // What is on a disk is not to be trusted by who has not made it.
        if !self.has(Capability::SysAdmin)? {
            return Err(Errno::EPERM);
        }
        let disk = self.view()?.walk(CWD, wanted.source, true)?.existing()?;
        let memfs::Node::Block(number) = self.inode(disk).ok_or(Errno::ENOTBLK)?.node else {
            return Err(Errno::ENOTBLK);
        };
        if number == device::RAM_DISK {
            return Err(Errno::EINVAL);
        }
        self.may_cover(at)?;
        let share = self.tree.device(number).ok_or(Errno::ENXIO)?;
        let (root, folder) = (share.root(), share.folder());
        let read_only = wanted.read_only;
        let volume = match self.tree.disk_volume(folder) {
            Some(_) if at.is_some_and(|at| at.node == Node::Share(root)) => {
                return Err(Errno::EBUSY);
            }
            // It is there already; all see it in the same way.
            Some(volume) if volume.read_only.get() != read_only => return Err(Errno::EBUSY),
            Some(volume) => volume,
            None => {
                if !share.is_attached() {
                    share.visit(self.caller.tid, self.cred()).mount(read_only)?;
                }
                let read_only = share.is_read_only();
                let name = share.disk().map_or_else(Default::default, |disk| disk.name());
                let source = [b"/dev/", name.as_bytes()].concat();
                let volume = self.tree.share_volume(root, Kind::Disk(folder), source, number);
                volume.read_only.set(read_only);
                volume
            }
        };
        Ok((Node::Share(root), volume))
    }

    fn inode(&self, node: Node) -> Option<&memfs::Inode<crate::frames::Contents>> {
        match node {
            Node::Mem(ino) => self.tree.files().names().get(ino).ok(),
            _ => None,
        }
    }

    /// `umount`.
    pub fn unmount(&mut self, call: &Call, op: op::Unmount) -> Tried {
        if op.flags & !(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW) != 0 {
            return Err(Errno::EINVAL);
        }
        let tid = self.caller.tid;
        if !self.tree.shares().any(|share| share.is_leaving(tid)) {
            self.take_out(call, op.flags)?;
        }
        match self.tree.shares().find(|share| share.is_leaving(tid)) {
            Some(share) => done(share.visit(tid, self.cred()).unmount()?),
            None => done(()),
        }
    }

    fn take_out(&mut self, call: &Call, flags: u32) -> Result<(), Errno> {
        let target = self.procs.a(self.caller, call)?;
        let follow = flags & UMOUNT_NOFOLLOW == 0;
        let found = self.view()?.walk(CWD, &target, follow)?.spot()?;
        self.may_mount()?;
        if !self.is_root(found)? {
            return Err(Errno::EINVAL);
        }
        self.is_own(found.mount)?;
        let lazily = flags & MNT_DETACH != 0;
        if flags & MNT_EXPIRE != 0 && flags & (MNT_FORCE | MNT_DETACH) != 0 {
            return Err(Errno::EINVAL);
        }
        let mount = self.tree.mounts().get(found.mount)?;
        if mount.is_locked {
            return Err(Errno::EINVAL);
        }
        if flags & MNT_FORCE != 0 && !self.has(Capability::SysAdmin)? {
            return Err(Errno::EPERM);
        }
        if mount.at.is_none() {
            // What everything is in stays.
            return Err(if lazily { Errno::EINVAL } else { Errno::EBUSY });
        }
        if !lazily && (mount.is_held() || mount.has_children()) {
            return Err(Errno::EBUSY);
        }
        if flags & MNT_EXPIRE != 0 {
            // Nobody has asked before.
            return Err(Errno::EAGAIN);
        }
        let is_last = Rc::strong_count(&mount.volume) == 1 + self.tree.mounts().copies(found.mount);
        if let (Kind::Disk(_), Node::Share(root), true) = (mount.volume.kind, found.node, is_last) {
            let share = self.tree.share_of(root)?;
            // Where a part of it was the last that is mounted, or somebody is still in it, it stays with its server.
            if root == share.root() {
                let left = share.leave(self.caller.tid);
                if !lazily {
                    left?;
                }
            }
        }
        let gone = self.tree.mounted_mut().table.unmount(found.mount, lazily)?;
        self.tree.let_go(gone);
        Ok(())
    }

    /// `chroot`.
    pub fn chroot(&mut self, call: &Call) -> Tried {
        let path = self.procs.path(self.caller, call)?;
        let spot = self.view()?.walk(CWD, &path, true)?.spot()?;
        self.may_be_in(spot.node)?;
        let proc = self.procs.get(self.caller.pid)?;
        if !proc.who.has_own(Capability::SysChroot) {
            return Err(Errno::EPERM);
        }
        self.stand(|stands| &mut stands.root, spot)
    }

    /// `pivot_root`.
    pub fn pivot_root(&mut self, call: &Call) -> Tried {
        self.may_mount()?;
        let (new, old) = (self.procs.a(self.caller, call)?, self.procs.b(self.caller, call)?);
        let new = self.view()?.walk(CWD, &new, true)?.spot()?;
        if !self.is_dir(new)? {
            return Err(Errno::ENOTDIR);
        }
        let old = self.view()?.walk(CWD, &old, true)?.spot()?;
        if !self.is_dir(old)? {
            return Err(Errno::ENOTDIR);
        }
        let stands = self.procs.get(self.caller.pid)?.stands;
        let root = stands.root;
        for spot in [new, old, root] {
            self.is_own(spot.mount)?;
        }
        if new.mount == root.mount || old.mount == root.mount {
            return Err(Errno::EBUSY);
        }
        let table = self.tree.mounts();
        let top = table.space(stands.space).map(|space| space.root);
        if !self.is_root(new)? || !self.is_root(root)? || top != Some(root.mount) {
            return Err(Errno::EINVAL);
        }
        let above = table.get(new.mount)?.at.map_or(new.mount, |(above, _)| above);
        let is_followed =
            self.is_followed(old.mount)? || above != new.mount && self.is_followed(above)?;
        if table.get(new.mount)?.is_locked || is_followed {
            return Err(Errno::EINVAL);
        }
        let table = &mut self.tree.mounted_mut().table;
        let before = table.pivot(stands.space, new.mount, (old.mount, old.node))?;
        self.tree.hold_for_mount(old.node);
        self.tree.release_from_mount(before);
        // Whoever was at the old root is at the new one.
        let mut moved = 0;
        self.procs.each_standing(|standing| {
            let here = standing.space == stands.space;
            let Standing { root: from, cwd, .. } = standing;
            for spot in [from, cwd].into_iter().filter(|spot| here && **spot == root) {
                *spot = new;
                moved += 1;
            }
        });
        for _ in 0..moved {
            self.tree.hold_spot(new);
            self.left(root);
        }
        done(())
    }

    /// `sync`.
    pub fn sync_disks(&mut self) -> Tried {
        let (tid, cred) = (self.caller.tid, self.cred());
        self.tree.shares().try_for_each(|share| share.visit(tid, cred.clone()).sync_all())?;
        done(())
    }
}
