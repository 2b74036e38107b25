//! The files of a run, and reading them entry by entry.

use super::{
    lines::{At, Line, Lines, MAX_BYTES},
    problem::{Problem, Problems},
    rows::{Columns, Row, Rows},
};
use crate::{failure::Failure, text};
use clap::ValueEnum;
use hapax::mail::raw::MAX_RAW_BYTES;
use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

const BUFFER: usize = 32 * 1024;
/// Standard input.
const STDIN: &str = "-";

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One message a line
    Jsonl,
    /// One message a row, made by --template
    Csv,
    /// One mail, ready to be sent
    Eml,
}

/// One FILE.
#[derive(Debug)]
pub(crate) struct Source {
    /// As it was given, safe to print.
    pub(crate) shown: String,
    /// What paths of attachments start at.
    pub(crate) folder: PathBuf,
    pub(crate) format: Format,
    delimiter: u8,
    data: Data,
}

#[derive(Debug)]
enum Data {
    /// Opened when it is read: a run may have thousands.
    Path(PathBuf),
    /// What cannot be read twice, in a file that has no name.
    Copy(File),
}

/// How FILEs are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) format: Option<Format>,
    pub(crate) has_template: bool,
    pub(crate) delimiter: Option<u8>,
}

impl Source {
    /// Finds out what FILE is. A pipe is read to its end.
    pub(crate) fn open(path: &Path, opening: Opening) -> Result<Self, Failure> {
        let shown = text::shown(&path.display().to_string());
        let format = opening.format.unwrap_or_else(|| guess(path, opening.has_template));
        if format == Format::Csv && !opening.has_template {
            return Err(Failure::usage(format!("{shown} is CSV, so --template FILE is needed"))
                .help("a template is a JSON object as a line of a JSON Lines file is one, with {{ column }} in its texts"));
        }
        let tab = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tsv"));
        let delimiter = opening.delimiter.unwrap_or(if tab { b'\t' } else { b',' });
        let cannot = |error: io::Error| Failure::input(format!("{shown} cannot be read: {}", why(&error)));
        let (data, folder) = if path == Path::new(STDIN) {
            (Data::Copy(copy(io::stdin().lock(), &shown)?), PathBuf::new())
        } else {
            let metadata = fs::metadata(path).map_err(cannot)?;
            if metadata.is_dir() {
                let help = "give the files in it: FOLDER/*.jsonl";
                return Err(Failure::input(format!("{shown} is a directory")).help(help));
            }
            let file = File::open(path).map_err(cannot)?;
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            let data = if metadata.is_file() {
                Data::Path(path.to_owned())
            } else {
                Data::Copy(copy(file, &shown)?)
            };
            (data, folder)
        };
        Ok(Self { shown, folder, format, delimiter, data })
    }

    /// Whether its first line names columns.
    pub(crate) fn has_columns(&self) -> bool {
        self.format == Format::Csv
    }

    /// Why it cannot be read to its end.
    pub(super) fn broken(&self, error: &io::Error) -> Failure {
        Failure::input(format!("{} cannot be read: {}", self.shown, why(error)))
    }

    /// Reads it from its start.
    pub(crate) fn read(&self) -> Result<Reader, Failure> {
        let cannot = |error: io::Error| self.broken(&error);
        let mut file = match &self.data {
            Data::Path(path) => File::open(path).map_err(cannot)?,
            Data::Copy(file) => file.try_clone().map_err(cannot)?,
        };
        // A copy shares its position with the reader before.
        file.rewind().map_err(cannot)?;
        Ok(match self.format {
            Format::Jsonl => Reader::Lines(Box::new(Lines::new(buffered(file), At::START))),
            Format::Csv => Reader::Rows(Box::new(Rows::new(buffered(file), self.delimiter, &self.shown)?)),
            Format::Eml => Reader::Mail(Some(file)),
        })
    }
}

fn buffered(file: File) -> BufReader<File> {
    BufReader::with_capacity(BUFFER, file)
}

fn guess(path: &Path, has_template: bool) -> Format {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase().to_string_lossy().into_owned());
    match ending.as_deref() {
        Some("eml") => Format::Eml,
        Some("csv" | "tsv") => Format::Csv,
        Some("jsonl" | "ndjson" | "json") => Format::Jsonl,
        _ if has_template => Format::Csv,
        _ => Format::Jsonl,
    }
}

/// What an error of the system means, without its number.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// The input in a file of its own that nobody else can open: it is read twice.
fn copy(mut input: impl Read, shown: &str) -> Result<File, Failure> {
    let place = |error: io::Error| {
        Failure::input(format!("{shown} cannot be kept in a temporary file: {error}"))
            .help("make room in the folder for temporary files, or set TMPDIR to another one")
    };
    let mut file = tempfile::tempfile().map_err(place)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(n) => io::Write::write_all(&mut file, buffer.get(..n).unwrap_or_default()).map_err(place)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::input(format!("{shown} cannot be read: {}", why(&error)))),
        }
    }
}

/// Reads a source entry by entry.
pub(crate) enum Reader {
    Lines(Box<Lines<BufReader<File>>>),
    Rows(Box<Rows<BufReader<File>>>),
    Mail(Option<File>),
}

/// What one message is made of.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    Line(&'a [u8]),
    Row(Row),
    Mail(Vec<u8>),
    Bad(Problems),
}

impl Reader {
    /// The names of the columns, where there are any.
    pub(crate) fn columns(&self) -> Option<&Columns> {
        if let Self::Rows(rows) = self { Some(rows.columns()) } else { None }
    }

    /// Goes to the entry at `at`.
    pub(crate) fn seek(self, at: At) -> io::Result<Self> {
        match self {
            Self::Lines(lines) => {
                let mut reader = lines.into_inner();
                reader.seek(SeekFrom::Start(at.offset))?;
                Ok(Self::Lines(Box::new(Lines::new(reader, at))))
            }
            Self::Rows(rows) => Ok(Self::Rows(Box::new(rows.seek(at)?))),
            mail @ Self::Mail(_) => Ok(mail),
        }
    }

    /// The next entry, and where it begins.
    pub(crate) fn next(&mut self) -> io::Result<Option<(At, Entry<'_>)>> {
        match self {
            Self::Lines(lines) => Ok(lines.next()?.map(|(at, line)| match line {
                Line::Read(bytes) => (at, Entry::Line(bytes)),
                Line::TooLong(bytes) => (at, Entry::Bad(too_large("line", bytes, MAX_BYTES))),
            })),
            Self::Rows(rows) => {
                Ok(rows.next()?.map(|(at, row)| (at, row.map_or_else(Entry::Bad, Entry::Row))))
            }
            Self::Mail(file) => {
                let Some(file) = file.take() else { return Ok(None) };
                let at = At { line: 0, offset: 0 };
                let (most, length) = (MAX_RAW_BYTES as u64, file.metadata()?.len());
                if length > most {
                    return Ok(Some((at, Entry::Bad(too_large("mail", length, most)))));
                }
                let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
                file.take(most + 1).read_to_end(&mut bytes)?;
                Ok(Some((at, Entry::Mail(bytes))))
            }
        }
    }
}

fn too_large(what: &str, bytes: u64, most: u64) -> Problems {
    let mib = most / 1024 / 1024;
    let reason = format!(
        "the {what} has {bytes} bytes: {mib} MiB are the most; give large attachments by their `path`"
    );
    Problem::new("", "message.size", reason).into()
}
