//! Snapshots: [copies of a part of the tree](memfs::Copies), whose files have what the files had.

use crate::object::{Fate, Stored};
use crate::{Content, Files, Memory};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use memfs::{Cred, Ino};
use unixproto::Errno;

impl<M: Memory> Files<M> {
    /// Makes a snapshot in a directory with snapshots: of the whole part of the tree in whose root that directory is. Names and
    /// attributes are those of one moment, and so are the bytes of each file. What is stored to two files while they are copied
    /// may be in one copy and not in the other.
    ///
    /// # Errors
    ///
    /// As for `mkdir`; `EINVAL`: this is no directory with snapshots. Nothing has changed then.
    pub fn snapshot(&mut self, dir: Ino, name: &[u8], cred: &Cred, now: i64) -> Result<(), Errno> {
        self.names.snapshot_size(dir, name, cred)?;
        let is_kept = self.names.get(dir)?.kept().is_some();
        let copies = self.names.copy_tree(dir)?;
        let pairs: Vec<_> = copies.pairs().collect();
        if !is_kept {
            let mut all = pairs.iter();
            if let Err(error) = all.try_for_each(|&(from, to)| self.copy_contents(from, to)) {
                self.names.drop_copies(copies);
                return Err(error);
            }
        }
        let numbers = self.names.name_snapshot(dir, name, copies, now)?;
        let numbers: BTreeMap<Ino, u32> = numbers.into_iter().collect();
        for (_, ino) in pairs.into_iter().filter(|_| is_kept) {
            if let Ok((_, file)) = self.file(ino) {
                *file = Content::stored(numbers.get(&ino).copied());
                self.renew_layout(ino)?;
            }
        }
        Ok(())
    }

    /// Has a copy of a file that does not survive what the file has.
    fn copy_contents(&mut self, from: Ino, to: Ino) -> Result<(), Errno> {
        let Ok((_, file)) = self.look(from) else { return Ok(()) };
        let content = match file.boot {
            Some((offset, bytes)) => Content::archived(offset, bytes),
            None => {
                let mut stored = Stored::new(Fate::Goes);
                if file.object().is_some() {
                    let (_, object, memory) = self.object(from)?;
                    let (_, copy) = memory.clone_object(object)?;
                    let most = M::most(&copy);
                    stored.set_object(copy, most);
                }
                Content::of(stored)
            }
        };
        *self.file(to)?.1 = content;
        self.renew_layout(to)
    }
}
