//! What the system lets this process have. Where that is too little, it is said before anything begins, with the way out.

use crate::{
    child::{catch, ignored},
    exit::Exit,
    failure::Failure,
    size,
};
use rustix::process::{Resource, Signal, getrlimit};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

/// More open files than a run takes that starts a command. With fewer, something in the middle of it would fail.
const FILES: usize = 40;
/// And than each command takes, with its guard, that runs beside another.
const FILES_OF_COMMAND: usize = 16;

/// Whether there is room for the files of a run.
pub(crate) fn check_open_files() -> Result<(), Failure> {
    check(FILES)
}

/// Whether there is room for the files of so many commands at once.
pub(crate) fn check_open_files_of(commands: usize) -> Result<(), Failure> {
    check(FILES + FILES_OF_COMMAND * commands)
}

fn check(files: usize) -> Result<(), Failure> {
    let spare: io::Result<Vec<OwnedFd>> =
        (0..files).map(|_| io::stdin().as_fd().try_clone_to_owned()).collect();
    spare.map(drop).map_err(|error| {
        let message = format!("too many open files: a run needs room for {files} more");
        Failure::new(Exit::Unreachable, "store.unavailable", message)
            .because(Some(&error))
            .help("raise `ulimit -n`; nothing was run")
    })
}

/// From here on a write beyond the limit of `ulimit -f` is an error, and not the end of this process. Needs a runtime.
pub(crate) fn survive_large_files() -> io::Result<()> {
    if ignored().contains(Signal::XFSZ.as_raw()) { Ok(()) } else { catch(Signal::XFSZ) }
}

/// What to do where the store fails, if this process may not write files of any size.
pub(crate) fn help_with_file_size() -> Option<String> {
    let limit = getrlimit(Resource::Fsize).current?;
    Some(format!("this process may write files of {} at most: raise `ulimit -f`", size::format(limit)))
}
