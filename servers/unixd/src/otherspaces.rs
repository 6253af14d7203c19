//! Name spaces of networks, control groups and times: what is in one, and whose it is. Of each kind the first one, in which
//! nearly everybody is, is `None`.

use crate::inet::Slot;
use crate::spaces::{Lease, FIRST_IPC};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use unixproto::{clocks::offset_of, Errno};

/// The first numbers, which programs know from Linux.
pub const FIRST_TIMES: u64 = 0xefff_fffa;
pub const FIRST_GROUPS: u64 = 0xefff_fffb;
pub const FIRST_NETS: u64 = FIRST_IPC + 2;

/// Those of networks that have ended, by their slots.
pub type EndedNets = Rc<RefCell<Vec<Slot>>>;

/// A name space of networks: interfaces, ports, abstract names of local sockets.
#[derive(Debug)]
pub struct Net {
    /// Its number as programs see it, which comes only once.
    pub number: u64,
    /// The user name space that it belongs to.
    pub owner: u64,
    /// Where its sockets are.
    pub slot: Slot,
    /// Where its end is told.
    ended: EndedNets,
}

impl Net {
    /// One whose sockets are in a slot.
    pub fn new((number, owner, slot): (u64, u64, Slot), ended: EndedNets) -> Rc<Net> {
        Rc::new(Net { number, owner, slot, ended })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.ended.borrow_mut().push(self.slot);
    }
}

/// A name space of control groups. There is one group, in which everybody is, so all look the same.
#[derive(Debug)]
pub struct Groups {
    /// Its number as programs see it.
    pub number: u64,
    /// The user name space that it belongs to.
    pub owner: u64,
    /// Its place in the count of who has made it.
    _kept: Rc<Lease>,
}

impl Groups {
    /// A new one.
    pub fn new((number, kept): (u64, Rc<Lease>), owner: u64) -> Rc<Groups> {
        Rc::new(Groups { number, owner, _kept: kept })
    }
}

/// Most seconds that an offset may have, and a clock with it (Linux: `KTIME_SEC_MAX`).
const SECONDS_MOST: i64 = i64::MAX / SECOND;
const SECOND: i64 = 1_000_000_000;
/// Lines of `/proc/PID/timens_offsets`.
const CLOCKS: [(&str, &str); 2] = [("monotonic", "1"), ("boottime", "7")];

/// A name space of times: what the clocks that count from boot say more than the machine's.
#[derive(Debug)]
pub struct Times {
    /// Its number as programs see it.
    pub number: u64,
    /// The user name space that it belongs to.
    pub owner: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME`.
    offsets: Cell<[i64; 2]>,
    /// Somebody is in it: from then on they stay.
    has_begun: Cell<bool>,
    /// Its place in the count of who has made it.
    _kept: Rc<Lease>,
}

/// The name space of times that a process is in.
pub type InTimes = Option<Rc<Times>>;

/// What the clocks say more in a name space.
pub fn offsets(times: &InTimes) -> [i64; 2] {
    times.as_ref().map_or([0; 2], |times| times.offsets.get())
}

/// What one of them says more, by its number.
pub fn more(times: &InTimes, clock: u32) -> i64 {
    offset_of(clock).map_or(0, |index| offsets(times)[index])
}

/// What `CLOCK_BOOTTIME` says there when the machine's says `now`.
pub fn since_boot(times: &InTimes, now: u64) -> u64 {
    now.saturating_add_signed(offsets(times)[1])
}

/// `/proc/PID/timens_offsets` of who is to be in it.
pub fn offsets_text(times: &InTimes) -> String {
    let lines = CLOCKS.iter().zip(offsets(times)).map(|((name, _), ns)| {
        let (seconds, rest) = (ns.div_euclid(SECOND), ns.rem_euclid(SECOND));
        format!("{name:<10} {seconds:10} {rest:9}\n")
    });
    lines.collect()
}

impl Times {
    /// A new one, which begins with what another one has.
    pub fn new((number, kept): (u64, Rc<Lease>), owner: u64, from: &InTimes) -> Rc<Times> {
        let (offsets, has_begun) = (Cell::new(offsets(from)), Cell::new(false));
        Rc::new(Times { number, owner, offsets, has_begun, _kept: kept })
    }

    /// Somebody is in it.
    pub fn begin(&self) {
        self.has_begun.set(true);
    }

    /// Sets offsets as a text says: a line for each of one or two clocks. Answers how many bytes of it that was.
    ///
    /// # Errors
    /// `EINVAL`: it is no such text. `ERANGE`: a clock would say less than nothing, or too much. `EACCES`: somebody is in it.
    pub fn set(&self, text: &[u8], now: u64) -> Result<usize, Errno> {
        let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        let (mut offsets, mut used) = (self.offsets.get(), 0);
        for line in text.split_inclusive('\n').take(CLOCKS.len()) {
            used += line.len();
            let mut words = line.split_ascii_whitespace();
            let (name, seconds, rest) = (words.next(), words.next(), words.next());
            let which = |name| CLOCKS.iter().position(|one| name == one.0 || name == one.1);
            let which = name.and_then(which).ok_or(Errno::EINVAL)?;
            let seconds: i64 = seconds.and_then(|word| word.parse().ok()).ok_or(Errno::EINVAL)?;
            let rest: i64 = rest.and_then(|word| word.parse().ok()).ok_or(Errno::EINVAL)?;
            if !(0..SECOND).contains(&rest) || words.next().is_some() {
                return Err(Errno::EINVAL);
            }
            if !(-SECONDS_MOST..=SECONDS_MOST).contains(&seconds) {
                return Err(Errno::ERANGE);
            }
            let ns = i128::from(seconds) * i128::from(SECOND) + i128::from(rest);
            let then = ns + i128::from(now);
            // So that a time added to it cannot be too much either.
            if !(0..=i128::from(SECONDS_MOST / 2) * i128::from(SECOND)).contains(&then) {
                return Err(Errno::ERANGE);
            }
            offsets[which] = i64::try_from(ns).map_err(|_| Errno::ERANGE)?;
        }
        if used == 0 {
            return Err(Errno::EINVAL);
        }
        if self.has_begun.get() {
            return Err(Errno::EACCES);
        }
        self.offsets.set(offsets);
        Ok(used)
    }
}
