//! What stands between a caller and a transport.

mod answers;
mod around;
mod batch;
mod breaker;
mod decorated;
mod idempotent;
mod limit;
mod observe;
mod once;
mod policy;
mod pool;
mod retry;
mod suppress;
mod timed;

pub use breaker::Breaker;
pub use decorated::{Decorate, Decorated};
pub use idempotent::IdempotencyTransport;
pub use limit::RateLimited;
pub use observe::Observed;
pub use once::Mail;
pub use policy::OnUnknown;
pub use pool::Strategy;
pub use retry::Retry;
pub use suppress::{InvalidSuppression, Suppressing, SuppressionList};

pub(crate) use batch::{Batch, BatchSettings, Wrapped};
pub(crate) use once::Delivered;
pub(crate) use policy::Policy;
pub(crate) use pool::{Pool, Seat, Takes};
pub(crate) use retry::longest_pause;
pub(crate) use timed::Timed;
