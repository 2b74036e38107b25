//! Rate limits: so much in such a time, for whoever a name stands for.
//!
//! | module | what it does |
//! |---|---|
//! | `handle` | the handle |
//! | `name`, `template`, `value` | a limit as a program names it |
//! | `ask`, `decision` | a question with its settings, and what is answered |
//! | `down` | what is answered when the store cannot be reached |
//! | [`headers`] | an answer as HTTP headers |

mod ask;
mod decision;
mod down;
mod error;
mod handle;
pub mod headers;
mod name;
mod template;
mod value;

pub use hapax_core::limit::{Algorithm, Answer, Bound, InvalidQuota, LimitKey, Quota};

pub use self::{
    ask::{Ask, Require},
    decision::{Decision, Permit, PolicyDecision},
    down::{Degraded, WhenDown},
    error::{CODES, LimitError},
    handle::RateLimiter,
    name::{IntoLimits, Limit},
    template::{Kind, Template},
    value::{LimitValue, Secret},
};
