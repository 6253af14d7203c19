//! The debug registers of a thread, as its tracer sees them in `struct user`.
//!
//! Addresses are DR0 to DR3, DR6 says what has happened, DR7 what is watched: bits 0 to 7 switch breakpoints on, bits 16 to
//! 31 say of each its kind (0: executed, 1: written, 3: read or written) and how many bytes it has (0: one, 1: two, 3: four, 2: eight).

use crate::Errno;

/// Breakpoints of a thread.
pub const BREAKPOINTS: usize = 4;
/// Bits of DR6 that are always set.
const STATUS_SET: u64 = 0xffff_0ff0;
/// Kinds, as DR7 has them.
const EXECUTED: u64 = 0;
const WRITTEN: u64 = 1;
const PORT: u64 = 2;

/// What one breakpoint watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Breakpoint {
    address: u64,
    /// Its four bits of DR7.
    kind: u64,
}

impl Breakpoint {
    const fn is_executed(self) -> bool {
        self.kind & 3 == EXECUTED
    }

    fn bytes(self) -> u64 {
        [1, 2, 8, 4][(self.kind >> 2) as usize & 3]
    }

    fn check(self, user_end: u64) -> Result<(), Errno> {
        let is_kind = match self.kind & 3 {
            EXECUTED => self.bytes() == 1,
            kind => kind != PORT,
        };
        if !is_kind {
            return Err(Errno::EINVAL);
        }
        if !self.is_executed() && !self.address.is_multiple_of(self.bytes()) {
            return Err(Errno::EINVAL);
        }
        let last = self.address.checked_add(self.bytes() - 1);
        last.filter(|&last| last < user_end).map(|_| ()).ok_or(Errno::EINVAL)
    }
}

/// The registers. Zeros watch nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DebugRegisters {
    /// Those that have been set.
    breakpoints: [Option<Breakpoint>; BREAKPOINTS],
    /// Bits of DR6 that are not always set.
    status: u64,
    control: u64,
}

impl DebugRegisters {
    /// Of a thread whose tracer has set none.
    pub const NONE: DebugRegisters =
        DebugRegisters { breakpoints: [None; BREAKPOINTS], status: 0, control: 0 };

    /// Does it watch anything?
    pub const fn watch(&self) -> bool {
        self.control & 0xff != 0
    }

    /// Register `number`.
    pub fn get(&self, number: usize) -> u64 {
        match number {
            0..BREAKPOINTS => self.breakpoints[number].map_or(0, |breakpoint| breakpoint.address),
            6 => self.status ^ STATUS_SET,
            7 => self.control,
            _ => 0,
        }
    }

    /// These with register `number` set to `value`.
    ///
    /// # Errors
    ///
    /// `EIO`: no register that can be set. `EINVAL`: no kind of breakpoint, or an address that is not a multiple of its bytes,
    /// or from `user_end` on.
    pub fn with(&self, number: usize, value: u64, user_end: u64) -> Result<DebugRegisters, Errno> {
        let mut new = *self;
        match number {
            0..BREAKPOINTS => {
                let kind = self.breakpoints[number].map_or(WRITTEN, |breakpoint| breakpoint.kind);
                let breakpoint = Breakpoint { address: value, kind };
                breakpoint.check(user_end)?;
                new.breakpoints[number] = Some(breakpoint);
            }
            6 => new.status = value ^ STATUS_SET,
            7 => {
                new.control = value;
                for (n, breakpoint) in new.breakpoints.iter_mut().enumerate() {
                    let is_on = new.control >> (2 * n) & 3 != 0;
                    if breakpoint.is_none() && !is_on {
                        continue;
                    }
                    let address = breakpoint.map_or(0, |breakpoint| breakpoint.address);
                    let changed = Breakpoint { address, kind: new.control >> (16 + 4 * n) & 0xf };
                    changed.check(user_end)?;
                    *breakpoint = Some(changed);
                }
            }
            _ => return Err(Errno::EIO),
        }
        Ok(new)
    }

    /// What the processor is to watch: addresses, and DR7.
    pub fn armed(&self) -> ([u64; BREAKPOINTS], u64) {
        let (mut addresses, mut control) = ([0; BREAKPOINTS], 0);
        for (n, breakpoint) in self.breakpoints.iter().enumerate() {
            if let Some(breakpoint) = breakpoint.filter(|_| self.control >> (2 * n) & 3 != 0) {
                addresses[n] = breakpoint.address;
                control |= 1 << (2 * n) | breakpoint.kind << (16 + 4 * n);
            }
        }
        (addresses, control)
    }

    /// Address and bytes of each breakpoint that is on and watches data.
    pub fn data(&self) -> [Option<(u64, usize)>; BREAKPOINTS] {
        core::array::from_fn(|n| {
            let on = self.breakpoints[n].filter(|_| self.control >> (2 * n) & 3 != 0);
            on.filter(|breakpoint| !breakpoint.is_executed())
                .map(|breakpoint| (breakpoint.address, breakpoint.bytes() as usize))
        })
    }

    /// There was a debug exception for these reasons, as DR6 has them.
    pub fn happened(&mut self, reasons: u64) {
        self.status = reasons;
    }

    /// Was one of them that an instruction is watched, which has not been executed yet?
    pub fn is_before_instruction(&self) -> bool {
        let hit = |n: &usize| self.status >> n & 1 != 0;
        let mut all = (0..BREAKPOINTS).filter(hit).filter_map(|n| self.breakpoints[n]);
        all.any(Breakpoint::is_executed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 1 << 47;

    #[test]
    fn a_watchpoint_is_set_as_debuggers_do() {
        let none = DebugRegisters::NONE;
        let set = none.with(1, 0x1008, END).unwrap().with(7, 0x0090_0004, END).unwrap();
        assert_eq!(set.armed(), ([0, 0x1008, 0, 0], 0x0090_0004));
        assert_eq!(set.data(), [None, Some((0x1008, 8)), None, None]);
        assert_eq!((set.get(0), set.get(1), set.get(7)), (0, 0x1008, 0x0090_0004));
        let off = set.with(7, 0, END).unwrap();
        assert_eq!(off.armed(), ([0; 4], 0));
        // It is for an instruction now, whose address may be any.
        assert_eq!(off.with(1, 0x1009, END).unwrap().get(1), 0x1009);
    }

    #[test]
    fn what_cannot_be_watched_is_refused() {
        let none = DebugRegisters::NONE;
        for (number, value, errno) in [
            (0, END, Errno::EINVAL),
            (3, u64::MAX, Errno::EINVAL),
            (4, 0, Errno::EIO),
            (5, 0, Errno::EIO),
            (8, 0, Errno::EIO),
            // A port, and an instruction of eight bytes.
            (7, 0x0002_0001, Errno::EINVAL),
            (7, 0x0008_0001, Errno::EINVAL),
        ] {
            assert_eq!(none.with(number, value, END), Err(errno), "{number} {value:#x}");
        }
        let odd = none.with(0, 0x1001, END).unwrap();
        assert_eq!(odd.with(7, 0x0005_0001, END), Err(Errno::EINVAL));
        let last = none.with(0, END - 1, END).unwrap();
        assert!(last.with(7, 0x0001_0001, END).is_ok());
        // A kind that nobody has switched on is no matter.
        assert!(none.with(7, 0x0002_0000, END).is_ok());
    }

    #[test]
    fn what_has_happened_is_read_and_set() {
        let mut registers = DebugRegisters::NONE.with(0, 0x1000, END).unwrap();
        assert_eq!(registers.get(6), STATUS_SET);
        registers = registers.with(7, 1, END).unwrap();
        registers.happened(1);
        assert_eq!(registers.get(6), STATUS_SET | 1);
        assert!(registers.is_before_instruction());
        let data = registers.with(7, 0x0003_0001, END).unwrap();
        assert!(!data.is_before_instruction());
        assert_eq!(data.with(6, STATUS_SET, END).unwrap().get(6), STATUS_SET);
    }
}
