//! The surface as users hold it: shapes of calls, tests of users' own code, the examples.

#![expect(clippy::unwrap_used, reason = "tests")]

mod examples;
mod fit;
mod rows;
mod send;
mod users;
