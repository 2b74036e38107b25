//! Receipts that say why there is none: the effect happened, and must not run again for want of its result.

use hapax_core::idempotency::Receipt;

/// Codec name of a result that could not be kept: why, as text. Replays say so.
pub(crate) const UNENCODABLE: &str = "hapax.unencodable/1";

/// In place of the result.
pub(crate) fn unencodable(why: &str) -> Receipt {
    Receipt::new(UNENCODABLE, why.as_bytes().to_vec())
}
