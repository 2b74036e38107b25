//! Lines of a JSON Lines file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hapax_mail::fuzz::line(bytes));
