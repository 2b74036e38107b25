//! What a function of the server is called with: written into the statement, or bound to it.

use sqlx::{Postgres, postgres::PgArguments, query::Query};
use std::fmt::Write as _;

/// A statement to which values are bound.
pub(crate) type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// One argument.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Bytes(Option<Vec<u8>>),
    Text(String),
    Big(i64),
    Int(i32),
    Small(Option<i16>),
}

/// The same argument of many calls.
#[derive(Debug)]
pub(crate) enum Column {
    Bytes(Vec<Option<Vec<u8>>>),
    Text(Vec<String>),
    Big(Vec<i64>),
    Int(Vec<i32>),
    Small(Vec<Option<i16>>),
}

impl Value {
    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(Some(bytes.to_vec()))
    }

    /// As it is written in a statement. Bytes are hexadecimal, so nothing in them can end the literal.
    pub(crate) fn write(&self, sql: &mut String) {
        match self {
            Self::Bytes(bytes) => write_bytes(sql, bytes.as_deref()),
            Self::Text(text) => write_text(sql, text),
            Self::Big(number) => put(sql, format_args!("{number}::bigint")),
            Self::Int(number) => put(sql, format_args!("{number}::integer")),
            Self::Small(number) => write_small(sql, *number),
        }
    }

    pub(crate) fn bind(self, query: Bound<'_>) -> Bound<'_> {
        match self {
            Self::Bytes(bytes) => query.bind(bytes),
            Self::Text(text) => query.bind(text),
            Self::Big(number) => query.bind(number),
            Self::Int(number) => query.bind(number),
            Self::Small(number) => query.bind(number),
        }
    }

    fn column(&self) -> Column {
        match self {
            Self::Bytes(_) => Column::Bytes(Vec::new()),
            Self::Text(_) => Column::Text(Vec::new()),
            Self::Big(_) => Column::Big(Vec::new()),
            Self::Int(_) => Column::Int(Vec::new()),
            Self::Small(_) => Column::Small(Vec::new()),
        }
    }
}

impl Column {
    /// The columns of rows that are alike.
    pub(crate) fn of(rows: &[Vec<Value>]) -> Vec<Self> {
        let mut columns: Vec<Self> =
            rows.first().map(|row| row.iter().map(Value::column).collect()).unwrap_or_default();
        for row in rows {
            for (column, value) in columns.iter_mut().zip(row) {
                column.push(value.clone());
            }
        }
        columns
    }

    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Bytes(column), Value::Bytes(value)) => column.push(value),
            (Self::Text(column), Value::Text(value)) => column.push(value),
            (Self::Big(column), Value::Big(value)) => column.push(value),
            (Self::Int(column), Value::Int(value)) => column.push(value),
            (Self::Small(column), Value::Small(value)) => column.push(value),
            // All calls are of one step. Were they not, the server would find the columns unequal.
            _ => {}
        }
    }

    pub(crate) fn write(&self, sql: &mut String) {
        sql.push_str("ARRAY[");
        let kind = match self {
            Self::Bytes(values) => {
                each(sql, values, |sql, value| write_bytes(sql, value.as_deref()));
                "bytea"
            }
            Self::Text(values) => {
                each(sql, values, |sql, value| write_text(sql, value));
                "text"
            }
            Self::Big(values) => {
                each(sql, values, |sql, value| put(sql, format_args!("{value}")));
                "bigint"
            }
            Self::Int(values) => {
                each(sql, values, |sql, value| put(sql, format_args!("{value}")));
                "integer"
            }
            Self::Small(values) => {
                each(sql, values, |sql, value| write_small(sql, *value));
                "smallint"
            }
        };
        put(sql, format_args!("]::{kind}[]"));
    }

    pub(crate) fn bind(self, query: Bound<'_>) -> Bound<'_> {
        match self {
            Self::Bytes(values) => query.bind(values),
            Self::Text(values) => query.bind(values),
            Self::Big(values) => query.bind(values),
            Self::Int(values) => query.bind(values),
            Self::Small(values) => query.bind(values),
        }
    }
}

fn each<T>(sql: &mut String, values: &[T], write: impl Fn(&mut String, &T)) {
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            sql.push(',');
        }
        write(sql, value);
    }
}

fn write_bytes(sql: &mut String, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => put(sql, format_args!(r"E'\\x{}'::bytea", hex::encode(bytes))),
        None => sql.push_str("NULL::bytea"),
    }
}

fn write_text(sql: &mut String, text: &str) {
    put(sql, format_args!("convert_from(decode('{}', 'hex'), 'UTF8')", hex::encode(text)));
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
        let mut sql = String::new();
        Value::Text("it's".to_owned()).write(&mut sql);
        assert_eq!(sql, "convert_from(decode('69742773', 'hex'), 'UTF8')");
    }

    #[test]
    fn rows_become_columns() {
        let row = |n: i64| vec![Value::bytes(b"a"), Value::Big(n), Value::Bytes(None)];
        let mut sql = String::new();
        for column in Column::of(&[row(1), row(2)]) {
            column.write(&mut sql);
            sql.push(' ');
        }
        assert_eq!(
            sql,
            r"ARRAY[E'\\x61'::bytea,E'\\x61'::bytea]::bytea[] ARRAY[1,2]::bigint[] ARRAY[NULL::bytea,NULL::bytea]::bytea[] "
        );
    }
}
