//! How a result becomes a receipt.

use bytes::Bytes;
use hapax_core::{BoxError, idempotency::JSON};

/// How a result becomes a receipt, and back.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot keep a `{T}` as a receipt")]
pub trait Codec<T>: Clone + Send + Sync + 'static {
    /// Name and version, stored with the receipt. A receipt of another name is never decoded.
    const NAME: &'static str;
    /// The bytes of a result.
    fn encode(&self, value: &T) -> Result<Bytes, BoxError>;
    /// The result in the bytes.
    fn decode(&self, bytes: &[u8]) -> Result<T, BoxError>;
}

/// JSON through serde: the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<T: serde::Serialize + serde::de::DeserializeOwned> Codec<T> for Json {
    const NAME: &'static str = JSON;

    fn encode(&self, value: &T) -> Result<Bytes, BoxError> {
        // What JSON has no form for must fail here, not come back as null: the stable form refuses it.
        hapax_core::fingerprint::canonical_json(value)?;
        Ok(serde_json::to_vec(value)?.into())
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, BoxError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}
