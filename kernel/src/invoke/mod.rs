//! Decoding an invocation: registers to typed arguments, places to slots, and one function.
//!
//! | file | invocations of |
//! |---|---|
//! | `any` | any capability; RAM, root CNodes, Ids |
//! | `table` | page tables and Mappings |
//! | `loan` | Frames and Loans |
//! | `morsel` | Pools and Morsels |
//! | `endpoint` | Endpoints, and whoever is notified |
//! | `dispatcher` | Dispatchers |
//! | `kernel` | the Kernel |
//! | `monitor` | the Kernel, for the core's monitor |
//! | `device` | ports, interrupt lines, PCI functions, performance counters |
//!
//! Each matches on the enumeration that the table of `captypes` generates for its group, without a
//! catch-all. Everything that arrives here is user input. What is decoded is checked by the type of the
//! argument; what a place names is checked by `lookup`; all other checks are in the functions.

mod any;
mod device;
mod dispatcher;
mod endpoint;
mod kernel;
mod loan;
mod monitor;
mod morsel;
pub(crate) mod redirect;
mod table;

use crate::cap::lookup::used_slot;
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::object::{DcbRef, Obj};
use captypes::invocations::{Counter, DispatcherOp, Group, Reply};
use captypes::{CapType, Invocation, Label, Place, Status};
use mdb::RawCap;

/// The status word of an invocation; [`SETTLED`] if the registers are as they should be already, or
/// the invoker waits.
type Outcome = u64;
const SETTLED: Outcome = u64::MAX;

#[inline(always)]
fn outcome(result: Result<(), Status>) -> Outcome {
    match result {
        Ok(()) => 0,
        Err(status) => status.to_word(),
    }
}

/// Decodes the arguments, runs `f`, and stores its results.
#[inline(always)]
fn run<I: Invocation>(
    local: &mut CpuDriver,
    dcb: DcbRef,
    f: impl FnOnce(&mut CpuDriver, Place, I) -> Result<I::Reply, Status>,
) -> Outcome {
    let target = Place(dcb.ctx.rdi.get());
    let result = I::decode(&dcb.ctx.args()).and_then(|args| f(local, target, args));
    outcome(result.map(|reply| {
        if <I::Reply as Reply>::WORDS != 0 {
            dcb.ctx.set_words(&reply.encode());
        }
    }))
}

/// Performs the invocation in the registers of `dcb`, the current dispatcher.
#[inline(always)]
pub fn invoke(local: &mut CpuDriver, dcb: DcbRef) {
    local.core.add(Counter::Invocations, 1);
    let mut outcome = match Label::from_u16(dcb.ctx.rax.get() as u16) {
        Some(label) => dispatch(local, dcb, label),
        None => Status::Invalid.to_word(),
    };
    if outcome != 0 {
        if outcome == Status::RetryThroughMonitor.to_word() {
            outcome = redirect::redirect(local, dcb);
        }
        if outcome == SETTLED {
            return;
        }
    }
    dcb.ctx.rax.set(outcome);
}

/// Is what `dcb` invokes done on whichever core it is? It needs no capability, and changes nothing that is home's alone.
#[inline]
pub fn is_done_here(dcb: DcbRef) -> bool {
    const ALL: [Label; 4] =
        [Label::ProtectHere, Label::HideHere, Label::ShowHere, Label::RaiseHere];
    ALL.iter().any(|label| dcb.ctx.rax.get() as u16 == *label as u16)
}

/// Does what `dcb`, which has come from another core, wants of `target`, a dispatcher of this one.
pub fn control(local: &mut CpuDriver, dcb: DcbRef, target: DcbRef) {
    let outcome = endpoint::control(local, dcb, target);
    dcb.ctx.rax.set(outcome);
}

/// What remains to be told of an operation that may have deleted its own dispatcher, which must not be
/// written to then.
#[inline(always)]
fn survived(local: &CpuDriver, dcb: DcbRef, outcome: Outcome) -> Outcome {
    if redirect::is_alive(local, dcb) {
        outcome
    } else {
        SETTLED
    }
}

/// The same for a dispatcher that is not the current one.
#[inline(never)]
fn perform(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    dispatch(local, dcb, label)
}

/// By what it is invoked on. What must be fast has a function for each operation, so that each has only its
/// own registers to save.
#[inline(always)]
fn dispatch(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let rare = match label.group() {
        Group::Any(op) => return any::dispatch(local, dcb, op),
        Group::Ram(op) => return any::dispatch_ram(local, dcb, op),
        Group::Frame(op) => return loan::dispatch(local, dcb, op),
        Group::Loan(op) => return loan::dispatch_loan(local, dcb, op),
        Group::CNode(op) => return any::dispatch_cnode(local, dcb, op),
        Group::Id(op) => return any::dispatch_id(local, dcb, op),
        Group::Table(op) => return table::dispatch(local, dcb, op),
        Group::Mapping(op) => return table::dispatch_mapping(local, dcb, op),
        Group::Translation(op) => return table::dispatch_translation(local, dcb, op),
        Group::Endpoint(op) => return endpoint::dispatch(local, dcb, op),
        Group::Receiver(op) => return endpoint::dispatch_receiver(local, dcb, op),
        Group::Dispatcher(DispatcherOp::Reply) => return outcome(endpoint::reply(local, dcb)),
        Group::Dispatcher(op) => dispatcher::dispatch(local, dcb, op),
        Group::Kernel(op) => kernel::dispatch(local, dcb, op),
        Group::Monitor(op) => monitor::dispatch(local, dcb, op),
        Group::Io(op) => device::dispatch_io(local, dcb, op),
        Group::Irq(op) => device::dispatch_irq(local, dcb, op),
        Group::PerfMon(op) => device::dispatch_perf(local, dcb, op),
        Group::PciFunction(op) => device::dispatch_function(local, dcb, op),
        Group::Pool(op) => morsel::dispatch(local, dcb, op),
        Group::Morsel(op) => morsel::dispatch_morsel(local, dcb, op),
    };
    survived(local, dcb, rare)
}

/// A function for each operation.
macro_rules! handlers {
    ($($name:ident($op:ident) = |$local:ident, $dcb:ident, $target:ident, $args:pat_param| $body:expr;)*) => { $(
        #[inline(never)]
        fn $name(local: &mut CpuDriver, dcb: DcbRef) -> Outcome {
            run(local, dcb, |$local, $target, $args: captypes::op::$op| {
                let $dcb = dcb;
                $body
            })
        }
    )* };
}

use handlers;

/// Performs an operation of a group, each with the invoked capability, which has the type and the right that
/// the table says.
macro_rules! operations {
    ($local:ident, $dcb:ident, $op:ident: $ops:ident;
     $($name:ident |$cap:pat_param, $args:pat_param| $body:expr;)*) => {
        match $op {
            $($ops::$name => run($local, $dcb, |$local, target, args: captypes::op::$name| {
                let invoked = super::invoked::<captypes::op::$name>($dcb, target)?;
                let ($cap, $args) = (&invoked, args);
                // Some need nothing of the core.
                let _ = &$local;
                $body
            }),)*
        }
    };
}
use operations;

/// The object of type `T` that `target` names.
#[inline]
fn object<T: crate::object::Object>(dcb: DcbRef, target: Place) -> Result<Obj<T>, Status> {
    let cap = used_slot(dcb, target)?.cap();
    Obj::of(&cap).ok_or_else(|| no_object(&cap, T::TYPE))
}

/// Why a capability stands for no object of a type that this core could use.
#[cold]
fn no_object(cap: &RawCap, ty: CapType) -> Status {
    if cap.is(ty) {
        Status::Unsupported
    } else {
        Status::WrongType
    }
}

/// The capability that `target` names, of the type and with the right that the table says.
fn invoked<I: Invocation>(dcb: DcbRef, target: Place) -> Result<RawCap, Status> {
    let cap = used_slot(dcb, target)?.cap();
    // What only the core of a pool may do with a Morsel, `operations::morsels` knows.
    if cap.is_foreign() && !cap.is(CapType::Morsel) {
        Err(Status::Unsupported)
    } else if !I::ON.const_has_number(cap.ty) {
        Err(Status::WrongType)
    } else if !cap.rights_set().has(I::NEEDS) {
        Err(Status::NoRights)
    } else {
        Ok(cap)
    }
}

#[inline(always)]
fn settled(result: Result<(), Status>) -> Outcome {
    match result {
        Ok(()) => SETTLED,
        Err(status) => status.to_word(),
    }
}
