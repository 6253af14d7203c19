//! How many pages come in from a disk beside the one that is wanted: as many as were of use lately.
//!
//! For each object (the last few of which pages came in) there is a number of pages that come in together. Runs of pages that have come are
//! remembered, and looked at some misses later: if at least half of what nobody had asked for was used, the number is doubled; if less than
//! a quarter was, it is halved. A run behind the one that came last doubles it at once, since whoever goes on page by page has used
//! all of that. Where pages come alone, nothing can be seen of others: then a few come in beside one from time to time.
#![no_std]
#![forbid(unsafe_code)]

/// Objects that are remembered.
pub const OBJECTS: usize = 8;
/// Runs that are looked at so many misses after they came.
pub const LATER: usize = 4;
/// Pages that come in together at first.
pub const FIRST: u32 = 4;
/// Where pages come alone, at each so manieth miss a few come.
pub const PROBE: u32 = 16;

/// Pages of an object that came in together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    pub page: u64,
    pub count: u32,
}

#[derive(Clone, Copy)]
struct Object {
    record: u32,
    ahead: u32,
    /// The last runs, the oldest at `at`.
    runs: [Run; LATER],
    at: usize,
    /// Misses since a few pages came.
    alone: u32,
    /// When it was used last.
    used: u64,
}

/// What is remembered.
pub struct ReadAhead {
    objects: [Option<Object>; OBJECTS],
    /// Where the one is that was used last.
    last: usize,
    most: u32,
    now: u64,
}

impl ReadAhead {
    /// At most so many pages come in together.
    pub fn new(most: u32) -> ReadAhead {
        ReadAhead { objects: [None; OBJECTS], last: 0, most: most.max(1), now: 0 }
    }

    fn object(&mut self, record: u32) -> &mut Object {
        self.now += 1;
        let is_it =
            |object: &Option<Object>| object.as_ref().is_some_and(|object| object.record == record);
        if !is_it(&self.objects[self.last]) {
            let used = |&n: &usize| self.objects[n].as_ref().map_or(0, |object| object.used);
            let oldest = || (0..OBJECTS).min_by_key(used);
            self.last = self.objects.iter().position(is_it).or_else(oldest).unwrap_or(0);
        }
        let place = &mut self.objects[self.last];
        if !is_it(place) {
            *place = None;
        }
        let fresh = Object {
            record,
            ahead: FIRST.min(self.most),
            runs: [Run::default(); LATER],
            at: 0,
            alone: 0,
            used: 0,
        };
        let object = place.get_or_insert(fresh);
        object.used = self.now;
        object
    }

    /// A page of an object is wanted. The run that is to be looked at before, if there is one: of its pages behind the first some may
    /// have been used.
    pub fn wanted(&mut self, record: u32) -> Option<Run> {
        let object = self.object(record);
        let run = object.runs[object.at];
        (run.count > 1).then_some(run)
    }

    /// What was seen of such a run: of the pages behind its first so many are there still, and so many of these were used.
    pub fn judge(&mut self, record: u32, there: u32, used: u32) {
        let most = self.most;
        let object = self.object(record);
        // It is looked at once.
        object.runs[object.at] = Run::default();
        if there == 0 {
            return;
        }
        if 2 * used >= there {
            object.ahead = (2 * object.ahead).min(most);
        } else if 4 * used < there {
            object.ahead = (object.ahead / 2).max(1);
        }
    }

    /// How many pages are to come in, the one that is wanted among them.
    pub fn pages(&mut self, record: u32, page: u64) -> u32 {
        let most = self.most;
        let object = self.object(record);
        let last = object.runs[(object.at + LATER - 1) % LATER];
        if last.count > 0 && last.page + u64::from(last.count) == page {
            object.ahead = (2 * object.ahead).min(most);
        }
        if object.ahead > 1 {
            return object.ahead;
        }
        object.alone += 1;
        if object.alone >= PROBE {
            object.alone = 0;
            return FIRST.min(most);
        }
        1
    }

    /// So many have come.
    pub fn came(&mut self, record: u32, page: u64, count: u32) {
        let object = self.object(record);
        object.runs[object.at] = Run { page, count };
        object.at = (object.at + 1) % LATER;
    }
}
