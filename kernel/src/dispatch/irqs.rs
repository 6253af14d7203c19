//! Who is notified of interrupt lines.

use crate::arch::{self, IRQS};
use crate::cap::policy::SCALE;
use crate::object::Listener;
use captypes::Status;
use core::ops::Range;
use mdb::RawCap;

#[derive(Clone, Copy)]
struct Binding {
    to: Option<Listener>,
    bits: u64,
}

/// The lines of this core.
pub struct Irqs {
    lines: [Binding; IRQS],
}

impl Irqs {
    /// Nobody is notified.
    pub const fn new() -> Irqs {
        Irqs { lines: [Binding { to: None, bits: 0 }; IRQS] }
    }

    /// Whom an interrupt of a line is told, with which bits; outermost `None`: it is no line.
    pub fn listener(&self, line: u64) -> Option<(Option<Listener>, u64)> {
        self.lines.get(usize::try_from(line).ok()?).map(|binding| (binding.to, binding.bits))
    }

    /// Notifies `to` of a line from now on; no bits: nobody.
    pub fn bind(&mut self, line: u8, to: Listener, bits: u64) -> Result<(), Status> {
        let binding = self.lines.get_mut(usize::from(line)).ok_or(Status::OutOfRange)?;
        if bits == 0 {
            binding.to = None;
            arch::irq_mask(line);
            return Ok(());
        }
        *binding = Binding { to: Some(to), bits };
        arch::irq_unmask(line);
        Ok(())
    }

    /// Lets the interrupt of a line come again.
    pub fn acknowledge(&self, line: u8) -> Result<(), Status> {
        let binding = self.lines.get(usize::from(line)).ok_or(Status::OutOfRange)?;
        if binding.to.is_none() {
            return Err(Status::WrongState);
        }
        arch::irq_unmask(line);
        Ok(())
    }

    /// Somebody who was notified of interrupts is no more.
    pub fn silence(&mut self, gone: Listener) {
        for (line, binding) in self.lines.iter_mut().enumerate() {
            if binding.to == Some(gone) {
                binding.to = None;
                arch::irq_mask(line as u8);
            }
        }
    }

    /// The last capability to these lines is gone.
    pub fn unbind(&mut self, lines: Range<u8>) {
        for line in lines {
            let binding = self.lines.get_mut(usize::from(line));
            if binding.is_some_and(|binding| binding.to.take().is_some()) {
                arch::irq_mask(line);
            }
        }
    }
}

impl Default for Irqs {
    fn default() -> Self {
        Self::new()
    }
}

/// The lines of an Irq capability.
pub fn lines(cap: &RawCap) -> Range<u8> {
    let most = IRQS as u64;
    let first = cap.base >> SCALE;
    let end = (first + (cap.word >> SCALE)).min(most);
    first.min(most) as u8..end as u8
}

/// The one line of a capability.
pub fn line(cap: &RawCap) -> Result<u8, Status> {
    let lines = lines(cap);
    if lines.len() == 1 {
        Ok(lines.start)
    } else {
        Err(Status::OutOfRange)
    }
}
