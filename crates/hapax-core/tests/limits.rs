//! The algorithms of limits, held to their definitions in fractions.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "limits/definition.rs"]
mod definition;
#[path = "limits/steps.rs"]
mod steps;
