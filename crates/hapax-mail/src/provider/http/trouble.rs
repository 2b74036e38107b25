//! An exchange that did not come to its answer.

use super::connection::Broken;
use crate::{Failure, MailCategory};
use std::io;

/// Why there is no answer, and whether the request may have been acted on.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) failure: Box<Failure>,
    pub(crate) committed: bool,
}

impl Trouble {
    fn before(failure: Failure) -> Self {
        Self { failure: Box::new(failure), committed: false }
    }

    pub(super) fn dns(error: &io::Error) -> Self {
        let detail = format!("the name of the provider could not be looked up: {}", error.kind());
        Self::before(
            Failure::new(MailCategory::Network, "http.dns").with_stage("resolve").with_detail(detail),
        )
    }

    pub(super) fn connect(error: &io::Error) -> Self {
        let detail = format!("the provider could not be reached: {}", error.kind());
        Self::before(
            Failure::new(MailCategory::Network, "http.connect").with_stage("connect").with_detail(detail),
        )
    }

    pub(super) fn connect_timeout() -> Self {
        let failure = Failure::new(MailCategory::Timeout, "http.connect_timeout").with_stage("connect");
        Self::before(failure.with_detail("the provider did not take the connection in time"))
    }

    pub(super) fn tls(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let failure = match inner {
            Some(rustls::Error::InvalidCertificate(why)) => {
                let detail = format!("the certificate of the provider is not valid: {why:?}");
                Failure::new(MailCategory::Configuration, "http.tls_cert").with_detail(detail)
            }
            Some(why) => {
                Failure::new(MailCategory::Network, "http.tls").with_detail(format!("TLS failed: {why}"))
            }
            None => Failure::new(MailCategory::Network, "http.tls")
                .with_detail(format!("TLS failed: {}", error.kind())),
        };
        Self::before(failure.with_stage("tls"))
    }

    pub(super) fn no_roots(reason: &'static str) -> Self {
        Self::before(
            Failure::new(MailCategory::Configuration, "http.tls_cert").with_stage("tls").with_detail(reason),
        )
    }

    pub(super) fn handshake() -> Self {
        Self::before(Failure::new(MailCategory::Network, "http.connect").with_stage("connect"))
    }

    /// There is nothing that could be sent.
    #[cfg(feature = "ses")]
    pub(crate) fn no_request(reason: &'static str) -> Self {
        Self::broken(&Broken::Form(reason), false)
    }

    pub(super) fn stalled(committed: bool) -> Self {
        let failure = if committed {
            Failure::new(MailCategory::Timeout, "http.reply_timeout")
                .with_stage("reply")
                .with_detail("the provider did not answer in time")
        } else {
            Failure::new(MailCategory::Timeout, "http.write")
                .with_stage("write")
                .with_detail("the provider did not take the whole request in time")
        };
        Self { failure: Box::new(failure), committed }
    }

    pub(super) fn broken(broken: &Broken, committed: bool) -> Self {
        let failure = match (broken, committed) {
            (Broken::Form(reason), false) => Failure::new(MailCategory::Validation, "http.request")
                .with_stage("write")
                .with_detail(*reason),
            (Broken::Form(reason), true) => Failure::new(MailCategory::Unknown, "http.reply_garbled")
                .with_stage("reply")
                .with_detail(*reason),
            (Broken::Wire(error), true) if error.is_parse() => {
                Failure::new(MailCategory::Unknown, "http.reply_garbled")
                    .with_stage("reply")
                    .with_detail("what came back is no HTTP answer")
            }
            (Broken::Wire(_), true) => Failure::new(MailCategory::Network, "http.reply_lost")
                .with_stage("reply")
                .with_detail("the connection ended before the whole answer had come"),
            (Broken::Wire(_), false) => Failure::new(MailCategory::Network, "http.write")
                .with_stage("write")
                .with_detail("the connection ended before the whole request had left"),
        };
        Self { failure: Box::new(failure), committed }
    }
}
