//! Subtrees that belong to somebody else, mapped as one entry (G12 §3.4).

use crate::tree::Item;
use crate::{entry_bytes, entry_of, Backend, Error, Pmap, Run, Runs, Shadow, Values};

impl<B: Backend, S: Shadow> Pmap<B, S> {
    /// Maps `table`, a table of `level` whose contents are not this map's business, at `va`, a
    /// multiple of what it covers. `rights` limit those of its entries. It is unmapped and
    /// protected as a whole only.
    pub fn map_table(
        &mut self,
        b: &mut B,
        va: u64,
        table: B::Table,
        level: u8,
        rights: B::Rights,
    ) -> Result<(), Error<B::Error>> {
        let upper = level + 1;
        let bytes = entry_bytes(upper);
        if !va.is_multiple_of(bytes) {
            return Err(Error::Misaligned);
        }
        self.check(va, bytes)?;
        if !self.is_free(va, bytes) {
            return Err(Error::Occupied);
        }
        let result = self.insert_table(b, va, table, upper, rights);
        if result.is_err() {
            self.prune_at(b, va);
        }
        result
    }

    fn insert_table(
        &mut self,
        b: &mut B,
        va: u64,
        table: B::Table,
        upper: u8,
        rights: B::Rights,
    ) -> Result<(), Error<B::Error>> {
        let number = self.make_node(b, va, upper)?;
        let node = self.node_mut(number);
        let at = entry_of(upper, va);
        node.items.reserve(1)?;
        node.rights.reserve(rights)?;
        let mapping = b.map_table(node.table, at, table, Some(rights)).map_err(Error::Backend)?;
        let value = Item::Foreign { table, mapping };
        node.items.insert(Run { first: at, count: 1, value });
        node.rights.set(at, at + 1, rights);
        Ok(())
    }
}
