//! `hapax completions`: what a shell completes.

use super::Context;
use crate::{args::Cli, exit::Exit, failure::Failure};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print what a shell needs to complete hapax
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax completions bash > ~/.local/share/bash-completion/completions/hapax
  hapax completions zsh  > ~/.zfunc/_hapax
  hapax completions fish > ~/.config/fish/completions/hapax.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, Context { output, .. }: &Context) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "hapax", &mut script);
        output.bytes(&script);
        output.end()?;
        Ok(Exit::Done)
    }
}
