//! `hapax __exec CMD ARG…`: holds CMD's place until everything is ready for it, then becomes CMD.
//!
//! Its stdin is the *gate*, a socket. hapax opens it by sending the three descriptors that CMD is to have; what comes back
//! is the error of `exec`, or nothing: the gate closes when CMD begins.

use super::signals;
use nix::{errno::Errno, unistd::execv};
use rustix::{
    io::{FdFlags, fcntl_setfd, retry_on_intr},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, sendmsg,
    },
    process::Signal,
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use std::{
    env,
    ffi::{CString, NulError, OsStr, OsString},
    io::{self, IoSlice, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::Path,
    process::ExitCode,
};

/// The hidden subcommand.
pub(super) const SUBCOMMAND: &str = "__exec";

/// Where programs are looked for when nothing says where.
const PATH: &str = "/bin:/usr/bin";

/// stdin, stdout and stderr of CMD.
pub(super) type Stdio = [OwnedFd; 3];

/// Lets CMD begin.
pub(super) fn open(gate: &UnixStream, [stdin, stdout, stderr]: &Stdio) -> io::Result<()> {
    let fds = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    // Descriptors travel with at least one byte.
    sendmsg(gate, &[IoSlice::new(b"!")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// The answer at the gate: empty if CMD began.
pub(super) fn error(answer: &[u8]) -> Option<io::Error> {
    (!answer.is_empty()).then(|| match <[u8; 4]>::try_from(answer) {
        Ok(errno) => io::Error::from_raw_os_error(i32::from_ne_bytes(errno)),
        Err(_) => io::Error::other("the command could not be started"),
    })
}

/// The whole process, until it is CMD's.
pub(super) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    // The copy closes on `exec`; stdin itself is replaced before.
    let Ok(mut gate) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let error = match (receive(&gate), args.next()) {
        (Ok(Some(stdio)), Some(program)) => {
            take(&stdio).and_then(|()| let_pipes_break()).map_or_else(|e| e, |()| exec(&program, args))
        }
        (Err(error), _) => error,
        // hapax is gone, or this was typed by hand.
        (Ok(None), _) | (_, None) => return ExitCode::FAILURE,
    };
    // Whatever has no number is at least not taken for success.
    let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
    let _ = gate.write_all(&errno.to_ne_bytes());
    ExitCode::FAILURE
}

/// Waits at the gate. `None`: it was closed.
fn receive(gate: &UnixStream) -> io::Result<Option<Stdio>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    retry_on_intr(|| recvmsg(gate, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty()))?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(fds.try_into().ok())
}

/// Makes them ours, and nothing else of them CMD's.
fn take(stdio: &Stdio) -> io::Result<()> {
    for fd in stdio {
        fcntl_setfd(fd, FdFlags::CLOEXEC)?;
    }
    let [stdin, stdout, stderr] = stdio;
    dup2_stdin(stdin)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)?;
    Ok(())
}

/// Every Rust program ignores SIGPIPE, and what is ignored stays so: a writer to a closed pipe would not end.
fn let_pipes_break() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    signals::catch(Signal::PIPE)
}

/// Becomes the program, which is looked for as `execvp` does it. But `execvp` gives to a shell what the system takes for no
/// program: a file that was cut off, or damaged, would be read as a script, and an empty one succeed.
fn exec(program: &OsStr, args: impl Iterator<Item = OsString>) -> io::Error {
    let text = |word: &OsStr| CString::new(word.as_bytes());
    let words: Result<Vec<_>, NulError> =
        std::iter::once(text(program)).chain(args.map(|arg| text(&arg))).collect();
    let words = match words {
        Ok(words) => words,
        Err(error) => return error.into(),
    };
    let exec = |path: &Path| match text(path.as_os_str()).map(|path| execv(&path, &words)) {
        Ok(Err(errno)) => errno,
        // It does not return otherwise, and no word of a command line holds a NUL.
        Ok(Ok(_)) | Err(_) => Errno::EINVAL,
    };
    if program.as_bytes().contains(&b'/') {
        return exec(Path::new(program)).into();
    }
    let mut found = Errno::ENOENT;
    for folder in env::split_paths(&env::var_os("PATH").unwrap_or_else(|| PATH.into())) {
        match exec(&folder.join(program)) {
            // There may be another that can be executed.
            Errno::EACCES => found = Errno::EACCES,
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ENAMETOOLONG
            | Errno::ENODEV
            | Errno::ESTALE
            | Errno::ETIMEDOUT => {}
            errno => return errno.into(),
        }
    }
    found.into()
}
