//! `./x completion SHELL`: what makes the shell complete commands and options.

use crate::Cli;
use anyhow::Result;
use clap::{CommandFactory, ValueEnum};
use clap_complete::{generate, shells};
use std::io;

/// Print what makes the shell complete commands and options of ./x
///
/// For bash: source <(./x completion bash), in ~/.bashrc with the whole path of x. For zsh: ./x completion zsh
/// >~/.zfunc/_x, where ~/.zfunc is in fpath before compinit.
#[derive(clap::Args, Debug)]
pub struct CompletionOptions {
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Shell {
    Bash,
    Zsh,
}

pub fn completion(options: &CompletionOptions) -> Result<i32> {
    let mut script = Vec::new();
    let mut command = Cli::command();
    match options.shell {
        Shell::Bash => generate(shells::Bash, &mut command, "x", &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, "x", &mut script),
    }
    io::Write::write_all(&mut io::stdout(), &script)?;
    Ok(0)
}
