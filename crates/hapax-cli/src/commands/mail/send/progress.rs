//! What is seen while it works: a bar on stderr, where that is a terminal.

use super::tally::Tally;
use crate::{duration, output::Output};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::{
    fmt,
    io::{self, IsTerminal},
    time::Duration,
};

const CHECKING: &str = "{spinner} checking: {human_pos} messages";
const SENDING: &str = "{bar:30} {human_pos}/{human_len}, {rate}, {eta} left\n{msg}";

/// The bar, or nothing.
#[derive(Debug)]
pub(in super::super) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(in super::super) fn new(output: &Output) -> Self {
        Self::shown(!output.quiet && io::stderr().is_terminal())
    }

    fn shown(shown: bool) -> Self {
        if !shown {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        bar.set_style(style(CHECKING));
        Self(Some(bar))
    }

    /// So many entries were looked at.
    pub(in super::super) fn checked(&self, entries: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(entries);
        }
    }

    /// From here on `all` messages are sent.
    pub(in super::super) fn sending(&self, all: u64) {
        if let Some(bar) = &self.0 {
            bar.reset();
            bar.set_length(all);
            bar.set_style(style(SENDING));
        }
    }

    /// What has become of them.
    pub(super) fn tally(&self, tally: &Tally) {
        if let Some(bar) = &self.0 {
            bar.set_position(tally.all());
            bar.set_message(tally.to_string());
        }
    }

    /// What it is waiting for, and how long at most.
    pub(super) fn waiting(&self, messages: usize, left: Duration) {
        if let Some(bar) = &self.0 {
            let left = duration::format_rough(left);
            bar.set_message(format!("waiting for {messages} that another run holds, {left} at most"));
        }
    }

    /// Writes something else to the terminal.
    pub(in super::super) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    pub(in super::super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = write!(out, "{:.0}/s", state.per_sec());
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [CHECKING, SENDING] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }

    #[test]
    fn a_bar_that_is_not_shown_does_nothing() {
        let progress = Progress::shown(false);
        progress.sending(3);
        progress.tally(&Tally::default());
        assert_eq!(progress.aside(|| 7), 7);
        progress.finish();
    }
}
