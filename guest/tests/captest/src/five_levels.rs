//! Paging with five levels (LA57): the same tables, one level more, and addresses above 2^47 that
//! programs use like any other. On a machine with four levels: that a fifth is of no use.

use crate::probe::{make_tables, probe, Access, PDPT, PT};
use crate::setup::{slot, Lab};
use crate::threads;
use crate::Test;
use core::arch::naked_asm;
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots;
use libos::captypes::{Label, Status};
use libos::status::TableView;
use libos::vspace::{root, R, RW, RWX, RX};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("five_levels_root", the_root),
    ("five_levels_map", map_above),
    ("five_levels_execute", execute_above),
];

/// In the fourth of the 256 TiB below the root.
const HIGH: u64 = 3 << 48;
const PML4: CapAddr = slot(226);
const PML4_MAPPING: CapAddr = slot(227);
const PDPT_MAPPING: CapAddr = slot(228);

fn has_five_levels() -> bool {
    root() != slots::VSPACE
}

/// A root is a table of the machine's highest level, and no other.
fn the_root(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Pml4, 0, PAGE, slot(0)));
    good!(lab.make(CapType::Pml5, PAGE, PAGE, slot(1)));
    good!(threads::make(lab, 0));
    let with = |vspace: CapAddr| {
        let configuration = op::Configure {
            cspace: slots::ROOT.into(),
            vspace: vspace.into(),
            frame: threads::frame(0).into(),
            frame_va: NATIVE_FRAME,
            fault_ep: Place::NULL,
            options: 0,
        };
        invoke(threads::dispatcher(0), configuration)
    };
    let (right, wrong) = if has_five_levels() { (1, 0) } else { (0, 1) };
    fails!(WrongType, with(slot(wrong)));
    good!(with(slot(right)));
    // The kernel's half of a root is nobody's; a table below a root belongs to user mode as a whole.
    fails!(OutOfRange, slot(right).read_entry(256));
    fails!(OutOfRange, slot(1).read_entry(256));
    check!(slot(0).read_entry(511).is_ok() == has_five_levels());
    Ok(())
}

/// Tables down to [`PT`] at [`HIGH`], besides those that [`make_tables`] makes.
fn make_high_tables(lab: &mut Lab) -> Result<(), Status> {
    make_tables(lab)?;
    lab.make(CapType::Pml4, 0, PAGE, PML4)?;
    root().map((HIGH >> 48) as u32, 1, PML4, 0, RWX, PML4_MAPPING)?;
    PML4.map(0, 1, PDPT, 0, RWX, PDPT_MAPPING)
}

/// Mapping, status bits, protection and revocation above 2^47; the tables below are shared with the
/// lower half.
fn map_above(lab: &mut Lab) -> Outcome {
    if !has_five_levels() {
        good!(lab.make(CapType::Pml4, 0, PAGE, PML4));
        fails!(WrongLevel, root().map(200, 1, PML4, 0, RWX, PML4_MAPPING));
        return Ok(());
    }
    good!(make_high_tables(lab));
    good!(lab.make(CapType::Frame, PAGE, 2 * PAGE, slot(0)));
    good!(PT.map(5, 2, slot(0), 0, RW, slot(1)));
    good!(PT.map(511, 1, PT, 0, R, slot(2)));
    let va = HIGH + 6 * PAGE + 0x128;
    // SAFETY: mapped a moment ago, writable.
    unsafe { core::ptr::write_volatile(va as *mut u64, 57) };
    // SAFETY: the table is mapped there as a page until the test is over.
    let view = unsafe { TableView::at((HIGH + 511 * PAGE) as *const _) };
    check!(view.dirty().eq([6]));
    let mut word = [0; 8];
    good!(good!(lab.window.open(slot(0), PAGE, PAGE, R)).read(0x128, &mut word));
    check!(word == 57u64.to_le_bytes());
    let at = good!(invoke(slot(1), op::Locate { root: root().into(), number: 1 }));
    check!((at.address, at.count) == (HIGH + 5 * PAGE, 2));
    good!(slot(1).protect(1, 1, R));
    check!(good!(probe(lab, va, Access::Write)).is_forbidden(va, Access::Write));
    check!(good!(probe(lab, va, Access::Read)) == crate::probe::Seen::Done(57));
    good!(slot(0).revoke());
    check!(good!(probe(lab, va, Access::Read)).is_absent(va, Access::Read));
    // The last user address, and the first that is none.
    let last = (1 << 56) - 8;
    check!(good!(probe(lab, last, Access::Read)).is_absent(last, Access::Read));
    let beyond = good!(probe(lab, 1 << 56, Access::Read));
    check!(matches!(beyond, crate::probe::Seen::Fault { vector: 13, .. }));
    Ok(())
}

/// Executes an invocation, then as many rounds of nothing as `rsi` says, then the invocation again,
/// and returns the sum of their answers.
#[unsafe(naked)]
extern "C" fn high_code(_place: u64, _rounds: u64) -> u64 {
    naked_asm!(
        "push rbx",
        "push r12",
        "push r13",
        "mov r8, rdi",
        "mov rbx, rsi",
        "mov eax, {no_op}",
        "syscall",
        "mov r9, rax",
        "2: dec rbx",
        "jnz 2b",
        "mov rdi, r8",
        "push r9",
        "mov eax, {no_op}",
        "syscall",
        "pop r9",
        "add rax, r9",
        "pop r13",
        "pop r12",
        "pop rbx",
        "ret",
        no_op = const Label::NoOp as u32,
    )
}

/// A program above 2^47: system calls return there, and interrupts.
fn execute_above(lab: &mut Lab) -> Outcome {
    if !has_five_levels() {
        return Ok(());
    }
    /// More than a time slice.
    const ROUNDS: u64 = 100_000_000;
    const CODE_BYTES: usize = 128;
    good!(make_high_tables(lab));
    good!(lab.make(CapType::Frame, PAGE, PAGE, slot(0)));
    // SAFETY: the function is shorter, and this program's text goes on behind it.
    let code = unsafe { core::slice::from_raw_parts(high_code as *const u8, CODE_BYTES) };
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(0x40, code));
    good!(PT.map(9, 1, slot(0), 0, RX, slot(1)));
    let entry = HIGH + 9 * PAGE + 0x40;
    // SAFETY: the copy of the function, which does not depend on where it is.
    let copy: extern "C" fn(u64, u64) -> u64 = unsafe { core::mem::transmute(entry as usize) };
    check!(copy(Place::from(slot(0)).0, ROUNDS) == 0);
    check!(copy(Place::from(slot(9)).0, 1) == 2 * Status::Empty.to_word());
    // Table by table, the way there can be taken away.
    good!(PML4_MAPPING.delete());
    check!(good!(probe(lab, entry, Access::Execute)).is_absent(entry, Access::Execute));
    Ok(())
}
