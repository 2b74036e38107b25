//! The key of a dead letter whose effect may have happened: to be settled before the job runs again.

use super::Found;
use crate::{commands::keys::with_key, failure::Failure, text};
use hapax::{
    Key,
    core::{
        Name,
        idempotency::{Kind, RecordState},
        queue::JobInfo,
    },
    mail::jobs::QueuedMail,
    queue::{DeadReason, raw::key_scope},
};

/// What the scopes of mails begin with, those of rehearsals included.
const MAIL: &str = "mail";

/// A key that nobody knows the outcome of.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) key: String,
    pub(super) scope: String,
    is_mail: bool,
}

impl Unsettled {
    /// Of a job that is dead for that reason. A worker that keeps no keys leaves none.
    pub(super) async fn of(found: &Found, info: &JobInfo) -> Result<Option<Self>, Failure> {
        if info.reason != Some(DeadReason::Unknown) {
            return Ok(None);
        }
        let namespace = &found.raw.id().namespace;
        let job_key = match &info.job_id {
            Some(id) => id.clone(),
            None => Key::new(&info.uid.to_string())?,
        };
        if let Some(group) = &info.group {
            let scope = key_scope(&found.raw.id().name, group)?;
            let name = Name::new(namespace, &scope, &job_key);
            let record = found.hapax.keeper().read(&name).await?;
            if record.is_some_and(|record| is_unknown(&record.state)) {
                return Ok(Some(Self {
                    key: name.key().to_owned(),
                    scope: name.scope().to_owned(),
                    is_mail: false,
                }));
            }
        }
        let Ok(mail) = QueuedMail::from_payload(&info.payload) else { return Ok(None) };
        let key = mail.key().unwrap_or(job_key);
        let kept = with_key(&found.hapax, namespace, MAIL, &key).await?;
        let unknown = kept.into_iter().find(|(_, record)| is_unknown(&record.state));
        Ok(unknown.map(|(name, _)| Self {
            key: name.key().to_owned(),
            scope: name.scope().to_owned(),
            is_mail: true,
        }))
    }

    /// The commands that settle it and run the job again.
    pub(super) fn way_out(&self, queue: &str, id: &str) -> String {
        // One that begins with a dash would pass for a flag.
        let word = |text: &str| {
            let dash = if text.starts_with('-') { "-- " } else { "" };
            format!("{dash}{}", text::quoted(text))
        };
        let scope = text::quoted(&self.scope);
        let settle = if self.is_mail { "mail" } else { "keys" };
        let flag =
            if self.is_mail && self.scope == MAIL { String::new() } else { format!(" --scope {scope}") };
        format!(
            "find out whether it happened, then\n  hapax {settle} resolve{flag} --as done {key}      or --as failed\n  hapax queue \
             dead redrive {queue} {id}",
            key = word(&self.key),
            queue = text::quoted(queue),
            id = word(id),
        )
    }
}

fn is_unknown(state: &RecordState) -> bool {
    matches!(state, RecordState::Settled { kind: Kind::Unknown, .. })
}
