//! How the server is: for whoever looks after it.

mod state;

use crate::{error::Failure, store::PostgresStore};
use async_trait::async_trait;
use hapax_core::{
    StoreResult, Timestamp,
    doctor::{Examination, Examine},
};
use sqlx::{AssertSqlSafe, Error, Row as _, postgres::PgRow};
use state::State;

const OP: &str = "look at the server";

/// Everything as text. `S` is the schema: its name needs no escaping.
const LOOK: &str = "\
SELECT current_setting('server_version') AS version,
    current_setting('server_version_num') AS version_num,
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS standby_names,
    pg_is_in_recovery()::text AS is_standby,
    (SELECT count(*) FROM pg_stat_replication)::text AS replicas,
    pg_size_pretty(pg_total_relation_size(t.oid)) AS size,
    (SELECT count(*) FROM pg_index i WHERE i.indrelid = t.oid AND i.indisprimary AND i.indisvalid)::text AS primary_keys,
    (current_setting('autovacuum') = 'on' AND NOT EXISTS (
        SELECT FROM unnest(t.reloptions) o WHERE o IN ('autovacuum_enabled=false', 'autovacuum_enabled=off')
    ))::text AS autovacuum,
    floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text AS now,
    current_user::text AS role,
    (SELECT coalesce(string_agg(f.name, ', ' ORDER BY f.name), '') FROM (
        SELECT substr(m.name, 10) AS name, m.value FROM \"S\".meta m WHERE m.name LIKE 'function:%'
    ) f WHERE f.value IS DISTINCT FROM (
        SELECT md5(p.prosrc || coalesce(p.proconfig::text, '')) FROM pg_proc p
        WHERE p.pronamespace = t.relnamespace AND p.proname = f.name
    )) AS changed_functions,
    (SELECT coalesce(string_agg(r.what, ', '), '') FROM (
        SELECT 'USAGE ON SCHEMA \"S\"' AS what WHERE NOT has_schema_privilege('S', 'USAGE')
        UNION ALL
        SELECT w.word || ' ON \"S\".idempotency'
        FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS w(word) WHERE NOT has_table_privilege(t.oid, w.word)
        UNION ALL
        SELECT w.word || ' ON \"S\".meta' FROM unnest(ARRAY['SELECT', 'INSERT']) AS w(word)
        WHERE NOT has_table_privilege('\"S\".meta', w.word)
        UNION ALL
        SELECT w.word || ' ON \"S\".' || q.relname
        FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS w(word) CROSS JOIN pg_class q
        WHERE q.relnamespace = t.relnamespace AND q.relkind = 'r'
            AND q.relname IN ('queue', 'queue_group', 'queue_count', 'queue_event', 'queue_stream', 'job', 'job_copy',
                'schedule', 'lock_slot', 'fence_seen', 'limit_slot')
            AND NOT has_table_privilege(q.oid, w.word)
        UNION ALL
        SELECT 'EXECUTE ON FUNCTION \"S\".' || p.proname FROM pg_proc p
        WHERE p.pronamespace = t.relnamespace AND NOT has_function_privilege(p.oid, 'EXECUTE')
    ) r) AS missing_rights
FROM pg_class t WHERE t.oid = '\"S\".idempotency'::regclass";

#[async_trait]
impl Examine for PostgresStore {
    async fn examine(&self) -> StoreResult<Examination> {
        let sql = LOOK.replace("\"S\"", &format!("\"{}\"", self.schema()));
        let sql = sql.replace("'S'", &format!("'{}'", self.schema()));
        let asked = async {
            let mut session = self.sessions.connect().await?;
            let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut session.conn).await;
            let row = row.map_err(|error| Failure::of(&self.sessions.place, error))?;
            self.sessions.keep(session)?;
            Ok(row)
        };
        let row = match tokio::time::timeout(self.limit(), asked).await {
            Ok(asked) => asked.map_err(|failure: Failure| failure.error(OP))?,
            Err(_) => return Err(Failure::timeout(&self.sessions.place, self.limit()).error(OP)),
        };
        self.found(&row).map_err(|error| Failure::of(&self.sessions.place, error).undone().error(OP))
    }
}

impl PostgresStore {
    fn found(&self, row: &PgRow) -> Result<Examination, Error> {
        let text = |name: &str| row.try_get::<String, _>(name);
        let mut found = Examination::default();
        found.fact("place", self.sessions.place.clone());
        found.fact("version", format!("PostgreSQL {}", text("version")?));
        found.fact("size", text("size")?);
        found.store_time = text("now")?.parse().ok().map(Timestamp::from_millis);
        let state = State {
            version: text("version_num")?.parse().unwrap_or(0),
            fsync: text("fsync")?,
            full_page_writes: text("full_page_writes")?,
            synchronous_commit: text("synchronous_commit")?,
            standby_names: text("standby_names")?,
            is_standby: text("is_standby")? == "true",
            replicas: text("replicas")?.parse().unwrap_or(0),
            has_primary_key: text("primary_keys")? != "0",
            has_autovacuum: text("autovacuum")? == "true",
            changed_functions: text("changed_functions")?,
            missing_rights: text("missing_rights")?,
            role: text("role")?,
            schema: self.schema().to_owned(),
        };
        state.judge(&mut found);
        let wakes = if self.ear.listens() { "by LISTEN" } else { "by a look every 250 ms (`listen_url=`)" };
        found.fact("new jobs are noticed", wakes);
        Ok(found)
    }
}
