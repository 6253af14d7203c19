//! A device as the emulator shows it, and what others could look like.

extern crate std;

use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::vec::Vec;

const CONSOLE: DeviceFunction = DeviceFunction { bus: 0, device: 3, function: 0 };
const ABSENT: u32 = !0;
const COMMAND: usize = 1;
const BAR0: usize = 4;

/// The configuration space of one device on an otherwise empty bus.
#[derive(Clone)]
struct Bus(Rc<RefCell<Space>>);

struct Space {
    words: [u32; 64],
    /// Bits that can be written, of the base address registers.
    sizes: [u32; 6],
}

impl ConfigurationAccess for Bus {
    fn read_word(&self, function: DeviceFunction, at: u8) -> u32 {
        match function == CONSOLE {
            true => self.0.borrow().words[usize::from(at / 4)],
            false => ABSENT,
        }
    }
    fn write_word(&mut self, function: DeviceFunction, at: u8, data: u32) {
        assert_eq!(function, CONSOLE);
        let mut space = self.0.borrow_mut();
        let at = usize::from(at / 4);
        space.words[at] = match at.checked_sub(BAR0).filter(|&bar| bar < 6) {
            Some(5) => data,
            Some(bar) => data & space.sizes[bar] | space.words[at] & 0xf,
            None => data,
        };
    }
    unsafe fn unsafe_clone(&self) -> Self {
        self.clone()
    }
}

/// Base address registers 1 (the table of messages, 4 KiB) and 4 (the registers, 16 KiB, of 64 bits), with
/// the five capabilities, as QEMU has them.
fn qemu() -> Bus {
    let mut words = [0; 64];
    words[0] = 0x1043_1af4;
    words[COMMAND] = 1 << 20;
    words[2] = 0x0780_0001;
    words[BAR0 + 1] = 0xfebd_4000;
    words[BAR0 + 4] = 0xfe00_000c;
    words[13] = 0x84;
    let mut capability = |at: usize, next: u32, kind: u32, start: u32, bytes: u32| {
        words[at / 4] = 9 | next << 8 | 16 << 16 | kind << 24;
        words[at / 4 + 1..][..3].copy_from_slice(&[4, start, bytes]);
    };
    capability(0x84, 0x70, 5, 0, 0);
    capability(0x70, 0x60, 2, 0x3000, 0x1000);
    capability(0x60, 0x50, 4, 0x2000, 0x1000);
    capability(0x50, 0x40, 3, 0x1000, 0x1000);
    capability(0x40, 0x98, 1, 0, 0x1000);
    // The capability of notifications is longer by the multiplier; here the next begins behind it.
    words[0x70 / 4 + 4] = 4;
    words[0x98 / 4] = 0x11 | 1 << 16;
    words[0x98 / 4 + 1] = 1;
    words[0x98 / 4 + 2] = 0x801;
    let sizes = [0, !0xfff, 0, 0, !0x3fff, !0];
    Bus(Rc::new(RefCell::new(Space { words, sizes })))
}

fn look(bus: &Bus) -> Result<Found, Unusable> {
    find(&mut PciRoot::new(bus.clone()), bus, DeviceType::Console)
}

/// What becomes of the device after a change of its configuration space.
fn changed(change: impl FnOnce(&mut [u32; 64])) -> Result<Found, Unusable> {
    let bus = qemu();
    change(&mut bus.0.borrow_mut().words);
    look(&bus)
}

#[test]
fn the_emulators_device_is_found() {
    let bus = qemu();
    let before = bus.0.borrow().words;
    let found = look(&bus).unwrap();
    assert_eq!(bus.0.borrow().words, before, "looking changes nothing");
    assert_eq!((found.function, found.base), (CONSOLE, 0xfe00_0000));
    let part = |start, bytes| Part { start, bytes };
    let expected = Registers {
        bytes: 0x4000,
        common: part(0, 0x1000),
        notify: part(0x3000, 0x1000),
        multiplier: 4,
        device: part(0x2000, 0x1000),
    };
    assert_eq!(found.registers, expected);
    assert_eq!((found.vectors.page(), found.vectors.count), ((0xfebd_4000, 0), 2));
    assert_eq!(Registers::from_words(expected.to_words()), Some(expected));
    assert_eq!(Registers::from_words([0; 4]), None);
    let other = find(&mut PciRoot::new(bus.clone()), &bus, DeviceType::Network);
    assert_eq!(other, Err(Unusable::Missing));
}

#[test]
fn enabling_touches_the_command_and_the_messages_only() {
    let mut bus = qemu();
    let found = look(&bus).unwrap();
    let before = bus.0.borrow().words;
    enable(&mut PciRoot::new(bus.clone()), &mut bus, &found);
    let after = bus.0.borrow().words;
    let differ: Vec<usize> = (0..64).filter(|&at| before[at] != after[at]).collect();
    assert_eq!(differ, [COMMAND, 0x98 / 4]);
    // Memory, bus master, no pin.
    assert_eq!(after[COMMAND] & 0xffff, 1 << 1 | 1 << 2 | 1 << 10);
    assert_eq!(after[0x98 / 4], before[0x98 / 4] | 1 << 31);
}

#[test]
fn what_a_driver_must_not_have_is_refused() {
    // The table of messages in the pages of the registers.
    assert_eq!(changed(|words| words[0x98 / 4 + 1] = 4 | 0x2000), Err(Unusable::NoMessages));
    // The same registers, the table behind them: that is as good as elsewhere.
    let behind = changed(|words| {
        words[0x98 / 4 + 1] = 4 | 0x3000;
        words[0x70 / 4 + 2] = 0x1000;
    });
    assert!(behind.is_ok_and(|found| found.registers.bytes == 0x3000));
    // A table that goes on behind the end of its range.
    assert_eq!(changed(|words| words[0x98 / 4] |= 0x7ff << 16), Err(Unusable::NoMessages));
    // No address, or one inside a page, which others' registers may share.
    assert_eq!(changed(|words| words[BAR0 + 4] = 0xc), Err(Unusable::Scattered));
    assert_eq!(changed(|words| words[BAR0 + 1] = 0), Err(Unusable::NoMessages));
    // A part in another range, behind the end, or too small; a list of capabilities that is a circle.
    assert_eq!(changed(|words| words[0x70 / 4 + 1] = 1), Err(Unusable::Scattered));
    assert_eq!(changed(|words| words[0x70 / 4 + 2] = 0x3800), Err(Unusable::Incomplete));
    assert_eq!(changed(|words| words[0x70 / 4 + 2] = !0xfff), Err(Unusable::Incomplete));
    assert_eq!(changed(|words| words[0x40 / 4 + 3] = 16), Err(Unusable::Incomplete));
    assert_eq!(changed(|words| words[0x70 / 4 + 4] = 3), Err(Unusable::Incomplete));
    assert_eq!(changed(|words| words[13] = 0x50), Err(Unusable::Incomplete));
    assert!(changed(|words| words[0x98 / 4] |= 0x84 << 8).is_ok());
}

#[test]
fn words_of_no_device_are_refused() {
    let good = look(&qemu()).unwrap().registers;
    let bad = [
        Registers { bytes: 0x2000, ..good },
        Registers { common: Part { start: 2, ..good.common }, ..good },
        Registers { notify: Part { start: !0, bytes: 2 }, ..good },
        Registers { multiplier: 3, ..good },
        Registers { bytes: MOST_BYTES + 1, ..good },
    ];
    for registers in bad {
        assert_eq!(Registers::from_words(registers.to_words()), None, "{registers:?}");
    }
}

/// Of other devices the first base address register says where the registers are.
#[test]
fn a_plain_device_is_found_by_its_numbers() {
    let bus = qemu();
    bus.0.borrow_mut().sizes[0] = 0xfff0_0000;
    let find = |bus: &Bus, vendor, device| {
        crate::plain::find(&mut PciRoot::new(bus.clone()), vendor, device)
    };
    assert_eq!(find(&bus, 0x1af4, 0x1043), Err(Unusable::Scattered), "at address 0");
    bus.0.borrow_mut().words[BAR0] = 0xfea0_0000;
    let found = find(&bus, 0x1af4, 0x1043).unwrap();
    assert_eq!((found.function, found.base, found.bytes), (CONSOLE, 0xfea0_0000, 1 << 20));
    assert_eq!(found.number(), 3 << 3);
    assert_eq!(find(&bus, 0x1af4, 0x1044), Err(Unusable::Missing));
    let mut root = PciRoot::new(bus.clone());
    crate::plain::enable(&mut root, &found);
    // Memory, and reaching it; no interrupts.
    assert_eq!(bus.0.borrow().words[COMMAND] & 0xffff, 1 << 1 | 1 << 2 | 1 << 10);
}
