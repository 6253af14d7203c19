//! Who is ended when there is no memory: `oom_score_adj` and its relatives, and how much everybody has.

use crate::procs::Proc;
use crate::procsystem::usage;
use crate::proctext::Texts;
use crate::swap;
use crate::system::System;
use abi::layout::PAGE;
use unixproto::Errno;

/// The `oom_score_adj` of who must not be ended, and of who is to be first.
pub const NEVER: i16 = -1000;
const FIRST: i16 = 1000;
/// The same of the older `oom_adj`, whose largest value is less.
const COARSE_NEVER: i16 = -17;
const COARSE_FIRST: i16 = 15;

/// An `oom_score_adj` as an `oom_adj`.
pub fn coarse(adjust: i16) -> i32 {
    match adjust {
        FIRST => COARSE_FIRST.into(),
        _ => i32::from(adjust) * i32::from(-COARSE_NEVER) / i32::from(FIRST),
    }
}

/// Takes an `oom_score_adj`, or an `oom_adj`, from a text. Who `may` do so may make it less than it was ever made by such a one.
pub fn set(proc: &mut Proc, is_coarse: bool, text: &[u8], may: bool) -> Result<(), Errno> {
    let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
    let value: i32 = text.parse().map_err(|_| Errno::EINVAL)?;
    let value = i16::try_from(value).map_err(|_| Errno::EINVAL)?;
    let (adjust, least) = match is_coarse {
        true if !(COARSE_NEVER..=COARSE_FIRST).contains(&value) => return Err(Errno::EINVAL),
        true if value == COARSE_FIRST => (FIRST, proc.oom_adjust),
        true => {
            let scaled = i32::from(value) * i32::from(FIRST) / i32::from(-COARSE_NEVER);
            (scaled as i16, proc.oom_adjust)
        }
        false if !(NEVER..=FIRST).contains(&value) => return Err(Errno::EINVAL),
        false => (value, proc.oom_least),
    };
    if adjust < least && !may {
        return Err(Errno::EACCES);
    }
    proc.oom_adjust = adjust;
    if may && !is_coarse {
        proc.oom_least = adjust;
    }
    Ok(())
}

/// Pages that there are in memory and in the store.
pub fn total(system: &System) -> u64 {
    (system.ram() + swap::facts().total) / PAGE
}

/// How much a process weighs, in pages, `private` of them being its objects' in memory and out of it; `total`: [those that there are](total).
/// `None`: it must not be ended.
pub fn weight(proc: &Proc, private: u64, total: u64) -> Option<i64> {
    let usage = usage(proc);
    let pages = usage.resident + usage.tables + private;
    let adjust = i64::from(proc.oom_adjust) * (total as i64 / i64::from(FIRST));
    (proc.oom_adjust != NEVER).then_some(pages as i64 + adjust)
}

impl Texts<'_> {
    /// `oom_score`: 0 to 2000 in thirds, as Linux has it.
    pub fn oom_score(&self, proc: &Proc) -> i64 {
        let total = total(self.system);
        let private = self.descs.private_pages(self.tree, proc.pid);
        match weight(proc, private, total) {
            Some(weight) => (1000 + weight * 1000 / total.max(1) as i64) * 2 / 3,
            None => 0,
        }
    }
}
