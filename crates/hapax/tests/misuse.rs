//! What the compiler says to programs that are wrong on purpose: the messages are a part of the surface, and kept.
//!
//! `TRYBUILD=overwrite cargo test -p hapax --test misuse` writes them anew.

#[test]
fn compiler_explains_misuse() {
    let programs = trybuild::TestCases::new();
    programs.pass("tests/misuse/fine/*.rs");
    programs.compile_fail("tests/misuse/*.rs");
}
