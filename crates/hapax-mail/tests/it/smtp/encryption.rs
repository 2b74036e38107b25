//! TLS at once, by STARTTLS, or not at all.

use super::{Within, message, send, told};
use hapax_mail::{Smtp, SmtpOptions, smtp::Security};
use hapax_testkit::smtp::{Act, Sink, Step, authority};

fn to(sink: &Sink, host: &str) -> SmtpOptions {
    SmtpOptions::new(host).tls_ca(authority()).dial(Within(sink.clone()))
}

async fn told_by(options: SmtpOptions) -> String {
    told(&send(&Smtp::with_options(options).unwrap(), &message()).await)
}

#[tokio::test(start_paused = true)]
async fn a_server_without_starttls_gets_nothing() {
    let sink = Sink::new();
    assert_eq!(
        told_by(to(&sink, "mail.example")).await,
        "failed configuration smtp.starttls_missing starttls"
    );
    assert_eq!(sink.commands().len(), 1);
    // Where that was chosen, it gets the message in the clear.
    assert_eq!(told_by(to(&sink, "mail.example").security(Security::Opportunistic)).await, "accepted");
    let sink = Sink::new().starttls();
    assert_eq!(told_by(to(&sink, "mail.example").security(Security::Opportunistic)).await, "accepted");
    assert!(sink.commands().contains(&"STARTTLS".to_owned()));
    assert_eq!(
        told_by(to(&Sink::new().starttls(), "mail.example").security(Security::None)).await,
        "accepted"
    );
}

#[tokio::test(start_paused = true)]
async fn starttls_that_is_refused_is_told_or_passed_over() {
    for (act, required, opportunistic) in [
        (Act::say("454 4.7.0 later"), "failed service smtp.starttls_temp starttls", "accepted"),
        (Act::say("502 5.5.1 no"), "failed configuration smtp.starttls_missing starttls", "accepted"),
        (
            Act::Close,
            "failed network smtp.connection_lost starttls",
            "failed network smtp.connection_lost starttls",
        ),
        (Act::Stall, "failed timeout smtp.timeout starttls", "failed timeout smtp.timeout starttls"),
    ] {
        for (security, expected) in [(Security::Required, required), (Security::Opportunistic, opportunistic)]
        {
            let sink = Sink::new().starttls();
            sink.then(Step::StartTls, act.clone());
            assert_eq!(
                told_by(to(&sink, "mail.example").security(security)).await,
                expected,
                "{act:?} {security:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_said_before_the_encryption_is_not_believed() {
    for injected in ["250-mail.example\r\n250 AUTH PLAIN\r\n", "x"] {
        for security in [Security::Required, Security::Opportunistic] {
            let sink = Sink::new().starttls();
            sink.then(Step::StartTls, Act::And(injected.to_owned()));
            let told = told_by(to(&sink, "mail.example").security(security)).await;
            assert_eq!(told, "failed configuration smtp.starttls_injected starttls");
            assert!(sink.deliveries().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn extensions_are_those_that_were_said_within_the_encryption() {
    let sink = Sink::new().starttls();
    let plain = "250-mail.example\r\n250-SIZE 1\r\n250 STARTTLS";
    sink.then(Step::Hello, Act::say(plain));
    assert_eq!(told_by(to(&sink, "mail.example")).await, "accepted");
}

#[tokio::test(start_paused = true)]
async fn certificates_are_checked() {
    let kinds = [
        (Sink::new().starttls(), Security::Required),
        (Sink::new().implicit_tls(), Security::Implicit),
        (Sink::new().starttls(), Security::Opportunistic),
    ];
    for (sink, security) in kinds {
        let not_trusted = SmtpOptions::new("mail.example").dial(Within(sink.clone())).security(security);
        assert_eq!(told_by(not_trusted).await, "failed configuration smtp.tls_cert tls", "{security:?}");
        let wrong_name = to(&sink, "other.example").security(security);
        assert_eq!(told_by(wrong_name).await, "failed configuration smtp.tls_cert tls", "{security:?}");
        let address = to(&sink, "127.0.0.1").security(security);
        assert_eq!(told_by(address).await, "accepted", "{security:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_without_tls_is_told() {
    let sink = Sink::new();
    let told = told_by(to(&sink, "mail.example").security(Security::Implicit)).await;
    assert_eq!(told, "failed network smtp.tls tls");
    // And one that waits for TLS says nothing.
    let sink = Sink::new().implicit_tls();
    assert_eq!(told_by(to(&sink, "mail.example")).await, "failed timeout smtp.greeting greeting");
}

#[test]
fn files_of_certificates_are_read_when_the_transport_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing\n").unwrap();
    let fault = |options: SmtpOptions| Smtp::with_options(options).unwrap_err().reason;
    assert!(
        fault(SmtpOptions::new("h").tls_ca(folder.path().join("missing.pem"))).contains("cannot be read")
    );
    assert!(fault(SmtpOptions::new("h").tls_ca(&empty)).contains("certificate"));
    assert!(fault(SmtpOptions::new("h").tls_client(authority(), &empty)).contains("private key"));
}
