use super::*;
use alloc::string::String;
use unixproto::signals::SIGINT;

fn type_text(tty: &mut Tty, text: &[u8]) -> Vec<u32> {
    text.iter().filter_map(|&byte| tty.input(byte)).collect()
}

fn screen(tty: &mut Tty) -> String {
    let mut bytes = [0; 1000];
    let count = tty.output(&mut bytes);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn read(tty: &mut Tty, most: usize) -> Option<String> {
    let mut bytes = [0; 100];
    match tty.read(&mut bytes[..most], false) {
        Input::None => None,
        Input::Bytes(count) => Some(String::from_utf8_lossy(&bytes[..count]).into_owned()),
    }
}

#[test]
fn a_line_is_read_when_it_is_complete() {
    let mut tty = Tty::default();
    type_text(&mut tty, b"ab");
    assert_eq!(read(&mut tty, 100), None);
    type_text(&mut tty, b"c\rnext\r");
    assert_eq!(screen(&mut tty), "abc\r\nnext\r\n");
    assert_eq!(read(&mut tty, 2).as_deref(), Some("ab"));
    assert_eq!(read(&mut tty, 100).as_deref(), Some("c\n"));
    assert_eq!(read(&mut tty, 100).as_deref(), Some("next\n"));
}

#[test]
fn keys_edit_the_line() {
    let mut tty = Tty::default();
    type_text(&mut tty, b"one twi\x7fo thr\x17x\r");
    assert_eq!(read(&mut tty, 100).as_deref(), Some("one two x\n"));
    screen(&mut tty);
    type_text(&mut tty, "aé".as_bytes());
    type_text(&mut tty, b"\x7f");
    assert_eq!(screen(&mut tty), "aé\x08 \x08");
    type_text(&mut tty, b"\x15");
    assert_eq!(screen(&mut tty), "\x08 \x08");
    type_text(&mut tty, b"a\tb\x7f\x7f");
    assert_eq!(screen(&mut tty).matches("\x08 \x08").count(), 8);
}

#[test]
fn tabs_are_taken_back_from_where_they_began() {
    let mut tty = Tty::default();
    tty.write(b"prompt");
    screen(&mut tty);
    // From columns 6, 8, 8 + 2 (as `^A`), and after a literal one.
    for (before, columns) in [("", 2), ("\t", 8), ("\t\x01", 6), ("\x16\t", 8)] {
        type_text(&mut tty, before.as_bytes());
        type_text(&mut tty, b"\t");
        screen(&mut tty);
        type_text(&mut tty, b"\x7f");
        assert_eq!(screen(&mut tty).matches("\x08 \x08").count(), columns, "{before:?}");
        type_text(&mut tty, b"\x15");
        screen(&mut tty);
    }
    type_text(&mut tty, b"a\t\x12");
    screen(&mut tty);
    type_text(&mut tty, b"\x7f");
    assert_eq!(screen(&mut tty).matches("\x08 \x08").count(), 7, "printed again at the left");
}

#[test]
fn lines_that_are_printed_again_end_where_there_is_no_room() {
    let mut tty = Tty::default();
    type_text(&mut tty, &[b'x'; INPUT_MAX - 1]);
    type_text(&mut tty, &[0x12; 100]);
    assert!(tty.pending_output() <= OUTPUT_MAX);
    type_text(&mut tty, b"\x7f\r");
    assert_eq!(tty.available(), INPUT_MAX - 1);
}

#[test]
fn end_of_file_ends_a_read() {
    let mut tty = Tty::default();
    type_text(&mut tty, b"x\x04\x04");
    assert_eq!(read(&mut tty, 100).as_deref(), Some("x"));
    assert_eq!(read(&mut tty, 100).as_deref(), Some(""));
    assert_eq!(read(&mut tty, 100), None);
}

#[test]
fn interrupt_is_a_signal_and_forgets_the_line() {
    let mut tty = Tty::default();
    assert_eq!(type_text(&mut tty, b"abc\x03"), [SIGINT]);
    assert_eq!(screen(&mut tty), "abc^C");
    type_text(&mut tty, b"\r");
    assert_eq!(read(&mut tty, 100).as_deref(), Some("\n"));
}

#[test]
fn raw_bytes_come_as_they_are() {
    let mut tty = Tty::default();
    let mut raw = tty.termios();
    raw.lflag = 0;
    raw.iflag = 0;
    raw.oflag = 0;
    type_text(&mut tty, b"pen");
    tty.set_termios(raw);
    type_text(&mut tty, b"\r\x03");
    assert_eq!(read(&mut tty, 100).as_deref(), Some("pen\r\x03"));
    assert_eq!(read(&mut tty, 100), None);
    tty.write(b"a\n");
    assert_eq!(screen(&mut tty), "pena\n");
    raw.cc[termios::VMIN] = 3;
    tty.set_termios(raw);
    type_text(&mut tty, b"ab");
    assert_eq!(read(&mut tty, 100), None);
    assert_eq!(read(&mut tty, 2).as_deref(), Some("ab"));
}

#[test]
fn stop_holds_output_back() {
    let mut tty = Tty::default();
    type_text(&mut tty, b"\x13");
    tty.write(b"text");
    assert_eq!(screen(&mut tty), "");
    type_text(&mut tty, b"\x11");
    assert_eq!(screen(&mut tty), "text");
}

#[test]
fn settings_cross() {
    let termios = Termios::default();
    assert_eq!(Termios::from_bytes(&termios.to_bytes()), termios);
}

#[test]
fn output_has_an_end() {
    let mut tty = Tty::default();
    let written = tty.write(&[b'\n'; 100_000]);
    assert!(written < OUTPUT_MAX && tty.pending_output() <= OUTPUT_MAX);
}

#[test]
fn a_raw_read_with_a_time_waits_for_it() {
    let mut tty = Tty::default();
    let mut raw = tty.termios();
    raw.lflag = 0;
    raw.cc[termios::VMIN] = 0;
    tty.set_termios(raw);
    assert_eq!(read(&mut tty, 10).as_deref(), Some(""));
    raw.cc[termios::VTIME] = 5;
    tty.set_termios(raw);
    assert_eq!(read(&mut tty, 10), None);
    assert_eq!(tty.read_timeout_ns(), Some(500_000_000));
    assert_eq!(tty.read(&mut [0; 10], true), Input::Bytes(0));
    tty.input(b'x');
    assert_eq!(read(&mut tty, 10).as_deref(), Some("x"));
}

#[test]
fn ends_of_file_that_nobody_reads_are_not_kept_for_ever() {
    let mut tty = Tty::pseudo().unwrap();
    type_text(&mut tty, &[4; 3 * INPUT_MAX]);
    assert!(!tty.has_room_for_input());
    let mut ends = 0;
    while let Some(text) = read(&mut tty, 10) {
        assert_eq!(text, "");
        ends += 1;
    }
    assert_eq!(ends, INPUT_MAX);
    type_text(&mut tty, b"on\r");
    assert_eq!(read(&mut tty, 10).as_deref(), Some("on\n"));
}

#[test]
fn whoever_types_only_while_there_is_room_loses_nothing() {
    for canonical in [true, false] {
        let mut tty = Tty::pseudo().unwrap();
        let capacities = (tty.ready.capacity(), tty.line.capacity(), tty.lines.capacity());
        if !canonical {
            let mut raw = tty.termios();
            raw.lflag = 0;
            tty.set_termios(raw);
        }
        let (mut typed, mut got) = (Vec::new(), Vec::new());
        for round in 0..40_000_u32 {
            let byte = if round % 61 == 60 { b'\n' } else { b'a' + (round % 26) as u8 };
            while !tty.has_room_for_input() {
                let mut bytes = [0; 50];
                let Input::Bytes(count) = tty.read(&mut bytes, false) else { panic!("stuck") };
                got.extend_from_slice(&bytes[..count]);
            }
            assert_eq!(tty.input(byte), None);
            typed.push(byte);
        }
        let mut bytes = [0; 50];
        while let Input::Bytes(count @ 1..) = tty.read(&mut bytes, true) {
            got.extend_from_slice(&bytes[..count]);
        }
        got.extend_from_slice(&tty.line);
        assert!(got == typed, "canonical {canonical}");
        let now = (tty.ready.capacity(), tty.line.capacity(), tty.lines.capacity());
        assert_eq!(now, capacities, "it has taken more memory");
    }
}

#[test]
fn a_line_that_is_too_long_is_cut_and_ends() {
    let mut tty = Tty::pseudo().unwrap();
    type_text(&mut tty, &[b'x'; INPUT_MAX + 100]);
    assert!(tty.has_room_for_input(), "whoever waits for room would wait for ever");
    type_text(&mut tty, b"\r");
    assert_eq!(tty.available(), INPUT_MAX + 1);
}
