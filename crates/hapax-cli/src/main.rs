//! The hapax command.
//!
//! | module | what it does |
//! |---|---|
//! | `args` | the command line |
//! | `config` | settings: flag, variable, file, default |
//! | `store` | opens the store they name |
//! | `commands` | one module for each command |
//! | `child` | runs a program under a lease |
//! | `interrupt`, `limits` | signals to this process, and what the system lets it have |
//! | `output`, `failure`, `exit`, `log` | what is said, where, and how it ends |

mod args;
#[cfg(unix)]
#[allow(dead_code, reason = "tests that include it use the rest")]
mod child;
mod commands;
mod config;
mod duration;
mod exit;
mod failure;
#[cfg(unix)]
mod interrupt;
#[cfg(unix)]
mod limits;
mod log;
mod output;
mod receipt;
mod size;
mod store;
mod text;

use crate::{
    args::{Cli, Global},
    commands::{Command, Context},
    config::Settings,
    exit::Exit,
    failure::Failure,
    output::Output,
};
use clap::{
    Args, CommandFactory, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{
    ffi::{OsStr, OsString},
    fmt::Display,
    panic::{self, UnwindSafe},
    process::ExitCode,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(code) = child::hidden(std::env::args_os().skip(1)) {
        return code;
    }
    panic::set_hook(Box::new(|info| output::say(&bug(info))));
    guarded(run).into()
}

/// A panic has said why, and ends as a bug.
fn guarded(run: impl FnOnce() -> Exit + UnwindSafe) -> Exit {
    panic::catch_unwind(run).unwrap_or(Exit::Bug)
}

fn bug(why: &impl Display) -> String {
    format!("error: a bug in hapax: {why} (command.internal)\n  help: report it with this message")
}

fn run() -> Exit {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(exit) => return exit,
    };
    let output = Output::new(cli.global.json, cli.global.quiet);
    let ready = log::start(cli.global.verbose).and_then(|()| Settings::load(&cli.global));
    let settings = match ready {
        Ok(settings) => settings,
        Err(failure) => return fail(&failure, &output),
    };
    let context = Context { output, settings };
    cli.command.run(&context).unwrap_or_else(|failure| fail(&failure, &context.output))
}

fn fail(failure: &Failure, output: &Output) -> Exit {
    failure.print(output);
    failure.exit
}

/// The command line, or how to end without one: help and version are answers, all else is usage.
fn parse() -> Result<Cli, Exit> {
    let args: Vec<_> = std::env::args_os().collect();
    if let Some(cli) = quick(args.iter().cloned()) {
        return Ok(cli);
    }
    let parsed =
        Cli::command().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|mut error| {
        say_how_a_dash_is_given(&mut error, &args_given());
        let text = error.render();
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            Output::new(false, false).bytes(text.to_string().as_bytes());
            return Exit::Done;
        }
        output::stderr_bytes(text.to_string().as_bytes());
        if error.kind() == ErrorKind::UnknownArgument && forgot_dashes() {
            output::stderr_bytes(
                b"\nThe command goes behind `--`: hapax once KEY -- CMD ARG, hapax lock run NAME -- CMD ARG\n",
            );
        }
        if wants_json() {
            let text = text.to_string();
            let help = "`hapax help COMMAND` shows what is right";
            let message = text.strip_prefix("error: ").unwrap_or(&text).split("\n\n").next().unwrap_or_default().to_owned();
            let error = serde_json::json!({ "code": "command.usage", "message": message, "causes": [], "help": help, "exit_code": Exit::Usage.code() });
            Output::new(true, true).object(&serde_json::json!({ "error": error }));
        }
        Exit::Usage
    })
}

fn args_given() -> Vec<String> {
    std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// A value that begins with a dash, behind a flag that takes one: `--` in front of it, which is what is said of arguments,
/// would end the flags.
fn say_how_a_dash_is_given(error: &mut clap::Error, given: &[String]) {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return };
    let Some(at) = given.iter().position(|arg| arg.starts_with(wrong.as_str())) else { return };
    let (Some(value), Some(flag)) = (given.get(at), at.checked_sub(1).and_then(|before| given.get(before)))
    else {
        return;
    };
    let mut command = &Cli::command();
    for name in given.iter().take(at) {
        command = command.find_subcommand(name).unwrap_or(command);
    }
    let takes_value = |arg: &clap::Arg| {
        arg.get_action().takes_values()
            && arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long))
    };
    if command.get_arguments().any(takes_value) {
        error.remove(ContextKind::TrailingArg);
        let tip = format!("to pass '{value}' as its value, write '{flag}={value}'");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// A command line of `once`, if nothing is wrong with it. It is called most, and most often to do nothing: to describe the
/// flags of all other commands takes longer than to read its own. Whatever is wrong is left to be said by the whole.
#[cfg(unix)]
fn quick(args: impl Iterator<Item = OsString> + Clone) -> Option<Cli> {
    fn alone<T: Args>(name: &'static str, _: fn(T) -> Command) -> clap::Command {
        Global::augment_args(clap::Command::new("hapax"))
            .subcommand(T::augment_args(clap::Command::new(name)))
    }
    // Its name may stand behind flags of all commands. If it is another's value, what follows does not read as `once`.
    if !args.clone().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "once") {
        return None;
    }
    let matches = alone("once", Command::Once).try_get_matches_from(args).ok()?;
    Cli::from_arg_matches(&matches).ok()
}

#[cfg(not(unix))]
fn quick(_: impl Iterator<Item = OsString>) -> Option<Cli> {
    None
}

/// Whether a command to run may have been given without the `--` in front.
fn forgot_dashes() -> bool {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let runs = ["once", "work", "run"].map(OsStr::new);
    args.iter().any(|arg| runs.contains(&arg.as_os_str())) && !args.iter().any(|arg| arg == OsStr::new("--"))
}

/// Whether objects were asked for on a command line that could not be read.
fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|arg| arg != OsStr::new("--"))
        .any(|arg| arg == OsStr::new("--json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_command_line_of_once_is_read_alone_as_in_the_whole() {
        let args = |line: &'static str| line.split(' ').map(OsString::from);
        for line in [
            "hapax once k -- true",
            "hapax once k --lease 5s --wait 2m --json -q --store sqlite:x --namespace a -- sh -c x",
            "hapax once --key-file f --config c --unknown-exit 3,4 --every 1d --no-record -- a --flag",
            "hapax --store sqlite:x -vv once k -- true",
            "hapax --namespace once once once -- true",
        ] {
            let whole = Cli::command().try_get_matches_from(args(line)).unwrap();
            let whole = Cli::from_arg_matches(&whole).unwrap();
            assert_eq!(format!("{:?}", quick(args(line)).unwrap()), format!("{whole:?}"));
        }
        for line in [
            "hapax once k",
            "hapax once --help",
            "hapax once k --what -- a",
            "hapax keys show once",
            "hapax keys list -- once k",
            "hapax lock run once -- true",
            "hapax --namespace once lock run k -- true",
            "hapax",
        ] {
            assert!(quick(args(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn a_panic_ends_as_a_bug_with_its_message() {
        use std::sync::{Arc, Mutex};
        let said = Arc::new(Mutex::new(String::new()));
        let (keep, before) = (Arc::clone(&said), panic::take_hook());
        panic::set_hook(Box::new(move |info| *keep.lock().unwrap() = bug(info)));
        let exit = guarded(|| panic!("out of cheese"));
        panic::set_hook(before);
        assert_eq!((exit, exit.code()), (Exit::Bug, 70));
        let said = said.lock().unwrap();
        assert!(said.contains("a bug in hapax") && said.contains("main.rs"), "{said}");
        assert!(said.contains("out of cheese") && said.contains("command.internal"), "{said}");
    }
}
