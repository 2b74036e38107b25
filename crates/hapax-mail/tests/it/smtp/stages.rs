//! Every fault at every stage, over every kind of connection: what the receipt says, and what was delivered.

use super::{Within, large, message, told};
use hapax_mail::{
    Receipt, SendContext, Smtp, SmtpOptions, Transport,
    smtp::{Security, Stage},
};
use hapax_testkit::smtp::{Act, Sink, Step, authority};
use std::time::Duration;

const KINDS: [&str; 4] = ["plain", "starttls", "implicit", "lmtp"];

fn pair(kind: &str, pipelining: bool) -> (Sink, SmtpOptions) {
    let sink = if pipelining { Sink::new() } else { Sink::new().without("PIPELINING") };
    let secure = || SmtpOptions::new("mail.example").tls_ca(authority());
    let (sink, options) = match kind {
        "starttls" => (sink.starttls(), secure()),
        "implicit" => (sink.implicit_tls(), secure().security(Security::Implicit)),
        "lmtp" => (sink.lmtp(), SmtpOptions::lmtp("mail.example").security(Security::None)),
        _ => (sink, SmtpOptions::new("mail.example").security(Security::None)),
    };
    let options = options.dial(Within(sink.clone()));
    (sink, options)
}

/// The stage that a client is at when the server is at that step.
fn stage(step: Step) -> Stage {
    match step {
        Step::Greeting => Stage::Greeting,
        Step::Hello => Stage::Hello,
        Step::Mail => Stage::Mail,
        Step::Rcpt => Stage::Rcpt,
        Step::Data => Stage::Data,
        Step::Body => Stage::Body,
        _ => Stage::Reply,
    }
}

/// What the table of stages says.
fn expected(step: Step, act: &Act) -> String {
    let at = stage(step).as_str();
    let is_early = matches!(step, Step::Greeting | Step::Hello);
    let code = |late: &str| if is_early { "smtp.greeting".to_owned() } else { late.to_owned() };
    match (act, step) {
        (Act::Close, Step::Dot) => "unknown network smtp.reply_lost reply".to_owned(),
        (Act::Close, _) => format!("failed network {} {at}", code("smtp.connection_lost")),
        (Act::Stall, Step::Dot | Step::Body) => "unknown timeout smtp.reply_timeout reply".to_owned(),
        (Act::Stall, _) => format!("failed timeout {} {at}", code("smtp.timeout")),
        (Act::Say(text) | Act::SayAndClose(text), _) => match (text.as_bytes()[0], step) {
            (b'4', _) => format!("failed service {} {at}", code("smtp.busy")),
            (b'5', _) => format!("failed rejected {} {at}", code("smtp.rejected")),
            (_, Step::Dot) => "unknown unknown smtp.reply_garbled reply".to_owned(),
            _ => format!("failed network smtp.protocol {at}"),
        },
        _ => "accepted".to_owned(),
    }
}

async fn sent(sink: &Sink, options: SmtpOptions, step: Step, act: &Act) -> (Receipt, SendContext) {
    sink.always(step, act.clone());
    let (transport, context) = (Smtp::with_options(options).unwrap(), SendContext::default());
    let message = if step == Step::Body { large() } else { message() };
    let receipt = transport.send(&message, &context).await;
    (receipt, context)
}

/// The receipt says what happened, and contradicts neither the server nor the commit flag.
#[track_caller]
fn agree(receipt: &Receipt, context: &SendContext, sink: &Sink, case: &str) {
    let delivered = sink.deliveries().len();
    if receipt.is_accepted() {
        assert_eq!(delivered, 1, "{case}: accepted and not delivered");
    }
    if !receipt.is_accepted() && !receipt.is_unknown() {
        assert_eq!(delivered, 0, "{case}: failed and delivered");
    }
    assert!(delivered <= 1, "{case}");
    if receipt.is_unknown() || receipt.is_accepted() {
        assert!(context.is_committed(), "{case}");
    }
    if let Some(failure) = receipt.failure() {
        assert!(!(receipt.is_unknown() && failure.retryable), "{case}");
        let committed = ["dot", "reply"].contains(&failure.stage.as_deref().unwrap());
        assert_eq!(context.is_committed(), committed, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_stage_has_its_receipt() {
    let faults = [
        Act::Close,
        Act::Stall,
        Act::say("421 4.3.2 closing"),
        Act::say("451 4.3.0 not now"),
        Act::say("550 5.7.1 never"),
        Act::SayAndClose("421 4.3.2 closing".to_owned()),
        Act::SayAndClose("554 5.7.1 never".to_owned()),
        Act::say("what is this"),
        Act::say("354 go on"),
    ];
    let mut cases = 0;
    for kind in KINDS {
        for pipelining in [true, false] {
            for step in Step::OF_A_MESSAGE {
                for act in &faults {
                    // That is what is to be said there.
                    if step == Step::Data && *act == Act::say("354 go on") {
                        continue;
                    }
                    let case = format!("{kind}, pipelining {pipelining}, {step:?}, {act:?}");
                    let (sink, options) = pair(kind, pipelining);
                    let (receipt, context) = sent(&sink, options, step, act).await;
                    assert_eq!(told(&receipt), expected(step, act), "{case}");
                    agree(&receipt, &context, &sink, &case);
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 4 * 2 * (7 * 9 - 1));
}

#[tokio::test(start_paused = true)]
async fn odd_manners_are_no_faults() {
    let manners = [Act::Late(Duration::from_secs(100)), Act::Drip, Act::Split, Act::Long];
    for kind in KINDS {
        for pipelining in [true, false] {
            for step in Step::OF_A_MESSAGE.into_iter().filter(|step| *step != Step::Body) {
                for act in &manners {
                    let case = format!("{kind}, pipelining {pipelining}, {step:?}, {act:?}");
                    let (sink, options) = pair(kind, pipelining);
                    let (receipt, context) = sent(&sink, options, step, act).await;
                    assert_eq!(told(&receipt), "accepted", "{case}");
                    agree(&receipt, &context, &sink, &case);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_too_many_is_never_taken_for_another() {
    for kind in KINDS {
        for pipelining in [true, false] {
            for step in [Step::Greeting, Step::Hello, Step::Mail, Step::Rcpt, Step::Data] {
                for more in ["250 2.0.0 ok\r\n", "354 go\r\n", "550 5.0.0 no\r\n", "250-half"] {
                    let case = format!("{kind}, pipelining {pipelining}, {step:?}, {more:?}");
                    let (sink, options) = pair(kind, pipelining);
                    let act = Act::And(more.to_owned());
                    let (receipt, context) = sent(&sink, options, step, &act).await;
                    assert!(!receipt.is_accepted() && !receipt.is_unknown(), "{case}: {}", told(&receipt));
                    agree(&receipt, &context, &sink, &case);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_no_more_ends_the_body_at_its_deadline() {
    for kind in KINDS {
        let (sink, options) = pair(kind, true);
        let (receipt, context) = sent(&sink, options, Step::Body, &Act::Deaf).await;
        assert_eq!(told(&receipt), "failed timeout smtp.timeout body", "{kind}");
        agree(&receipt, &context, &sink, kind);
    }
}

/// Over TCP, where a broken connection is an error and no end.
#[tokio::test]
async fn connections_that_break_are_as_those_that_are_closed() {
    for pipelining in [true, false] {
        for step in Step::OF_A_MESSAGE {
            let sink = if pipelining { Sink::new() } else { Sink::new().without("PIPELINING") };
            let server = sink.listen();
            let options = SmtpOptions::new("127.0.0.1").port(server.port()).security(Security::None);
            let (receipt, context) = sent(&sink, options, step, &Act::Break).await;
            let case = format!("pipelining {pipelining}, {step:?}");
            let told = told(&receipt);
            // It may break before it is there.
            let is_early = step == Step::Greeting && told == "failed network smtp.connect connect";
            // And while the message was on its way, the dot may have left before the break was seen.
            let in_doubt = ["unknown network smtp.reply_lost reply", "unknown network smtp.dot_write dot"];
            let is_late = step == Step::Body && in_doubt.contains(&told.as_str());
            assert!(is_early || is_late || told == expected(step, &Act::Close), "{case}: {told}");
            agree(&receipt, &context, &sink, &case);
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let to = |url: String| async move { super::send(&Smtp::new(&url).unwrap(), &message()).await };
    let receipt = to(format!("smtp://127.0.0.1:{free}")).await;
    assert_eq!(told(&receipt), "failed network smtp.connect connect");
    assert!(receipt.failure().unwrap().retryable);
    let receipt = to("smtp://no-such-host.invalid".to_owned()).await;
    let told = told(&receipt);
    let no_name = ["failed configuration smtp.unknown_host resolve", "failed network smtp.dns resolve"];
    assert!(no_name.contains(&told.as_str()), "{told}");
}

#[tokio::test]
async fn several_addresses_are_tried_in_turn() {
    let (busy, sink) = (Sink::new(), Sink::new());
    busy.always(Step::Greeting, Act::SayAndClose("421 4.3.2 busy".to_owned()));
    let (first, second) = (busy.listen(), sink.listen());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = SmtpOptions::new("mail.example").security(Security::None).addresses([
        free,
        first.address(),
        second.address(),
    ]);
    let transport = Smtp::with_options(options.clone()).unwrap();
    assert_eq!(told(&super::send(&transport, &message()).await), "accepted");
    assert_eq!((busy.connections(), sink.deliveries().len()), (1, 1));
    // What is no fault of the address ends it.
    busy.always(Step::Greeting, Act::say("554 5.7.1 never"));
    let transport = Smtp::with_options(options).unwrap();
    let receipt = super::send(&transport, &message()).await;
    assert_eq!(told(&receipt), "failed rejected smtp.greeting greeting");
    assert_eq!((receipt.response.as_deref(), sink.deliveries().len()), (Some("554 5.7.1 never"), 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_of_old_is_greeted_in_its_own_way() {
    let (sink, options) = pair("plain", true);
    sink.then(Step::Hello, Act::say("502 5.5.1 what?"));
    let transport = Smtp::with_options(options).unwrap();
    assert_eq!(told(&super::send(&transport, &message()).await), "accepted");
    assert_eq!(sink.commands()[1], "HELO localhost");
    // Who insists on encryption gets none from it.
    let (sink, options) = pair("starttls", true);
    sink.then(Step::Hello, Act::say("502 5.5.1 what?"));
    let receipt = super::send(&Smtp::with_options(options).unwrap(), &message()).await;
    assert_eq!(told(&receipt), "failed rejected smtp.greeting ehlo");
}
