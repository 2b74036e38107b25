//! A connection, and how statements go over it: with their values in the text, or named, which spares the server the reading.

use crate::{
    call::Call,
    direct::is_direct,
    options::{PostgresOptions, Prepared},
};
use sqlx::{AssertSqlSafe, Error, PgConnection, postgres::PgRow};
use std::time::Duration;

/// So many statements go over a connection before anybody asks where it leads: to name them takes round trips of its own,
/// which a process that sends few would never have back.
const FEW: usize = 64;

pub(crate) struct Session {
    pub(crate) conn: PgConnection,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    /// With their values in the text.
    Written,
    /// The same for so many more. Then it is looked where the connection leads.
    WrittenFor(usize),
    /// Named.
    Named,
}

impl Session {
    pub(crate) fn new(conn: PgConnection, prepared: Prepared) -> Self {
        let way = match prepared {
            Prepared::Auto => Way::WrittenFor(FEW),
            Prepared::On => Way::Named,
            Prepared::Off => Way::Written,
        };
        Self { conn, way }
    }

    /// Sends a call that has `left`.
    pub(crate) async fn send(
        &mut self,
        call: &Call<'_>,
        left: Duration,
        options: &PostgresOptions,
    ) -> Result<Vec<PgRow>, Error> {
        match self.way {
            Way::WrittenFor(0) => self.decide(options).await?,
            Way::WrittenFor(more) => self.way = Way::WrittenFor(more - 1),
            Way::Written | Way::Named => {}
        }
        match self.way {
            Way::Named => call.send_bound(&mut self.conn, true).await,
            Way::Written | Way::WrittenFor(_) => call.send(&mut self.conn, left).await,
        }
    }

    async fn decide(&mut self, options: &PostgresOptions) -> Result<(), Error> {
        self.way = Way::Written;
        if is_direct(&mut self.conn, options).await? {
            self.set_up(options).await?;
            self.way = Way::Named;
        }
        tracing::debug!(named = matches!(self.way, Way::Named), "how statements go over a connection");
        Ok(())
    }

    /// Named statements say nothing of their own transaction, so the session does.
    async fn set_up(&mut self, options: &PostgresOptions) -> Result<(), Error> {
        let settings = options.session().map(|(name, value)| format!("SET {name} = '{value}'"));
        sqlx::raw_sql(AssertSqlSafe(settings.join("; "))).execute(&mut self.conn).await.map(drop)
    }
}
