//! Encrypted connections: whom to trust, and who to be.

use crate::{
    error::{BACKEND, Failure, config},
    options::TlsFiles,
};
use hapax_core::{StoreError, StoreErrorKind, StoreResult};
use redis::{ClientTlsConfig, TlsCertificates};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{fs, path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Read once, when the store is opened.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    /// The same for the driver's own connections to the nodes of a cluster.
    pub(crate) certificates: TlsCertificates,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(…)")
    }
}

impl Tls {
    pub(crate) fn load(files: &TlsFiles) -> StoreResult<Self> {
        let ca = files.ca.as_deref().map(read).transpose()?;
        let mut roots = RootCertStore::empty();
        match (&ca, &files.ca) {
            (Some(pem), Some(path)) => {
                for certificate in certificates(path, pem)? {
                    roots.add(certificate).map_err(|error| wrong(path).with_source(error))?;
                }
            }
            _ => {
                // Some of a system's authorities may be of a kind that is not understood.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        // By name: an application may use another provider beside this one.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| internal().with_source(error))?
            .with_root_certificates(roots);
        let mut client_tls = None;
        let tls = match &files.client {
            None => builder.with_no_client_auth(),
            Some((cert_path, key_path)) => {
                let (client_cert, client_key) = (read(cert_path)?, read(key_path)?);
                let key = PrivateKeyDer::from_pem_slice(&client_key)
                    .map_err(|error| wrong(key_path).with_source(error))?;
                let chain = certificates(cert_path, &client_cert)?;
                client_tls = Some(ClientTlsConfig { client_cert, client_key });
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| wrong(cert_path).with_source(error))?
            }
        };
        let certificates = TlsCertificates { client_tls, root_cert: ca };
        Ok(Self { connector: TlsConnector::from(Arc::new(tls)), certificates })
    }

    /// The handshake.
    pub(crate) async fn wrap(&self, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Failure::new(StoreErrorKind::Config, format!("`{host}` is no name that a certificate can have"))
        })?;
        self.connector.connect(name, stream).await.map_err(|error| {
            let reason = format!(
                "{host} did not pass the TLS handshake: its certificate must be of an authority that is trusted \
                 (`tls_ca=`) and name this host; without TLS, write `redis://`"
            );
            Failure::new(StoreErrorKind::Config, reason).because(error.into())
        })
    }
}

fn read(path: &Path) -> StoreResult<Vec<u8>> {
    fs::read(path)
        .map_err(|error| config(format!("`{}` of the URL cannot be read", path.display())).with_source(error))
}

fn certificates(path: &Path, pem: &[u8]) -> StoreResult<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong(path)),
        Err(error) => Err(wrong(path).with_source(error)),
    }
}

fn wrong(path: &Path) -> StoreError {
    config(format!("`{}` of the URL is not what it should be: a PEM file", path.display()))
}

fn internal() -> StoreError {
    StoreError::new(StoreErrorKind::Internal, BACKEND, "connect", "TLS could not be set up")
}
