//! A wire that loses, delays, reorders and repeats frames: `./x run --net user,loss=10,delay=20,…`. It lies between the guest's device and the
//! emulator's own network, so that it is the same for whatever system is booted.
//!
//! The emulator hands each frame over (`filter-redirector`) behind its length, as four bytes with the highest first, and takes it back the same way, in each
//! direction by two sockets. What becomes of a frame is decided by its number and the seed alone.

use anyhow::{bail, ensure, Context, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the wire does to frames, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// Milliseconds that each takes.
    pub delay: u32,
    /// Of 1,000 frames so many are lost, let others pass, or come twice.
    pub loss: u32,
    pub reorder: u32,
    pub double: u32,
    pub seed: u64,
}

/// Frames that are on their way in a direction, at most: what comes then is lost.
const ON_WAY: usize = 4096;
/// So many frames pass one that lets others pass, at most; and it lets nobody pass for longer than that.
const PASSING: u64 = 3;
const LATEST: Duration = Duration::from_millis(10);
/// Bytes of a frame: no device of the emulator's sends longer ones.
const LONGEST: u32 = 128 << 10;

impl Weather {
    /// `delay=20,loss=10,reorder=50,double=5,seed=1`, in any order, any of them missing.
    pub fn parse(text: &str) -> Result<Weather> {
        let mut weather = Weather::default();
        for word in text.split(',') {
            let (name, value) = word.split_once('=').with_context(|| format!("{word}=NUMBER"))?;
            let value: u32 = value.parse().with_context(|| format!("{word}: no number"))?;
            let of_thousand = || {
                ensure!(value <= 1000, "{name} is of 1,000 frames");
                Ok(value)
            };
            match name {
                "delay" => {
                    ensure!(value <= 10_000, "delay: at most 10,000 ms");
                    weather.delay = value;
                }
                "loss" => weather.loss = of_thousand()?,
                "reorder" => weather.reorder = of_thousand()?,
                "double" => weather.double = of_thousand()?,
                "seed" => weather.seed = value.into(),
                _ => bail!("{name}: delay, loss, reorder, double or seed"),
            }
        }
        Ok(weather)
    }
}

/// The sockets at which the emulator finds the wire.
#[derive(Debug)]
pub struct Wire {
    folder: PathBuf,
}

/// In each direction: its name of the emulator's, and the ends of the wire.
const DIRECTIONS: [&str; 2] = ["rx", "tx"];

impl Wire {
    /// Waits for the emulator, in threads that end with it.
    pub fn start(weather: Weather) -> Result<Wire> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tessera-wire.{}.{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let wire = Wire { folder };
        for (number, direction) in (1..).zip(DIRECTIONS) {
            let listen = |end| UnixListener::bind(wire.folder.join(format!("{direction}-{end}")));
            let (from, to) = (listen("from")?, listen("to")?);
            let seed = weather.seed.wrapping_mul(2).wrapping_add(number);
            thread::spawn(move || -> io::Result<()> {
                carry(from.accept()?.0, to.accept()?.0, weather, seed)
            });
        }
        Ok(wire)
    }

    /// The emulator's options that put it before the network with this name.
    pub fn arguments(&self, network: &str) -> Vec<OsString> {
        let mut all = Vec::new();
        for direction in DIRECTIONS {
            for end in ["from", "to"] {
                let path = self.folder.join(format!("{direction}-{end}"));
                let path = path.display();
                let socket = format!("socket,id={direction}-{end},path={path}");
                all.extend(["-chardev".into(), socket.into()]);
            }
            let filter = format!(
                "filter-redirector,id=wire-{direction},netdev={network},queue={direction},\
                 outdev={direction}-from,indev={direction}-to"
            );
            all.extend(["-object".into(), filter.into()]);
        }
        all
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Whoever is connected stays so.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Frames on their way, by when they arrive and their number.
#[derive(Default)]
struct Way {
    frames: BTreeMap<(Instant, u64), Vec<u8>>,
    next: u64,
    /// No more will come.
    is_over: bool,
}

impl Way {
    fn put(&mut self, at: Instant, frame: Vec<u8>) -> (Instant, u64) {
        let key = (at, self.next);
        self.next += 1;
        if self.frames.len() < ON_WAY {
            self.frames.insert(key, frame);
        }
        key
    }
}

/// Numbers that look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ it >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ it >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ it >> 31
    }

    /// So many of a thousand times.
    fn says(&mut self, of_thousand: u32) -> bool {
        self.throw() % 1000 < of_thousand.into()
    }
}

/// Carries all frames of a direction until its first socket ends.
fn carry(mut from: UnixStream, mut to: UnixStream, weather: Weather, seed: u64) -> io::Result<()> {
    let way = Arc::new((Mutex::new(Way::default()), Condvar::new()));
    let other = way.clone();
    let writer = thread::spawn(move || arrive(&other, &mut to));
    let mut dice = Dice(seed);
    // Those that let others pass, and how many still.
    let mut passed: Vec<((Instant, u64), u64)> = Vec::new();
    while let Ok(frame) = read_frame(&mut from) {
        let [is_lost, waits, is_double] =
            [weather.loss, weather.reorder, weather.double].map(|share| dice.says(share));
        let passing = 1 + dice.throw() % PASSING;
        if is_lost {
            continue;
        }
        let at = Instant::now() + Duration::from_millis(weather.delay.into());
        let mut state = way.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_double {
            state.put(at, frame.clone());
        }
        match waits {
            true => passed.push((state.put(at + LATEST, frame), passing + 1)),
            false => {
                state.put(at, frame);
            }
        }
        passed.retain_mut(|(key, left)| {
            *left -= 1;
            if *left == 0 {
                if let Some(frame) = state.frames.remove(key) {
                    state.put(at, frame);
                }
            }
            *left > 0
        });
        drop(state);
        way.1.notify_one();
    }
    way.0.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
    way.1.notify_one();
    writer.join().unwrap_or(Ok(()))
}

/// Hands over each frame when it is time.
fn arrive((way, news): &(Mutex<Way>, Condvar), to: &mut UnixStream) -> io::Result<()> {
    let mut state = way.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.is_over {
        let now = Instant::now();
        match state.frames.first_key_value().map(|(key, _)| key.0) {
            Some(at) if at <= now => {
                let Some((_, frame)) = state.frames.pop_first() else { continue };
                drop(state);
                write_frame(to, &frame)?;
                state = way.lock().unwrap_or_else(PoisonError::into_inner);
            }
            Some(at) => {
                state =
                    news.wait_timeout(state, at - now).unwrap_or_else(PoisonError::into_inner).0;
            }
            None => state = news.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
    Ok(())
}

fn read_frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length as usize];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let length = frame.len() as u32;
    to.write_all(&[&length.to_be_bytes()[..], frame].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weathers() {
        let all = Weather { delay: 20, loss: 10, reorder: 50, double: 5, seed: 7 };
        assert_eq!(Weather::parse("loss=10,delay=20,double=5,seed=7,reorder=50").unwrap(), all);
        assert_eq!(Weather::parse("loss=1000").unwrap().loss, 1000);
        for wrong in
            ["", "loss", "loss=", "loss=1001", "delay=10001", "rain=1", "loss=-1", "loss=1,"]
        {
            assert!(Weather::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// The numbers of 2,000 frames, as they arrive.
    fn arrivals(weather: Weather) -> Vec<u32> {
        let [(mut in_, from), (to, mut out)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        thread::spawn(move || carry(from, to, weather, 1));
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            while let Ok(frame) = read_frame(&mut out) {
                let number = u32::from_le_bytes(frame[..4].try_into().unwrap());
                if number == u32::MAX {
                    break;
                }
                all.push(number);
            }
            all
        });
        for number in 0..2000u32 {
            write_frame(&mut in_, &number.to_le_bytes()).unwrap();
        }
        // The last word may be lost.
        thread::sleep(LATEST * 3);
        for _ in 0..20 {
            write_frame(&mut in_, &u32::MAX.to_le_bytes()).unwrap();
        }
        reader.join().unwrap()
    }

    #[test]
    fn frames_arrive_as_the_weather_is() {
        let calm = arrivals(Weather::default());
        assert_eq!(calm, (0..2000).collect::<Vec<_>>());
        let lost = arrivals(Weather { loss: 100, ..Weather::default() });
        assert!((1700..1900).contains(&lost.len()) && lost.is_sorted(), "{}", lost.len());
        let doubled = arrivals(Weather { double: 100, ..Weather::default() });
        assert!((2100..2300).contains(&doubled.len()) && doubled.is_sorted());
        let mut reordered = arrivals(Weather { reorder: 100, ..Weather::default() });
        let passed = reordered.windows(2).filter(|two| two[0] > two[1]).count();
        assert!((100..400).contains(&passed), "{passed}");
        reordered.sort_unstable();
        assert_eq!(reordered, calm);
        let again = Weather { loss: 100, ..Weather::default() };
        assert_eq!(arrivals(again), lost);
    }
}
