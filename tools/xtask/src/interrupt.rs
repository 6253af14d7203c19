//! What is said when somebody ends long work in the middle.

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::thread;

/// As long as this lives, an interrupt is told what has been done before it ends everything.
pub struct OnInterrupt(Handle);

impl OnInterrupt {
    /// At Ctrl-C or SIGTERM, has `report` say what has been done, and ends with status 128+N. Emulators and other
    /// programs that were started end likewise.
    pub fn new(report: impl FnOnce() + Send + 'static) -> Result<OnInterrupt> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                report();
                std::process::exit(128 + signal);
            }
        });
        Ok(OnInterrupt(handle))
    }
}

impl Drop for OnInterrupt {
    fn drop(&mut self) {
        self.0.close();
    }
}
