//! How far segments of a connection pass each other on their way (RFC 8985, RACK): for how long what is missing is waited for although something behind it has arrived, and whether
//! what was repeated had only been passed.

use crate::segment::before;

/// Round trips that what is missing is waited for, in quarters, at first and at most: behind that the smoothed round trip is the bound.
const FIRST: i64 = 1;
const MOST: i64 = 16;
/// What was really lost so often has the wait begin anew.
const PERSISTS: u32 = 16;

/// What was so before something was found missing.
#[derive(Clone, Copy)]
struct Before {
    window: usize,
    threshold: usize,
    /// What was on its way.
    from: u32,
    to: u32,
    /// Microseconds at which it was found.
    at: i64,
    /// Something has been acknowledged since.
    is_answered: bool,
    /// Segments that were repeated and have not been told to have come twice.
    repeated: u32,
}

#[derive(Default)]
pub struct Passing {
    /// Some have been seen to pass others.
    is_seen: bool,
    /// Microseconds of the shortest round trip ever seen. It is never forgotten: one that is too short makes what follows from it more careful only.
    shortest: Option<i64>,
    /// Quarters of it that are waited for.
    quarters: i64,
    losses: u32,
    before: Option<Before>,
}

impl Passing {
    /// A round trip took so long.
    pub fn took(&mut self, took: i64) {
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
    }

    /// Something was acknowledged that was missing, and had not been repeated.
    pub fn seen(&mut self) {
        self.is_seen = true;
        self.quarters = self.quarters.max(FIRST);
    }

    /// Microseconds for which what is missing is waited for, where a round trip usually takes so many. `None`: it is not waited for.
    pub fn patience(&self, usual: i64) -> Option<i64> {
        let shortest = self.shortest.filter(|_| self.is_seen)?;
        Some((shortest * self.quarters / 4).min(usual))
    }

    /// Something was found missing among what is on its way (from a number to one): what was so before.
    pub fn lost(&mut self, (from, to): (u32, u32), (window, threshold): (usize, usize), at: i64) {
        let before = Before { window, threshold, from, to, at, is_answered: false, repeated: 0 };
        self.before = Some(before);
    }

    /// A segment was repeated.
    pub fn repeated(&mut self) {
        if let Some(before) = &mut self.before {
            before.repeated += 1;
        }
    }

    /// Something new was acknowledged. Had it only been passed what was repeated? Then that is what was so before.
    ///
    /// What is acknowledged in less than half of the shortest round trip was not acknowledged because it was repeated.
    pub fn answered(&mut self, now: i64) -> Option<(usize, usize)> {
        let before = self.before.as_mut().filter(|before| !before.is_answered)?;
        before.is_answered = true;
        let is_sooner = self.shortest.is_some_and(|shortest| now - before.at < shortest / 2);
        if before.repeated != 1 || !is_sooner {
            return None;
        }
        self.undo()
    }

    /// The peer says that these have come twice (RFC 2883). If that is so of all that was repeated, the answer is what was so before.
    pub fn twice(&mut self, (from, to): (u32, u32)) -> Option<(usize, usize)> {
        let is_of = |it: &&mut Before| !before(from, it.from) && !before(it.to, to);
        let before = self.before.as_mut().filter(is_of)?;
        before.repeated = before.repeated.checked_sub(1)?;
        match before.repeated {
            0 => self.undo(),
            _ => None,
        }
    }

    fn undo(&mut self) -> Option<(usize, usize)> {
        let before = self.before.take()?;
        self.seen();
        self.quarters = (self.quarters + 1).min(MOST);
        self.losses = 0;
        Some((before.window, before.threshold))
    }

    /// All that was on its way has been acknowledged, and it had been right to repeat something.
    pub fn recovered(&mut self) {
        self.losses += 1;
        if self.losses >= PERSISTS {
            (self.losses, self.quarters) = (0, FIRST);
        }
    }
}
