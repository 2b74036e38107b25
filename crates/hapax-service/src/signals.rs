//! The signals of a program, and its end by force: on a thread of its own, which goes on when the application's runtime is
//! blocked or has been shut down.

use crate::container::Container;
use std::{
    io,
    io::Write as _,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

/// What remains of the process's time after that of the application: for what `main` does, and the end of the runtime.
const MARGIN: Duration = Duration::from_secs(1);

/// The same signal so soon after the first is the same wish: `timeout` and process managers signal a process and its group, and a
/// parent passes on what the terminal has sent to both.
const ECHO: Duration = Duration::from_millis(100);

/// One that asks for the stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) name: &'static str,
    number: u8,
}

/// Counts the applications of this process that listened, so that the thread of one that has ended leaves signals to the next.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

/// How far the application is.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    Stopping,
    /// With this exit code.
    Ended(u8),
}

/// Keeps the thread informed. Once it is dropped, the process may live as long as it likes.
#[derive(Debug)]
pub(crate) struct Watch {
    phase: watch::Sender<Phase>,
}

impl Watch {
    pub(crate) fn stopping(&self) {
        self.phase.send_replace(Phase::Stopping);
    }

    pub(crate) fn ended(&self, exit_code: u8) {
        self.phase.send_replace(Phase::Ended(exit_code));
    }
}

/// The services that are running, once there are some.
pub(crate) type Running = Arc<OnceLock<Weak<Container>>>;

/// From here on SIGINT and SIGTERM no longer end the process: the first one resolves what is returned, the second ends it.
pub(crate) async fn listen(
    stop_within: Duration,
    running: Running,
) -> io::Result<(Watch, watch::Receiver<Option<Signal>>)> {
    let (phase, phases) = watch::channel(Phase::Running);
    let (first, firsts) = watch::channel(None);
    let (tell, told) = oneshot::channel();
    let limit = stop_within + MARGIN;
    let this = LISTENERS.fetch_add(1, Ordering::Relaxed) + 1;
    let thread = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(tell.send(Err(error))),
        };
        runtime.block_on(async move {
            match Signals::new() {
                Ok(signals) => {
                    let _ = tell.send(Ok(()));
                    guard(signals, first, phases, limit, this, &running).await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
    };
    std::thread::Builder::new().name("hapax-signals".to_owned()).spawn(thread)?;
    told.await.unwrap_or_else(|_| Err(io::Error::other("the thread for signals ended")))?;
    Ok((Watch { phase }, firsts))
}

async fn guard(
    mut signals: Signals,
    first: watch::Sender<Option<Signal>>,
    mut phases: watch::Receiver<Phase>,
    limit: Duration,
    this: u64,
    running: &Running,
) {
    let is_followed = || LISTENERS.load(Ordering::Relaxed) != this;
    let mut deadline = None;
    let mut watched = true;
    let mut heard: Option<(u8, Instant)> = None;
    loop {
        let phase = *phases.borrow();
        let passed = async {
            match deadline {
                Some(deadline) if watched => tokio::time::sleep_until(deadline).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = signals.next() => {
                let ended = matches!(phase, Phase::Ended(_));
                if ended && is_followed() {
                    return;
                }
                if heard.is_some_and(|(number, at)| number == signal.number && at.elapsed() < ECHO) {
                    continue;
                }
                heard.get_or_insert((signal.number, Instant::now()));
                if ended || first.borrow().is_some() {
                    let again = if first.borrow().is_some() { " again" } else { "" };
                    exit(signal.number.saturating_add(128), &format!("{}{again}", signal.name), running);
                }
                first.send_replace(Some(signal));
                // The application may be unable to hear of it.
                deadline.get_or_insert_with(|| Instant::now() + limit);
            }
            changed = phases.changed(), if watched => match changed {
                Ok(()) => {
                    deadline.get_or_insert_with(|| Instant::now() + limit);
                }
                Err(_) => watched = false,
            },
            () = passed => {
                let code = match phase {
                    Phase::Ended(_) if is_followed() => return,
                    Phase::Ended(code) => code,
                    _ => 124,
                };
                exit(code, "the time to stop is up", running);
            }
        }
    }
}

#[expect(clippy::exit, reason = "what cannot be stopped in order is ended here")]
fn exit(code: u8, why: &str, running: &Running) -> ! {
    let unfinished =
        running.get().and_then(Weak::upgrade).map(|container| container.unfinished()).unwrap_or_default();
    let unfinished = match unfinished.as_slice() {
        [] => String::new(),
        names => format!("; not stopped: {}", names.join(", ")),
    };
    let _ = writeln!(io::stderr(), "{why}: the process ends now{unfinished}");
    std::process::exit(code.into())
}

#[cfg(unix)]
struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let ignored = ignored();
        let wanted = [("SIGINT", SignalKind::interrupt()), ("SIGTERM", SignalKind::terminate())];
        let mut heard = Vec::new();
        for (name, kind) in wanted {
            let number = u8::try_from(kind.as_raw_value()).unwrap_or(0);
            // What was ignored when the process began, by `nohup` or a shell's `&`, stays so.
            if ignored >> number.saturating_sub(1) & 1 == 0 {
                heard.push((Signal { name, number }, signal(kind)?));
            }
        }
        Ok(Self(heard))
    }

    /// Cancel safe.
    async fn next(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// A bit for each signal, the first for number 1.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// No safe call tells.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn ignored() -> u64 {
    0
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "as on unix")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal { name: "SIGINT", number: 2 }
    }
}
