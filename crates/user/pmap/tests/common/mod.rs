//! Page tables as the processor would see them, with every rule checked, and refusals on demand.

use pmap::{entry_bytes, entry_of, Backend, PageSize};
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    Table { child: u32, writable: bool },
    Page { frame: u32, offset: u64, rights: u8 },
}

#[derive(Clone, Debug)]
pub struct Table {
    pub level: u8,
    pub entries: BTreeMap<u32, (Entry, u32)>,
}

#[derive(Default)]
pub struct Model {
    pub tables: HashMap<u32, Table>,
    /// Table, first entry, count.
    pub mappings: HashMap<u32, (u32, u32, u32)>,
    next: u32,
    /// Operations that may fail succeed this many times more before one does.
    pub fuel: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

pub const ROOT: u32 = 0;

impl Model {
    pub fn new(level: u8) -> Self {
        let mut model = Model::default();
        model.tables.insert(ROOT, Table { level, entries: BTreeMap::new() });
        model
    }

    fn spend(&mut self) -> Result<u32, Refused> {
        match &mut self.fuel {
            // One refusal: what the map does to get back to where it was succeeds.
            Some(0) => {
                self.fuel = None;
                return Err(Refused);
            }
            Some(fuel) => *fuel -= 1,
            None => {}
        }
        self.next += 1;
        Ok(self.next)
    }

    fn set(&mut self, table: u32, first: u32, mapping: u32, entries: Vec<Entry>) {
        let count = entries.len() as u32;
        assert!(first + count <= 512);
        let own = self.tables.get_mut(&table).unwrap();
        for (at, entry) in (first..).zip(entries) {
            assert!(own.entries.insert(at, (entry, mapping)).is_none(), "entry in use");
        }
        assert!(self.mappings.insert(mapping, (table, first, count)).is_none());
    }

    fn remove_entries(&mut self, table: u32, first: u32, count: u32) {
        let own = self.tables.get_mut(&table).unwrap();
        for at in first..first + count {
            assert!(own.entries.remove(&at).is_some());
        }
    }

    /// Frame, offset, rights and size of the page at `va`; rights limited by tables above.
    pub fn walk(&self, va: u64) -> Option<(u32, u64, u8, u8)> {
        let (mut table, mut limit) = (&self.tables[&ROOT], 3);
        loop {
            let (entry, _) = table.entries.get(&entry_of(table.level, va))?;
            match *entry {
                Entry::Table { child, writable } => {
                    assert_eq!(self.tables[&child].level + 1, table.level);
                    limit &= if writable { 3 } else { 1 };
                    table = &self.tables[&child];
                }
                Entry::Page { frame, offset, rights } => {
                    let inside = (va % entry_bytes(table.level)) & !4095;
                    return Some((frame, offset + inside, rights & limit, table.level));
                }
            }
        }
    }
}

impl Backend for Model {
    type Table = u32;
    type Mapping = u32;
    type Frame = u32;
    type Rights = u8;
    type Error = Refused;

    fn make_table(&mut self, level: u8) -> Result<u32, Refused> {
        let table = self.spend()?;
        self.tables.insert(table, Table { level, entries: BTreeMap::new() });
        Ok(table)
    }

    fn delete_table(&mut self, table: u32) {
        let old = self.tables.remove(&table).expect("it exists");
        assert!(old.entries.is_empty(), "the table is empty");
        for other in self.tables.values() {
            let in_use =
                |entry: &Entry| matches!(entry, Entry::Table { child, .. } if *child == table);
            assert!(!other.entries.values().any(|(entry, _)| in_use(entry)));
        }
    }

    fn map_table(
        &mut self,
        table: u32,
        entry: u32,
        child: u32,
        rights: Option<u8>,
    ) -> Result<u32, Refused> {
        let mapping = self.spend()?;
        assert_eq!(self.tables[&child].level + 1, self.tables[&table].level);
        let writable = rights.is_none_or(|rights| rights & 2 != 0);
        self.set(table, entry, mapping, vec![Entry::Table { child, writable }]);
        Ok(mapping)
    }

    fn map(
        &mut self,
        table: u32,
        entry: u32,
        count: u32,
        frame: u32,
        offset: u64,
        rights: u8,
    ) -> Result<u32, Refused> {
        let mapping = self.spend()?;
        let size = PageSize::of_level(self.tables[&table].level).unwrap().bytes();
        assert_eq!(offset % size, 0);
        let page = |n: u64| Entry::Page { frame, offset: offset + n * size, rights };
        self.set(table, entry, mapping, (0..count as u64).map(page).collect());
        Ok(mapping)
    }

    fn protect(&mut self, mapping: u32, first: u32, count: u32, new: u8) -> Result<(), Refused> {
        self.spend()?;
        let (table, start, all) = self.mappings[&mapping];
        assert!(count > 0 && first + count <= all);
        for at in start + first..start + first + count {
            match &mut self.tables.get_mut(&table).unwrap().entries.get_mut(&at).unwrap().0 {
                Entry::Page { rights, .. } => *rights = new,
                Entry::Table { writable, .. } => *writable = new & 2 != 0,
            }
        }
        Ok(())
    }

    fn unmap(
        &mut self,
        mapping: u32,
        first: u32,
        count: u32,
        splits: bool,
    ) -> Result<Option<u32>, Refused> {
        let rest = self.spend()?;
        let (table, start, all) = self.mappings[&mapping];
        let end = first + count;
        assert!(count > 0 && count < all && end <= all);
        assert_eq!(splits, first > 0 && end < all);
        self.remove_entries(table, start + first, count);
        let left = if first > 0 { (table, start, first) } else { (table, start + end, all - end) };
        self.mappings.insert(mapping, left);
        if !splits {
            return Ok(None);
        }
        self.mappings.insert(rest, (table, start + end, all - end));
        for at in start + end..start + all {
            self.tables.get_mut(&table).unwrap().entries.get_mut(&at).unwrap().1 = rest;
        }
        Ok(Some(rest))
    }

    fn delete(&mut self, mappings: &[u32]) {
        for mapping in mappings {
            let (table, first, count) = self.mappings.remove(mapping).expect("it exists");
            self.remove_entries(table, first, count);
        }
    }

    fn forget(&mut self, mapping: u32) {
        self.delete(&[mapping]);
    }
}
