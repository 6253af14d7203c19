//! Operations that cross parts: above all what destroys objects.
//!
//! | file | what |
//! |---|---|
//! | `delete` | delete and revoke, in bounded steps |
//! | `pages` | the same of single pages, which nearly all that is deleted are |
//! | `retire`, `endpoints` | the end of dispatchers and endpoints |
//! | `reclaim` | memory comes back, when no core can reach it any more |
//! | `leave` | what is left to the monitor |
//! | `cycles` | the sweep of the collector |
//! | `protocol` | the steps of the monitors' protocol that destroy something |
//! | `copy` | copies of pages, in the place of what they are copies of |
//! | `calls` | copies of what callers lend |
//! | `loans` | lending, recalling, and copies of what was lent |
//! | `morsels` | pools and their objects |
//! | `store` | their pages, to a store and back |
//! | `taking` | who takes pages of objects away, and ends objects, where several cores may |
//! | `resize` | another root for a CSpace |
//! | `configure` | what dispatchers are given |

pub mod calls;
pub mod chunks;
pub mod configure;
pub mod copy;
pub mod cycles;
pub mod delete;
pub mod endpoints;
pub mod hiding;
pub mod homes;
pub mod leave;
pub mod loans;
pub mod morsels;
mod pages;
pub mod protocol;
pub mod raising;
pub mod reclaim;
pub mod resize;
pub(crate) mod retire;
pub mod store;
pub mod taking;

pub use configure::Settings;
