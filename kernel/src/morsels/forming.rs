//! Pools that are formatted or recovered: long, so in steps, one pool at a time on each core.

use super::machine::{with, Waiting};
use super::name::HEAD_FRAMES;
use super::status;
use crate::cores::{Extent, PoolState, ThisCore};
use crate::object::mem::PoolWord;
use ::morsel::{Recovery, MAGIC};
use captypes::Status;
use core::sync::atomic::Ordering;
use pool::Geometry;

/// Trees of the allocator, or steps of recovery, in one event. A tree is some 4,200 stores, a step of recovery a table.
const STEPS: usize = 8;
/// Trees without pages in one event. Each is 9 stores.
const ABSENT: usize = 512;

/// What is done with a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forming {
    /// It is made empty.
    Format,
    /// What is in use is found out.
    Recover,
    /// Its pages come and go; there are none yet.
    Volatile,
}

/// How far it has come.
struct Progress {
    number: usize,
    what: Forming,
    /// The next tree of the allocator.
    tree: usize,
    recovery: Recovery,
}

/// The pool that this core forms, if any.
#[derive(Default)]
pub struct PoolForming(Option<Progress>);

impl PoolForming {
    /// None.
    pub const fn new() -> PoolForming {
        PoolForming(None)
    }

    /// Goes on with the pool of this memory, or begins.
    ///
    /// # Errors
    /// [`Status::Again`] until it has come to its end.
    pub fn step(
        &mut self,
        core: ThisCore,
        extent: Extent,
        what: Forming,
        written_back: bool,
        waiting: &mut impl Waiting,
    ) -> Result<(), Status> {
        self.begin(core, extent, what, written_back)?;
        let Some(progress) = &mut self.0 else { return Err(Status::WrongState) };
        let number = progress.number;
        let done = with(core, number, waiting, None, |objects| {
            let pool = objects.pages.pool();
            let trees = pool.geometry.trees();
            let steps = if what == Forming::Volatile { ABSENT } else { STEPS };
            for _ in 0..steps {
                if progress.tree < trees {
                    pool.format_tree(progress.tree);
                    progress.tree += 1;
                    if progress.tree == trees {
                        (0..core.cores.len()).for_each(|core| pool.leave(core));
                    }
                } else if what == Forming::Volatile {
                    return Ok(true);
                } else if what == Forming::Format {
                    return objects.format().map(|()| true);
                } else if progress.recovery.step(objects)? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        let Some(shared) = core.cores.pools().get(number) else { return Err(Status::WrongState) };
        match done {
            Some(Ok(false)) => return Err(Status::Again),
            Some(Ok(true)) if what == Forming::Volatile => shared.set_state(PoolState::Empty),
            Some(Ok(true)) => shared.set_state(PoolState::Open),
            Some(Err(_)) | None => shared.set_state(PoolState::None),
        }
        self.0 = None;
        match done {
            Some(Err(refused)) => Err(status(refused)),
            Some(Ok(_)) => Ok(()),
            None => Err(Status::OutOfRange),
        }
    }

    fn begin(
        &mut self,
        core: ThisCore,
        extent: Extent,
        what: Forming,
        written_back: bool,
    ) -> Result<(), Status> {
        let pools = core.cores.pools();
        if let Some(Progress { number, what: begun, .. }) = self.0 {
            let same = pools.get(number).is_some_and(|pool| pool.has_extent(extent));
            let same = same && begun == what;
            return if same { Ok(()) } else { Err(Status::WrongState) };
        }
        if pools.headed(extent.head).is_some() {
            return Err(Status::WrongState);
        }
        let frames = extent.frames as usize;
        let fits = match what {
            Forming::Volatile => Geometry::apart(frames).is_some(),
            _ => Geometry::new(frames, HEAD_FRAMES).is_some(),
        };
        if !fits {
            return Err(Status::OutOfRange);
        }
        // What is no pool stays as it is.
        if what == Forming::Recover
            && PoolWord::at(extent.head).cell().load(Ordering::Acquire) != MAGIC
        {
            return Err(Status::Invalid);
        }
        let (number, shared) = pools.free().ok_or(Status::WrongState)?;
        shared.begin(core.id, extent, written_back);
        for (_, core) in core.cores.iter() {
            core.pool_use.forget(number);
        }
        self.0 = Some(Progress { number, what, tree: 0, recovery: Recovery::new() });
        Ok(())
    }

    /// The capability to a pool goes: nothing comes of it.
    pub fn forget(&mut self, number: usize) {
        if self.0.as_ref().is_some_and(|progress| progress.number == number) {
            self.0 = None;
        }
    }
}
