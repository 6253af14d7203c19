//! Mounts that follow each other: what is mounted in one appears in others (`MS_SHARED`, `MS_SLAVE`).
//!
//! Mounts of one *group* are peers: each has what is mounted in another. A mount may follow a group besides, as its *master*, which
//! does not follow it. What is mounted in a mount of a group is copied to all its peers, to those that follow the group, to their
//! peers, and so on; the copies are each other's peers and masters as the mounts are in which they are. What is taken out of one
//! is taken out of them, but for copies in which something else is mounted by now.

use crate::{Gone, MountId, Mounts, Node, RESTRICTIONS};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use unixproto::Errno;

/// How a mount follows others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Follows {
    /// Its group; 0: it has no peers.
    pub group: u64,
    /// The group that it follows; 0: none.
    pub master: u64,
    /// It is not bound elsewhere.
    pub is_unbindable: bool,
}

/// What `mount` makes of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Propagation {
    /// A member of a group.
    Shared,
    /// It follows nobody, and nobody follows it.
    Private,
    /// It follows its group, and its peers do not follow it.
    Slave,
    /// Private, and not to be bound.
    Unbindable,
}

impl<N: Node, V> Mounts<N, V> {
    fn new_group(&mut self) -> u64 {
        self.last_group += 1;
        self.last_group
    }

    /// The others of a group.
    fn others_in(&self, group: u64, but: MountId) -> impl Iterator<Item = MountId> + '_ {
        let all = self.table.iter().map(|(index, mount)| (MountId(index as u32), mount));
        all.filter(move |(id, mount)| *id != but && mount.follows.group == group).map(|(id, _)| id)
    }

    /// Makes a mount follow others in another way.
    ///
    /// # Errors
    /// `EINVAL`: there is no such mount.
    pub fn set_propagation(&mut self, id: MountId, how: Propagation) -> Result<(), Errno> {
        let Follows { group, .. } = self.get(id)?.follows;
        match how {
            Propagation::Shared if group != 0 => {}
            Propagation::Shared => self.get_mut(id)?.follows.group = self.new_group(),
            Propagation::Slave => {
                let has_peers = group != 0 && self.others_in(group, id).next().is_some();
                self.leave_group(id);
                if has_peers {
                    self.get_mut(id)?.follows.master = group;
                }
            }
            Propagation::Private | Propagation::Unbindable => self.stand_alone(id),
        }
        self.get_mut(id)?.follows.is_unbindable = how == Propagation::Unbindable;
        Ok(())
    }

    /// It has no peers any more. Who followed its group, of which it was the last, follows what that did.
    fn leave_group(&mut self, id: MountId) {
        let Ok(mount) = self.get_mut(id) else { return };
        let Follows { group, master, .. } = mount.follows;
        mount.follows.group = 0;
        if group != 0 && self.others_in(group, id).next().is_none() {
            let follow = self.table.iter().filter(|(_, other)| other.follows.master == group);
            for index in follow.map(|(index, _)| index).collect::<Vec<_>>() {
                if let Some(other) = self.table.get_mut(index) {
                    other.follows.master = master;
                }
            }
        }
    }

    /// It follows nobody, and nobody follows it.
    pub(crate) fn stand_alone(&mut self, id: MountId) {
        self.leave_group(id);
        if let Ok(mount) = self.get_mut(id) {
            mount.follows = Follows::default();
        }
    }

    /// All that follow what is mounted in a mount: peers, those that follow their group, and so on.
    fn followers(&self, id: MountId) -> Vec<MountId> {
        let Ok(first) = self.get(id).map(|mount| mount.follows.group) else { return Vec::new() };
        if first == 0 {
            return Vec::new();
        }
        // Who is in each group, or follows it.
        let mut near: BTreeMap<u64, Vec<MountId>> = BTreeMap::new();
        for (index, mount) in self.table.iter().filter(|(_, mount)| mount.space.is_some()) {
            let Follows { group, master, .. } = mount.follows;
            for one in [group, master].into_iter().filter(|one| *one != 0) {
                near.entry(one).or_default().push(MountId(index as u32));
            }
        }
        let (mut found, mut groups) = (BTreeSet::new(), alloc::vec![first]);
        while let Some(group) = groups.pop() {
            // Each group is looked at once.
            for other in near.remove(&group).unwrap_or_default() {
                if other != id && found.insert(other) {
                    groups.extend(self.get(other).map(|mount| mount.follows.group));
                }
            }
        }
        found.into_iter().collect()
    }

    /// The roots of the mounts that follow what is mounted in a mount.
    pub fn roots_of_followers(&self, id: MountId) -> Vec<N> {
        let roots = self.followers(id).into_iter().filter_map(|id| self.get(id).ok());
        roots.map(|mount| mount.root).collect()
    }

    /// Where copies go of what is mounted on a node of a mount: `shows` says whether a node is at or below a root.
    fn copies_at(&self, (above, node): (MountId, N), shows: impl Fn(N, N) -> bool) -> Vec<MountId> {
        let mut all = self.followers(above);
        all.retain(|id| self.get(*id).is_ok_and(|mount| shows(mount.root, node)));
        all
    }

    /// May a user mount so many mounts on a node, with all the copies that there will be?
    ///
    /// # Errors
    /// `ENOSPC`.
    pub fn may_propagate(
        &self,
        at: (MountId, N),
        (count, uid): (usize, u32),
        shows: impl Fn(N, N) -> bool,
    ) -> Result<(), Errno> {
        let copies = self.copies_at(at, shows).len();
        match self.users.has_room(uid, count.saturating_mul(copies)) {
            true => Ok(()),
            false => Err(Errno::ENOSPC),
        }
    }

    /// A mount has come to its place, with all that is mounted on it: it is copied to wherever that is followed, for a user. `copied` is
    /// told of each root and each covered node that the copies hold.
    ///
    /// # Errors
    /// `ENOSPC`: the user would have too many, or there is no memory: then some may be there.
    pub fn propagate(
        &mut self,
        top: MountId,
        uid: u32,
        shows: impl Fn(N, N) -> bool,
        mut copied: impl FnMut(N),
    ) -> Result<(), Errno> {
        let Some(at) = self.get(top)?.at else { return Ok(()) };
        if self.get(at.0)?.follows.group == 0 {
            return Ok(());
        }
        let (tree, mut places) = (self.below(top), self.copies_at(at, &shows));
        // What comes does not come once more in itself.
        places.retain(|place| !tree.contains(place));
        if !self.users.has_room(uid, tree.len().saturating_mul(places.len())) {
            return Err(Errno::ENOSPC);
        }
        let first = self.get(at.0)?.follows.group;
        let owner = self.owner_of(at.0);
        // The group of the copies of each mount, by the group in which they are.
        let mut groups = BTreeMap::new();
        for &id in &tree {
            if self.get(id)?.follows.group == 0 {
                self.get_mut(id)?.follows.group = self.new_group();
            }
            groups.insert((id, first), self.get(id)?.follows.group);
        }
        for place in places {
            let Follows { group, master, .. } = self.get(place)?.follows;
            let mut copies = BTreeMap::new();
            let is_locked = self.owner_of(place) != owner;
            for &id in &tree {
                let one = self.get(id)?;
                let (root, flags, volume, kept) =
                    (one.root, one.flags, one.volume.clone(), one.kept);
                let mut to = match one.at {
                    Some((parent, node)) if id != top => match copies.get(&parent) {
                        Some(parent) => (*parent, node),
                        None => continue,
                    },
                    _ => (place, at.1),
                };
                while let Some(covering) = self.covering(to.0, to.1) {
                    to = (covering, self.get(covering)?.root);
                }
                let copy = self.mount(to, root, flags, volume, uid)?;
                copied(root);
                copied(to.1);
                let mut follows = Follows::default();
                if group != 0 {
                    follows.group = match groups.get(&(id, group)) {
                        Some(known) => *known,
                        None => self.new_group(),
                    };
                    groups.insert((id, group), follows.group);
                }
                follows.master = groups.get(&(id, master)).copied().unwrap_or(0);
                // Who has less rights than who mounts it keeps it as it is.
                let kept = kept | if is_locked { flags & RESTRICTIONS } else { 0 };
                let made = self.get_mut(copy)?;
                (made.follows, made.kept, made.is_locked) = (follows, kept, is_locked);
                copies.insert(id, copy);
            }
        }
        Ok(())
    }

    /// Whose the space of a mount is.
    fn owner_of(&self, id: MountId) -> u64 {
        let space = self.get(id).ok().and_then(|mount| mount.space);
        space.and_then(|space| self.space(space)).map_or(0, |space| space.owner)
    }

    /// What of a node of a mount is taken out with it elsewhere: the copies in which nothing is mounted.
    fn copies_of(&self, at: (MountId, N)) -> Vec<MountId> {
        let covers = |id: MountId| self.covering(id, at.1);
        let copies = self.followers(at.0).into_iter().filter_map(covers);
        copies.filter(|id| self.get(*id).is_ok_and(|mount| !mount.has_children())).collect()
    }

    /// How many copies are taken out with a mount.
    pub fn copies(&self, id: MountId) -> usize {
        let at = self.get(id).ok().and_then(|mount| mount.at);
        at.map_or(0, |at| self.copies_of(at).len())
    }

    /// Does somebody stand in a copy of a mount that would be taken out with it?
    pub(crate) fn has_held_copies(&self, id: MountId) -> bool {
        let at = self.get(id).ok().and_then(|mount| mount.at);
        let copies = at.map_or_else(Vec::new, |at| self.copies_of(at));
        copies.into_iter().any(|copy| self.get(copy).is_ok_and(|mount| mount.is_held()))
    }

    /// A mount is about to be taken out, with all that is mounted on it: its copies go.
    pub(crate) fn take_out_copies(&mut self, id: MountId) -> Vec<Gone<N, V>> {
        let mut gone = Vec::new();
        for one in self.below(id).into_iter().rev() {
            let Some(at) = self.get(one).ok().and_then(|mount| mount.at) else { continue };
            for copy in self.copies_of(at) {
                // Not what goes itself, mounted on what follows itself.
                if !self.is_below(copy, id) {
                    gone.extend(self.take_out(copy));
                }
            }
        }
        gone
    }
}
