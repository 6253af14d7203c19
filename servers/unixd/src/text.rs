//! Text that is put together piece by piece.

/// `write!` to a `String`, which takes whatever it is given: there is no error to tell.
macro_rules! put {
    ($text:expr, $($what:tt)*) => {{
        let _ = write!($text, $($what)*);
    }};
}

/// The same with the end of a line.
macro_rules! put_line {
    ($text:expr, $($what:tt)*) => {{
        let _ = writeln!($text, $($what)*);
    }};
}
