//! Durable jobs.
//!
//! | module | what it does |
//! |---|---|
//! | `def`, `settings` | a queue as a program names it, and what a job carries |
//! | `handle`, `add` | the handle: adds jobs, looks at queues |
//! | `job`, `typed` | a job as a handler sees it, and how a handler ends it |
//! | `idempotent` | a handler that runs once per job key |
//! | `schedule` | jobs that are added again and again |
//! | `worker` | takes jobs, runs handlers, ends jobs |
//! | `figures`, `watch` | metrics: of this process, and of what the store knows |
//! | [`raw`] | jobs as bytes, for layers |
//! | `layer` | tower layers around a handler |
//!
//! A job runs at least once. Between the end of a handler and the store's word that the job is done, a crash lets it run
//! again; [`WorkerBuilder::idempotent`] makes its key and the job end together.

mod add;
mod def;
mod error;
mod figures;
mod handle;
mod idempotent;
mod job;
mod layer;
pub mod raw;
mod schedule;
mod settings;
mod typed;
mod watch;
mod worker;

pub use self::{
    add::{Add, AddMany, Added},
    def::QueueDef,
    error::{CODES, QueueError},
    handle::{DeadLetters, Queue, RawQueue},
    idempotent::OnError,
    job::{Job, JobError},
    layer::JobService,
    raw::{Control, Halt},
    schedule::{CatchUp, Declared, Rule, ScheduleInfo, ScheduleSet, ScheduledJob, Timing},
    settings::{Backoff, JobOptions, Settings},
    watch::Watch,
    worker::{Ran, Worker, WorkerBuilder},
};
pub(crate) use idempotent::Once;
