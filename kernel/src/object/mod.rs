//! Kernel objects in physical memory: what they look like, and safe references to them.
//!
//! | file | what |
//! |---|---|
//! | `mem` | references to objects, words of user memory: nearly all `unsafe` of the kernel's core |
//! | `slots` | slots of CNodes and dispatchers |
//! | `table` | page tables |
//! | `walk` | from an address of a program to its page |
//! | `dcb`, `context`, `frame` | dispatchers: control block, registers, the frame shared with user mode |
//! | `schedule`, `time` | of a dispatcher: how it competes for a core, how much it has had |
//! | `list` | lists of dispatchers |
//! | `endpoint` | endpoints |

pub mod context;
pub mod dcb;
pub mod endpoint;
pub mod frame;
pub mod list;
pub mod mem;
pub mod schedule;
pub mod slots;
pub mod table;
pub mod time;
pub mod walk;

pub use dcb::{Dcb, DcbRef, State};
pub use endpoint::{Endpoint, EndpointRef, Listener};
pub use list::DcbList;
pub use mem::{Obj, Object, UserWord};
pub use schedule::Schedule;
pub use slots::{slot_at, SlotRef, SlotRun};
pub use table::Table;
pub use walk::Walk;
