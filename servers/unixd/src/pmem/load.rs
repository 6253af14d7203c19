//! The tree of persistent files, as it is found at start.

use super::area::MetaArea;
use super::keeper::{errno, kept, SNAPSHOTS};
use crate::frames::{Contents, Frames};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use memfs::{Attributes, Dir, Fs, Ino, Node};
use pmfs::{Kind, Stat};
use unixproto::Errno;

type Kept = pmfs::Fs<MetaArea>;

/// A directory of which not all names are in the tree yet.
struct Open {
    from: pmfs::Ino,
    to: Ino,
}

/// Adds everything to a directory of the tree. `limits`: the sizes of the objects by their numbers.
pub fn load(
    names: &mut Fs<files::Contents<Frames>>,
    dir: Ino,
    kept_fs: &mut Kept,
    limits: &BTreeMap<u32, u64>,
) -> Result<(), Errno> {
    let root = kept_fs.root();
    let attributes = attributes(&kept_fs.stat(root).map_err(errno)?);
    names.adopt_root(dir, kept(root)?, attributes)?;
    let mut open = alloc::vec![Open { from: root, to: dir }];
    // Files with more than one name.
    let mut linked = BTreeMap::new();
    while let Some(Open { from, to }) = open.pop() {
        let entries: Vec<_> = kept_fs.read_dir(from, 0).map_err(errno)?.collect();
        for entry in entries {
            if let Some(&known) = linked.get(&entry.ino) {
                names.adopt_name(to, &entry.name, known)?;
                continue;
            }
            let stat = kept_fs.stat(entry.ino).map_err(errno)?;
            let node = node(kept_fs, entry.ino, &stat, to, limits)?;
            let ino =
                names.adopt(to, &entry.name, kept(entry.ino)?, node, self::attributes(&stat))?;
            kept_fs.hold(entry.ino);
            if stat.kind == Kind::Dir && stat.attr.flags & SNAPSHOTS != 0 {
                names.adopt_snapshots(ino)?;
            }
            match stat.kind {
                Kind::Dir => open.push(Open { from: entry.ino, to: ino }),
                _ if stat.links > 1 => {
                    linked.insert(entry.ino, ino);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn attributes(stat: &Stat) -> Attributes {
    let pmfs::Attr { mode, uid, gid, atime, mtime, ctime, .. } = stat.attr;
    Attributes { mode: mode.into(), uid, gid, atime, mtime, ctime }
}

fn node(
    kept_fs: &Kept,
    ino: pmfs::Ino,
    stat: &Stat,
    parent: Ino,
    limits: &BTreeMap<u32, u64>,
) -> Result<Node<Contents>, Errno> {
    Ok(match stat.kind {
        Kind::File => {
            let size = stat.content.and_then(|number| limits.get(&number)).copied();
            Node::File { size: size.unwrap_or(0), content: files::Content::stored(stat.content) }
        }
        Kind::Dir => Node::Dir(Dir::new(parent)),
        Kind::Symlink => Node::Symlink(kept_fs.read_link(ino).map_err(errno)?),
        Kind::Char => Node::Device(stat.device),
        Kind::Block => Node::Block(stat.device),
        Kind::Fifo => Node::Fifo,
        Kind::Socket => Node::Socket,
    })
}
