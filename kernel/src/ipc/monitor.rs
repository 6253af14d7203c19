//! The monitor of the core: who is asked for what the core alone cannot do.

use crate::dispatch::Scheduler;
use crate::object::{DcbRef, EndpointRef};
use captypes::place::L2_SLOTS;

/// Who is asked.
#[derive(Clone, Copy)]
pub struct MonitorRef {
    pub endpoint: EndpointRef,
    /// Notification bits: something was left for the monitor to delete.
    pub bits: u64,
    /// Address of the L2CNode where it is left.
    pub left: u64,
}

/// Words of a set of slots of an L2CNode.
const SET: usize = L2_SLOTS as usize / 64;

/// What the kernel knows of the monitor.
pub struct Monitor {
    who: Option<MonitorRef>,
    /// Number of the last invocation that was handed on.
    ticket: u64,
    /// Whose invocation the monitor has performed; `None` once it is taken apart.
    client: Option<DcbRef>,
    /// Slots of the monitor in which something was left that it does not know of yet.
    news: [u64; SET],
}

impl Monitor {
    /// There is none.
    pub const fn new() -> Monitor {
        Monitor { who: None, ticket: 0, client: None, news: [0; SET] }
    }

    /// Names the monitor.
    pub fn set(&mut self, monitor: MonitorRef) {
        self.who = Some(monitor);
    }

    /// The monitor, if it was named.
    pub fn get(&self) -> Option<MonitorRef> {
        self.who
    }

    /// An endpoint goes.
    pub fn forget(&mut self, endpoint: EndpointRef) {
        if self.who.is_some_and(|monitor| monitor.endpoint == endpoint) {
            self.who = None;
        }
    }

    /// The number of another invocation that is handed on.
    pub fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    /// The invocation of `client` is performed from now on.
    pub fn begin(&mut self, client: DcbRef) {
        self.client = Some(client);
    }

    /// It has been performed. Is the client still there?
    pub fn end(&mut self) -> bool {
        self.client.take().is_some()
    }

    /// Is the invocation of `dcb` being performed?
    #[inline]
    pub fn is_client(&self, dcb: DcbRef) -> bool {
        self.client == Some(dcb)
    }

    /// A dispatcher goes.
    pub fn forget_client(&mut self, dcb: DcbRef) {
        if self.client == Some(dcb) {
            self.client = None;
        }
    }

    /// Notifies the monitor, if there is one.
    pub fn notify(&self, bits: u64, sched: &mut Scheduler) {
        if let Some(server) = self.who.and_then(|monitor| monitor.endpoint.server.get()) {
            sched.notify(server, bits);
        }
    }

    /// The monitor has something to do that nobody waits for: to delete what is in its slot `index`.
    pub fn tell(&mut self, index: u32, sched: &mut Scheduler) {
        if let Some(word) = self.news.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
        if let Some(monitor) = self.who {
            self.notify(monitor.bits, sched);
        }
    }

    /// The next slot with something that the monitor does not know of.
    pub fn next_news(&mut self) -> Option<u32> {
        for (word, n) in self.news.iter_mut().zip(0..) {
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(n * 64 + bit);
            }
        }
        None
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self::new()
    }
}
