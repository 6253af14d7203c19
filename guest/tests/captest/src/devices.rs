//! Ports, interrupt lines and performance counters, with the devices of every PC.

use crate::scheduling::{ms, now, sleep};
use crate::setup::{slot, Lab};
use crate::threads::{self, EP};
use crate::Test;
use libos::abi::slots::{DISPATCHER, IO, IRQ, PERFMON};
use libos::captypes::CapType::*;
use libos::ipc;
use libos::{invoke, op, Cap, CapAddr, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("ports_of_the_clock", ports),
    ("ports_by_rights", port_rights),
    ("interrupts_to_an_endpoint", interrupts),
    ("interrupts_to_a_dispatcher", to_a_dispatcher),
    ("interrupts_end_with_their_endpoint", end_with_endpoint),
    ("interrupt_errors", interrupt_errors),
    ("interrupt_messages", messages),
    ("performance_counters", counters),
];

/// The real-time clock: two ports, a line, registers.
const CLOCK_PORTS: CapAddr = slot(0);
const CLOCK_LINE: CapAddr = slot(1);
const CLOCK_FIRST: u16 = 0x70;
const LINE: u64 = 8;
/// All lines, and the first of those that are raised by messages.
const LINES: u64 = 32;
const FIRST_MESSAGE: u64 = 16;
const REGISTER_A: u8 = 0x0a;
/// Interrupts that are looked at: some milliseconds.
const TICKS: u32 = 200;
const REGISTER_B: u8 = 0x0b;
const REGISTER_C: u8 = 0x0c;
/// Register B: interrupt at the rate in register A.
const PERIODIC: u8 = 1 << 6;
const BITS: u64 = 1 << 17;

fn read(register: u8) -> Result<u8, Status> {
    invoke(CLOCK_PORTS, op::PortOut { port: CLOCK_FIRST, width: 1, value: register.into() })?;
    invoke(CLOCK_PORTS, op::PortIn { port: CLOCK_FIRST + 1, width: 1 }).map(|r| r.value as u8)
}

fn write(register: u8, value: u8) -> Result<(), Status> {
    invoke(CLOCK_PORTS, op::PortOut { port: CLOCK_FIRST, width: 1, value: register.into() })?;
    invoke(CLOCK_PORTS, op::PortOut { port: CLOCK_FIRST + 1, width: 1, value: value.into() })
}

fn take_clock() -> Result<(), Status> {
    IO.retype(Io, CLOCK_FIRST.into(), 2, 1, CLOCK_PORTS)?;
    IRQ.retype(Irq, LINE, 1, 1, CLOCK_LINE)
}

/// 1024 interrupts in a second, or none.
fn tick(on: bool) -> Result<(), Status> {
    write(REGISTER_A, 0x26)?;
    let other = read(REGISTER_B)? & !PERIODIC;
    write(REGISTER_B, other)?;
    // Forgets what has come already; not what comes from now on.
    read(REGISTER_C)?;
    if on {
        write(REGISTER_B, other | PERIODIC)?;
    }
    Ok(())
}

/// The clock has bytes of memory that nothing else in this machine uses.
fn ports(_: &mut Lab) -> Outcome {
    const BYTE: u8 = 0x51;
    good!(take_clock());
    let before = good!(read(BYTE));
    for value in [0x5a, 0xa5, before] {
        good!(write(BYTE, value));
        check!(good!(read(BYTE)) == value);
    }
    check!(good!(read(REGISTER_A)) & 0x70 == 0x20);
    // A sub-range of the sub-range, and what is outside of it.
    good!(CLOCK_PORTS.retype(Io, 1, 1, 1, slot(5)));
    let what = good!(slot(5).identify());
    check!((what.base, what.bytes) == (u64::from(CLOCK_FIRST) + 1, 1));
    fails!(OutOfRange, invoke(slot(5), op::PortIn { port: CLOCK_FIRST, width: 1 }));
    fails!(OutOfRange, invoke(slot(5), op::PortIn { port: CLOCK_FIRST + 1, width: 2 }));
    fails!(OutOfRange, invoke(slot(5), op::PortOut { port: 0x80, width: 1, value: 0 }));
    fails!(HasDescendants, CLOCK_PORTS.retype(Io, 0, 2, 1, slot(6)));
    fails!(HasDescendants, IO.retype(Io, u64::from(CLOCK_FIRST) + 1, 4, 1, slot(7)));
    good!(IO.revoke());
    fails!(Empty, slot(5).identify());
    Ok(())
}

fn port_rights(_: &mut Lab) -> Outcome {
    good!(take_clock());
    let port = CLOCK_FIRST;
    good!(CLOCK_PORTS.mint(slot(2), Rights::READ));
    good!(CLOCK_PORTS.mint(slot(3), Rights::WRITE));
    good!(invoke(slot(2), op::PortIn { port, width: 1 }));
    fails!(NoRights, invoke(slot(2), op::PortOut { port, width: 1, value: 0 }));
    let bytes = op::PortOutBytes { port, len: 1, w0: 0, w1: 0, w2: 0, w3: 0, w4: 0 };
    fails!(NoRights, invoke(slot(2), bytes));
    good!(invoke(slot(3), bytes));
    fails!(NoRights, invoke(slot(3), op::PortIn { port, width: 1 }));
    good!(slot(3).retype(Io, 0, 1, 1, slot(4)));
    fails!(NoRights, invoke(slot(4), op::PortIn { port, width: 1 }));
    Ok(())
}

/// The next notification that comes within a while.
fn next_notification() -> Result<Option<u64>, Status> {
    invoke(DISPATCHER, op::SetTimer { deadline: now() + 500 * ms() })?;
    let message = ipc::recv(EP, Place::NULL)?;
    invoke(DISPATCHER, op::SetTimer { deadline: 0 })?;
    let bits = message.words[0] & !(1 << 63);
    Ok((message.is_notification() && bits != 0).then_some(bits))
}

/// Whoever receives at an endpoint gets the interrupts of a line, one for each acknowledgement.
fn interrupts(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(take_clock());
    // Who asks becomes the receiver.
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    good!(EP.mint(slot(3), Rights::SEND));
    good!(invoke(CLOCK_LINE, op::IrqBind { bits: BITS, to: slot(3).into() }));
    good!(tick(true));
    // One for each acknowledgement: every one finds the clock's flag.
    for _ in 0..TICKS {
        check!(good!(next_notification()) == Some(BITS));
        check!(good!(read(REGISTER_C)) & 0xc0 == 0xc0);
        good!(invoke(CLOCK_LINE, op::IrqAck {}));
    }
    // Not acknowledged: no other one, however often the clock wants.
    check!(good!(next_notification()) == Some(BITS));
    good!(read(REGISTER_C));
    good!(sleep(20 * ms()));
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    good!(read(REGISTER_C));
    good!(invoke(CLOCK_LINE, op::IrqAck {}));
    check!(good!(next_notification()) == Some(BITS));
    // Bound to nobody.
    good!(invoke(CLOCK_LINE, op::IrqBind { bits: 0, to: Place::NULL }));
    good!(read(REGISTER_C));
    good!(sleep(20 * ms()));
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    good!(tick(false));
    Ok(())
}

fn to_a_dispatcher(_: &mut Lab) -> Outcome {
    good!(take_clock());
    for to in [Place::NULL, DISPATCHER.into()] {
        good!(invoke(CLOCK_LINE, op::IrqBind { bits: BITS, to }));
        good!(tick(true));
        check!(good!(invoke(DISPATCHER, op::Wait {})).value & BITS != 0);
        good!(tick(false));
        good!(read(REGISTER_C));
    }
    // The last capability to the line goes: nobody is notified any more.
    good!(CLOCK_LINE.delete());
    good!(tick(true));
    check!(good!(sleep(20 * ms())) & BITS == 0);
    good!(tick(false));
    Ok(())
}

fn end_with_endpoint(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(take_clock());
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    good!(invoke(CLOCK_LINE, op::IrqBind { bits: BITS, to: EP.into() }));
    good!(EP.delete());
    good!(tick(true));
    check!(good!(sleep(20 * ms())) & BITS == 0);
    fails!(WrongState, invoke(CLOCK_LINE, op::IrqAck {}));
    good!(tick(false));
    Ok(())
}

fn interrupt_errors(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(take_clock());
    let bind = |to| op::IrqBind { bits: BITS, to };
    fails!(OutOfRange, invoke(IRQ, bind(Place::NULL)));
    fails!(OutOfRange, invoke(IRQ, op::IrqAck {}));
    fails!(WrongType, invoke(CLOCK_LINE, bind(lab.ram.into())));
    fails!(WrongType, invoke(CLOCK_PORTS, bind(Place::NULL)));
    fails!(Empty, invoke(CLOCK_LINE, bind(slot(30).into())));
    fails!(NoSlot, invoke(CLOCK_LINE, bind(Place::l1(CapAddr::NULL, 1 << 20))));
    good!(EP.mint(slot(3), Rights::RECV));
    fails!(NoRights, invoke(CLOCK_LINE, bind(slot(3).into())));
    fails!(WrongState, invoke(CLOCK_LINE, op::IrqAck {}));
    fails!(HasDescendants, IRQ.retype(Irq, LINE, 1, 1, slot(4)));
    fails!(OutOfRange, IRQ.retype(Irq, LINES, 1, 1, slot(5)));
    good!(lab.make(Dispatcher, 0, PAGE, slot(6)));
    // One that was not configured can be named, but hears nothing.
    good!(invoke(CLOCK_LINE, bind(slot(6).into())));
    good!(slot(6).delete());
    fails!(WrongState, invoke(CLOCK_LINE, op::IrqAck {}));
    Ok(())
}

/// Lines without a pin are raised by messages, each by one of its own, to the local APIC; and only those.
fn messages(_: &mut Lab) -> Outcome {
    const TO_LOCAL_APIC: u64 = 0xfee0_0000;
    const FIRST_VECTOR: u64 = 32;
    good!(take_clock());
    fails!(Unsupported, invoke(CLOCK_LINE, op::IrqMessage {}));
    fails!(OutOfRange, invoke(IRQ, op::IrqMessage {}));
    fails!(WrongType, invoke(CLOCK_PORTS, op::IrqMessage {}));
    for line in [FIRST_MESSAGE, LINES - 1] {
        good!(IRQ.retype(Irq, line, 1, 1, slot(5)));
        let message = good!(invoke(slot(5), op::IrqMessage {})).value;
        check!(message as u32 as u64 & 0xfff0_0fff == TO_LOCAL_APIC);
        check!(message >> 32 == FIRST_VECTOR + line);
        good!(slot(5).delete());
    }
    Ok(())
}

/// The time-stamp counter always counts; of others those that the processor has, and the rest is a
/// typed error.
fn counters(lab: &mut Lab) -> Outcome {
    const INSTRUCTIONS: u64 = 0xc0;
    const USER: u64 = 1 << 16;
    let read = |counter| invoke(PERFMON, op::PerfRead { counter }).map(|r| r.value);
    let program = |counter, event| invoke(PERFMON, op::PerfProgram { counter, event });
    let (first, between, second) = (good!(read(0)), now(), good!(read(0)));
    check!(first < between && between < second);
    fails!(WrongState, program(0, USER | INSTRUCTIONS));
    let info = good!(invoke(PERFMON, op::PerfInfo {})).value;
    let (programmable, fixed) = (info as u8 as u32, (info >> 8) as u8 as u32);
    libos::log!("performance_counters: {programmable} programmable, {fixed} fixed");
    fails!(Unsupported, program(1 + programmable, USER | INSTRUCTIONS));
    fails!(Unsupported, read(1 + programmable));
    fails!(Unsupported, program(64 + fixed, USER));
    fails!(Unsupported, read(64 + fixed));
    fails!(Unsupported, read(u32::MAX));
    for counter in (1..1 + programmable.min(1)).chain(64..64 + fixed.min(1)) {
        let event = if counter < 64 { USER | INSTRUCTIONS } else { USER };
        good!(program(counter, event));
        let start = good!(read(counter));
        (0..10_000).for_each(|n| _ = core::hint::black_box(n));
        check!(good!(read(counter)) >= start + 10_000);
        good!(program(counter, 0));
        fails!(Invalid, program(counter, 1 << 20));
    }
    good!(PERFMON.mint(slot(0), Rights::READ));
    good!(invoke(slot(0), op::PerfRead { counter: 0 }));
    fails!(NoRights, invoke(slot(0), op::PerfProgram { counter: 1, event: USER }));
    good!(PERFMON.mint(slot(1), Rights::NONE));
    fails!(NoRights, invoke(slot(1), op::PerfRead { counter: 0 }));
    fails!(WrongType, invoke(lab.ram, op::PerfInfo {}));
    Ok(())
}
