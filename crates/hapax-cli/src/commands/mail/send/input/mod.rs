//! What is to be sent: files, read twice. The first time every entry is checked, the second time each is sent.

mod batches;
mod draft;
mod keys;
mod lines;
mod marks;
mod problem;
mod rows;
mod source;
mod template;

pub(crate) use batches::{Batch, Known, in_batches};
pub(crate) use draft::{Draft, Drafter, Mail, changed, place};
pub(crate) use keys::KeyTemplate;
pub(crate) use lines::At;
pub(crate) use marks::{Mark, Marking, Marks};
pub(crate) use problem::{Problem, Problems};
pub(crate) use source::{Format, Opening, Source};
pub(crate) use template::Template;
