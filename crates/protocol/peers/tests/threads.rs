//! Writer, reader and server at once, in every interleaving that matters.

use loom::sync::atomic::{fence, AtomicBool, AtomicU32, Ordering::*};
use loom::sync::Arc;
use peers::{filled, End, Found, Word, CLOSED};

#[derive(Debug)]
struct Atomic(AtomicU32);

impl Word for &Atomic {
    type Error = ();
    fn load(&self) -> Result<u32, ()> {
        Ok(self.0.load(Acquire))
    }
    fn replace(&self, old: u32, new: u32) -> Result<bool, ()> {
        Ok(self.0.compare_exchange(old, new, SeqCst, Acquire).is_ok())
    }
    fn order() {
        fence(SeqCst);
    }
}

/// The words, and the first bytes of a ring.
struct Shared {
    words: [Atomic; 4],
    bytes: [AtomicU32; 4],
    is_notified: [AtomicBool; 2],
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            words: [(); 4].map(|()| Atomic(AtomicU32::new(0))),
            bytes: [(); 4].map(|()| AtomicU32::new(0)),
            is_notified: [(); 2].map(|()| AtomicBool::new(false)),
        })
    }
    fn end(&self, writes: bool) -> End<&Atomic> {
        let [written, read, writer, reader] = &self.words;
        match writes {
            true => End { own: written, other: read, sleeps: writer, other_sleeps: reader, writes },
            false => {
                End { own: read, other: written, sleeps: reader, other_sleeps: writer, writes }
            }
        }
    }
    /// Writes a byte. `false`: the ring is closed.
    fn write(&self, byte: u32) -> bool {
        let end = self.end(true);
        let Ok(Found::Open(part)) = end.look() else { return false };
        let [(at, _), _] = part.pieces(1);
        self.bytes[at].store(byte, Relaxed);
        end.moved(part, 1) == Ok(true)
    }
    /// Reads a byte. `None`: there is none, or the ring is closed.
    fn read(&self) -> Option<u32> {
        let end = self.end(false);
        let Ok(Found::Open(part)) = end.look() else { return None };
        let [(at, 1), _] = part.pieces(1) else { return None };
        let byte = self.bytes[at].load(Relaxed);
        (end.moved(part, 1) == Ok(true)).then_some(byte)
    }
    /// The server closes the ring, and has what is in it.
    fn close(&self) -> Vec<u32> {
        let written = self.words[0].0.fetch_or(CLOSED, SeqCst) & !CLOSED;
        let read = self.words[1].0.fetch_or(CLOSED, SeqCst) & !CLOSED;
        let count = filled(written, read).unwrap();
        (read..read + count as u32).map(|at| self.bytes[at as usize].load(Relaxed)).collect()
    }
}

/// The server takes a ring back: each byte is in it, or was read, or could not be written, and none twice.
#[test]
fn what_is_taken_back_is_exact() {
    loom::model(|| {
        let all = Shared::new();
        assert!(all.write(1));
        let writer = {
            let all = all.clone();
            loom::thread::spawn(move || all.write(2))
        };
        let reader = {
            let all = all.clone();
            loom::thread::spawn(move || all.read())
        };
        let left = all.close();
        let is_written = writer.join().unwrap();
        let mut came: Vec<u32> = reader.join().unwrap().into_iter().collect();
        came.extend(left);
        assert_eq!(came, if is_written { vec![1, 2] } else { vec![1] });
        assert!(!all.write(3) && all.read().is_none());
    });
}

/// Who sleeps is woken by the byte that comes, or has seen it; and by the server that closes the ring.
#[test]
fn nobody_sleeps_on() {
    for by_server in [false, true] {
        loom::model(move || {
            let all = Shared::new();
            let other = {
                let all = all.clone();
                loom::thread::spawn(move || {
                    let is_to_wake = match by_server {
                        true => {
                            all.close();
                            fence(SeqCst);
                            all.words[3].0.load(SeqCst) & 1 == 1
                        }
                        false => {
                            assert!(all.write(1));
                            all.end(true).is_to_wake(&mut 0) == Ok(true)
                        }
                    };
                    if is_to_wake {
                        all.is_notified[1].store(true, SeqCst);
                    }
                })
            };
            let end = all.end(false);
            let asleep = end.lie_down().unwrap();
            let is_idle = matches!(end.look(), Ok(Found::Open(part)) if part.bytes == 0);
            other.join().unwrap();
            assert!(!is_idle || all.is_notified[1].load(SeqCst));
            end.get_up(asleep).unwrap();
        });
    }
}
