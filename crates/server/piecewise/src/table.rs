//! Values by number.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Values of a piece.
const PIECE: usize = 64;
const FULL: u64 = u64::MAX;

/// Values by numbers from 0 on, the lowest that are free.
pub struct Table<T> {
    pieces: Vec<Piece<T>>,
    /// A bit for each piece in which there is room.
    room: Vec<u64>,
    len: usize,
    /// The piece that became empty last, which keeps its memory: mostly the next value comes there.
    spare: usize,
}

struct Piece<T> {
    /// A bit for each value that is there.
    used: u64,
    /// Nothing at all while no value is there, but in the one that became empty last.
    values: Option<Box<Values<T>>>,
}

type Values<T> = [Option<T>; PIECE];

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { pieces: Vec::new(), room: Vec::new(), len: 0, spare: 0 }
    }
}

impl<T> Piece<T> {
    /// Has room for values. `None`: there is no memory.
    fn prepare(&mut self) -> Option<()> {
        if self.values.is_none() {
            let mut values = Vec::new();
            values.try_reserve_exact(PIECE).ok()?;
            values.resize_with(PIECE, || None);
            self.values = values.into_boxed_slice().try_into().ok();
        }
        self.values.as_ref().map(|_| ())
    }
}

impl<T> Table<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value with a number.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        self.pieces.get(number / PIECE)?.values.as_ref()?[number % PIECE].as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.pieces.get_mut(number / PIECE)?.values.as_mut()?[number % PIECE].as_mut()
    }

    /// Adds a value; answers its number. Gives it back if there is no memory.
    pub fn insert(&mut self, value: T) -> Result<usize, T> {
        let Some(index) = self.with_room() else { return Err(value) };
        let piece = &mut self.pieces[index];
        let Some(values) = &mut piece.values else { return Err(value) };
        let place = piece.used.trailing_ones() as usize;
        piece.used |= 1 << place;
        values[place] = Some(value);
        if piece.used == FULL {
            self.room[index / 64] &= !(1 << (index % 64));
        }
        self.len += 1;
        Ok(index * PIECE + place)
    }

    /// The first piece in which there is room, ready to take a value.
    fn with_room(&mut self) -> Option<usize> {
        let index = match self.room.iter().position(|&bits| bits != 0) {
            Some(word) => word * 64 + self.room[word].trailing_zeros() as usize,
            None => self.add_piece()?,
        };
        self.pieces[index].prepare()?;
        Some(index)
    }

    fn add_piece(&mut self) -> Option<usize> {
        let index = self.pieces.len();
        self.pieces.try_reserve(1).ok()?;
        if index == 64 * self.room.len() {
            self.room.try_reserve(1).ok()?;
            self.room.push(0);
        }
        self.pieces.push(Piece { used: 0, values: None });
        self.room[index / 64] |= 1 << (index % 64);
        Some(index)
    }

    /// Takes a value out. Its number is free.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let index = number / PIECE;
        let piece = self.pieces.get_mut(index)?;
        let value = piece.values.as_mut()?[number % PIECE].take()?;
        piece.used &= !(1 << (number % PIECE));
        if piece.used == 0 {
            self.keep_only(index);
        }
        self.room[index / 64] |= 1 << (index % 64);
        self.len -= 1;
        Some(value)
    }

    /// Of all pieces that are empty only this one keeps its memory.
    fn keep_only(&mut self, index: usize) {
        let last = core::mem::replace(&mut self.spare, index);
        if let Some(piece) =
            self.pieces.get_mut(last).filter(|piece| last != index && piece.used == 0)
        {
            piece.values = None;
        }
    }

    /// All values with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.iter_from(0)
    }

    /// The same from a number on.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = (usize, &T)> {
        let pieces = self.pieces.iter().enumerate().skip(first / PIECE);
        let all = pieces.flat_map(|(index, piece)| {
            let numbered = piece.values.iter().flat_map(|values| values.iter()).enumerate();
            numbered.filter_map(move |(at, value)| Some((index * PIECE + at, value.as_ref()?)))
        });
        all.skip_while(move |(number, _)| *number < first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn behaves_as_a_map_that_gives_the_lowest_number() {
        let (mut table, mut model) = (Table::default(), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(1);
        for step in 0..20_000u64 {
            // Grows and shrinks in turns, over many pieces.
            let grows = random.u32(..16) < if step / 4_000 % 2 == 0 { 10 } else { 5 };
            if grows {
                let lowest = (0..).find(|number| !model.contains_key(number));
                assert_eq!(table.insert(step).ok(), lowest);
                model.insert(lowest.unwrap_or(0), step);
            } else {
                let number = random.usize(..1024);
                assert_eq!(table.remove(number), model.remove(&number));
            }
            assert_eq!(table.len(), model.len());
        }
        assert!(table.iter().map(|(number, value)| (number, *value)).eq(model));
    }

    #[test]
    fn one_empty_piece_has_memory() {
        let mut table = Table::default();
        for value in 0..1000 {
            assert_eq!(table.insert(value), Ok(value));
        }
        for number in 64..1000 {
            table.remove(number);
        }
        let with_memory =
            |table: &Table<_>| table.pieces.iter().filter(|piece| piece.values.is_some()).count();
        assert_eq!((with_memory(&table), table.get(63), table.get(64)), (2, Some(&63), None));
        for number in 0..64 {
            table.remove(number);
        }
        assert_eq!((with_memory(&table), table.is_empty()), (1, true));
        // It is the one where the next value comes.
        assert_eq!((table.insert(7), with_memory(&table)), (Ok(0), 1));
    }
}
