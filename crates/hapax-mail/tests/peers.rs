//! SMTP and LMTP against real servers, SES against its stand-in, and mails and their signatures before
//! other readers. What is not installed shows as ignored.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "peers/parsers.rs"]
mod parsers;
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "it/support.rs"]
mod support;

use hapax_core::Timestamp;
use hapax_mail::{
    Frozen, Message, MessageBuilder, RawMessage, Receipt, SendContext, Smtp, SmtpOptions, Transport,
    dkim::Signer,
    render,
    smtp::{Credentials, Mechanism, Security},
};
#[cfg(feature = "ses")]
use hapax_testkit::mail::Moto;
use hapax_testkit::{
    mail::{Aiosmtpd, Dovecot, Exim, PASSWORD, Postfix, USER, python},
    smtp::authority,
    until,
};
use libtest_mimic::{Arguments, Completion, Trial};
use std::process::{Command, ExitCode};

type Missing = fn() -> Option<String>;

fn main() -> ExitCode {
    let tests: &[(&'static str, Missing, fn())] = &[
        ("postfix::takes_mail_over_tls_from_who_logs_in", Postfix::missing, postfix_takes_mail),
        ("postfix::its_refusals_are_told_apart", Postfix::missing, postfix_refuses),
        ("exim::takes_mail_over_tls_from_who_logs_in", Exim::missing, exim_takes_mail),
        ("dovecot::delivers_by_lmtp", Dovecot::missing, dovecot_delivers),
        ("aiosmtpd::takes_mail", Aiosmtpd::missing, aiosmtpd_takes_mail),
        ("openssl::makes_keys_that_sign", || hapax_testkit::missing(&["openssl"]), openssl_makes_keys),
        ("dkimpy::verifies_signatures", no_python, dkimpy_verifies),
        ("python::sees_what_was_given", no_python, parsers::python_sees_what_was_given),
        ("mail_parser::sees_what_was_given", || None, parsers::independent_rust_parser_sees_what_was_given),
        #[cfg(feature = "ses")]
        ("moto::takes_mail_for_ses", Moto::missing, moto_takes_mail),
    ];
    let trial = |(name, missing, test): (&'static str, Missing, fn())| {
        Trial::ignorable_test(name, move || {
            if let Some(why) = missing() {
                return Ok(Completion::ignored_with(why));
            }
            test();
            Ok(Completion::Completed)
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.iter().copied().map(trial).collect()).exit_code()
}

fn no_python() -> Option<String> {
    Aiosmtpd::missing().map(|why| why.replace("aiosmtpd", "dkimpy"))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn send(transport: &Smtp, message: &Message) -> Receipt {
    transport.send(message, &SendContext::default()).await
}

fn plain() -> MessageBuilder {
    Message::builder()
        .from("Shop <shop@example.com>")
        .to("ada@example.com")
        .subject("Grüße")
        .text("Hello.\n.\n..dots\n")
}

fn encrypted(port: u16) -> SmtpOptions {
    SmtpOptions::new("localhost")
        .addresses([([127, 0, 0, 1], port).into()])
        .tls_ca(authority())
        .credentials(Credentials::password(USER, PASSWORD))
}

fn transport(options: SmtpOptions) -> Smtp {
    Smtp::with_options(options).unwrap()
}

/// Several at a time over few connections, with each way to log in.
fn takes_mail(options: &SmtpOptions) {
    for mechanism in [Mechanism::Plain, Mechanism::Login] {
        for pipelining in [true, false] {
            let credentials = Credentials::password(USER, PASSWORD).by(mechanism);
            let options = options.clone().credentials(credentials).pipelining(pipelining).connections(2);
            let transport = transport(options);
            block_on(async {
                let mails: Vec<_> = (0..4)
                    .map(|n| plain().subject(format!("{mechanism:?} {pipelining} {n}")).build().unwrap())
                    .collect();
                let sends = mails.iter().map(|mail| send(&transport, mail));
                for receipt in futures_util::future::join_all(sends).await {
                    assert!(
                        receipt.is_accepted() && receipt.provider_id.is_some(),
                        "{receipt:?} {:?}",
                        receipt.response
                    );
                }
            });
        }
    }
}

fn wrong_password(options: SmtpOptions) {
    let options = options.credentials(Credentials::password(USER, "wrong"));
    let receipt = block_on(send(&transport(options), &plain().build().unwrap()));
    assert_eq!(receipt.code(), Some("smtp.auth"), "{:?}", receipt.response);
}

fn postfix_takes_mail() {
    let server = Postfix::start();
    takes_mail(&encrypted(server.port()));
    let implicit = encrypted(server.tls_port()).security(Security::Implicit);
    takes_mail(&implicit);
    wrong_password(implicit);
    let not_trusted = SmtpOptions::new("localhost").addresses([([127, 0, 0, 1], server.port()).into()]);
    let receipt = block_on(send(&transport(not_trusted), &plain().build().unwrap()));
    assert_eq!(receipt.code(), Some("smtp.tls_cert"));
    let utf8 = plain().cc("jørgen@example.com").build().unwrap();
    let receipt = block_on(send(&transport(encrypted(server.port())), &utf8));
    assert!(receipt.is_accepted(), "{:?}", receipt.response);
    until("postfix has delivered", || server.mails().len() == 34);
    let mails = server.mails();
    assert!(mails.iter().all(|mail| mail.contains("\n.\n..dots\n")), "{}", mails[0]);
}

fn postfix_refuses() {
    let server = Postfix::start();
    let transport = transport(encrypted(server.port()));
    let told = |receipt: &Receipt| {
        let failure = receipt.failure().unwrap_or_else(|| panic!("{receipt:?}"));
        format!("{} {} {}", failure.category.as_str(), failure.code, failure.stage.as_deref().unwrap())
    };
    block_on(async {
        let blocked =
            Message::builder().from("blocked@example.com").to("ada@example.com").text("x").build().unwrap();
        assert_eq!(told(&send(&transport, &blocked).await), "rejected smtp.rejected rcpt");
        let large = plain().attach("a.bin", "application/octet-stream", vec![7_u8; 900_000]).build().unwrap();
        assert_eq!(told(&send(&transport, &large).await), "validation smtp.size preflight");
        assert!(send(&transport, &plain().build().unwrap()).await.is_accepted());
        let anonymous = SmtpOptions::new("localhost")
            .addresses([([127, 0, 0, 1], server.port()).into()])
            .tls_ca(authority());
        let receipt = send(&Smtp::with_options(anonymous).unwrap(), &plain().build().unwrap()).await;
        assert_eq!(told(&receipt), "rejected smtp.rejected rcpt");
    });
    // The refusals left one connection in step.
    assert_eq!(server.log().matches("sasl_method=PLAIN").count(), 1, "{}", server.log());
}

fn exim_takes_mail() {
    let server = Exim::start();
    takes_mail(&encrypted(server.port()));
    wrong_password(encrypted(server.port()));
    let partial = plain().cc("nobody@example.com").build().unwrap();
    let receipt = block_on(send(&transport(encrypted(server.port())), &partial));
    assert!(receipt.is_accepted() && receipt.rejected.len() == 1, "{receipt:?}");
    assert_eq!(receipt.accepted, ["ada@example.com"]);
    let mails = server.mails();
    assert_eq!(mails.len(), 17);
    assert!(mails.iter().all(|mail| mail.contains("\n.\n..dots\n")), "{}", mails[0]);
}

fn dovecot_delivers() {
    let server = Dovecot::start();
    let message = plain().cc("bob@example.com").build().unwrap();
    let tcp = SmtpOptions::lmtp("localhost")
        .addresses([([127, 0, 0, 1], server.port()).into()])
        .security(Security::Required)
        .tls_ca(authority());
    let socket = SmtpOptions::lmtp_socket(server.socket());
    for options in [tcp.clone().pipelining(false), tcp, socket] {
        let receipt = block_on(send(&transport(options), &message));
        assert!(receipt.is_accepted(), "{receipt:?} {:?}", receipt.response);
        assert_eq!(receipt.accepted, ["ada@example.com", "bob@example.com"]);
    }
    // LMTP answers when it has delivered.
    let mails = server.mails();
    assert_eq!(mails.len(), 6);
    assert!(mails.iter().all(|mail| mail.contains("\n.\n..dots\n")), "{}", mails[0]);
}

fn aiosmtpd_takes_mail() {
    let server = Aiosmtpd::start();
    let options = SmtpOptions::new("127.0.0.1").port(server.port()).security(Security::None);
    let transport = transport(options);
    block_on(async {
        for _ in 0..3 {
            assert!(
                send(&transport, &plain().bcc("hidden@example.com").build().unwrap()).await.is_accepted()
            );
        }
        let utf8 = plain().to("jørgen@bücher.example").build().unwrap();
        assert!(send(&transport, &utf8).await.is_accepted());
        let eight = "Subject: x\r\nFrom: a@example.com\r\n\r\nüber\r\n.\r\n";
        let raw = RawMessage::new("a@example.com", ["b@example.com"], eight.as_bytes().to_vec());
        assert!(transport.send_raw(&raw, &SendContext::default()).await.is_accepted());
    });
    let mails = server.mails();
    assert_eq!(mails.len(), 5);
    assert!(mails.iter().any(|mail| mail.contains("über\n.\n")), "{mails:?}");
    assert_eq!(mails.iter().filter(|mail| mail.contains("\n.\n..dots\n")).count(), 4);
}

/// What the stand-in has is what was sent, for whom, and who may not send is told so.
#[cfg(feature = "ses")]
fn moto_takes_mail() {
    let server = Moto::start();
    server.let_send("eu-west-1", "shop@example.com");
    let ses = hapax_mail::Ses::new("eu-west-1", "test", "test", None).unwrap();
    let ses = ses.with_endpoint(&server.url()).unwrap();
    let frozen = Frozen::new("<a@example.com>", Timestamp::from_millis(1_700_000_000_000), "seed");
    let context = SendContext::default().with_frozen(frozen.clone());
    let message = plain().bcc("hidden@example.com").metadata("campaign", "spring").build().unwrap();
    let other = Message::builder().from("other@example.com").to("ada@example.com").text("x").build().unwrap();
    let (taken, refused) =
        block_on(async { (ses.send(&message, &context).await, ses.send(&other, &context).await) });
    assert!(taken.is_accepted(), "{taken:?} {:?}", taken.response);
    assert_eq!(refused.code(), Some("provider.rejected"), "{refused:?} {:?}", refused.response);
    let data: serde_json::Value = serde_json::from_str(&server.data()).unwrap();
    let [kept] = data["ses"]["RawMessage"].as_array().unwrap().as_slice() else { panic!("{data}") };
    assert_eq!(kept["raw_data"], std::str::from_utf8(&render(&message, &frozen).unwrap()).unwrap());
    // The stand-in adds those of the header.
    let to: Vec<_> = kept["destinations"].as_array().unwrap().iter().take(2).collect();
    assert_eq!(to, ["ada@example.com", "hidden@example.com"]);
    let id = taken.provider_id.as_deref().unwrap();
    assert_eq!(kept["id"], id);
    assert_eq!(taken.message_id, format!("<{id}@eu-west-1.amazonses.com>"));
}

const RSA: &[u8] = include_bytes!("vectors/dkim-rsa.pem");
const ED25519: &[u8] = include_bytes!("vectors/dkim-ed25519.pem");

/// The public half of a key, as `openssl` gives it.
fn public(pem: &str) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(["pkey", "-in", pem, "-pubout", "-outform", "DER"]);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

fn openssl_makes_keys() {
    let folder = tempfile::tempdir().unwrap();
    for (name, args) in [
        ("rsa", &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"][..]),
        ("old", &["genrsa", "-traditional", "2048"]),
        ("ed25519", &["genpkey", "-algorithm", "ed25519"]),
        ("short", &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"]),
        ("other", &["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ] {
        let made = Command::new("openssl").args(args).output().unwrap();
        assert!(made.status.success(), "{name}");
        let path = folder.path().join(name);
        std::fs::write(&path, &made.stdout).unwrap();
        let signer = Signer::from_file("example.com", "s", &path);
        assert_eq!(signer.is_ok(), !["short", "other"].contains(&name), "{name}: {signer:?}");
    }
}

fn dkimpy_verifies() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let folder = env!("CARGO_MANIFEST_DIR");
    let path = |name: &str| format!("{folder}/tests/vectors/{name}");
    let rsa = public(&path("dkim-rsa.pem"));
    // The 32 bytes at its end are the key itself: RFC 8463 §4.
    let ed25519 = public(&path("dkim-ed25519.pem"));
    let records = [
        format!("2030r=v=DKIM1; k=rsa; p={}", STANDARD.encode(&rsa)),
        format!("2030e=v=DKIM1; k=ed25519; p={}", STANDARD.encode(&ed25519[ed25519.len() - 32..])),
    ];
    // dkimpy trusts no signature of the future.
    let frozen = Frozen::new("<a@example.com>", Timestamp::from_millis(1_700_000_000_000), "seed");
    let mails = [
        plain(),
        plain().text(""),
        plain().text("trailing  \n\n\n"),
        plain().html("<p>ü</p>").attach("a.bin", "application/octet-stream", vec![7_u8; 10_000]),
        plain().subject("a long subject ".repeat(20)).unsubscribe_url("https://example.com/u?x=1"),
    ];
    for (n, builder) in mails.into_iter().enumerate() {
        let mail = render(&builder.build().unwrap(), &frozen).unwrap();
        for (selector, key) in [("2030r", RSA), ("2030e", ED25519)] {
            let signer = Signer::new("example.com", selector, key).unwrap();
            let signed = [signer.sign(&mail, frozen.date).into_bytes(), mail.to_vec()].concat();
            assert!(verifies(&signed, &records), "{n} {selector}");
            let text = String::from_utf8(signed).unwrap();
            for (from, to) in [
                ("Subject: ", "Subject: no "),
                ("\r\n\r\n", "\r\nReply-To: x@y\r\n\r\n"),
                ("\r\n\r\n", "\r\n\r\nx"),
            ] {
                let changed = text.replacen(from, to, 1);
                assert!(!verifies(changed.as_bytes(), &records), "{n} {selector}: {to:?} was not seen");
            }
        }
    }
}

/// What dkimpy says of a mail, with these records in place of DNS.
fn verifies(mail: &[u8], records: &[String]) -> bool {
    const SCRIPT: &str = "import sys, dkim\n\
        records = dict(r.split('=', 1) for r in sys.argv[1:])\n\
        dns = lambda name, timeout=5: records[name.decode().split('.')[0]].encode()\n\
        print(dkim.verify(sys.stdin.buffer.read(), dnsfunc=dns))";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mail");
    std::fs::write(&file, mail).unwrap();
    let mut command = Command::new(python().unwrap());
    command.args(["-c", SCRIPT]).args(records).stdin(std::fs::File::open(&file).unwrap());
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
    assert!(["True", "False"].contains(&said.as_str()), "{said} {}", String::from_utf8_lossy(&ran.stderr));
    said == "True"
}
