//! A step as it is asked of the server: nothing borrowed, and of no type of its own, so that steps of many callers can
//! wait in one place.

use crate::{step::Step, value::Value};

/// What all asks of one kind of step share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The function that takes it.
    pub(crate) function: &'static str,
    /// The function that takes many at once, where there is one.
    pub(crate) many: Option<&'static str>,
    /// The same, where all keys before were new.
    pub(crate) new: Option<&'static str>,
    /// The function that answers in its place where the row stays locked.
    pub(crate) busy: Option<&'static str>,
    /// Whether it may be sent once more when its reply was lost.
    pub(crate) resend: bool,
    /// So many values name the row.
    pub(crate) parts: usize,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) shape: Shape,
    /// What the function is called with, the name of the row first.
    pub(crate) values: Vec<Value>,
    /// Of the receipt.
    pub(crate) bytes: usize,
}

impl Ask {
    pub(crate) fn of<S: Step>(step: &S) -> Self {
        let shape = Shape {
            function: S::FUNCTION,
            many: S::MANY,
            new: S::NEW,
            busy: S::BUSY,
            resend: S::RESEND,
            parts: 1,
        };
        let bytes = step.receipt().map_or(0, |receipt| receipt.bytes.len());
        Self { shape, values: step.values(), bytes }
    }

    /// Whose row it is, in the order of the table.
    pub(crate) fn name(&self) -> [&[u8]; 3] {
        let mut parts = self.values.iter().take(self.shape.parts).map(Value::as_bytes);
        [(); 3].map(|()| parts.next().unwrap_or_default())
    }
}
