//! Destruction.

mod configure;
mod retire;

pub use configure::Settings;
