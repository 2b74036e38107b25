//! Private keys.

use crate::transport::InvalidTransport;
use ring::{
    rand::SystemRandom,
    rsa,
    signature::{Ed25519KeyPair, RSA_PKCS1_SHA256},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use sha2::{Digest, Sha256};

pub(super) enum Key {
    Rsa(rsa::KeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    pub(super) fn read(pem: &[u8]) -> Result<Self, InvalidTransport> {
        let wrong = |reason: &str| InvalidTransport::new(format!("the key of DKIM {reason}"));
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| wrong("is no private key in PEM, or is protected by a password"))?;
        let rsa = match &der {
            PrivateKeyDer::Pkcs8(der) => {
                // Those that OpenSSL makes hold no public half.
                if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()) {
                    return Ok(Self::Ed25519(key));
                }
                rsa::KeyPair::from_pkcs8(der.secret_pkcs8_der())
            }
            PrivateKeyDer::Pkcs1(der) => rsa::KeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(wrong("is neither RSA nor Ed25519")),
        };
        rsa.map(Self::Rsa).map_err(|_| {
            wrong("is neither RSA of 2,048 to 4,096 bits nor Ed25519: receivers trust no shorter one")
        })
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa-sha256",
            Self::Ed25519(_) => "ed25519-sha256",
        }
    }

    /// The same bytes have the same signature.
    pub(super) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                // It fails only where the buffer has another length, or where no memory is left.
                let signed = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), bytes, &mut signature);
                if signed.is_ok() { signature } else { Vec::new() }
            }
            // RFC 8463 §3: of the digest.
            Self::Ed25519(key) => key.sign(&Sha256::digest(bytes)).as_ref().to_vec(),
        }
    }
}
