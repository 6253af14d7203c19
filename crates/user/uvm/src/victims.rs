//! Which small memory goes [aside](crate::aside), where a policy of the process says it.
//!
//! The policy's places are pieces of memory, as they go aside together. A piece is told to it when it is met for the first time, which is when
//! memory is short: nothing is noted before, so that a process that has none given pays nothing, and one that has, nothing as long as there
//! is memory. So the piece that came first is the one that was met first, and pieces that were met at once come in the order of
//! addresses; what was used is looked at whenever pieces go. What the policy names goes aside and leaves memory at once, so
//! that nobody else chooses among it.

use crate::apart::goes_apart;
use crate::aside::{Round, PIECE};
use crate::backend::Backend;
use crate::limited::may_leave;
use crate::space::Space;
use crate::types::NoMemory;
use alloc::boxed::Box;
use alloc::vec::Vec;
use selfpaging::Policy;

/// Pieces that a policy knows at a time: of 1 GiB. More are met when others have gone.
const PLACES: u32 = 4096;

/// The policy, and what it knows.
pub(crate) struct Victims {
    policy: Box<dyn Policy>,
    /// The piece in each place, by its number.
    pieces: Vec<Option<u64>>,
    /// Room to put them in order, of which there may be none any more when it is needed.
    known: Vec<u64>,
}

impl Victims {
    fn forget(&mut self, place: u32) -> Option<u64> {
        let piece = self.pieces.get_mut(place as usize)?.take()?;
        self.policy.emptied(place);
        Some(piece)
    }
}

impl Space {
    /// From now on a policy says which small memory goes where memory is short.
    ///
    /// # Errors
    ///
    /// There is no memory for what it has to note. It is as before then.
    pub fn choose_victims(&mut self, mut policy: Box<dyn Policy>) -> Result<(), NoMemory> {
        let (mut pieces, mut known) = (Vec::new(), Vec::new());
        known.try_reserve_exact(PLACES as usize)?;
        pieces.try_reserve_exact(PLACES as usize)?;
        pieces.resize(PLACES as usize, None);
        policy.prepare(PLACES).map_err(|_| NoMemory)?;
        self.victims = Some(Box::new(Victims { policy, pieces, known }));
        Ok(())
    }

    /// As [`Space::relieve`], as the policy says.
    pub(crate) fn relieve_by(
        &mut self,
        b: &mut impl Backend,
        victims: &mut Victims,
        wanted: u64,
        shared: bool,
    ) -> u64 {
        self.meet_pieces(victims);
        let Victims { policy, pieces, .. } = victims;
        let mut used = |place: u32| {
            let piece = pieces.get(place as usize).copied().flatten();
            piece.is_some_and(|piece| self.piece_used(b, piece))
        };
        // None is missing: this is when all are looked at.
        policy.missed(u64::MAX, &mut used);
        let mut gone = 0;
        while gone < wanted {
            let Victims { policy, pieces, .. } = victims;
            let mut used = |place: u32| {
                let piece = pieces.get(place as usize).copied().flatten();
                piece.is_some_and(|piece| self.piece_used(b, piece))
            };
            let Some(place) = policy.victim(&mut used) else { break };
            // What may not go is met again the next time.
            let Some(piece) = victims.forget(place) else { break };
            let (start, end) = (piece * PIECE, (piece + 1) * PIECE);
            // What another process has, too, is free only when nobody has it.
            let round = if shared { Round::All } else { Round::Alone };
            let before = gone;
            let moved = self.relieve_piece(b, (start, end), round, &mut gone);
            if gone > before {
                self.send_piece_out(b, start, end);
            }
            if moved.is_err() {
                // Nor is there room for others.
                break;
            }
        }
        gone
    }

    /// Notes which pieces there are.
    fn meet_pieces(&mut self, victims: &mut Victims) {
        let has_anons = |piece: u64| {
            let next = self.next_anon(piece * PIECE);
            next.is_some_and(|page| page < (piece + 1) * PIECE)
        };
        let mut known = core::mem::take(&mut victims.known);
        known.clear();
        for place in 0..PLACES {
            match victims.pieces[place as usize] {
                Some(piece) if has_anons(piece) => known.push(piece),
                Some(_) => _ = victims.forget(place),
                None => {}
            }
        }
        known.sort_unstable();
        let mut free = 0..PLACES;
        let mut at = 0;
        while let Some(page) = self.next_anon(at) {
            let piece = page / PIECE;
            at = (piece + 1) * PIECE;
            if known.binary_search(&piece).is_ok() {
                continue;
            }
            let place = free.find(|&place| victims.pieces[place as usize].is_none());
            let Some(place) = place else { break };
            victims.pieces[place as usize] = Some(piece);
            victims.policy.filled(place, piece);
        }
        victims.known = known;
    }

    /// Was something of a piece used since this was asked last?
    fn piece_used(&mut self, b: &mut impl Backend, piece: u64) -> bool {
        let (mut at, end) = (piece * PIECE, (piece + 1) * PIECE);
        let mut used = false;
        while at < end {
            let Some(entry) = self.map.within(at, end).next() else { break };
            at = entry.end;
            let anons = self.anons_of(&entry);
            used |= !anons.is_empty() && self.was_used(b, &entry, &anons);
        }
        used
    }

    /// What of a piece is aside leaves memory, unless it is locked.
    fn send_piece_out(&mut self, b: &mut impl Backend, start: u64, end: u64) {
        for entry in self.map.within(start, end) {
            if let (Some(object), true) = (entry.object, may_leave(&entry)) {
                b.object_page_out(object, entry.object_page(entry.start), entry.pages());
            } else if goes_apart(&entry) {
                self.send_apart_out(b, entry.start, entry.end);
            }
        }
    }
}
