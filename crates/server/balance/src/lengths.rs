//! How long programs ran.

/// A program is short that used less processor time than so many calls of the kernel on average. To begin elsewhere costs some 600,000 instructions,
/// and a call that does nothing some 250: this is about eight times as much. So it does not matter how fast the machine is, or whether it is emulated.
const SHORT_CALLS: u64 = 20_000;
/// Programs that are remembered.
const PLACES: usize = 256;
/// The last run counts for one in so many.
const WEIGHT: u64 = 4;

/// The processor time of some programs, by the number of their file. A program whose place another one takes is forgotten: whoever is not known
/// may go elsewhere.
pub struct Lengths {
    /// The number, and the average in nanoseconds.
    known: [Option<(u64, u64)>; PLACES],
    /// Who uses less than this on average is short, in nanoseconds.
    short: u64,
}

impl Lengths {
    /// None is known, where a call of the kernel takes so many nanoseconds.
    pub fn new(call_ns: u64) -> Lengths {
        Lengths { known: [None; PLACES], short: call_ns.saturating_mul(SHORT_CALLS) }
    }

    /// A program has ended that used so many nanoseconds.
    pub fn note(&mut self, program: u64, ns: u64) {
        let place = &mut self.known[place(program)];
        let average = match *place {
            Some((known, average)) if known == program => average - average / WEIGHT + ns / WEIGHT,
            _ => ns,
        };
        *place = Some((program, average));
    }

    /// Is this one known to be short?
    pub fn is_short(&self, program: u64) -> bool {
        let known = self.known[place(program)].filter(|(known, _)| *known == program);
        known.is_some_and(|(_, average)| average < self.short)
    }
}

/// Numbers of files that were made one after the other have different places.
fn place(program: u64) -> usize {
    (program % PLACES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT_NS: u64 = 250 * SHORT_CALLS;

    #[test]
    fn who_is_not_known_is_not_short() {
        assert!(!Lengths::new(250).is_short(0));
    }

    #[test]
    fn an_average_follows_what_happens() {
        let mut lengths = Lengths::new(250);
        lengths.note(7, SHORT_NS - 1);
        assert!(lengths.is_short(7));
        // One long run is enough if it is long enough, and is forgotten after some.
        lengths.note(7, 10 * SHORT_NS);
        assert!(!lengths.is_short(7));
        let runs = (1..100).find(|_| {
            lengths.note(7, SHORT_NS / 10);
            lengths.is_short(7)
        });
        assert_eq!(runs, Some(5));
        lengths.note(7, u64::MAX);
        assert!(!lengths.is_short(7));
    }

    #[test]
    fn another_program_of_the_same_place_is_another() {
        let mut lengths = Lengths::new(250);
        lengths.note(1, 0);
        assert!(lengths.is_short(1) && !lengths.is_short(1 + PLACES as u64));
        lengths.note(1 + PLACES as u64, 0);
        assert!(!lengths.is_short(1) && lengths.is_short(1 + PLACES as u64));
    }
}
