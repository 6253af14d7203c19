//! Names of sockets.

use crate::Kind;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use unixproto::Errno;

/// Names without a file that the server chooses: five hexadecimal digits.
const CHOICES: u32 = 1 << 20;

/// A name.
#[derive(PartialEq, Eq, Debug)]
pub struct Name {
    /// The file, by its number; `None`: an abstract name.
    pub file: Option<u64>,
    /// As it was given, behind the family.
    pub text: Vec<u8>,
}

/// Where abstract names are unlike all others: the number of the network name space, and the kind.
pub(crate) type Place = (u64, Kind);

/// What is named.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    File(u64),
    Abstract(Place, Vec<u8>),
}

impl Name {
    /// A file.
    pub fn of_file(file: u64, text: Vec<u8>) -> Name {
        Name { file: Some(file), text }
    }

    /// An abstract one: its first byte is a NUL.
    pub fn abstract_name(text: Vec<u8>) -> Name {
        Name { file: None, text }
    }

    fn key(&self, place: Place) -> Key {
        match self.file {
            Some(file) => Key::File(file),
            None => Key::Abstract(place, self.text.clone()),
        }
    }
}

/// Which names are taken, and by which socket.
#[derive(Default)]
pub(crate) struct Names {
    taken: BTreeMap<Key, u32>,
    /// Where the search for a free one begins.
    next: u32,
}

impl Names {
    /// The socket with the name of a file.
    pub fn file(&self, file: u64) -> Option<u32> {
        self.taken.get(&Key::File(file)).copied()
    }

    /// The one with an abstract name.
    pub fn abstract_name(&self, place: Place, text: &[u8]) -> Option<u32> {
        self.taken.get(&Key::Abstract(place, text.to_vec())).copied()
    }

    /// Is a name that of a socket, and not only told as its?
    pub fn is_of(&self, name: &Name, place: Place, number: u32) -> bool {
        self.taken.get(&name.key(place)) == Some(&number)
    }

    /// Takes a name for a socket.
    pub fn take(&mut self, name: Name, place: Place, number: u32) -> Result<Rc<Name>, Errno> {
        let key = name.key(place);
        if self.taken.contains_key(&key) {
            return Err(Errno::EADDRINUSE);
        }
        self.taken.insert(key, number);
        Ok(Rc::new(name))
    }

    /// Takes a free abstract name.
    pub fn choose(&mut self, place: Place, number: u32) -> Result<Rc<Name>, Errno> {
        for _ in 0..CHOICES {
            let text = format!("\0{:05x}", self.next % CHOICES).into_bytes();
            self.next += 1;
            match self.take(Name::abstract_name(text), place, number) {
                Err(Errno::EADDRINUSE) => {}
                taken => return taken,
            }
        }
        Err(Errno::ENOSPC)
    }

    /// A name is free again.
    pub fn give_back(&mut self, name: &Name, place: Place) {
        self.taken.remove(&name.key(place));
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.taken.len()
    }
}
