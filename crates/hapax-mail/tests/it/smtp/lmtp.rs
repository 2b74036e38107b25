//! LMTP: an answer for each recipient.

use super::{Within, send, told};
use hapax_mail::{Message, Receipt, Smtp, SmtpOptions, smtp::Security};
use hapax_testkit::smtp::{Act, Sink, Step};

fn lmtp(sink: &Sink) -> Smtp {
    let options = SmtpOptions::lmtp("mail.example").security(Security::None).dial(Within(sink.clone()));
    Smtp::with_options(options).unwrap()
}

fn to_three() -> Message {
    let builder = Message::builder().from("shop@example.com").to("a@example.com").to("b@example.com");
    builder.to("c@example.com").subject("Hello").text("Hello.\n").build().unwrap()
}

async fn after(acts: [Act; 3]) -> (Receipt, Sink) {
    let sink = Sink::new().lmtp();
    for act in acts {
        sink.then(Step::Saved, act);
    }
    (send(&lmtp(&sink), &to_three()).await, sink)
}

#[tokio::test(start_paused = true)]
async fn each_recipient_has_its_own_reply() {
    let (receipt, sink) = after([Act::Usual, Act::say("552 5.2.2 full"), Act::Split]).await;
    assert_eq!(told(&receipt), "accepted");
    assert_eq!(receipt.accepted, ["a@example.com", "c@example.com"]);
    assert_eq!(
        (receipt.rejected[0].address.as_str(), receipt.rejected[0].retryable),
        ("b@example.com", false)
    );
    assert!(sink.commands()[0].starts_with("LHLO "));
}

#[tokio::test(start_paused = true)]
async fn recipients_that_are_all_refused_after_the_message_are_a_failure() {
    let no = || Act::say("452 4.2.2 full");
    let (receipt, _) = after([no(), no(), no()]).await;
    assert_eq!(told(&receipt), "failed service smtp.busy reply");
    assert_eq!((receipt.rejected.len(), receipt.failure().unwrap().retryable), (3, true));
}

#[tokio::test(start_paused = true)]
async fn replies_that_do_not_come_leave_their_recipients_unknown() {
    for (act, code) in [
        (Act::Close, "network smtp.reply_lost"),
        (Act::Stall, "timeout smtp.reply_timeout"),
        (Act::say("well"), "unknown smtp.reply_garbled"),
        (Act::say("354 go"), "unknown smtp.reply_garbled"),
    ] {
        let (receipt, _) = after([Act::Usual, Act::say("550 5.1.1 no"), act.clone()]).await;
        assert_eq!(told(&receipt), format!("unknown {code} reply"), "{act:?}");
        assert_eq!(receipt.accepted, ["a@example.com"], "{act:?}");
        assert_eq!(receipt.rejected.len(), 1, "{act:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_between_replies_leaves_the_rest_unknown() {
    let closing = || Act::SayAndClose("421 4.3.2 closing".to_owned());
    let (receipt, _) = after([Act::Usual, closing(), Act::Usual]).await;
    assert_eq!(told(&receipt), "unknown network smtp.reply_lost reply");
    assert_eq!((receipt.accepted.len(), receipt.rejected.len()), (1, 1));
    let (receipt, _) = after([Act::Usual, Act::Usual, closing()]).await;
    assert_eq!(told(&receipt), "accepted");
    assert_eq!((receipt.accepted.len(), receipt.rejected.len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn recipients_that_are_refused_before_the_message_have_no_reply_after_it() {
    let sink = Sink::new().lmtp();
    sink.recipient("b@example.com", "550 5.1.1 no");
    let transport = lmtp(&sink);
    for _ in 0..2 {
        let receipt = send(&transport, &to_three()).await;
        assert_eq!(receipt.accepted, ["a@example.com", "c@example.com"]);
    }
    assert_eq!(sink.connections(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_of_the_machine_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lmtp");
    let (listener, sink) = (tokio::net::UnixListener::bind(&path).unwrap(), Sink::new().lmtp());
    let transport = Smtp::new(&format!("lmtp+unix:{}", path.display())).unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let sink = sink.clone();
        tokio::spawn(async move { sink.serve(Box::new(theirs)).await });
        let (mut stream, mut ours) = (stream, ours);
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut ours).await;
    };
    let message = to_three();
    let sent = tokio::select! {
        receipt = send(&transport, &message) => receipt,
        () = serve => unreachable!("the client has not gone"),
    };
    assert_eq!((told(&sent).as_str(), sent.provider.as_str()), ("accepted", "lmtp"));
}
