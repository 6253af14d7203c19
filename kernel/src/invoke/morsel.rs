//! Invocations of Pools and Morsels.

use super::Outcome;
use crate::driver::CpuDriver;
use crate::object::DcbRef;
use captypes::invocations::{MorselOp, PoolOp};
use captypes::Status;

/// Of Pools.
pub(super) fn dispatch(_local: &mut CpuDriver, _dcb: DcbRef, _op: PoolOp) -> Outcome {
    Status::Unsupported.to_word()
}

/// Of Morsels.
pub(super) fn dispatch_morsel(_local: &mut CpuDriver, _dcb: DcbRef, _op: MorselOp) -> Outcome {
    Status::Unsupported.to_word()
}
