//! Replies of a mail server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hapax_mail::fuzz::reply(bytes));
