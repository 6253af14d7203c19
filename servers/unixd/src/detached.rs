//! Mounts that are made before they are at a place: `fsopen`, `fsconfig`, `fsmount`, `fspick`, `open_tree`, `move_mount`, `mount_setattr`.
//!
//! A mount at no place is the root of [a name space that nobody is in](mounttable::Mounts::detached), and belongs to the description that it was
//! made with: unless it has come to a place by then, it goes with that.

use crate::descs::{Object, Place};
use crate::lower::UNREAD;
use crate::mounts::{propagation, FsType, Wanted};
use crate::names::Found;
use crate::nodes::Node;
use crate::open::Opening;
use crate::pathops::PathOps;
use crate::share::UNANSWERED;
use crate::spaces::Lease;
use crate::tmpfs;
use crate::volumes::{flag, Spot, Volume};
use crate::wait::{count, done, Call, Tried};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use credentials::Capability;
use files::Claim;
use memfs::{Name, Names, Step};
use unixproto::files::*;
use unixproto::{op, Errno};

/// Bytes of a key or a value.
const TEXT_MAX: usize = 255;
/// Bytes of all options together, as for `mount`.
const OPTIONS_MAX: usize = 4000;
/// Messages that are kept for who reads them, the newest.
const MESSAGES: usize = 8;
/// What can be said of a mount.
const ATTRIBUTES: u32 = MOUNT_ATTR_RDONLY
    | MOUNT_ATTR_NOSUID
    | MOUNT_ATTR_NODEV
    | MOUNT_ATTR_NOEXEC
    | MOUNT_ATTR__ATIME
    | MOUNT_ATTR_NODIRATIME;

const DEVPTS_OPTIONS: [&[u8]; 6] = [b"newinstance", b"ptmxmode", b"mode", b"uid", b"gid", b"max"];

/// How far a file system has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It is told what it is to be.
    New,
    /// It is there, and can be mounted once.
    Made,
    /// It is mounted, and is told what it is to be from now on.
    Mounted,
    /// It could not be made, or changed.
    Failed,
}

/// A file system that is made or changed (`fsopen`, `fspick`).
pub struct Making {
    kind: FsType,
    phase: Phase,
    /// The user name space of who has begun it: whoever makes it needs rights there.
    owner: u64,
    source: Option<Vec<u8>>,
    options: Vec<u8>,
    read_only: Option<bool>,
    /// What was made, and its root.
    volume: Option<(Node, Rc<Volume>)>,
    /// What was wrong, to be read.
    messages: VecDeque<Vec<u8>>,
    /// Its place in the count of who has begun it.
    kept: Option<Rc<Lease>>,
}

/// One that descriptions share.
pub type Shared = Rc<RefCell<Making>>;

impl Making {
    fn new(kind: FsType, phase: Phase, owner: u64, volume: Option<(Node, Rc<Volume>)>) -> Shared {
        Rc::new(RefCell::new(Making {
            kind,
            phase,
            owner,
            source: None,
            options: Vec::new(),
            read_only: None,
            volume,
            messages: VecDeque::new(),
            kept: None,
        }))
    }

    /// What it holds, to be let go.
    pub fn take(&mut self) -> Option<(Node, Rc<Volume>)> {
        self.volume.take()
    }

    /// The oldest message. `ENODATA`: there is none; `EMSGSIZE`: it is longer, and stays.
    pub fn read(&mut self, bytes: usize) -> Result<Vec<u8>, Errno> {
        match self.messages.front() {
            None => Err(Errno::ENODATA),
            Some(message) if message.len() > bytes => Err(Errno::EMSGSIZE),
            Some(_) => self.messages.pop_front().ok_or(Errno::ENODATA),
        }
    }

    /// Notes what is wrong, and answers `EINVAL`.
    fn wrong(&mut self, what: &[u8]) -> Errno {
        if self.messages.len() == MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back([b"e ", what, b"\n"].concat());
        Errno::EINVAL
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>, is_text: bool) -> Result<(), Errno> {
        let name = self.kind.name();
        match key {
            // What holds for all mounts of it.
            b"ro" => self.read_only = Some(true),
            b"rw" => self.read_only = Some(false),
            b"dirsync" | b"lazytime" | b"mand" | b"sync" => {}
            b"async" | b"nolazytime" | b"nomand" => {}
            b"source" if !is_text => return Err(self.wrong(b"Non-string source")),
            b"source" if self.source.is_some() => {
                return Err(self.wrong(b"Multiple sources"));
            }
            b"source" => self.source = value.map(<[u8]>::to_vec),
            _ if self.kind == FsType::Ramfs && key != b"mode" => {}
            _ => {
                let word = |end: &[u8]| [name, b": ", end].concat();
                if !self.kind.has_option(key) {
                    let text = [&b"Unknown parameter '"[..], key, b"'"].concat();
                    return Err(self.wrong(&word(&text)));
                }
                let mut option = key.to_vec();
                if let Some(value) = value.filter(|_| is_text) {
                    option = [key, b"=", value].concat();
                }
                let is_well = !option.contains(&b',')
                    && (is_text || value.is_none())
                    && self.kind.takes(&option);
                if !is_well {
                    let text = [&b"Bad value for '"[..], key, b"'"].concat();
                    return Err(self.wrong(&word(&text)));
                }
                if self.options.len() + option.len() >= OPTIONS_MAX {
                    return Err(Errno::EINVAL);
                }
                if !self.options.is_empty() {
                    self.options.push(b',');
                }
                self.options.extend(option);
            }
        }
        Ok(())
    }

    /// What was said holds now; what is said from now on is for the next time.
    fn settled(&mut self) {
        self.phase = Phase::Mounted;
        self.options.clear();
        self.read_only = None;
        self.source = None;
    }
}

impl FsType {
    fn name(self) -> &'static [u8] {
        match self {
            FsType::Tmpfs => b"tmpfs",
            FsType::Ramfs => b"ramfs",
            FsType::Proc => b"proc",
            FsType::Sysfs => b"sysfs",
            FsType::Devpts => b"devpts",
            FsType::Mqueue => b"mqueue",
            FsType::Ext4 => b"ext4",
        }
    }
    fn has_option(self, key: &[u8]) -> bool {
        match self {
            FsType::Tmpfs | FsType::Ramfs => tmpfs::OPTIONS.contains(&key),
            FsType::Proc => matches!(key, b"gid" | b"hidepid" | b"subset"),
            FsType::Devpts => DEVPTS_OPTIONS.contains(&key),
            FsType::Sysfs | FsType::Mqueue | FsType::Ext4 => false,
        }
    }
    /// Is an option with its value one that it understands?
    pub fn takes(self, option: &[u8]) -> bool {
        match self {
            FsType::Tmpfs | FsType::Ramfs => {
                tmpfs::Options::parse(option, crate::caps::memory().1).is_ok()
            }
            FsType::Devpts => {
                let mut parts = option.splitn(2, |&byte| byte == b'=');
                let key = parts.next().unwrap_or_default();
                self.has_option(key) && parts.next().is_some() != (key == b"newinstance")
            }
            _ => option.contains(&b'='),
        }
    }
}

/// The flags of a mount by what `fsmount` and `mount_setattr` call them. `EINVAL`: times of access are kept in two ways at once.
fn flags_of(attributes: u32) -> Result<u32, Errno> {
    let known = [
        (MOUNT_ATTR_RDONLY, flag::RDONLY),
        (MOUNT_ATTR_NOSUID, flag::NOSUID),
        (MOUNT_ATTR_NODEV, flag::NODEV),
        (MOUNT_ATTR_NOEXEC, flag::NOEXEC),
        (MOUNT_ATTR_NODIRATIME, flag::NODIRATIME),
    ];
    let all = known.into_iter().filter(|(bit, _)| attributes & bit != 0);
    let times = match attributes & MOUNT_ATTR__ATIME {
        0 => flag::RELATIME,
        MOUNT_ATTR_NOATIME => flag::NOATIME,
        MOUNT_ATTR_STRICTATIME => 0,
        _ => return Err(Errno::EINVAL),
    };
    Ok(all.fold(times, |flags, (_, one)| flags | one))
}

impl PathOps<'_> {
    /// What a description of `fsopen` or `fspick` makes. `EINVAL`: it is another one.
    fn making(&self, desc: u32) -> Result<Shared, Errno> {
        match &self.descs.of(self.caller.pid, desc)?.object {
            Object::Making(making) => Ok(making.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// What a path leads to that may be empty: then it is what is open.
    fn found(&self, dir: u32, path: &[u8], (follow, empty): (bool, bool)) -> Result<Found, Errno> {
        if !path.is_empty() {
            return self.view()?.walk(dir, path, follow);
        }
        if !empty {
            return Err(Errno::ENOENT);
        }
        let spot = match dir {
            CWD => self.procs.get(self.caller.pid)?.stands.cwd,
            _ => {
                let desc = self.descs.of(self.caller.pid, dir)?;
                self.view()?.spot_of(desc)?.ok_or(Errno::EINVAL)?
            }
        };
        let Spot { mount, node } = spot;
        let name = Name::from_slice(b".");
        Ok(Found {
            parent: node,
            name,
            node: Some(node),
            slash: false,
            above: mount,
            mount,
            known: None,
        })
    }

    /// `fsopen`: what is to be made.
    pub fn open_fs(&self, call: &Call) -> Result<Shared, Errno> {
        self.may_mount()?;
        let kind = self.procs.a(self.caller, call)?;
        let kind = FsType::named(&kind).ok_or(Errno::ENODEV)?;
        Ok(Making::new(kind, Phase::New, self.owner()?, None))
    }

    /// `fspick`: what is to be changed.
    pub fn pick_fs(&mut self, call: &Call, op: op::PickFs) -> Result<Shared, Errno> {
        self.may_mount()?;
        if op.flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL);
        }
        let path = self.procs.a(self.caller, call)?;
        let how = (op.flags & AT_SYMLINK_NOFOLLOW == 0, op.flags & AT_EMPTY_PATH != 0);
        let spot = self.found(op.dir, &path, how)?.spot()?;
        if !self.is_root(spot)? {
            return Err(Errno::EINVAL);
        }
        let volume = self.tree.mounts().get(spot.mount)?.volume.clone();
        // What is not mounted by programs has no type that could be made.
        let kind = FsType::named(volume.kind_name().as_bytes()).ok_or(Errno::EOPNOTSUPP)?;
        let owner = self.owner()?;
        self.tree.hold(spot.node);
        Ok(Making::new(kind, Phase::Mounted, owner, Some((spot.node, volume))))
    }

    /// `fsconfig`.
    pub fn configure_fs(&mut self, call: &Call, op: op::ConfigureFs) -> Tried {
        let making = self.making(op.desc)?;
        let phase = making.borrow().phase;
        match op.command {
            fsconfig::CREATE => {
                if phase != Phase::New {
                    return Err(Errno::EBUSY);
                }
                let (kind, owner, source, options, read_only) = {
                    let making = making.borrow();
                    let source = making.source.clone().unwrap_or_default();
                    let options = making.options.clone();
                    (making.kind, making.owner, source, options, making.read_only)
                };
                if !self.procs.get(self.caller.pid)?.who.has_in(owner, Capability::SysAdmin) {
                    return Err(Errno::EPERM);
                }
                let read_only = read_only.unwrap_or(false);
                let wanted = Wanted { kind, source: &source, options: &options, read_only };
                match self.volume(&wanted, None) {
                    Ok((root, volume)) => {
                        self.tree.hold(root);
                        let mut making = making.borrow_mut();
                        (making.volume, making.phase) = (Some((root, volume)), Phase::Made);
                        done(())
                    }
                    // It will be tried again.
                    Err(again @ (UNANSWERED | UNREAD)) => Err(again),
                    Err(error) => {
                        making.borrow_mut().phase = Phase::Failed;
                        Err(error)
                    }
                }
            }
            fsconfig::RECONFIGURE => {
                if phase != Phase::Mounted {
                    return Err(Errno::EBUSY);
                }
                let mut making = making.borrow_mut();
                let (_, volume) = making.volume.clone().ok_or(Errno::EINVAL)?;
                let changed = self.change_volume(&volume, &making.options, making.read_only);
                match changed {
                    Ok(()) => making.settled(),
                    Err(Errno::EPERM) => {}
                    Err(_) => making.phase = Phase::Failed,
                }
                changed?;
                done(())
            }
            fsconfig::SET_FLAG..=fsconfig::SET_FD => {
                if !matches!(phase, Phase::New | Phase::Mounted) {
                    return Err(Errno::EBUSY);
                }
                let key = self.procs.a(self.caller, call)?;
                let value = self.procs.b(self.caller, call)?;
                if key.len() > TEXT_MAX || value.len() > TEXT_MAX {
                    return Err(Errno::EINVAL);
                }
                let value = Some(&value[..]).filter(|_| op.command != fsconfig::SET_FLAG);
                let is_text = op.command == fsconfig::SET_STRING;
                making.borrow_mut().set(&key, value, is_text)?;
                done(())
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `fsmount`: the mount that was made, at no place.
    pub fn mount_fs(&mut self, op: op::MountFs) -> Result<Spot, Errno> {
        self.may_mount()?;
        if op.attributes & !ATTRIBUTES != 0 {
            return Err(Errno::EINVAL);
        }
        let flags = flags_of(op.attributes)?;
        let making = self.making(op.desc)?;
        let mut making = making.borrow_mut();
        let (node, volume) = making.volume.clone().ok_or(Errno::EINVAL)?;
        if making.phase != Phase::Made {
            return Err(Errno::EBUSY);
        }
        let mount = self.tree.mount_detached(node, flags, volume, self.cred().uid)?;
        making.settled();
        Ok(Spot { mount, node })
    }

    /// `open_tree`: the place, and whether it is a copy at no place.
    pub fn open_tree(&mut self, call: &Call, op: op::OpenTree) -> Result<(Spot, bool), Errno> {
        let known = OPEN_TREE_CLONE | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
        let (copies, all) = (op.flags & OPEN_TREE_CLONE != 0, op.flags & AT_RECURSIVE != 0);
        if op.flags & !known != 0 || all && !copies {
            return Err(Errno::EINVAL);
        }
        if copies {
            self.may_mount()?;
        }
        let path = self.procs.a(self.caller, call)?;
        let how = (op.flags & AT_SYMLINK_NOFOLLOW == 0, op.flags & AT_EMPTY_PATH != 0);
        let found = self.found(op.dir, &path, how)?;
        let spot = found.spot()?;
        if !copies {
            return Ok((spot, false));
        }
        if !self.tree.mounts().is_in_detached(spot.mount) {
            self.is_own(spot.mount)?;
        }
        let visible = self.may_copy(spot, all)?;
        let mount = self.copy_mounts((spot, found.parent), all, &visible, None)?;
        Ok((Spot { mount, node: spot.node }, true))
    }

    /// `move_mount`.
    pub fn move_mount_at(&mut self, call: &Call, op: op::MoveMount) -> Tried {
        self.may_mount()?;
        // Groups are not handed on by themselves.
        if op.flags & (!MOVE_MOUNT__MASK | MOVE_MOUNT_SET_GROUP) != 0 {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (self.procs.a(self.caller, call)?, self.procs.b(self.caller, call)?);
        let how = |links, empty| (op.flags & links != 0, op.flags & empty != 0);
        let how_from = how(MOVE_MOUNT_F_SYMLINKS, MOVE_MOUNT_F_EMPTY_PATH);
        let source = self.found(op.from, &from, how_from)?.spot()?;
        let how_to = how(MOVE_MOUNT_T_SYMLINKS, MOVE_MOUNT_T_EMPTY_PATH);
        let found = self.found(op.to, &to, how_to)?;
        let target = found.spot()?;
        self.has_room_on(target)?;
        self.relocate(source, (target, found.parent))?;
        self.propagate(target)
    }

    /// `mount_setattr`.
    pub fn set_mount(&mut self, call: &Call, op: op::SetMount) -> Tried {
        if op.flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_RECURSIVE) != 0 {
            return Err(Errno::EINVAL);
        }
        self.may_mount()?;
        if op.set == 0 && op.clear == 0 && op.propagation == 0 {
            return done(());
        }
        let how = match op.propagation {
            0 => None,
            flags => Some(propagation(flags)?),
        };
        if (op.set | op.clear) & !ATTRIBUTES != 0 {
            return Err(Errno::EINVAL);
        }
        // How times of access are kept is one thing, which is taken away as a whole.
        match op.clear & MOUNT_ATTR__ATIME {
            0 if op.set & MOUNT_ATTR__ATIME != 0 => return Err(Errno::EINVAL),
            0 | MOUNT_ATTR__ATIME => {}
            _ => return Err(Errno::EINVAL),
        }
        flags_of(op.set)?;
        let path = self.procs.a(self.caller, call)?;
        let how_found = (op.flags & AT_SYMLINK_NOFOLLOW == 0, op.flags & AT_EMPTY_PATH != 0);
        let spot = self.found(op.dir, &path, how_found)?.spot()?;
        if !self.is_root(spot)? {
            return Err(Errno::EINVAL);
        }
        if !self.tree.mounts().is_detached(spot.mount) {
            self.is_own(spot.mount)?;
        }
        let all = match op.flags & AT_RECURSIVE {
            0 => alloc::vec![spot.mount],
            _ => self.tree.mounts().below(spot.mount),
        };
        let mut flags = Vec::new();
        for &mount in &all {
            let now = self.tree.mounts().get(mount)?.flags;
            let changed = changed(now, op.set, op.clear)?;
            self.may_have_flags(mount, changed)?;
            flags.push(changed);
        }
        let table = &mut self.tree.mounted_mut().table;
        for (&mount, flags) in all.iter().zip(flags) {
            table.get_mut(mount)?.flags = flags;
            if let Some(how) = how {
                table.set_propagation(mount, how)?;
            }
        }
        done(())
    }
}

/// The flags of a mount after some attributes were taken away and others given.
fn changed(now: u32, set: u32, clear: u32) -> Result<u32, Errno> {
    const TIMES: u32 = flag::RELATIME | flag::NOATIME;
    let (gone, come) = (flags_of(clear & !MOUNT_ATTR__ATIME)?, flags_of(set)?);
    let flags = now & !(gone & !TIMES) | come & !TIMES;
    Ok(match clear & MOUNT_ATTR__ATIME {
        0 => flags,
        _ => flags & !TIMES | come & TIMES,
    })
}

impl Opening<'_> {
    /// Opens what is made or changed.
    pub fn open_making(&mut self, making: Shared) -> Tried {
        let uid = self.cred().uid;
        match self.system.numbers().lease(uid) {
            Ok(lease) => making.borrow_mut().kept = Some(lease),
            Err(error) => {
                let held = making.borrow_mut().take();
                self.handles.let_making_go(held);
                return Err(error);
            }
        }
        self.opened(Object::Making(making), O_RDWR, None, Claim::None)
    }

    /// Opens a place, whose mount goes with the description if it `dissolves`.
    pub fn open_place(&mut self, Spot { mount, node }: Spot, dissolves: bool) -> Tried {
        let is_dir = match self.view()?.step(Spot { mount, node }) {
            Ok(step) => matches!(step, Step::Dir),
            Err(error) => {
                if dissolves {
                    self.handles.tree.dissolve(mount);
                }
                return Err(error);
            }
        };
        let tree = &mut self.handles.tree;
        // The node as what is open, and as its own directory.
        tree.hold(node);
        tree.hold(node);
        tree.hold_mount(mount);
        let place =
            Place { dir: node, name: Name::from_slice(b"."), above: mount, mount, dissolves };
        let object = if is_dir { Object::Dir(node) } else { Object::Path(node) };
        self.opened(object, O_PATH, Some(place), Claim::None)
    }
}

/// Reads a message of what is made.
pub fn read(making: &Shared, bytes: usize, put: impl FnOnce(&[u8]) -> Result<(), Errno>) -> Tried {
    let message = making.borrow_mut().read(bytes)?;
    put(&message)?;
    count(message.len())
}
