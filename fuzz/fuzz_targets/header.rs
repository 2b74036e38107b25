//! Header fields, of given mails and of texts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hapax_mail::fuzz::header(bytes));
