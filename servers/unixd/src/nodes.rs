//! What a path leads to: a file of the file system, something in `/proc`, or something that others have: in the folder of the host, or on a disk.

use crate::descs::Object;
use crate::frames::Files;
use crate::lower::LowerTree;
use crate::made::{self, Made};
use crate::paths::{self, Paths};
use crate::procfs::ProcNode;
use crate::share::{self, OpenFile, Share};
use crate::spaces::{Ipc, Opened};
use crate::volumes::{device_of_volume, flag, Kind, Mounted, Spot, Volume};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::Cell;
use memfs::{Attr, Cred, Ino};
use piecewise::Table;
use unixproto::Errno;

/// A node of the joined tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// In the file system.
    Mem(Ino),
    /// In `/proc`.
    Proc(ProcNode),
    /// In the folder of the host, or on a disk.
    Share(u32),
}

impl mounttable::Node for Node {
    #[inline]
    fn spread(self) -> u32 {
        match self {
            Node::Mem(Ino(number)) | Node::Share(number) => number,
            Node::Proc(_) => 0,
        }
    }
}

/// What others have, and the volume that it is while it is mounted.
struct Shown {
    share: Share,
    volume: Weak<Volume>,
}

/// The joined tree: the files, and what is mounted.
pub struct Tree {
    files: Files,
    mounted: Mounted,
    /// `/proc/sys` and `/sys`.
    made: Made,
    /// What holds the bytes of disks that are files without a name, by their numbers.
    disks: Vec<(u64, Ino)>,
    /// The folder of the host, and disks.
    shares: Vec<Shown>,
    /// The root image, of which directories are read when somebody looks.
    lower: Option<LowerTree>,
    /// What files without a name are called in `/proc`.
    called: BTreeMap<Ino, Box<[u8]>>,
    paths: Paths,
    /// Of the directories that paths lead over.
    directories: Paths,
    /// Name spaces that are mounted, and how often each is held.
    bound: Table<(Opened, u32)>,
}

impl Tree {
    /// Bytes of files and shared memory that lie in the pool of pages.
    pub fn in_pool(&self) -> u64 {
        self.files.memory_ref().volatile.space().map_or(0, |(_, used)| used)
    }
    /// Of these files; nothing else is mounted.
    pub fn new(files: Files) -> Tree {
        let mounted = Mounted::new(files.names().root());
        Tree {
            files,
            mounted,
            made: Made::default(),
            disks: Vec::new(),
            shares: Vec::new(),
            lower: None,
            called: BTreeMap::new(),
            paths: Paths::new(paths::PATHS),
            directories: Paths::new(paths::DIRECTORIES),
            bound: Table::default(),
        }
    }
    /// A name space is to be mounted: it is there as long as the node is held. `ENOMEM`
    pub fn bind(&mut self, space: Opened) -> Result<Node, Errno> {
        let number = self.bound.insert((space, 0)).map_err(|_| Errno::ENOMEM)?;
        Ok(Node::Proc(ProcNode::Bound(number as u32)))
    }
    /// A name space that is mounted.
    pub fn bound(&self, number: u32) -> Option<&Opened> {
        self.bound.get(number as usize).map(|(space, _)| space)
    }
    /// It is held less often, or was never held.
    pub fn unbind(&mut self, number: u32, less: u32) {
        let Some((_, held)) = self.bound.get_mut(number as usize) else { return };
        *held = held.saturating_sub(less);
        if *held == 0 {
            self.bound.remove(number as usize);
        }
    }
    /// Says what a file without a name is called in `/proc`.
    pub fn call(&mut self, ino: Ino, name: &[u8]) {
        self.called.insert(ino, name.into());
    }
    /// What it is called.
    pub fn called(&self, ino: Ino) -> &[u8] {
        self.called.get(&ino).map_or(&[], |name| &name[..])
    }
    /// `/proc/sys` and `/sys`.
    pub fn made(&self) -> &Made {
        &self.made
    }
    /// Has these be `/proc/sys` and `/sys`, of which the latter is in a directory.
    ///
    /// # Errors
    /// There is no memory.
    pub fn show_made(&mut self, made: Made, now: i64) -> Result<(), Errno> {
        self.made = made;
        let names = self.files.names_mut();
        let attr = Attr { mode: 0o555, cred: Cred::ROOT, now };
        let dir = match names.lookup(names.root(), b"sys")? {
            Some(dir) => dir,
            None => names.mkdir(names.root(), b"sys", attr)?,
        };
        let (kind, source, device) = (Kind::Sys, b"sysfs".to_vec(), crate::procfs::SYS_DEVICE);
        let volume = Volume { kind, source, device, owner: 0, read_only: Cell::new(false) };
        self.show(Node::Mem(dir), Node::Proc(ProcNode::Made(made::SYS)), volume)
    }
    /// What is mounted.
    #[inline]
    pub fn mounted(&self) -> &Mounted {
        &self.mounted
    }
    /// The same, to be changed.
    #[inline]
    pub fn mounted_mut(&mut self) -> &mut Mounted {
        self.mounted.turn += 1;
        self.files.names_mut().hide_all_ways();
        &mut self.mounted
    }
    /// The same where all stays mounted as it is, and only who uses it changes.
    #[inline]
    pub fn mounted_users(&mut self) -> &mut Mounted {
        &mut self.mounted
    }
    /// Whoever has this number knows from now on where the path leads that is kept at a place.
    pub fn show_way(&mut self, place: usize, whom: u32) {
        let Tree { paths, files, .. } = self;
        paths.each_passed(place, |ino| files.names_mut().show_way(ino, whom));
    }
    /// Where paths have led to.
    #[inline]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }
    /// Where the directories are that paths have led over last.
    #[inline]
    pub fn directories(&self) -> &Paths {
        &self.directories
    }
    /// The volume of what others have, if it is mounted.
    pub fn shown(&self, folder: u32) -> Option<&Weak<Volume>> {
        self.shares.get(folder as usize).map(|shown| &shown.volume)
    }
    /// That is it.
    pub fn set_shown(&mut self, folder: u32, volume: &Rc<Volume>) {
        if let Some(shown) = self.shares.get_mut(folder as usize) {
            shown.volume = Rc::downgrade(volume);
        }
    }
    /// Has the root image be what is in the tree, which is empty.
    ///
    /// # Errors
    /// What there is is no image.
    pub fn mount_image(&mut self) -> Result<(), &'static str> {
        self.lower = LowerTree::mount(&mut self.files)?;
        Ok(())
    }
    /// The files, and the image below them.
    pub fn with_lower(&mut self) -> (&mut Files, Option<&mut LowerTree>) {
        (&mut self.files, self.lower.as_mut())
    }
    /// This holds the bytes of a block device.
    pub fn set_disk(&mut self, number: u64, content: Ino) {
        self.disks.push((number, content));
    }
    /// What holds the bytes of the block device with this number, if there is one.
    pub fn disk(&self, number: u64) -> Option<Ino> {
        self.disks.iter().find_map(|&(disk, content)| (disk == number).then_some(content))
    }
    /// Has `/proc` be in a directory.
    ///
    /// # Errors
    /// There is no memory.
    pub fn show_proc(&mut self, dir: Ino) -> Result<(), Errno> {
        let (kind, source, device) = (Kind::Proc, b"proc".to_vec(), crate::procfs::DEVICE);
        let volume = Volume { kind, source, device, owner: 0, read_only: Cell::new(false) };
        self.show(Node::Mem(dir), Node::Proc(ProcNode::Root), volume)
    }
    /// Has the message queues of a name space be in `/dev/mqueue`.
    ///
    /// # Errors
    /// There is no memory.
    pub fn show_queues(&mut self, space: &Ipc, now: i64) -> Result<(), Errno> {
        let names = self.files.names_mut();
        let Some(dev) = names.lookup(names.root(), b"dev")? else { return Ok(()) };
        let attr = Attr { mode: 0o755, cred: Cred::ROOT, now };
        let dir = match names.lookup(dev, b"mqueue")? {
            Some(dir) => dir,
            None => names.mkdir(dev, b"mqueue", attr)?,
        };
        let (number, top) = space.queues(names, now)?;
        let (kind, source, device) = (Kind::Mqueue, b"mqueue".to_vec(), device_of_volume(number));
        let volume = Volume { kind, source, device, owner: 0, read_only: Cell::new(false) };
        self.show(Node::Mem(dir), Node::Mem(top), volume)
    }
    /// Has the folder of the host cover a directory of its own.
    ///
    /// # Errors
    /// There is something of this name already.
    pub fn add_folder(&mut self, share: Share, now: i64) -> Result<(), Errno> {
        let names = self.files.names_mut();
        let attr = Attr { mode: 0o755, cred: Cred::ROOT, now };
        let dir = names.mkdir(names.root(), share::NAME, attr)?;
        let root = share.root();
        let is_read_only = share.is_read_only();
        self.shares.push(Shown { share, volume: Weak::new() });
        let device = share::DEVICE;
        let volume = self.share_volume(root, Kind::Host, b"share".to_vec(), device);
        volume.read_only.set(is_read_only);
        let at = Spot { node: Node::Mem(dir), ..self.first().root };
        self.mount((at, Node::Share(root)), flag::RELATIME, volume, 0)?;
        Ok(())
    }
    /// Adds a disk, which is not shown yet, with its name in `/dev`.
    ///
    /// # Errors
    /// There is something of this name already.
    pub fn add_share(&mut self, share: Share, now: i64) -> Result<(), Errno> {
        let disk = share.disk().ok_or(Errno::EINVAL)?;
        let names = self.files.names_mut();
        let attr = Attr { mode: 0o600, cred: Cred::ROOT, now };
        let dev = names.lookup(names.root(), b"dev")?.ok_or(Errno::ENOENT)?;
        names.create(dev, disk.name().as_bytes(), memfs::Node::Block(disk.device()), attr)?;
        self.shares.push(Shown { share, volume: Weak::new() });
        Ok(())
    }
    /// All that others have.
    pub fn shares(&self) -> impl Iterator<Item = &Share> {
        self.shares.iter().map(|shown| &shown.share)
    }
    /// How many that are.
    pub fn share_count(&self) -> usize {
        self.shares.len()
    }
    /// Does nobody else have anything?
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.shares.is_empty()
    }
    /// What a node is in.
    pub fn share_of(&self, node: u32) -> Result<&Share, Errno> {
        self.shares.get(share::folder_of(node)).map(|shown| &shown.share).ok_or(Errno::EIO)
    }
    /// The disk with a device number.
    pub fn device(&self, number: u64) -> Option<&Share> {
        let is_it = |share: &&Share| share.disk().is_some_and(|disk| disk.device() == number);
        self.shares().find(is_it)
    }
    /// Closes an open file of somebody else.
    pub fn close_shared(&self, file: OpenFile) {
        if let Ok(share) = self.share_of(file.node) {
            share.close(file.fid);
        }
    }
    /// The files.
    #[inline]
    pub fn files(&self) -> &Files {
        &self.files
    }
    /// The same, to be changed.
    #[inline]
    pub fn files_mut(&mut self) -> &mut Files {
        &mut self.files
    }
    /// Are the contents of something that is open a Morsel?
    pub fn stores(&self, object: &Object) -> bool {
        match object {
            Object::File(ino) => {
                self.files.names().get(*ino).is_ok_and(|inode| inode.kept().is_some())
            }
            _ => false,
        }
    }
    /// Are the contents of an object in pages of 2 MiB only?
    pub fn is_large(&self, object: &Object) -> bool {
        match object {
            Object::File(ino) => self.files.grain(*ino) > abi::layout::PAGE,
            _ => false,
        }
    }
    /// Keeps what a node stands for alive.
    #[inline]
    pub fn hold(&mut self, node: Node) {
        match node {
            Node::Mem(ino) => self.files.names_mut().hold(ino),
            Node::Proc(ProcNode::Bound(number)) => {
                if let Some((_, held)) = self.bound.get_mut(number as usize) {
                    *held += 1;
                }
            }
            Node::Proc(_) => {}
            Node::Share(node) => {
                if let Ok(share) = self.share_of(node) {
                    share.hold(node);
                }
            }
        }
    }
    /// Ends a `hold`. Returns the inode if it is gone with that.
    pub fn release(&mut self, node: Node) -> Option<Ino> {
        match node {
            Node::Mem(ino) => {
                let is_gone = self.files.release(ino);
                if is_gone {
                    self.called.remove(&ino);
                }
                is_gone.then_some(ino)
            }
            Node::Proc(ProcNode::Bound(number)) => {
                self.unbind(number, 1);
                None
            }
            Node::Proc(_) => None,
            Node::Share(node) => {
                if let Ok(share) = self.share_of(node) {
                    share.release(node);
                }
                None
            }
        }
    }
}
