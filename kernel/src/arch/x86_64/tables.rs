//! Segment, task and interrupt descriptors of a core.
//!
//! Each core has its own set, inside its [`Core`](super::super::Core). Four exceptions that may
//! come at any instant have stacks of their own, so that they can be reported even where the
//! kernel's stack is the problem.

use super::entry;
use core::arch::asm;

/// Selectors, in the order that `syscall` and `sysretq` demand.
pub const KERNEL_CS: u16 = 0x08;
pub const KERNEL_SS: u16 = 0x10;
const TASK: u16 = 0x28;

/// Vectors of exceptions.
pub mod vector {
    pub const DEBUG: u8 = 1;
    pub const NMI: u8 = 2;
    pub const BREAKPOINT: u8 = 3;
    pub const OVERFLOW: u8 = 4;
    pub const DOUBLE_FAULT: u8 = 8;
    pub const PAGE_FAULT: u8 = 14;
    pub const MACHINE_CHECK: u8 = 18;
}

/// The separate stacks that a core needs, by their number in the task state segment.
pub const EMERGENCY_STACKS: usize = 4;
const STACK_OF_DOUBLE_FAULT: u8 = 1;
const STACK_OF_NMI: u8 = 2;
const STACK_OF_MACHINE_CHECK: u8 = 3;
const STACK_OF_DEBUG: u8 = 4;

/// The processor's 64-bit task state segment: nothing but stacks and the I/O permission offset.
#[repr(C, packed(4))]
struct TaskState {
    reserved0: u32,
    privilege_stacks: [u64; 3],
    reserved1: u64,
    emergency_stacks: [u64; 7],
    reserved2: u64,
    reserved3: u16,
    io_map: u16,
}

const _: () = assert!(size_of::<TaskState>() == 104);

#[derive(Clone, Copy)]
#[repr(C)]
struct Gate {
    offset_low: u16,
    selector: u16,
    stack: u8,
    kind: u8,
    offset_middle: u16,
    offset_high: u32,
    reserved: u32,
}

impl Gate {
    /// An interrupt gate: interrupts are off in the handler.
    fn new(handler: u64, stack: u8, from_user: bool) -> Gate {
        Gate {
            offset_low: handler as u16,
            selector: KERNEL_CS,
            stack,
            kind: if from_user { 0xee } else { 0x8e },
            offset_middle: (handler >> 16) as u16,
            offset_high: (handler >> 32) as u32,
            reserved: 0,
        }
    }

    fn for_vector(vector: u8) -> Gate {
        let stack = match vector {
            vector::DOUBLE_FAULT => STACK_OF_DOUBLE_FAULT,
            vector::NMI => STACK_OF_NMI,
            vector::MACHINE_CHECK => STACK_OF_MACHINE_CHECK,
            vector::DEBUG => STACK_OF_DEBUG,
            _ => 0,
        };
        let from_user = matches!(vector, vector::BREAKPOINT | vector::OVERFLOW);
        Gate::new(entry::stub(vector), stack, from_user)
    }
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// The tables of one core, and what they point to.
#[repr(C, align(16))]
pub struct Tables {
    segments: [u64; 7],
    task: TaskState,
    gates: [Gate; 256],
}

impl Tables {
    pub fn new() -> Tables {
        Tables {
            segments: [
                0,
                0x00af_9b00_0000_ffff, // kernel code
                0x00cf_9300_0000_ffff, // kernel data
                0x00cf_f300_0000_ffff, // user data
                0x00af_fb00_0000_ffff, // user code
                0,
                0,
            ],
            task: TaskState {
                reserved0: 0,
                privilege_stacks: [0; 3],
                reserved1: 0,
                emergency_stacks: [0; 7],
                reserved2: 0,
                reserved3: 0,
                io_map: size_of::<TaskState>() as u16,
            },
            gates: core::array::from_fn(|vector| Gate::for_vector(vector as u8)),
        }
    }

    /// Which stacks the processor switches to.
    pub fn set_stacks(&mut self, kernel: u64, emergency: [u64; EMERGENCY_STACKS]) {
        self.task.privilege_stacks = [kernel, 0, 0];
        let [double_fault, nmi, machine_check, debug] = emergency;
        self.task.emergency_stacks = [double_fault, nmi, machine_check, debug, 0, 0, 0];
    }

    /// Makes this core use them. GS is cleared by this, and must be set afterwards. There is no local
    /// descriptor table: the one that processors begin with lies at address 0, where user mode could
    /// put gates to the kernel's privilege level.
    ///
    /// # Safety
    /// `self` stays where it is for ever, and the stacks are set and mapped.
    pub unsafe fn load(&mut self) {
        let task = &raw const self.task as u64;
        let [low, high] = task_descriptor(task);
        self.segments[5] = low;
        self.segments[6] = high;
        let segments = Pointer {
            limit: (size_of_val(&self.segments) - 1) as u16,
            base: self.segments.as_ptr() as u64,
        };
        let gates = Pointer {
            limit: (size_of_val(&self.gates) - 1) as u16,
            base: self.gates.as_ptr() as u64,
        };
        // SAFETY: the caller's promise; the new code segment equals the present one.
        unsafe {
            asm!(
                "lgdt [{segments}]",
                "push {code}",
                "lea {scratch}, [rip + 2f]",
                "push {scratch}",
                "retfq",
                "2:",
                "mov ss, {data:e}",
                "mov ds, {null:e}",
                "mov es, {null:e}",
                "mov fs, {null:e}",
                "mov gs, {null:e}",
                "lldt {null:x}",
                "ltr {task:x}",
                "lidt [{gates}]",
                segments = in(reg) &segments,
                gates = in(reg) &gates,
                code = const KERNEL_CS,
                data = in(reg) u64::from(KERNEL_SS),
                null = in(reg) 0u64,
                task = in(reg) TASK,
                scratch = out(reg) _,
            );
        }
    }
}

fn task_descriptor(base: u64) -> [u64; 2] {
    const PRESENT_TASK: u64 = 0x89 << 40;
    let limit = size_of::<TaskState>() as u64 - 1;
    let low = limit | (base & 0xff_ffff) << 16 | PRESENT_TASK | (base >> 24 & 0xff) << 56;
    [low, base >> 32]
}
