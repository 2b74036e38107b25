//! `hapax __exec CMD ARG…`: holds CMD's place until everything is ready for it, then becomes CMD.
//!
//! Its stdin is the *gate*, a socket. hapax opens it by sending the three descriptors that CMD is to have, and the variables
//! that were not known before; what comes back is the error of `exec`, or nothing: the gate closes when CMD begins.

use nix::{errno::Errno, unistd::execve};
use rustix::{
    io::{FdFlags, fcntl_setfd, retry_on_intr},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, sendmsg,
    },
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use std::{
    collections::BTreeMap,
    env,
    ffi::{CString, NulError, OsStr, OsString},
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            net::UnixStream,
            process::CommandExt,
        },
    },
    path::Path,
    process::{self, ExitCode},
};

/// The hidden subcommand.
pub(super) const SUBCOMMAND: &str = "__exec";

/// Where programs are looked for when nothing says where.
const PATH: &str = "/bin:/usr/bin";

/// stdin, stdout and stderr of CMD.
pub(super) type Stdio = [OwnedFd; 3];

/// A variable of the environment: its name, and its value.
pub(super) type Variable = (OsString, OsString);

/// Lets CMD begin, with these variables beside those of its process.
pub(super) fn open(gate: &UnixStream, [stdin, stdout, stderr]: &Stdio, env: &[Variable]) -> io::Result<()> {
    let env: Vec<u8> = env
        .iter()
        .filter(|(_, value)| !value.as_bytes().contains(&0))
        .flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat())
        .collect();
    let length = u32::try_from(env.len()).map_err(|_| io::Error::from(Errno::E2BIG))?;
    let fds = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    // Descriptors travel with the first byte.
    let message = [&length.to_ne_bytes()[..], &env].concat();
    let sent = sendmsg(gate, &[IoSlice::new(&message)], &mut control, SendFlags::empty())?;
    let mut gate = gate;
    gate.write_all(message.get(sent..).unwrap_or_default())
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
    let Some(program) = args.next() else { return ExitCode::FAILURE };
    // All that can be done before the gate opens is done before.
    let_pipes_break();
    let command = Command::new(program, args);
    let error = match receive(&mut gate) {
        Ok(Some((stdio, env))) => {
            take(&stdio).and(command).map_or_else(|error| error, |command| command.exec(&env))
        }
        Err(error) => error,
        // hapax is gone, or has no use for us, or this was typed by hand.
        Ok(None) => return ExitCode::FAILURE,
    };
    // Whatever has no number is at least not taken for success.
    let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
    let _ = gate.write_all(&errno.to_ne_bytes());
    ExitCode::FAILURE
}

/// Waits at the gate. `None`: it was closed.
fn receive(gate: &mut UnixStream) -> io::Result<Option<(Stdio, Vec<u8>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; 4];
    let flags = RecvFlags::WAITALL;
    retry_on_intr(|| recvmsg(&*gate, &mut [IoSliceMut::new(&mut length)], &mut control, flags))?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    let Ok(stdio) = fds.try_into() else { return Ok(None) };
    let mut env = vec![0; usize::try_from(u32::from_ne_bytes(length)).unwrap_or(usize::MAX)];
    gate.read_exact(&mut env)?;
    Ok(Some((stdio, env)))
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

/// Every Rust program ignores SIGPIPE, and what is ignored stays so: a writer to a closed pipe would not end. The standard
/// library takes that back before it executes a program, whether there is one or not.
fn let_pipes_break() {
    let _there_is_none = process::Command::new("").exec();
}

/// A program and all that it is given.
struct Command {
    program: OsString,
    words: Vec<CString>,
    env: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Command {
    fn new(program: OsString, args: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let words =
            std::iter::once(text(&program)).chain(args.map(|arg| text(&arg))).collect::<Result<_, _>>()?;
        let env = env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
        Ok(Self { program, words, env })
    }

    /// Becomes the program, which is looked for as `execvp` does it. But `execvp` gives to a shell what the system takes for
    /// no program: a file that was cut off, or damaged, would be read as a script, and an empty one succeed.
    fn exec(mut self, added: &[u8]) -> io::Error {
        for variable in added.split(|byte| *byte == 0) {
            if let Some(equals) = variable.iter().position(|byte| *byte == b'=') {
                let (name, value) = variable.split_at(equals);
                self.env.insert(name.to_vec(), value.get(1..).unwrap_or_default().to_vec());
            }
        }
        let env = self.env.iter().map(|(name, value)| CString::new([name, &b"="[..], value].concat()));
        let env: Vec<_> = match env.collect::<Result<_, _>>() {
            Ok(env) => env,
            Err(error) => return io::Error::from(error),
        };
        let exec = |path: &Path| match text(path.as_os_str()).map(|path| execve(&path, &self.words, &env)) {
            Ok(Err(errno)) => errno,
            // It does not return otherwise, and no word of a command line holds a NUL.
            Ok(Ok(_)) | Err(_) => Errno::EINVAL,
        };
        if self.program.as_bytes().contains(&b'/') {
            return exec(Path::new(&self.program)).into();
        }
        let mut found = Errno::ENOENT;
        for folder in env::split_paths(&env::var_os("PATH").unwrap_or_else(|| PATH.into())) {
            match exec(&folder.join(&self.program)) {
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
}

fn text(word: &OsStr) -> Result<CString, NulError> {
    CString::new(word.as_bytes())
}
