//! What is said about a difference.

use crate::compare::Plan;
use crate::{Operation, Profile};
use captypes::{op, Invocation, Label, Level, Place};
use std::fmt;

/// The first difference between the guest and the model.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Repeats it.
    pub seed: u64,
    /// Of the sequence.
    pub profile: Profile,
    /// The operation after which it was seen.
    pub step: u64,
    /// What was looked at.
    pub looked_at: String,
    /// What the model says.
    pub expected: String,
    /// What the guest says.
    pub got: String,
    /// The last operations.
    pub history: Vec<String>,
}

impl Difference {
    /// One that comes before the first operation.
    pub(crate) fn at_boot(plan: Plan, what: String) -> Difference {
        Difference {
            seed: plan.seed,
            profile: plan.profile,
            step: 0,
            looked_at: what,
            expected: "a capability".into(),
            got: "something else".into(),
            history: Vec::new(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {:#x}, after step {}: {}", self.seed, self.step, self.looked_at)?;
        writeln!(f, "  model:  {}", self.expected)?;
        writeln!(f, "  kernel: {}", self.got)?;
        writeln!(f, "  the last steps:")?;
        for line in &self.history {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

/// A place as `ROOT/L1:L2`, or `ROOT/L1` for a slot of a root.
struct Shown(Place);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, addr) = (self.0.root(), self.0.addr());
        if root.0 != 0 {
            write!(f, "({}:{})/", root.l1(), root.l2())?;
        }
        match self.0.level() {
            Level::L1 => write!(f, "{}", addr.0),
            Level::L2 => write!(f, "{}:{}", addr.l1(), addr.l2()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = &self.args;
        write!(f, "{} of {}", self.name(), Shown(self.target))?;
        macro_rules! show {
            ($($op:ident $places:expr,)*) => {
                match Label::from_u16(self.label) {
                    $(Some(Label::$op) => match op::$op::decode(words) {
                        Ok(args) => {
                            write!(f, " {args:x?}")?;
                            let places: &[usize] = &$places;
                            for &place in places {
                                write!(f, ", {}", Shown(Place(words[place])))?;
                            }
                            Ok(())
                        }
                        Err(_) => write!(f, " {words:x?}"),
                    },)*
                    Some(Label::Delete | Label::Revoke | Label::Identify) => Ok(()),
                    _ => write!(f, " {words:x?}"),
                }
            };
        }
        show! {
            Copy [0], Mint [0], Move [0], Retype [4], CopyRange [0], DeleteRange [],
            RetypeCopy [1, 3], Map [2, 5], MapMany [2, 4], Protect [], ProtectMany [],
            Unmap [2], Replace [0], ReadEntry [], Configure [0, 1, 2, 4], Notify [],
            RetypeMany [0], Resize [0], Compare [0], Locate [0], ClearStatus [], NewId [0],
            MapZero [],
        }
    }
}
