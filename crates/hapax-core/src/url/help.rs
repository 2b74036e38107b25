//! What the URLs of a store look like: said once, for the driver that reads them and for whoever writes one.

/// The URLs of a driver, for people.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UrlHelp {
    /// Each form, and what it leads to.
    pub forms: &'static [(&'static str, &'static str)],
    /// All options: those that [`BackendUrl::allow`](super::BackendUrl::allow) is asked to let through.
    pub options: &'static [UrlOption],
    /// A whole URL.
    pub example: &'static str,
}

impl UrlHelp {
    /// The URLs of a driver.
    pub const fn new(
        forms: &'static [(&'static str, &'static str)],
        options: &'static [UrlOption],
        example: &'static str,
    ) -> Self {
        Self { forms, options, example }
    }
}

/// An option of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlOption {
    /// Its name.
    pub name: &'static str,
    /// What it takes: one of several words, `on|off`, or a kind in capitals, `DURATION`.
    pub value: &'static str,
    /// What counts where it is left out, if that can be written.
    pub default: Option<&'static str>,
    /// What it does, in a sentence without a full stop.
    pub meaning: &'static str,
}

impl UrlOption {
    /// `timeout`, which every store on disk or on a server has.
    pub const TIMEOUT: Self =
        Self::new("timeout", "DURATION", Some("5s"), "Limit of each call, reconnecting and waiting included");

    /// An option.
    pub const fn new(
        name: &'static str,
        value: &'static str,
        default: Option<&'static str>,
        meaning: &'static str,
    ) -> Self {
        Self { name, value, default, meaning }
    }

    /// The words it takes, where it takes no others.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + use<> {
        let is_words = self.value.contains('|');
        self.value.split('|').filter(move |_| is_words)
    }
}
