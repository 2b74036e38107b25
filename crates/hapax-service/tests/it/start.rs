//! How services start.

use crate::support::{note, noted, notes, pass, plain, secs, timed};
use hapax_service::{App, Ctx, ServiceErrorKind, StopCause};
use std::{io, sync::Arc};

async fn slow(ctx: Ctx) -> io::Result<Arc<str>> {
    noted(&ctx, "slow");
    pass(1).await;
    Ok("made".into())
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_that_nobody_asks_for() {
    let report = App::new().name("plain", plain).run_until(pass(1)).await;
    assert!(report.is_clean() && report.services.is_empty(), "{report}");
    assert_eq!(notes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn loads_at_the_same_time_share_one_start_and_its_value() {
    let (loaded, report) = App::new()
        .run_with(async |ctx| {
            let load = || ctx.load(slow);
            let (a, b, c) = tokio::try_join!(load(), load(), load())?;
            let later = ctx.load(slow).await?;
            assert!([b, c, later].iter().all(|other| Arc::ptr_eq(&a, other)));
            anyhow::Ok(a)
        })
        .await;
    assert_eq!(&*loaded.unwrap().unwrap(), "made");
    assert_eq!(notes(), ["+slow", "-slow"]);
    assert_eq!(report.services[0].start, Some(secs(1)));
}

#[tokio::test(start_paused = true)]
async fn booted_services_start_side_by_side() {
    async fn other(_: Ctx) -> io::Result<()> {
        pass(2).await;
        Ok(())
    }
    let (report, took) = timed(App::new().boot("slow", slow).boot("other", other)).await;
    assert_eq!((report.start, took, report.is_clean()), (Some(secs(2)), secs(2), true));
}

#[tokio::test(start_paused = true)]
async fn start_goes_on_when_the_one_who_asked_is_gone() {
    let (value, report) = App::new()
        .name("slow", slow)
        .run_with(async |ctx| {
            let given_up = tokio::time::timeout(secs(0), ctx.load(slow)).await;
            assert!(given_up.is_err());
            pass(1).await;
            note("asked again");
            ctx.load(slow).await
        })
        .await;
    assert_eq!(&*value.unwrap().unwrap(), "made");
    assert_eq!(notes(), ["+slow", "asked again", "-slow"]);
    assert_eq!(report.service("slow").unwrap().start, Some(secs(1)));
}

#[tokio::test(start_paused = true)]
async fn closure_that_captures_nothing_is_a_service_of_its_own() {
    let (sum, _) = App::new()
        .run_with(async |ctx| {
            let one = ctx.load(async |_| io::Result::Ok(1)).await?;
            let two = ctx.load(async |_| io::Result::Ok(2)).await?;
            anyhow::Ok(one + two)
        })
        .await;
    assert_eq!(sum.unwrap().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn service_of_a_generic_function_is_one_for_each_type() {
    async fn default<T: Default>(_: Ctx) -> io::Result<T> {
        Ok(T::default())
    }
    let (both, report) = App::new()
        .run_with(async |ctx| {
            anyhow::Ok((ctx.load(default::<u8>).await?, ctx.load(default::<String>).await?))
        })
        .await;
    assert_eq!(both.unwrap().unwrap(), (0, String::new()));
    assert_eq!(report.services.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn service_has_the_name_it_was_given_or_else_the_path_of_its_function() {
    async fn named(ctx: Ctx) -> io::Result<&'static str> {
        Ok(ctx.name())
    }
    async fn nameless(ctx: Ctx) -> io::Result<&'static str> {
        assert!(format!("{ctx:?}").contains("nameless"));
        Ok(ctx.name())
    }
    let app = App::new().boot("named.service", named);
    let (names, _) =
        app.run_with(async |ctx| anyhow::Ok([ctx.load(named).await?, ctx.load(nameless).await?])).await;
    let [first, second] = names.unwrap().unwrap();
    assert_eq!(first, "named.service");
    assert!(second.starts_with("it::start::") && second.ends_with("::nameless"), "{second}");
}

#[tokio::test(start_paused = true)]
async fn service_may_stop_the_application() {
    async fn tired(ctx: Ctx) -> io::Result<()> {
        noted(&ctx, "tired");
        tokio::spawn(async move {
            pass(5).await;
            ctx.stop_app();
        });
        Ok(())
    }
    let report = App::new().boot("tired", tired).run_until(std::future::pending::<()>()).await;
    assert_eq!(format!("{:?}", report.cause), r#"Service { name: "tired" }"#);
    assert!(report.is_clean());
    // Also while others start, and while `main` runs.
    let (never, report) =
        App::new().boot("tired", tired).run_with(async |_| std::future::pending::<()>().await).await;
    assert!(never.is_none() && report.is_clean());
    assert_ne!(report.cause, StopCause::Asked);
    assert_eq!(notes(), ["+tired", "-tired", "+tired", "-tired"]);
}

#[tokio::test(start_paused = true)]
async fn hooks_of_main_run_before_those_of_what_it_loaded() {
    let main = async |ctx: Ctx| {
        noted(&ctx, "main");
        ctx.load(plain).await.unwrap();
    };
    let (ended, report) = App::new().run_with(main).await;
    assert!(ended.is_some() && report.is_clean());
    assert_eq!(notes(), ["+main", "+plain", "-main", "-plain"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_when_the_application_is_not_described_as_it_must_be() {
    let invalid = [
        App::new().boot("a", plain).boot("a", slow),
        App::new().boot("a", plain).boot("b", plain),
        App::new().boot("", plain),
        App::new().boot("a", plain).stop_within(secs(0)),
        App::new().boot("a", plain).start_within(secs(u64::MAX)),
        App::new().boot("a", plain).each_start_within(secs(0)),
        App::new().boot("a", plain).each_stop_within(secs(0)),
        App::new().boot("a", plain).drain_for(secs(u64::MAX)),
    ];
    for app in invalid {
        let text = format!("{app:?}");
        let report = app.run_until(std::future::pending::<()>()).await;
        assert_eq!(report.problem.as_ref().map(|problem| problem.code), Some("service.invalid"), "{text}");
        assert_eq!((report.exit_code(), report.services.len()), (69, 0));
    }
    assert_eq!(notes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn limit_of_a_service_that_cannot_be_fails_its_start() {
    async fn service(ctx: Ctx) -> io::Result<()> {
        noted(&ctx, "service");
        ctx.stop_within(secs(0));
        Ok(())
    }
    let (loaded, _) = App::new().run_with(async |ctx| ctx.load(service).await).await;
    assert_eq!(loaded.unwrap().unwrap_err().kind(), ServiceErrorKind::Invalid);
    assert_eq!(notes(), ["+service", "-service"]);
}
