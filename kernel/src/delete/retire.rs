//! The end of a dispatcher.

use crate::cap::delete::Progress;
use crate::driver::Local;
use crate::object::{DcbRef, Listener};

impl Local {
    /// A dispatcher that is to be taken apart leaves everything that it is in.
    pub(crate) fn retire(&mut self, dcb: DcbRef) -> Progress {
        self.abandon_callers(dcb)?;
        self.sched.stop(dcb);
        self.sched.forget(dcb);
        if self.remote.client == Some(dcb) {
            self.remote.client = None;
        }
        if self.first == Some(dcb) {
            self.first = None;
        }
        if self.reclaim.notify == Some(dcb) {
            self.reclaim.notify = None;
        }
        self.doorbell.forget(dcb);
        self.irqs.silence(Listener::Dispatcher(dcb));
        Ok(())
    }
}
