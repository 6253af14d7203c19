//! Points and spans of time: `timespec`, `timeval`, `itimerval`, and the time-stamp counter.

use crate::bytes::{get_u64, Bytes};
use crate::general as raw;
use crate::Errno;

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
/// Bytes of a `timespec` and of a `timeval`.
pub const TIME_BYTES: usize = size_of::<raw::timespec>();

/// Nanoseconds of a `timespec`; too long a span is cut to the longest there is.
pub fn from_timespec(bytes: &[u8; TIME_BYTES]) -> Result<u64, Errno> {
    span(get_u64(bytes, 0), get_u64(bytes, 8), SECOND)
}

/// Nanoseconds of a `timeval`.
pub fn from_timeval(bytes: &[u8; TIME_BYTES]) -> Result<u64, Errno> {
    span(get_u64(bytes, 0), get_u64(bytes, 8), 1_000_000)
}

fn span(whole: u64, part: u64, per_second: u64) -> Result<u64, Errno> {
    if (whole as i64) < 0 || part >= per_second {
        return Err(Errno::EINVAL);
    }
    let ns = whole as u128 * SECOND as u128 + (part * (SECOND / per_second)) as u128;
    Ok(ns.min(i64::MAX as u128) as u64)
}

/// A `timespec`.
pub fn to_timespec(ns: u64) -> [u8; TIME_BYTES] {
    Bytes::default().u64(ns / SECOND).u64(ns % SECOND).done()
}

/// A `timeval`.
pub fn to_timeval(ns: u64) -> [u8; TIME_BYTES] {
    Bytes::default().u64(ns / SECOND).u64(ns % SECOND / 1000).done()
}

/// What `utimensat` does to one of the two times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// Leaves it.
    Omit,
    /// Sets it to the present.
    Now,
    /// Sets it, in nanoseconds since 1970.
    At(i64),
}

/// One element of the argument of `utimensat`.
pub fn set_time(bytes: &[u8; TIME_BYTES]) -> Result<SetTime, Errno> {
    const NOW: u64 = raw::UTIME_NOW as u64;
    const OMIT: u64 = raw::UTIME_OMIT as u64;
    match get_u64(bytes, 8) {
        NOW => Ok(SetTime::Now),
        OMIT => Ok(SetTime::Omit),
        part if part < SECOND => {
            let whole = get_u64(bytes, 0) as i64;
            Ok(SetTime::At(whole.saturating_mul(SECOND as i64).saturating_add(part as i64)))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Nanoseconds of `ticks` of a counter with `hz` ticks a second.
pub const fn ticks_to_ns(ticks: u64, hz: u64) -> u64 {
    let hz = if hz == 0 { SECOND } else { hz };
    (ticks as u128 * SECOND as u128 / hz as u128) as u64
}

/// A multiplier for [`scale`]: nanoseconds in a tick, in units of 2^-32.
pub const fn multiplier(hz: u64) -> u64 {
    let hz = if hz == 0 { SECOND } else { hz };
    ((SECOND as u128) << 32).div_ceil(hz as u128) as u64
}

/// Nanoseconds of `ticks`, by a multiplication instead of a division.
pub const fn scale(ticks: u64, multiplier: u64) -> u64 {
    ((ticks as u128 * multiplier as u128) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_checked() {
        assert_eq!(from_timespec(&to_timespec(1_500_000_000)), Ok(1_500_000_000));
        assert_eq!(from_timeval(&to_timeval(1_500_000_000)), Ok(1_500_000_000));
        let bad = Bytes::default().u64(0).u64(SECOND).done();
        assert_eq!(from_timespec(&bad), Err(Errno::EINVAL));
        let negative = Bytes::default().u64(u64::MAX).u64(0).done();
        assert_eq!(from_timespec(&negative), Err(Errno::EINVAL));
        let long = Bytes::default().u64(i64::MAX as u64).u64(0).done();
        assert_eq!(from_timespec(&long), Ok(i64::MAX as u64));
    }

    #[test]
    fn special_times() {
        assert_eq!(set_time(&Bytes::default().u64(9).u64(0x3fff_ffff).done()), Ok(SetTime::Now));
        assert_eq!(set_time(&Bytes::default().u64(9).u64(0x3fff_fffe).done()), Ok(SetTime::Omit));
        assert_eq!(
            set_time(&Bytes::default().u64(1).u64(5).done()),
            Ok(SetTime::At(1_000_000_005))
        );
    }

    #[test]
    fn scaling_is_close() {
        let hz = 2_894_561_000;
        let ticks = hz * 86_400;
        let exact = ticks_to_ns(ticks, hz);
        assert!(scale(ticks, multiplier(hz)).abs_diff(exact) < exact / 1_000_000);
    }
}
