//! PCI functions and what they reach, as methods of the slots that hold them.

use crate::{invoke, Cap};
use captypes::invocations::DeviceFault;
use captypes::{op, Place, Status};

/// A slot with a PciFunction.
pub trait FunctionCap: Cap {
    /// [`op::AttachFunction`]
    fn attach(self, space: impl Into<Place>) -> Result<(), Status> {
        invoke(self, op::AttachFunction { space: space.into() })
    }

    /// [`op::BlockFunction`]
    fn block(self) -> Result<(), Status> {
        invoke(self, op::BlockFunction {})
    }

    /// [`op::NextDeviceFault`]; `None` if there is none.
    fn next_fault(self) -> Result<Option<DeviceFault>, Status> {
        match invoke(self, op::NextDeviceFault {}) {
            Err(Status::Empty) => Ok(None),
            found => found.map(Some),
        }
    }
}

impl<C: Cap> FunctionCap for C {}
