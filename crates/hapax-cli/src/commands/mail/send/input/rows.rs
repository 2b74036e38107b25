//! Rows of a CSV file, each within a limit.
//!
//! Where a row ends is found out here, so that a quote that is never closed does not fill the memory and each row has
//! its line; what is in it, the CSV reader says.

use super::{
    lines::{At, Lines, MAX_BYTES},
    problem::{Problem, Problems},
};
use crate::{failure::Failure, text};
use csv::{ByteRecord, ReaderBuilder};
use std::{
    io::{self, BufRead, Read, Seek, SeekFrom},
    sync::Arc,
};

/// Reads rows one after the other; the first line names the columns.
pub(crate) struct Rows<R> {
    lines: Lines<R>,
    quotes: Quotes,
    parser: csv::Reader<Piece>,
    columns: Columns,
    ended: bool,
}

/// The names of the columns, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns(Arc<[String]>);

/// One row. Its fields are UTF-8.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    columns: Columns,
    record: ByteRecord,
}

impl Columns {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }
}

impl Row {
    /// Each column with its text.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.record.iter().map(|field| std::str::from_utf8(field).unwrap_or_default());
        self.columns.names().zip(fields)
    }

    pub(crate) fn get(&self, column: &str) -> Option<&str> {
        self.cells().find(|(name, _)| *name == column).map(|(_, text)| text)
    }
}

/// What was found where a row should be.
enum Found {
    Record(ByteRecord),
    TooLong,
}

impl<R: BufRead> Rows<R> {
    /// Reads the names of the columns.
    pub(super) fn new(file: R, delimiter: u8, shown: &str) -> Result<Self, Failure> {
        let mut parser = ReaderBuilder::new();
        let parser =
            parser.delimiter(delimiter).has_headers(false).flexible(true).from_reader(Piece::default());
        let lines = Lines::new(file, At::START);
        let mut rows =
            Self { lines, quotes: Quotes::new(delimiter), parser, columns: Columns::default(), ended: false };
        let refuse = |reason: &str| Failure::input(format!("{shown}: {reason}"));
        match rows
            .record()
            .map_err(|error| refuse(&format!("the names of the columns cannot be read: {error}")))?
        {
            None => return Err(refuse("the first line has to name the columns")),
            Some((_, Found::TooLong)) => {
                return Err(refuse("the line with the names of the columns is too long"));
            }
            Some((_, Found::Record(record))) => {
                rows.columns = columns(&record).map_err(|reason| refuse(&reason))?;
            }
        }
        Ok(rows)
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The next row, and where it begins.
    pub(super) fn next(&mut self) -> io::Result<Option<(At, Result<Row, Problems>)>> {
        let Some((at, found)) = self.record()? else { return Ok(None) };
        let row = match found {
            Found::Record(record) => self.row(record),
            Found::TooLong => {
                let mib = MAX_BYTES / 1024 / 1024;
                let reason = format!(
                    "the row is longer than {mib} MiB, or a quote in it is never closed; what follows was not read"
                );
                Err(Problem::new("", "message.size", reason).into())
            }
        };
        Ok(Some((at, row)))
    }

    /// A row of any length, if its fields are as they should be.
    fn row(&self, record: ByteRecord) -> Result<Row, Problems> {
        let (len, columns) = (record.len(), self.columns.0.len());
        if len != columns {
            let fields = if len == 1 { "1 field".to_owned() } else { format!("{len} fields") };
            let reason = format!("it has {fields}, and there are {columns} columns");
            return Err(Problem::new("", "message.syntax", reason).into());
        }
        let bad = record.iter().zip(self.columns.names()).filter_map(|(field, column)| {
            let error = std::str::from_utf8(field).err()?;
            let reason = format!("byte {} of the field is no valid UTF-8", error.valid_up_to() + 1);
            Some(Problem::new(column, "message.encoding", reason))
        });
        let bad: Vec<_> = bad.collect();
        if bad.is_empty() { Ok(Row { columns: self.columns.clone(), record }) } else { Err(Problems(bad)) }
    }

    /// The fields of the next row that is not blank.
    fn record(&mut self) -> io::Result<Option<(At, Found)>> {
        if self.ended {
            return Ok(None);
        }
        let mut begun: Option<At> = None;
        self.parser.get_mut().clear();
        while let Some((at, too_long)) = self.lines.advance()? {
            if begun.is_none() && too_long.is_none() && self.lines.raw().trim_ascii().is_empty() {
                continue;
            }
            let start = *begun.get_or_insert(at);
            let piece = self.parser.get_mut();
            piece.bytes.extend_from_slice(self.lines.raw());
            if too_long.is_some() || piece.bytes.len() as u64 > MAX_BYTES {
                // Where the row ends is not known, so nothing after it can be read.
                self.ended = true;
                piece.clear();
                return Ok(Some((start, Found::TooLong)));
            }
            if !self.quotes.are_open_after(self.lines.raw()) {
                break;
            }
        }
        let Some(at) = begun else { return Ok(None) };
        let unfinished = self.quotes.reset();
        let piece = self.parser.get_mut();
        if unfinished {
            piece.bytes.push(b'"');
        }
        // With its end, so that the parser need not look for more.
        piece.bytes.push(b'\n');
        let mut record = ByteRecord::new();
        self.parser.read_byte_record(&mut record).map_err(io::Error::from)?;
        record.set_position(None);
        Ok(Some((at, Found::Record(record))))
    }
}

impl<R: BufRead + Seek> Rows<R> {
    /// Goes on with the row at `at`.
    pub(super) fn seek(self, at: At) -> io::Result<Self> {
        let mut reader = self.lines.into_inner();
        reader.seek(SeekFrom::Start(at.offset))?;
        Ok(Self { lines: Lines::new(reader, at), ended: false, ..self })
    }
}

fn columns(header: &ByteRecord) -> Result<Columns, String> {
    let mut names: Vec<String> = Vec::new();
    for field in header {
        let name = std::str::from_utf8(field)
            .map_err(|_| "the names of the columns are not UTF-8".to_owned())?
            .trim();
        if !name.is_empty() && names.iter().any(|known| known == name) {
            return Err(format!("two columns are called `{}`", text::shown(name)));
        }
        names.push(name.to_owned());
    }
    if names.iter().all(String::is_empty) {
        return Err("the first line has to name the columns".to_owned());
    }
    Ok(Columns(names.into()))
}

/// Whether a line ends within quotes: then the row goes on.
struct Quotes {
    delimiter: u8,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote within quotes: the end of them, or half of a doubled one.
    QuoteSeen,
}

impl Quotes {
    fn new(delimiter: u8) -> Self {
        Self { delimiter, state: State::FieldStart }
    }

    fn are_open_after(&mut self, line: &[u8]) -> bool {
        for byte in line {
            self.state = match (self.state, byte) {
                (State::Quoted, b'"') => State::QuoteSeen,
                (State::Quoted, _) | (State::FieldStart | State::QuoteSeen, b'"') => State::Quoted,
                (_, byte) if *byte == self.delimiter || *byte == b'\n' => State::FieldStart,
                _ => State::Plain,
            };
        }
        self.state == State::Quoted
    }

    /// Starts over. Answers whether quotes were open.
    fn reset(&mut self) -> bool {
        std::mem::replace(&mut self.state, State::FieldStart) == State::Quoted
    }
}

/// One row at a time, as a file for the parser.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    read: usize,
}

impl Piece {
    fn clear(&mut self) {
        const KEPT_CAPACITY: usize = 1024 * 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.read = 0;
    }
}

impl Read for Piece {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.bytes.get(self.read..).unwrap_or_default().read(buf)?;
        self.read += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    type Read = Rows<Cursor<Vec<u8>>>;

    fn rows(bytes: &[u8]) -> Read {
        Rows::new(Cursor::new(bytes.to_vec()), b',', "list.csv").unwrap()
    }

    fn next(rows: &mut Read) -> (At, Result<Row, Problems>) {
        rows.next().unwrap().unwrap()
    }

    #[test]
    fn rows_are_read_with_their_lines() {
        for end in ["\n", "\r\n"] {
            let text =
                "\u{feff}name,to\n\"Ada\nL\",a@b.c\n\n\"\"\"B\"\"\",5\" nails\nBob,b@b.c".replace('\n', end);
            let mut rows = rows(text.as_bytes());
            assert_eq!(rows.columns().names().collect::<Vec<_>>(), ["name", "to"]);
            let (at, row) = next(&mut rows);
            assert_eq!((at.line, row.unwrap().get("name")), (2, Some(&*format!("Ada{end}L"))));
            let (at, row) = next(&mut rows);
            let row = row.unwrap();
            assert_eq!((at.line, row.get("name"), row.get("to")), (5, Some("\"B\""), Some("5\" nails")));
            let (at, row) = next(&mut rows);
            assert_eq!((at.line, row.unwrap().get("to")), (6, Some("b@b.c")));
            assert!(rows.next().unwrap().is_none());
        }
    }

    #[test]
    fn a_row_is_found_again() {
        let mut rows = rows(b"a,b\r\n1,2\r\n\"3\r\n\",4\r\n5,6\r\n");
        next(&mut rows).1.unwrap();
        let (at, _) = next(&mut rows);
        while rows.next().unwrap().is_some() {}
        let mut rows = rows.seek(at).unwrap();
        let (again, row) = next(&mut rows);
        assert_eq!((again, row.unwrap().get("b")), (at, Some("4")));
        assert_eq!(next(&mut rows).1.unwrap().get("b"), Some("6"));
    }

    #[test]
    fn bad_rows_are_reported_and_the_next_is_read() {
        let mut rows = rows(b"a,b\n1\n\xff,2\n3,4\n");
        let (at, row) = next(&mut rows);
        assert_eq!(at.line, 2);
        assert!(row.unwrap_err().0[0].reason.contains("1 field,"));
        assert_eq!(next(&mut rows).1.unwrap_err().0[0].field, "a");
        assert_eq!(next(&mut rows).1.unwrap().get("b"), Some("4"));
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
        let mut bytes = b"a,b\n1,\"".to_vec();
        while bytes.len() as u64 <= MAX_BYTES * 2 {
            bytes.extend_from_slice(&[b'x'; 1000]);
            bytes.push(b'\n');
        }
        let mut rows = rows(&bytes);
        let (at, row) = next(&mut rows);
        assert_eq!(at.line, 2);
        assert!(row.unwrap_err().0[0].reason.contains("never closed"));
        assert!(rows.next().unwrap().is_none());
    }

    #[test]
    fn a_quote_that_the_end_of_the_file_closes_is_a_row_of_the_wrong_length() {
        let mut rows = rows(b"a,b\n\"1,2\n3,4\n");
        assert!(next(&mut rows).1.unwrap_err().0[0].reason.contains("1 field,"));
        assert!(rows.next().unwrap().is_none());
    }

    #[test]
    fn columns_are_told_apart() {
        let refused = |text: &str| Rows::new(Cursor::new(text.as_bytes().to_vec()), b',', "x").is_err();
        assert!(refused("a,a\n"));
        assert!(refused(""));
        assert!(refused(",\n"));
        assert!(!refused("a,,\n"));
    }

    #[test]
    fn long_rows_do_not_depend_on_the_buffer_of_the_parser() {
        let long = "x".repeat(100_000);
        let mut rows = rows(format!("a,b\r\n{long},1\r\n2,{long}\r\n").as_bytes());
        assert_eq!(next(&mut rows).1.unwrap().get("b"), Some("1"));
        assert_eq!(next(&mut rows).1.unwrap().get("b").unwrap().len(), 100_000);
        assert!(rows.next().unwrap().is_none());
    }
}
