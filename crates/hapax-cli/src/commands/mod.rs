//! The commands, one module each: its arguments, and what it does.

mod bench;
mod codes;
mod completions;
mod doctor;
mod interrupts;
pub(crate) mod keys;
mod limit;
mod lock;
mod mail;
mod man;
#[cfg(unix)]
mod once;
#[cfg(unix)]
mod program;
mod queue;
mod store;
mod stores;
mod transports;

use crate::{config::Settings, exit::Exit, failure::Failure, output::Output};
use clap::Subcommand;
use std::io;

/// What a command works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(unix)]
    Once(once::Once),
    Keys(keys::Keys),
    Queue(queue::Queue),
    Lock(lock::Lock),
    Limit(limit::Limit),
    Mail(mail::Mail),
    Store(store::Store),
    Stores(stores::Stores),
    Transports(transports::Transports),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
    Codes(codes::Codes),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            #[cfg(unix)]
            Self::Once(once) => once.run(context),
            Self::Keys(keys) => block_on(keys.run(context)),
            Self::Queue(queue) => block_on(queue.run(context)),
            Self::Lock(lock) => block_on(lock.run(context)),
            Self::Limit(limit) => block_on(limit.run(context)),
            Self::Mail(mail) => block_on(mail.run(context)),
            Self::Store(store) => block_on(store.run(context)),
            Self::Stores(stores) => stores.run(context),
            Self::Transports(transports) => transports.run(context),
            Self::Doctor(doctor) => block_on(doctor.run(context)),
            Self::Bench(bench) => bench.run(context),
            Self::Codes(codes) => codes.run(context),
            Self::Completions(completions) => completions.run(context),
            Self::Man(man) => man.run(context),
        }
    }
}

/// On one thread: the quickest to start, and enough for a command that waits for one child or one store.
fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Exit::Bug, "command.internal", format!("no runtime could be made: {error}"))
    };
    #[cfg(unix)]
    crate::limits::check_open_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    #[cfg(unix)]
    {
        let _inside = runtime.enter();
        crate::limits::survive_large_files().map_err(failed)?;
    }
    let answer = runtime.block_on(command);
    // Nothing that is left, such as a read of stdin, is worth waiting for.
    runtime.shutdown_background();
    answer
}
