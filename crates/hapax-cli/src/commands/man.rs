//! `hapax man`: manual pages, from the same text as the help.

use super::Context;
use crate::{args::Cli, exit::Exit, failure::Failure};
use clap::{Args, CommandFactory};
use clap_mangen::Man as Page;
use std::{fs, path::PathBuf};

/// Print a manual page, or write all of them
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax man | man -l -                    the main page
  hapax man once | man -l -               the page of a command
  hapax man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Of this command: `once`, or `keys get`
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Writes a page for each command into this folder, which is made where it is missing
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, Context { output, .. }: &Context) -> Result<Exit, Failure> {
        let mut root = Cli::command();
        // Fills in the common options, and names such as `hapax-keys-get`.
        root.build();
        if let Some(dir) = &self.dir {
            let failed = |error| {
                let message = format!("the pages cannot be written to {}: {error}", dir.display());
                Failure::new(Exit::ItemFailed, "command.output", message)
            };
            fs::create_dir_all(dir).map_err(failed)?;
            for command in all(&root) {
                let page = Page::new(command);
                let file = dir.join(page.get_filename());
                fs::write(file, render(&page)?).map_err(failed)?;
            }
            return Ok(Exit::Done);
        }
        let mut command = &root;
        for name in &self.command {
            command = command.find_subcommand(name).ok_or_else(|| {
                Failure::usage(format!("there is no command `{}`", crate::text::shown(name)))
            })?;
        }
        output.bytes(&render(&Page::new(command.clone()))?);
        output.end()?;
        Ok(Exit::Done)
    }
}

/// The command and all below it, without those that are not for people.
fn all(command: &clap::Command) -> Vec<clap::Command> {
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    std::iter::once(command.clone()).chain(below.flat_map(all)).collect()
}

fn render(page: &Page) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| {
        Failure::new(Exit::Bug, "command.internal", format!("a page could not be made: {error}"))
    })?;
    Ok(text)
}
