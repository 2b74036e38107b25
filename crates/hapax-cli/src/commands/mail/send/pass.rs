//! The first pass, for both commands that read files of mails.

use super::{
    check::{Bad, Checked, Checker},
    input::{Drafter, Format, KeyTemplate, Opening, Source, Template},
    progress::Progress,
    selection::Selection,
};
use crate::{commands::interrupts::Interrupts, exit::Exit, failure::Failure};
use clap::Args;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use tokio::sync::mpsc;

/// Files of mails, and how they are read.
#[derive(Debug, Args)]
pub(in super::super) struct Files {
    /// JSON Lines (- for standard input), .eml, or .csv together with --template
    #[arg(required = true, value_name = "FILE", id = "FILES")]
    paths: Vec<PathBuf>,
    /// Makes a message of each row of a CSV file
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// What stands between the columns of a CSV file [default: a comma, a tab for .tsv]
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// How FILEs are read, where their names do not say so
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[arg(
        long,
        value_name = "TEXT",
        help = "The key of messages that have none: text with {to}, {from}, {subject}, {line}, {file}, {message_id}, \
                {metadata.NAME}, or the name of a column"
    )]
    key_template: Option<String>,
}

/// What becomes of the mails.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Purpose {
    /// They are sent now; `at_once` names a transport that sends at once and at no other time, if there is one.
    Send { at_once: Option<&'static str> },
    /// Each becomes a job.
    Queue,
}

/// What the first pass needs, on its way to another thread.
pub(in super::super) struct Plan {
    paths: Vec<PathBuf>,
    opening: Opening,
    template: Option<PathBuf>,
    key_template: Option<String>,
    selection: Option<(PathBuf, bool)>,
    purpose: Purpose,
}

impl Files {
    /// `selection` is the report of an earlier run, and whether what failed for good is meant, too.
    pub(in super::super) fn plan(&self, purpose: Purpose, selection: Option<(PathBuf, bool)>) -> Plan {
        Plan {
            paths: self.paths.clone(),
            opening: Opening {
                format: self.format,
                has_template: self.template.is_some(),
                delimiter: self.delimiter,
            },
            template: self.template.clone(),
            key_template: self.key_template.clone(),
            selection,
            purpose,
        }
    }
}

impl Plan {
    /// Everything that is small first: standard input may take long, and is gone once it was read.
    fn open(self) -> Result<Checker, Failure> {
        if self.paths.iter().filter(|file| *file == Path::new("-")).count() > 1 {
            return Err(Failure::usage("standard input, `-`, can be read once only"));
        }
        let template = self.template.as_deref().map(Template::load).transpose()?;
        let key_template = self.key_template.as_deref();
        let key_template =
            key_template.map(|text| KeyTemplate::parse(text, template.is_some())).transpose()?;
        let selection = self.selection.as_ref();
        let selection = selection.map(|(path, failed_too)| Selection::read(path, *failed_too)).transpose()?;
        let sources: Result<Vec<_>, _> =
            self.paths.iter().map(|file| Source::open(file, self.opening)).collect();
        let drafter = Drafter { template, key_template };
        Ok(Checker { sources: sources?, drafter, selection, purpose: self.purpose })
    }

    /// Reads and checks everything, on a thread of its own: standard input may be slow, and a signal has to be heard. `bad`
    /// gets what is not valid, in order.
    pub(in super::super) async fn check(
        self,
        mut bad: impl FnMut(&Bad),
        progress: &Progress,
        interrupts: &mut Interrupts,
    ) -> Result<Result<Checked, i32>, Failure> {
        enum News {
            Bad(Bad),
            Seen(u64),
            Done(Box<Result<Checked, Failure>>),
        }
        // Bounded: a file of nothing but faults must not fill the memory.
        let (sender, mut news) = mpsc::channel(64);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || {
            let tell = |news| drop(sender.blocking_send(news));
            let checked = self.open().and_then(|checker| {
                Arc::new(checker).check(&stopped, |bad| tell(News::Bad(bad)), |seen| tell(News::Seen(seen)))
            });
            tell(News::Done(Box::new(checked)));
        });
        loop {
            tokio::select! {
                signal = interrupts.next() => {
                    stop.store(true, Ordering::Relaxed);
                    return Ok(Err(signal));
                }
                next = news.recv() => match next {
                    Some(News::Bad(found)) => bad(&found),
                    Some(News::Seen(seen)) => progress.checked(seen),
                    Some(News::Done(checked)) => return checked.map(Ok),
                    None => return Err(Failure::new(Exit::Bug, "command.internal", "the check ended without an answer")),
                },
            }
        }
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii_graphic() && *byte != b'"' || matches!(text, "\t" | " ") => {
                Ok(*text.as_bytes().first().unwrap_or(&b','))
            }
            _ => Err("one ASCII character, or tab".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_one_character() {
        assert_eq!(parse_delimiter(";"), Ok(b';'));
        assert_eq!(parse_delimiter("tab"), Ok(b'\t'));
        for text in ["", ",,", "\"", "ä", "\n"] {
            assert!(parse_delimiter(text).is_err(), "{text:?}");
        }
    }
}
