//! The alternate signal stack: the rules of `sigaltstack`.

use crate::general::{MINSIGSTKSZ, SS_AUTODISARM, SS_DISABLE, SS_ONSTACK};
use crate::sigframe::Stack;
use crate::Errno;

/// The alternate stack of a thread. Its `size` is 0 if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AltStack {
    pub sp: u64,
    pub size: u64,
    /// `SS_AUTODISARM` and what the program said besides.
    pub flags: u32,
}

impl AltStack {
    /// No alternate stack.
    pub const NONE: AltStack = AltStack { sp: 0, size: 0, flags: SS_DISABLE };

    /// Does a thread with this stack pointer run on it? One that is disarmed on entry counts as
    /// left at once.
    pub const fn is_used(&self, sp: u64) -> bool {
        self.flags & SS_AUTODISARM == 0 && self.covers(sp)
    }

    /// Is this stack pointer inside?
    pub const fn covers(&self, sp: u64) -> bool {
        sp > self.sp && sp - self.sp <= self.size
    }

    /// First address above it.
    pub const fn top(&self) -> u64 {
        self.sp.wrapping_add(self.size)
    }

    /// As it lies in a signal frame.
    pub const fn saved(&self) -> Stack {
        Stack { sp: self.sp, flags: self.flags, padding: 0, size: self.size }
    }

    /// As `sigaltstack` tells it to a thread with stack pointer `sp`.
    pub const fn told(&self, sp: u64) -> Stack {
        let state = match self.size {
            0 => SS_DISABLE,
            _ if self.is_used(sp) => SS_ONSTACK,
            _ => 0,
        };
        Stack { flags: state | self.flags & SS_AUTODISARM, ..self.saved() }
    }

    /// What it becomes by `sigaltstack` with the argument `new`.
    pub fn changed(&self, new: &Stack, sp: u64) -> Result<AltStack, Errno> {
        if self.size != 0 && self.is_used(sp) {
            return Err(Errno::EPERM);
        }
        match new.flags & !SS_AUTODISARM {
            SS_DISABLE => Ok(AltStack { sp: 0, size: 0, flags: new.flags }),
            0 | SS_ONSTACK if new.size < MINSIGSTKSZ as u64 => Err(Errno::ENOMEM),
            0 | SS_ONSTACK => Ok(AltStack { sp: new.sp, size: new.size, flags: new.flags }),
            _ => Err(Errno::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: Stack = Stack { sp: 0x10000, flags: 0, padding: 0, size: 0x4000 };

    #[test]
    fn is_set_and_told() {
        let set = AltStack::NONE.changed(&STACK, 0x999).unwrap();
        assert_eq!(set.told(0x999), STACK);
        assert_eq!(set.told(0x12000).flags, SS_ONSTACK);
        assert_eq!(set.told(0x10000).flags, 0);
        assert_eq!(set.told(0x14000).flags, SS_ONSTACK);
        assert_eq!(AltStack::NONE.told(0).flags, SS_DISABLE);
        let off = Stack { flags: SS_DISABLE, ..STACK };
        assert_eq!(set.changed(&off, 0x999), Ok(AltStack::NONE));
    }

    #[test]
    fn errors() {
        let set = AltStack::NONE.changed(&STACK, 0x999).unwrap();
        assert_eq!(set.changed(&STACK, 0x12000), Err(Errno::EPERM));
        assert_eq!(set.changed(&Stack { size: 2047, ..STACK }, 0), Err(Errno::ENOMEM));
        assert_eq!(set.changed(&Stack { flags: 99, ..STACK }, 0), Err(Errno::EINVAL));
    }

    #[test]
    fn disarmed_on_entry() {
        let auto = Stack { flags: SS_AUTODISARM, ..STACK };
        let set = AltStack::NONE.changed(&auto, 0).unwrap();
        assert!(!set.is_used(0x12000) && set.covers(0x12000));
        assert_eq!(set.told(0x12000).flags, SS_AUTODISARM);
    }
}
