//! What `guest/tests/linux/pageout.c` is to say in the running system: the misses of each policy on the strings of uses that it has, page by page.

use selfpaging::{replay, Clock, Fifo, Optimal, Policy, Sampled};
use std::fmt::Write;

const RECORDED: &str = include_str!("../../../../guest/tests/linux/pageout.out");

/// Makes a policy that knows nothing yet.
type Make<'a> = &'a dyn Fn() -> Box<dyn Policy>;

struct Text {
    name: &'static str,
    places: &'static [u32],
    uses: Vec<u64>,
}

/// The generator of the guest.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % end
    }
}

fn hot() -> Vec<u64> {
    let mut random = Random(1);
    let one = |_| match random.below(3) {
        0 => random.below(130),
        _ => 60 + random.below(10),
    };
    (0..500).map(one).collect()
}

fn walk() -> Vec<u64> {
    let (mut random, mut at) = (Random(2), 0);
    let one = |_| {
        at = match random.below(25) {
            0 => random.below(200),
            _ => (at + 199 + random.below(4)) % 200,
        };
        at
    };
    (0..700).map(one).collect()
}

fn texts() -> [Text; 6] {
    let belady = vec![1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    let textbook = vec![7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
    let round = (0..5 * 24).map(|use_| use_ % 24).collect();
    [
        Text { name: "belady", places: &[3, 4], uses: belady },
        Text { name: "textbook", places: &[3], uses: textbook },
        Text { name: "loop", places: &[16], uses: round },
        Text { name: "hot", places: &[12, 24], uses: hot() },
        Text { name: "walk", places: &[20, 70], uses: walk() },
        Text { name: "large", places: &[20, 70], uses: walk() },
    ]
}

#[test]
fn the_guest_says_what_policies_do() {
    let mut expected = String::new();
    for Text { name, places, uses } in texts() {
        let optimal = Optimal::new(uses.iter().copied()).unwrap();
        let policies: [(&str, Make<'_>); 4] = [
            ("fifo", &|| Box::new(Fifo::new())),
            ("second-chance", &|| Box::new(Clock::new())),
            ("lru", &|| Box::new(Sampled::new())),
            ("optimal", &|| Box::new(optimal.clone())),
        ];
        for (policy, make) in policies {
            for &places in places {
                write!(expected, "{name} {policy} {places}:").unwrap();
                for (page, gone) in replay(make(), places, uses.iter().copied()).unwrap() {
                    write!(expected, " {page}").unwrap();
                    if let Some(gone) = gone {
                        write!(expected, "<{gone}").unwrap();
                    }
                }
                expected.push('\n');
            }
        }
    }
    expected.push_str("as it was\n");
    if std::env::var_os("WRITE_GUEST_EXPECTATION").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../guest/tests/linux/pageout.out");
        std::fs::write(file, &expected).unwrap();
    } else {
        assert_eq!(RECORDED, expected, "pageout.out is made by WRITE_GUEST_EXPECTATION=1");
    }
}
