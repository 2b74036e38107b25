//! The programs. Each says on stdout what happens in it.

use hapax_service::{App, Ctx, Report};
use std::{
    future::pending,
    io,
    process::{ExitCode, Termination},
    time::Duration,
};

pub(crate) fn run(name: &str) -> ExitCode {
    match name {
        "orderly" => orderly().report(),
        "starting" => starting().report(),
        "stubborn" => stubborn().report(),
        "blocked" => blocked().report(),
        "blocking_work" => blocking_work().report(),
        "long_main" => long_main().report(),
        "broken" => broken().report(),
        "restarts" => restarts().report(),
        other => unreachable!("there is no program {other}"),
    }
}

const LIMIT: Duration = Duration::from_millis(500);

fn says(ctx: &Ctx) {
    let name = ctx.name();
    println!("+{name}");
    ctx.on_stop(async move || println!("-{name}"));
}

/// Says `ready` when everything is.
fn app() -> App {
    let mut app = App::new().name("store", store);
    let mut events = app.events();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if matches!(event, hapax_service::Event::Booted { .. }) {
                println!("ready");
            }
        }
    });
    app
}

async fn store(ctx: Ctx) -> io::Result<()> {
    says(&ctx);
    Ok(())
}

async fn worker(ctx: Ctx) -> anyhow::Result<()> {
    ctx.load(store).await?;
    says(&ctx);
    Ok(())
}

#[tokio::main]
async fn orderly() -> Report {
    app().boot("worker", worker).run().await
}

#[tokio::main]
async fn starting() -> Report {
    async fn hangs(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(store).await?;
        says(&ctx);
        ctx.stopping().await;
        println!("told");
        pending().await
    }
    app().boot("hangs", hangs).stop_within(LIMIT).run().await
}

#[tokio::main]
async fn stubborn() -> Report {
    async fn stubborn(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(store).await?;
        ctx.on_stop(async || {
            println!("stopping");
            pending::<()>().await;
        });
        Ok(())
    }
    app().boot("stubborn", stubborn).stop_within(Duration::from_mins(1)).run().await
}

/// For ever, and no await in it.
fn block() {
    loop {
        std::thread::park();
    }
}

/// The only thread of the runtime is blocked by a hook.
#[tokio::main(flavor = "current_thread")]
async fn blocked() -> Report {
    async fn blocks(ctx: Ctx) -> anyhow::Result<()> {
        ctx.on_stop(async || {
            println!("blocking");
            block();
        });
        Ok(())
    }
    app().boot("blocks", blocks).stop_within(LIMIT).run().await
}

/// Everything stops; then the runtime waits for work that does not end.
#[tokio::main]
async fn blocking_work() -> Report {
    async fn blocks(ctx: Ctx) -> io::Result<()> {
        says(&ctx);
        tokio::task::spawn_blocking(block);
        Ok(())
    }
    app().boot("blocks", blocks).stop_within(LIMIT).run().await
}

/// `main` goes on after the application, with and without the report.
#[tokio::main]
async fn long_main() -> Report {
    let report = app().boot("worker", worker).stop_within(LIMIT).run().await;
    drop(report);
    println!("dropped");
    // Longer than the process has while it holds a report.
    tokio::time::sleep(LIMIT * 4).await;
    println!("still here");
    pending().await
}

#[tokio::main]
async fn broken() -> Report {
    async fn broken(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(store).await?;
        Err(io::Error::other("no route").into())
    }
    app().boot("broken", broken).run().await
}

/// Two applications, one after the other.
#[tokio::main]
async fn restarts() -> Report {
    async fn once(ctx: Ctx) -> io::Result<()> {
        ctx.stop_app();
        Ok(())
    }
    let first = App::new().boot("once", once).run().await;
    assert!(first.is_clean());
    drop(first);
    app().boot("worker", worker).run().await
}
