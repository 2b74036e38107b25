//! The server's side of TLS.

use super::Wire;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};
use tokio_rustls::TlsAcceptor;

/// For `localhost`, `mail.example` and the loopback addresses, until 2126.
const CERTIFICATE: &[u8] = include_bytes!("server.pem");
const KEY: &[u8] = include_bytes!("server.key");

static ACCEPTOR: LazyLock<TlsAcceptor> = LazyLock::new(|| {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(CERTIFICATE).collect();
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(chain.expect("a certificate"), key)
        .expect("key and certificate belong together");
    TlsAcceptor::from(Arc::new(config))
});

/// For other servers than those of mail.
pub(crate) fn acceptor() -> &'static TlsAcceptor {
    &ACCEPTOR
}

/// The authority that the server's certificate is of, as a file of PEM.
pub fn authority() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/smtp/authority.pem")
}

/// The handshake; none where the client gives up.
pub(super) async fn accept(io: Box<dyn Wire>) -> Option<Box<dyn Wire>> {
    let stream = ACCEPTOR.accept(io).await.ok()?;
    Some(Box::new(stream))
}
