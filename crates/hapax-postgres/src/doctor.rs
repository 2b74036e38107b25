//! How the server is: for whoever looks after it.

use crate::{error::Failure, store::PostgresStore};
use async_trait::async_trait;
use hapax_core::{
    StoreResult, Timestamp,
    doctor::{Examination, Examine, Severity},
};
use sqlx::{AssertSqlSafe, Row as _};

const OP: &str = "look at the server";

#[async_trait]
impl Examine for PostgresStore {
    async fn examine(&self) -> StoreResult<Examination> {
        let table = format!("'\"{}\".idempotency'::regclass", self.schema());
        let sql = format!(
            "SELECT current_setting('server_version'), current_setting('fsync'), \
             current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), \
             pg_is_in_recovery()::text, (SELECT count(*) FROM pg_stat_replication)::text, \
             pg_size_pretty(pg_total_relation_size({table})), \
             (SELECT count(*) FROM pg_index WHERE indrelid = {table} AND indisprimary AND indisvalid)::text, \
             floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text"
        );
        let asked = async {
            let mut conn = self.sessions.connect().await?;
            let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut conn).await;
            let row = row.map_err(|error| Failure::of(&self.sessions.place, error))?;
            self.sessions.keep(conn)?;
            Ok(row)
        };
        let row = match tokio::time::timeout(self.limit(), asked).await {
            Ok(asked) => asked.map_err(|failure: Failure| failure.error(OP))?,
            Err(_) => return Err(Failure::timeout(&self.sessions.place, self.limit()).error(OP)),
        };
        let text = |at: usize| row.try_get::<String, _>(at).unwrap_or_default();
        let mut found = Examination::default();
        found.fact("place", self.sessions.place.clone());
        found.fact("version", format!("PostgreSQL {}", text(0)));
        found.fact("size", text(6));
        found.store_time = text(8).parse().ok().map(Timestamp::from_millis);
        let state = State {
            fsync: text(1),
            synchronous_commit: text(2),
            standby_names: text(3),
            is_standby: text(4) == "true",
            replicas: text(5).parse().unwrap_or(0),
            has_primary_key: text(7) != "0",
        };
        state.judge(&mut found);
        Ok(found)
    }
}

/// What the server says of itself.
struct State {
    fsync: String,
    synchronous_commit: String,
    standby_names: String,
    is_standby: bool,
    replicas: u64,
    has_primary_key: bool,
}

impl State {
    fn judge(&self, found: &mut Examination) {
        found.fact("synchronous_commit", self.synchronous_commit.clone());
        found.fact("replicas", self.replicas.to_string());
        if self.is_standby {
            found.find(
                "role",
                Severity::Error,
                "this server is a standby, which takes no writes",
                "name the primary in the URL",
            );
        }
        if self.fsync == "off" {
            found.find(
                "persistence",
                Severity::Error,
                "`fsync` is off: a crash of the machine may damage the database",
                "set `fsync = on` in postgresql.conf",
            );
        }
        if self.synchronous_commit == "off" {
            found.find(
                "persistence",
                Severity::Warning,
                "`synchronous_commit` is off: a crash forgets the last moments, and their effects run again",
                "set it on, for this user at least: ALTER ROLE … SET synchronous_commit = on",
            );
        }
        if self.replicas > 0 && self.standby_names.is_empty() {
            found.find(
                "replicas",
                Severity::Warning,
                "a failover may forget what the standby had not got yet, and it runs again",
                "name the standby in `synchronous_standby_names`",
            );
        }
        if !self.has_primary_key {
            found.find(
                "index",
                Severity::Error,
                "the primary key of the table is gone or not valid: one key may have two records",
                "stop what uses the store and REINDEX TABLE idempotency in its schema",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found when some of it is otherwise.
    fn judged(change: impl FnOnce(&mut State)) -> Vec<(&'static str, Severity)> {
        let mut state = State {
            fsync: "on".into(),
            synchronous_commit: "on".into(),
            standby_names: String::new(),
            is_standby: false,
            replicas: 0,
            has_primary_key: true,
        };
        change(&mut state);
        let mut found = Examination::default();
        state.judge(&mut found);
        found.findings.iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    #[test]
    fn a_sound_server_has_no_findings() {
        assert_eq!(judged(|_| {}), []);
    }

    #[test]
    fn what_may_forget_or_double_a_key_is_found() {
        assert_eq!(judged(|state| state.fsync = "off".into()), [("persistence", Severity::Error)]);
        let commit = judged(|state| state.synchronous_commit = "off".into());
        assert_eq!(commit, [("persistence", Severity::Warning)]);
        assert_eq!(judged(|state| state.replicas = 1), [("replicas", Severity::Warning)]);
        assert_eq!(judged(|state| state.is_standby = true), [("role", Severity::Error)]);
        assert_eq!(judged(|state| state.has_primary_key = false), [("index", Severity::Error)]);
    }
}
