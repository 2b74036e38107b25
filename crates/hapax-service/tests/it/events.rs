//! What is told while it happens.

use crate::support::{pass, plain};
use hapax_service::{App, Ctx, Event};
use std::io;

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
