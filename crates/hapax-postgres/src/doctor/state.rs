//! What a server says of itself, and what follows from it.

use crate::schema::OLDEST;
use hapax_core::doctor::{Examination, Severity};

/// What the server says of itself.
#[derive(Debug)]
pub(super) struct State {
    /// Ten thousands of it are the first part.
    pub(super) version: i64,
    pub(super) fsync: String,
    pub(super) full_page_writes: String,
    pub(super) synchronous_commit: String,
    pub(super) standby_names: String,
    pub(super) is_standby: bool,
    pub(super) replicas: u64,
    pub(super) has_primary_key: bool,
    pub(super) has_autovacuum: bool,
    /// Names, with commas between them.
    pub(super) changed_functions: String,
    /// As they are granted, with commas between them.
    pub(super) missing_rights: String,
    pub(super) role: String,
    pub(super) schema: String,
}

impl State {
    pub(super) fn judge(&self, found: &mut Examination) {
        if self.version < OLDEST {
            found.find(
                "version",
                Severity::Error,
                format!("PostgreSQL before {} lacks what the store's functions need", OLDEST / 10_000),
                "use a later one",
            );
        }
        self.persistence(found);
        self.replicas(found);
        self.schema(found);
        self.rights(found);
    }

    fn persistence(&self, found: &mut Examination) {
        found.fact("synchronous_commit", self.synchronous_commit.clone());
        if self.fsync == "off" {
            found.find(
                "persistence",
                Severity::Error,
                "`fsync` is off: a crash of the machine may damage the database",
                "set `fsync = on` in postgresql.conf",
            );
        }
        if self.full_page_writes == "off" {
            found.find(
                "persistence",
                Severity::Warning,
                "`full_page_writes` is off: a crash of the machine may damage a page that was being written",
                "set `full_page_writes = on` in postgresql.conf, unless the file system writes whole pages or none",
            );
        }
        if self.synchronous_commit == "off" {
            found.find(
                "persistence",
                Severity::Warning,
                "`synchronous_commit` is off: a crash forgets the last moments, and their effects run again",
                format!(
                    "set it on, for this user at least: ALTER ROLE {} SET synchronous_commit = on",
                    self.role
                ),
            );
        }
    }

    fn replicas(&self, found: &mut Examination) {
        found.fact("replicas", self.replicas.to_string());
        if self.is_standby {
            found.find(
                "role",
                Severity::Error,
                "this server is a standby, which takes no writes",
                "name the primary in the URL",
            );
            return;
        }
        let waits = !self.standby_names.is_empty() && !["off", "local"].contains(&&*self.synchronous_commit);
        if waits && self.replicas == 0 {
            found.find(
                "replicas",
                Severity::Error,
                "every commit waits for a standby (`synchronous_standby_names`), and none is connected",
                "bring a standby back, or take its name out of `synchronous_standby_names`",
            );
        } else if !waits && self.replicas > 0 {
            found.find(
                "replicas",
                Severity::Warning,
                "a failover may forget what the standby had not got yet, and it runs again",
                "name the standby in `synchronous_standby_names`, and leave `synchronous_commit` on",
            );
        }
    }

    fn schema(&self, found: &mut Examination) {
        let schema = &self.schema;
        if !self.has_primary_key {
            found.find(
                "index",
                Severity::Error,
                "the primary key of the table is gone or not valid: one key may have two records",
                format!(
                    "stop what uses the store and REINDEX TABLE \"{schema}\".idempotency; where the key is gone, ALTER \
                     TABLE \"{schema}\".idempotency ADD PRIMARY KEY (name)"
                ),
            );
        }
        if !self.changed_functions.is_empty() {
            found.find(
                "functions",
                Severity::Error,
                format!("functions of the store were changed, or are gone: {}", self.changed_functions),
                format!("restore the schema `{schema}` from a backup"),
            );
        }
        if !self.has_autovacuum {
            found.find(
                "autovacuum",
                Severity::Warning,
                "autovacuum is off: rows that are over stay in the table, which grows and becomes slow",
                format!(
                    "ALTER TABLE \"{schema}\".idempotency RESET (autovacuum_enabled), and `autovacuum = on`"
                ),
            );
        }
    }

    fn rights(&self, found: &mut Examination) {
        if !self.missing_rights.is_empty() {
            let grants =
                self.missing_rights.split(", ").map(|right| format!("GRANT {right} TO {}", self.role));
            found.find(
                "rights",
                Severity::Error,
                format!(
                    "the user `{}` lacks rights that the store needs: {}",
                    self.role, self.missing_rights
                ),
                grants.collect::<Vec<_>>().join("; "),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> State {
        State {
            version: 150_000,
            fsync: "on".into(),
            full_page_writes: "on".into(),
            synchronous_commit: "on".into(),
            standby_names: String::new(),
            is_standby: false,
            replicas: 0,
            has_primary_key: true,
            has_autovacuum: true,
            changed_functions: String::new(),
            missing_rights: String::new(),
            role: "ada".into(),
            schema: "hapax".into(),
        }
    }

    fn examined(change: impl FnOnce(&mut State)) -> Examination {
        let (mut state, mut found) = (sound(), Examination::default());
        change(&mut state);
        state.judge(&mut found);
        found
    }

    /// What is found when some of it is otherwise.
    fn judged(change: impl FnOnce(&mut State)) -> Vec<(&'static str, Severity)> {
        examined(change).findings.iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    #[test]
    fn a_sound_server_has_no_findings() {
        assert_eq!(judged(|_| {}), []);
    }

    #[test]
    fn what_may_forget_or_double_a_key_is_found() {
        assert_eq!(judged(|state| state.fsync = "off".into()), [("persistence", Severity::Error)]);
        assert_eq!(
            judged(|state| state.full_page_writes = "off".into()),
            [("persistence", Severity::Warning)]
        );
        let commit = judged(|state| state.synchronous_commit = "off".into());
        assert_eq!(commit, [("persistence", Severity::Warning)]);
        assert_eq!(judged(|state| state.is_standby = true), [("role", Severity::Error)]);
        assert_eq!(judged(|state| state.has_primary_key = false), [("index", Severity::Error)]);
        assert_eq!(judged(|state| state.version = 110_022), [("version", Severity::Error)]);
    }

    #[test]
    fn replicas_are_waited_for_or_may_miss_something() {
        assert_eq!(judged(|state| state.replicas = 1), [("replicas", Severity::Warning)]);
        let named = |state: &mut State| state.standby_names = "b".into();
        assert_eq!(judged(named), [("replicas", Severity::Error)]);
        let connected = |state: &mut State| (state.standby_names, state.replicas) = ("b".into(), 1);
        assert_eq!(judged(connected), []);
        let local = |state: &mut State| {
            connected(state);
            state.synchronous_commit = "local".into();
        };
        assert_eq!(judged(local), [("replicas", Severity::Warning)]);
    }

    #[test]
    fn what_was_taken_away_is_named() {
        assert_eq!(judged(|state| state.has_autovacuum = false), [("autovacuum", Severity::Warning)]);
        assert_eq!(
            judged(|state| state.changed_functions = "reserve".into()),
            [("functions", Severity::Error)]
        );
        let found = examined(|state| {
            state.missing_rights = "INSERT ON \"hapax\".meta, EXECUTE ON FUNCTION \"hapax\".read".into();
        });
        let remedy = &found.findings.first().unwrap().remedy;
        assert_eq!(
            remedy,
            "GRANT INSERT ON \"hapax\".meta TO ada; GRANT EXECUTE ON FUNCTION \"hapax\".read TO ada"
        );
    }
}
