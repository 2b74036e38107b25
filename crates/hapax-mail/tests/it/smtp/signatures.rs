//! DKIM. Whether others can verify it is in `tests/peers.rs`.

use super::{message, options, send, told};
use crate::support::{AT, bytes, plain};
use hapax_mail::{Smtp, SmtpOptions, dkim::Signer};
use hapax_testkit::smtp::Sink;

const RSA: &[u8] = include_bytes!("../../vectors/dkim-rsa.pem");
const ED25519: &[u8] = include_bytes!("../../vectors/dkim-ed25519.pem");

fn signers() -> [Signer; 2] {
    [("2030r", RSA), ("2030e", ED25519)]
        .map(|(selector, key)| Signer::new("example.com", selector, key).unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_signature_stands_before_the_message() {
    let sink = Sink::new();
    let [rsa, ed25519] = signers();
    let transport = Smtp::with_options(options(&sink).dkim(rsa).dkim(ed25519)).unwrap();
    let mail = plain().bcc("hidden@example.com").build().unwrap();
    assert_eq!(told(&send(&transport, &mail).await), "accepted");
    let delivery = sink.deliveries().remove(0);
    let text = String::from_utf8(delivery.bytes).unwrap();
    let starts: Vec<_> = text.match_indices("DKIM-Signature: v=1; a=").map(|(at, _)| at).collect();
    assert_eq!((starts.len(), starts[0]), (2, 0));
    assert!(text.contains("a=rsa-sha256; ") && text.contains("a=ed25519-sha256; "));
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    // Who gets it was settled before.
    assert_eq!(delivery.to, ["ada@example.com", "hidden@example.com"]);
    assert!(!text.contains("hidden"));
}

#[test]
fn a_message_has_the_same_signature_each_time() {
    let mail = bytes(&message());
    for signer in signers() {
        let field = signer.sign(&mail, AT);
        assert_eq!(field, signer.sign(&mail, AT));
        assert!(field.contains("t=1896080400;") && field.ends_with("\r\n"), "{field}");
        let other = bytes(&plain().subject("Other").build().unwrap());
        assert_ne!(field, signer.sign(&other, AT));
        assert!(!format!("{signer:?}").contains("PRIVATE"));
    }
}

#[test]
fn fields_that_nobody_may_add_are_signed_once_more_than_they_are_there() {
    let mail = bytes(&plain().unsubscribe_url("https://example.com/u").build().unwrap());
    let field = signers()[0].sign(&mail, AT).replace("\r\n\t", "");
    let names = field.split("h=").nth(1).unwrap().split(';').next().unwrap();
    let count = |name: &str| names.split(':').filter(|found| *found == name).count();
    for (name, times) in [
        ("From", 2),
        ("To", 2),
        ("Cc", 1),
        ("Subject", 2),
        ("Reply-To", 1),
        ("Sender", 0),
        ("List-Unsubscribe", 1),
        ("List-Unsubscribe-Post", 1),
    ] {
        assert_eq!(count(name), times, "{name}: {names}");
    }
}

#[test]
fn keys_and_names_that_cannot_be_used_are_refused() {
    let fault =
        |domain: &str, selector: &str, key: &[u8]| Signer::new(domain, selector, key).unwrap_err().reason;
    assert!(fault("example.com", "s", b"no key").contains("PEM"));
    assert!(fault("exa mple.com", "s", RSA).contains("domain"));
    assert!(fault("localhost", "s", RSA).contains("domain"));
    assert!(fault("example.com", "a;b", RSA).contains("selector"));
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem");
    assert!(Signer::from_file("example.com", "s", &missing).unwrap_err().reason.contains("cannot be read"));
    let url = format!("smtp://h?dkim_key={}&dkim_selector=s&dkim_domain=example.com", missing.display());
    assert!(SmtpOptions::parse(&url).unwrap_err().reason.contains("DKIM"));
}
