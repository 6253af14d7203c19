//! Endpoints: synchronous calls with words and capabilities.
//!
//! ```text
//!            Call                      ReplyRecv, Poll
//! caller ─► [callers: Calling] ─────► received ─► [served: Called] ─ Reply, ReplyRecv ─► Ready
//!            (skipped if the receiver waits)
//! ```
//!
//! Both queues are lists through the dispatchers. When the receiver waits, the caller switches to
//! it directly, and the answer switches back, without a trip through the run queue.

mod transfer;

use crate::cap::delete::{Pause, Progress};
use crate::cap::memory_cap;
use crate::dispatch::{interrupted, log_fault, receive_notifications};
use crate::driver::Local;
use crate::invoke::redirect;
use crate::object::dcb::flag;
use crate::object::{DcbRef, EndpointRef, Listener, Obj, State};
use captypes::{CapType, Rights, Status};

/// What a report of a fault in the log costs, in steps of destruction.
const STEPS_OF_REPORT: u32 = 12;

impl Local {
    /// `dcb`, the current dispatcher, calls `endpoint` with the message in its registers.
    #[inline]
    pub(crate) fn call_endpoint(&mut self, dcb: DcbRef, endpoint: EndpointRef, badge: u32) {
        dcb.badge.set(badge);
        if let Some(server) = endpoint.receiver.take() {
            self.deliver(endpoint, dcb, server);
            return self.sched.switch_directly(server);
        }
        if endpoint.orphaned.get() {
            return self.refuse(dcb);
        }
        dcb.endpoint.set(Some(endpoint));
        dcb.state.set(State::Calling);
        endpoint.callers.push(dcb);
        self.sched.block();
        if endpoint.bell.get() != 0 {
            self.ring(endpoint);
        }
    }

    /// A call waits: its server wants to know.
    #[inline(never)]
    fn ring(&mut self, endpoint: EndpointRef) {
        if let Some(server) = endpoint.server.get() {
            self.sched.notify(server, endpoint.bell.get());
        }
    }

    /// `server` receives from `endpoint`, and is notified of calls. Those that wait already count.
    pub(crate) fn listen(&mut self, server: DcbRef, endpoint: EndpointRef, bits: u64) {
        endpoint.bind(server);
        endpoint.bell.set(bits);
        if bits != 0 && endpoint.callers.first().is_some() {
            self.ring(endpoint);
        }
    }

    /// Gives `server` the message of `caller`, which waits for the answer from now on.
    #[inline]
    fn deliver(&mut self, endpoint: EndpointRef, caller: DcbRef, server: DcbRef) {
        self.transfer_call(caller, server);
        caller.endpoint.set(Some(endpoint));
        caller.state.set(State::Called);
        endpoint.served.push(caller);
        server.caller.set(Some(caller));
    }

    /// Answers `caller` with the message in the registers of `server`.
    #[inline]
    fn answer(&mut self, server: DcbRef, caller: DcbRef) -> Result<(), Status> {
        let endpoint = EndpointRef::of_call(server, caller).ok_or(Status::WrongState)?;
        endpoint.served.remove(caller);
        caller.endpoint.set(None);
        if server.caller.get() == Some(caller) {
            server.caller.set(None);
        }
        self.transfer_answer(server, caller);
        Ok(())
    }

    /// The dispatcher at `pa` whose invocation was handed on to `server` as number `ticket`, if it
    /// still waits.
    pub(crate) fn redirected(&self, server: DcbRef, pa: u64, ticket: u64) -> Option<DcbRef> {
        let key = memory_cap(CapType::Dispatcher as u8, Rights::NONE, 0, pa, paging::PAGE);
        let caller = Obj::of(&self.db.find(&key)?.cap())?;
        EndpointRef::of_call(server, caller)?;
        (caller.has(flag::REDIRECTED) && redirect::ticket(caller) == ticket).then_some(caller)
    }

    /// Ends the wait of a dispatcher whose invocation was handed on.
    pub(crate) fn end_redirected(&mut self, caller: DcbRef) {
        if let Some(endpoint) = caller.endpoint.take() {
            endpoint.served.remove(caller);
            endpoint.forget_caller(caller);
        }
        caller.clear(flag::REDIRECTED);
        self.sched.wake(caller);
    }

    /// Answers `caller` and goes on.
    pub(crate) fn reply(&mut self, server: DcbRef, caller: DcbRef) -> Result<(), Status> {
        self.answer(server, caller)?;
        self.sched.wake(caller);
        Ok(())
    }

    /// Answers `to` if it still waits, and receives from `endpoint`. `None`: the receiver waits, or
    /// its registers hold what it received.
    pub(crate) fn reply_recv(
        &mut self,
        server: DcbRef,
        endpoint: EndpointRef,
        to: Option<DcbRef>,
    ) -> Result<(), Status> {
        if endpoint.receiver.get().is_some() {
            return Err(Status::WrongState);
        }
        // Whoever is gone meanwhile needs no answer.
        let answered = to.filter(|&to| self.answer(server, to).is_ok());
        if self.receive_now(server, endpoint) {
            if let Some(caller) = answered {
                self.sched.wake(caller);
            }
            return Ok(());
        }
        server.endpoint.set(Some(endpoint));
        server.state.set(State::Receiving);
        endpoint.receiver.set(Some(server));
        match answered {
            Some(caller) => self.sched.switch_directly(caller),
            None => self.sched.block(),
        }
        Ok(())
    }

    /// Receives what is there already.
    pub(crate) fn receive_now(&mut self, server: DcbRef, endpoint: EndpointRef) -> bool {
        endpoint.bind(server);
        let bits = server.frame.get().notifications().take();
        if bits != 0 {
            receive_notifications(server, bits);
            return true;
        }
        let Some(caller) = endpoint.callers.first() else { return false };
        endpoint.callers.remove(caller);
        self.deliver(endpoint, caller, server);
        true
    }

    /// The endpoint goes: everybody who waits is told, as far as the work of this event allows.
    pub(crate) fn close_endpoint(&mut self, endpoint: EndpointRef) -> Progress {
        self.dismiss_callers(endpoint)?;
        self.irqs.silence(Listener::Endpoint(endpoint));
        self.forget_monitor(endpoint);
        self.tell_watcher(endpoint);
        if let Some(receiver) = endpoint.receiver.take() {
            receiver.endpoint.set(None);
            interrupted(receiver, Status::PeerGone);
            self.sched.wake(receiver);
        }
        endpoint.unbind();
        Ok(())
    }

    fn dismiss_callers(&mut self, endpoint: EndpointRef) -> Progress {
        for list in [&endpoint.callers, &endpoint.served] {
            while let Some(caller) = list.first() {
                if !self.spend(1) {
                    return Err(Pause::Again);
                }
                list.remove(caller);
                endpoint.forget_caller(caller);
                caller.endpoint.set(None);
                caller.state.set(State::Ready);
                if caller.has(flag::FAULT) {
                    self.spend(STEPS_OF_REPORT);
                }
                self.refuse(caller);
            }
        }
        Ok(())
    }

    /// Ends a call that nobody will answer. A dispatcher that faulted stops: nobody handles it.
    fn refuse(&mut self, caller: DcbRef) {
        if caller.has(flag::FAULT) {
            caller.clear(flag::FAULT);
            log_fault(caller);
            return self.sched.stop(caller);
        }
        caller.clear(flag::REDIRECTED);
        interrupted(caller, Status::PeerGone);
        self.sched.wake(caller);
    }

    /// A dispatcher is deleted: the endpoints that it served have no server any more.
    pub(crate) fn abandon_callers(&mut self, dcb: DcbRef) -> Progress {
        while let Some(endpoint) = dcb.serves.get() {
            if !self.spend(1) {
                return Err(Pause::Again);
            }
            self.dismiss_callers(endpoint)?;
            endpoint.unbind();
            endpoint.orphaned.set(true);
            self.tell_watcher(endpoint);
        }
        Ok(())
    }

    /// Has the endpoint a server? If so the monitor is told when it has none; see
    /// [`captypes::op::Watch`].
    pub(crate) fn watch(&mut self, endpoint: EndpointRef, bits: u64) -> bool {
        let served = endpoint.server.get().is_some();
        endpoint.watch.set(if served { bits } else { 0 });
        served
    }

    /// The endpoint has no server any more.
    fn tell_watcher(&mut self, endpoint: EndpointRef) {
        let bits = endpoint.watch.take();
        if bits != 0 {
            self.notify_monitor(bits);
        }
    }
}
