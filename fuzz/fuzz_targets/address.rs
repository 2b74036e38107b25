//! Addresses, one and lists.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hapax_mail::fuzz::address(bytes));
