//! Encrypted connections: whom to trust, and who to be.

use super::{
    dial::Io,
    failure::{Trouble, at, late},
    stage::{Stage, Timeouts},
};
use crate::{MailCategory, transport::InvalidTransport};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tokio_rustls::TlsConnector;

/// Files of certificates, all PEM.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    /// Authorities, in place of the system's.
    pub(super) ca: Option<PathBuf>,
    /// The client's own certificate, and its key.
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

/// The files are read when the transport is made, the system's authorities with the first encrypted connection.
pub(super) struct Tls {
    ca: Option<Vec<CertificateDer<'static>>>,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

impl Tls {
    pub(super) fn load(files: &TlsFiles) -> Result<Self, InvalidTransport> {
        let ca = files.ca.as_deref().map(certificates).transpose()?;
        let client = match &files.client {
            None => None,
            Some((chain, key)) => {
                let pem = read(key)?;
                let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| no_pem(key, "a private key"))?;
                Some((certificates(chain)?, key))
            }
        };
        let tls = Self { ca, client, config: OnceLock::new() };
        if tls.ca.is_some() || tls.client.is_some() {
            // What is wrong with files that were given is said at once.
            tls.config().map_err(InvalidTransport::new)?;
        }
        Ok(tls)
    }

    /// The handshake.
    pub(super) async fn wrap(
        &self,
        name: &str,
        io: Box<dyn Io>,
        times: &Timeouts,
    ) -> Result<Box<dyn Io>, Trouble> {
        let failed = |code, category, detail: &'static str| at(Stage::Tls, category, code, detail);
        let config = self.config().map_err(|reason| {
            failed("smtp.tls", MailCategory::Configuration, "TLS could not be set up").with_detail(reason)
        })?;
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            failed(
                "smtp.tls_cert",
                MailCategory::Configuration,
                "the host is no name that a certificate can have",
            )
        })?;
        let handshake = TlsConnector::from(config).connect(name, io);
        match tokio::time::timeout(times.of(Stage::Tls, 0), handshake).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) if is_about_certificate(&error) => Err(failed(
                "smtp.tls_cert",
                MailCategory::Configuration,
                "the certificate of the server is not trusted, or is for another name",
            )
            .into()),
            Ok(Err(_)) => Err(failed("smtp.tls", MailCategory::Network, "the TLS handshake failed").into()),
            Err(_) => Err(late(Stage::Tls).into()),
        }
    }

    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        self.config.get_or_init(|| self.build().map(Arc::new)).clone()
    }

    fn build(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(given) => {
                for certificate in given {
                    roots
                        .add(certificate.clone())
                        .map_err(|_| "a certificate of `tls_ca` cannot be used as an authority".to_owned())?;
                }
            }
            // Some of a system's authorities may be of a kind that is not understood.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        // By name: an application may use another provider beside this one.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| "TLS could not be set up".to_owned())?
            .with_root_certificates(roots);
        match &self.client {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .map_err(|_| "`tls_cert` and `tls_key` do not belong together".to_owned()),
        }
    }
}

fn is_about_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented))
}

fn read(path: &Path) -> Result<Vec<u8>, InvalidTransport> {
    fs::read(path)
        .map_err(|error| InvalidTransport::new(format!("`{}` cannot be read: {error}", path.display())))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, InvalidTransport> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| no_pem(path, "a certificate"))
}

fn no_pem(path: &Path, what: &str) -> InvalidTransport {
    InvalidTransport::new(format!("`{}` holds no PEM with {what}", path.display()))
}
