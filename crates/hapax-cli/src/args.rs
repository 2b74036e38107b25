//! The command line.
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

use crate::{commands::Command, failure::Failure};
use clap::{Args, Parser};
use hapax::Key;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

const AFTER: &str = "\
EXAMPLES:
  hapax once nightly-report -- ./report.sh      runs it; a second call prints what the first printed
  hapax once backup --every 1d -- ./backup.sh   once a day, however often cron calls
  hapax mail send mails.jsonl                   each mail once; run again, it sends what is left
  hapax queue add thumbs '{\"file\":\"a.png\"}'     a job, kept until it is done
  hapax queue work thumbs -- ./make-thumb       a command for each job
  hapax lock run deploy -- ./deploy.sh          one at a time, on all machines of the store
  hapax limit check login:ada --limit 5 --window 1m && ./login   five a minute
  hapax keys list                               what is kept
  hapax codes                                   exit codes, and what each error code means

Durations have a unit: 250ms, 5s, 10m, 24h, 7d.
Stores: sqlite:PATH (the default, in $XDG_DATA_HOME/hapax/hapax.db), memory: (ends with the process),
  redis://HOST:PORT/DB, rediss:// (encrypted), redis+unix:PATH, redis+cluster://HOST,HOST, redis+sentinel://HOST,HOST/PRIMARY,
  postgres://HOST/DATABASE; in a build with the feature `mongodb` also mongodb://HOST/DATABASE.
  `hapax help stores` lists every form and all options (timeout, TLS, schema, replicas, …).
Mails go to files unless --via names a mail server: `hapax help transports`.
Settings: a flag, else the variable, else hapax.toml (store, namespace), else the default.
An empty variable counts as unset; an empty HAPAX_STORE is refused.";

/// Side effects that are safe to retry
///
/// Work runs once per key: a second call answers as the first did, a failure frees the key, and an outcome that nobody
/// knows keeps it until someone looks. The promise is at least once with deduplication.
#[derive(Debug, Parser)]
#[command(name = "hapax", version, after_help = AFTER, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// Where keys are kept: `hapax help stores` lists the forms and their options [env: HAPAX_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Keeps the keys of one application apart from those of another [env: HAPAX_NAMESPACE] [default: default]
    #[arg(long, global = true, value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// Objects for programs on stdout: one a line for lists, one otherwise
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No notes and no counts on stderr: what is wrong, and nothing else
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Says more on stderr; twice, even more [env: HAPAX_LOG, a filter such as debug]
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Settings [env: HAPAX_CONFIG] [default: hapax.toml in the working directory, if it is yours or root's alone]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The longest key, with the newline that may end its file.
const LONGEST: usize = 64 * 1024 + 1;

/// Of a file that may have no end: no more than it takes to see that it is too long for a key.
fn start_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A key, by its text or from a file.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct KeyArg {
    /// The key: 1 byte to 64 KiB of UTF-8
    #[arg(value_name = "KEY")]
    key: Option<OsString>,
    /// Reads the key from a file: for one with a NUL byte or a leading dash. A newline at its end is not part of it
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl KeyArg {
    /// Its text, as it was given.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let not_utf8 =
            || Failure::new(crate::exit::Exit::Invalid, "idempotency.invalid", "the key is not UTF-8");
        match (&self.key, &self.key_file) {
            (Some(key), _) => key.to_str().map(str::to_owned).ok_or_else(not_utf8),
            (None, Some(path)) => {
                let bytes = start_of(path).map_err(|error| {
                    Failure::input(format!("the key cannot be read from {}: {error}", path.display()))
                })?;
                if bytes.len() > LONGEST {
                    let message = format!("the key in {} is longer than 64 KiB", path.display());
                    return Err(Failure::new(crate::exit::Exit::Invalid, "idempotency.invalid", message));
                }
                let text = String::from_utf8(bytes).map_err(|_| not_utf8())?;
                Ok(text.strip_suffix('\n').map_or_else(|| text.clone(), str::to_owned))
            }
            (None, None) => Err(Failure::usage("no key was given")),
        }
    }

    /// A key that is kept already: as it was given, or as a list shows it.
    pub(crate) fn kept(&self) -> Result<Key, Failure> {
        Ok(Key::from_shown(&self.text()?)?)
    }
}
