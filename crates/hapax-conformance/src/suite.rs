//! Lists the cases of a store and runs them.

use crate::{
    cases as key_cases,
    fixture::{Fixture, Stop, Verdict, failed},
    harness::{self, StoreUnderTest},
    limit::{self, Gate, LimitUnderTest},
    lock::{self, Door, LockUnderTest},
    queue::{self, Desk, QueueUnderTest},
};
use hapax_core::Token;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

/// A case that takes longer than this hangs.
const DEADLINE: Duration = Duration::from_mins(2);
/// With `HAPAX_TEST_LONG=1`.
const LONG_DEADLINE: Duration = Duration::from_hours(1);

/// Whether the environment asks for the full counts: `HAPAX_TEST_LONG=1`.
pub(crate) fn long() -> bool {
    std::env::var_os("HAPAX_TEST_LONG").is_some_and(|value| value == "1")
}

/// `HAPAX_TEST_SEED`, for a list that failed before; otherwise a random one.
pub(crate) fn seed() -> Result<u64, Stop> {
    if let Some(seed) = std::env::var_os("HAPAX_TEST_SEED").and_then(|seed| seed.to_str()?.parse().ok()) {
        return Ok(seed);
    }
    let random = Token::random()?;
    let (half, _) = random.as_bytes().split_first_chunk().ok_or_else(|| failed("a token is short"))?;
    Ok(u64::from_be_bytes(*half))
}

/// How a [`Case`] ended.
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The store does what the case asks.
    Passed,
    /// It does not: where, and what it said.
    Failed(String),
    /// The case does not apply to the store: why.
    Ignored(String),
}

/// Sets up a store and checks the statement on it.
type Check = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Verdict>>> + Send + Sync>;

/// One statement about a store, and the means to check it.
#[derive(Clone)]
pub struct Case {
    name: &'static str,
    check: Check,
    skip: Option<&'static str>,
}

impl Case {
    /// The statement: `area::it_holds`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Checks it on a fresh store, on a runtime of its own. Not to be called on a runtime.
    pub fn run(&self) -> Outcome {
        if let Some(reason) = self.skip {
            return Outcome::Ignored(reason.into());
        }
        // A panic of the store fails the case and not the run.
        match catch_unwind(AssertUnwindSafe(|| self.run_on_runtime())) {
            Ok(Ok(())) => Outcome::Passed,
            Ok(Err(Stop::Failed(what))) => Outcome::Failed(what),
            Ok(Err(Stop::Skipped(reason))) => Outcome::Ignored(reason.into()),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
                Outcome::Failed(format!("a panic: {text}"))
            }
        }
    }

    fn run_on_runtime(&self) -> Result<(), Stop> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
        let deadline = if long() { LONG_DEADLINE } else { DEADLINE };
        let ended = runtime.block_on(async { tokio::time::timeout(deadline, (self.check)()).await });
        // A store that hangs in a thread of its own must not keep the suite from saying so.
        runtime.shutdown_timeout(Duration::from_secs(5));
        ended.unwrap_or_else(|_| Err(Stop::Failed(format!("no end after {deadline:?}"))))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name())
    }
}

/// All cases for a store of keys, for a test that runs them by itself. [`main`] is the usual way.
pub fn cases<H: StoreUnderTest>() -> Vec<Case> {
    let case = |entry: key_cases::Entry| {
        let check: Check = Arc::new(move || {
            Box::pin(async move {
                let subject: Arc<dyn harness::Subject> = Arc::new(H::fresh().await?);
                (entry.run)(Fixture::new(subject).await?).await
            })
        });
        Case { name: entry.name, check, skip: H::skips(entry.name) }
    };
    key_cases::entries().into_iter().map(case).collect()
}

/// All cases for a store of queues.
pub fn queue_cases<H: QueueUnderTest>() -> Vec<Case> {
    let case = |entry: queue::Entry| {
        let check: Check = Arc::new(move || {
            Box::pin(async move {
                let subject: Arc<dyn queue::Subject> = Arc::new(H::fresh().await?);
                (entry.run)(Desk::new(subject).await?).await
            })
        });
        Case { name: entry.name, check, skip: H::skips(entry.name) }
    };
    queue::entries().into_iter().map(case).collect()
}

/// All cases for a store of locks.
pub fn lock_cases<H: LockUnderTest>() -> Vec<Case> {
    let case = |entry: lock::Entry| {
        let check: Check = Arc::new(move || {
            Box::pin(async move {
                let subject: Arc<dyn lock::Subject> = Arc::new(H::fresh().await?);
                (entry.run)(Door::new(subject).await?).await
            })
        });
        Case { name: entry.name, check, skip: H::skips(entry.name) }
    };
    lock::entries().into_iter().map(case).collect()
}

/// All cases for a store of rate limits.
pub fn limit_cases<H: LimitUnderTest>() -> Vec<Case> {
    let case = |entry: limit::Entry| {
        let check: Check = Arc::new(move || {
            Box::pin(async move {
                let subject: Arc<dyn limit::Subject> = Arc::new(H::fresh().await?);
                (entry.run)(Gate::new(subject).await?).await
            })
        });
        Case { name: entry.name, check, skip: H::skips(entry.name) }
    };
    limit::entries().into_iter().map(case).collect()
}

/// Suites of several stores in one test binary.
///
/// ```no_run
/// # use hapax_conformance::{Suite, StoreUnderTest};
/// # fn run<OnDisk: StoreUnderTest, InMemory: StoreUnderTest>() -> std::process::ExitCode {
/// Suite::new().with::<OnDisk>("disk").with::<InMemory>("memory").run()
/// # }
/// ```
#[must_use = "a suite does nothing until it runs"]
#[derive(Debug, Default)]
pub struct Suite {
    trials: Vec<Trial>,
}

impl Suite {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds all cases for a store, named `name::area::statement`.
    pub fn with<H: StoreUnderTest>(self, name: &str) -> Self {
        self.all(name, cases::<H>())
    }

    /// Adds all cases for a store of queues, named `name::queue::area::statement`.
    pub fn with_queues<H: QueueUnderTest>(self, name: &str) -> Self {
        self.all(name, queue_cases::<H>())
    }

    /// Adds all cases for a store of locks, named `name::lock::area::statement`.
    pub fn with_locks<H: LockUnderTest>(self, name: &str) -> Self {
        self.all(name, lock_cases::<H>())
    }

    /// Adds all cases for a store of rate limits, named `name::limit::area::statement`.
    pub fn with_limits<H: LimitUnderTest>(self, name: &str) -> Self {
        self.all(name, limit_cases::<H>())
    }

    /// What is known not to apply is listed as ignored, so that nobody starts a process for it, nor counts it as passed.
    /// `--include-ignored` tells why.
    fn all(mut self, name: &str, cases: Vec<Case>) -> Self {
        for case in cases {
            let (name, is_skipped) = (format!("{name}::{}", case.name()), case.skip.is_some());
            self.trials.push(trial(&name, move || case.run()).with_ignored_flag(is_skipped));
        }
        self
    }

    /// Adds a test of the store's own.
    pub fn also(mut self, name: &str, check: impl FnOnce() -> Outcome + Send + 'static) -> Self {
        self.trials.push(trial(name, check));
        self
    }

    /// Lists or runs them as the command line of the test binary asks.
    #[must_use = "return it from `main`"]
    pub fn run(self) -> ExitCode {
        libtest_mimic::run(&Arguments::from_args(), self.trials).exit_code()
    }
}

fn trial(name: &str, check: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || match check() {
        Outcome::Passed => Ok(Completion::Completed),
        Outcome::Ignored(reason) => Ok(Completion::ignored_with(reason)),
        Outcome::Failed(what) => Err(Failed::from(what)),
    })
}

/// Lists and runs the cases of one store as `cargo test` and nextest expect.
#[must_use = "return it from `main`"]
pub fn main<H: StoreUnderTest>(name: &str) -> ExitCode {
    Suite::new().with::<H>(name).run()
}
