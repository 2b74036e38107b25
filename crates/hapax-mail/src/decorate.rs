//! What stands between a caller and a transport.

mod answers;
mod batch;
mod idempotent;
mod once;
mod policy;

pub use idempotent::IdempotencyTransport;
pub use policy::OnUnknown;

pub(crate) use batch::{Batch, BatchSettings, Wrapped};
pub(crate) use once::{Delivered, Mail};
pub(crate) use policy::Policy;
