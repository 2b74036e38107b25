//! What is told while it happens.

use crate::support::{pass, plain};
use hapax_service::{App, Ctx, Event};
use std::io;
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};
use tracing::{Level, Metadata, Subscriber, field::Field, span};

async fn broken(_: Ctx) -> io::Result<()> {
    pass(1).await;
    Err(io::Error::other("no route"))
}

/// In one word, and of whom.
fn told(event: &Event) -> String {
    match event {
        Event::Starting { service, .. } => format!("{service} starts"),
        Event::Ready { service, .. } => format!("{service} is ready"),
        Event::StartFailed { service, error, .. } => format!("{service} failed: {error}"),
        Event::Booted { .. } => "booted".to_owned(),
        Event::Draining { cause, .. } => format!("draining: {cause}"),
        Event::Stopping { service, .. } => format!("{service} stops"),
        Event::Stopped { service, state, .. } => format!("{service} {state}"),
        Event::Ended { exit_code, .. } => format!("ended with {exit_code}"),
        other => panic!("{other:?}"),
    }
}

async fn all(mut app: App) -> Vec<String> {
    let (mut events, mut other) = (app.events(), app.events());
    let report = app.run_until(pass(5)).await;
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(told(&event));
    }
    assert_eq!(all.last(), Some(&format!("ended with {}", report.exit_code())));
    let mut again = Vec::new();
    while let Some(event) = futures_util::StreamExt::next(&mut other).await {
        again.push(told(&event));
    }
    assert_eq!(all, again);
    all
}

#[tokio::test(start_paused = true)]
async fn everybody_who_asked_gets_every_event_in_order() {
    let app = App::new().boot("plain", plain);
    let expected = [
        "plain starts",
        "plain is ready",
        "booted",
        "draining: asked",
        "plain stops",
        "plain stopped",
        "ended with 0",
    ];
    assert_eq!(all(app).await, expected);
    let app = App::new().boot("plain", plain).boot("broken", broken);
    let expected = [
        "plain starts",
        "broken starts",
        "plain is ready",
        "broken failed: service `broken` could not start",
        "draining: start_failed",
        "plain stops",
        "plain stopped",
        "ended with 69",
    ];
    assert_eq!(all(app).await, expected);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_listen_any_more_disturbs_nobody() {
    let mut app = App::new().boot("plain", plain);
    drop(app.events());
    assert!(app.run_until(pass(1)).await.is_clean());
}

/// What was logged on this thread, a line each.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<(Level, String)>>>);

impl Subscriber for Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hapax_service")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn std::fmt::Debug| {
            write!(line, "{}={value:?} ", field.name()).unwrap();
        });
        self.0.lock().unwrap().push((*event.metadata().level(), line));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_is_logged_as_an_error_with_its_code_and_the_rest_is_not() {
    async fn hook_fails(ctx: Ctx) -> io::Result<()> {
        ctx.on_stop(async || Err::<(), _>(io::Error::other("disk full")));
        Ok(())
    }
    let logs = Logs::default();
    let _guard = tracing::subscriber::set_default(logs.clone());
    let _ = App::new().boot("hook_fails", hook_fails).boot("broken", broken).run_until(pass(5)).await;
    let lines = logs.0.lock().unwrap();
    let errors: Vec<_> = lines.iter().filter(|(level, _)| *level <= Level::WARN).collect();
    let [(_, start), (_, stop)] = errors.as_slice() else { panic!("{errors:?}") };
    for (line, parts) in [
        (start, ["service.start_failed", "service=\"broken\"", "no route"]),
        (stop, ["service.stop_failed", "service=\"hook_fails\"", "disk full"]),
    ] {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    assert!(lines.iter().any(|(level, line)| *level == Level::INFO && line.contains("service is ready")));
}
