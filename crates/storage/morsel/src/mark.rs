//! Trees are walked through and what they lead to is marked, by [recovery](crate::Recovery) and by the
//! [inspection](crate::Inspection) before it.

use crate::link::{Child, Kind, Link};
use crate::memory::{At, Frame, Look};
use crate::{Anchor, Refused};

/// Where it is noted what is in use.
pub(crate) trait Marks {
    /// The root of an object: nothing else leads to it.
    fn root(&self, frame: Frame, record: u32) -> Result<(), Refused>;
    /// One more entry leads to it. Was it the first?
    fn child(&self, child: Child, own: bool) -> Result<bool, Refused>;
    /// An entry would be this without what only the last run knew.
    fn tidied(&self, at: At, link: Link);
}

/// A table whose entries are being marked.
#[derive(Clone, Copy, Debug)]
struct Marking {
    table: Frame,
    level: u8,
    next: usize,
    /// Can all that led here be written?
    own: bool,
}

/// A walk through the tree of an object.
#[derive(Debug)]
pub(crate) struct Marker {
    /// Tables whose entries are being marked.
    stack: [Marking; 4],
    depth: usize,
    /// Whose they are.
    owner: u32,
}

impl Marker {
    pub fn new() -> Marker {
        let stack = [Marking { table: Frame(0), level: 0, next: 0, own: false }; 4];
        Marker { stack, depth: 0, owner: 0 }
    }

    /// Are there tables whose entries have not all been marked?
    pub fn is_busy(&self) -> bool {
        self.depth > 0
    }

    /// Begins with an object.
    pub fn root(&mut self, marks: &impl Marks, record: u32, anchor: Anchor) -> Result<(), Refused> {
        if anchor.order() > 4 {
            return Err(Refused::Damaged);
        }
        marks.root(anchor.root(), record)?;
        if anchor.order() > 0 {
            let (table, level) = (anchor.root(), anchor.order());
            self.stack[0] = Marking { table, level, next: 0, own: true };
            self.depth = 1;
            self.owner = record;
        }
        Ok(())
    }

    /// Marks what the entries of the table on top of the stack lead to, until there is a table to be marked first.
    pub fn table(&mut self, memory: &impl Look, marks: &impl Marks) -> Result<(), Refused> {
        let Marking { table, level, next, own } = self.stack[self.depth - 1];
        for index in next..paging::ENTRIES {
            let Some(link) = tidy(memory, marks, At::new(table, index), level)? else { continue };
            let (child, own) = (link.child(level), own && link.is_own());
            // The directory has pages of 64 records.
            if child.kind == Kind::Huge && self.owner == 0 {
                return Err(Refused::Damaged);
            }
            let first = marks.child(child, own)?;
            if let (true, Kind::Table(level)) = (first, child.kind) {
                self.stack[self.depth - 1].next = index + 1;
                self.stack[self.depth] = Marking { table: child.frame, level, next: 0, own };
                self.depth += 1;
                return Ok(());
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// An entry without what only the last run knew; `None` if it leads nowhere.
#[inline(always)]
fn tidy(
    memory: &impl Look,
    marks: &impl Marks,
    at: At,
    level: u8,
) -> Result<Option<Link>, Refused> {
    let link = Link(memory.word(at));
    let tidy = link.tidy();
    if tidy != link {
        marks.tidied(at, tidy);
    }
    match tidy {
        tidy if tidy.is_empty() => Ok(None),
        tidy if tidy.is_sound(level) => Ok(Some(tidy)),
        _ => Err(Refused::Damaged),
    }
}
