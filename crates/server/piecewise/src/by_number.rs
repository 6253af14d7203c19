//! Values by numbers that somebody else gives.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Values of a piece.
const PIECE: usize = 64;

/// Values by numbers from 0 on that somebody else gives, as those of processes: found by two loads, whatever their number, and
/// walked in order. There is memory for 64 neighbours as long as one of them is there, and a word for 64 numbers up to the highest
/// that ever was.
pub struct ByNumber<T> {
    pieces: Vec<Option<Box<Piece<T>>>>,
    len: usize,
}

struct Piece<T> {
    /// How many values are there.
    count: u32,
    values: [Option<T>; PIECE],
}

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        ByNumber { pieces: Vec::new(), len: 0 }
    }
}

impl<T> ByNumber<T> {
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
    pub fn get(&self, number: u32) -> Option<&T> {
        let (piece, at) = place(number);
        self.pieces.get(piece)?.as_ref()?.values[at].as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (piece, at) = place(number);
        self.pieces.get_mut(piece)?.as_mut()?.values[at].as_mut()
    }

    /// Is there one with this number?
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// Puts a value in; what had its number before.
    pub fn insert(&mut self, number: u32, value: T) -> Option<T> {
        let piece = piece(&mut self.pieces, number);
        let before = piece.values[place(number).1].replace(value);
        if before.is_none() {
            piece.count += 1;
            self.len += 1;
        }
        before
    }

    /// The value with a number, which is there from now on.
    pub fn entry(&mut self, number: u32) -> &mut T
    where
        T: Default,
    {
        let piece = piece(&mut self.pieces, number);
        let value = &mut piece.values[place(number).1];
        if value.is_none() {
            piece.count += 1;
            self.len += 1;
        }
        value.get_or_insert_with(T::default)
    }

    /// Takes a value out.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let (index, at) = place(number);
        let place = self.pieces.get_mut(index)?;
        let piece = place.as_mut()?;
        let value = piece.values[at].take()?;
        piece.count -= 1;
        if piece.count == 0 {
            *place = None;
        }
        self.len -= 1;
        Some(value)
    }

    /// All values, by number.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten().flat_map(|piece| piece.values.iter().flatten())
    }
}

/// The piece of a number, and its place there.
#[inline(always)]
const fn place(number: u32) -> (usize, usize) {
    (number as usize / PIECE, number as usize % PIECE)
}

/// The piece of a number, which is there from now on.
fn piece<T>(pieces: &mut Vec<Option<Box<Piece<T>>>>, number: u32) -> &mut Piece<T> {
    let (index, _) = place(number);
    if index >= pieces.len() {
        pieces.resize_with(index + 1, || None);
    }
    let new = || Box::new(Piece { count: 0, values: [const { None }; PIECE] });
    pieces[index].get_or_insert_with(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn behaves_as_a_map() {
        let (mut values, mut model) = (ByNumber::default(), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(1);
        for step in 0..40_000u64 {
            let number = random.u32(..1000);
            match random.u32(..5) {
                0 | 1 => assert_eq!(values.insert(number, step), model.insert(number, step)),
                2 | 3 => assert_eq!(values.remove(number), model.remove(&number)),
                _ => {
                    *values.entry(number) += step;
                    *model.entry(number).or_default() += step;
                }
            }
            assert_eq!(values.get_mut(number), model.get_mut(&number));
            assert_eq!((values.len(), values.is_empty()), (model.len(), model.is_empty()));
        }
        assert!(values.values().eq(model.values()));
        assert_eq!((values.get(1000), values.get(u32::MAX)), (None, None));
    }

    #[test]
    fn an_empty_piece_has_no_memory() {
        let mut values = ByNumber::default();
        for number in 0..1000 {
            values.insert(number, number);
        }
        for number in 64..1000 {
            assert_eq!(values.remove(number), Some(number));
        }
        assert_eq!(values.pieces.iter().flatten().count(), 1);
        assert!(values.contains(63) && !values.contains(64));
    }
}
