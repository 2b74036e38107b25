use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};

/// What was logged on this thread while it lives: level and code.
#[derive(Clone, Default)]
pub(crate) struct Logs {
    lines: Arc<Mutex<Vec<(Level, Line)>>>,
}

#[derive(Default, Clone, Debug)]
struct Line {
    code: String,
    text: String,
}

impl Logs {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        let logs = Self::default();
        let guard = tracing::subscriber::set_default(logs.clone());
        (logs, guard)
    }

    /// The levels at which this code was logged.
    pub(crate) fn levels(&self, code: &str) -> Vec<Level> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|(_, line)| line.code == code).map(|(level, _)| *level).collect()
    }

    /// Every line as one text, fields included.
    pub(crate) fn text(&self) -> String {
        let lines = self.lines.lock().unwrap();
        lines.iter().map(|(level, line)| format!("{level} {}", line.text)).collect::<Vec<_>>().join("\n")
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "code" {
            format!("{value:?}").trim_matches('"').clone_into(&mut self.code);
        }
        write!(self.text, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hapax")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.lines.lock().unwrap().push((*event.metadata().level(), line));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
