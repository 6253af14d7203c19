//! What is mounted where.
//!
//! A [`Mount`] shows a tree, or a part of one, at a node of another mount. Mounts are in a `Space` (a mount name space), of
//! which each process has one; there the mounts are a tree with one root. What nodes are is not known here: `N` is something with
//! an order, and `V` what a mount shows, which is shared by all mounts of it (a superblock).
//!
//! Whoever stands in a mount (an open file, a working directory) [holds](Mounts::hold) it. One that is taken out of its space while
//! somebody holds it is there until nobody does, but nobody else gets there. What is gone is returned as [`Gone`]: whoever has the
//! nodes lets them go then.
//!
//! How many mounts a user has, in all spaces, is bounded.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod following;
mod space;

pub use following::{Follows, Propagation};
pub use space::SpaceId;

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use piecewise::{Limits, Shares, Table};
use space::Space;
use unixproto::Errno;

/// Number of a mount; used again after it is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MountId(pub u32);

/// `MS_RDONLY`, `MS_NOSUID`, `MS_NODEV`, `MS_NOEXEC`: what takes rights away.
const RESTRICTIONS: u32 = 1 | 2 | 4 | 8;

/// A mount.
pub struct Mount<N, V> {
    /// Its number as programs see it, which is never used again.
    pub number: u64,
    /// Where it is: the mount and the node there that it covers.
    pub at: Option<(MountId, N)>,
    /// The node that is its root.
    pub root: N,
    /// `MS_*` that hold for this mount.
    pub flags: u32,
    /// What it shows.
    pub volume: Rc<V>,
    /// Who has less rights than who made it keeps it where it is.
    pub is_locked: bool,
    /// Flags that it keeps, and each that is bound from it: those of them who have more rights.
    pub kept: u32,
    /// What follows it, and what it follows.
    pub follows: Follows,
    /// Who answers for it.
    uid: u32,
    /// In which space; `None`: it was taken out.
    space: Option<SpaceId>,
    /// What is mounted on it.
    children: Vec<MountId>,
    holds: u32,
}

impl<N, V> Mount<N, V> {
    /// In which space it is; `None`: it was taken out.
    pub fn space(&self) -> Option<SpaceId> {
        self.space
    }
    /// Is something mounted on it?
    pub fn has_children(&self) -> bool {
        !self.children.is_empty()
    }
    /// Does somebody stand in it?
    pub fn is_held(&self) -> bool {
        self.holds > 0
    }
}

/// What was let go with a mount.
pub enum Gone<N, V> {
    /// The node that it covered.
    At(N),
    /// Its root and what it showed.
    Root(N, Rc<V>),
}

/// What is covered by mounts.
pub trait Node: Copy + Ord {
    /// A number that is mostly another one for another node.
    fn spread(self) -> u32;
}

impl Node for u32 {
    fn spread(self) -> u32 {
        self
    }
}

/// Kinds of nodes by which covered ones are told from others.
const CROWDS: usize = 256;

/// How many covered nodes there are of each kind: every step of every walk asks whether a node is covered, and hardly any is.
struct Crowds([u32; CROWDS]);

impl Crowds {
    #[inline]
    fn of(&self, node: impl Node) -> u32 {
        self.0[node.spread() as usize % CROWDS]
    }
    fn of_mut(&mut self, node: impl Node) -> &mut u32 {
        &mut self.0[node.spread() as usize % CROWDS]
    }
}

/// All mounts of all spaces.
pub struct Mounts<N, V> {
    table: Table<Mount<N, V>>,
    /// What covers a node of a mount.
    covers: BTreeMap<(MountId, N), MountId>,
    covered: Crowds,
    spaces: Table<Space>,
    users: Shares,
    last: u64,
    last_space: u64,
    last_group: u64,
}

impl<N: Node, V> Mounts<N, V> {
    /// None, of which there can be so many.
    pub fn new(limits: Limits) -> Self {
        Mounts {
            table: Table::default(),
            covers: BTreeMap::new(),
            covered: Crowds([0; CROWDS]),
            spaces: Table::default(),
            users: Shares::new(limits),
            last: 0,
            last_space: 0,
            last_group: 0,
        }
    }

    /// A mount. `EINVAL`: there is none with this number.
    pub fn get(&self, id: MountId) -> Result<&Mount<N, V>, Errno> {
        self.table.get(id.0 as usize).ok_or(Errno::EINVAL)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: MountId) -> Result<&mut Mount<N, V>, Errno> {
        self.table.get_mut(id.0 as usize).ok_or(Errno::EINVAL)
    }

    /// What covers a node of a mount: the last one that was mounted there.
    #[inline]
    pub fn covering(&self, mount: MountId, node: N) -> Option<MountId> {
        match self.covered.of(node) {
            0 => None,
            _ => self.covers.get(&(mount, node)).copied(),
        }
    }

    /// Is a node covered in a mount of a space? Whoever sees it elsewhere, where nothing covers it, must not take its name away, either.
    pub fn is_covered(&self, space: SpaceId, node: N) -> bool {
        let covers = |mount: &Mount<N, V>| {
            mount.space == Some(space) && mount.at.is_some_and(|(_, at)| at == node)
        };
        self.covered.of(node) != 0 && self.table.iter().any(|(_, mount)| covers(mount))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn add(&mut self, mount: Mount<N, V>) -> Result<MountId, Errno> {
        let uid = mount.uid;
        let index = self.table.insert(mount).map_err(|_| Errno::ENOSPC)?;
        self.users.take(uid, 1);
        Ok(MountId(index as u32))
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn new_mount(
        &mut self,
        root: N,
        flags: u32,
        volume: Rc<V>,
        uid: u32,
        space: Option<SpaceId>,
    ) -> Mount<N, V> {
        Mount {
            number: self.number(),
            at: None,
            root,
            flags,
            volume,
            is_locked: false,
            kept: 0,
            follows: Follows::default(),
            uid,
            space,
            children: Vec::new(),
            holds: 0,
        }
    }

    /// Mounts something on a node of a mount that is in a space.
    ///
    /// # Errors
    /// `ENOSPC`: the user has too many, or there is no memory. `EINVAL`: nobody gets to that mount any more.
    pub fn mount(
        &mut self,
        at: (MountId, N),
        root: N,
        flags: u32,
        volume: Rc<V>,
        uid: u32,
    ) -> Result<MountId, Errno> {
        let space = self.get(at.0)?.space.ok_or(Errno::EINVAL)?;
        if !self.users.has_room(uid, 1) {
            return Err(Errno::ENOSPC);
        }
        let mount = self.new_mount(root, flags, volume, uid, Some(space));
        let id = self.add(mount)?;
        self.attach(id, at);
        Ok(id)
    }

    fn attach(&mut self, id: MountId, at: (MountId, N)) {
        if self.covers.insert(at, id).is_none() {
            *self.covered.of_mut(at.1) += 1;
        }
        if let Ok(parent) = self.get_mut(at.0) {
            parent.children.push(id);
        }
        if let Ok(mount) = self.get_mut(id) {
            mount.at = Some(at);
        }
    }

    fn detach(&mut self, id: MountId) -> Option<(MountId, N)> {
        let at = self.get_mut(id).ok()?.at.take()?;
        if self.covers.remove(&at).is_some() {
            *self.covered.of_mut(at.1) -= 1;
        }
        if let Ok(parent) = self.get_mut(at.0) {
            parent.children.retain(|child| *child != id);
        }
        Some(at)
    }

    /// A mount and all that is mounted on it, each behind what it is mounted on.
    pub fn below(&self, id: MountId) -> Vec<MountId> {
        let mut all = alloc::vec![id];
        let mut next = 0;
        while let Some(&one) = all.get(next) {
            next += 1;
            if let Ok(mount) = self.get(one) {
                all.extend(&mount.children);
            }
        }
        all
    }

    /// Is a mount another one, or below it?
    pub fn is_below(&self, mut id: MountId, above: MountId) -> bool {
        loop {
            if id == above {
                return true;
            }
            match self.get(id).ok().and_then(|mount| mount.at) {
                Some((parent, _)) => id = parent,
                None => return false,
            }
        }
    }

    /// The mounts of a space, in the order in which they were mounted.
    pub fn in_space(&self, space: SpaceId) -> Vec<MountId> {
        let Some(root) = self.space(space).map(|space| space.root) else { return Vec::new() };
        let mut all = self.below(root);
        all.sort_by_key(|id| self.get(*id).map_or(0, |mount| mount.number));
        all
    }

    /// Copies mounts that are below another one onto a node, or [to no place](Mounts::detached): a part of what the first of them shows,
    /// from `root` on, and, if that is wanted, what is mounted below that. `visible` says whether a node of the first mount is below `root`. `copied` is told of
    /// each root and each covered node that the copies hold.
    ///
    /// # Errors
    /// `ENOSPC`: the user would have too many; then none is made.
    pub fn bind(
        &mut self,
        (source, root): (MountId, N),
        at: Option<(MountId, N)>,
        all: bool,
        uid: u32,
        visible: impl Fn(N) -> bool,
        mut copied: impl FnMut(N),
    ) -> Result<MountId, Errno> {
        let is_copied = |&id: &MountId| {
            let above = self.get(id).ok().and_then(|mount| mount.at);
            above.is_some_and(|(parent, node)| parent != source || visible(node))
        };
        let mut from = alloc::vec![source];
        if all {
            let children = self.get(source)?.children.iter().filter(|id| is_copied(id));
            for child in children.copied().collect::<Vec<_>>() {
                // With what is not bound goes what is mounted on it: copies of that have no place.
                let is_bound =
                    |id: &MountId| self.get(*id).is_ok_and(|one| !one.follows.is_unbindable);
                from.extend(self.below(child).into_iter().filter(is_bound));
            }
        }
        if !self.users.has_room(uid, from.len()) {
            return Err(Errno::ENOSPC);
        }
        let (flags, kept, volume, follows) = {
            let source = self.get(source)?;
            (source.flags, source.kept, source.volume.clone(), source.follows)
        };
        let top = match at {
            Some(at) => self.mount(at, root, flags, volume, uid)?,
            None => self.detached(root, flags, volume, uid)?,
        };
        let made = self.get_mut(top)?;
        // It is a peer of what it was bound from.
        (made.kept, made.follows) = (kept, follows);
        copied(root);
        if let Some((_, node)) = at {
            copied(node);
        }
        let mut copies = BTreeMap::from([(source, top)]);
        for id in from.into_iter().skip(1) {
            let one = self.get(id)?;
            let Some((parent, node)) = one.at else { continue };
            let Some(&parent) = copies.get(&parent) else { continue };
            let (root, flags, volume) = (one.root, one.flags, one.volume.clone());
            let (is_locked, kept, follows) = (one.is_locked, one.kept, one.follows);
            let copy = self.mount((parent, node), root, flags, volume, uid)?;
            let made = self.get_mut(copy)?;
            (made.is_locked, made.kept, made.follows) = (is_locked, kept, follows);
            copied(root);
            copied(node);
            copies.insert(id, copy);
        }
        Ok(top)
    }

    /// Moves a mount, with all that is mounted on it, to another node. Answers the node that it covered, if it was anywhere.
    ///
    /// # Errors
    /// `EINVAL`: it is the root of a space that somebody has. `ELOOP`: it would be below itself.
    pub fn relocate(&mut self, id: MountId, to: (MountId, N)) -> Result<Option<N>, Errno> {
        if self.is_below(to.0, id) {
            return Err(Errno::ELOOP);
        }
        let space = self.get(to.0)?.space.ok_or(Errno::EINVAL)?;
        let before = match self.end_detached(id) {
            true => None,
            false => Some(self.detach(id).ok_or(Errno::EINVAL)?.1),
        };
        if before.is_none() {
            for one in self.below(id) {
                self.get_mut(one)?.space = Some(space);
            }
        }
        self.attach(id, to);
        Ok(before)
    }

    /// Takes a mount, with all that is mounted on it, out of its space, and its copies out of theirs.
    ///
    /// # Errors
    /// `EBUSY`: somebody stands in it or in a copy, or something is mounted on it, unless that does not matter (`lazily`).
    pub fn unmount(&mut self, id: MountId, lazily: bool) -> Result<Vec<Gone<N, V>>, Errno> {
        let mount = self.get(id)?;
        if !lazily && (mount.is_held() || mount.has_children()) {
            return Err(Errno::EBUSY);
        }
        if mount.at.is_none() {
            return Err(Errno::EINVAL);
        }
        if !lazily && self.has_held_copies(id) {
            return Err(Errno::EBUSY);
        }
        let mut gone = self.take_out_copies(id);
        gone.extend(self.take_out(id));
        Ok(gone)
    }

    fn take_out(&mut self, id: MountId) -> Vec<Gone<N, V>> {
        let mut gone = Vec::new();
        for id in self.below(id).into_iter().rev() {
            gone.extend(self.detach(id).map(|(_, node)| Gone::At(node)));
            self.stand_alone(id);
            if let Ok(mount) = self.get_mut(id) {
                mount.space = None;
            }
            gone.extend(self.bury(id));
        }
        gone
    }

    /// What is in no space and held by nobody is gone.
    fn bury(&mut self, id: MountId) -> Option<Gone<N, V>> {
        let is_over = |mount: &Mount<N, V>| mount.space.is_none() && mount.holds == 0;
        if !self.get(id).is_ok_and(is_over) {
            return None;
        }
        let mount = self.table.remove(id.0 as usize)?;
        self.users.give_back(mount.uid, 1);
        Some(Gone::Root(mount.root, mount.volume))
    }

    /// Somebody stands in a mount.
    #[inline]
    pub fn hold(&mut self, id: MountId) {
        if let Ok(mount) = self.get_mut(id) {
            mount.holds += 1;
        }
    }

    /// Not any more.
    #[inline]
    pub fn release(&mut self, id: MountId) -> Option<Gone<N, V>> {
        let mount = self.get_mut(id).ok()?;
        mount.holds = mount.holds.saturating_sub(1);
        match mount.space {
            Some(_) => None,
            None => self.bury(id),
        }
    }
}
