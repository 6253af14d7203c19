//! The capability protocol between cores, as a state machine without hardware.
//!
//! Every core has its own database of capabilities. What concerns one core only its CPU driver does
//! alone; all else it redirects to the core's monitor, which runs this code. The model checker runs
//! the same code. See `docs/capability-protocol.md` for the protocol itself.
//!
//! | file | what |
//! |---|---|
//! | `cap` | capabilities, regions and sets of cores |
//! | `message` | what monitors say to one another |
//! | `driver` | what is asked of the CPU driver: [`CpuDriver`], [`Outside`] |
//! | `books` | who may have what, and who may work on it: kept by the home of the memory |
//! | `monitor` | events in, steps and messages out |
//! | `operation` | an operation on the core that coordinates it |
//! | `site` | a core whose CPU driver takes its steps as invocations: [`Site`], [`Links`] |
//! | `mutation` | deliberate bugs, for the tests |
//! | `model` | the model check |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod books;
mod cap;
mod driver;
mod homes;
mod message;
#[cfg(test)]
mod model;
mod monitor;
mod mutation;
mod operation;
mod site;

pub use books::{GRANTS, MAX_LOCKS};
pub use cap::{CoreId, Cores, Region, Relations, WireCap, MAX_CORES};
pub use driver::{Attempt, CpuDriver, Held, Need, Outside, Progress};
pub use message::{Change, Malformed, Message, OpId, WORDS};
pub use monitor::Monitor;
pub use site::{Answer, Client, Invoker, Links, Request, Site};
