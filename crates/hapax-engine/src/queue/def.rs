//! A queue as a program names it.

use hapax_core::BoxError;
use std::{fmt, marker::PhantomData};

/// A queue's name, the type of its payloads, and how they are checked. Put it in a `static`.
pub struct QueueDef<T: 'static> {
    name: &'static str,
    parse: Option<fn(T) -> Result<T, BoxError>>,
    payload: PhantomData<fn() -> T>,
}

impl<T: 'static> QueueDef<T> {
    /// A queue of this name: 1 to 200 bytes, any characters. A wrong name does not compile in a `static`.
    ///
    /// # Panics
    /// When the name is empty or longer, at compile time where it stands in a `static` or `const`.
    pub const fn new(name: &'static str) -> Self {
        assert!(!name.is_empty() && name.len() <= 200, "a queue's name has 1 to 200 bytes");
        Self { name, parse: None, payload: PhantomData }
    }

    /// Checks, and may normalise, each payload: before it is added, and after it is taken. A taken one that fails goes to the
    /// dead letters with its bytes.
    #[must_use]
    pub const fn parse(self, parse: fn(T) -> Result<T, BoxError>) -> Self {
        Self { parse: Some(parse), ..self }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn checked(&self, payload: T) -> Result<T, BoxError> {
        match self.parse {
            Some(parse) => parse(payload),
            None => Ok(payload),
        }
    }

    pub(super) const fn has_schema(&self) -> bool {
        self.parse.is_some()
    }
}

impl<T> fmt::Debug for QueueDef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueueDef").field(&self.name).finish()
    }
}
