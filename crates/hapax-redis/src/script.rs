//! The scripts: called by their hash, sent whole to a server that does not have them.

use crate::{line::Routed, lines::Request};
use redis::{Arg, Cmd, RedisError};
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

/// One script, for servers that know what stands in its first line, and for those before.
#[derive(Debug)]
pub(crate) struct Script {
    /// From Redis 7 on a first line says what a script may do.
    flags: &'static str,
    text: &'static str,
    forms: OnceLock<[redis::Script; 2]>,
    texts: OnceLock<[String; 2]>,
}

macro_rules! script {
    ($name:ident, $flags:literal, $($file:literal),+) => {
        pub(crate) static $name: Script = Script {
            flags: $flags,
            text: concat!($(include_str!(concat!("scripts/", $file, ".lua"))),+),
            forms: OnceLock::new(),
            texts: OnceLock::new(),
        };
    };
}

// A server whose memory is full refuses new keys. What ends a reservation must still go through: a result that is
// refused is an effect that runs again.
script!(RESERVE, "#!lua\n", "now", "common", "reserve");
script!(COMPLETE, "#!lua flags=allow-oom\n", "complete_usual", "now", "common", "complete");
script!(RELEASE, "#!lua flags=allow-oom\n", "now", "common", "release");
script!(FORCE_RELEASE, "#!lua flags=allow-oom\n", "now", "common", "force_release");
script!(EXTEND, "#!lua flags=allow-oom\n", "now", "common", "extend");
script!(RETAKE_UNKNOWN, "#!lua\n", "now", "common", "retake_unknown");
script!(DROP_UNKNOWN, "#!lua flags=allow-oom\n", "now", "common", "drop_unknown");
script!(RESOLVE, "#!lua flags=allow-oom\n", "now", "common", "resolve");
script!(READ, "#!lua flags=no-writes\n", "now", "common", "read");

impl Script {
    pub(crate) const fn new(flags: &'static str, text: &'static str) -> Self {
        Self { flags, text, forms: OnceLock::new(), texts: OnceLock::new() }
    }

    fn texts(&self) -> &[String; 2] {
        self.texts.get_or_init(|| [format!("{}{}", self.flags, self.text), self.text.to_owned()])
    }

    pub(crate) fn text(&self, only_6_2: bool) -> &str {
        let [with_flags, plain] = self.texts();
        if only_6_2 { plain } else { with_flags }
    }

    pub(crate) fn hash(&self, only_6_2: bool) -> &str {
        let [with_flags, plain] =
            self.forms.get_or_init(|| self.texts().each_ref().map(|text| redis::Script::new(text)));
        if only_6_2 { plain.get_hash() } else { with_flags.get_hash() }
    }
}

/// A call of a script.
pub(crate) struct Eval<'a> {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<Cmd>,
    /// About how many bytes those are.
    bytes: usize,
    form: Form<'a>,
}

/// How a script was sent, and so how to send it once more.
pub(crate) struct Form<'a> {
    only_6_2: &'a AtomicBool,
    was_plain: AtomicBool,
    whole: AtomicBool,
}

impl<'a> Form<'a> {
    pub(crate) fn new(only_6_2: &'a AtomicBool) -> Self {
        Self { only_6_2, was_plain: AtomicBool::new(false), whole: AtomicBool::new(false) }
    }

    /// Whether it has to be a form that Redis 6.2 knows.
    pub(crate) fn is_plain(&self) -> bool {
        let plain = self.only_6_2.load(Ordering::Relaxed);
        self.was_plain.store(plain, Ordering::Relaxed);
        plain
    }

    /// The server is older than was thought. Answers whether that is news to this call.
    pub(crate) fn is_old(&self) -> bool {
        self.only_6_2.store(true, Ordering::Relaxed);
        !self.was_plain.load(Ordering::Relaxed)
    }

    /// With room for so many arguments of so many bytes.
    pub(crate) fn command(&self, script: &'static Script, args: usize, bytes: usize) -> Cmd {
        let plain = self.is_plain();
        let (name, script) = if self.whole.load(Ordering::Relaxed) {
            ("EVAL", script.text(plain))
        } else {
            ("EVALSHA", script.hash(plain))
        };
        let mut cmd = Cmd::with_capacity(args + 3, bytes + script.len() + 16);
        cmd.arg(name).arg(script);
        cmd
    }

    /// Whether the server does not have the script, or does not know its first line.
    pub(crate) fn differently(&self, answer: &RedisError) -> bool {
        if answer.code() == Some("NOSCRIPT") {
            return !self.whole.swap(true, Ordering::Relaxed);
        }
        answer.detail().is_some_and(|detail| detail.contains("compiling script")) && self.is_old()
    }
}

impl<'a> Eval<'a> {
    pub(crate) fn new(script: &'static Script, only_6_2: &'a AtomicBool) -> Self {
        Self { script, keys: Vec::new(), args: Vec::new(), bytes: 0, form: Form::new(only_6_2) }
    }

    /// One more step: its keys, and its arguments, of about so many bytes.
    pub(crate) fn add(&mut self, key: String, more_keys: Vec<String>, args: Cmd, bytes: usize) {
        self.bytes += key.len() + bytes + more_keys.iter().map(String::len).sum::<usize>();
        self.keys.push(key);
        self.keys.extend(more_keys);
        self.args.push(args);
    }

    /// How many steps it has, and so answers.
    pub(crate) fn len(&self) -> usize {
        self.args.len()
    }

    pub(crate) fn first_key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }
}

impl Request for Eval<'_> {
    fn routed(&self, to_cluster: bool) -> Routed {
        let args: usize = self.args.iter().map(|args| args.args_iter().len()).sum();
        let mut cmd = self.form.command(self.script, self.keys.len() + args, self.bytes);
        cmd.arg(self.keys.len()).arg(&self.keys);
        for arg in self.args.iter().flat_map(Cmd::args_iter) {
            if let Arg::Simple(bytes) = arg {
                cmd.arg(bytes);
            }
        }
        Routed::new(to_cluster, self.first_key(), cmd)
    }

    fn differently(&self, answer: &RedisError) -> bool {
        self.form.differently(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_declares_its_keys_and_answers_for_each() {
        for script in [
            &RESERVE,
            &COMPLETE,
            &RELEASE,
            &FORCE_RELEASE,
            &EXTEND,
            &RETAKE_UNKNOWN,
            &DROP_UNKNOWN,
            &RESOLVE,
            &READ,
        ] {
            assert!(script.text.contains("return each("), "{}", script.text);
            assert!(!script.text.contains("cjson"));
            assert_ne!(script.hash(true), script.hash(false));
            assert!(!script.text(true).contains("#!") && script.text(false).starts_with("#!lua"));
        }
    }
}
