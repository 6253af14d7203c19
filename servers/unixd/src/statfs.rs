//! `statfs`: what is said of what is mounted.

use crate::nodes::Node;
use crate::open::LARGE_PAGE;
use crate::pathops::{PathOps, DEVICE, PMEM_DEVICE};
use crate::procfs::ProcNode;
use crate::volumes::{device_of_volume, flag, Spot};
use crate::wait::{done, Call, Tried};
use unixproto::files::CWD;
use unixproto::Errno;

/// `f_flags` are there.
const ST_VALID: u64 = 0x20;
/// Where `f_flags` are among the words of `struct statfs`.
const FLAGS: usize = 10;

/// Flags of a mount as `statfs` shows them.
fn shown_flags(flags: u32) -> u64 {
    let same = flags & (flag::RDONLY | flag::NOSUID | flag::NODEV | flag::NOEXEC);
    let moved = [(flag::NOATIME, 0x400), (flag::NODIRATIME, 0x800), (flag::RELATIME, 0x1000)];
    let moved = moved.iter().filter(|(bit, _)| flags & bit != 0);
    ST_VALID | u64::from(same) | moved.fold(0, |all, (_, shown)| all | shown)
}

impl PathOps<'_> {
    /// `statfs`.
    pub fn stat_fs(&mut self, call: &Call, dir: u32, flags: u32) -> Tried {
        let nameless = call.lengths.0 == 0
            && dir != CWD
            && self.descs.of(self.caller.pid, dir)?.object.node().is_none();
        let spot = match nameless {
            true => None,
            false => Some(self.view()?.target_spot(call, dir, flags, true)?),
        };
        let words = self.fs_words(spot)?;
        self.put_words(&words)
    }

    /// The same of what is mounted where the caller is, by its device number.
    pub fn stat_device(&mut self, device: u64) -> Tried {
        let space = self.procs.get(self.caller.pid)?.stands.space;
        let mounts = self.tree.mounts();
        let mut there = mounts.in_space(space).into_iter().filter_map(|id| {
            let mount = mounts.get(id).ok()?;
            (mount.volume.device == device).then_some(Spot { mount: id, node: mount.root })
        });
        let spot = there.next().ok_or(Errno::EINVAL)?;
        let words = self.fs_words(Some(spot))?;
        self.put_words(&words)
    }

    /// `struct statfs` of a place, or of what is in none.
    fn fs_words(&mut self, spot: Option<Spot>) -> Result<[u64; 15], Errno> {
        const TMPFS: u64 = 0x0102_1994;
        const PROC: u64 = 0x9fa0;
        const SYSFS: u64 = 0x6265_6572;
        const HUGETLBFS: u64 = 0x9584_58f6;
        const MQUEUE: u64 = 0x1980_0202;
        /// "tess".
        const PMEM: u64 = 0x7373_6574;
        const PAGE: u64 = 4096;
        let mut shown = spot.map_or(ST_VALID, |spot| shown_flags(self.tree.flags(spot.mount)));
        let (mut magic, mut volume, mut device) = (TMPFS, 0, DEVICE);
        match spot.map(|spot| spot.node) {
            Some(Node::Mem(ino)) => {
                let names = self.tree.files().names();
                let inode = names.get(ino)?;
                if inode.kept().is_some() {
                    (magic, device) = (PMEM, PMEM_DEVICE);
                } else if self.tree.files().grain(ino) > PAGE {
                    magic = HUGETLBFS;
                }
                shown |= u64::from(inode.changeable().is_err());
                volume = names.volume_of(ino);
                if names.has_queues(ino) {
                    (magic, device) = (MQUEUE, device_of_volume(volume));
                }
            }
            Some(Node::Proc(ProcNode::Made(number))) if !self.tree.made().is_tunable(number) => {
                (magic, device) = (SYSFS, crate::procfs::SYS_DEVICE);
            }
            Some(Node::Proc(_)) => (magic, device) = (PROC, crate::procfs::DEVICE),
            Some(Node::Share(node)) => {
                let mut words = self.visit(node)?.space(node)?;
                words[FLAGS] |= shown;
                return Ok(words);
            }
            None => {}
        }
        let names = self.tree.files().names();
        let (free, total) = crate::caps::memory();
        let (used, limit) = (names.used() as u64, names.limit() as u64);
        let found = names.volume(volume);
        let (block, space, inodes) = match (magic, self.tree.files_mut().memory().pool) {
            (PMEM, Some(handle)) => {
                let (total, free) = crate::pmem::space(handle.pool)?;
                (PAGE, [total, free], [limit, limit - used])
            }
            (TMPFS, _) => match found {
                Some(found) => {
                    device = device_of_volume(volume);
                    let [pages, inodes] =
                        [(found.pages_limit, found.pages), (found.inodes_limit, found.inodes)].map(
                            |(limit, used)| match limit {
                                u64::MAX => [0, 0],
                                limit => [limit, limit.saturating_sub(used)],
                            },
                        );
                    (PAGE, pages, inodes)
                }
                None => (PAGE, [total / PAGE, free / PAGE], [limit, limit - used]),
            },
            (HUGETLBFS, _) => (LARGE_PAGE, [0; 2], [0; 2]),
            _ => (PAGE, [0; 2], [0; 2]),
        };
        let ([blocks, free], [files, left]) = (space, inodes);
        Ok([magic, block, blocks, free, free, files, left, device, 255, block, shown, 0, 0, 0, 0])
    }

    /// Answers with `struct statfs`.
    fn put_words(&self, words: &[u64; 15]) -> Tried {
        let mut bytes = [0; 120];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.procs.put(self.caller, &bytes)?;
        done(())
    }
}
