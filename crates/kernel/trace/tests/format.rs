//! A trace comes back from its file as it was, and from a damaged file not at all.

use proptest::prelude::*;
use std::collections::BTreeMap;
use trace::dump::{CoreEvents, Damage, Dump, Function};
use trace::event::{FUNCTION_BITS, PAYLOAD_BITS, TIME_BITS};
use trace::{Event, Mark, What};

fn mark() -> impl Strategy<Value = Mark> {
    let payload = 0..1u32 << PAYLOAD_BITS;
    prop_oneof![
        Just(Mark::Calibrate),
        Just(Mark::Idle),
        Just(Mark::Leave),
        payload.clone().prop_map(Mark::Switch),
        payload.clone().prop_map(Mark::Created),
        payload.clone().prop_map(Mark::Upcall),
        payload.clone().prop_map(Mark::Program),
        payload.clone().prop_map(Mark::LinuxCall),
        payload.prop_map(Mark::Thread),
    ]
}

/// An event's content, with functions numbered from 0 to 9.
fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        (0..10u32).prop_map(What::Enter),
        (0..10u32).prop_map(What::Exit),
        mark().prop_map(What::Mark),
    ]
}

fn dump() -> impl Strategy<Value = Dump> {
    let events = prop::collection::vec((any::<u64>(), what()), 0..40);
    let core = (events, any::<u64>()).prop_map(|(events, lost)| CoreEvents {
        events: events.into_iter().map(|(time, what)| Event::new(time, what)).collect(),
        lost,
    });
    let cores = prop::collection::vec(core, 0..4);
    let images = prop::collection::vec(".{0,12}", 1..4);
    let names = prop::collection::vec(".{0,30}", 10);
    (any::<[bool; 2]>(), images, names, cores).prop_map(|(flags, images, names, cores)| {
        let [counts_instructions, begins_with_program] = flags;
        let count = images.len() as u32;
        let functions = names
            .into_iter()
            .zip(0..)
            .map(|(name, n)| (n, Function { image: n % count, file: name.to_uppercase(), name }))
            .collect::<BTreeMap<_, _>>();
        Dump { counts_instructions, begins_with_program, images, functions, cores }
    })
}

proptest! {
    #[test]
    fn events_say_what_they_were_made_of(time in any::<u64>(), what in what()) {
        let event = Event::new(time, what);
        prop_assert_eq!(event.what(), Ok(what));
        prop_assert_eq!(event.time(), time % (1 << TIME_BITS));
    }

    #[test]
    fn every_word_is_an_event_or_none(word in any::<u64>()) {
        if let Ok(what) = Event(word).what() {
            prop_assert_eq!(Event::new(Event(word).time(), what), Event(word));
        }
    }

    #[test]
    fn a_trace_comes_back(dump in dump()) {
        prop_assert_eq!(Dump::from_bytes(&dump.to_bytes()), Ok(dump));
    }

    #[test]
    fn a_changed_byte_is_noticed(
        dump in dump(),
        at in any::<prop::sample::Index>(),
        change in 1..=255u8,
    ) {
        let mut bytes = dump.to_bytes();
        *at.get_mut(&mut bytes) ^= change;
        prop_assert!(Dump::from_bytes(&bytes).is_err());
    }

    #[test]
    fn a_cut_is_noticed(dump in dump(), at in any::<prop::sample::Index>()) {
        let bytes = dump.to_bytes();
        prop_assert!(Dump::from_bytes(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn more_is_noticed(dump in dump(), more in prop::collection::vec(any::<u8>(), 1..9)) {
        let mut bytes = dump.to_bytes();
        bytes.extend(more);
        prop_assert_eq!(Dump::from_bytes(&bytes), Err(Damage::TooLong));
    }

    #[test]
    fn nonsense_is_no_trace(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Dump::from_bytes(&bytes).is_err());
        let mut begins_well = Dump::default().to_bytes()[..16].to_vec();
        begins_well.extend(bytes);
        prop_assert!(Dump::from_bytes(&begins_well).is_err());
    }
}

fn one_event(event: Event) -> Dump {
    let function = Function { image: 0, name: "f".into(), file: "f.rs".into() };
    Dump {
        images: vec!["kernel".into()],
        functions: [(1, function)].into(),
        cores: vec![CoreEvents { events: vec![event], lost: 0 }],
        ..Dump::default()
    }
}

#[test]
fn damage_has_names() {
    let unknown = one_event(Event::new(0, What::Enter(2))).to_bytes();
    assert_eq!(
        Dump::from_bytes(&unknown),
        Err(Damage::Malformed("an event of an unknown function"))
    );
    let strange = Event(3 << FUNCTION_BITS);
    assert_eq!(strange.what(), Err(trace::event::NoEvent(strange.0)));
    assert!(matches!(Dump::from_bytes(&one_event(strange).to_bytes()), Err(Damage::Event(_))));
    assert_eq!(Dump::from_bytes(b"TESSERA TRACE 1\n"), Err(Damage::NotATrace));
    assert_eq!(Dump::from_bytes(b"TESSERA TRACE 2\n"), Err(Damage::Truncated(16)));
    let mut in_no_image = one_event(Event::new(0, What::Enter(1)));
    in_no_image.images.clear();
    let damage = Err(Damage::Malformed("a function is in no image"));
    assert_eq!(Dump::from_bytes(&in_no_image.to_bytes()), damage);
}
