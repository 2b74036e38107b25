//! Schedules: jobs that are added again and again.
//!
//! | module | what it does |
//! |---|---|
//! | `expression` | reads a cron expression, and finds the local times that it means |
//! | `timing` | an expression in a time zone: which instants those are |
//! | `rule` | what a schedule adds and when, as stores keep it |
//! | `put`, `set` | puts one; declares all those of a program |
//! | `list` | looks at them, and removes one |
//! | `clockwork` | what a worker does for them: adds the jobs that are due |

mod clockwork;
mod expression;
mod list;
mod put;
mod rule;
mod set;
mod timing;

pub(super) use clockwork::{Clockwork, Looks, StoreTime};
pub use {
    list::ScheduleInfo,
    put::ScheduledJob,
    rule::{CatchUp, Rule},
    set::{Declared, ScheduleSet},
    timing::Timing,
};
