//! Services: the parts of a program that start once and have to stop in order.
//!
//! A service is a function, `async fn(Ctx) -> Result<T, E>`. It loads what it needs ([`Ctx::load`]), says what is to be
//! done when it stops ([`Ctx::on_stop`]), and returns what others get of it. [`App`] boots some of them, waits for a signal, and
//! stops all of them: who loads stops before what is loaded.
//!
//! | phase | what happens |
//! |---|---|
//! | start | signals are caught; booted services start side by side, those that they load when they are asked for, each once |
//! | ready | the supervisor is told |
//! | drain | [`Ctx::stopping`] is over, nothing is started any more, the supervisor is told; [`App::drain_for`] passes |
//! | stop | the hooks of each service run, last in first out, once nothing is left that loaded it |
//! | end | the [`Report`] says how every service started and stopped, and becomes the exit code |
//!
//! Nothing that a service does ends the program: an error or a panic in a factory fails its start, one in a hook is
//! reported, and everything else stops in order.

mod app;
mod container;
mod ctx;
mod error;
mod event;
mod graph;
mod hook;
mod lifecycle;
mod notify;
mod report;
mod service;
mod signals;
mod stop;

pub use crate::{
    app::App,
    ctx::Ctx,
    error::{CODES, ServiceError, ServiceErrorKind},
    event::{Event, Events},
    hook::StopOutcome,
    report::{Problem, Report, ServiceReport, State, StopCause},
};
