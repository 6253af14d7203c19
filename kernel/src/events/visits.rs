//! What is to be done for other cores, and for dispatchers that come from there.

use crate::driver::CpuDriver;
use crate::object::dcb::Errand;
use crate::object::DcbRef;
use crate::operations::reclaim::flush_translations;
use crate::operations::taking::clear_for_others;

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
                Errand::Recalled => self.sched.wake_again(dcb),
                Errand::Invoke => self.on_behalf(dcb, crate::invoke::invoke),
                Errand::Fault => self.on_behalf(dcb, CpuDriver::deliver_fault),
            }
            if !self.sched.goes_on_receiving(&mut reception) {
                break;
            }
        }
        self.sched.receive_later(reception.time);
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
