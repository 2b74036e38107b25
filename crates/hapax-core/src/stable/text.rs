//! Strings, numbers and their order, as RFC 8785 has them.

use std::{cmp::Ordering, io::Write as _};

use serde::ser::Error as _;

use super::error::{Fault, NoStableReason};

/// Writes `text` as a JSON string, escaping only what JSON requires.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) -> Result<(), Fault> {
    out.push(b'"');
    // What needs an escape is ASCII, so bytes can be looked at without decoding them.
    for part in text.as_bytes().split_inclusive(|byte| needs_escape(*byte)) {
        match part.split_last() {
            Some((last, plain)) if needs_escape(*last) => {
                out.extend_from_slice(plain);
                write_escape(out, *last)?;
            }
            _ => out.extend_from_slice(part),
        }
    }
    out.push(b'"');
    Ok(())
}

fn needs_escape(byte: u8) -> bool {
    matches!(byte, 0..=0x1f | b'"' | b'\\')
}

fn write_escape(out: &mut Vec<u8>, byte: u8) -> Result<(), Fault> {
    let short = match byte {
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        b'"' | b'\\' => byte,
        _ => return write!(out, "\\u{byte:04x}").map_err(Fault::custom),
    };
    out.extend_from_slice(&[b'\\', short]);
    Ok(())
}

/// Writes a float as ECMAScript's `Number::toString` does, which has no negative zero.
pub(super) fn write_f64(out: &mut Vec<u8>, value: f64) -> Result<(), Fault> {
    write_float(out, value, value.is_finite())
}

/// As [`write_f64`], with the shortest digits that tell this `f32` from its neighbours: widened first, 0.1
/// would become 0.10000000149011612.
pub(super) fn write_f32(out: &mut Vec<u8>, value: f32) -> Result<(), Fault> {
    write_float(out, value, value.is_finite())
}

fn write_float<F: ryu_js::Float>(out: &mut Vec<u8>, value: F, finite: bool) -> Result<(), Fault> {
    if !finite {
        return Err(Fault::new(NoStableReason::NotFinite));
    }
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
    Ok(())
}

/// Writes a number that is given as JSON text: an integer keeps its digits, everything else is an `f64`.
pub(super) fn write_number_text(out: &mut Vec<u8>, text: &str) -> Result<(), Fault> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if is_integer && !digits.starts_with('0') {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    match text.parse() {
        Ok(number) => write_f64(out, number),
        Err(_) => Err(Fault::custom(format_args!("`{text}` is no number"))),
    }
}

/// The order of property names. It differs from the order of UTF-8 where a character beyond U+FFFF meets one
/// from U+E000 to U+FFFF.
pub(super) fn name_order(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}
