//! Connections that are used again, and those that are not.

use super::{message, options, send, smtp, told};
use crate::support::plain;
use futures_util::future::join_all;
use hapax_mail::{SendContext, Smtp, SmtpOptions, Transport, smtp::Security};
use hapax_testkit::smtp::{Act, Sink, Step};
use std::{pin::pin, time::Duration};

async fn accepted(transport: &Smtp) {
    let receipt = send(transport, &message()).await;
    assert_eq!(told(&receipt), "accepted");
}

#[tokio::test(start_paused = true)]
async fn messages_one_after_another_share_a_connection() {
    let sink = Sink::new();
    let transport = smtp(&sink);
    for _ in 0..5 {
        accepted(&transport).await;
    }
    assert_eq!((sink.connections(), sink.deliveries().len()), (1, 5));
    let resets = sink.commands().iter().filter(|line| *line == "RSET").count();
    assert_eq!(resets, 0);
}

#[tokio::test(start_paused = true)]
async fn there_are_never_more_connections_than_allowed() {
    let sink = Sink::new();
    sink.always(Step::Dot, Act::Late(Duration::from_secs(1)));
    let transport = Smtp::with_options(options(&sink).connections(3)).unwrap();
    let receipts = join_all((0..20).map(|_| async { send(&transport, &message()).await })).await;
    assert!(receipts.iter().all(hapax_mail::Receipt::is_accepted));
    assert_eq!((sink.most_open(), sink.connections(), sink.deliveries().len()), (3, 3, 20));
}

#[tokio::test(start_paused = true)]
async fn connections_go_after_so_many_messages() {
    let sink = Sink::new();
    let transport = Smtp::with_options(options(&sink).messages_per_connection(2)).unwrap();
    for _ in 0..5 {
        accepted(&transport).await;
    }
    assert_eq!(sink.connections(), 3);
    // With a good-bye.
    tokio::task::yield_now().await;
    assert_eq!(sink.commands().iter().filter(|line| *line == "QUIT").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn connections_go_when_they_are_idle_or_old() {
    let sink = Sink::new();
    let idle = Smtp::with_options(options(&sink).idle(Duration::from_secs(10))).unwrap();
    accepted(&idle).await;
    assert_eq!(sink.open(), 1);
    // Nobody has to send for it.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(sink.open(), 0);
    accepted(&idle).await;
    assert_eq!(sink.connections(), 2);

    let sink = Sink::new();
    let old = Smtp::with_options(options(&sink).lifetime(Duration::from_secs(10))).unwrap();
    for _ in 0..4 {
        accepted(&old).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    assert_eq!(sink.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_go_with_the_transport_or_when_told() {
    let sink = Sink::new();
    let transport = smtp(&sink);
    accepted(&transport).await;
    transport.close_idle();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(sink.open(), 0);
    accepted(&transport).await;
    drop(transport);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((sink.open(), sink.connections()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_server_closed_meanwhile_costs_no_message() {
    for words in ["421 4.4.2 idle too long", "221 2.0.0 bye", "nonsense"] {
        let sink = Sink::new();
        let transport = smtp(&sink);
        accepted(&transport).await;
        sink.dismiss(words);
        tokio::time::sleep(Duration::from_millis(1)).await;
        accepted(&transport).await;
        assert_eq!((sink.connections(), sink.deliveries().len()), (2, 2), "{words}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_at_its_next_use_is_replaced_once() {
    for act in
        [Act::Close, Act::SayAndClose("421 4.4.2 idle".to_owned()), Act::say("421 4.4.2 idle"), Act::say("?")]
    {
        for pipelining in [true, false] {
            let sink = Sink::new();
            let transport = Smtp::with_options(options(&sink).pipelining(pipelining)).unwrap();
            accepted(&transport).await;
            sink.then(Step::Mail, act.clone());
            accepted(&transport).await;
            assert_eq!((sink.connections(), sink.deliveries().len()), (2, 2), "{act:?}");
            // A new one that ends there has failed.
            sink.then(Step::Mail, Act::Close).then(Step::Mail, act.clone());
            let receipt = send(&transport, &message()).await;
            assert!(!receipt.is_accepted() && !receipt.is_unknown(), "{act:?}");
            assert_eq!(sink.deliveries().len(), 2, "{act:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_is_reset_before_the_next() {
    for (step, reply) in [
        (Step::Rcpt, "550 5.1.1 no"),
        (Step::Data, "451 later"),
        (Step::Dot, "554 no"),
        (Step::Mail, "550 no"),
    ] {
        let sink = Sink::new();
        let transport = Smtp::with_options(options(&sink).pipelining(false)).unwrap();
        sink.then(step, Act::say(reply));
        assert!(!send(&transport, &message()).await.is_accepted());
        accepted(&transport).await;
        assert_eq!(sink.connections(), 1, "{step:?}");
        assert!(sink.commands().iter().any(|line| line == "RSET"), "{step:?}");
        // A server that does not even that is left.
        sink.then(Step::Dot, Act::say("554 no")).then(Step::Reset, Act::say("502 no"));
        assert!(!send(&transport, &message()).await.is_accepted());
        accepted(&transport).await;
        assert_eq!(sink.connections(), 2, "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_a_reply_too_many_is_not_used_again() {
    let sink = Sink::new();
    let transport = smtp(&sink);
    sink.then(Step::Dot, Act::And("250 2.0.0 again\r\n".to_owned()));
    accepted(&transport).await;
    accepted(&transport).await;
    assert_eq!(sink.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_dropped_anywhere_poisons_its_connection() {
    let (mut before, mut behind) = (0, 0);
    for polls in 0..20 {
        let sink = Sink::new();
        let transport = Smtp::with_options(options(&sink).pipelining(false)).unwrap();
        accepted(&transport).await;
        sink.always(Step::Dot, Act::Late(Duration::from_secs(1)));
        let context = SendContext::default();
        let one = plain().subject("dropped").build().unwrap();
        {
            let mut sending = pin!(transport.send(&one, &context));
            for _ in 0..polls {
                // It has to wait for its reply.
                assert!(futures_util::poll!(&mut sending).is_pending());
                tokio::task::yield_now().await;
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let delivered = sink.deliveries().len() - 1;
        assert!(delivered <= usize::from(context.is_committed()), "{polls}: sent before the commitment");
        before += u32::from(!context.is_committed());
        behind += u32::from(context.is_committed());
        // The next message has a reply of its own.
        accepted(&transport).await;
        assert_eq!(sink.deliveries().len(), delivered + 2, "{polls}");
    }
    assert!(before > 2 && behind > 2, "{before} {behind}");
}

#[test]
fn connections_stay_with_their_runtime() {
    let sink = Sink::new();
    let server = sink.listen();
    let options = SmtpOptions::new("127.0.0.1").port(server.port()).security(Security::None).connections(1);
    let transport = Smtp::with_options(options).unwrap();
    // They are still there, and nobody drives them.
    let mut runtimes = Vec::new();
    for n in 1..4 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(accepted(&transport));
        runtimes.push(runtime);
        assert_eq!(sink.deliveries().len(), n);
    }
    assert_eq!(sink.connections(), 3);
}
