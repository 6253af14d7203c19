//! Who goes on from where it stopped: threads that touch page after page, each in memory of its own.
//!
//! One fault makes several pages usable for whoever does so, and one for everybody else. As threads take turns in the library, as
//! many streams are remembered as there are cores on most machines: with one only, the second thread made the first one
//! begin anew at each fault.

/// How many are remembered.
const STREAMS: usize = 8;

#[derive(Clone, Copy)]
struct Stream {
    /// Where it goes on; `u64::MAX`: there is none.
    next: u64,
    /// How many pages it was given last.
    pages: u32,
}

/// Streams of pages of one kind, each with how many pages it was given last.
#[derive(Clone, Copy)]
pub struct Streams {
    all: [Stream; STREAMS],
    /// The one that went on, or began, last.
    last: usize,
    /// The place of the one that began last.
    victim: usize,
}

impl Streams {
    /// None.
    pub const fn new() -> Streams {
        Streams { all: [Stream { next: u64::MAX, pages: 0 }; STREAMS], last: 0, victim: 0 }
    }

    /// Is this where the last one goes on?
    #[inline]
    pub fn expects(&self, page: u64) -> bool {
        self.all[self.last].next == page
    }

    /// How many pages whoever wants `page` should be given: twice as many as before, up to `most`, or one if it does not go on
    /// from anywhere. [`went_to`](Self::went_to) says where it ended.
    #[inline(always)]
    pub fn begin(&mut self, page: u64, most: u32) -> u32 {
        if self.all[self.last].next != page {
            self.change(page);
        }
        let stream = &mut self.all[self.last];
        stream.pages = most.min(2 * stream.pages).max(1);
        stream.pages
    }

    /// Another one than the last goes on, or a new one begins in the place of the one that began first.
    #[inline(never)]
    fn change(&mut self, page: u64) {
        match self.all.iter().position(|stream| stream.next == page) {
            Some(at) => self.last = at,
            None => {
                self.victim = (self.victim + 1) % STREAMS;
                self.last = self.victim;
                self.all[self.last].pages = 0;
            }
        }
    }

    /// Whoever began last was given all pages up to this one.
    #[inline(always)]
    pub fn went_to(&mut self, next: u64) {
        self.all[self.last].next = next;
    }

    /// Whoever goes on from anywhere begins with one page.
    pub fn forget(&mut self) {
        *self = Streams::new();
    }
}

impl Default for Streams {
    fn default() -> Streams {
        Streams::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Touches a page; answers how many it is given.
    fn touch(streams: &mut Streams, page: u64) -> u32 {
        let given = streams.begin(page, 16);
        streams.went_to(page + u64::from(given));
        given
    }

    #[test]
    fn who_goes_on_is_given_more_and_more() {
        let mut streams = Streams::new();
        let mut page = 100;
        for given in [1, 2, 4, 8, 16, 16] {
            assert_eq!(touch(&mut streams, page), given);
            page += u64::from(given);
        }
        assert!(streams.expects(page));
        assert_eq!(touch(&mut streams, page + 1), 1);
    }

    #[test]
    fn others_in_between_do_not_matter() {
        let mut streams = Streams::new();
        let mut pages: [u64; STREAMS] = core::array::from_fn(|n| n as u64 * 1000);
        for given in [1, 2, 4, 8, 16, 16] {
            for page in &mut pages {
                assert_eq!(touch(&mut streams, *page), given);
                *page += u64::from(given);
            }
        }
    }

    #[test]
    fn who_touches_at_random_keeps_nobody_out_for_good() {
        let mut streams = Streams::new();
        for page in 0..100 {
            assert_eq!(touch(&mut streams, page * 10), 1);
        }
        assert_eq!(touch(&mut streams, 5000), 1);
        assert_eq!(touch(&mut streams, 5001), 2);
        streams.forget();
        assert!(!streams.expects(5003));
        assert_eq!(touch(&mut streams, 5003), 1);
    }
}
