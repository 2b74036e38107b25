//! An email worker as a service: each mail of the queue is sent once, however often its job runs.
//!
//! ```text
//! cargo run --example email_worker                 works until it is told to stop (Ctrl-C)
//! cargo run --example email_worker -- t1 ada       queues a welcome mail, from another terminal
//! HAPAX_STORE=redis://localhost cargo run …        the same on another store
//! ```
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example")]

use hapax::service::{App, Ctx, Report};
use hapax::{Backoff, BoxError, Hapax, Job, JobError, OnError, QueueDef, Worker};
use serde::{Deserialize, Serialize};
use std::{process::ExitCode, sync::Arc, time::Duration};

#[derive(Debug, Serialize, Deserialize)]
struct EmailJob {
    tenant: String,
    user: String,
    template: Template,
}

#[derive(Debug, Serialize, Deserialize)]
enum Template {
    Welcome,
}

static EMAIL: QueueDef<EmailJob> = QueueDef::new("email")
    .parse(|job| if job.user.is_empty() { Err("user is empty".into()) } else { Ok(job) });

async fn send_welcome(mail: MailApi, job: Job<EmailJob>) -> Result<String, JobError> {
    if mail.unsubscribed(&job.data.user) {
        return Err(JobError::discard("unsubscribed"));
    }
    Ok(mail.send(&job.data).await?)
}

// Services: a plain async fn each; the function is the key.

async fn store(ctx: Ctx) -> Result<Hapax, BoxError> {
    let url = std::env::var("HAPAX_STORE").unwrap_or("sqlite:email.db".into());
    let hapax = hapax::connect(url).namespace("app").await?;
    let closing = hapax.clone();
    ctx.on_stop(async move || closing.close().await);
    Ok(hapax)
}

async fn email_worker(ctx: Ctx) -> Result<Arc<Worker>, BoxError> {
    let hapax = ctx.load(store).await?;
    let worker = hapax
        .queue()
        .worker(&EMAIL, MailApi { gone: "former-" }, send_welcome)
        .idempotent(&hapax.idempotency("email"), OnError::Retry) // the one extra line
        .group("email-workers")
        .consumer(std::env::var("HOSTNAME").unwrap_or(std::process::id().to_string()))
        .concurrency(8)
        .claim_idle(Duration::from_mins(1))
        .start()
        .await?;
    let worker = Arc::new(worker);
    let stopping = Arc::clone(&worker);
    ctx.on_stop(async move || stopping.stop().await);
    Ok(worker)
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [tenant, user] = &args[..] {
        return match welcome(tenant, user).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("not queued: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let report: Report =
        App::new().boot("email.worker", email_worker).stop_within(Duration::from_secs(30)).run().await;
    print!("{report}");
    report.exit_code().into()
}

/// Elsewhere: a welcome mail is queued, once for each user.
async fn welcome(tenant: &str, user: &str) -> anyhow::Result<()> {
    let url = std::env::var("HAPAX_STORE").unwrap_or("sqlite:email.db".into());
    let hapax = hapax::connect(url).namespace("app").await?;
    let job = EmailJob { tenant: tenant.into(), user: user.into(), template: Template::Welcome };
    let added = hapax
        .queue()
        .add(&EMAIL, &job)
        .job_id(["welcome", tenant, user])
        .max_attempts(5)
        .backoff(Backoff::exponential(Duration::from_secs(1), Duration::from_mins(1)))
        .await?;
    println!("{} {}", if added.is_duplicate() { "known as" } else { "queued as" }, added.id());
    hapax.close().await.is_clean().then_some(()).ok_or_else(|| anyhow::anyhow!("not all could be stored"))
}

/// Stands for the client of a mail provider.
#[derive(Clone)]
struct MailApi {
    /// Whose address begins so wants no mail any more.
    gone: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[error("the provider refused {user}")]
struct Refused {
    user: String,
}

impl MailApi {
    async fn send(&self, job: &EmailJob) -> Result<String, Refused> {
        tokio::task::yield_now().await;
        if job.user == "nobody" {
            return Err(Refused { user: job.user.clone() });
        }
        println!("{:?} for {} of {}", job.template, job.user, job.tenant);
        Ok(format!("sent to {}", job.user))
    }

    fn unsubscribed(&self, user: &str) -> bool {
        user.starts_with(self.gone)
    }
}
