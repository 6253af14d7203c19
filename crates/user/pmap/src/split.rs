//! Taking large pages apart.

use crate::ops::mapping_of;
use crate::tree::{Item, ItemRun, ROOT};
use crate::{entry_bytes, Backend, Error, Pmap, Run, Runs, Shadow, Values, ENTRIES};

impl<B: Backend, S: Shadow> Pmap<B, S> {
    /// Makes sure that no page lies across `va`: a large one there becomes smaller ones.
    pub(crate) fn cut(&mut self, b: &mut B, va: u64) -> Result<(), Error<B::Error>> {
        loop {
            let Some((number, run)) = self.next_leaf(ROOT, va, va.saturating_add(1)) else {
                return Ok(());
            };
            let node = self.node(number);
            if va.is_multiple_of(entry_bytes(node.level)) {
                return Ok(());
            }
            let at = node.entries(va, va + 1).0;
            self.take_apart(b, number, run, at)?;
        }
    }

    /// Puts a table of smaller pages in the place of the large page at entry `at`. The table is
    /// complete before the page goes.
    fn take_apart(
        &mut self,
        b: &mut B,
        number: u32,
        run: ItemRun<B>,
        at: u32,
    ) -> Result<(), Error<B::Error>> {
        let Item::Pages { frame, offset, .. } = run.value else { return Err(Error::Foreign) };
        self.reserve_node()?;
        let node = self.node_mut(number);
        node.items.reserve(2)?;
        let rights = node.rights.get(at).ok_or(Error::NotMapped)?;
        let offset = offset + u64::from(at - run.first) * entry_bytes(node.level);
        let (upper, level) = (node.table, node.level);
        let (mut items, mut values) = (S::Runs::new(), S::Values::new());
        Runs::<Item<B>>::reserve(&mut items, 1)?;
        values.reserve(rights)?;

        let table = b.make_table(level - 1).map_err(Error::Backend)?;
        let small = b.map(table, 0, ENTRIES, frame, offset, rights).map_err(|error| {
            b.delete_table(table);
            Error::Backend(error)
        })?;
        let undo = |b: &mut B| {
            b.delete(&[small]);
            b.delete_table(table);
        };
        if let Err(error) = self.remove_page(b, number, run, at) {
            undo(b);
            return Err(error);
        }
        let mapping = match b.map_table(upper, at, table, None) {
            Ok(mapping) => mapping,
            Err(error) => {
                undo(b);
                self.restore_page(b, number, at, (frame, offset), rights);
                return Err(Error::Backend(error));
            }
        };
        let value = Item::Pages { mapping: small, frame, offset };
        items.insert(Run { first: 0, count: ENTRIES, value });
        values.set(0, ENTRIES, rights);
        self.attach_full((number, at), (table, mapping), |node| {
            node.items = items;
            node.rights = values;
        });
        Ok(())
    }

    fn remove_page(
        &mut self,
        b: &mut B,
        number: u32,
        run: ItemRun<B>,
        at: u32,
    ) -> Result<(), Error<B::Error>> {
        if run.count > 1 {
            return self.carve(b, number, run, at, at + 1);
        }
        b.delete(&[mapping_of(&run)]);
        self.node_mut(number).items.remove(at);
        Ok(())
    }

    /// Maps a large page again whose place could not be taken. Its slot and its entry were free a
    /// moment ago; should the backend refuse nevertheless, the page is gone.
    fn restore_page(
        &mut self,
        b: &mut B,
        number: u32,
        at: u32,
        (frame, offset): (B::Frame, u64),
        rights: B::Rights,
    ) {
        let node = self.node_mut(number);
        if let Ok(mapping) = b.map(node.table, at, 1, frame, offset, rights) {
            let value = Item::Pages { mapping, frame, offset };
            node.items.insert(Run { first: at, count: 1, value });
            node.rights.set(at, at + 1, rights);
        }
    }
}
