//! In which order what a client was given is taken back.

use crate::badges::{Badge, Badges};

/// Something that a client was given, or has given to the server for its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Part {
    /// What runs it.
    Dispatcher = 0,
    /// The root of all that it has.
    CSpace,
    /// The memory that it shares with the server.
    Session,
    /// Its endpoint, with the badge.
    Endpoint,
}

impl Part {
    /// All of them in the order in which they go: first it is stopped, so that it hands on nothing
    /// more; its endpoint comes last, since those that wait at it are in what goes before.
    const ORDER: [Part; 4] = [Part::Dispatcher, Part::CSpace, Part::Session, Part::Endpoint];
}

/// A set of [`Part`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Parts(u8);

impl Parts {
    /// All: of a process.
    pub const ALL: Parts = Parts(0xf);
    /// All but a CSpace: of a thread.
    pub const THREAD: Parts = Parts(0xf & !(1 << Part::CSpace as u8));
    /// Session and endpoint: of a process whose parent acts as it.
    pub const VOICE: Parts = Parts(1 << Part::Session as u8 | 1 << Part::Endpoint as u8);
    /// A domain alone, of a process that goes on as another one.
    pub const DOMAIN: Parts = Parts(1 << Part::Dispatcher as u8 | 1 << Part::CSpace as u8);

    /// The first step of the first part in the set from step `at` on, or the end of all of them.
    const fn first_from(self, at: u8) -> u8 {
        let left = self.0 >> (at / 2);
        if left == 0 {
            return END;
        }
        at + 2 * left.trailing_zeros() as u8
    }
}

/// Behind the last step.
const END: u8 = 2 * Part::ORDER.len() as u8;

/// One bounded piece of the work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// All copies that others have go, and what was made of it.
    Revoke(Part),
    /// The server's own capability goes, or is kept for somebody else.
    Release(Part),
}

/// How far something has been taken back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Teardown {
    badge: Option<Badge>,
    parts: Parts,
    /// The next step, two for each part: of a part that is in the set, or [`END`].
    at: u8,
}

impl Teardown {
    pub(crate) const fn new(badge: Option<Badge>, parts: Parts) -> Teardown {
        Teardown { badge, parts, at: parts.first_from(0) }
    }

    /// Of a domain that has no badge of its own: its process goes on.
    pub const fn of_domain() -> Teardown {
        Teardown::new(None, Parts::DOMAIN)
    }

    /// What is to be done next; `None`: everything has been done.
    #[inline]
    pub fn step(&self) -> Option<Step> {
        let part = *Part::ORDER.get(self.at as usize / 2)?;
        Some(if self.at % 2 == 1 { Step::Release(part) } else { Step::Revoke(part) })
    }

    /// The step has been done, with `more` as far as it could be done at once.
    #[inline]
    pub fn done(&mut self, more: bool) {
        if more || self.at >= END {
            return;
        }
        self.at += 1;
        if self.at.is_multiple_of(2) {
            self.at = self.parts.first_from(self.at);
        }
    }

    /// The end, if there is nothing left to do: the badge's place may be used again.
    #[inline]
    pub fn finish<W: Copy>(&self, badges: &mut Badges<W>) -> bool {
        let is_over = self.at >= END;
        if let (true, Some(badge)) = (is_over, self.badge) {
            badges.forget(badge);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn steps(parts: Parts) -> Vec<Step> {
        let mut teardown = Teardown::new(None, parts);
        let mut steps = Vec::new();
        while let Some(step) = teardown.step() {
            // What is not at its end comes again.
            teardown.done(true);
            assert_eq!(teardown.step(), Some(step));
            teardown.done(false);
            steps.push(step);
        }
        steps
    }

    #[test]
    fn every_part_is_revoked_and_then_released() {
        use Part::*;
        let pairs = |parts: &[Part]| -> Vec<Step> {
            parts.iter().flat_map(|&part| [Step::Revoke(part), Step::Release(part)]).collect()
        };
        assert_eq!(steps(Parts::ALL), pairs(&[Dispatcher, CSpace, Session, Endpoint]));
        assert_eq!(steps(Parts::THREAD), pairs(&[Dispatcher, Session, Endpoint]));
        assert_eq!(steps(Parts::VOICE), pairs(&[Session, Endpoint]));
        assert_eq!(steps(Parts::DOMAIN), pairs(&[Dispatcher, CSpace]));
    }
}
