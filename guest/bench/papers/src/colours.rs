//! G18 table 3.6: two instances of RandomAccess that share a last-level cache, with and without page
//! colours.
//!
//! The program chooses the physical pages of its tables itself: a page's colour is its number modulo
//! the cache's colours. It runs both instances, verifies them, and tells which physical pages they
//! had; the host's model of the cache counts what the same updates miss there.

use crate::lab::{Lab, PLAY_VA};
use crate::region::view;
use crate::report::{time, Case};
use libos::vspace::{entry_of, table_bytes, RW};
use libos::{log, Cap, CapAddr, CapType, Status, PAGE};
use workloads::colouring::{COLOURS, LARGE_COLOURS, LARGE_MIB, SMALL_COLOURS, SMALL_MIB, UPDATES};
use workloads::random_access::{errors, initialise, place, Streams, STREAMS};

const FIGURE: &str = "G18-table-3.6";
/// Distance of the tables.
const SPAN: u64 = 1 << 32;

/// A table and how its pages lie in physical memory: runs of adjacent pages at equal distances.
struct Table {
    va: u64,
    bytes: u64,
    first: u64,
    run: u64,
    stride: u64,
}

impl Table {
    /// Maps a table whose pages are the `run` pages from `first`, and again every `stride` bytes
    /// from there. `first` is an offset in the lab's RAM.
    fn map(lab: &mut Lab, number: u64, mib: u64, first: u64, run: u64) -> Result<Self, Status> {
        let (va, bytes) = (PLAY_VA + number * SPAN, mib << 20);
        let stride = COLOURS * PAGE;
        let mut done = 0;
        let mut base = None;
        while done < bytes {
            let index = done / (run * PAGE);
            let piece = (run * PAGE).min(bytes - done);
            let frame = lab.slots(1)?;
            lab.ram.retype(CapType::Frame, first + index * stride, piece, 1, frame)?;
            let pa = frame.identify()?.base;
            if pa != *base.get_or_insert(pa) + index * stride {
                return Err(Status::Invalid);
            }
            map_piece(lab, va + done, piece, frame)?;
            done += piece;
        }
        Ok(Table { va, bytes, first: base.unwrap_or(0), run, stride })
    }

    fn words(&self) -> &'static mut [u64] {
        // SAFETY: mapped writable until the lab is cleaned, and viewed once at a time.
        unsafe { view(self.va, (self.bytes / 8) as usize) }
    }

    /// Tells the host which pages it has.
    fn tell(&self, scenario: &str, name: &str) {
        let Table { bytes, first, run, stride, .. } = self;
        log!("@pages {scenario} {name} {bytes} {first} {run} {stride}");
    }
}

/// Maps all of a Frame at `va`, which may be in two tables.
fn map_piece(lab: &mut Lab, va: u64, bytes: u64, frame: CapAddr) -> Result<(), Status> {
    let mut done = 0;
    while done < bytes {
        let at = va + done;
        let here = (bytes - done).min(table_bytes(1) - at % table_bytes(1));
        let (table, mapping) = (lab.table(1, at)?, lab.slots(1)?);
        table.map(entry_of(1, at), (here / PAGE) as u32, frame, done, RW, mapping)?;
        done += here;
    }
    Ok(())
}

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    let all = COLOURS * PAGE;
    for (scenario, small_run, large_first, large_run) in [
        ("parallel", COLOURS, 0, COLOURS),
        ("colours", SMALL_COLOURS, SMALL_COLOURS * PAGE, LARGE_COLOURS),
    ] {
        // The runs repeat every `all` bytes.
        let groups = |mib: u64, run: u64| (mib << 20).div_ceil(run * PAGE);
        let (small, large) = (groups(SMALL_MIB, small_run), groups(LARGE_MIB, large_run));
        let room = lab.reserve((small + large) * all, all)?;
        let tables = [
            Table::map(lab, 0, SMALL_MIB, room, small_run)?,
            Table::map(lab, 1, LARGE_MIB, room + small * all + large_first, large_run)?,
        ];
        let cost = run(&tables)?;
        tables[0].tell(scenario, "small");
        tables[1].tell(scenario, "large");
        let name = alloc::format!("update_of_either_table,_{scenario}");
        Case::new(FIGURE, &name).each(&[cost], 2 * UPDATES);
        lab.clean()?;
    }
    Ok(())
}

/// Updates both tables in turn, verifies them, and answers what the updates cost.
fn run(tables: &[Table; 2]) -> Result<u64, Status> {
    let [small, large] = tables.each_ref().map(|table| table.words());
    initialise(small);
    initialise(large);
    let cost = time(|| {
        pass(small, large);
        Ok(())
    })?;
    let changed = errors(small).min(errors(large));
    pass(small, large);
    let wrong = errors(small) + errors(large);
    if wrong != 0 || changed < small.len() as u64 / 2 {
        log!("papers: colours: {changed} words changed, {wrong} are wrong");
        return Err(Status::Invalid);
    }
    Ok(cost)
}

fn pass(small: &mut [u64], large: &mut [u64]) {
    let mut streams = [Streams::new(UPDATES), Streams::new(UPDATES)];
    for _ in 0..UPDATES / STREAMS as u64 {
        for (stream, table) in streams.iter_mut().zip([&mut *small, &mut *large]) {
            stream.round(|number| table[place(number, table.len())] ^= number);
        }
    }
}
