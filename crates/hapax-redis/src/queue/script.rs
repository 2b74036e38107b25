//! The scripts of queues.

use crate::script::Script;

macro_rules! part {
    ($file:literal) => {
        include_str!(concat!("../scripts/queue/", $file, ".lua"))
    };
}

// Each has the parts that it needs: a server makes all functions of a script anew for each call.
macro_rules! script {
    ($name:ident, $flags:literal, [$($part:literal),*], $($own:expr),+ $(,)?) => {
        pub(super) static $name: Script = Script::new(
            $flags,
            concat!(include_str!("../scripts/now.lua"), part!("common"), $(part!($part),)* $($own),+),
        );
    };
}

// A server whose memory is full refuses new jobs. What ends one, puts it off, or takes it back, must still go through.
script!(ADD, "#!lua\n", ["story", "places", "ended"], part!("add"));
script!(
    STEP,
    "#!lua flags=allow-oom\n",
    ["facts", "story", "over", "room"],
    "local complete_keys\n",
    part!("step"),
);
script!(
    JOINT,
    "#!lua flags=allow-oom\n",
    ["facts", "story", "over", "room"],
    "local function complete_keys(KEYS, ARGV)\n",
    include_str!("../scripts/complete_usual.lua"),
    include_str!("../scripts/common.lua"),
    include_str!("../scripts/complete.lua"),
    "end\n",
    part!("step"),
);
script!(BEAT, "#!lua flags=allow-oom\n", ["facts", "story", "over", "back"], part!("beat"));
script!(GIVE_BACK, "#!lua flags=allow-oom\n", ["facts", "story", "over", "back"], part!("give_back"));
script!(LOOK, "#!lua flags=allow-oom\n", ["room"], part!("look"));
script!(SUBSCRIBE, "#!lua\n", [], part!("subscribe"));
script!(UNSUBSCRIBE, "#!lua flags=allow-oom\n", [], part!("unsubscribe"));
script!(CLEAR, "#!lua flags=allow-oom\n", ["facts", "story", "over"], part!("clear"));
script!(FIND, "#!lua flags=no-writes\n", ["places", "meant", "runs"], part!("find"));
script!(LIST, "#!lua flags=no-writes\n", [], part!("list"));
script!(BOOKS, "#!lua flags=no-writes\n", [], part!("books"));
script!(EVENTS, "#!lua flags=no-writes\n", [], part!("events"));
script!(STATS, "#!lua flags=no-writes\n", [], part!("stats"));
script!(
    CANCEL,
    "#!lua flags=allow-oom\n",
    ["facts", "story", "over", "places", "meant", "runs"],
    part!("cancel")
);
script!(RESCHEDULE, "#!lua\n", ["facts", "story", "places", "meant"], part!("reschedule"));
script!(PAUSE, "#!lua flags=allow-oom\n", [], part!("pause"));
script!(LIMITS, "#!lua\n", [], part!("limits"));
script!(REDRIVE, "#!lua flags=allow-oom\n", ["facts", "story", "over", "places"], part!("redrive"));
script!(EDIT, "#!lua\n", ["facts", "story", "over", "places"], part!("edit"));
script!(DROP_DEAD, "#!lua flags=allow-oom\n", ["facts", "story", "over", "places"], part!("drop_dead"));
script!(PRUNE, "#!lua flags=allow-oom\n", ["ended"], part!("prune"));
pub(super) static PUT_SCHEDULE: Script = Script::new("#!lua\n", part!("put_schedule"));
pub(super) static REMOVE_SCHEDULE: Script = Script::new("#!lua flags=allow-oom\n", part!("remove_schedule"));
pub(super) static ADVANCE_SCHEDULE: Script =
    Script::new("#!lua flags=allow-oom\n", part!("advance_schedule"));
