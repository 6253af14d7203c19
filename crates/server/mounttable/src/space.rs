//! Mount name spaces.

use crate::{Follows, Gone, Mount, MountId, Mounts, Node, RESTRICTIONS};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use unixproto::Errno;

/// Number of a mount name space; used again after it is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SpaceId(pub u32);

/// A mount name space.
pub struct Space {
    /// Its root.
    pub root: MountId,
    /// Its number as programs see it, which is never used again.
    pub number: u64,
    /// The user name space whose administrators may change it.
    pub owner: u64,
    /// How many have it.
    users: u32,
    /// It is there for a mount that is at no place yet; nobody is in it.
    is_detached: bool,
}

/// What became of each mount in a copy of a space.
pub type Copied = BTreeMap<MountId, MountId>;

impl<N: Node, V> Mounts<N, V> {
    /// A space, if there is one with this number.
    pub fn space(&self, id: SpaceId) -> Option<&Space> {
        self.spaces.get(id.0 as usize)
    }

    /// How many spaces there are.
    pub fn spaces(&self) -> usize {
        self.spaces.len()
    }

    fn add_space(&mut self, root: MountId, owner: u64) -> Result<SpaceId, Errno> {
        self.last_space += 1;
        let space = Space { root, number: self.last_space, owner, users: 1, is_detached: false };
        let index = self.spaces.insert(space).map_err(|_| Errno::ENOSPC)?;
        Ok(SpaceId(index as u32))
    }

    /// Makes the first space, in which nothing is mounted but its root, and which one has.
    ///
    /// # Errors
    /// `ENOSPC`: there is no memory.
    pub fn first_space(
        &mut self,
        root: N,
        flags: u32,
        volume: alloc::rc::Rc<V>,
    ) -> Result<SpaceId, Errno> {
        let mount = self.new_mount(root, flags, volume, 0, None);
        let id = self.add(mount)?;
        let space = self.add_space(id, 0)?;
        self.get_mut(id)?.space = Some(space);
        Ok(space)
    }

    /// Makes a mount that is at no place: the root of a space of its own, until it is [moved](Mounts::relocate) to a place or
    /// [dissolved](Mounts::dissolve).
    ///
    /// # Errors
    /// `ENOSPC`: the user has too many, or there is no memory.
    pub fn detached(
        &mut self,
        root: N,
        flags: u32,
        volume: alloc::rc::Rc<V>,
        uid: u32,
    ) -> Result<MountId, Errno> {
        if !self.users.has_room(uid, 1) {
            return Err(Errno::ENOSPC);
        }
        let mount = self.new_mount(root, flags, volume, uid, None);
        let id = self.add(mount)?;
        let space = self.add_space(id, 0)?;
        self.get_mut(id)?.space = Some(space);
        if let Some(space) = self.spaces.get_mut(space.0 as usize) {
            space.is_detached = true;
        }
        Ok(id)
    }

    /// Is a mount one that is at no place?
    pub fn is_detached(&self, id: MountId) -> bool {
        self.is_in_detached(id) && self.get(id).is_ok_and(|mount| mount.at.is_none())
    }

    /// Is it one, or mounted on one?
    pub fn is_in_detached(&self, id: MountId) -> bool {
        let space = self.get(id).ok().and_then(|mount| self.space(mount.space?));
        space.is_some_and(|space| space.is_detached)
    }

    /// Takes the space of a detached mount away, which has no mounts then. `false`: it is not detached.
    pub(crate) fn end_detached(&mut self, id: MountId) -> bool {
        let is_detached = self.is_detached(id);
        if let (true, Some(space)) = (is_detached, self.get(id).ok().and_then(|it| it.space)) {
            self.spaces.remove(space.0 as usize);
        }
        is_detached
    }

    /// A mount that is still at no place will never be at one, nor what is mounted on it.
    pub fn dissolve(&mut self, id: MountId) -> Vec<Gone<N, V>> {
        match self.end_detached(id) {
            true => self.take_out(id),
            false => Vec::new(),
        }
    }

    /// Makes a space that has what another one has, for a user. In one whose owner has less rights than that of the other all
    /// mounts are as they are for good (`locks`). `copied` is told of each root and each covered node that the copies hold.
    ///
    /// # Errors
    /// `ENOSPC`: the user would have too many mounts; then nothing is made.
    pub fn copy_space(
        &mut self,
        of: SpaceId,
        (owner, uid, locks): (u64, u32, bool),
        mut copied: impl FnMut(N),
    ) -> Result<(SpaceId, Copied), Errno> {
        let root = self.space(of).ok_or(Errno::EINVAL)?.root;
        let all = self.below(root);
        if !self.users.has_room(uid, all.len()) {
            return Err(Errno::ENOSPC);
        }
        let mut copies = Copied::new();
        for id in all {
            let number = self.number();
            let one = self.get(id)?;
            let mount = Mount {
                number,
                at: None,
                root: one.root,
                flags: one.flags,
                volume: one.volume.clone(),
                // What everything is in hides nothing.
                is_locked: one.is_locked || locks && id != root,
                kept: one.kept | if locks { one.flags & RESTRICTIONS } else { 0 },
                // Those who have less rights follow, and are not followed.
                follows: match one.follows {
                    Follows { group, .. } if locks && group != 0 => {
                        Follows { group: 0, master: group, ..one.follows }
                    }
                    follows => follows,
                },
                uid,
                space: None,
                children: Vec::new(),
                holds: 0,
            };
            let (root, at) = (one.root, one.at);
            let copy = self.add(mount)?;
            copied(root);
            if let Some((parent, node)) = at.filter(|_| !copies.is_empty()) {
                let parent = *copies.get(&parent).ok_or(Errno::EINVAL)?;
                self.attach(copy, (parent, node));
                copied(node);
            }
            copies.insert(id, copy);
        }
        let top = *copies.get(&root).ok_or(Errno::EINVAL)?;
        let space = self.add_space(top, owner)?;
        for copy in copies.values() {
            self.get_mut(*copy)?.space = Some(space);
        }
        Ok((space, copies))
    }

    /// One more has a space.
    pub fn join(&mut self, id: SpaceId) {
        if let Some(space) = self.spaces.get_mut(id.0 as usize) {
            space.users += 1;
        }
    }

    /// One less has it. With the last one all that is mounted in it is taken out.
    pub fn leave(&mut self, id: SpaceId) -> Vec<Gone<N, V>> {
        let Some(space) = self.spaces.get_mut(id.0 as usize) else { return Vec::new() };
        space.users = space.users.saturating_sub(1);
        let root = space.root;
        match space.users {
            0 => {
                self.spaces.remove(id.0 as usize);
                self.take_out(root)
            }
            _ => Vec::new(),
        }
    }

    /// `pivot_root`: a mount becomes the root of its space, and what was the root is mounted on a node of it. Answers the node
    /// that the new root covered.
    ///
    /// # Errors
    /// `EINVAL`: the new one is not below the old one, or is that one.
    pub fn pivot(
        &mut self,
        space: SpaceId,
        new: MountId,
        old_at: (MountId, N),
    ) -> Result<N, Errno> {
        let old = self.space(space).ok_or(Errno::EINVAL)?.root;
        let is_between = self.is_below(old_at.0, new) && self.is_below(new, old);
        if new == old || !is_between {
            return Err(Errno::EINVAL);
        }
        let (_, node) = self.detach(new).ok_or(Errno::EINVAL)?;
        // Who could not take the old root away cannot take the new one away, and can the old one.
        let was_locked = core::mem::take(&mut self.get_mut(old)?.is_locked);
        self.get_mut(new)?.is_locked |= was_locked;
        self.attach(old, old_at);
        if let Some(space) = self.spaces.get_mut(space.0 as usize) {
            space.root = new;
        }
        Ok(node)
    }
}
