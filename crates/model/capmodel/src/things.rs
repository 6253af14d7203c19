//! Dispatchers, endpoints, the kernel, ports and interrupt lines: what can be said about them without
//! running anybody.
//!
//! The dispatchers of random sequences are configured, notified and destroyed, but never started: what
//! runs is timing. For the same reason nobody calls an endpoint.

use crate::errors::Check;
use crate::{Answer, Cap, Errors, Model, Operation, SlotKey, Words};
use captypes::invocations::{options, Counter};
use captypes::{op, CapType, Invocation, Label, Place, RamAttrs, Rights, Status};

/// First address that is no user address.
const USER_END: u64 = 1 << 47;
/// Slots of a dispatcher: root CNode, root page table, frame, fault endpoint.
const VSPACE: u32 = 1;
const FRAME: u32 = 2;

impl Model {
    fn of_type(&self, who: usize, place: Place, ty: CapType) -> Result<Cap, Status> {
        let cap = self.slots[&self.used(who, place)?];
        if cap.ty == ty {
            Ok(cap)
        } else {
            Err(Status::WrongType)
        }
    }

    /// An endpoint with a right.
    fn endpoint(&self, who: usize, place: Place, right: Rights) -> Result<Cap, Status> {
        let cap = self.of_type(who, place, CapType::Endpoint)?;
        if cap.rights.has(right) {
            Ok(cap)
        } else {
            Err(Status::NoRights)
        }
    }

    /// Can this dispatcher be started?
    pub fn could_start(&self, dispatcher: u64) -> bool {
        [VSPACE, FRAME].iter().all(|&slot| self.slots.contains_key(&(dispatcher, slot)))
    }

    pub(crate) fn invoke_thing(
        &mut self,
        who: usize,
        label: Label,
        operation: &Operation,
    ) -> Answer {
        let target = operation.target;
        let simple = |result: Result<Words, Status>| result.map_err(Errors::one);
        macro_rules! decode {
            ($op:ident) => {
                op::$op::decode(&operation.args).map_err(Errors::one)?
            };
        }
        let dispatcher = || self.of_type(who, target, CapType::Dispatcher);
        let kernel = || self.of_type(who, target, CapType::Kernel);
        // Of a dispatcher that never ran.
        let stopped = |result: Result<Cap, Status>| simple(result.and(Err(Status::WrongState)));
        match label {
            Label::Configure => self.configure(who, target, decode!(Configure)),
            Label::Start | Label::Yield | Label::Wait => stopped(dispatcher()),
            Label::Suspend | Label::Continue => {
                let mut check = Check::default();
                let found = check.get(dispatcher());
                let may = found.is_none_or(|cap| cap.rights.has(Rights::REVOKE));
                check.demand(may, Status::NoRights);
                check.demand(found.is_none(), Status::WrongState);
                check.passed(found).map(|_| Words::NONE)
            }
            Label::SetTimer => simple(dispatcher().map(|_| Words::NONE)),
            Label::SetFsBase => {
                let args = decode!(SetFsBase);
                let mut check = Check::default();
                let found = check.get(dispatcher());
                check.demand(args.base < USER_END, Status::OutOfRange);
                check.passed(found).map(|_| Words::NONE)
            }
            Label::SetBreakpoints => {
                let args = decode!(SetBreakpoints);
                let op::SetBreakpoints { address0, address1, address2, address3, control } = args;
                let mut check = Check::default();
                let found = check.get(dispatcher());
                let is_port = |n: u32| control >> (16 + 4 * n) & 3 == 2;
                check.demand(control & !0xffff_00ff == 0 && !(0..4).any(is_port), Status::Invalid);
                let addresses = [address0, address1, address2, address3];
                let are_of_user = addresses.iter().all(|&address| address <= USER_END - 8);
                check.demand(are_of_user, Status::OutOfRange);
                check.passed(found).map(|_| Words::NONE)
            }
            Label::Usage => simple(dispatcher().map(|_| Words::one(0))),
            Label::Notify => self.notify(who, target, decode!(Notify)),
            Label::Poll => self.poll(who, target),
            Label::Listen => {
                decode!(Listen);
                let endpoint = self.endpoint(who, target, Rights::RECV).map_err(Errors::one)?;
                self.servers.insert(endpoint.base, who);
                Ok(Words::NONE)
            }
            Label::Call => stopped(self.endpoint(who, target, Rights::SEND)),
            Label::ReplyRecv => stopped(self.endpoint(who, target, Rights::RECV)),
            Label::Reply if target == Place::CALLER => Err(Errors::one(Status::WrongState)),
            Label::Reply => stopped(dispatcher()),
            Label::CopyFromCaller | Label::CopyToCaller | Label::CopyBetween => match target {
                Place::CALLER => Err(Errors::one(Status::WrongState)),
                _ => stopped(dispatcher()),
            },
            Label::Shutdown => {
                decode!(Shutdown);
                simple(kernel().map(|_| Words::NONE))
            }
            Label::Log => {
                decode!(Log);
                simple(kernel().map(|_| Words::NONE))
            }
            Label::CollectCycles => {
                simple(kernel().map(|_| Words::NONE))?;
                self.collect_cycles();
                Ok(Words::NONE)
            }
            Label::SetFlushPolicy => {
                let args = decode!(SetFlushPolicy);
                simple(kernel().map(|_| Words::NONE))?;
                let new = [args.strategy as u64, u64::from(args.threshold)];
                let before = self.flushing.replace(new);
                let mask = if before.is_some() { u64::MAX } else { 0 };
                let [strategy, threshold] = before.unwrap_or_default();
                let value = [strategy, threshold, 0, 0, 0, 0];
                Ok(Words { value, mask: [mask; 6], or: Errors::NONE })
            }
            Label::PerfInfo | Label::PerfRead | Label::PerfProgram => {
                self.perf(who, target, label, operation)
            }
            Label::NotifyReclaimed | Label::CheckInvariants | Label::CollectReclaimed => {
                simple(kernel().map(|_| Words::NONE))
            }
            Label::ReadCounter => {
                let args = decode!(ReadCounter);
                let mut check = Check::default();
                let found = check.get(kernel());
                let exists = (args.counter as usize) < Counter::ALL.len() && args.core <= 1;
                check.demand(exists, Status::OutOfRange);
                check.passed(found).map(|_| Words::NONE)
            }
            Label::PortIn => {
                let args = decode!(PortIn);
                self.port(who, target, Rights::READ, args.port, args.width)
            }
            Label::PortOut => {
                let args = decode!(PortOut);
                self.port(who, target, Rights::WRITE, args.port, args.width)
            }
            Label::PortOutBytes => {
                let args = decode!(PortOutBytes);
                let mut errors =
                    self.port(who, target, Rights::WRITE, args.port, 1).err().unwrap_or_default();
                if args.len > 40 {
                    errors.add(Status::OutOfRange);
                }
                if errors.is_empty() {
                    Ok(Words::NONE)
                } else {
                    Err(errors)
                }
            }
            Label::IrqBind => self.line(who, target).map(|_| Words::NONE),
            Label::IrqAck => {
                self.line(who, target)?;
                Err(Errors::one(Status::WrongState))
            }
            // The model's lines are below those that have messages, or above all.
            Label::IrqMessage => {
                self.line(who, target)?;
                Err(Errors::one(Status::Unsupported))
            }
            _ => unreachable!("Model::invoke has done {label:?}"),
        }
    }

    fn port(&self, who: usize, target: Place, right: Rights, port: u16, width: u8) -> Answer {
        let mut check = Check::default();
        let io = check.get(self.of_type(who, target, CapType::Io));
        check.demand(io.is_none_or(|io| io.rights.has(right)), Status::NoRights);
        check.demand(matches!(width, 1 | 2 | 4), Status::Invalid);
        let (first, end) = (u64::from(port), u64::from(port) + u64::from(width));
        check.demand(io.is_none_or(|io| io.covers(first, end)), Status::OutOfRange);
        check.passed(io).map(|_| Words::NONE)
    }

    /// What the processor counts, and whether it does, is not for us to say.
    fn perf(&self, who: usize, target: Place, label: Label, operation: &Operation) -> Answer {
        let (right, decoded) = match label {
            Label::PerfProgram => {
                (Rights::WRITE, op::PerfProgram::decode(&operation.args).map(|_| ()))
            }
            Label::PerfRead => (Rights::READ, op::PerfRead::decode(&operation.args).map(|_| ())),
            _ => (Rights::READ, Ok(())),
        };
        decoded.map_err(Errors::one)?;
        let mut check = Check::default();
        let perf = check.get(self.of_type(who, target, CapType::PerfMon));
        check.demand(perf.is_none_or(|perf| perf.rights.has(right)), Status::NoRights);
        check.passed(perf)?;
        let mut or = Errors::one(Status::Unsupported);
        if label == Label::PerfProgram {
            or.add(Status::Invalid);
            // The time-stamp counter always runs.
            or.add(Status::WrongState);
        }
        Ok(Words { or, ..Words::NONE })
    }

    fn line(&self, who: usize, target: Place) -> Result<Cap, Errors> {
        let mut check = Check::default();
        let irq = check.get(self.of_type(who, target, CapType::Irq));
        check.demand(irq.is_none_or(|irq| irq.bytes == 1), Status::OutOfRange);
        check.passed(irq)
    }

    fn notify(&mut self, who: usize, target: Place, args: op::Notify) -> Answer {
        if self.of_type(who, target, CapType::Dispatcher).is_ok() {
            return Ok(Words::NONE);
        }
        let endpoint = self.endpoint(who, target, Rights::SEND).map_err(Errors::one)?;
        let server = self.servers.get(&endpoint.base);
        let &server = server.ok_or(Errors::one(Status::WrongState))?;
        self.pending[server] |= args.bits;
        Ok(Words::NONE)
    }

    fn poll(&mut self, who: usize, target: Place) -> Answer {
        let endpoint = self.endpoint(who, target, Rights::RECV).map_err(Errors::one)?;
        self.servers.insert(endpoint.base, who);
        match self.take_pending(who) {
            0 => Err(Errors::one(Status::Empty)),
            bits => Ok(Words::one(bits)),
        }
    }

    /// Executor `who` takes its notification bits.
    pub fn take_pending(&mut self, who: usize) -> u64 {
        std::mem::take(&mut self.pending[who])
    }

    /// Do notification bits wait for somebody?
    pub fn notified(&self) -> Option<usize> {
        self.pending.iter().position(|&bits| bits != 0)
    }

    fn configure(&mut self, who: usize, target: Place, args: op::Configure) -> Answer {
        let mut check = Check::default();
        let dispatcher = check.get(self.of_type(who, target, CapType::Dispatcher));
        let mut find = |place: Place, ty: CapType| -> Option<SlotKey> {
            let slot = (place != Place::NULL).then(|| check.get(self.used(who, place)))??;
            check.demand(self.slots[&slot].ty == ty, Status::WrongType);
            Some(slot)
        };
        let sources = [
            find(args.cspace, CapType::L1CNode),
            find(args.vspace, CapType::Pml4),
            find(args.frame, CapType::Frame),
            find(args.fault_ep, CapType::Endpoint),
        ];
        let rights = |slot: SlotKey, needed| self.slots[&slot].rights.has(needed);
        if let Some(frame) = sources[FRAME as usize] {
            let persistent = self.slots[&frame].attrs.has(RamAttrs::PERSISTENT);
            check.demand(!persistent, Status::WrongType);
            check.demand(self.slots[&frame].bytes == crate::PAGE, Status::OutOfRange);
            check.demand(args.frame_va < USER_END, Status::OutOfRange);
            check.demand(rights(frame, Rights::READ.or(Rights::WRITE)), Status::NoRights);
        }
        let may_send = sources[3].is_none_or(|endpoint| rights(endpoint, Rights::SEND));
        check.demand(may_send, Status::NoRights);
        let known = options::LINUX | options::COPY_VECTOR_STATE | options::SUPERVISED;
        check.demand(args.options & !known == 0, Status::Invalid);
        let dispatcher = check.passed(dispatcher)?;
        for (slot, source) in (0..).zip(sources) {
            let Some(source) = source else { continue };
            let own = (dispatcher.base, slot);
            self.delete_slot(own);
            // What was there may have been the last capability to what holds the source.
            let cap = self.slots.get(&source).copied().ok_or(Errors::one(Status::Empty))?;
            self.put(own, cap);
        }
        Ok(Words::NONE)
    }

    /// Checks what the kernel answered to `CollectReclaimed`: up to three ranges, of memory that came
    /// back and was not collected before; fewer only if there is no more.
    pub fn collected(&mut self, words: &[u64; 6]) -> Result<(), String> {
        let ranges = [(words[0], words[1]), (words[2], words[3]), (words[4], words[5])];
        for (base, bytes) in ranges {
            for page in (base..base.saturating_add(bytes)).step_by(crate::PAGE as usize) {
                if !self.returned.remove(&page) {
                    return Err(format!("{page:#x} did not come back"));
                }
            }
        }
        let all = ranges.iter().any(|&(_, bytes)| bytes == 0);
        match self.returned.first() {
            Some(page) if all => Err(format!("{page:#x} came back and is not there")),
            _ => Ok(()),
        }
    }

    /// Has any memory in this range come back without being collected?
    pub fn is_returned(&self, base: u64, end: u64) -> bool {
        self.returned.range(base..end).next().is_some()
    }
}
