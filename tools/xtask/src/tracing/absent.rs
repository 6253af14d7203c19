//! In place of the function trace, where this tool was built without what that needs ([`crate`]).

use crate::compile::Built;
use crate::log::Record;
use crate::machine::Boot;
use crate::project::Project;
use anyhow::{bail, Result};
use std::path::Path;

/// There is none.
pub enum Recording {}

impl Recording {
    pub fn new(_: &Project) -> Result<Recording> {
        bail!("this helper was built without the function trace; ./x builds the one with it")
    }

    pub fn built(&self) -> &Built {
        match *self {}
    }

    pub fn prepare(&self, _: &mut Boot, _: u64) {
        match *self {}
    }

    pub fn save(&self, _: &Boot, _: &[Record], _: bool, _: &Path) -> Result<()> {
        match *self {}
    }
}
