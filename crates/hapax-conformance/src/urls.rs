//! Whether the URLs of a driver are as its help says.

use hapax_core::{BackendUrl, StoreResult, url::UrlOption};

/// Reads `url` in many ways, and says what of the list of its options is not so: a default that is none, a word that is
/// refused, nonsense that is let through. `read` parses a URL, as the driver does, and answers how the result shows itself.
pub fn untrue_options(
    url: &str,
    options: &[UrlOption],
    read: impl Fn(&BackendUrl) -> StoreResult<String>,
) -> Vec<String> {
    let read = |option: Option<(&str, &str)>| {
        let query = option.map_or_else(String::new, |(name, value)| format!("?{name}={value}"));
        read(&BackendUrl::parse(&format!("{url}{query}"))?)
    };
    let mut wrong = Vec::new();
    let plain = read(None).map_err(|error| wrong.push(error.to_string())).unwrap_or_default();
    for option in options {
        let name = option.name;
        if let Some(default) = option.default {
            match read(Some((name, default))) {
                Ok(shown) if shown == plain => {}
                Ok(shown) => wrong.push(format!("`{name}={default}` is not what counts without it: {shown}")),
                Err(error) => wrong.push(format!("the default of `{name}` is refused: {error}")),
            }
        }
        for word in option.words() {
            if let Err(error) = read(Some((name, word))) {
                wrong.push(format!("`{name}={word}` is refused: {error}"));
            }
        }
        let takes_anything = matches!(option.value, "TEXT" | "FILE");
        if !takes_anything && read(Some((name, "§"))).is_ok() {
            wrong.push(format!("`{name}` takes {}, and yet anything", option.value));
        }
    }
    if read(Some(("nonsense", "1"))).is_ok() {
        wrong.push("an option that is not in the list is let through".to_owned());
    }
    wrong
}
