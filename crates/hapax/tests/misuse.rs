//! What the compiler says to programs that are wrong on purpose: the messages are a part of the surface, and kept.
//! Programs that are right are tests of the usual kind, in `it/send.rs` and `it/users.rs`: with these here alone, the
//! crates below are checked and not built.
//!
//! `TRYBUILD=overwrite cargo test -p hapax --test misuse` writes them anew.

#[test]
fn compiler_explains_misuse() {
    let programs = trybuild::TestCases::new();
    programs.compile_fail("tests/misuse/*.rs");
}
