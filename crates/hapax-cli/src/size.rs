//! Sizes as people write them: `512B`, `64KiB`, `10MB`.

const UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Reads a size in bytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("`{text}` is no size: write 512B, 64KiB or 1MiB"));
    }
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: write {text}B for bytes, {text}KiB or {text}MiB"));
    }
    // `kb`, `kib`: nobody means another unit by them.
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        return Err(format!("`{unit}` is no unit of size: there are B, KiB, MiB, GiB, KB, MB and GB"));
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
    size.ok_or_else(|| format!("`{text}` is too much"))
}

/// Whole binary units where they fit, else decimal ones, rounded.
pub(crate) fn format(bytes: u64) -> String {
    for (name, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10_u64)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{} {name}", bytes / factor);
        }
    }
    for (name, factor) in [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000_u64)] {
        if bytes >= factor {
            let tenths = bytes / (factor / 10);
            return match tenths % 10 {
                0 => format!("{} {name}", tenths / 10),
                tenth => format!("{}.{tenth} {name}", tenths / 10),
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_a_bare_number_is_refused() {
        assert_eq!(parse("64KiB").unwrap(), 65_536);
        assert_eq!(parse("10MB").unwrap(), 10_000_000);
        assert_eq!(parse("0B").unwrap(), 0);
        assert!(parse("64").unwrap_err().contains("write 64B"));
        for text in ["", "KiB", "1.5MiB", "5X", "99999999999GiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_as_they_were_meant() {
        for (bytes, text) in
            [(65_536, "64 KiB"), (10_000_000, "10 MB"), (1_234_567, "1.2 MB"), (999, "999 B"), (0, "0 B")]
        {
            assert_eq!(format(bytes), text);
        }
    }
}
