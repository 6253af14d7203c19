//! Walking paths in the folder: links lead to where their texts lead in this machine, and nothing leads out of the folder on the host,
//! which is asked for one name at a time and follows none.

use super::exchange::Answer;
use super::nodes::Known;
use super::{Origin, Parts, Visit, NOBODY};
use alloc::vec::Vec;
use credentials::Capability;
use memfs::{Guard, Step, EXEC};
use ninep::{Attributes, Request};
use unixproto::files::{S_IFDIR, S_IFLNK, S_IFMT};
use unixproto::Errno;

/// Where a name leads to.
pub enum Way {
    /// Out of the folder, to the directory that it is in.
    Out,
    /// To a node.
    Node(u32),
}

impl Visit<'_> {
    /// Asks the host. The number of the question is for what it makes.
    pub(super) fn ask(&self, request: &Request) -> Result<(Answer, usize), Errno> {
        let who = (self.tid, self.cred.uid);
        self.share.parts.borrow_mut().exchange.ask(who, request)
    }

    /// Asks for something of which the answer says nothing more.
    pub(super) fn done(&self, request: &Request) -> Result<(), Errno> {
        self.ask(request).map(|_| ())
    }

    /// Something of a node.
    pub(super) fn known<R>(&self, node: u32, of: impl FnOnce(&Known) -> R) -> Result<R, Errno> {
        self.share.parts.borrow().nodes.get(node).map(of)
    }

    /// The host's number for a node.
    pub(super) fn fid(&self, node: u32) -> Result<u32, Errno> {
        self.known(node, |known| known.fid)
    }

    /// The attributes of a node, as the host says now.
    pub(super) fn attributes(&self, node: u32) -> Result<Attributes, Errno> {
        let (fid, fresh) = self.known(node, |known| {
            (known.fid, known.is_fresh(self.tid).then_some(known.attributes))
        })?;
        match fresh {
            Some(attributes) => Ok(attributes),
            None => {
                let attributes = self.attributes_of(fid)?;
                let mut parts = self.share.parts.borrow_mut();
                parts.nodes.get_mut(node)?.attributes = attributes;
                Ok(attributes)
            }
        }
    }

    /// Those of a file by its fid.
    pub(super) fn attributes_of(&self, fid: u32) -> Result<Attributes, Errno> {
        let request = Request::GetAttributes { fid };
        let recalled = self.share.parts.borrow_mut().exchange.recall(self.tid, &request);
        let answer = match recalled {
            Some(answer) => answer,
            None => self.ask(&request)?.0,
        };
        match answer {
            Answer::Attributes(attributes) => Ok(attributes),
            _ => Err(Errno::EIO),
        }
    }

    /// What a node is, for a walk. Of what was a directory the host says by itself that it is none any more.
    pub fn step<N>(&self, node: u32) -> Result<Step<N>, Errno> {
        if self.known(node, |known| known.attributes.mode & S_IFMT)? == S_IFDIR {
            return Ok(Step::Dir);
        }
        Ok(match self.attributes(node)?.mode & S_IFMT {
            S_IFDIR => Step::Dir,
            S_IFLNK => Step::Link(self.text(node)?),
            _ => Step::Other,
        })
    }

    /// The text of a symbolic link. `EINVAL`: it is none.
    pub fn text(&self, node: u32) -> Result<Vec<u8>, Errno> {
        if self.attributes(node)?.mode & S_IFMT != S_IFLNK {
            return Err(Errno::EINVAL);
        }
        match self.ask(&Request::ReadLink { fid: self.fid(node)? })?.0 {
            Answer::Bytes(text) if text.len() < memfs::PATH_MAX && !text.contains(&0) => {
                Ok(text.to_vec())
            }
            _ => Err(Errno::EIO),
        }
    }

    /// `EACCES` unless a directory may be passed.
    pub fn enter(&self, dir: u32) -> Result<(), Errno> {
        // Those who may pass all directories need not ask.
        if self.cred.caps.has(Capability::DacReadSearch) {
            return Ok(());
        }
        self.permits(&self.attributes(dir)?, EXEC)
    }

    /// `EACCES` unless a symbolic link in a directory may be followed at the end of a path.
    pub fn may_follow(&self, dir: u32, link: u32) -> Result<(), Errno> {
        const SHARED: u32 = 0o1002;
        let (dir, link) = (self.attributes(dir)?, self.attributes(link)?);
        let owner = self.owner(&link).0;
        let is_free = owner == self.cred.uid || owner == self.owner(&dir).0;
        match is_free || dir.mode & SHARED != SHARED {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// What has a name in a directory.
    pub fn lookup(&self, dir: u32, name: &[u8]) -> Result<Option<Way>, Errno> {
        match name {
            b"." => return Ok(Some(Way::Node(dir))),
            b".." if dir == self.share.root() => return Ok(Some(Way::Out)),
            b".." => return self.known(dir, |known| Some(Way::Node(known.parent))),
            _ => {}
        }
        match self.find(dir, name) {
            Err(Errno::ENOENT) => Ok(None),
            found => Ok(Some(Way::Node(found?))),
        }
    }

    /// The node with a name in a directory, which this request holds.
    pub(super) fn find(&self, dir: u32, name: &[u8]) -> Result<u32, Errno> {
        let fid = self.fid(dir)?;
        let (answer, index) = self.ask(&Request::Walk { fid, new: 0, name: Some(name) })?;
        if !matches!(answer, Answer::File) {
            return Err(Errno::EIO);
        }
        let (fid, node) = self.share.parts.borrow().exchange.made(self.tid, index)?;
        let fid = match node {
            Some(node) => self.fid(node)?,
            None => fid,
        };
        let (answer, _) = self.ask(&Request::GetAttributes { fid })?;
        let Answer::Attributes(attributes) = answer else { return Err(Errno::EIO) };
        if let Some(node) = node {
            return Ok(node);
        }
        let mut parts = self.share.parts.borrow_mut();
        let Parts { exchange, nodes } = &mut *parts;
        if !nodes.has_room(self.cred.uid) {
            return Err(Errno::ENFILE);
        }
        let node = nodes.add((self.tid, self.cred.uid), fid, (dir, name), attributes);
        exchange.becomes(self.tid, index, Some(node));
        Ok(node)
    }

    /// Who a file belongs to here: user and group.
    pub(super) fn owner(&self, attributes: &Attributes) -> (u32, u32) {
        let Attributes { uid, gid, .. } = *attributes;
        let owner = match &self.share.origin {
            Origin::Host(owner) => *owner,
            Origin::Disk(_) => return (uid, gid),
        };
        let shown = |id, own| if id == own { 0 } else { NOBODY };
        (shown(uid, owner.uid), shown(gid, owner.gid))
    }

    /// `EACCES` unless the process may do this with a file.
    pub(super) fn permits(&self, attributes: &Attributes, wanted: u32) -> Result<(), Errno> {
        let (uid, gid) = self.owner(attributes);
        let is_dir = attributes.mode & S_IFMT == S_IFDIR;
        Guard { uid, gid, mode: attributes.mode & 0o7777, is_dir }.permits(&self.cred, wanted)
    }
}

impl super::Share {
    /// The path of a node behind that of the folder: it begins with a slash, or is empty.
    pub fn path(&self, node: u32) -> Result<Vec<u8>, Errno> {
        self.parts.borrow().nodes.path(node)
    }
}
