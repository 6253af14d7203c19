//! What is to be done for other cores, and for dispatchers that come from there.

use crate::dispatch::{serve_guest, welcome};
use crate::driver::CpuDriver;
use crate::ipc;
use crate::object::dcb::Errand;
use crate::object::{DcbRef, Listener};
use crate::operations::reclaim::flush_translations;
use crate::operations::taking::clear_for_others;
use captypes::Status;

impl CpuDriver {
    /// Another core has left something here.
    pub(super) fn attend(&mut self) {
        self.sched.serve_requests();
        clear_for_others(self);
        self.doorbell.answer(self.core, &mut self.sched);
        self.receive();
        self.sched.answer_idle();
    }

    /// Does what dispatchers have come for, as many as there is time for in one event: others may send
    /// more of them all the time. While somebody has something to do here, the rest waits for as long
    /// again.
    pub(super) fn receive(&mut self) {
        let Some(mut reception) = self.sched.begin_to_receive() else { return };
        while let Some((dcb, errand)) = self.sched.next_arrival() {
            match errand {
                Errand::Run => self.sched.host(dcb),
                Errand::Recalled | Errand::Answered => self.sched.wake_again(dcb),
                Errand::Unhandled => ipc::refuse(&mut self.sched, dcb),
                Errand::Call | Errand::Notify => self.receive_call(dcb, errand),
                Errand::Control => self.receive_control(dcb),
                Errand::Invoke => self.on_behalf(dcb, crate::invoke::invoke),
                Errand::Fault => self.on_behalf(dcb, CpuDriver::deliver_fault),
            }
            if !self.sched.goes_on_receiving(&mut reception) {
                break;
            }
        }
        self.sched.receive_later(reception.time);
    }

    /// A dispatcher of another core has come to an endpoint of this one.
    fn receive_call(&mut self, dcb: DcbRef, errand: Errand) {
        welcome(&mut self.sched, dcb);
        match (ipc::called(&self.caps, dcb), errand) {
            (Some(endpoint), Errand::Notify) => {
                let server = Listener::Endpoint(endpoint).dispatcher();
                if let Some(server) = server {
                    self.sched.notify(server, dcb.ctx.args()[0]);
                }
                dcb.ctx.set_status(server.map(drop).ok_or(Status::WrongState));
                self.sched.wake(dcb);
            }
            (Some(endpoint), _) => ipc::arrive(&mut self.sched, &mut self.caps, dcb, endpoint),
            (None, _) => ipc::refuse(&mut self.sched, dcb),
        }
        self.sched.yield_to_woken();
    }

    /// A dispatcher of another core has come to do something to one of this core.
    fn receive_control(&mut self, dcb: DcbRef) {
        welcome(&mut self.sched, dcb);
        match ipc::controlled(&self.caps, dcb) {
            Some(target) => {
                serve_guest(&mut self.sched, Some(dcb));
                crate::invoke::control(self, dcb, target);
                serve_guest(&mut self.sched, None);
            }
            None => dcb.ctx.set_status(Err(Status::PeerGone)),
        }
        self.sched.wake(dcb);
        self.sched.yield_to_woken();
    }

    /// Does what a dispatcher has come home for.
    fn on_behalf(&mut self, dcb: DcbRef, work: impl FnOnce(&mut CpuDriver, DcbRef)) {
        self.sched.begin_visit(dcb);
        work(self, dcb);
        // Before it can run anywhere.
        if self.vm.is_pending() {
            flush_translations(self);
        }
        self.sched.end_visit(dcb);
    }
}
