//! From the paths in requests to nodes.

use crate::descs::{Desc, Descs, Object};
use crate::nodes::{Node, Tree};
use crate::paths::{self, Memory, Question, Trail};
use crate::procs::{cred_of, Procs};
use crate::share::{Visit, Way};
use crate::voices::Speaker;
use crate::volumes::Spot;
use crate::wait::Call;
use alloc::vec::Vec;
use credentials::Credentials;
use memfs::{walk, walk_from, Cred, Ino, Name, Names, Resolve, Step, Walk};
use mounttable::MountId;
use unixproto::files::{AT_EMPTY_PATH, CWD};
use unixproto::Errno;

/// A directory in which names are made and removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// Of the file system.
    Mem(Ino),
    /// Of what others have.
    Share(u32),
}

/// Where a path leads.
pub struct Found {
    /// The directory of the last component.
    pub parent: Node,
    /// The last component; `.` for the root itself.
    pub name: Name,
    /// What has that name, if anything has.
    pub node: Option<Node>,
    /// The path ended with a slash: it can mean a directory only.
    pub slash: bool,
    /// The mount of the directory.
    pub above: MountId,
    /// The mount of what was found, or else that of the directory.
    pub mount: MountId,
    /// Where [it is kept](crate::paths), if that was known before.
    pub known: Option<usize>,
}

impl Found {
    fn new(found: memfs::Found<Spot>) -> Found {
        Found {
            parent: found.parent.node,
            name: found.name,
            node: found.node.map(|spot| spot.node),
            slash: found.slash,
            above: found.parent.mount,
            mount: found.node.map_or(found.parent.mount, |spot| spot.mount),
            known: None,
        }
    }
    /// The node, or `ENOENT`.
    pub fn existing(&self) -> Result<Node, Errno> {
        self.node.ok_or(Errno::ENOENT)
    }
    /// The same in its mount.
    pub fn spot(&self) -> Result<Spot, Errno> {
        Ok(Spot { mount: self.mount, node: self.existing()? })
    }
    /// Is it the root of a mount, and not that of its directory?
    pub fn is_mounted(&self) -> bool {
        self.mount != self.above
    }
}

/// The tree as one process sees it, with `/proc`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub tree: &'a Tree,
    pub procs: &'a Procs,
    pub descs: &'a Descs,
    pub caller: Speaker,
    /// Who looks: the process, or who it would be by its real ids.
    pub who: &'a Credentials,
}

impl<'a> View<'a> {
    /// As the caller's process sees it.
    pub fn new(
        tree: &'a Tree,
        procs: &'a Procs,
        descs: &'a Descs,
        caller: Speaker,
    ) -> Result<View<'a>, Errno> {
        Ok(View { tree, procs, descs, caller, who: &procs.get(caller.pid)?.who })
    }

    /// On whose behalf files are looked for.
    fn cred(&self) -> Cred {
        cred_of(self.who)
    }

    /// The root directory of the process.
    pub fn root(&self) -> Result<Spot, Errno> {
        Ok(self.procs.get(self.caller.pid)?.stands.root)
    }

    /// The node of a description, in the mount by which it was opened.
    pub fn spot_of(&self, desc: &Desc) -> Result<Option<Spot>, Errno> {
        let Some(node) = desc.object.node() else { return Ok(None) };
        let mount = match &desc.place {
            Some(place) => place.mount,
            // It has no name.
            None => self.tree.first().root.mount,
        };
        Ok(Some(Spot { mount, node }))
    }

    /// The directory that a request names.
    fn start(&self, dir: u32) -> Result<Spot, Errno> {
        if dir == CWD {
            return Ok(self.procs.get(self.caller.pid)?.stands.cwd);
        }
        let desc = self.descs.of(self.caller.pid, dir)?;
        match desc.object {
            Object::Dir(_) | Object::Path(_) => self.spot_of(desc)?.ok_or(Errno::ENOTDIR),
            Object::Shared(file) if file.is_dir => self.spot_of(desc)?.ok_or(Errno::ENOTDIR),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Walks a path.
    pub fn walk(&self, dir: u32, path: &[u8], follow: bool) -> Result<Found, Errno> {
        self.walk_as(dir, path, follow, Resolve::default())
    }

    /// Walks a path, as far as `openat2` is to.
    pub fn walk_as(
        &self,
        dir: u32,
        path: &[u8],
        follow: bool,
        resolve: Resolve,
    ) -> Result<Found, Errno> {
        let root = self.root()?;
        // An absolute path does not look at the directory.
        let is_absolute = path.first() == Some(&b'/') && !resolve.in_root && !resolve.beneath;
        let start = if is_absolute { root } else { self.start(dir)? };
        let root = if resolve.in_root { start } else { root };
        let how = Walk { root, start, cred: self.cred(), follow, resolve };
        Ok(Found::new(match resolve == Resolve::default() {
            true => self.walk_near(&how, path)?,
            false => walk(self, &how, path)?,
        }))
    }

    /// Walks a path from the directory in which its last component lies, if it is [known](crate::paths) where that is.
    fn walk_near(&self, how: &Walk<Spot>, path: &[u8]) -> Result<memfs::Found<Spot>, Errno> {
        if let Some((dir, name)) = paths::split(path) {
            let &Walk { root, start, ref cred, .. } = how;
            let question = Question { root, start, cred, follow: true, path: dir };
            match self.tree.directories().directory(self.tree, &question) {
                Ok(dir) => return walk_from(self, how, dir, name),
                Err(true) => return self.walk_over(how, path, &question),
                Err(false) => {}
            }
        }
        walk(self, how, path)
    }

    /// Walks a path whose directory is to be kept. There is no other walk to that: what others have is asked as often each time that a request is tried.
    #[cold]
    #[inline(never)]
    fn walk_over(
        &self,
        how: &Walk<Spot>,
        path: &[u8],
        dir: &Question,
    ) -> Result<memfs::Found<Spot>, Errno> {
        let trailed = Trailed { view: self, trail: Trail::new() };
        let found = walk(&trailed, how, path);
        let place = found.as_ref().ok().map(|found| found.parent);
        let mounted = self.tree.mounted().turn;
        self.tree.directories().keep_directory(dir, place, mounted, trailed.trail);
        found
    }

    /// Walks a path to look at what is there, as is done again and again, unless it is [known](crate::paths) where it leads.
    pub fn walk_again(&self, dir: u32, path: &[u8], follow: bool) -> Result<Found, Errno> {
        let root = self.root()?;
        let start = if path.first() == Some(&b'/') { root } else { self.start(dir)? };
        let how = Walk { root, start, cred: self.cred(), follow, resolve: Resolve::default() };
        let question = Question { root, start, cred: &how.cred, follow, path };
        let is_kept = match self.tree.paths().find(self.tree, &question) {
            Memory::Leads(found) => return Ok(found),
            Memory::Again => true,
            Memory::New => false,
        };
        Ok(Found::new(match is_kept {
            true => self.walk_to_keep(&how, &question)?,
            false => self.walk_near(&how, path)?,
        }))
    }

    #[cold]
    #[inline(never)]
    fn walk_to_keep(
        &self,
        how: &Walk<Spot>,
        question: &Question,
    ) -> Result<memfs::Found<Spot>, Errno> {
        let trailed = Trailed { view: self, trail: Trail::new() };
        let found = walk(&trailed, how, question.path);
        let mounted = self.tree.mounted().turn;
        self.tree.paths().keep(question, found.as_ref().ok(), mounted, trailed.trail);
        found
    }

    /// The node that a request is about: by path, or the description itself.
    pub fn target(&self, call: &Call, dir: u32, flags: u32, follow: bool) -> Result<Node, Errno> {
        Ok(self.target_spot(call, dir, flags, follow)?.node)
    }

    /// The same, in its mount.
    pub fn target_spot(
        &self,
        call: &Call,
        dir: u32,
        flags: u32,
        follow: bool,
    ) -> Result<Spot, Errno> {
        if call.lengths.0 == 0 && flags & AT_EMPTY_PATH != 0 {
            if dir == CWD {
                return Ok(self.procs.get(self.caller.pid)?.stands.cwd);
            }
            let desc = self.descs.of(self.caller.pid, dir)?;
            return self.spot_of(desc)?.ok_or(Errno::EINVAL);
        }
        let path = self.procs.path(self.caller, call)?;
        self.walk_again(dir, &path, follow)?.spot()
    }

    /// The node that a request changes, and where it is, as far as that is known. `EROFS`: nothing is changed by its mount.
    pub fn placed(
        &self,
        call: &Call,
        dir: u32,
        flags: u32,
        follow: bool,
    ) -> Result<(Node, Option<(Node, Name)>), Errno> {
        if call.lengths.0 == 0 && flags & AT_EMPTY_PATH != 0 {
            let spot = self.target_spot(call, dir, flags, follow)?;
            self.tree.may_write(spot.mount)?;
            let desc = self.descs.of(self.caller.pid, dir).ok();
            let place = desc.and_then(|desc| desc.place.as_ref());
            return Ok((spot.node, place.map(|place| (place.dir, place.name.clone()))));
        }
        let path = self.procs.path(self.caller, call)?;
        let found = self.walk(dir, &path, follow)?;
        let node = found.existing()?;
        self.tree.may_write(found.mount)?;
        Ok((node, Some((found.parent, found.name))))
    }

    /// What others have and a node is in, for this request.
    pub fn visit(&self, node: u32) -> Result<Visit<'a>, Errno> {
        let share = self.tree.share_of(node)?;
        Ok(share.visit(self.caller.tid, self.cred()))
    }

    /// Directory and name of a path whose last component is to be made or removed.
    pub fn last(&self, dir: u32, path: &[u8]) -> Result<(Parent, Found), Errno> {
        let found = self.walk(dir, path, false)?;
        match found.parent {
            Node::Mem(ino) => Ok((Parent::Mem(ino), found)),
            Node::Share(node) => Ok((Parent::Share(node), found)),
            Node::Proc(_) if found.node.is_some() => Err(Errno::EPERM),
            Node::Proc(_) => Err(Errno::ENOENT),
        }
    }

    /// The path of the file that a path of the process leads to, links followed.
    pub fn absolute(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let found = self.walk(CWD, path, true)?;
        let dir = Spot { mount: found.above, node: found.parent };
        self.tree.path_in(dir, &found.name, self.root()?)
    }

    /// The directory above one that is not the root of the process: that above its mount, if it is the root of that.
    fn above(&self, mut at: Spot) -> Result<Spot, Errno> {
        let root = self.root()?;
        loop {
            if at == root {
                return Ok(self.tree.top(root));
            }
            let mount = self.tree.mounts().get(at.mount).map_err(|_| Errno::ENOENT)?;
            match mount.at {
                _ if mount.root != at.node => break,
                // Whoever has left the tree of mounts is at the top of what is left.
                None => return Ok(at),
                Some((mount, node)) => at = Spot { mount, node },
            }
        }
        let node = match at.node {
            Node::Proc(dir) => self.proc_lookup(dir, b"..")?.map(Node::Proc),
            Node::Share(dir) => match self.visit(dir)?.lookup(dir, b"..")? {
                Some(Way::Node(node)) => Some(Node::Share(node)),
                Some(Way::Out) | None => None,
            },
            Node::Mem(ino) => self.tree.files().names().lookup(ino, b"..")?.map(Node::Mem),
        };
        Ok(self.tree.top(Spot { node: node.unwrap_or(at.node), ..at }))
    }
}

/// A view of which is noted what a walk passes.
struct Trailed<'v, 'a> {
    view: &'v View<'a>,
    trail: Trail,
}

impl Trailed<'_, '_> {
    fn note(&self, spot: Spot) {
        let inode = match spot.node {
            Node::Mem(ino) => self.view.tree.files().names().get(ino).ok().map(|it| (ino, it)),
            _ => None,
        };
        match inode {
            Some((ino, inode)) => self.trail.over(ino, inode.turn()),
            None => self.trail.elsewhere(),
        }
    }
}

impl Names for Trailed<'_, '_> {
    type Node = Spot;

    fn step(&self, spot: Spot) -> Result<Step<Spot>, Errno> {
        let step = self.view.step(spot)?;
        match (&step, spot.node) {
            // It is noted when it is entered.
            (Step::Dir, _) | (Step::Other, Node::Mem(_)) => {}
            _ => {
                self.trail.bends();
                self.note(spot);
            }
        }
        Ok(step)
    }

    fn enter(&self, dir: Spot, cred: &Cred) -> Result<(), Errno> {
        self.note(dir);
        self.view.enter(dir, cred)
    }

    fn may_follow(&self, dir: Spot, link: Spot, cred: &Cred) -> Result<(), Errno> {
        self.view.may_follow(dir, link, cred)
    }

    fn lookup(&self, dir: Spot, name: &[u8]) -> Result<Option<Spot>, Errno> {
        if name == b".." {
            // What is above depends on more than this directory.
            self.trail.elsewhere();
        }
        self.view.lookup(dir, name)
    }

    fn on_root(&self, root: Spot) -> Spot {
        self.view.on_root(root)
    }
}

impl Names for View<'_> {
    type Node = Spot;

    fn step(&self, spot: Spot) -> Result<Step<Spot>, Errno> {
        match spot.node {
            Node::Proc(node) => self.proc_step(node),
            Node::Share(node) => self.visit(node)?.step(node),
            Node::Mem(ino) => Ok(match self.tree.files().names().step(ino)? {
                Step::Dir => Step::Dir,
                Step::Link(text) => Step::Link(text),
                Step::Named(text) => Step::Named(text),
                Step::Jump(ino) => Step::Jump(Spot { node: Node::Mem(ino), ..spot }),
                Step::Other => Step::Other,
            }),
        }
    }

    fn enter(&self, dir: Spot, cred: &Cred) -> Result<(), Errno> {
        match dir.node {
            Node::Mem(ino) => self.tree.files().names().enter(ino, cred),
            Node::Proc(dir) => self.proc_enter(dir),
            Node::Share(dir) => self.visit(dir)?.enter(dir),
        }
    }

    fn may_follow(&self, dir: Spot, link: Spot, cred: &Cred) -> Result<(), Errno> {
        match (dir.node, link.node) {
            (Node::Mem(dir), Node::Mem(link)) => {
                self.tree.files().names().may_follow(dir, link, cred)
            }
            (Node::Share(dir), Node::Share(link)) => self.visit(dir)?.may_follow(dir, link),
            _ => Ok(()),
        }
    }

    fn lookup(&self, dir: Spot, name: &[u8]) -> Result<Option<Spot>, Errno> {
        match name {
            b".." => return self.above(dir).map(Some),
            // Also where something has been mounted since.
            b"." => return Ok(Some(dir)),
            _ => {}
        }
        let node = match dir.node {
            Node::Proc(inner) => self.proc_lookup(inner, name)?.map(Node::Proc),
            Node::Share(inner) => match self.visit(inner)?.lookup(inner, name)? {
                Some(Way::Node(node)) => Some(Node::Share(node)),
                Some(Way::Out) | None => None,
            },
            Node::Mem(ino) => self.tree.files().names().lookup(ino, name)?.map(Node::Mem),
        };
        Ok(node.map(|node| self.tree.top(Spot { mount: dir.mount, node })))
    }

    fn on_root(&self, root: Spot) -> Spot {
        self.tree.top(root)
    }

    fn is_same_mount(&self, one: Spot, other: Spot) -> bool {
        one.mount == other.mount
    }
}
