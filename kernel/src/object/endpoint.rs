//! Endpoints in memory, and how dispatchers hang on them.

use super::dcb::{flag, State};
use super::{DcbList, DcbRef, Obj, Object};
use captypes::CapType;
use core::cell::Cell;

/// An endpoint.
pub type EndpointRef = Obj<Endpoint>;

/// The object behind an Endpoint capability.
#[repr(C)]
pub struct Endpoint {
    /// Those that wait to be received.
    pub callers: DcbList,
    /// Those that were received and wait for the answer.
    pub served: DcbList,
    /// Who waits for a message now.
    pub receiver: Cell<Option<DcbRef>>,
    /// Who received last.
    pub server: Cell<Option<DcbRef>>,
    /// Its neighbours among the endpoints of the same server.
    next_served: Cell<Option<Obj<Endpoint>>>,
    prev_served: Cell<Option<Obj<Endpoint>>>,
    /// The server is gone, and nobody has received since.
    pub orphaned: Cell<bool>,
    /// Notification bits for the server when a call has to wait.
    pub bell: Cell<u64>,
    /// Notification bits for the core's monitor when there is no server any more.
    pub watch: Cell<u64>,
}

// SAFETY: cells and lists of cells, for which zeros are valid; far smaller than a page.
unsafe impl Object for Endpoint {
    const TYPE: CapType = CapType::Endpoint;
}

/// Who is notified: a dispatcher, or whoever receives at an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    Dispatcher(DcbRef),
    Endpoint(EndpointRef),
}

impl Listener {
    /// The dispatcher, unless the endpoint has no receiver at the moment.
    pub fn dispatcher(self) -> Option<DcbRef> {
        match self {
            Listener::Dispatcher(dcb) => Some(dcb),
            Listener::Endpoint(endpoint) => endpoint.server.get(),
        }
    }
}

impl EndpointRef {
    /// The endpoint at which `caller` waits for an answer of `server`, if it does.
    pub fn of_call(server: DcbRef, caller: DcbRef) -> Option<EndpointRef> {
        let endpoint = caller.endpoint.get()?;
        let waits = caller.state.get() == State::Called;
        (waits && endpoint.server.get() == Some(server)).then_some(endpoint)
    }

    /// From now on `server` receives here. Only the one that received last may answer: callers of a
    /// predecessor wait for it.
    #[inline]
    pub fn bind(self, server: DcbRef) {
        if self.server.get() != Some(server) {
            self.unbind();
            self.bell.set(0);
            self.server.set(Some(server));
            self.orphaned.set(false);
            let next = server.serves.replace(Some(self));
            self.next_served.set(next);
            next.inspect(|next| next.prev_served.set(Some(self)));
        }
    }

    /// The server, if there is one, is it no longer.
    pub fn unbind(self) {
        let Some(server) = self.server.take() else { return };
        let last = server.caller.get();
        if last.is_some_and(|caller| caller.endpoint.get() == Some(self)) {
            server.caller.set(None);
        }
        let (prev, next) = (self.prev_served.take(), self.next_served.take());
        match prev {
            Some(prev) => prev.next_served.set(next),
            None => server.serves.set(next),
        }
        next.inspect(|next| next.prev_served.set(prev));
    }

    /// The server must not answer `caller` by the name of its last caller any more.
    pub fn forget_caller(self, caller: DcbRef) {
        if let Some(server) = self.server.get() {
            if server.caller.get() == Some(caller) {
                server.caller.set(None);
            }
        }
    }
}

impl DcbRef {
    /// Leaves the endpoint that it waits at, if it does.
    pub fn leave_endpoint(self) {
        let Some(endpoint) = self.endpoint.take() else { return };
        match self.state.get() {
            State::Calling => endpoint.callers.remove(self),
            State::Called => {
                endpoint.served.remove(self);
                endpoint.forget_caller(self);
            }
            State::Receiving => endpoint.receiver.set(None),
            _ => {}
        }
        self.clear(flag::FAULT | flag::REDIRECTED | flag::ABROAD);
    }
}
