//! Inodes and their life.

use crate::dir::Dir;
use crate::keep::{Keeping, Kept};
use crate::perm::Cred;
use crate::snapshot::Part;
use crate::volume::Volume;
use alloc::vec::Vec;
use core::cell::Cell;
use piecewise::{Limits, Shares, Table};
use unixproto::files::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK};
use unixproto::Errno;

/// Number of an inode. Used again after the inode is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ino(pub u32);

/// What an inode is.
pub enum Node<C> {
    /// A regular file: size and contents.
    File {
        /// Size in bytes.
        size: u64,
        /// What holds the bytes.
        content: C,
    },
    /// A directory.
    Dir(Dir),
    /// A symbolic link with its text.
    Symlink(Vec<u8>),
    /// A character device with its number.
    Device(u64),
    /// A block device with its number.
    Block(u64),
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
    /// A message queue: only in [volumes](Fs::make_queues) that have nothing else.
    Queue,
}

impl<C> Node<C> {
    /// The type bits of `st_mode`.
    pub fn type_bits(&self) -> u32 {
        match self {
            Node::File { .. } | Node::Queue => S_IFREG,
            Node::Dir(_) => S_IFDIR,
            Node::Symlink(_) => S_IFLNK,
            Node::Device(_) => S_IFCHR,
            Node::Block(_) => S_IFBLK,
            Node::Fifo => S_IFIFO,
            Node::Socket => S_IFSOCK,
        }
    }
}

/// A file of any kind.
pub struct Inode<C> {
    /// What it is.
    pub node: Node<C>,
    /// Permission bits, 12 of them.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names (for a directory: names that lead to it, `.` and `..` included).
    pub nlink: u32,
    /// Last read, nanoseconds since 1970.
    pub atime: i64,
    /// Last change of the contents.
    pub mtime: i64,
    /// Last change of anything.
    pub ctime: i64,
    /// Which of those it is that had its number one after the other.
    pub generation: u32,
    turn: u64,
    holds: u32,
    /// To whom it is [shown](Fs::show).
    shown: Shown,
    /// Who knows a path [over it](Fs::show_way).
    passed: Shown,
    /// Its number where it is kept, if it is.
    pub(crate) kept: Option<Kept>,
    /// What it has to do with snapshots.
    pub(crate) part: Part,
    /// The volume that it is in.
    pub(crate) volume: u32,
    /// Pages for which that is charged.
    pub(crate) charged: u64,
}

impl<C> Inode<C> {
    /// Is it a directory?
    pub fn is_dir(&self) -> bool {
        matches!(self.node, Node::Dir(_))
    }
    /// Its entries, or `ENOTDIR`.
    pub fn dir(&self) -> Result<&Dir, Errno> {
        match &self.node {
            Node::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }
    pub(crate) fn dir_mut(&mut self) -> Result<&mut Dir, Errno> {
        match &mut self.node {
            Node::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }
    /// A number that no inode has had before: another one after each change, but for names that were [added](Fs::create). As long as
    /// it is the same, a path that led over this inode leads to the same as before.
    #[inline]
    pub fn turn(&self) -> u64 {
        self.turn
    }
    /// The number of the volume that it is in.
    #[inline]
    pub fn volume(&self) -> u32 {
        self.volume
    }
    /// Size as `stat` shows it.
    pub fn size(&self) -> u64 {
        match &self.node {
            Node::File { size, .. } => *size,
            // As of a disk with blocks of 4 KiB: scripts know directories like that.
            Node::Dir(_) => 4096,
            Node::Symlink(text) => text.len() as u64,
            // Bytes of what reading it shows.
            Node::Queue => 80,
            _ => 0,
        }
    }
    /// Notes a change of contents.
    pub fn modified(&mut self, now: i64) {
        self.mtime = now;
        self.ctime = now;
    }
}

/// Attributes of a new inode.
#[derive(Clone, Debug)]
pub struct Attr {
    /// Permission bits.
    pub mode: u32,
    /// Who makes it, and will own it.
    pub cred: Cred,
    /// The time, nanoseconds since 1970.
    pub now: i64,
}

/// A file system.
pub struct Fs<C> {
    /// The inode with number `n` is the value `n - 1`.
    pub(crate) inodes: Table<Inode<C>>,
    /// The volume with number `n` is the value `n - 1`.
    pub(crate) volumes: Table<Volume>,
    /// How many inodes users have.
    owners: Shares,
    /// The generation of the next inode.
    generations: Cell<u32>,
    /// The last [turn](Inode::turn).
    turns: Cell<u64>,
    /// What is kept elsewhere, too.
    pub(crate) keeping: Keeping,
    /// What was shown to somebody, and has changed or gone since.
    hidden: Vec<Hidden>,
    /// A directory that is still to be read, in which somebody has looked for a name.
    pub(crate) wanted: Cell<Option<Ino>>,
}

/// Who knows what an inode says, and does not ask again until he is told that it has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Nobody.
    Nobody,
    /// The one with this number.
    To(u32),
    /// Several may.
    Many,
    /// It is [lent](Fs::lend) to the one with this number, and nobody knows anything.
    Lent(u32),
    /// The same, to several.
    LentToMany,
}

impl Shown {
    /// The one with this number as well.
    fn and(self, whom: u32) -> Shown {
        match self {
            Shown::Nobody => Shown::To(whom),
            Shown::To(other) if other == whom => Shown::To(whom),
            lent if lent.is_lent() => lent,
            _ => Shown::Many,
        }
    }
    #[inline(always)]
    fn is_lent(self) -> bool {
        matches!(self, Shown::Lent(_) | Shown::LentToMany)
    }
}

/// Something that was shown, and is so no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hidden {
    /// What an inode says.
    Inode(Ino, Shown),
    /// Where paths lead.
    Ways(Shown),
}

/// The root directory.
const ROOT: Ino = Ino(1);

/// Where the inode with a number is; of 0, where none is.
#[inline(always)]
pub(crate) fn place(ino: Ino) -> usize {
    (ino.0 as usize).wrapping_sub(1)
}

impl<C: Default> Fs<C> {
    /// An empty file system with so many inodes at most. It has a root directory, however few they are.
    pub fn new(limits: Limits, attr: Attr) -> Self {
        let mut fs = Fs {
            inodes: Table::default(),
            volumes: Table::default(),
            owners: Shares::new(limits),
            // Handles from before the machine was started lead nowhere.
            generations: Cell::new((attr.now >> 20) as u32),
            turns: Cell::new(0),
            keeping: Keeping::default(),
            hidden: Vec::new(),
            wanted: Cell::new(None),
        };
        let owner = attr.cred.uid;
        let mut root = fs.inode(Node::Dir(Dir::new(ROOT)), attr);
        root.nlink = 2;
        // Without memory for it there is no inode, and everything answers `ENOENT`.
        let _ = fs.inodes.insert(root);
        fs.owners.take(owner, 1);
        fs
    }
    /// The root directory.
    pub fn root(&self) -> Ino {
        ROOT
    }
    /// Inodes in use.
    pub fn used(&self) -> usize {
        self.inodes.len()
    }
    /// Inodes that there may be.
    pub fn limit(&self) -> usize {
        self.owners.limits().all
    }
    /// An inode; `ENOENT` if the number is of none.
    pub fn get(&self, ino: Ino) -> Result<&Inode<C>, Errno> {
        self.inodes.get(place(ino)).ok_or(Errno::ENOENT)
    }
    /// The same, to be changed; its owner by [`Fs::give`].
    pub fn get_mut(&mut self, ino: Ino) -> Result<&mut Inode<C>, Errno> {
        let turn = self.next_turn();
        self.change(ino, Some(turn))
    }
    fn next_turn(&self) -> u64 {
        self.turns.set(self.turns.get() + 1);
        self.turns.get()
    }
    /// The same where no more happens than that it gets a name that it did not have.
    pub(crate) fn get_to_add(&mut self, ino: Ino) -> Result<&mut Inode<C>, Errno> {
        self.change(ino, None)
    }
    /// The same, with the turn that it has from now on if that is to be another one.
    #[inline]
    fn change(&mut self, ino: Ino, turn: Option<u64>) -> Result<&mut Inode<C>, Errno> {
        let inode = self.inodes.get_mut(place(ino)).ok_or(Errno::ENOENT)?;
        if inode.shown != Shown::Nobody {
            // Whatever is done to it now may be seen.
            self.hidden.push(Hidden::Inode(ino, inode.shown));
            if !inode.shown.is_lent() {
                inode.shown = Shown::Nobody;
            }
        }
        if let Some(turn) = turn {
            inode.turn = turn;
            if inode.passed != Shown::Nobody {
                let passed = core::mem::replace(&mut inode.passed, Shown::Nobody);
                self.hidden.push(Hidden::Ways(passed));
            }
        }
        // What is in a snapshot does not change.
        if inode.kept.is_some() && inode.part != Part::Frozen {
            self.keeping.note(ino);
        }
        Ok(inode)
    }
    /// Gives an inode another owner.
    pub fn give(&mut self, ino: Ino, uid: u32) -> Result<(), Errno> {
        let before = core::mem::replace(&mut self.get_mut(ino)?.uid, uid);
        self.owners.give_back(before, 1);
        self.owners.take(uid, 1);
        Ok(())
    }

    fn inode(&self, node: Node<C>, attr: Attr) -> Inode<C> {
        let Attr { mode, cred: Cred { uid, gid, .. }, now } = attr;
        let mode = mode & 0o7777;
        let generation = self.generations.get();
        self.generations.set(generation.wrapping_add(1));
        Inode {
            node,
            mode,
            uid,
            gid,
            nlink: 0,
            atime: now,
            mtime: now,
            ctime: now,
            generation,
            turn: self.next_turn(),
            holds: 0,
            shown: Shown::Nobody,
            passed: Shown::Nobody,
            kept: None,
            part: Part::Live,
            volume: 0,
            charged: 0,
        }
    }
    /// A new inode without name, held once. `ENOSPC`: too many, or no memory.
    pub fn create_unnamed(&mut self, node: Node<C>, attr: Attr) -> Result<Ino, Errno> {
        let ino = self.allocate(node, attr)?;
        self.hold(ino);
        Ok(ino)
    }
    /// The same, for a file that can be given a name in the part of the tree where a directory is.
    pub fn create_unnamed_in(&mut self, dir: Ino, node: Node<C>, attr: Attr) -> Result<Ino, Errno> {
        self.room_in(dir)?;
        let ino = self.create_unnamed(node, attr)?;
        self.join_volume(ino, dir)?;
        self.keep_new(dir, None, ino).inspect_err(|_| self.release(ino))?;
        Ok(ino)
    }
    pub(crate) fn allocate(&mut self, node: Node<C>, attr: Attr) -> Result<Ino, Errno> {
        let owner = attr.cred.uid;
        if !self.owners.has_room(owner, 1) {
            return Err(Errno::ENOSPC);
        }
        let inode = self.inode(node, attr);
        let index = self.inodes.insert(inode).map_err(|_| Errno::ENOSPC)?;
        self.owners.take(owner, 1);
        Ok(Ino(index as u32 + 1))
    }
    /// Whoever has number `whom` knows from now on what an inode says, until it is [hidden](Self::take_hidden).
    pub fn show(&mut self, ino: Ino, whom: u32) {
        if let Some(inode) = self.inodes.get_mut(place(ino)) {
            if inode.shown.is_lent() {
                // What it says is not all that has happened.
                self.hidden.push(Hidden::Inode(ino, Shown::To(whom)));
            }
            inode.shown = inode.shown.and(whom);
        }
    }
    /// Lends a file of which nothing is shown to the one with number `whom`, as well as to others: that one changes its bytes, and is asked
    /// afterwards [when](Self::changed). `false`: something is shown.
    pub fn lend(&mut self, ino: Ino, whom: u32) -> bool {
        let Some(inode) = self.inodes.get_mut(place(ino)) else { return false };
        inode.shown = match inode.shown {
            Shown::To(_) | Shown::Many => return false,
            Shown::Nobody => Shown::Lent(whom),
            Shown::Lent(other) if other == whom => Shown::Lent(whom),
            _ => Shown::LentToMany,
        };
        true
    }
    /// To whom a file is lent. Before it is changed or its times are looked at, that is to end.
    #[inline(always)]
    pub fn lent_to(&self, ino: Ino) -> Option<Shown> {
        let shown = self.inodes.get(place(ino))?.shown;
        shown.is_lent().then_some(shown)
    }
    /// Somebody to whom a file is lent has changed it at a time, as he says: not before the last change that is known, and not later than now.
    pub fn changed(&mut self, ino: Ino, time: i64, now: i64) {
        let inode = self.inodes.get_mut(place(ino));
        if let Some(inode) = inode.filter(|inode| inode.shown.is_lent()) {
            let time = time.min(now);
            inode.mtime = inode.mtime.max(time);
            inode.ctime = inode.ctime.max(time);
        }
    }
    /// Somebody to whom a file is lent has read it at a time, as he says: believed in the same way.
    pub fn accessed(&mut self, ino: Ino, time: i64, now: i64) {
        let inode = self.inodes.get_mut(place(ino));
        if let Some(inode) = inode.filter(|inode| inode.shown.is_lent()) {
            inode.atime = inode.atime.max(time.min(now));
        }
    }
    /// A file is lent to nobody any more.
    pub fn returned(&mut self, ino: Ino) {
        let inode = self.inodes.get_mut(place(ino));
        if let Some(inode) = inode.filter(|inode| inode.shown.is_lent()) {
            inode.shown = Shown::Nobody;
        }
    }
    /// Whoever has number `whom` knows from now on a path that leads over an inode, until that is hidden: its [turn](Inode::turn) is
    /// another one then.
    pub fn show_way(&mut self, ino: Ino, whom: u32) {
        if let Some(inode) = self.inodes.get_mut(place(ino)) {
            inode.passed = inode.passed.and(whom);
        }
    }
    /// Nobody is to know where any path leads: more has changed than names.
    pub fn hide_all_ways(&mut self) {
        self.hidden.push(Hidden::Ways(Shown::Many));
    }
    /// Has anything that was shown changed?
    #[inline]
    pub fn has_hidden(&self) -> bool {
        !self.hidden.is_empty()
    }
    /// Something that was shown, and may have changed or gone since: who knows it is to be told, before anybody else is told of the
    /// change.
    pub fn take_hidden(&mut self) -> Option<Hidden> {
        self.hidden.pop()
    }
    /// Keeps an inode alive without a name (open, or a working directory). Nobody can see that.
    pub fn hold(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(place(ino)) {
            inode.holds += 1;
        }
    }
    /// Is it kept alive by somebody?
    pub fn is_held(&self, ino: Ino) -> bool {
        self.get(ino).is_ok_and(|inode| inode.holds > 0)
    }
    /// Ends a [`Fs::hold`].
    pub fn release(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(place(ino)) {
            inode.holds = inode.holds.saturating_sub(1);
            self.reap(ino);
        }
    }
    /// Frees an inode that nothing refers to any more.
    pub(crate) fn reap(&mut self, ino: Ino) {
        let dead = self.get(ino).is_ok_and(|inode| inode.nlink == 0 && inode.holds == 0);
        if dead && ino != ROOT {
            let Some(inode) = self.inodes.remove(place(ino)) else { return };
            if inode.shown != Shown::Nobody {
                // Its number may soon be another one's.
                self.hidden.push(Hidden::Inode(ino, inode.shown));
            }
            if inode.passed != Shown::Nobody {
                self.hidden.push(Hidden::Ways(inode.passed));
            }
            self.owners.give_back(inode.account(), 1);
            let kept = inode.kept;
            let (volume, charged) = (inode.volume, inode.charged);
            // Its contents are let go before whoever keeps them destroys them.
            drop(inode);
            self.release_kept(kept);
            self.leave_volume(volume, charged);
        }
    }
    /// Every inode in use.
    pub fn iter(&self) -> impl Iterator<Item = (Ino, &Inode<C>)> {
        self.inodes.iter().map(|(index, inode)| (Ino(index as u32 + 1), inode))
    }
    /// Checks link counts and parents of the whole tree.
    pub fn validate(&self) -> Result<(), &'static str> {
        let last = self.iter().last().map_or(ROOT, |(ino, _)| ino);
        let mut links = alloc::vec![0u32; last.0 as usize + 1];
        links[ROOT.0 as usize] += 1;
        for (ino, inode) in self.iter() {
            let Node::Dir(dir) = &inode.node else { continue };
            if inode.nlink > 0 {
                // That of a volume is its own parent.
                links[ino.0 as usize] += 1 + u32::from(dir.parent == ino && ino != ROOT);
            }
            for entry in dir.entries(0) {
                let child = self.get(entry.ino).map_err(|_| "a name leads nowhere")?;
                links[entry.ino.0 as usize] += 1;
                if let Node::Dir(sub) = &child.node {
                    links[ino.0 as usize] += 1;
                    if sub.parent != ino {
                        return Err("a directory has the wrong parent");
                    }
                }
            }
        }
        for (ino, inode) in self.iter() {
            if inode.nlink != links[ino.0 as usize] {
                return Err("a link count is wrong");
            }
            if inode.nlink == 0 && inode.holds == 0 {
                return Err("a dead inode is kept");
            }
        }
        Ok(())
    }
}
