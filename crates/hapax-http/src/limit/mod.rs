//! So many requests in such a time.
//!
//! | module | what it does |
//! |---|---|
//! | `layer` | the layer, and what can be set |
//! | `service` | one request: the decision, and its fields |

mod layer;
mod service;

pub use self::{layer::RateLimitLayer, service::RateLimitService};
