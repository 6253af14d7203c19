//! What paths have led to. Every walk makes a node of its own, so that two nodes may be one file: [`Attributes::qid`] says so.

use crate::threads::Tid;
use alloc::vec;
use alloc::vec::Vec;
use ninep::Attributes;
use piecewise::{Limits, Shares};
use unixproto::Errno;

/// Numbers of nodes of one folder; those of the next one follow.
const STRIDE: u32 = 1 << 16;
const _: () = assert!(NODES < STRIDE as usize);
/// Nodes that there may be in all: for each the host keeps a path.
const NODES: usize = 32_768;
/// The fid of the folder itself.
pub const ROOT_FID: u32 = 0;

/// A file that a path has led to.
pub struct Known {
    /// The host's number for it.
    pub fid: u32,
    /// The directory that it was found in, held; of the root, the root.
    pub parent: u32,
    /// Its name there.
    pub name: Vec<u8>,
    /// What the host has said of it last.
    pub attributes: Attributes,
    /// The thread whose request has found it, while that lasts: what is said of it then was just asked.
    found_by: Option<Tid>,
    refs: u32,
    /// The user whose request has found it.
    user: u32,
}

/// The number of the folder that a node is in.
pub fn folder_of(node: u32) -> usize {
    (node / STRIDE) as usize
}

impl Known {
    /// Was it found by the request that a thread has now?
    pub fn is_fresh(&self, tid: Tid) -> bool {
        self.found_by == Some(tid)
    }
}

/// All of them.
pub struct Nodes {
    /// The folder itself, which is there for good; the first of their numbers.
    root: u32,
    table: Vec<Option<Known>>,
    free: Vec<u32>,
    /// How many were found by each user.
    users: Shares,
}

impl Nodes {
    /// Of the folder with a number, of which so much is known.
    pub fn new(number: u32, attributes: Attributes) -> Nodes {
        let own = number * STRIDE;
        let name = Vec::new();
        let root = Known {
            fid: ROOT_FID,
            parent: own,
            name,
            attributes,
            found_by: None,
            refs: 1,
            user: 0,
        };
        let users = Shares::new(Limits::of(NODES));
        Nodes { root: own, table: vec![Some(root)], free: Vec::new(), users }
    }

    /// The folder itself.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// Does nobody hold any node, but for the one mount that shows the root?
    pub fn are_idle(&self) -> bool {
        const OWN_AND_MOUNT: u32 = 2;
        let known = self.table.iter().flatten();
        known.clone().count() == 1 && { known }.all(|root| root.refs == OWN_AND_MOUNT)
    }

    fn index(&self, node: u32) -> usize {
        node.wrapping_sub(self.root) as usize
    }

    pub fn get(&self, node: u32) -> Result<&Known, Errno> {
        self.table.get(self.index(node)).and_then(Option::as_ref).ok_or(Errno::EIO)
    }

    pub fn get_mut(&mut self, node: u32) -> Result<&mut Known, Errno> {
        let index = self.index(node);
        self.table.get_mut(index).and_then(Option::as_mut).ok_or(Errno::EIO)
    }

    /// May a user have one more?
    pub fn has_room(&self, user: u32) -> bool {
        self.users.has_room(user, 1)
    }

    /// A node that a thread's request has found, and holds.
    pub fn add(
        &mut self,
        (tid, user): (Tid, u32),
        fid: u32,
        (parent, name): (u32, &[u8]),
        attributes: Attributes,
    ) -> u32 {
        self.hold(parent);
        self.users.take(user, 1);
        let (name, found_by) = (name.to_vec(), Some(tid));
        let known = Some(Known { fid, parent, name, attributes, found_by, refs: 1, user });
        match self.free.pop() {
            Some(node) => {
                let index = self.index(node);
                self.table[index] = known;
                node
            }
            None => {
                self.table.push(known);
                self.root + self.table.len() as u32 - 1
            }
        }
    }

    /// The request that has found it is over.
    pub fn settle(&mut self, node: u32, tid: Tid) {
        if let Ok(known) = self.get_mut(node) {
            known.found_by = known.found_by.filter(|&by| by != tid);
        }
    }

    pub fn hold(&mut self, node: u32) {
        if let Ok(known) = self.get_mut(node) {
            known.refs += 1;
        }
    }

    /// Ends a `hold`. The fids of what is gone with that are given to `forget`.
    pub fn release(&mut self, node: u32, mut forget: impl FnMut(u32)) {
        let (root, mut next) = (self.root, Some(node));
        while let Some(node) = next.take() {
            let Ok(known) = self.get_mut(node) else { return };
            known.refs -= 1;
            if known.refs > 0 || node == root {
                return;
            }
            forget(known.fid);
            next = Some(known.parent);
            let user = known.user;
            self.users.give_back(user, 1);
            let index = self.index(node);
            self.table[index] = None;
            self.free.push(node);
        }
    }

    /// What has this name in a directory, by whichever node it is known, has another one in another directory from now on. The
    /// directories that it was in are to be released.
    pub fn renamed(&mut self, (from, old): (u32, &[u8]), (to, new): (u32, &[u8])) -> Vec<u32> {
        let Ok(dir) = self.get(from).map(|known| known.attributes.qid) else { return Vec::new() };
        let mut left = Vec::new();
        let others = self.root + 1..self.root + self.table.len() as u32;
        for node in { others }.filter(|&node| node != to) {
            let Ok(known) = self.get(node) else { continue };
            let parent = known.parent;
            let is_there = self.get(parent).is_ok_and(|parent| parent.attributes.qid == dir);
            if known.name != old || !is_there {
                continue;
            }
            self.hold(to);
            if let Ok(known) = self.get_mut(node) {
                known.name = new.to_vec();
                known.parent = to;
            }
            left.push(parent);
        }
        left
    }

    /// The path of a node below the root, with a slash before each name.
    pub fn path(&self, node: u32) -> Result<Vec<u8>, Errno> {
        let mut names = Vec::new();
        let mut at = node;
        while at != self.root {
            let known = self.get(at)?;
            names.push(&known.name[..]);
            at = known.parent;
            if names.len() > memfs::PATH_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Ok(path)
    }
}
