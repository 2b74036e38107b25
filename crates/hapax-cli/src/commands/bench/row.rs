//! A line of the answer, with the fields that the other programs of a comparison print.

use super::load::Measured;
use crate::output::Output;
use serde::Serialize;

/// What all lines have in common.
pub(super) struct About {
    pub(super) sync: String,
    pub(super) threads: u32,
    pub(super) inline: bool,
    pub(super) fdatasync_us: Option<u64>,
}

impl About {
    /// What stands above the table.
    pub(super) fn head(&self, output: &Output, scheme: &str) {
        let disk = self.fdatasync_us.map_or_else(String::new, |us| format!(", fdatasync {us} us"));
        output.line(&format!("{scheme}, synchronous {}{disk}, threads {}", self.sync, self.threads));
        output.line(&format!(
            "{:<12}{:>6}{:>12}{:>10}{:>10}{:>12}{:>10}",
            "op", "conc", "ops/s", "p50 us", "p99 us", "cpu us/op", "n"
        ));
    }

    pub(super) fn row(
        &self,
        what: &str,
        scheme: &str,
        op: &'static str,
        conc: u32,
        measured: Measured,
    ) -> Row<'_> {
        Row {
            bench: format!("{what}-{scheme}"),
            op,
            implementation: concat!("hapax ", env!("CARGO_PKG_VERSION")),
            inline: self.inline,
            sync: &self.sync,
            conc,
            threads: self.threads,
            batch: None,
            rate: None,
            ids: None,
            measured,
            fdatasync_us: self.fdatasync_us,
        }
    }
}

/// What was measured, and how.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    bench: String,
    op: &'static str,
    #[serde(rename = "impl")]
    implementation: &'static str,
    inline: bool,
    sync: &'a str,
    /// Callers, or handlers of a worker.
    conc: u32,
    threads: u32,
    /// Jobs in a call of `add`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) batch: Option<usize>,
    /// Jobs a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<u32>,
    /// Whether jobs have ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ids: Option<bool>,
    #[serde(flatten)]
    measured: Measured,
    #[serde(skip_serializing_if = "Option::is_none")]
    fdatasync_us: Option<u64>,
}

impl Row<'_> {
    pub(super) fn show(&self, output: &Output) {
        if output.json { output.object(self) } else { output.line(&self.text()) }
    }

    fn text(&self) -> String {
        let Measured { n, ops_s, client_us_op, p50_us, p99_us, .. } = self.measured;
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
        let (op, conc, p50, p99) = (self.op, self.conc, us(p50_us), us(p99_us));
        format!("{op:<12}{conc:>6}{ops_s:>12.0}{p50:>10}{p99:>10}{client_us_op:>12.2}{n:>10}")
    }
}
