//! Path walking, over any tree of names.
//!
//! The order in which a path fails is Linux's: the length of the path, then from left to right for
//! every component: is this a directory (`ENOTDIR`), may it be passed (`EACCES`), is the component
//! too long, does it exist, is it a link too many (`ELOOP`).

use crate::fs::{Ino, Node};
use crate::perm::{Cred, EXEC};
use crate::Fs;
use alloc::vec::Vec;
use smallvec::SmallVec;
use unixproto::Errno;

/// Bytes of a name.
pub const NAME_MAX: usize = unixproto::files::NAME_MAX as usize;
/// Bytes of a path, its NUL included.
pub const PATH_MAX: usize = unixproto::files::PATH_MAX as usize;
/// Symbolic links that one walk follows.
pub const SYMLINKS_MAX: u32 = 40;

/// A name that was walked to. Most are so short that they need no memory of their own.
pub type Name = SmallVec<[u8; 24]>;

/// What a node is, for a walk.
pub enum Step<N> {
    /// A directory.
    Dir,
    /// A symbolic link with this text.
    Link(Vec<u8>),
    /// A link that leads straight to a node, whatever its text says (`/proc/PID/fd/N`).
    Jump(N),
    /// One that leads straight to a node of which this is the path.
    Named(Vec<u8>),
    /// Anything else.
    Other,
}

/// A tree of names.
pub trait Names {
    /// What names lead to.
    type Node: Copy + Eq;
    /// What a node is.
    fn step(&self, node: Self::Node) -> Result<Step<Self::Node>, Errno>;
    /// `EACCES` unless the directory may be passed.
    fn enter(&self, dir: Self::Node, cred: &Cred) -> Result<(), Errno>;
    /// The node with a name in a directory; `.` and `..` included.
    fn lookup(&self, dir: Self::Node, name: &[u8]) -> Result<Option<Self::Node>, Errno>;
    /// `EACCES` unless a symbolic link in a directory may be followed at the end of a path.
    fn may_follow(&self, dir: Self::Node, link: Self::Node, cred: &Cred) -> Result<(), Errno>;
    /// What is seen at a directory that is the root: something may be mounted there, and `..` leads to it, as on Linux.
    fn on_root(&self, root: Self::Node) -> Self::Node {
        root
    }
    /// Are two nodes seen in the same mount?
    fn is_same_mount(&self, one: Self::Node, other: Self::Node) -> bool {
        let _ = (one, other);
        true
    }
}

impl<C: Default> Names for Fs<C> {
    type Node = Ino;
    fn step(&self, node: Ino) -> Result<Step<Ino>, Errno> {
        Ok(match &self.get(node)?.node {
            Node::Dir(_) => Step::Dir,
            Node::Symlink(text) => Step::Link(text.clone()),
            _ => Step::Other,
        })
    }
    fn enter(&self, dir: Ino, cred: &Cred) -> Result<(), Errno> {
        self.get(dir)?.permits(cred, EXEC)
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Option<Ino>, Errno> {
        Fs::lookup(self, dir, name)
    }
    fn may_follow(&self, dir: Ino, link: Ino, cred: &Cred) -> Result<(), Errno> {
        Fs::may_follow(self, dir, link, cred)
    }
}

/// Where a walk must not lead (`openat2`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Resolve {
    /// To another mount: `EXDEV`.
    pub no_other_mount: bool,
    /// Over links that lead straight to a node: `ELOOP`.
    pub no_jumps: bool,
    /// Over symbolic links: `ELOOP`.
    pub no_links: bool,
    /// Out of the directory where it starts: `EXDEV`.
    pub beneath: bool,
    /// The directory where it starts is the root.
    pub in_root: bool,
}

/// How to walk.
#[derive(Clone)]
pub struct Walk<N> {
    /// The root directory.
    pub root: N,
    /// Where a relative path starts.
    pub start: N,
    /// On whose behalf.
    pub cred: Cred,
    /// Follow a symbolic link at the end. A trailing slash follows it in any case.
    pub follow: bool,
    /// Where it must not lead.
    pub resolve: Resolve,
}

/// Where a path leads.
pub struct Found<N> {
    /// The directory of the last component.
    pub parent: N,
    /// The last component; `.` for the root itself.
    pub name: Name,
    /// What has that name, if anything has.
    pub node: Option<N>,
    /// The path ended with a slash: it can mean a directory only.
    pub slash: bool,
}

impl<N: Copy> Found<N> {
    /// The node, or `ENOENT`.
    pub fn existing(&self) -> Result<N, Errno> {
        self.node.ok_or(Errno::ENOENT)
    }
}

/// A walk and how far it has come.
struct Walker<'t, T: Names> {
    tree: &'t T,
    how: &'t Walk<T::Node>,
    /// Where it is: a directory.
    at: T::Node,
    links: u32,
}

/// Walks a path. The node of the last component may be missing; everything before must exist.
pub fn walk<T: Names>(tree: &T, how: &Walk<T::Node>, path: &[u8]) -> Result<Found<T::Node>, Errno> {
    let is_absolute = path.first() == Some(&b'/');
    let at = if is_absolute { how.root } else { how.start };
    if is_absolute && how.resolve.beneath {
        is_path(path)?;
        return Err(Errno::EXDEV);
    }
    walk_from(tree, how, at, path)
}

/// Walks what follows in a path from a directory to which its beginning has led, over no link.
pub fn walk_from<T: Names>(
    tree: &T,
    how: &Walk<T::Node>,
    at: T::Node,
    rest: &[u8],
) -> Result<Found<T::Node>, Errno> {
    Walker { tree, how, at, links: 0 }.begin(rest)
}

/// May it be a path?
fn is_path(path: &[u8]) -> Result<(), Errno> {
    match path {
        [] => Err(Errno::ENOENT),
        _ if path.len() >= PATH_MAX => Err(Errno::ENAMETOOLONG),
        _ if path.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Splits the first component off: its name, and what follows behind the slashes. A trailing slash
/// shows as `Some(empty)`.
fn split(rest: &[u8]) -> (&[u8], Option<&[u8]>) {
    match rest.iter().position(|&byte| byte == b'/') {
        None => (rest, None),
        Some(end) => {
            let behind = &rest[end..];
            let skip = behind.iter().take_while(|&&byte| byte == b'/').count();
            (&rest[..end], Some(&behind[skip..]))
        }
    }
}

fn skip_slashes(path: &[u8]) -> &[u8] {
    let skip = path.iter().take_while(|&&byte| byte == b'/').count();
    &path[skip..]
}

impl<T: Names> Walker<'_, T> {
    /// Walks a path from where the walk is, if that is a directory.
    fn begin(mut self, path: &[u8]) -> Result<Found<T::Node>, Errno> {
        is_path(path)?;
        match self.tree.step(self.at)? {
            Step::Dir => self.run(path),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Walks a path from where the walk is. A link in it is followed by a walk of its text with the
    /// rest of the path behind: as deep as there may be links.
    fn run(&mut self, path: &[u8]) -> Result<Found<T::Node>, Errno> {
        let mut rest = skip_slashes(path);
        if rest.is_empty() {
            return self.end_here();
        }
        loop {
            let (name, behind) = split(rest);
            let node = self.look_up(name)?;
            let Some(behind) = behind.filter(|behind| !behind.is_empty()) else {
                return self.finish(name, node, behind.is_some());
            };
            let node = node.ok_or(Errno::ENOENT)?;
            match self.tree.step(node)? {
                Step::Dir => self.at = node,
                Step::Link(text) => return self.follow(text, Some(behind)),
                Step::Named(text) => {
                    self.may_leap()?;
                    return self.follow(text, Some(behind));
                }
                Step::Jump(target) => self.jump(target)?,
                Step::Other => return Err(Errno::ENOTDIR),
            }
            rest = behind;
        }
    }

    /// The path has led to a directory with nothing behind: `/`, or a link to it.
    fn end_here(&self) -> Result<Found<T::Node>, Errno> {
        self.tree.enter(self.at, &self.how.cred)?;
        Ok(Found {
            parent: self.at,
            name: Name::from_slice(b"."),
            node: Some(self.at),
            slash: false,
        })
    }

    /// Looks a component up.
    fn look_up(&self, name: &[u8]) -> Result<Option<T::Node>, Errno> {
        self.tree.enter(self.at, &self.how.cred)?;
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let resolve = self.how.resolve;
        if name == b".." {
            if resolve.beneath && self.at == self.how.start {
                return Err(Errno::EXDEV);
            }
            if self.at == self.how.root {
                return Ok(Some(self.tree.on_root(self.at)));
            }
        }
        let found = self.tree.lookup(self.at, name)?;
        if let Some(node) = found {
            self.stays(node)?;
        }
        Ok(found)
    }

    /// The last component: the answer, or what a link there leads to.
    fn finish(
        &mut self,
        name: &[u8],
        node: Option<T::Node>,
        slash: bool,
    ) -> Result<Found<T::Node>, Errno> {
        let found = |parent, node| Ok(Found { parent, name: Name::from_slice(name), node, slash });
        let Some(node) = node else { return found(self.at, None) };
        let follow = self.how.follow || slash;
        match self.tree.step(node)? {
            Step::Link(text) if follow => {
                self.tree.may_follow(self.at, node, &self.how.cred)?;
                self.follow(text, slash.then_some(&[][..]))
            }
            Step::Named(text) if follow => {
                self.may_leap()?;
                self.follow(text, slash.then_some(&[][..]))
            }
            Step::Jump(target) if follow => {
                self.may_jump(target)?;
                if slash && !matches!(self.tree.step(target)?, Step::Dir) {
                    return Err(Errno::ENOTDIR);
                }
                found(self.at, Some(target))
            }
            Step::Other if slash => Err(Errno::ENOTDIR),
            _ => found(self.at, Some(node)),
        }
    }

    /// `EXDEV` if it must not lead to another mount, and does.
    fn stays(&self, node: T::Node) -> Result<(), Errno> {
        match self.how.resolve.no_other_mount && !self.tree.is_same_mount(self.at, node) {
            true => Err(Errno::EXDEV),
            false => Ok(()),
        }
    }

    /// May it follow a link that leads straight to a node?
    fn may_jump(&mut self, target: T::Node) -> Result<(), Errno> {
        self.count_link()?;
        self.may_leap()?;
        self.stays(target)
    }

    /// May it follow links that lead straight to nodes?
    fn may_leap(&self) -> Result<(), Errno> {
        let resolve = self.how.resolve;
        match () {
            () if resolve.no_jumps || resolve.no_links => Err(Errno::ELOOP),
            () if resolve.beneath || resolve.in_root => Err(Errno::EXDEV),
            () => Ok(()),
        }
    }

    fn count_link(&mut self) -> Result<(), Errno> {
        self.links += 1;
        if self.links > SYMLINKS_MAX {
            return Err(Errno::ELOOP);
        }
        Ok(())
    }

    /// Goes on where a link leads straight to.
    fn jump(&mut self, target: T::Node) -> Result<(), Errno> {
        self.may_jump(target)?;
        if !matches!(self.tree.step(target)?, Step::Dir) {
            return Err(Errno::ENOTDIR);
        }
        self.at = target;
        Ok(())
    }

    /// Goes on with the text of a link, and what is left of the path behind it.
    fn follow(&mut self, text: Vec<u8>, behind: Option<&[u8]>) -> Result<Found<T::Node>, Errno> {
        self.count_link()?;
        if self.how.resolve.no_links {
            return Err(Errno::ELOOP);
        }
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        if text[0] == b'/' {
            if self.how.resolve.beneath {
                return Err(Errno::EXDEV);
            }
            self.stays(self.how.root)?;
            self.at = self.how.root;
        }
        let mut path = text;
        if let Some(behind) = behind {
            path.push(b'/');
            path.extend_from_slice(behind);
        }
        if path.len() >= 2 * PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.run(&path)
    }
}
