//! A statement: one call of a function of the server, or many of the same.

use crate::{
    ask::{Ask, Shape},
    options::server_ms,
    value::{Column, Value, write_column},
};
use sqlx::{AssertSqlSafe, Error, PgConnection, postgres::PgRow};
use std::time::Duration;

/// What a statement of its own begins with, where the session says nothing of it. All of it is one message, and so one
/// transaction, which a pooler gives to one connection.
const BEGIN: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL bytea_output = hex; ";

/// So long a row may be locked by somebody else. Whoever asks is then asked for apart, and holds up no other.
const PATIENCE: &str = "50ms";

/// What is called.
#[derive(Debug)]
pub(crate) struct Call {
    function: String,
    rows: Vec<Vec<Value>>,
    form: Form,
}

/// How a function is called, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With the arguments of one call.
    One,
    /// The same, and it gives up soon where the row is locked.
    Patient,
    /// With those of many, each a column. Its answers are numbered from 1, in a column `nth`.
    Many,
    /// One call for each row; numbered likewise.
    Each,
}

impl Call {
    pub(crate) fn one(schema: &str, function: &'static str, values: Vec<Value>) -> Self {
        Self { function: format!("\"{schema}\".{function}"), rows: vec![values], form: Form::One }
    }

    /// One of one kind, or many: then the answers are numbered from 1, in a column `nth`. Gives up where a row stays
    /// locked.
    pub(crate) fn patient(schema: &str, asks: &[Ask]) -> Self {
        let shape = asks.first().map(|ask| ask.shape);
        let (function, form) = match shape {
            Some(Shape { many: Some(many), .. }) if asks.len() > 1 => (many, Form::Many),
            Some(shape) if asks.len() > 1 => (shape.function, Form::Each),
            shape => (shape.map_or("", |shape| shape.function), Form::Patient),
        };
        let rows = asks.iter().map(|ask| ask.values.clone()).collect();
        Self { function: format!("\"{schema}\".{function}"), rows, form }
    }

    /// Sends it with its values in the text: one round trip, and nothing that a pooler would have to keep.
    pub(crate) async fn send(&self, conn: &mut PgConnection, left: Duration) -> Result<Vec<PgRow>, Error> {
        let sql = format!("{BEGIN}SET LOCAL statement_timeout = {}; {}", server_ms(left), self.written());
        sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(conn).await
    }

    /// Sends it with its values bound. `named`: the statement is prepared once for each connection.
    pub(crate) async fn send_bound(&self, conn: &mut PgConnection, named: bool) -> Result<Vec<PgRow>, Error> {
        let places: Vec<_> = (1..=self.width()).map(|at| format!("${at}")).collect();
        let query = sqlx::query(AssertSqlSafe(self.around(&places.join(",")))).persistent(named);
        let query = if self.is_of_columns() {
            let rows: Vec<_> = self.rows.iter().map(Vec::as_slice).collect();
            Column::of(&rows).into_iter().fold(query, |query, column| column.bind(query))
        } else {
            let values = self.rows.iter().flatten().cloned();
            values.fold(query, |query, value| value.bind(query))
        };
        query.fetch_all(conn).await
    }

    fn written(&self) -> String {
        let mut written = String::new();
        for at in 0..self.width() {
            if at > 0 {
                written.push(',');
            }
            let mut values = self.rows.iter().filter_map(|row| row.get(at));
            if self.is_of_columns() {
                write_column(&mut written, values);
            } else if let Some(value) = values.next() {
                value.write(&mut written);
            }
        }
        self.around(&written)
    }

    fn is_of_columns(&self) -> bool {
        matches!(self.form, Form::Many | Form::Each)
    }

    /// The statement with these arguments.
    fn around(&self, arguments: &str) -> String {
        let function = &self.function;
        let patient = format!("(SELECT set_config('lock_timeout', '{PATIENCE}', true)) AS s");
        match self.form {
            Form::One | Form::Many => format!("SELECT * FROM {function}({arguments})"),
            Form::Patient => {
                format!("SELECT a.* FROM {patient} CROSS JOIN LATERAL {function}({arguments}) AS a")
            }
            Form::Each => {
                let names: Vec<_> = (1..=self.width()).map(|at| format!("a{at}")).collect();
                let names = names.join(",");
                format!(
                    "SELECT t.nth, a.* FROM {patient} CROSS JOIN unnest({arguments}) WITH ORDINALITY AS t({names},nth) \
                     CROSS JOIN LATERAL {function}({names}) AS a"
                )
            }
        }
    }

    fn width(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Read;
    use hapax_core::{Key, Name, Namespace, Scope};

    fn asks(keys: &[&str]) -> Vec<Ask> {
        let (namespace, scope) = (Namespace::default(), Scope::new("s").unwrap());
        let names = keys.iter().map(|key| Name::new(&namespace, &scope, &Key::new(key).unwrap()));
        names.map(|name| Ask::of(&Read(&name))).collect()
    }

    #[test]
    fn one_call_and_many_read_alike() {
        let one = Call::one("s", "f", vec![Value::bytes(b"k"), Value::Big(7)]).written();
        assert_eq!(one, r#"SELECT * FROM "s".f(E'\\x6b'::bytea,7::bigint)"#);
        let patient = Call::patient("s", &asks(&["k"])).around("$1");
        let start =
            "SELECT a.* FROM (SELECT set_config('lock_timeout', '50ms', true)) AS s CROSS JOIN LATERAL ";
        assert_eq!(patient, format!("{start}\"s\".read($1) AS a"));
        let many = Call::patient("s", &asks(&["k", "l"])).around("$1,$2,$3");
        let end = "CROSS JOIN unnest($1,$2,$3) WITH ORDINALITY AS t(a1,a2,a3,nth) CROSS JOIN LATERAL \"s\".read(a1,a2,a3) AS a";
        assert!(many.ends_with(end), "{many}");
    }
}
