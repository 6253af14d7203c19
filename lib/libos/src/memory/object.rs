//! What a memory object is.

use super::pages::Pages;
use super::{Error, Prot};
use crate::local::Local;
use alloc::sync::Arc;
use pmap::PageSize;

/// A part of an object as a range of addresses: a region, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// First address.
    pub va: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where in the object it begins.
    pub offset: u64,
    /// What the program may do there.
    pub prot: Prot,
    /// The largest pages to map with.
    pub size: PageSize,
}

impl View {
    /// First address behind.
    pub fn end(&self) -> u64 {
        self.va + self.bytes
    }
    /// Offset in the object of the byte at `va`.
    pub fn offset_of(&self, va: u64) -> u64 {
        self.offset + (va - self.va)
    }
}

/// What the program tried to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
}

/// A page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The address that was accessed.
    pub address: u64,
    /// How.
    pub access: Access,
    /// A page is there, but does not allow that.
    pub present: bool,
    /// The instruction.
    pub rip: u64,
}

/// Something that can be seen in an address space: the glue between Frames and regions (G18 §3.5.2).
///
/// An object decides what its pages are made of and when. It is called with the address space and
/// itself in use: it cannot map regions, and must not touch memory that may fault. Most calls come
/// from the page-fault upcall.
pub trait MemoryObject: Send {
    /// Bytes that views may show.
    fn bytes(&self) -> u64;

    /// Of what the addresses of views are multiples, a power of two. Nor are views cut elsewhere.
    fn granularity(&self) -> u64 {
        PageSize::Base.bytes()
    }

    /// A view has come into being, with nothing mapped. Objects that know their memory map it now.
    /// On an error, the view goes again.
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        // For those who need them.
        let _ = (pages, view);
        Ok(())
    }

    /// The program accessed `fault.address` inside of `view`, which allows that. Afterwards the page
    /// must be mapped such that the access succeeds.
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error>;

    /// The program did what `view` does not allow. An object that returns `Ok` has made it possible,
    /// or has changed what the program will find when it tries again.
    fn violation(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        // For those who need them.
        let _ = (pages, view, fault);
        Err(Error::NotAllowed)
    }

    /// `view`, a whole view or a part of one, is to have the rights `view.prot` from now on.
    fn protect(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.protect(view.va, view.bytes, view.prot)
    }

    /// `view`, a whole view or a part of one, goes. Afterwards nothing is mapped there.
    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.unmap(view.va, view.bytes)
    }
}

/// A memory object that regions refer to. It lives as long as somebody has this handle or a region
/// shows it.
pub struct Object<T: MemoryObject + ?Sized = dyn MemoryObject>(pub(super) Arc<Local<T>>);

/// Any memory object.
pub(super) type AnyObject = Arc<Local<dyn MemoryObject>>;

impl<T: MemoryObject + ?Sized> Clone for Object<T> {
    fn clone(&self) -> Self {
        Object(self.0.clone())
    }
}

impl<T: MemoryObject + 'static> Object<T> {
    /// The object is `object`.
    pub fn new(object: T) -> Self {
        Object(Arc::new(Local::new(object)))
    }

    /// Looks at the object. `Busy` while it is handling a fault.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
        self.0.try_with(f).ok_or(Error::Busy)
    }

    /// Works on the object and on what is mapped of it.
    pub fn manage<R>(
        &self,
        f: impl FnOnce(&mut T, &mut Pages) -> Result<R, Error>,
    ) -> Result<R, Error> {
        super::space::with(|space| {
            self.0.try_with(|object| f(object, &mut space.pages)).unwrap_or(Err(Error::Busy))
        })
    }

    pub(super) fn any(&self) -> AnyObject {
        self.0.clone()
    }
}
