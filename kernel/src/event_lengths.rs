//! How many instructions each kind of event has taken at most. The kernel is never preempted, so this is
//! for how long interrupts and all other dispatchers wait: `./x test events` shows that it is bounded,
//! whatever hostile programs do.
//!
//! Only in the kernel that is built for that (`tessera_events`), as each reading of the clock costs some
//! instructions; in the usual one all of this is nothing. The clock counts instructions in a machine that
//! does (`--icount`), which has one core: who waits for others counts their instructions as well. The
//! entry code, some 60 instructions, is outside.

#[cfg(tessera_events)]
pub use counted::*;
#[cfg(not(tessera_events))]
pub use nothing::*;

/// What an event was.
#[derive(Clone, Copy)]
#[cfg_attr(not(tessera_events), allow(dead_code))]
pub enum Kind {
    /// An invocation, by its label.
    Invocation(u64),
    /// A system call of a Linux program, for its library.
    SystemCall,
    Exception,
    Timer,
    /// A request of another core.
    Request,
    /// An interrupt line.
    Line,
}

#[cfg(not(tessera_events))]
mod nothing {
    use super::Kind;

    /// An event that is not measured.
    pub struct Event;

    /// An event begins.
    #[inline(always)]
    pub fn begin(_: Kind) -> Event {
        Event
    }

    impl Event {
        /// It ends.
        #[inline(always)]
        pub fn end(self) {}
    }

    /// Writes what was found to the log.
    #[inline(always)]
    pub fn report() {}
}

#[cfg(tessera_events)]
mod counted {
    use super::Kind;
    use crate::arch::{self, log};
    use captypes::invocations::OPERATIONS;
    use captypes::Label;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// More than any label.
    const LABELS: usize = 256;
    const NO_LABEL: usize = LABELS - 1;
    const _: () = {
        let mut at = 0;
        while at < OPERATIONS.len() {
            assert!((OPERATIONS[at].number as usize) < NO_LABEL);
            at += 1;
        }
    };
    const OTHERS: [&str; 5] = ["system_call", "exception", "timer", "request", "line"];
    const KINDS: usize = LABELS + OTHERS.len();

    static COUNT: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];
    static MOST: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

    impl Kind {
        fn number(self) -> usize {
            match self {
                Kind::Invocation(word) => match Label::from_u16(word as u16) {
                    Some(label) => label as usize,
                    None => NO_LABEL,
                },
                Kind::SystemCall => LABELS,
                Kind::Exception => LABELS + 1,
                Kind::Timer => LABELS + 2,
                Kind::Request => LABELS + 3,
                Kind::Line => LABELS + 4,
            }
        }
    }

    /// An event that goes on.
    pub struct Event {
        number: usize,
        since: u64,
    }

    /// An event begins.
    #[inline]
    pub fn begin(kind: Kind) -> Event {
        Event { number: kind.number(), since: arch::tsc() }
    }

    impl Event {
        /// It ends.
        #[inline]
        pub fn end(self) {
            let taken = arch::tsc().saturating_sub(self.since);
            COUNT[self.number].fetch_add(1, Ordering::Relaxed);
            MOST[self.number].fetch_max(taken, Ordering::Relaxed);
        }
    }

    /// Writes what was found to the log: `@event NAME COUNT MOST` for each kind.
    pub fn report() {
        for (number, (count, most)) in COUNT.iter().zip(&MOST).enumerate() {
            let (count, most) = (count.load(Ordering::Relaxed), most.load(Ordering::Relaxed));
            if count == 0 {
                continue;
            }
            match (number.checked_sub(LABELS), Label::from_u16(number as u16)) {
                (Some(other), _) => log!("@event {} {count} {most}", OTHERS[other]),
                (None, Some(label)) => log!("@event {label:?} {count} {most}"),
                (None, None) => log!("@event no_label {count} {most}"),
            }
        }
    }
}
