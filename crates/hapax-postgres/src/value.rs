//! What a function of the server is called with: written into the statement, or bound to it.

use sqlx::{Postgres, postgres::PgArguments, query::Query};
use std::fmt::{Display, Write as _};

/// A statement to which values are bound.
pub(crate) type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(Option<Vec<u8>>),
    Token([u8; 16]),
    Big(i64),
    Int(i32),
    Small(Option<i16>),
    /// A list that one call takes, as the rest are.
    ManyBytes(Vec<Option<Vec<u8>>>),
    ManyBig(Vec<Option<i64>>),
    ManyInt(Option<Vec<i32>>),
    ManySmall(Vec<i16>),
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

    /// None where it has none.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(Some(bytes)) => bytes,
            Self::Token(bytes) => bytes,
            _ => &[],
        }
    }

    /// As it is written in a statement. Bytes are hexadecimal, so nothing in them can end the literal.
    pub(crate) fn write(&self, sql: &mut String) {
        match self {
            Self::Bytes(bytes) => write_bytes(sql, bytes.as_deref()),
            Self::Token(bytes) => write_bytes(sql, Some(bytes)),
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
            Self::ManyBig(list) => write_numbers(sql, list.iter().copied(), "bigint"),
            Self::ManyInt(Some(list)) => write_numbers(sql, list.iter().copied().map(Some), "integer"),
            Self::ManyInt(None) => sql.push_str("NULL::integer[]"),
            Self::ManySmall(list) => write_numbers(sql, list.iter().copied().map(Some), "smallint"),
        }
    }

    pub(crate) fn bind(self, query: Bound<'_>) -> Bound<'_> {
        match self {
            Self::Bytes(bytes) => query.bind(bytes),
            Self::Token(bytes) => query.bind(bytes.to_vec()),
            Self::Big(number) => query.bind(number),
            Self::Int(number) => query.bind(number),
            Self::Small(number) => query.bind(number),
            Self::ManyBytes(list) => query.bind(list),
            Self::ManyBig(list) => query.bind(list),
            Self::ManyInt(list) => query.bind(list),
            Self::ManySmall(list) => query.bind(list),
        }
    }

    fn column(&self) -> Column {
        match self {
            // Lists are in no call of which there are many.
            Self::Bytes(_) | Self::Token(_) | Self::ManyBytes(_) => Column::Bytes(Vec::new()),
            Self::Big(_) | Self::ManyBig(_) => Column::Big(Vec::new()),
            Self::Int(_) | Self::ManyInt(_) => Column::Int(Vec::new()),
            Self::Small(_) | Self::ManySmall(_) => Column::Small(Vec::new()),
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
            (Self::Bytes(column), Value::Token(value)) => column.push(Some(value.to_vec())),
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
            Value::Token(bytes) => push_element(sql, Some(bytes)),
            Value::Big(number) => put(sql, format_args!("{number}")),
            Value::Int(number) => put(sql, format_args!("{number}")),
            Value::Small(Some(number)) => put(sql, format_args!("{number}")),
            _ => sql.push_str("NULL"),
        }
        kind = match value {
            Value::Big(_) | Value::ManyBig(_) => "bigint",
            Value::Int(_) | Value::ManyInt(_) => "integer",
            Value::Small(_) | Value::ManySmall(_) => "smallint",
            Value::Bytes(_) | Value::Token(_) | Value::ManyBytes(_) => "bytea",
        };
    }
    put(sql, format_args!("}}'::{kind}[]"));
}

fn write_numbers<N: Display>(sql: &mut String, list: impl Iterator<Item = Option<N>>, kind: &str) {
    sql.push_str("'{");
    for (at, number) in list.enumerate() {
        separate(sql, at);
        match number {
            Some(number) => put(sql, format_args!("{number}")),
            None => sql.push_str("NULL"),
        }
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
    const MOST: usize = 64;
    sql.reserve(bytes.len() * 2);
    let mut digits = [0; MOST * 2];
    for chunk in bytes.chunks(MOST) {
        // Neither can fail: there is room for two digits a byte.
        if let Some(digits) = digits.get_mut(..chunk.len() * 2)
            && hex::encode_to_slice(chunk, digits).is_ok()
            && let Ok(digits) = std::str::from_utf8(digits)
        {
            sql.push_str(digits);
        }
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
