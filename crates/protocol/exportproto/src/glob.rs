//! Patterns of paths: those of the shell, name by name.
//!
//! `*` stands for any bytes, `?` for one, `[a-z]` and `[!a-z]` for one of these or one of all others; `\` takes its
//! meaning from what follows. None of them stands for a slash, or for a dot at the start of a name.
//! (The known libraries need a standard library, which `unixd` does not have; and both ends must agree.)

/// Does a pattern stand for more than one path?
pub fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[\\".contains(byte))
}

/// Is a path one of those that a pattern stands for? Both are absolute.
pub fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    let names = |path| <[u8]>::split(path, |byte: &u8| *byte == b'/');
    names(pattern).count() == names(path).count()
        && names(pattern).zip(names(path)).all(|(pattern, name)| matches(pattern, name))
}

/// Is a name one of those that a pattern stands for?
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') && !pattern.starts_with(b"\\.")
    {
        return false;
    }
    let (mut pattern, mut name) = (pattern, name);
    // Where to go on if nothing else helps: behind the last star, which stands for one byte more then.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(behind) = pattern.strip_prefix(b"*") {
            pattern = behind;
            again = Some((pattern, name));
            continue;
        }
        match name.split_first() {
            None if pattern.is_empty() => return true,
            Some((&byte, rest)) => {
                if let Some(behind) = one(pattern, byte) {
                    (pattern, name) = (behind, rest);
                    continue;
                }
            }
            None => {}
        }
        match again {
            Some((behind, [_, rest @ ..])) => {
                (pattern, name) = (behind, rest);
                again = Some((behind, rest));
            }
            _ => return false,
        }
    }
}

/// The pattern behind what stands for one byte, if it stands for this one.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', behind @ ..] => Some(behind),
        [b'\\', quoted, behind @ ..] => (*quoted == byte).then_some(behind),
        [b'[', set @ ..] => match class(set, byte) {
            Some((true, behind)) => Some(behind),
            Some((false, _)) => None,
            // Without an end it stands for itself.
            None => (byte == b'[').then_some(set),
        },
        [own, behind @ ..] => (*own == byte).then_some(behind),
        [] => None,
    }
}

/// Is a byte in the class whose inside begins there? With what comes behind its end; `None` if it has none.
fn class(set: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match set {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let (mut found, mut first) = (false, true);
    loop {
        let (low, behind) = match rest {
            [b']', behind @ ..] if !first => return Some((found != negated, behind)),
            [b'\\', quoted, behind @ ..] => (*quoted, behind),
            [own, behind @ ..] => (*own, behind),
            [] => return None,
        };
        let (high, behind) = match behind {
            [b'-', high, behind @ ..] if *high != b']' => (*high, behind),
            _ => (low, behind),
        };
        found |= (low..=high).contains(&byte);
        (rest, first) = (behind, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_in_the_shell() {
        let cases = [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "any thing", true),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("\\.h*", ".hidden", true),
            ("?hidden", ".hidden", false),
            ("[.]hidden", ".hidden", false),
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXcYb", false),
            ("**", "ab", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[\\]]", "]", true),
            ("[ab", "[ab", true),
            ("[ab", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
        ];
        for (pattern, name, expected) in cases {
            let got = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(got, expected, "{pattern} and {name}");
        }
    }

    #[test]
    fn a_star_stands_for_no_slash() {
        assert!(matches_path(b"/root/*/b*", b"/root/a/bc"));
        assert!(!matches_path(b"/root/*", b"/root/a/b"));
        assert!(!matches_path(b"/root/*", b"/etc/a"));
        assert!(matches_path(b"/root/a b", b"/root/a b"));
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let name = [b'a'; 255];
        let pattern = [b'*', b'a'].repeat(100);
        let pattern = [&pattern[..], b"b"].concat();
        assert!(!matches(&pattern, &name));
    }

    extern crate std;
    use std::vec::Vec;

    /// What the bytes stand for by the definition, tried one after the other.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            ([b'?', rest @ ..], [_, more @ ..]) => naive(rest, more),
            ([p, rest @ ..], [n, more @ ..]) => p == n && naive(rest, more),
            _ => false,
        }
    }

    #[test]
    fn all_short_patterns_are_as_in_the_definition() {
        let words = |letters: &[u8], most: u32| {
            let base = letters.len();
            (0..=most)
                .flat_map(move |length| {
                    (0..base.pow(length))
                        .map(move |mut number| {
                            (0..length)
                                .map(|_| {
                                    let letter = letters[number % base];
                                    number /= base;
                                    letter
                                })
                                .collect::<Vec<u8>>()
                        })
                        .collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        let names = words(b"ab", 5);
        for pattern in words(b"ab*?", 5) {
            for name in &names {
                assert_eq!(matches(&pattern, name), naive(&pattern, name), "{pattern:?} {name:?}");
            }
        }
    }
}
