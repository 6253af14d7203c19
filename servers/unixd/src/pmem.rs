//! `/pmem`: files that the next boot finds.
//!
//! All persistent memory is one Pool. Its first object holds names and attributes ([`pmfs`]), which are read and written in
//! place ([`area`]); each file with a size has one of the others ([`crate::morsels`]). The tree is read at start; from then
//! on names and attributes are changed there first ([`keeper`], decision 91).

mod area;
mod inspection;
mod keeper;
mod load;

use crate::caps::Slots;
use crate::morsels::{destroy, errno_of};
use crate::nodes::{Node, Tree};
use crate::volumes::{Kind, Volume};
use abi::layout::PAGE;
use abi::slots::VSPACE;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use area::{Flush, MetaArea};
use captypes::invocations::MorselFacts;
use core::cell::Cell;
use inspection::{inspect, Checked, Found};
use keeper::PoolKeeper;
use libos::ephemeral::Window;
use libos::guarded::bytes_of_mut;
use libos::morsel::{MorselCap, Persistence, PoolCap};
use libos::runtime::PersistentMemory;
use libos::vspace::{entry_of, R, RW};
use libos::{Cap, CapAddr, CapType, Place, Rights, Status};
use memfs::{Attr, Attributes, Cred, Kept};
use unixproto::Errno;

/// Name of the directory.
const NAME: &[u8] = b"pmem";
/// Where names and attributes are mapped: all that one entry of the root table covers.
const META_VA: u64 = abi::layout::NATIVE_REGIONS_END;
/// Order of the object with names and attributes: that of such an entry.
const META_ORDER: u32 = 3;
/// The object with names and attributes is so much smaller than the pool.
const META_SHARE: u64 = 64;
/// Its least size, and its greatest.
const META_BYTES: (u64, u64) = (256 << 10, 1 << 30);

/// The pool, and the object with names and attributes.
pub struct Pool {
    pool: Slots,
    /// Holds the object, and the Mapping.
    meta: Slots,
}

/// What is known of the pool of persistent files, by whoever works on them.
#[derive(Clone, Copy, Debug)]
pub struct PoolHandle {
    /// The Pool.
    pub pool: CapAddr,
    /// Does a store survive without being written back?
    pub caches_persist: bool,
}

/// Why there are no persistent files.
struct Refusal(String);

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal(format!("{status:?}"))
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        Refusal(String::from(why))
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Refusal {
        Refusal(String::from(error.name()))
    }
}

impl From<pmfs::Refused> for Refusal {
    fn from(refused: pmfs::Refused) -> Refusal {
        Refusal(format!("names and attributes: {refused:?}"))
    }
}

impl Pool {
    /// Has the tree show what is in persistent memory. If that is not to be had, the directory is empty and nobody can
    /// make anything in it.
    pub fn mount(
        tree: &mut Tree,
        memory: PersistentMemory,
        now: i64,
    ) -> Result<Option<Pool>, Errno> {
        let names = tree.files_mut().names_mut();
        let attr = Attr { mode: 0o555, cred: Cred::ROOT, now };
        let dir = names.mkdir(names.root(), NAME, attr)?;
        let none = Attributes { mode: 0o555, uid: 0, gid: 0, atime: now, mtime: now, ctime: now };
        let volume = Volume {
            kind: Kind::Pmem,
            source: b"pmem".to_vec(),
            device: crate::pathops::PMEM_DEVICE,
            owner: 0,
            read_only: Cell::new(false),
        };
        match Self::open(tree, memory)
            .and_then(|(pool, names)| pool.fill(tree, dir, memory, names, now))
        {
            Ok(pool) => {
                tree.show(Node::Mem(dir), Node::Mem(dir), volume)?;
                Ok(Some(pool))
            }
            Err(Refusal(why)) => {
                libos::log!("unixd: /pmem cannot be used: {why}");
                let names = tree.files_mut().names_mut();
                names.disown(dir);
                names.adopt_root(dir, Kept(core::num::NonZeroU32::MAX), none)?;
                tree.files_mut().memory().pool = None;
                Ok(None)
            }
        }
    }

    /// Makes the pool, or finds it. Nothing is stored before it is known that all of it can be used.
    fn open(tree: &mut Tree, memory: PersistentMemory) -> Result<(Pool, Option<Checked>), Refusal> {
        let persistence = match memory.caches_persist {
            true => Persistence::Caches,
            false => Persistence::Memory,
        };
        let window = tree.files_mut().memory().window();
        let mut names = None;
        let mut is_blank = is_zero(window, memory.cap, (0, PAGE))?;
        if !is_blank {
            let frame = Slots::new(1)?;
            memory.cap.retype(CapType::Frame, 0, memory.bytes, 1, frame.first())?;
            match inspect(window, frame.first(), (memory.base, memory.bytes), seed())? {
                Found::Names(mount) => names = Some(mount),
                Found::Unfinished => {}
                Found::Empty { own } => {
                    // The first start was interrupted; or what there was cannot be found, and must not be lost for good.
                    drop(frame);
                    let behind = ((own + DIRECTORY) * PAGE, memory.bytes);
                    is_blank = is_zero(window, memory.cap, behind)?;
                    if !is_blank {
                        return Err("nothing in the pool can be found".into());
                    }
                }
            }
        }
        let pool = Slots::new(1)?;
        memory.cap.retype(CapType::Pool, 0, memory.bytes, 1, pool.first())?;
        match is_blank {
            true => pool.first().format_pool(persistence)?,
            false => pool.first().recover_pool(persistence).map(drop)?,
        }
        Ok((Pool { pool, meta: Slots::new(2)? }, names))
    }

    /// Adds what is in the pool to the tree.
    fn fill(
        self,
        tree: &mut Tree,
        dir: memfs::Ino,
        memory: PersistentMemory,
        names: Option<Checked>,
        now: i64,
    ) -> Result<Pool, Refusal> {
        let handle = PoolHandle { pool: self.pool.first(), caches_persist: memory.caches_persist };
        let mut limits = self.objects()?;
        let meta = limits.pop_first();
        let area = self.area(meta, limits.is_empty(), handle, now)?;
        let mut mount = match names {
            Some(checked) => checked.attach(area),
            None => pmfs::Mount::new(area, seed())?,
        };
        while !mount.step(|number| limits.contains_key(&number))? {}
        let mut fs = mount.finish()?;
        load::load(tree.files_mut().names_mut(), dir, &mut fs, &limits)?;
        for &number in limits.keys().filter(|number| fs.content_owner(**number).is_none()) {
            // What cannot be destroyed now is found again at the next start.
            let _ = destroy(handle.pool, number);
        }
        tree.files_mut().memory().pool = Some(handle);
        tree.files_mut().names_mut().mount(Box::new(PoolKeeper::new(fs, handle)));
        Ok(self)
    }

    /// The sizes of all objects, by the numbers of their records.
    fn objects(&self) -> Result<BTreeMap<u32, u64>, Refusal> {
        let (mut all, mut at) = (BTreeMap::new(), 0);
        while let Some(MorselFacts { record, limit, .. }) = self.pool.first().next_morsel(at)? {
            all.insert(record, limit);
            at = record + 1;
        }
        Ok(all)
    }

    /// Maps the object with names and attributes, after making it if it was not made or not finished.
    fn area(
        &self,
        found: Option<(u32, u64)>,
        is_alone: bool,
        handle: PoolHandle,
        now: i64,
    ) -> Result<MetaArea, Refusal> {
        let (pool, meta) = (self.pool.first(), self.meta.at(0));
        let bytes = match found {
            Some((number, bytes)) => {
                pool.open_morsel(number, Rights::READ.or(Rights::WRITE).or(Rights::REVOKE), meta)?;
                // As it was born it is larger than any that was finished.
                if bytes > META_BYTES.1 {
                    0
                } else {
                    bytes
                }
            }
            None => pool.create_morsel(META_ORDER, meta).map(|_| 0)?,
        };
        let facts = meta.morsel_info()?;
        if facts.order != META_ORDER || facts.flags != 0 || bytes == 0 && !is_alone {
            return Err("there are no names in the pool".into());
        }
        let size = match bytes {
            0 => meta_bytes(pool.pool_info()?.pages * PAGE),
            bytes => bytes,
        };
        meta.set_limit(size)?;
        // A store must not need memory.
        meta.populate(0, size / PAGE, false)?;
        VSPACE.map(entry_of(4, META_VA), 1, meta, 0, RW, self.meta.at(1))?;
        let flush = if handle.caches_persist { Flush::None } else { Flush::detect() };
        // SAFETY: the object is mapped there for good, and all its pages are there.
        let area = unsafe { MetaArea::new(META_VA, size / 8, flush) };
        if is_alone && !area.is_formatted() {
            let attr = pmfs::Attr { mode: 0o1777, ..keeper::attr_of(None, now) };
            pmfs::format(&area, attr)?;
        }
        Ok(area)
    }
}

/// Pages of a pool's directory that has no record yet, at most.
const DIRECTORY: u64 = 3;

/// Bytes for names and attributes in a pool of so many.
fn meta_bytes(pool: u64) -> u64 {
    (pool / META_SHARE).clamp(META_BYTES.0, META_BYTES.1) & !(PAGE - 1)
}

/// Is there nothing but zeros between two bytes of persistent memory, as if it was never used?
fn is_zero(window: &mut Window, memory: CapAddr, (from, to): (u64, u64)) -> Result<bool, Refusal> {
    let frame = Slots::new(1)?;
    memory.retype(CapType::Frame, from, to - from, 1, frame.first())?;
    let mut words = [0u64; 64];
    let step = size_of_val(&words) as u64;
    for base in (0..to - from).step_by(Window::BYTES as usize) {
        let bytes = (to - from - base).min(Window::BYTES);
        let view = window.open(Place::own(frame.first()), base, bytes, R)?;
        for offset in (0..bytes).step_by(step as usize) {
            view.read(offset as usize, bytes_of_mut(&mut words))?;
            if words.iter().any(|&word| word != 0) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// A number that is another one at each start.
fn seed() -> u64 {
    // SAFETY: the instruction only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// How much there is in a pool, in pages: all, and free.
pub fn space(pool: CapAddr) -> Result<(u64, u64), Errno> {
    let facts = pool.pool_info().map_err(errno_of)?;
    Ok((facts.pages - facts.own, facts.free))
}
