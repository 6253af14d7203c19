//! The same operations through the library: regions over memory objects over shadow page tables.

use crate::report::{sample, time};
use alloc::vec::Vec;
use libos::frame::Frame;
use libos::memory::{self, Map, Object, OneFrame, PageSize};
use libos::vspace::R;
use libos::{domain, log, Cap, CapAddr, Status};

/// A memory object over a Frame, for measurements.
pub struct Library {
    object: Object<OneFrame>,
    size: PageSize,
}

/// Samples of each operation.
pub struct Samples {
    pub map: Vec<u64>,
    pub protect: Vec<u64>,
    pub unmap: Vec<u64>,
}

/// The kernel's reason, or the library's in the log.
fn status(error: memory::Error) -> Status {
    log!("papers: the library says {error:?}");
    Status::Invalid
}

impl Library {
    /// Over a copy of `frame`, in pages of a table of `level`.
    pub fn new(frame: CapAddr, level: u8) -> Result<Self, Status> {
        let copy = domain::with(|domain| domain.slot())?;
        frame.copy_to(copy)?;
        let object = Object::new(OneFrame::of(Frame::from_cap(copy)?));
        let size = PageSize::ALL[usize::from(level) - 1];
        Ok(Library { object, size })
    }

    /// Maps the first `bytes` as a region, protects them, and unmaps them.
    pub fn samples(&self, rounds: usize, bytes: u64) -> Result<Samples, Status> {
        let (mut map, mut protect) = (Vec::new(), Vec::new());
        let how = Map::default().part(0, bytes).size(self.size);
        let unmap = sample(rounds, || {
            let mut region = None;
            map.push(time(|| {
                region = Some(memory::map(&self.object, how).map_err(status)?);
                Ok(())
            })?);
            let region = region.ok_or(Status::Empty)?;
            protect.push(time(|| region.protect(0, bytes, R).map_err(status))?);
            time(|| region.unmap(0, bytes).map_err(status))
        })?;
        // The first of each only warmed up.
        Ok(Samples { map: map.split_off(1), protect: protect.split_off(1), unmap })
    }
}
