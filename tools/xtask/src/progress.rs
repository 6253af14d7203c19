//! What a step that takes long shows meanwhile: on a terminal what it is at, with the time; in a log a line now and
//! then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{stderr, IsTerminal};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two lines in a log.
const LINE: Duration = Duration::from_secs(30);
/// What takes no longer shows nothing.
const SHORT: Duration = Duration::from_millis(400);

/// A step that is being taken. It is over when this is dropped.
pub struct Progress {
    bar: ProgressBar,
    state: Arc<Mutex<State>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

struct State {
    /// What is done, for people.
    what: String,
    /// What it is at.
    at: String,
    done: u64,
    /// How much there is to do, if that is known.
    all: u64,
}

impl State {
    fn line(&self, began: Instant) -> String {
        let State { what, at, done, all } = self;
        let count = match (*done, *all) {
            (0, 0) => String::new(),
            (done, 0) => format!(", {done}"),
            (done, all) => format!(", {done} of {all}"),
        };
        let at = if at.is_empty() { String::new() } else { format!(": {at}") };
        format!("{what}, {}{count}{at}", time(began.elapsed()))
    }
}

/// A time for people.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=99 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

impl Progress {
    /// Begins a step that has `all` parts; 0 if nobody knows.
    pub fn new(what: &str, all: u64) -> Progress {
        let state = State { what: what.to_owned(), at: String::new(), done: 0, all };
        let state = Arc::new(Mutex::new(state));
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let (stop, stopped) = channel();
        let (shown, said) = (bar.clone(), state.clone());
        let ticker = thread::spawn(move || {
            let began = Instant::now();
            let is_terminal = stderr().is_terminal();
            let mut wait = if is_terminal { SHORT } else { LINE };
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let Ok(line) = said.lock().map(|state| state.line(began)) else { return };
                if is_terminal {
                    shown.set_message(line);
                    shown.tick();
                    wait = Duration::from_millis(100);
                } else {
                    eprintln!("x: {line}");
                }
            }
        });
        Progress { bar, state, ticker: Some((stop, ticker)) }
    }

    /// Says what it is at.
    pub fn at(&self, at: &str) {
        if let Ok(mut state) = self.state.lock() {
            at.clone_into(&mut state.at);
        }
    }

    /// A part is done.
    pub fn advance(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.done += 1;
        }
    }

    /// Prints something without disturbing what is shown; one at a time.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, ticker)) = self.ticker.take() {
            drop(stop);
            // It has nothing left to do.
            let _ = ticker.join();
        }
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_and_how_long() {
        let state =
            |at: &str, done, all| State { what: "testing".into(), at: at.into(), done, all };
        let now = Instant::now();
        assert_eq!(state("", 0, 0).line(now), "testing, 0 s");
        assert_eq!(state("a", 3, 0).line(now), "testing, 0 s, 3: a");
        assert_eq!(state("a", 3, 9).line(now), "testing, 0 s, 3 of 9: a");
        assert_eq!(time(Duration::from_secs(99)), "99 s");
        assert_eq!(time(Duration::from_secs(125)), "2 min 05 s");
    }
}
