//! The scripts of locks.

use crate::script::Script;

macro_rules! part {
    ($file:literal) => {
        include_str!(concat!("../scripts/lock/", $file, ".lua"))
    };
}

macro_rules! script {
    ($name:ident, $flags:literal, $($usual:literal,)? [$own:literal]) => {
        pub(super) static $name: Script = Script::new(
            $flags,
            concat!($(part!($usual),)? include_str!("../scripts/now.lua"), part!("common"), part!($own)),
        );
    };
}

// A server whose memory is full refuses new locks. What keeps one, or gives it back, must still go through.
script!(ACQUIRE, "#!lua\n", "acquire_usual", ["acquire"]);
script!(EXTEND, "#!lua flags=allow-oom\n", ["extend"]);
script!(RELEASE, "#!lua flags=allow-oom\n", "release_usual", ["release"]);
script!(SHOW, "#!lua flags=no-writes\n", ["show"]);
script!(BREAK, "#!lua flags=allow-oom\n", ["break"]);
script!(SEED, "#!lua\n", ["seed"]);
script!(WANT, "#!lua flags=allow-oom\n", ["want"]);
