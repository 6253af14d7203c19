//! What is lent with a call: who may have it copied, from where to where, and until when.

use super::machine::*;
use crate::arch;
use crate::object::{Dcb, DcbRef, Obj};
use captypes::invocations::{Copied, MapFlags, Reply, LENDS_READ, LENDS_WRITE};
use captypes::{op, CapAddr, CapType, Invocation, Place, Rights, Status};

const PAGE: u64 = 4096;
const PT: CapAddr = CapAddr(12);
const RW: MapFlags = MapFlags(MapFlags::READ.0 | MapFlags::WRITE.0);
const R: MapFlags = MapFlags::READ;
/// The endpoint, and a capability to call it.
const EP: CapAddr = CapAddr(20);
const CALL: CapAddr = CapAddr(21);

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

fn done(bytes: u64, short: u32) -> Result<Copied, Status> {
    Ok(Copied { bytes, short })
}

/// The frame in a slot as the kernel sees it.
fn bytes(m: &Machine, slot: u32, len: u64) -> &'static mut [u8] {
    let base = m.slot(at(slot)).cap().base;
    // SAFETY: memory of the machine, which only the test uses now.
    unsafe { std::slice::from_raw_parts_mut(arch::phys_to_virt(base), len as usize) }
}

/// Pages in slots 40 to 45 are mapped from address 0 on: the third only to be read, none at the fifth. All
/// dispatchers have the same address space. Slot 16: the server's dispatcher, which waits for calls.
fn setup() -> (Machine, DcbRef) {
    let mut m = Machine::new();
    for (n, ty) in [CapType::Pdpt, CapType::Pd, CapType::Pt].into_iter().enumerate() {
        let (above, slot) = ([VSPACE, at(14), at(13)][n], [at(14), at(13), PT][n]);
        m.make(ty, 0x80_0000 + n as u64 * PAGE, PAGE, slot.0);
        m.map(above, 0, 1, slot, RW, at(50 + n as u32)).unwrap();
    }
    for n in 0..6 {
        m.make(CapType::Frame, 0x90_0000 + u64::from(n) * PAGE, PAGE, 40 + n);
        let flags = if n == 2 { R } else { RW };
        if n != 4 {
            m.map(PT, n, 1, at(40 + n), flags, at(60 + n)).unwrap();
        }
        for (i, byte) in bytes(&m, 40 + n, PAGE).iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(7) ^ (i >> 8) as u8 ^ (n as u8 * 16);
        }
    }
    m.make(CapType::Endpoint, 0x8000, 4096, EP.0);
    m.call(EP, op::Mint { dst: CALL.into(), rights: Rights::SEND, badge: 9 }).unwrap();
    let server = m.second(0, 16);
    let third = m.second(0x10000, 30);
    m.core.local.sched.suspend(third).unwrap();
    m.core.local.sched.suspend(m.dcb).unwrap();
    m.run();
    assert_eq!(m.current(), Some(server));
    (m, server)
}

/// The third dispatcher, whose capability is in slot 30, may run.
fn resume_third(m: &mut Machine) -> DcbRef {
    let third = Obj::<Dcb>::of(&m.slot(at(30)).cap()).unwrap();
    m.core.local.sched.resume(third).unwrap();
    third
}

fn receive(m: &mut Machine, to: Place) {
    let none = Place::NULL;
    let args =
        op::ReplyRecv { w0: 0, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: none, recv: none, to };
    m.raw(EP.into(), 0, args);
}

/// The current dispatcher calls, and lends bytes.
fn call(m: &mut Machine, bits: u64, va: u64, bytes: u64) {
    let none = Place::NULL;
    let args = op::Call { w0: 1, w1: 2, w2: 3, w3: 4, w4: va, w5: bytes, caps: none, recv: none };
    m.raw_words(op::Call::LABEL as u64 | bits, Place::from(CALL).0, args.encode());
}

/// The first dispatcher calls, the server has received.
fn lending(bits: u64, va: u64, bytes: u64) -> (Machine, DcbRef) {
    let (mut m, server) = setup();
    m.core.local.sched.resume(m.dcb).unwrap();
    receive(&mut m, Place::NULL);
    assert_eq!(m.current(), Some(m.dcb));
    call(&mut m, bits, va, bytes);
    assert_eq!(m.current(), Some(server));
    (m, server)
}

/// The current dispatcher, which is not the first, invokes.
fn invoke<I: Invocation>(m: &mut Machine, target: Place, args: I) -> Result<I::Reply, Status> {
    let who = m.current().unwrap();
    m.raw(target, 0, args);
    assert_eq!(m.current(), Some(who));
    Status::from_word(who.ctx.rax.get())?;
    I::Reply::decode(&who.ctx.words())
}

fn take(m: &mut Machine, offset: u64, to: u64, bytes: u64) -> Result<Copied, Status> {
    invoke(m, Place::CALLER, op::CopyFromCaller { offset, to, bytes })
}

fn put(m: &mut Machine, offset: u64, from: u64, bytes: u64) -> Result<Copied, Status> {
    invoke(m, Place::CALLER, op::CopyToCaller { offset, from, bytes })
}

#[test]
fn whoever_is_called_reads_what_is_lent_and_no_more() {
    let (mut m, _) = lending(LENDS_READ, 100, PAGE);
    let own = bytes(&m, 43, PAGE);
    own.fill(0);
    assert_eq!(take(&mut m, 0, 3 * PAGE, 10), done(10, 0));
    assert_eq!(own[..10], bytes(&m, 40, PAGE)[100..110]);
    assert!(own[10..].iter().all(|&byte| byte == 0));
    // Across the pages, up to the end.
    assert_eq!(take(&mut m, PAGE - 110, 3 * PAGE, 200), done(110, 1));
    assert_eq!(own[..10], bytes(&m, 40, PAGE)[4086..]);
    assert_eq!(own[10..110], bytes(&m, 41, PAGE)[..100]);
    assert_eq!(take(&mut m, PAGE, 3 * PAGE, 1), done(0, 1));
    assert_eq!(take(&mut m, PAGE + 1, 3 * PAGE, 1), done(0, 1));
    assert_eq!(take(&mut m, u64::MAX, 3 * PAGE, 1), done(0, 1));
    // Not the other way.
    assert_eq!(put(&mut m, 0, 3 * PAGE, 10), Err(Status::NoRights));
    // The server's own memory is as for itself.
    assert_eq!(take(&mut m, 0, 2 * PAGE, 10), done(0, 2));
    assert_eq!(take(&mut m, 0, 4 * PAGE, 10), done(0, 2));
    assert_eq!(take(&mut m, 0, 4 * PAGE - 4, 10), done(4, 2));
    for va in [1 << 47, u64::MAX - 4, 0xffff_8000_0000_0000] {
        assert_eq!(take(&mut m, 0, va, 10), done(0, 2));
    }
}

#[test]
fn what_is_lent_to_be_written_to_is_written_where_the_caller_could() {
    // From the end of the second page over one that is read-only.
    let (mut m, _) = lending(LENDS_WRITE, 2 * PAGE - 8, 3 * PAGE);
    let before = bytes(&m, 42, PAGE).to_vec();
    assert_eq!(put(&mut m, 0, 0, 100), done(8, 1));
    assert_eq!(bytes(&m, 41, PAGE)[4088..], bytes(&m, 40, PAGE)[..8]);
    assert_eq!(put(&mut m, 8, 0, 100), done(0, 1));
    assert_eq!(bytes(&m, 42, PAGE), before);
    assert_eq!(put(&mut m, 8 + PAGE, 0, 100), done(100, 0));
    assert_eq!(bytes(&m, 43, PAGE)[..100], bytes(&m, 40, PAGE)[..100]);
    // Nothing is there.
    assert_eq!(put(&mut m, 8 + 2 * PAGE, 0, 100), done(0, 1));
    assert_eq!(take(&mut m, 0, 0, 100), Err(Status::NoRights));
}

#[test]
fn no_range_reaches_the_kernels_half_or_around_the_end() {
    for (va, len) in [
        (u64::MAX - 4, 100),
        (u64::MAX, 1),
        (1 << 47, 100),
        (0xffff_8000_0000_0000, 100),
        (0xffff_ffff_8000_0000, 1 << 20),
        (0, 0),
    ] {
        let (mut m, _) = lending(LENDS_READ | LENDS_WRITE, va, len);
        for offset in [0, 1, 5, 1 << 40, u64::MAX] {
            assert_eq!(take(&mut m, offset, 3 * PAGE, 64), done(0, 1), "{va:#x} {offset:#x}");
            assert_eq!(put(&mut m, offset, 3 * PAGE, 64), done(0, 1), "{va:#x} {offset:#x}");
        }
    }
    // All of its memory, and more: as far as there is some.
    let (mut m, _) = lending(LENDS_READ, 0, 1 << 62);
    assert_eq!(take(&mut m, 0, 5 * PAGE, 100), done(100, 0));
    assert_eq!(take(&mut m, (1 << 47) - 1, 5 * PAGE, 100), done(0, 1));
}

#[test]
fn nothing_is_lent_when_the_call_is_over_or_by_those_who_do_not_call() {
    let (mut m, server) = lending(LENDS_READ | LENDS_WRITE, 0, PAGE);
    let args = op::CopyFromCaller { offset: 0, to: 3 * PAGE, bytes: 8 };
    assert_eq!(invoke(&mut m, DISPATCHER.into(), args), done(8, 0));
    // To itself, to nobody, to what is no dispatcher.
    assert_eq!(invoke(&mut m, at(16).into(), args), Err(Status::WrongState));
    assert_eq!(invoke(&mut m, at(19).into(), args), Err(Status::Empty));
    assert_eq!(invoke(&mut m, EP.into(), args), Err(Status::WrongType));
    // A third one that has the same capabilities was not called.
    let third = resume_third(&mut m);
    m.core.local.sched.suspend(server).unwrap();
    m.run();
    assert_eq!(m.current(), Some(third));
    assert_eq!(invoke(&mut m, DISPATCHER.into(), args), Err(Status::WrongState));
    let back = op::CopyToCaller { offset: 0, from: 3 * PAGE, bytes: 8 };
    assert_eq!(invoke(&mut m, DISPATCHER.into(), back), Err(Status::WrongState));
    let between = op::CopyBetween { offset: 0, to: DISPATCHER.into(), to_offset: 0, bytes: 8 };
    assert_eq!(invoke(&mut m, DISPATCHER.into(), between), Err(Status::WrongState));
    // The server answers: that is the end.
    m.core.local.sched.suspend(third).unwrap();
    m.core.local.sched.resume(server).unwrap();
    m.run();
    let reply = op::Reply { w0: 0, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: Place::NULL };
    m.core.local.sched.suspend(m.dcb).unwrap();
    m.raw(DISPATCHER.into(), 0, reply);
    assert_eq!(m.current(), Some(server));
    assert_eq!(invoke(&mut m, DISPATCHER.into(), args), Err(Status::WrongState));
    assert_eq!(take(&mut m, 0, 3 * PAGE, 8), Err(Status::WrongState));
}

#[test]
fn what_changes_while_it_is_lent_has_changed() {
    let (mut m, _) = lending(LENDS_READ | LENDS_WRITE, 0, 2 * PAGE);
    assert_eq!(take(&mut m, 0, 3 * PAGE, 2 * PAGE).unwrap().bytes, PAGE);
    assert_eq!(take(&mut m, 0, 5 * PAGE, PAGE), done(PAGE, 0));
    // The first page goes, the second may not be written to any more.
    let flags = R;
    assert_eq!(invoke(&mut m, at(61).into(), op::Protect { first: 0, count: 1, flags }), Ok(()));
    assert_eq!(invoke(&mut m, at(60).into(), op::Delete {}), Ok(()));
    assert_eq!(take(&mut m, 0, 3 * PAGE, 8), done(0, 1));
    assert_eq!(take(&mut m, PAGE, 3 * PAGE, 8), done(8, 0));
    assert_eq!(put(&mut m, PAGE, 3 * PAGE, 8), done(0, 1));
    assert_eq!(put(&mut m, 0, 3 * PAGE, 8), done(0, 1));
}

#[test]
fn between_two_callers_one_copy_goes_by_the_rights_of_each() {
    let (mut m, server) = lending(LENDS_READ, 50, 1000);
    let third = resume_third(&mut m);
    m.core.local.sched.suspend(server).unwrap();
    m.run();
    assert_eq!(m.current(), Some(third));
    call(&mut m, LENDS_WRITE, 4 * PAGE - 600, 2 * PAGE);
    m.core.local.sched.resume(server).unwrap();
    m.run();
    receive(&mut m, Place::NULL);
    let copy =
        |offset, to_offset, bytes| op::CopyBetween { offset, to: at(30).into(), to_offset, bytes };
    let (first, back) = (Place::from(DISPATCHER), Place::from(DISPATCHER));
    assert_eq!(invoke(&mut m, first, copy(10, 5, 100)), done(100, 0));
    assert_eq!(bytes(&m, 43, PAGE)[3501..3601], bytes(&m, 40, PAGE)[60..160]);
    // Either side ends.
    assert_eq!(invoke(&mut m, first, copy(10, 0, 2000)), done(600, 2));
    assert_eq!(invoke(&mut m, first, copy(900, 0, 2000)), done(100, 1));
    assert_eq!(invoke(&mut m, first, copy(0, 600, 8)), done(0, 2));
    assert_eq!(invoke(&mut m, first, copy(1000, 600, 8)), done(0, 1));
    // The target's third page is to be read only.
    let target = bytes(&m, 42, PAGE).to_vec();
    receive(&mut m, at(30).into());
    m.core.local.sched.suspend(server).unwrap();
    m.run();
    call(&mut m, LENDS_WRITE, 2 * PAGE, PAGE);
    m.core.local.sched.resume(server).unwrap();
    m.run();
    assert_eq!(m.current(), Some(server));
    assert_eq!(invoke(&mut m, first, copy(0, 0, 8)), done(0, 2));
    assert_eq!(bytes(&m, 42, PAGE), target);
    // Not the other way, and not to oneself.
    let other = op::CopyBetween { offset: 0, to: back, to_offset: 0, bytes: 8 };
    assert_eq!(invoke(&mut m, at(30).into(), other), Err(Status::NoRights));
    assert_eq!(invoke(&mut m, first, other), Err(Status::NoRights));
    let own = op::CopyBetween { to: at(16).into(), ..other };
    assert_eq!(invoke(&mut m, first, own), Err(Status::WrongState));
}

#[test]
fn a_copy_is_bounded() {
    let (mut m, _) = lending(LENDS_READ, 0, 1 << 40);
    let frame = m.slot(at(40)).cap().base;
    // The same page everywhere.
    let table = crate::object::Table::at(m.slot(PT).cap().base);
    let entry = table.get(0);
    assert_eq!(entry & 0xf_ffff_f000, frame);
    m.checking = false;
    (6..512).for_each(|n| table.set(n, entry));
    assert_eq!(take(&mut m, 6 * PAGE, 100 * PAGE, 1 << 30), done(256 << 10, 0));
}

#[test]
fn whoever_faults_lends_nothing_whatever_its_registers_say() {
    use crate::object::dcb::flag;
    let (mut m, _) = lending(LENDS_READ | LENDS_WRITE, 0, PAGE);
    for what in [flag::FAULT, flag::REDIRECTED] {
        m.dcb.set(what);
        assert_eq!(take(&mut m, 0, 3 * PAGE, 8), Err(Status::WrongState));
        assert_eq!(put(&mut m, 0, 3 * PAGE, 8), Err(Status::WrongState));
        m.dcb.clear(what);
    }
    assert_eq!(take(&mut m, 0, 3 * PAGE, 8), done(8, 0));
}
