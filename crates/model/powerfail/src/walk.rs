//! Failure points are walked through: what may be found at each is recovered, and what is found is between two states.

use crate::{Image, Point, Recorder, Site};
use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};

/// Images of a point in a recovery: during it the power may fail, too.
const AGAIN: usize = 12;
/// So many images are remembered that need not be recovered a second time.
const KNOWN: usize = 1 << 22;

/// What is to survive power failures.
pub trait Subject: Sized {
    /// A machine that has recovered.
    type World;
    /// What there is to be, by a naive model.
    type State: Hash;
    /// What was found, or which state it is.
    type Found;

    /// Starts a machine that finds this in its memory and recovers it; one place may be muted, and failure points be watched for.
    ///
    /// # Errors
    /// It is refused.
    fn recover(image: Image, muted: Option<Site>, watch: bool) -> Result<Self::World, String>;
    /// Its memory.
    fn recorder(world: &Self::World) -> &RefCell<Recorder>;
    /// What is there is between these two states.
    ///
    /// # Errors
    /// What is wrong.
    fn between(
        world: &Self::World,
        old: &Self::State,
        new: &Self::State,
    ) -> Result<Self::Found, String>;
    /// It is the same as was found before.
    ///
    /// # Errors
    /// What is not.
    fn is_still(world: &Self::World, found: &Self::Found) -> Result<(), String>;
    /// What else is to be tried with an image that was recovered.
    ///
    /// # Errors
    /// What is wrong then.
    fn go_on(walk: &mut Walk<Self>, image: Image, found: &Self::Found) -> Result<(), String> {
        let _ = (walk, image, found);
        Ok(())
    }
}

/// How much is looked at.
#[derive(Clone, Copy)]
pub struct Depth {
    /// Images of a point.
    pub images: usize,
    /// Of so many images, one is recovered with further failures.
    pub again: usize,
}

/// A walk through failure points, and how far it has come.
pub struct Walk<S> {
    pub depth: Depth,
    pub random: fastrand::Rng,
    /// The place whose write-backs or fences do nothing.
    pub muted: Option<Site>,
    /// Places that recovery comes to.
    pub recovering: BTreeSet<Site>,
    /// Images that were found.
    pub images: usize,
    /// Images that were found after a failure during recovery.
    pub recoveries: usize,
    /// Images that were recovered, and were between these two states.
    passed: HashSet<(u64, u64)>,
    /// What the subject counts, or needs.
    pub subject: S,
}

impl<S: Subject> Walk<S> {
    pub fn new(subject: S, seed: u64, depth: Depth, muted: Option<Site>) -> Walk<S> {
        Walk {
            depth,
            random: fastrand::Rng::with_seed(seed),
            muted,
            recovering: BTreeSet::new(),
            images: 0,
            recoveries: 0,
            passed: HashSet::new(),
            subject,
        }
    }

    /// The same images need not be recovered as by another walk, in which recovery has done the same.
    pub fn share_passed(&mut self, other: &mut Walk<S>) {
        std::mem::swap(&mut self.passed, &mut other.passed);
    }

    /// Everything that may be found in an operation that has just returned is between two states; and what may be found
    /// now is the second.
    ///
    /// # Errors
    /// What is wrong.
    pub fn operation(
        &mut self,
        world: &S::World,
        old: &S::State,
        new: &S::State,
    ) -> Result<(), String> {
        let points = S::recorder(world).borrow_mut().take_points();
        self.check(points, old, new)?;
        S::recorder(world).borrow_mut().point();
        let points = S::recorder(world).borrow_mut().take_points();
        self.check(points, new, new)
    }

    /// Everything that may be found at these points is between two states.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(
        &mut self,
        points: Vec<Point>,
        old: &S::State,
        new: &S::State,
    ) -> Result<(), String> {
        let states = hash((old, new));
        for point in points {
            let (mut wrong, most) = (None, self.depth.images);
            let mut random = self.random.fork();
            point.images(most, &mut random, |image| {
                self.images += 1;
                let key = (image.hash(), states);
                if wrong.is_none() && !self.passed.contains(&key) {
                    wrong = self.recover(image, old, new).err();
                    if self.passed.len() == KNOWN {
                        self.passed.clear();
                    }
                    self.passed.insert(key);
                }
            });
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        Ok(())
    }

    fn recover(&mut self, image: Image, old: &S::State, new: &S::State) -> Result<(), String> {
        let again = self.random.usize(..self.depth.again) == 0;
        let world = S::recover(image.clone(), self.muted, again)?;
        self.recovering.extend(S::recorder(&world).borrow().sites());
        let found = S::between(&world, old, new)?;
        if again {
            self.recover_again(&world, &found)?;
            S::go_on(self, image, &found)?;
        }
        Ok(())
    }

    /// The power failed during recovery, too; and nothing remains to be done at the next.
    fn recover_again(&mut self, world: &S::World, found: &S::Found) -> Result<(), String> {
        S::recorder(world).borrow_mut().point();
        let points = S::recorder(world).borrow_mut().take_points();
        for point in points {
            let mut wrong = Ok(());
            point.images(AGAIN, &mut self.random.fork(), |image| {
                self.recoveries += 1;
                let now = S::recover(image, self.muted, false);
                let same = now.and_then(|world| S::is_still(&world, found));
                let same = same.map_err(|wrong| format!("after another failure: {wrong}"));
                wrong = std::mem::replace(&mut wrong, Ok(())).and(same);
            });
            wrong?;
        }
        let before = S::recorder(world).borrow().now().clone();
        let again = S::recover(before.clone(), self.muted, false)?;
        S::is_still(&again, found)?;
        let same = *S::recorder(&again).borrow().now() == before;
        same.then_some(()).ok_or("recovering twice changes something".into())
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// How many random sequences a test is to try: `usual` as long as `TESSERA_TRIPLES` does not say something else.
///
/// # Panics
/// It is no number.
pub fn wanted(usual: u64) -> u64 {
    match std::env::var("TESSERA_TRIPLES") {
        Ok(text) => text.trim().parse().expect("TESSERA_TRIPLES is a number"),
        Err(_) => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two words in different lines.
    struct Words {
        goes_on: bool,
    }

    impl Subject for Words {
        type World = RefCell<Recorder>;
        type State = (u64, u64);
        type Found = (u64, u64);

        fn recover(image: Image, muted: Option<Site>, watch: bool) -> Result<Self::World, String> {
            let mut recorder = Recorder::new(image);
            recorder.muted = muted;
            if watch {
                recorder.watch();
            }
            Ok(RefCell::new(recorder))
        }
        fn recorder(world: &Self::World) -> &RefCell<Recorder> {
            world
        }
        fn between(
            world: &Self::World,
            old: &Self::State,
            new: &Self::State,
        ) -> Result<Self::Found, String> {
            let found = (world.borrow().load(0, 0), world.borrow().load(1, 0));
            let known = found == *old || found == *new;
            known.then_some(found).ok_or(format!("{found:?} is neither"))
        }
        fn is_still(world: &Self::World, found: &Self::Found) -> Result<(), String> {
            Self::between(world, found, found).map(drop)
        }
        fn go_on(walk: &mut Walk<Self>, _: Image, _: &Self::Found) -> Result<(), String> {
            match walk.subject.goes_on {
                true => Err("went on".into()),
                false => Ok(()),
            }
        }
    }

    /// Stores 1 to both words, and returns what the walk finds.
    fn walk(goes_on: bool, both: bool, fence: bool) -> Result<usize, String> {
        let world = Words::recover(Image::new(2), None, true)?;
        world.borrow_mut().store(0, 0, 1);
        if both {
            world.borrow_mut().store(1, 0, 1);
        }
        world.borrow_mut().write_back(0, 0);
        world.borrow_mut().write_back(1, 0);
        if fence {
            world.borrow_mut().fence();
        }
        let mut walk = Walk::new(Words { goes_on }, 1, Depth { images: 16, again: 1 }, None);
        walk.operation(&world, &(0, 0), &(1, both as u64)).map(|()| walk.images)
    }

    #[test]
    fn what_is_half_done_is_found() {
        assert_eq!(walk(false, true, true), Err("(1, 0) is neither".into()));
    }

    #[test]
    fn what_has_returned_and_is_not_certain_is_found() {
        assert_eq!(walk(false, false, false), Err("(0, 0) is neither".into()));
    }

    #[test]
    fn one_store_and_a_fence_have_happened_or_not() {
        // At the fence with it or without, and with it afterwards.
        assert_eq!(walk(false, false, true), Ok(3));
    }

    #[test]
    fn what_else_is_to_be_tried_is() {
        assert_eq!(walk(true, false, true), Err("went on".into()));
    }
}
