//! A request with an `Idempotency-Key` is carried out once.
//!
//! | module | what it does |
//! |---|---|
//! | `layer`, `settings` | the layer, and what can be set |
//! | `service` | one request from first to last: its key, its body, the reservation |
//! | `carry` | the handler under its reservation, and what becomes of its response |
//! | `lasting`, `handlers` | a handler goes on when its client has gone, and has an owner |
//! | `caller` | whose key it is |
//! | `fingerprint` | what tells one request from another |
//! | `keep`, `stored` | which responses are kept, what of them, and in which form |

mod caller;
mod carry;
mod fingerprint;
mod handlers;
mod keep;
mod lasting;
mod layer;
mod service;
mod settings;
mod stored;

pub use self::{
    caller::IntoCaller,
    handlers::Handlers,
    keep::Keep,
    layer::IdempotencyLayer,
    service::{IdempotencyService, ResponseFuture},
};
