//! Snapshots: copies of all that is below the root of a part of the tree, in which nobody changes anything.
//!
//! They are made in a directory with a [name of its own](SNAPSHOTS) in that root. Who owns the root makes that directory, and
//! whoever may write the directory makes and removes snapshots. What is in them is on root's account, whoever owned the files.

use crate::dir::Dir;
use crate::fs::{Attr, Ino, Inode, Node};
use crate::perm::Cred;
use crate::Fs;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use unixproto::Errno;

/// The name of a directory with snapshots.
pub const SNAPSHOTS: &[u8] = b".snapshots";

/// What an inode has to do with snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Nothing.
    Live,
    /// It is a directory with snapshots.
    Snapshots,
    /// It is one, or in one.
    Frozen,
}

impl Part {
    /// That of what is in such a directory.
    pub(crate) fn below(self) -> Part {
        match self {
            Part::Live => Part::Live,
            Part::Snapshots | Part::Frozen => Part::Frozen,
        }
    }
}

/// A snapshot that has no name yet.
#[must_use]
pub struct Copies {
    top: Ino,
    /// What was copied, and the copy.
    pairs: BTreeMap<Ino, Ino>,
}

impl Copies {
    /// Each inode that was copied, with the copy.
    pub fn pairs(&self) -> impl Iterator<Item = (Ino, Ino)> + '_ {
        self.pairs.iter().map(|(&from, &to)| (from, to))
    }
}

/// A name that is to be copied.
struct Name {
    dir: Ino,
    name: Rc<[u8]>,
    ino: Ino,
}

impl<C> Inode<C> {
    /// What it has to do with snapshots.
    pub fn part(&self) -> Part {
        self.part
    }
    /// `EROFS` if it is in a snapshot.
    pub fn changeable(&self) -> Result<(), Errno> {
        match self.part {
            Part::Frozen => Err(Errno::EROFS),
            Part::Live | Part::Snapshots => Ok(()),
        }
    }
    /// Who answers for it.
    pub(crate) fn account(&self) -> u32 {
        match self.part {
            Part::Frozen => Cred::ROOT.uid,
            Part::Live | Part::Snapshots => self.uid,
        }
    }
}

impl<C: Default> Fs<C> {
    /// Is a directory the root of a part of the tree?
    fn is_top(&self, dir: Ino) -> Result<bool, Errno> {
        let inode = self.get(dir)?;
        let parent = self.get(inode.dir()?.parent)?;
        Ok(dir == self.root() || inode.kept.is_some() && parent.kept.is_none())
    }

    /// What is made with a name in a directory: a directory, if this is by whom. `EPERM`: there can be no such name there, or
    /// not for that one.
    pub(crate) fn part_of_new(
        &self,
        dir: Ino,
        name: &[u8],
        maker: Option<&Cred>,
    ) -> Result<Part, Errno> {
        if self.get(dir)?.part == Part::Snapshots {
            return Err(Errno::EPERM);
        }
        if name != SNAPSHOTS || !self.is_top(dir)? {
            return Ok(Part::Live);
        }
        self.get(dir)?.owned_by(maker.ok_or(Errno::EPERM)?)?;
        Ok(Part::Snapshots)
    }

    /// `EBUSY` if an inode is a directory with snapshots: it stays where it is.
    pub(crate) fn not_snapshots(&self, ino: Ino) -> Result<(), Errno> {
        match self.get(ino)?.part {
            Part::Snapshots => Err(Errno::EBUSY),
            Part::Live | Part::Frozen => Ok(()),
        }
    }

    /// A directory that was [adopted](Fs::adopt) is one with snapshots. What is in it is adopted later.
    pub fn adopt_snapshots(&mut self, dir: Ino) -> Result<(), Errno> {
        self.get_mut(dir)?.part = Part::Snapshots;
        Ok(())
    }

    /// How many names a snapshot has that is made in a directory, if `cred` may make one of that name there.
    pub fn snapshot_size(&self, dir: Ino, name: &[u8], cred: &Cred) -> Result<usize, Errno> {
        self.check_new(dir, name)?;
        self.may_change(dir, cred)?;
        if self.get(dir)?.part != Part::Snapshots {
            return Err(Errno::EINVAL);
        }
        Ok(1 + self.names_below(self.get(dir)?.dir()?.parent, dir)?.len())
    }

    /// Copies all that is below the root of a part of the tree, for a directory with snapshots. The copies of files have no
    /// contents yet.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: too many, or no memory.
    pub fn copy_tree(&mut self, dir: Ino) -> Result<Copies, Errno> {
        let root = self.get(dir)?.dir()?.parent;
        let names = self.names_below(root, dir)?;
        let top = self.copy_inode(root, dir)?;
        let mut copies = Copies { top, pairs: BTreeMap::from([(root, top)]) };
        self.get_mut(top)?.nlink = 2;
        for name in names {
            if let Err(error) = self.copy_name(&mut copies, name) {
                self.drop_tree(top);
                return Err(error);
            }
        }
        Ok(copies)
    }

    /// Names below a directory, each behind that of its directory. What is below `except` is left out, and other parts of the
    /// tree are empty directories.
    fn names_below(&self, root: Ino, except: Ino) -> Result<Vec<Name>, Errno> {
        let (mut names, mut dirs) = (Vec::new(), alloc::vec![root]);
        while let Some(dir) = dirs.pop() {
            let found = self.look_in(dir)?;
            names.try_reserve(found.len()).map_err(|_| Errno::ENOSPC)?;
            for (name, ino) in found.names().filter(|&(_, ino)| ino != except) {
                names.push(Name { dir, name: name.clone(), ino });
                if self.get(ino)?.is_dir() && self.same_part(dir, ino).is_ok() {
                    dirs.push(ino);
                }
            }
        }
        Ok(names)
    }

    fn copy_name(&mut self, copies: &mut Copies, name: Name) -> Result<(), Errno> {
        let Name { dir, name, ino } = name;
        let dir = *copies.pairs.get(&dir).ok_or(Errno::ENOENT)?;
        self.get_mut(dir)?.dir_mut()?.prepare(&name)?;
        let to = match copies.pairs.get(&ino) {
            Some(&to) => to,
            None => {
                let to = self.copy_inode(ino, dir)?;
                copies.pairs.insert(ino, to);
                to
            }
        };
        let copy = self.get_mut(to)?;
        let is_dir = copy.is_dir();
        copy.nlink += if is_dir { 2 } else { 1 };
        let parent = self.get_mut(dir)?;
        parent.nlink += u32::from(is_dir);
        parent.dir_mut()?.add(name, to);
        Ok(())
    }

    /// A copy without name of an inode that is to be in a directory.
    fn copy_inode(&mut self, ino: Ino, dir: Ino) -> Result<Ino, Errno> {
        let inode = self.get(ino)?;
        let (attributes, uid) = (inode.attributes(), inode.uid);
        let node = match &inode.node {
            Node::File { size, .. } => Node::File { size: *size, content: C::default() },
            Node::Dir(_) => Node::Dir(Dir::new(dir)),
            Node::Symlink(text) => Node::Symlink(text.clone()),
            Node::Device(number) => Node::Device(*number),
            Node::Block(number) => Node::Block(*number),
            Node::Fifo => Node::Fifo,
            Node::Socket => Node::Socket,
            Node::Queue => return Err(Errno::EPERM),
        };
        let attr = Attr { mode: attributes.mode, cred: Cred::ROOT, now: attributes.ctime };
        let copy = self.allocate(node, attr)?;
        let inode = self.get_mut(copy)?;
        (inode.part, inode.uid) = (Part::Frozen, uid);
        inode.set_attributes(attributes);
        Ok(copy)
    }

    /// Gives a snapshot its name in the directory for which it was made. Where it is kept, it is kept then, and returned
    /// is which copies have which objects. After an error there is none.
    pub fn name_snapshot(
        &mut self,
        dir: Ino,
        name: &[u8],
        copies: Copies,
        now: i64,
    ) -> Result<Vec<(Ino, u32)>, Errno> {
        let top = copies.top;
        let kept = self.keep_snapshot(dir, name, &copies, now);
        let contents = kept.inspect_err(|_| self.drop_tree(top))?;
        let parent = self.get_mut(dir)?;
        parent.nlink += 1;
        parent.dir_mut()?.set(name, top);
        parent.modified(now);
        Ok(contents)
    }

    fn keep_snapshot(
        &mut self,
        dir: Ino,
        name: &[u8],
        copies: &Copies,
        now: i64,
    ) -> Result<Vec<(Ino, u32)>, Errno> {
        self.get_mut(dir)?.dir_mut()?.prepare(name)?;
        let root = self.get(dir)?.dir()?.parent;
        let Some(of) = self.get(root)?.kept else { return Ok(Vec::new()) };
        // What is copied there is as it is here.
        self.settle()?;
        let numbered = copies.pairs().map(|(from, to)| Ok((self.get(from)?.kept, to)));
        let numbered = numbered.collect::<Result<BTreeMap<_, _>, Errno>>()?;
        let (keeper, at) = self.keeper_of(dir, name)?.ok_or(Errno::EROFS)?;
        let made = keeper.snapshot(of, at, now)?;
        let mut contents = Vec::new();
        for copy in made {
            // Both trees are the same.
            let Some(&ino) = numbered.get(&Some(copy.from)) else { continue };
            self.get_mut(ino)?.kept = Some(copy.to);
            contents.extend(copy.content.map(|content| (ino, content)));
        }
        Ok(contents)
    }

    /// Gives copies up that have no name yet.
    pub fn drop_copies(&mut self, copies: Copies) {
        self.drop_tree(copies.top);
    }

    /// Removes a snapshot from a directory with snapshots.
    pub fn remove_snapshot(
        &mut self,
        dir: Ino,
        name: &[u8],
        cred: &Cred,
        now: i64,
    ) -> Result<(), Errno> {
        let top = self.get(dir)?.dir()?.get(name).ok_or(Errno::ENOENT)?;
        if self.get(dir)?.part != Part::Snapshots {
            return Err(Errno::EINVAL);
        }
        self.may_remove(dir, top, cred)?;
        if let Some((keeper, at)) = self.keeper_of(dir, name)? {
            keeper.remove_snapshot(at, now)?;
        }
        let parent = self.get_mut(dir)?;
        parent.dir_mut()?.remove(name);
        parent.nlink -= 1;
        parent.modified(now);
        self.drop_tree(top);
        Ok(())
    }

    /// A directory that has no name any more is gone, with everything below it; what somebody holds stays without a name.
    pub(crate) fn drop_tree(&mut self, top: Ino) {
        let mut dirs = alloc::vec![top];
        while let Some(dir) = dirs.pop() {
            self.empty(dir, &mut dirs);
            if let Ok(inode) = self.get_mut(dir) {
                inode.nlink = 0;
            }
            self.reap(dir);
        }
    }

    /// All names in a directory are gone. Directories among what they stood for are added to some.
    pub(crate) fn empty(&mut self, dir: Ino, dirs: &mut Vec<Ino>) {
        let Ok(Inode { node: Node::Dir(found), .. }) = self.get_mut(dir) else { return };
        let parent = found.parent;
        let found = core::mem::replace(found, Dir::new(parent));
        for (_, ino) in found.names() {
            let Ok(inode) = self.get_mut(ino) else { continue };
            match inode.is_dir() {
                true => dirs.push(ino),
                false => {
                    inode.nlink -= 1;
                    self.reap(ino);
                }
            }
        }
    }

    /// Nothing is in a directory any more.
    pub(crate) fn drop_below(&mut self, dir: Ino) {
        let mut dirs = Vec::new();
        self.empty(dir, &mut dirs);
        dirs.into_iter().for_each(|below| self.drop_tree(below));
        if let Ok(inode) = self.get_mut(dir) {
            inode.nlink = 2;
        }
    }
}
