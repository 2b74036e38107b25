//! A statement: one call of a function of the server, or many of the same.

use crate::{
    options::server_ms,
    value::{Column, Value},
};
use sqlx::{AssertSqlSafe, Error, PgConnection, postgres::PgRow};
use std::time::Duration;

/// What a statement of its own begins with, where the session says nothing of it. All of it is one message, and so one
/// transaction, which a pooler gives to one connection.
const BEGIN: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL bytea_output = hex; ";

/// So long one row of many may be locked by somebody else. Each is then asked for alone, and holds up no other.
const PATIENCE: &str = "50ms";

/// What is called.
#[derive(Debug)]
pub(crate) struct Call {
    schema: String,
    function: &'static str,
    rows: Vec<Vec<Value>>,
}

impl Call {
    pub(crate) fn one(schema: &str, function: &'static str, values: Vec<Value>) -> Self {
        Self::many(schema, function, vec![values])
    }

    /// With more than one row, the answers are numbered from 1, in a column `nth`.
    pub(crate) fn many(schema: &str, function: &'static str, rows: Vec<Vec<Value>>) -> Self {
        Self { schema: schema.to_owned(), function, rows }
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
        let query = match self.rows.as_slice() {
            [lone] => lone.iter().cloned().fold(query, |query, value| value.bind(query)),
            rows => Column::of(rows).into_iter().fold(query, |query, column| column.bind(query)),
        };
        query.fetch_all(conn).await
    }

    fn written(&self) -> String {
        let mut written = String::new();
        let mut part = |at: usize, write: &dyn Fn(&mut String)| {
            if at > 0 {
                written.push(',');
            }
            write(&mut written);
        };
        match self.rows.as_slice() {
            [lone] => lone.iter().enumerate().for_each(|(at, value)| part(at, &|sql| value.write(sql))),
            rows => {
                Column::of(rows)
                    .iter()
                    .enumerate()
                    .for_each(|(at, column)| part(at, &|sql| column.write(sql)));
            }
        }
        self.around(&written)
    }

    /// The statement with these arguments.
    fn around(&self, arguments: &str) -> String {
        let function = format!("\"{}\".{}", self.schema, self.function);
        if self.rows.len() == 1 {
            return format!("SELECT * FROM {function}({arguments})");
        }
        let names: Vec<_> = (1..=self.width()).map(|at| format!("a{at}")).collect();
        let names = names.join(",");
        format!(
            "SELECT t.nth, a.* FROM (SELECT set_config('lock_timeout', '{PATIENCE}', true)) AS s \
             CROSS JOIN unnest({arguments}) WITH ORDINALITY AS t({names},nth) \
             CROSS JOIN LATERAL {function}({names}) AS a"
        )
    }

    fn width(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_and_many_read_alike() {
        let row = || vec![Value::bytes(b"k"), Value::Big(7)];
        let one = Call::one("s", "f", row()).written();
        assert_eq!(one, r#"SELECT * FROM "s".f(E'\\x6b'::bytea,7::bigint)"#);
        let many = Call::many("s", "f", vec![row(), row()]).around("$1,$2");
        let end =
            "CROSS JOIN unnest($1,$2) WITH ORDINALITY AS t(a1,a2,nth) CROSS JOIN LATERAL \"s\".f(a1,a2) AS a";
        assert!(
            many.starts_with("SELECT t.nth, a.* FROM (SELECT set_config(") && many.ends_with(end),
            "{many}"
        );
    }
}
