//! Words of the kernel command line.

/// The value of `name=value`, or "" for a bare `name`; the last one counts.
pub fn option<'a>(cmdline: &'a str, name: &str) -> Option<&'a str> {
    let value = |word: &'a str| {
        let rest = word.strip_prefix(name)?;
        if rest.is_empty() {
            Some("")
        } else {
            rest.strip_prefix('=')
        }
    };
    cmdline.split_ascii_whitespace().filter_map(value).next_back()
}

/// Is `name`, `name=1` or `name=yes` there?
pub fn flag(cmdline: &str, name: &str) -> bool {
    matches!(option(cmdline, name), Some("" | "1" | "yes"))
}

/// The number in `name=number`, decimal or 0x….
pub fn number(cmdline: &str, name: &str) -> Option<u64> {
    let text = option(cmdline, name)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_only() {
        let line = "verbose init=boot/x seed=0x10 n=7 init=boot/y check=1 quiet=0";
        assert_eq!(option(line, "init"), Some("boot/y"));
        assert_eq!(option(line, "ini"), None);
        assert!(flag(line, "verbose") && flag(line, "check"));
        assert!(!flag(line, "quiet") && !flag(line, "verb"));
        assert_eq!((number(line, "seed"), number(line, "n")), (Some(16), Some(7)));
        assert_eq!(number(line, "init"), None);
    }
}
