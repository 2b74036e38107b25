//! Who we are.

use super::{Within, options, send, smtp, told};
use hapax_mail::{
    Smtp, SmtpOptions,
    smtp::{Credentials, Mechanism, Security},
};
use hapax_testkit::smtp::{Act, Sink, Step, authority};
use std::sync::{Arc, Mutex};

fn server(mechanisms: &str) -> Sink {
    Sink::new().with(&format!("AUTH {mechanisms}")).user("ada", "s3cret, =").starttls()
}

fn over_tls(sink: &Sink, credentials: Credentials) -> SmtpOptions {
    let options = SmtpOptions::new("mail.example").tls_ca(authority()).dial(Within(sink.clone()));
    options.credentials(credentials)
}

async fn told_by(options: SmtpOptions) -> String {
    told(&send(&Smtp::with_options(options).unwrap(), &super::message()).await)
}

fn password() -> Credentials {
    Credentials::password("ada", "s3cret, =")
}

#[tokio::test(start_paused = true)]
async fn every_mechanism_logs_in() {
    let token = || Credentials::token("ada", |_| async { Ok("s3cret, =".to_owned()) });
    for (mechanisms, credentials, used) in [
        ("LOGIN PLAIN", password(), "AUTH PLAIN AG"),
        ("LOGIN", password(), "AUTH LOGIN"),
        ("PLAIN LOGIN", password().by(Mechanism::Login), "AUTH LOGIN"),
        ("XOAUTH2 OAUTHBEARER", token(), "AUTH OAUTHBEARER "),
        ("PLAIN XOAUTH2", token(), "AUTH XOAUTH2 "),
        ("PLAIN XOAUTH2", password().by(Mechanism::XOAuth2), "AUTH XOAUTH2 "),
    ] {
        let sink = server(mechanisms);
        assert_eq!(told_by(over_tls(&sink, credentials)).await, "accepted", "{mechanisms}");
        assert!(sink.commands().iter().any(|line| line.starts_with(used)), "{mechanisms}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_told_once_and_nothing_is_sent() {
    for mechanisms in ["PLAIN", "LOGIN", "XOAUTH2", "OAUTHBEARER"] {
        let sink = server(mechanisms);
        let mechanism = match mechanisms {
            "PLAIN" => Mechanism::Plain,
            "LOGIN" => Mechanism::Login,
            "XOAUTH2" => Mechanism::XOAuth2,
            _ => Mechanism::OAuthBearer,
        };
        let options = over_tls(&sink, Credentials::password("ada", "wrong").by(mechanism));
        let receipt = send(&Smtp::with_options(options).unwrap(), &super::message()).await;
        assert_eq!(told(&receipt), "failed auth smtp.auth auth", "{mechanisms}");
        assert_eq!(receipt.response.as_deref(), Some("535 5.7.8 no"));
        let tries = sink.commands().iter().filter(|line| line.starts_with("AUTH")).count();
        assert_eq!((tries, sink.deliveries().len()), (1, 0), "{mechanisms}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_asked_for_again_once() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let token = move |good: &'static str| {
        let log = Arc::clone(&log);
        Credentials::token("ada", move |refused| {
            log.lock().unwrap().push(refused);
            async move { Ok(if refused { good } else { "stale" }.to_owned()) }
        })
    };
    let sink = server("XOAUTH2");
    assert_eq!(told_by(over_tls(&sink, token("s3cret, ="))).await, "accepted");
    assert_eq!(*asked.lock().unwrap(), [false, true]);
    let sink = server("OAUTHBEARER");
    assert_eq!(told_by(over_tls(&sink, token("stale, too"))).await, "failed auth smtp.auth auth");
    assert_eq!(asked.lock().unwrap().len(), 4);
    let none = Credentials::token("ada", |_| async { Err("no token".into()) });
    assert_eq!(told_by(over_tls(&server("XOAUTH2"), none)).await, "failed service smtp.auth_temp auth");
}

#[tokio::test(start_paused = true)]
async fn a_password_in_a_file_is_read_for_each_connection() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let sink = server("PLAIN");
    let options = over_tls(&sink, Credentials::file("ada", &file)).messages_per_connection(1);
    let transport = Smtp::with_options(options).unwrap();
    let outcome = async || told(&send(&transport, &super::message()).await);
    assert_eq!(outcome().await, "failed service smtp.auth_temp auth");
    std::fs::write(&file, "s3cret, =\n").unwrap();
    assert_eq!(outcome().await, "accepted");
    std::fs::write(&file, "other\n").unwrap();
    assert_eq!(outcome().await, "failed auth smtp.auth auth");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_way_to_log_in_is_told() {
    let sink = Sink::new().starttls();
    assert_eq!(told_by(over_tls(&sink, password())).await, "failed configuration smtp.auth_unsupported auth");
    let sink = server("GSSAPI");
    assert_eq!(told_by(over_tls(&sink, password())).await, "failed configuration smtp.auth_unsupported auth");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_ever_is_left() {
    let sink = server("LOGIN");
    sink.always(Step::Auth, Act::say("334 and?\r\n334 and?\r\n334 and?\r\n334 and?\r\n334 and?\r\n334 and?"));
    let told = told_by(over_tls(&sink, password())).await;
    assert!(told.starts_with("failed") && sink.deliveries().is_empty(), "{told}");
    let sink = server("LOGIN");
    sink.always(Step::Auth, Act::say("454 4.7.0 later"));
    assert_eq!(told_by(over_tls(&sink, password())).await, "failed service smtp.auth_temp auth");
}

#[tokio::test(start_paused = true)]
async fn a_password_is_sent_in_the_clear_only_where_that_was_chosen() {
    let sink = Sink::new().with("AUTH PLAIN").user("ada", "s3cret, =");
    let clear = options(&sink).credentials(password());
    let told = told_by(clear.clone().security(Security::Opportunistic)).await;
    assert_eq!(told, "failed configuration smtp.auth_plaintext auth");
    assert!(!sink.commands().iter().any(|line| line.starts_with("AUTH")));
    assert_eq!(told_by(clear).await, "accepted");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_who_we_are_is_answered_with_the_failure() {
    let sink = Sink::new().with("AUTH PLAIN").user("ada", "x");
    assert_eq!(told(&send(&smtp(&sink), &super::message()).await), "failed auth smtp.auth mail");
}
