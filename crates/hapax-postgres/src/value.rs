//! What a function of the server is called with: written into the statement, or bound to it.

use sqlx::{Postgres, postgres::PgArguments, query::Query};
use std::fmt::Write as _;

/// A statement to which values are bound.
pub(crate) type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(Option<Vec<u8>>),
    Big(i64),
    Int(i32),
    Small(Option<i16>),
    /// A list that one call takes.
    ManyBytes(Vec<Option<Vec<u8>>>),
    /// Likewise.
    ManyBig(Vec<Option<i64>>),
}

/// The same argument of many calls.
#[derive(Debug)]
pub(crate) enum Column {
    Bytes(Vec<Option<Vec<u8>>>),
    Big(Vec<i64>),
    Int(Vec<i32>),
    Small(Vec<Option<i16>>),
}

impl Value {
    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(Some(bytes.to_vec()))
    }

    /// Of a part of a name.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(Some(bytes)) => bytes,
            _ => &[],
        }
    }

    /// As it is written in a statement. Bytes are hexadecimal, so nothing in them can end the literal.
    pub(crate) fn write(&self, sql: &mut String) {
        match self {
            Self::Bytes(bytes) => write_bytes(sql, bytes.as_deref()),
            Self::Big(number) => put(sql, format_args!("{number}::bigint")),
            Self::Int(number) => put(sql, format_args!("{number}::integer")),
            Self::Small(number) => write_small(sql, *number),
            Self::ManyBytes(list) => {
                sql.push_str("E'{");
                for (at, bytes) in list.iter().enumerate() {
                    separate(sql, at);
                    push_element(sql, bytes.as_deref());
                }
                sql.push_str("}'::bytea[]");
            }
            Self::ManyBig(list) => {
                sql.push_str("'{");
                for (at, number) in list.iter().enumerate() {
                    separate(sql, at);
                    match number {
                        Some(number) => put(sql, format_args!("{number}")),
                        None => sql.push_str("NULL"),
                    }
                }
                sql.push_str("}'::bigint[]");
            }
        }
    }

    pub(crate) fn bind(self, query: Bound<'_>) -> Bound<'_> {
        match self {
            Self::Bytes(bytes) => query.bind(bytes),
            Self::Big(number) => query.bind(number),
            Self::Int(number) => query.bind(number),
            Self::Small(number) => query.bind(number),
            Self::ManyBytes(list) => query.bind(list),
            Self::ManyBig(list) => query.bind(list),
        }
    }

    fn column(&self) -> Column {
        match self {
            // Lists are in no call of which there are many.
            Self::Bytes(_) | Self::ManyBytes(_) => Column::Bytes(Vec::new()),
            Self::Big(_) | Self::ManyBig(_) => Column::Big(Vec::new()),
            Self::Int(_) => Column::Int(Vec::new()),
            Self::Small(_) => Column::Small(Vec::new()),
        }
    }
}

impl Column {
    /// The columns of rows that are alike. One whose values are all equal has it once.
    pub(crate) fn of(rows: &[&[Value]]) -> Vec<Self> {
        let mut columns: Vec<Self> =
            rows.first().map(|row| row.iter().map(Value::column).collect()).unwrap_or_default();
        for (at, column) in columns.iter_mut().enumerate() {
            let values = rows.iter().filter_map(|row| row.get(at));
            let count = if are_equal(values.clone()) { 1 } else { rows.len() };
            values.take(count).for_each(|value| column.push(value.clone()));
        }
        columns
    }

    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Bytes(column), Value::Bytes(value)) => column.push(value),
            (Self::Big(column), Value::Big(value)) => column.push(value),
            (Self::Int(column), Value::Int(value)) => column.push(value),
            (Self::Small(column), Value::Small(value)) => column.push(value),
            // All calls are of one step. Were they not, the server would find the columns unequal.
            _ => {}
        }
    }

    pub(crate) fn bind(self, query: Bound<'_>) -> Bound<'_> {
        match self {
            Self::Bytes(values) => query.bind(values),
            Self::Big(values) => query.bind(values),
            Self::Int(values) => query.bind(values),
            Self::Small(values) => query.bind(values),
        }
    }
}

/// Writes one argument of many calls as one literal: as many would each be a node for the server to parse. Where all are
/// equal, and most columns are, it is written once.
pub(crate) fn write_column<'a>(sql: &mut String, values: impl Iterator<Item = &'a Value> + Clone) {
    if are_equal(values.clone())
        && let Some(first) = values.clone().next()
    {
        sql.push_str("pg_catalog.array_fill(");
        first.write(sql);
        put(sql, format_args!(",'{{{}}}')", values.count()));
        return;
    }
    let (mut kind, mut separator) = ("bytea", "");
    sql.push_str("E'{");
    for value in values {
        sql.push_str(separator);
        separator = ",";
        match value {
            Value::Bytes(bytes) => push_element(sql, bytes.as_deref()),
            Value::Small(None) | Value::ManyBytes(_) | Value::ManyBig(_) => sql.push_str("NULL"),
            Value::Big(number) => put(sql, format_args!("{number}")),
            Value::Int(number) => put(sql, format_args!("{number}")),
            Value::Small(Some(number)) => put(sql, format_args!("{number}")),
        }
        kind = match value {
            Value::Bytes(_) | Value::ManyBytes(_) => "bytea",
            Value::Big(_) | Value::ManyBig(_) => "bigint",
            Value::Int(_) => "integer",
            Value::Small(_) => "smallint",
        };
    }
    put(sql, format_args!("}}'::{kind}[]"));
}

fn separate(sql: &mut String, at: usize) {
    if at > 0 {
        sql.push(',');
    }
}

/// One of a list of bytes.
fn push_element(sql: &mut String, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            // For the literal, for the array and for the bytes.
            sql.push_str(r"\\\\x");
            push_hex(sql, bytes);
        }
        None => sql.push_str("NULL"),
    }
}

fn are_equal<'a>(mut values: impl Iterator<Item = &'a Value>) -> bool {
    values.next().is_some_and(|first| values.all(|value| value == first))
}

fn push_hex(sql: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    sql.reserve(bytes.len() * 2);
    let digit = |half: u8| char::from(DIGITS.get(usize::from(half)).copied().unwrap_or_default());
    for byte in bytes {
        sql.push(digit(byte >> 4));
        sql.push(digit(byte & 15));
    }
}

fn write_bytes(sql: &mut String, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            sql.push_str(r"E'\\x");
            push_hex(sql, bytes);
            sql.push_str("'::bytea");
        }
        None => sql.push_str("NULL::bytea"),
    }
}

fn write_small(sql: &mut String, number: Option<i16>) {
    match number {
        // A minus binds weaker than the cast.
        Some(number) => put(sql, format_args!("({number})::smallint")),
        None => sql.push_str("NULL::smallint"),
    }
}

fn put(sql: &mut String, text: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = sql.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_value_ends_its_literal() {
        let mut sql = String::new();
        Value::bytes(b"'; DROP TABLE x; --\0").write(&mut sql);
        assert!(sql.starts_with(r"E'\\x273b20") && sql.ends_with("00'::bytea"), "{sql}");
        assert_eq!(sql.matches('\'').count(), 2);
    }

    #[test]
    fn rows_become_columns() {
        let rows = [
            [Value::bytes(b"a"), Value::Big(7), Value::Bytes(None), Value::Small(Some(-1))],
            [Value::bytes(b""), Value::Big(-8), Value::Bytes(None), Value::Small(None)],
        ];
        let column = |at: usize| {
            let mut sql = String::new();
            write_column(&mut sql, rows.iter().filter_map(|row| row.get(at)));
            sql
        };
        assert_eq!(column(0), r"E'{\\\\x61,\\\\x}'::bytea[]");
        assert_eq!(column(1), "E'{7,-8}'::bigint[]");
        assert_eq!(column(2), "pg_catalog.array_fill(NULL::bytea,'{2}')");
        assert_eq!(column(3), "E'{-1,NULL}'::smallint[]");
    }
}
