//! The address space: regions over memory objects over page tables.

use super::object::{AnyObject, Fault, MemoryObject, Object, View};
use super::pages::{permits, Pages};
use super::{fault, Error, Prot};
use crate::local::Local;
use abi::layout::{NATIVE_REGIONS, NATIVE_REGIONS_END, PAGE};
use abi::slots::VSPACE;
use pmap::PageSize;
use selfpaging::{Advance, RegionMap};

/// Level of the root on x86-64 without LA57.
const ROOT_LEVEL: u8 = 4;

/// What a region shows.
#[derive(Clone)]
struct Backing {
    object: AnyObject,
    offset: u64,
    prot: Prot,
    size: PageSize,
}

impl Advance for Backing {
    fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
    }
}

type Region = selfpaging::Region<Backing>;

fn view_of(region: &Region) -> View {
    let Backing { offset, prot, size, .. } = region.value;
    View { va: region.start, bytes: region.bytes(), offset, prot, size }
}

/// The program's address space.
pub(super) struct Space {
    pub pages: Pages,
    regions: RegionMap<Backing>,
}

static SPACE: Local<Option<Space>> = Local::new(None);

/// Calls `f` with the address space, which comes into being with the first call.
pub(super) fn with<R>(f: impl FnOnce(&mut Space) -> Result<R, Error>) -> Result<R, Error> {
    let result = SPACE.try_with(|space| {
        if space.is_none() {
            fault::install();
            let pages = Pages::new(VSPACE, ROOT_LEVEL)?;
            let regions = RegionMap::new(NATIVE_REGIONS, NATIVE_REGIONS_END);
            *space = Some(Space { pages, regions });
        }
        space.as_mut().map_or(Err(Error::Busy), f)
    });
    result.unwrap_or(Err(Error::Busy))
}

/// How to map an object. `Map::default()` maps all of it, readable and writable, somewhere.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// First byte of the object.
    pub offset: u64,
    /// Bytes; `None`: to the end of the object.
    pub bytes: Option<u64>,
    /// What the program may do there.
    pub prot: Prot,
    /// The largest pages to map with. Offset, bytes and address are multiples of it.
    pub size: PageSize,
    /// Where; `None`: the first place that is free.
    pub at: Option<u64>,
    /// Of what the address is a multiple, if not of the page size only.
    pub alignment: u64,
}

impl Default for Map {
    fn default() -> Self {
        let (prot, size) = (crate::vspace::RW, PageSize::Base);
        Map { offset: 0, bytes: None, prot, size, at: None, alignment: 0 }
    }
}

impl Map {
    /// With these rights.
    pub fn prot(self, prot: Prot) -> Self {
        Map { prot, ..self }
    }
    /// With pages of up to this size.
    pub fn size(self, size: PageSize) -> Self {
        Map { size, ..self }
    }
    /// This part of the object.
    pub fn part(self, offset: u64, bytes: u64) -> Self {
        Map { offset, bytes: Some(bytes), ..self }
    }
    /// At this address.
    pub fn at(self, va: u64) -> Self {
        Map { at: Some(va), ..self }
    }
    /// At a multiple of this power of two.
    pub fn aligned(self, alignment: u64) -> Self {
        Map { alignment, ..self }
    }
}

impl Space {
    fn map(&mut self, object: AnyObject, map: &Map) -> Result<(u64, u64), Error> {
        let asked = object.try_with(|object| (object.bytes(), object.granularity()));
        let (whole, own_alignment) = asked.ok_or(Error::Busy)?;
        let rest = whole.checked_sub(map.offset).ok_or(Error::OutOfRange)?;
        let bytes = map.bytes.unwrap_or(rest);
        if bytes == 0 || bytes > rest {
            return Err(Error::OutOfRange);
        }
        let alignment = map.size.bytes().max(map.alignment).max(own_alignment);
        let at = map.at.unwrap_or(0);
        if !alignment.is_power_of_two()
            || !(map.offset | bytes).is_multiple_of(map.size.bytes())
            || !at.is_multiple_of(alignment)
        {
            return Err(Error::Misaligned);
        }
        let free = || self.regions.find_free(bytes, alignment, 0);
        let va = map.at.or_else(free).ok_or(Error::OutOfRange)?;
        let Map { offset, prot, size, .. } = *map;
        let backing = Backing { object: object.clone(), offset, prot, size };
        self.regions.insert(va, bytes, backing)?;
        let view = View { va, bytes, offset, prot, size };
        let attached = object.try_with(|object| object.attach(&mut self.pages, &view));
        if let Err(error) = attached.unwrap_or(Err(Error::Busy)) {
            self.pages.unmap(va, bytes)?;
            self.regions.take(va, va + bytes);
            return Err(error);
        }
        Ok((va, bytes))
    }

    /// Cuts the regions across `va` and `end`, if their objects let them be cut there.
    fn cut(&mut self, va: u64, end: u64) -> Result<(), Error> {
        for at in [va, end] {
            let Some(region) = self.regions.find(at).filter(|region| region.start < at) else {
                continue;
            };
            let granularity = region.value.object.try_with(|object| object.granularity());
            if !at.is_multiple_of(granularity.ok_or(Error::Busy)?) {
                return Err(Error::Shared);
            }
        }
        Ok(self.regions.cut(va, end)?)
    }

    /// Removes the first region, or part of one, in `[va, va + bytes)`. Its object is to be dropped
    /// after the address space is free: that may be the end of other regions.
    fn unmap_first(&mut self, va: u64, bytes: u64) -> Result<Option<AnyObject>, Error> {
        let end = check(va, bytes)?;
        self.cut(va, end)?;
        let Some(region) = self.regions.overlapping(va, end).first() else { return Ok(None) };
        let view = view_of(region);
        let object = region.value.object.clone();
        let detached = object.try_with(|object| object.detach(&mut self.pages, &view));
        detached.unwrap_or(Err(Error::Busy))?;
        self.regions.take(view.va, view.end());
        Ok(Some(object))
    }

    /// Sets the rights of `[va, va + bytes)`, which regions cover without a hole.
    fn protect(&mut self, va: u64, bytes: u64, prot: Prot) -> Result<(), Error> {
        let end = check(va, bytes)?;
        let mut at = va;
        for region in self.regions.overlapping(va, end) {
            if region.start > at {
                return Err(Error::NotMapped);
            }
            at = region.end;
        }
        if at < end {
            return Err(Error::NotMapped);
        }
        self.cut(va, end)?;
        for region in self.regions.overlapping_mut(va, end) {
            let view = View { prot, ..view_of(region) };
            let pages = &mut self.pages;
            let changed = region.value.object.try_with(|object| object.protect(pages, &view));
            changed.unwrap_or(Err(Error::Busy))?;
            region.value.prot = prot;
        }
        Ok(())
    }

    /// Has the object behind `fault.address` resolve the fault.
    pub(super) fn fault(&mut self, fault: &Fault) -> Result<(), Error> {
        let region = self.regions.find(fault.address).ok_or(Error::NotMapped)?;
        let view = view_of(region);
        let allowed = permits(view.prot, fault.access);
        let pages = &mut self.pages;
        let resolved = region.value.object.try_with(|object| {
            if allowed {
                object.fault(pages, &view, fault)
            } else {
                object.violation(pages, &view, fault)
            }
        });
        resolved.unwrap_or(Err(Error::Busy))
    }
}

fn check(va: u64, bytes: u64) -> Result<u64, Error> {
    if !(va | bytes).is_multiple_of(PAGE) || bytes == 0 {
        return Err(Error::Misaligned);
    }
    va.checked_add(bytes).ok_or(Error::OutOfRange)
}

/// A region of the address space, which shows (a part of) a memory object. Dropped, it goes.
#[derive(Debug)]
pub struct VRegion {
    va: u64,
    bytes: u64,
}

/// Shows an object in the address space.
pub fn map<T: MemoryObject + 'static>(object: &Object<T>, map: Map) -> Result<VRegion, Error> {
    let any = object.any();
    with(|space| space.map(any, &map)).map(|(va, bytes)| VRegion { va, bytes })
}

/// Removes all regions, and parts of regions, in `[va, va + bytes)`.
pub fn unmap(va: u64, bytes: u64) -> Result<(), Error> {
    while with(|space| space.unmap_first(va, bytes))?.is_some() {}
    Ok(())
}

/// Sets the rights of `[va, va + bytes)`, in one or many regions without a hole between them.
pub fn protect(va: u64, bytes: u64, prot: Prot) -> Result<(), Error> {
    with(|space| space.protect(va, bytes, prot))
}

/// Works with the page tables themselves.
pub fn pages<R>(f: impl FnOnce(&mut Pages) -> Result<R, Error>) -> Result<R, Error> {
    with(|space| f(&mut space.pages))
}

/// Regions there are: address, bytes, rights. For whoever looks at the layout.
pub fn regions(mut f: impl FnMut(&View)) -> Result<(), Error> {
    with(|space| {
        space.regions.iter().for_each(|region| f(&view_of(region)));
        Ok(())
    })
}

impl VRegion {
    /// First address.
    pub fn start(&self) -> u64 {
        self.va
    }

    /// Bytes, with parts that were unmapped.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first byte, as something. Using it is as safe as the rights and the object make it.
    pub fn as_ptr<T>(&self) -> *mut T {
        self.va as *mut T
    }

    /// Sets the rights of a part.
    pub fn protect(&self, offset: u64, bytes: u64, prot: Prot) -> Result<(), Error> {
        protect(self.part(offset, bytes)?, bytes, prot)
    }

    /// Removes a part. What is left of the region stays where it is.
    pub fn unmap(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        unmap(self.part(offset, bytes)?, bytes)
    }

    /// The region stays for good.
    pub fn leak(self) -> u64 {
        let va = self.va;
        core::mem::forget(self);
        va
    }

    fn part(&self, offset: u64, bytes: u64) -> Result<u64, Error> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.va + offset),
            _ => Err(Error::OutOfRange),
        }
    }
}

impl Drop for VRegion {
    fn drop(&mut self) {
        // In use further up the stack, or out of memory: the region stays.
        let _ = unmap(self.va, self.bytes);
    }
}
