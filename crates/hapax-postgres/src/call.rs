//! A statement: one call of a function of the server, or many of the same.

use crate::{
    ask::{Ask, Shape},
    columns::columns,
    options::server_ms,
    value::{Column, Value, write_column},
};
use sqlx::{AssertSqlSafe, Error, PgConnection, postgres::PgRow};
use std::{borrow::Cow, time::Duration};

/// What a statement of its own begins with, where the session says nothing of it. All of it is one message, and so one
/// transaction, which a pooler gives to one connection.
const BEGIN: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL bytea_output = hex; ";

/// So long a row may be locked by somebody else. Whoever asks is then asked for apart, and holds up no other.
const PATIENCE: &str = "50ms";

/// The same where a statement is all that can be sent.
const SETTING: &str = "(SELECT set_config('lock_timeout', '50ms', true)) AS s";

/// What is called.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    function: String,
    rows: Vec<Cow<'a, [Value]>>,
    form: Form,
}

/// How a function is called, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With the arguments of one call.
    One,
    /// The same, and it gives up soon where the row is locked.
    Patient,
    /// One call for each row. Its answers are numbered from 1, in a column `nth`.
    Each,
}

impl<'a> Call<'a> {
    pub(crate) fn one(schema: &str, function: &'static str, values: &'a [Value]) -> Self {
        Self { function: format!("\"{schema}\".{function}"), rows: vec![values.into()], form: Form::One }
    }

    /// One of one kind, or many, whose keys are new if they are like those before: then the answers are numbered from 1, in a column `nth`. Gives up where a row stays
    /// locked.
    pub(crate) fn patient(schema: &str, asks: &'a [Ask], are_new: bool) -> Self {
        let shape = asks.first().map(|ask| ask.shape);
        let rows: Vec<_> = asks.iter().map(|ask| ask.values.as_slice()).collect();
        let all = |function| (function, vec![columns(&rows).into()], Form::One);
        let each = |function, form| (function, rows.iter().map(|row| (*row).into()).collect(), form);
        let (function, rows, form) = match shape {
            Some(Shape { new: Some(new), .. }) if asks.len() > 1 && are_new => all(new),
            Some(Shape { many: Some(many), .. }) if asks.len() > 1 => all(many),
            Some(shape) if asks.len() > 1 => each(shape.function, Form::Each),
            shape => each(shape.map_or("", |shape| shape.function), Form::Patient),
        };
        Self { function: format!("\"{schema}\".{function}"), rows, form }
    }

    /// Sends it with its values in the text: one round trip, and nothing that a pooler would have to keep.
    pub(crate) async fn send(&self, conn: &mut PgConnection, left: Duration) -> Result<Vec<PgRow>, Error> {
        let ms = server_ms(left);
        let patience = match self.form {
            Form::Patient => format!("SET LOCAL lock_timeout = '{PATIENCE}'; "),
            _ => String::new(),
        };
        let sql = format!("{BEGIN}SET LOCAL statement_timeout = {ms}; {patience}{}", self.written());
        sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(conn).await
    }

    /// Sends it with its values bound. `named`: the statement is prepared once for each connection.
    pub(crate) async fn send_bound(&self, conn: &mut PgConnection, named: bool) -> Result<Vec<PgRow>, Error> {
        let is_of_many = self.is_of_many();
        let count = self.width() + 1;
        // A column of one value stands for as many as there are rows.
        let place = |at| {
            if is_of_many {
                format!(
                    "CASE pg_catalog.cardinality(${at}) WHEN 1 \
                     THEN pg_catalog.array_fill((${at})[1],${count}) ELSE ${at} END"
                )
            } else {
                format!("${at}")
            }
        };
        let places: Vec<_> = (1..count).map(place).collect();
        let function = self.around(&places.join(","));
        let sql = match self.form {
            Form::Patient => function.replacen("FROM ", &format!("FROM {SETTING} CROSS JOIN LATERAL "), 1),
            _ => function,
        };
        let query = sqlx::query(AssertSqlSafe(sql)).persistent(named);
        let query = if is_of_many {
            let query = Column::of(&self.rows.iter().map(|row| &**row).collect::<Vec<_>>())
                .into_iter()
                .fold(query, |query, column| column.bind(query));
            query.bind(vec![i32::try_from(self.rows.len()).unwrap_or(i32::MAX)])
        } else {
            let values = self.rows.iter().flat_map(|row| row.iter()).cloned();
            values.fold(query, |query, value| value.bind(query))
        };
        query.fetch_all(conn).await
    }

    fn written(&self) -> String {
        let mut written = String::new();
        let mut separator = "";
        for at in 0..self.width() {
            written.push_str(separator);
            separator = ",";
            let mut values = self.rows.iter().filter_map(|row| row.get(at));
            if self.is_of_many() {
                write_column(&mut written, values);
            } else if let Some(value) = values.next() {
                value.write(&mut written);
            }
        }
        self.around(&written)
    }

    fn is_of_many(&self) -> bool {
        self.form == Form::Each
    }

    /// The statement with these arguments.
    fn around(&self, arguments: &str) -> String {
        let function = &self.function;
        match self.form {
            Form::One | Form::Patient => format!("SELECT a.* FROM {function}({arguments}) AS a"),
            Form::Each => {
                let names: Vec<_> = (1..=self.width()).map(|at| format!("a{at}")).collect();
                let names = names.join(",");
                format!(
                    "SELECT t.nth, a.* FROM {SETTING} CROSS JOIN unnest({arguments}) WITH ORDINALITY AS t({names},nth) \
                     CROSS JOIN LATERAL {function}({names}) AS a"
                )
            }
        }
    }

    fn width(&self) -> usize {
        self.rows.first().map_or(0, |row| row.len())
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
        let values = [Value::bytes(b"k"), Value::Big(7)];
        let one = Call::one("s", "f", &values).written();
        assert_eq!(one, r#"SELECT a.* FROM "s".f(E'\\x6b'::bytea,7::bigint) AS a"#);
        let asks = asks(&["k", "l"]);
        let many = Call::patient("s", &asks, true).around("$1");
        let end = "CROSS JOIN unnest($1) WITH ORDINALITY AS t(a1,nth) CROSS JOIN LATERAL \"s\".read(a1) AS a";
        assert!(many.ends_with(end), "{many}");
    }
}
