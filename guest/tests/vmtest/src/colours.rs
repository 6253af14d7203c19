//! Page colours.

use crate::probe::{load, store};
use crate::setup::Lab;
use crate::Test;
use libos::abi::slots::MEMD;
use libos::frame::{Frame, FrameRequest};
use libos::memory::{self, Anonymous, Map, Object, PageSize};
use libos::{colour, log, memd, Cap, Status, PAGE};

extern crate alloc;
use alloc::vec::Vec;
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] =
    &[("colours_of_frames", frames), ("colours_of_anonymous_memory", anonymous)];

fn frames(_: &mut Lab) -> Outcome {
    let count = good!(memd::stats(MEMD)).colours;
    log!("{count} page colours; the cache has {}", colour::of_cache());
    check!(count.is_power_of_two() && count <= colour::MAX);
    let mut all: Vec<Frame> = Vec::new();
    for n in 0..200 {
        let wanted = 1 << (n % count) | 1 << (n * 7 % count);
        let frame = good!(Frame::with(FrameRequest::bytes(PAGE).coloured(wanted)));
        let base = good!(frame.cap().identify()).base;
        check!(wanted >> colour::of(base, count) & 1 != 0);
        all.push(frame);
    }
    let refused = |request| Frame::with(request).err() == Some(Status::OutOfRange);
    check!(refused(FrameRequest::bytes(2 * PAGE).coloured(1)));
    check!(refused(FrameRequest::bytes(PAGE).aligned(2 * PAGE).coloured(1)));
    check!(count == 64 || refused(FrameRequest::bytes(PAGE).coloured(1 << count)));
    Ok(())
}

fn anonymous(_: &mut Lab) -> Outcome {
    let count = good!(memd::stats(MEMD)).colours;
    let wanted = 1 << (count - 1);
    let object = good!(Anonymous::new(64 * PAGE, PageSize::Base)).with_colours(wanted);
    let object = Object::new(object);
    let region = good!(memory::map(&object, Map::default()));
    for page in 0..64 {
        let at = region.start() + page * PAGE;
        check!(store(at, page) == Ok(()) && load(at) == Ok(page));
        let mapped = good!(memory::pages(|pages| Ok(pages.lookup(at))));
        let frame = mapped.map(|mapped| mapped.frame).ok_or(Status::Empty);
        let base = good!(good!(frame).identify()).base;
        check!(colour::of(base, count) == count - 1);
    }
    Ok(())
}
