//! What System V objects have in common: keys, ids, owners and modes.

use crate::procs::Proc;
use alloc::vec::Vec;
use credentials::Capability;
use piecewise::{Limits, Shares, Table};
use unixproto::ipc::*;
use unixproto::Errno;

/// Ids that a place has before the first one comes again.
const TURNS: u32 = 1 << 16;
/// Bits of an id that are the place.
const PLACE_BITS: u32 = 15;
/// Bytes of `struct ipc64_perm`.
pub const PERM_BYTES: usize = 48;

/// Whose an object is, and who may do what to it.
#[derive(Clone, Copy)]
pub struct Perm {
    /// The name space that it is in, and the user name space that this belongs to.
    pub space: (u64, u64),
    pub key: i32,
    pub owner: (u32, u32),
    pub creator: (u32, u32),
    pub mode: u32,
}

impl Perm {
    /// May a process do what these bits of a mode stand for?
    pub fn permits(&self, proc: &Proc, wanted: u32) -> Result<(), Errno> {
        let uid = proc.who.users.effective;
        let is_in = |gid| proc.who.groups.effective == gid || proc.who.others.has(gid);
        let shift = match () {
            () if uid == self.owner.0 || uid == self.creator.0 => 6,
            () if is_in(self.owner.1) || is_in(self.creator.1) => 3,
            () => 0,
        };
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 7;
        match wanted & !(self.mode >> shift) == 0
            || proc.who.has_in(self.space.1, Capability::IpcOwner)
        {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// May a process change it, and remove it?
    pub fn owned_by(&self, proc: &Proc) -> Result<(), Errno> {
        let uid = proc.who.users.effective;
        let is_own = uid == self.owner.0 || uid == self.creator.0;
        match is_own || proc.who.has_in(self.space.1, Capability::SysAdmin) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// Takes owner and mode from `struct ipc64_perm`.
    pub fn set(&mut self, new: &[u8]) -> Result<(), Errno> {
        let word = |at: usize| {
            let bytes = new.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
            bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Errno::EINVAL)
        };
        self.owner = (word(4)?, word(8)?);
        self.mode = self.mode & !0o777 | word(20)? & 0o777;
        Ok(())
    }
}

/// An object with its place's turn.
pub struct Entry<T> {
    pub perm: Perm,
    turn: u32,
    /// Its key is another one's, and it goes as soon as it can.
    pub is_removed: bool,
    pub value: T,
}

impl<T> Entry<T> {
    /// `struct ipc64_perm`, with more bits in the mode.
    pub fn perm_bytes(&self, more: u32) -> [u8; PERM_BYTES] {
        let mut bytes = [0; PERM_BYTES];
        let Perm { key, owner, creator, mode, .. } = self.perm;
        let mode = mode | more;
        let words = [key as u32, owner.0, owner.1, creator.0, creator.1, mode, self.turn & 0xffff];
        for (n, word) in words.into_iter().enumerate() {
            bytes[4 * n..4 * n + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// All objects of a kind.
pub struct Registry<T> {
    table: Table<Entry<T>>,
    users: Shares,
    turn: u32,
}

impl<T> Registry<T> {
    /// None, and at most so many.
    pub fn new(most: usize) -> Registry<T> {
        Registry { table: Table::default(), users: Shares::new(Limits::of(most)), turn: 0 }
    }

    /// Those of a name space.
    pub fn of(&self, space: u64) -> impl Iterator<Item = (usize, &Entry<T>)> {
        self.table.iter().filter(move |(_, entry)| entry.perm.space.0 == space)
    }

    /// The places of those of some name spaces, whose numbers are in order.
    pub fn places(&self, spaces: &[u64]) -> Vec<usize> {
        let is_in = |entry: &Entry<T>| spaces.binary_search(&entry.perm.space.0).is_ok();
        self.table.iter().filter(|(_, entry)| is_in(entry)).map(|(place, _)| place).collect()
    }

    /// What an id stands for, whosever it is.
    pub fn anywhere_mut(&mut self, id: u32) -> Option<&mut Entry<T>> {
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        self.table.get_mut(place).filter(|entry| entry.turn == id >> PLACE_BITS)
    }

    /// The place of an id in a name space. `EINVAL`: there is none, or it is another one's.
    pub fn place(&self, space: u64, id: u32) -> Result<usize, Errno> {
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        let is_it = |entry: &&Entry<T>| entry.turn == id >> PLACE_BITS;
        self.listed(space, place).ok().filter(is_it).map(|_| place).ok_or(Errno::EINVAL)
    }

    /// What is at a place, of a name space: as whoever looks at one place after the other names it.
    pub fn listed(&self, space: u64, place: usize) -> Result<&Entry<T>, Errno> {
        let found = self.table.get(place).filter(|entry| entry.perm.space.0 == space);
        found.ok_or(Errno::EINVAL)
    }

    pub fn id(&self, place: usize) -> u32 {
        self.table.get(place).map_or(0, |entry| entry.turn) << PLACE_BITS | place as u32
    }

    pub fn at(&self, place: usize) -> Result<&Entry<T>, Errno> {
        self.table.get(place).ok_or(Errno::EINVAL)
    }

    pub fn at_mut(&mut self, place: usize) -> Result<&mut Entry<T>, Errno> {
        self.table.get_mut(place).ok_or(Errno::EINVAL)
    }

    /// What an id stands for.
    pub fn get(&self, space: u64, id: u32) -> Result<&Entry<T>, Errno> {
        self.at(self.place(space, id)?)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, space: u64, id: u32) -> Result<&mut Entry<T>, Errno> {
        let place = self.place(space, id)?;
        self.at_mut(place)
    }

    /// The place of what has a key, if these flags of `shmget` and its relatives want it. `None`: it is to be made.
    pub fn named(&self, space: u64, key: i32, flags: u32) -> Result<Option<usize>, Errno> {
        if key == IPC_PRIVATE {
            return Ok(None);
        }
        let has_key = |(_, entry): &(usize, &Entry<T>)| entry.perm.key == key && !entry.is_removed;
        match self.of(space).find(has_key) {
            None if flags & IPC_CREAT == 0 => Err(Errno::ENOENT),
            None => Ok(None),
            Some(_) if flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT | IPC_EXCL => Err(Errno::EEXIST),
            Some((place, _)) => Ok(Some(place)),
        }
    }

    /// `ENOSPC`: a user has too many.
    pub fn room(&self, uid: u32) -> Result<(), Errno> {
        self.users.has_room(uid, 1).then_some(()).ok_or(Errno::ENOSPC)
    }

    /// Adds one. Gives it back if there is no memory.
    pub fn add(&mut self, perm: Perm, value: T) -> Result<usize, T> {
        let entry = Entry { perm, turn: self.turn, is_removed: false, value };
        let place = self.table.insert(entry).map_err(|entry| entry.value)?;
        self.turn = (self.turn + 1) % TURNS;
        self.users.take(perm.creator.0, 1);
        Ok(place)
    }

    /// Takes one out.
    pub fn remove(&mut self, place: usize) -> Option<T> {
        let entry = self.table.remove(place)?;
        self.users.give_back(entry.perm.creator.0, 1);
        Some(entry.value)
    }
}
