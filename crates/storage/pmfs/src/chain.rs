//! Bytes in lines: names, values, texts.

use crate::area::Area;
use crate::layout::{chain_word, next_in_chain, word, Line, BYTES, CHAIN_BYTES, HEAD_BYTES, WORDS};
use alloc::vec::Vec;

/// Writes the part of the bytes that fits into the line of a head; its first word stays as it is.
pub(crate) fn write_head<A: Area>(area: &A, line: Line, place: u64, bytes: &[u8]) {
    area.store(word(line, BYTES - 1), place);
    let bytes = &bytes[..bytes.len().min(HEAD_BYTES)];
    write_words(area, word(line, BYTES), WORDS - BYTES, bytes);
    area.write_back(line as u64);
}

/// Writes bytes to a chain of these lines, of which there are as many as are needed. Returns the first, or 0.
pub(crate) fn write<A: Area>(area: &A, lines: &[Line], bytes: &[u8]) -> Line {
    for (n, (&line, part)) in lines.iter().zip(bytes.chunks(CHAIN_BYTES)).enumerate() {
        let next = lines.get(n + 1).copied().unwrap_or(0);
        area.store(word(line, 0), chain_word(next));
        write_words(area, word(line, 1), WORDS - 1, part);
        area.write_back(line as u64);
    }
    lines.first().copied().unwrap_or(0)
}

fn write_words<A: Area>(area: &A, at: u64, count: u64, bytes: &[u8]) {
    let mut parts = bytes.chunks(8);
    for n in 0..count {
        let mut value = [0; 8];
        if let Some(part) = parts.next() {
            value[..part.len()].copy_from_slice(part);
        }
        area.store(at + n, u64::from_le_bytes(value));
    }
}

/// Reads the first bytes that are in a head and the chain behind it.
pub(crate) fn read_behind_head(
    load: impl Fn(u64) -> u64,
    line: Line,
    rest: Line,
    count: usize,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count + 8);
    for n in BYTES..WORDS {
        bytes.extend_from_slice(&load(word(line, n)).to_le_bytes());
    }
    read_chain(load, rest, count, &mut bytes);
    bytes
}

/// Reads the chain from `first` on until there are `count` bytes.
pub(crate) fn read_chain(
    load: impl Fn(u64) -> u64,
    first: Line,
    count: usize,
    bytes: &mut Vec<u8>,
) {
    let mut line = first;
    while bytes.len() < count && line != 0 {
        for n in 1..WORDS {
            bytes.extend_from_slice(&load(word(line, n)).to_le_bytes());
        }
        line = next_in_chain(load(word(line, 0))).unwrap_or(0);
    }
    bytes.truncate(count);
}

/// Are these the first bytes in a head and the chain behind it?
pub(crate) fn is_equal(load: impl Fn(u64) -> u64, line: Line, rest: Line, bytes: &[u8]) -> bool {
    let (head, more) = bytes.split_at(bytes.len().min(HEAD_BYTES));
    if !words_equal(&load, word(line, BYTES), head) {
        return false;
    }
    let mut line = rest;
    more.chunks(CHAIN_BYTES).all(|part| {
        let same = line != 0 && words_equal(&load, word(line, 1), part);
        line = next_in_chain(load(word(line, 0))).unwrap_or(0);
        same
    })
}

fn words_equal(load: impl Fn(u64) -> u64, at: u64, bytes: &[u8]) -> bool {
    (at..).zip(bytes.chunks(8)).all(|(at, part)| load(at).to_le_bytes()[..part.len()] == *part)
}

/// Visits the `count` lines of a chain; `false` if it has another length, or `visit` says so of one.
pub(crate) fn each_line(
    load: impl Fn(u64) -> u64,
    first: Line,
    count: usize,
    mut visit: impl FnMut(Line) -> bool,
) -> bool {
    let mut line = first;
    for _ in 0..count {
        if line == 0 || !visit(line) {
            return false;
        }
        match next_in_chain(load(word(line, 0))) {
            Some(next) => line = next,
            None => return false,
        }
    }
    line == 0
}
