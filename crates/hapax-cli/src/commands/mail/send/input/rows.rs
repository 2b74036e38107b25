//! Rows of a CSV file, each within a limit.

use super::{
    lines::{At, MAX_BYTES},
    problem::{Problem, Problems},
};
use crate::{failure::Failure, text};
use csv::{ByteRecord, ErrorKind, Position, ReaderBuilder};
use std::{
    cell::Cell,
    io::{self, Read, Seek, SeekFrom},
    rc::Rc,
    sync::Arc,
};

/// Reads rows one after the other; the first line names the columns.
pub(crate) struct Rows<R> {
    reader: csv::Reader<Measured<R>>,
    read: Rc<Cell<u64>>,
    columns: Columns,
    record: ByteRecord,
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

impl<R: Read + Seek> Rows<R> {
    /// Reads the names of the columns.
    pub(super) fn new(file: R, delimiter: u8, shown: &str) -> Result<Self, Failure> {
        let read = Rc::<Cell<u64>>::default();
        let measured = Measured { inner: file, read: Rc::clone(&read), limit_from: 0 };
        let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(measured);
        let header = reader.byte_headers().map_err(|error| {
            Failure::input(format!("{shown}: the names of the columns cannot be read: {}", reason(&error)))
        })?;
        let columns = columns(header).map_err(|reason| Failure::input(format!("{shown}:1: {reason}")))?;
        Ok(Self { reader, read, columns, record: ByteRecord::new(), ended: false })
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Goes on with the row at `at`.
    pub(super) fn seek(&mut self, at: At) -> io::Result<()> {
        let mut position = Position::new();
        position.set_byte(at.offset).set_line(at.line);
        self.reader.seek(position).map_err(io::Error::from)
    }

    /// The next row, and where it begins.
    pub(super) fn next(&mut self) -> io::Result<Option<(At, Result<Row, Problems>)>> {
        if self.ended {
            return Ok(None);
        }
        let start = self.reader.position().clone();
        self.reader.get_mut().limit_from = self.read.get();
        let (at, row) = match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => return Ok(None),
            Ok(true) => (self.record.position().cloned(), self.row()),
            Err(error) => match error.into_kind() {
                ErrorKind::UnequalLengths { pos, len, .. } => {
                    let reason = format!("it has {len} fields, and there are {} columns", self.columns.0.len());
                    (pos, Err(Problem::new("", "message.syntax", reason).into()))
                }
                ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    // Where the row ends is not known, so nothing after it can be read.
                    self.ended = true;
                    let mib = MAX_BYTES / 1024 / 1024;
                    let reason = format!(
                        "the row is longer than {mib} MiB, or a quote in it is never closed; what follows was not read"
                    );
                    (None, Err(Problem::new("", "message.size", reason).into()))
                }
                ErrorKind::Io(error) => return Err(error),
                other => return Err(io::Error::other(format!("{other:?}"))),
            },
        };
        let at = at.unwrap_or(start);
        Ok(Some((At { line: at.line(), offset: at.byte() }, row)))
    }

    /// The row that was read last, if its fields are UTF-8.
    fn row(&self) -> Result<Row, Problems> {
        let bad = self.record.iter().zip(self.columns.names()).filter_map(|(field, column)| {
            let error = std::str::from_utf8(field).err()?;
            let reason = format!("byte {} of the field is no valid UTF-8", error.valid_up_to() + 1);
            Some(Problem::new(column, "message.encoding", reason))
        });
        let bad: Vec<_> = bad.collect();
        if !bad.is_empty() {
            return Err(Problems(bad));
        }
        Ok(Row { columns: self.columns.clone(), record: self.record.clone() })
    }
}

fn columns(header: &ByteRecord) -> Result<Columns, String> {
    let mut names: Vec<String> = Vec::new();
    for field in header {
        let name = std::str::from_utf8(field).map_err(|_| "the names of the columns are not UTF-8".to_owned())?.trim();
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

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        ErrorKind::Io(inner) if inner.kind() == io::ErrorKind::FileTooLarge => "the line is too long".to_owned(),
        ErrorKind::Io(inner) => inner.to_string(),
        _ => error.to_string(),
    }
}

/// Counts what is read, and ends with an error where one row takes too much.
struct Measured<R> {
    inner: R,
    read: Rc<Cell<u64>>,
    limit_from: u64,
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.read.get() - self.limit_from > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let n = self.inner.read(buf)?;
        self.read.set(self.read.get() + n as u64);
        Ok(n)
    }
}

impl<R: Seek> Seek for Measured<R> {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        self.inner.seek(pos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn rows(bytes: &[u8]) -> Rows<Cursor<Vec<u8>>> {
        Rows::new(Cursor::new(bytes.to_vec()), b',', "list.csv").unwrap()
    }

    fn next(rows: &mut Rows<Cursor<Vec<u8>>>) -> (At, Result<Row, Problems>) {
        rows.next().unwrap().unwrap()
    }

    #[test]
    fn rows_are_read_with_their_lines() {
        let mut rows = rows(b"\xef\xbb\xbfname,to\r\n\"Ada\nL\",a@b.c\r\n\nBob,b@b.c\n");
        assert_eq!(rows.columns().names().collect::<Vec<_>>(), ["name", "to"]);
        let (at, row) = next(&mut rows);
        assert_eq!((at.line, row.unwrap().get("name")), (2, Some("Ada\nL")));
        assert_eq!(next(&mut rows).1.unwrap().get("to"), Some("b@b.c"));
        assert!(rows.next().unwrap().is_none());
    }

    #[test]
    fn a_row_is_found_again() {
        let mut rows = rows(b"a,b\n1,2\n3,4\n5,6\n");
        next(&mut rows).1.unwrap();
        let (at, _) = next(&mut rows);
        while rows.next().unwrap().is_some() {}
        rows.seek(at).unwrap();
        let (again, row) = next(&mut rows);
        assert_eq!((again, row.unwrap().get("a")), (at, Some("3")));
    }

    #[test]
    fn bad_rows_are_reported_and_the_next_is_read() {
        let mut rows = rows(b"a,b\n1\n\xff,2\n3,4\n");
        let (at, row) = next(&mut rows);
        assert_eq!(at.line, 2);
        assert!(row.unwrap_err().0[0].reason.contains("1 fields"));
        assert_eq!(next(&mut rows).1.unwrap_err().0[0].field, "a");
        assert_eq!(next(&mut rows).1.unwrap().get("b"), Some("4"));
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
        let mut bytes = b"a,b\n1,\"".to_vec();
        bytes.resize(usize::try_from(MAX_BYTES).unwrap() * 2, b'x');
        let mut rows = rows(&bytes);
        let (at, row) = next(&mut rows);
        assert_eq!(at.line, 2);
        assert!(row.unwrap_err().0[0].reason.contains("never closed"));
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
}
