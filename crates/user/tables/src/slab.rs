//! Values at numbers that stay: taken one by one, given back in any order.

use crate::NoMemory;
use alloc::vec::Vec;

/// Values by number. Numbers that were given back are used again first; what is there meanwhile is the
/// default.
#[derive(Clone)]
pub struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
    /// How many values there are.
    count: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    /// No values.
    pub const fn new() -> Self {
        Slab { values: Vec::new(), free: Vec::new(), count: 0 }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value at a number.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)
    }

    /// The value at a number.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)
    }

    /// All values, and defaults where none is, by number.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut()
    }

    /// Adds a value. Answers its number.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn add(&mut self, value: T) -> Result<u32, NoMemory> {
        if let Some(number) = self.free.pop() {
            if let Some(place) = self.values.get_mut(number as usize) {
                *place = value;
            }
            self.count += 1;
            return Ok(number);
        }
        if self.values.len() == self.values.capacity() {
            // Most tables of nodes stay with one. Larger ones grow by half, so that what they leave
            // behind is soon large enough for them together.
            self.values.try_reserve_exact(self.values.len().div_ceil(2).max(1))?;
        }
        self.values.push(value);
        self.count += 1;
        Ok(self.values.len() as u32 - 1)
    }
}

/// Tables that had so many values or fewer keep their memory.
const FEW: usize = 8;

impl<T> Slab<T> {
    /// Drops all values.
    pub fn clear(&mut self) {
        self.count = 0;
        self.start_anew();
    }

    fn start_anew(&mut self) {
        if self.values.len() > FEW {
            *self = Slab::new();
        }
        self.values.clear();
        self.free.clear();
    }
}

impl<T: Default> Slab<T> {
    /// Takes a value that is there out.
    pub fn remove(&mut self, number: u32) -> T {
        let Some(place) = self.values.get_mut(number as usize) else { return T::default() };
        let value = core::mem::take(place);
        self.count -= 1;
        if self.count == 0 {
            self.start_anew();
        } else if self.free.try_reserve(1).is_ok() {
            // Otherwise the number is not used again before all values are gone.
            self.free.push(number);
        }
        value
    }
}
