//! Objects as vectors of pages, and a keeper that only remembers which file has which.

use memfs::{Attributes, Keeper, Kept, KeptCopy, KeptName, SetXattr, What};
use paging::PAGE;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use unixproto::Errno;

pub type Object = Rc<RefCell<Pages>>;

/// An object of so many pages at most, of which some are missing.
pub struct Pages {
    pages: BTreeMap<u64, Vec<u8>>,
    size: u64,
    pub most: u64,
    /// How often it was committed.
    pub committed: u32,
    /// How large it was when it was taken from everybody.
    pub revoked: Vec<u64>,
    free: Rc<Cell<u64>>,
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.discard(0, self.most);
    }
}

impl Pages {
    /// The first pages between two bytes that are there, up to one that is not.
    pub fn next_data(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let mut pages = from / PAGE..to / PAGE;
        let first = pages.find(|page| self.holds(*page))?;
        let end = pages.find(|page| !self.holds(*page)).unwrap_or(to / PAGE);
        Some((first * PAGE, end * PAGE))
    }
    fn holds(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }
    pub fn size(&self) -> u64 {
        self.size
    }
    pub fn taken(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }
    pub fn resize(&mut self, bytes: u64) -> Result<(), Errno> {
        while self.most < bytes {
            self.most *= 8;
        }
        self.discard(bytes.next_multiple_of(PAGE), self.most);
        let last = self.pages.get_mut(&(bytes / PAGE)).filter(|_| bytes < self.size);
        if let Some(page) = last {
            page[(bytes % PAGE) as usize..].fill(0);
        }
        self.size = bytes;
        Ok(())
    }
    pub fn populate(&mut self, from: u64, to: u64) -> u64 {
        assert!(to <= self.size.next_multiple_of(PAGE), "there is nothing behind the size");
        for page in from / PAGE..to / PAGE {
            if !self.holds(page) {
                let Some(left) = self.free.get().checked_sub(PAGE) else { return page * PAGE };
                self.free.set(left);
                self.pages.insert(page, vec![0; PAGE as usize]);
            }
        }
        to
    }
    pub fn discard(&mut self, from: u64, to: u64) {
        assert!(from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE));
        let before = self.taken();
        self.pages.retain(|page, _| !(from / PAGE..to / PAGE).contains(page));
        self.free.set(self.free.get() + before - self.taken());
    }
    pub fn clear(&mut self, from: u64, to: u64) {
        assert!(to <= self.size, "there is nothing behind the size");
        if let Some(page) = self.pages.get_mut(&(from / PAGE)) {
            page[(from % PAGE) as usize..][..(to - from) as usize].fill(0);
        }
    }
    pub fn byte(&self, at: u64) -> u8 {
        self.pages.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE) as usize])
    }
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        assert!(offset + data.len() as u64 <= self.size);
        for (at, byte) in (offset..).zip(data) {
            *byte = self.byte(at);
        }
    }
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        assert!(offset + data.len() as u64 <= self.size);
        for (at, byte) in (offset..).zip(data) {
            let page = self.pages.get_mut(&(at / PAGE)).expect("there is room");
            page[(at % PAGE) as usize] = *byte;
        }
    }
}

/// All objects by number.
#[derive(Clone)]
pub struct Objects {
    all: Rc<RefCell<BTreeMap<u32, Object>>>,
    free: Rc<Cell<u64>>,
}

impl Objects {
    pub fn new(free: Rc<Cell<u64>>) -> Objects {
        Objects { all: Rc::default(), free }
    }
    /// One that goes when nobody has it.
    pub fn volatile(&self) -> Object {
        let (size, most, free) = (0, 2 * PAGE, self.free.clone());
        let (pages, revoked) = (BTreeMap::new(), Vec::new());
        Rc::new(RefCell::new(Pages { pages, size, most, committed: 0, revoked, free }))
    }
    pub fn create(&self) -> Result<(u32, Object), Errno> {
        let object = self.volatile();
        let mut all = self.all.borrow_mut();
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(number, object.clone());
        Ok((number, object))
    }
    /// Pages are copied at once.
    pub fn clone_of(&self, object: &Object) -> Result<(u32, Object), Errno> {
        let survives = self.all.borrow().values().any(|known| Rc::ptr_eq(known, object));
        if self.free.get() < object.borrow().taken() {
            return Err(Errno::ENOSPC);
        }
        let (number, new) = if survives { self.create()? } else { (0, self.volatile()) };
        {
            let (from, mut to) = (object.borrow(), new.borrow_mut());
            self.free.set(self.free.get().checked_sub(from.taken()).ok_or(Errno::ENOSPC)?);
            (to.pages, to.size, to.most) = (from.pages.clone(), from.size, from.most);
        }
        Ok((number, new))
    }
    pub fn destroy(&self, number: u32) {
        let object = self.all.borrow_mut().remove(&number).expect("it is there");
        assert_eq!(Rc::strong_count(&object), 1, "somebody has it still");
        object.borrow_mut().resize(0).unwrap();
    }
    pub fn open(&self, number: u32) -> Option<Object> {
        self.all.borrow().get(&number).cloned()
    }
}

/// Numbers that were given out, and which object belongs to each.
pub struct Numbers {
    next: NonZeroU32,
    /// What has a name in a directory.
    names: BTreeMap<(Kept, Vec<u8>), Kept>,
    contents: BTreeMap<Kept, u32>,
    objects: Objects,
}

impl Numbers {
    pub fn new(objects: Objects) -> Numbers {
        let (names, contents) = (BTreeMap::new(), BTreeMap::new());
        Numbers { next: NonZeroU32::MIN, names, contents, objects }
    }
    fn number(&mut self) -> Kept {
        let kept = Kept(self.next);
        self.next = self.next.saturating_add(1);
        kept
    }
    /// What is in a directory.
    fn below(&self, dir: Kept) -> Vec<(Vec<u8>, Kept)> {
        let names = self.names.iter().filter(|((of, _), _)| *of == dir);
        names.map(|((_, name), ino)| (name.clone(), *ino)).collect()
    }
    /// Copies an inode and what is below it, but for one.
    fn copy(
        &mut self,
        (of, except): (Kept, Kept),
        known: &mut BTreeMap<Kept, KeptCopy>,
    ) -> Result<Kept, Errno> {
        if let Some(copy) = known.get(&of) {
            return Ok(copy.to);
        }
        let mut content = self.contents.get(&of).copied();
        if let Some(number) = &mut content {
            let object = self.objects.open(*number).expect("it is there");
            *number = self.objects.clone_of(&object)?.0;
        }
        let to = self.number();
        self.contents.extend(content.map(|content| (to, content)));
        known.insert(of, KeptCopy { from: of, to, content });
        for (name, ino) in self.below(of).into_iter().filter(|(_, ino)| *ino != except) {
            let copy = self.copy((ino, except), known)?;
            self.names.insert((to, name), copy);
        }
        Ok(to)
    }
    fn forget_below(&mut self, dir: Kept) {
        for (name, ino) in self.below(dir) {
            self.names.remove(&(dir, name));
            self.forget_below(ino);
        }
    }
}

impl Keeper for Numbers {
    fn create(&mut self, at: Option<KeptName>, _: What, _: Attributes) -> Result<Kept, Errno> {
        let kept = self.number();
        if let Some(at) = at {
            self.link(kept, at, 0)?;
        }
        Ok(kept)
    }
    fn link(&mut self, inode: Kept, at: KeptName, _: i64) -> Result<(), Errno> {
        assert!(self.names.insert((at.dir, at.name.to_vec()), inode).is_none());
        Ok(())
    }
    fn remove(&mut self, at: KeptName, _: bool, _: i64) -> Result<(), Errno> {
        assert!(self.names.remove(&(at.dir, at.name.to_vec())).is_some());
        Ok(())
    }
    fn rename(
        &mut self,
        from: KeptName,
        to: KeptName,
        exchange: bool,
        _: i64,
    ) -> Result<(), Errno> {
        let place = |at: KeptName| (at.dir, at.name.to_vec());
        let moved = self.names.remove(&place(from)).expect("it is there");
        let before = self.names.insert(place(to), moved);
        if exchange {
            self.names.insert(place(from), before.expect("it is there"));
        }
        Ok(())
    }
    fn snapshot(&mut self, of: Kept, at: KeptName, _: i64) -> Result<Vec<KeptCopy>, Errno> {
        let mut known = BTreeMap::new();
        match self.copy((of, at.dir), &mut known) {
            Ok(top) => {
                self.names.insert((at.dir, at.name.to_vec()), top);
                Ok(known.into_values().collect())
            }
            Err(error) => {
                for copy in known.into_values() {
                    self.forget_below(copy.to);
                    self.release(copy.to);
                }
                Err(error)
            }
        }
    }
    fn remove_snapshot(&mut self, at: KeptName, _: i64) -> Result<(), Errno> {
        let top = self.names.remove(&(at.dir, at.name.to_vec())).expect("it is there");
        self.forget_below(top);
        Ok(())
    }
    fn set_attributes(&mut self, _: Kept, _: Attributes) -> Result<(), Errno> {
        Ok(())
    }
    fn set_content(&mut self, inode: Kept, content: u32) -> Result<(), Errno> {
        self.contents.insert(inode, content);
        Ok(())
    }
    fn release(&mut self, inode: Kept) {
        if let Some(number) = self.contents.remove(&inode) {
            self.objects.destroy(number);
        }
    }
    fn xattr(&mut self, _: Kept, _: &[u8]) -> Result<Vec<u8>, Errno> {
        Err(Errno::ENODATA)
    }
    fn xattrs(&mut self, _: Kept) -> Result<Vec<u8>, Errno> {
        Ok(Vec::new())
    }
    fn set_xattr(&mut self, _: Kept, _: &[u8], _: &[u8], _: SetXattr, _: i64) -> Result<(), Errno> {
        Err(Errno::ENOSPC)
    }
    fn remove_xattr(&mut self, _: Kept, _: &[u8], _: i64) -> Result<(), Errno> {
        Err(Errno::ENODATA)
    }
}
