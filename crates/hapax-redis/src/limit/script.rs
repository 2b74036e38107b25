//! The scripts of limits: each knows all algorithms, because a decision may be over several.

use crate::script::Script;

macro_rules! part {
    ($file:literal) => {
        include_str!(concat!("../scripts/limit/", $file, ".lua"))
    };
}

macro_rules! script {
    ($name:ident, $flags:literal, $($usual:literal,)? [$own:literal]) => {
        pub(super) static $name: Script = Script::new(
            $flags,
            concat!(
                $(part!($usual),)?
                include_str!("../scripts/now.lua"),
                part!("common"),
                part!("fixed_window"),
                part!("sliding_window"),
                part!("sliding_counter"),
                part!("token_bucket"),
                part!("algorithms"),
                part!($own),
            ),
        );
    };
}

script!(DECIDE, "#!lua\n", "decide_usual", ["decide"]);
script!(LOOK, "#!lua flags=no-writes\n", "decide_usual", ["decide"]);
script!(GIVE_BACK, "#!lua flags=allow-oom\n", ["give_back"]);
