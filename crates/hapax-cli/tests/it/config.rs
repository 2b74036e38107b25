//! Settings: which of them count, and whose file is believed.

use crate::sandbox::{Ran, Sandbox, is_root};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The namespace that a command runs in.
fn namespace(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> String {
    let key = format!("k{}", fs::read_dir(sandbox.path("")).unwrap().count());
    let mut command = sandbox
        .sh_command(&[&["once", &key, "--fingerprint", "none"], args].concat(), "echo $HAPAX_NAMESPACE");
    Ran::of(command.envs(env.iter().copied()).output().unwrap()).exits(0).stdout.trim().to_owned()
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let sandbox = Sandbox::new();
    assert_eq!(namespace(&sandbox, &[], &[]), "default");
    let file = sandbox.write("hapax.toml", "namespace = 'of-file'\n");
    mode(&file, 0o644);
    assert_eq!(namespace(&sandbox, &[], &[]), "of-file");
    assert_eq!(namespace(&sandbox, &[], &[("HAPAX_NAMESPACE", "of-env")]), "of-env");
    assert_eq!(namespace(&sandbox, &[], &[("HAPAX_NAMESPACE", "")]), "of-file");
    assert_eq!(namespace(&sandbox, &["--namespace", "of-flag"], &[("HAPAX_NAMESPACE", "of-env")]), "of-flag");
}

#[test]
fn the_store_is_where_the_settings_say() {
    let sandbox = Sandbox::new();
    let once = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = sandbox.sh_command(&[&["once", "k"], args].concat(), "exit 0");
        Ran::of(command.envs(env.iter().copied()).output().unwrap()).exits(0)
    };
    once(&[], &[]);
    assert!(sandbox.database().exists());
    once(&["--store", "sqlite:flag.db"], &[("HAPAX_STORE", "sqlite:env.db")]);
    assert!(sandbox.path("flag.db").exists() && !sandbox.path("env.db").exists());
    once(&[], &[("HAPAX_STORE", "sqlite:env.db")]);
    assert!(sandbox.path("env.db").exists());
    fs::create_dir(sandbox.path("etc")).unwrap();
    let file = sandbox.write("etc/app.toml", "store = 'sqlite:state.db'\n");
    once(&["--config", file.to_str().unwrap()], &[]);
    assert!(sandbox.path("etc/state.db").exists());
    once(&[], &[("HAPAX_CONFIG", "etc/app.toml")]).says("replayed");
}

#[test]
fn an_empty_variable_is_no_store() {
    let sandbox = Sandbox::new();
    let once = |args: &[&str]| {
        let mut command = sandbox.sh_command(&[&["once", "k"], args].concat(), "echo x > ran");
        Ran::of(command.env("HAPAX_STORE", "").output().unwrap())
    };
    once(&[]).exits(2).says("HAPAX_STORE is empty");
    assert!(!sandbox.path("ran").exists() && !sandbox.database().exists());
    // A flag beats it.
    once(&["--store", "sqlite:flag.db"]).exits(0);
}

#[test]
fn other_empty_variables_count_as_unset() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("hapax.toml", "namespace = 'of-file'\n");
    mode(&file, 0o600);
    let empty = [("HAPAX_CONFIG", ""), ("HAPAX_NAMESPACE", ""), ("HAPAX_LOG", "")];
    assert_eq!(namespace(&sandbox, &[], &empty), "of-file");
    assert_eq!(namespace(&sandbox, &["--config", "/dev/null"], &empty), "default");
    let help = sandbox.hapax(&["--help"]).exits(0).stdout;
    assert!(help.contains("An empty variable counts as unset; an empty HAPAX_STORE is refused."), "{help}");
}

#[test]
fn the_default_store_is_private() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&sandbox.database()), mode(sandbox.database().parent().unwrap())), (0o600, 0o700));
    // Without the variable it is under the home; without either there is no place for it.
    let mut command = sandbox.sh_command(&["once", "k"], "exit 0");
    Ran::of(command.env_remove("XDG_DATA_HOME").output().unwrap()).exits(0);
    assert!(sandbox.path("home/.local/share/hapax/hapax.db").exists());
    let mut command = sandbox.sh_command(&["once", "k"], "exit 0");
    command.env("XDG_DATA_HOME", "relative").env_remove("HOME");
    Ran::of(command.output().unwrap()).exits(2).says("--store sqlite:PATH");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_not_another_store() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("hapax.toml"), b"store = 'sqlite:\xff.db'\n").unwrap();
    mode(&sandbox.path("hapax.toml"), 0o600);
    let refused = sandbox.hapax(&["lock", "run", "k", "--", "touch", "ran"]).exits(2);
    refused.says("hapax.toml in this folder cannot be read").says("--config");
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn a_file_that_others_may_write_is_not_used() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("hapax.toml", "namespace = 'of-file'\n");
    for open in [0o666, 0o664, 0o602] {
        mode(&file, open);
        assert_eq!(namespace(&sandbox, &[], &[]), "default", "{open:o}");
        sandbox.hapax(&["keys", "list"]).exits(0).says("hapax.toml is not used: others may write to it");
        // Asked for no notes, it says so all the same: keys go elsewhere.
        sandbox
            .hapax(&["keys", "list", "-q"])
            .exits(0)
            .says("warning: hapax.toml")
            .says("chmod go-w hapax.toml");
    }
    // Named on the command line, it is the caller's own choice.
    assert_eq!(namespace(&sandbox, &["--config", "hapax.toml"], &[]), "of-file");
    mode(&file, 0o600);
    assert_eq!(namespace(&sandbox, &[], &[]), "of-file");
}

#[test]
fn a_file_of_another_user_is_not_used() {
    if !is_root() {
        // Only root can give a file away; the rule is the same for everyone.
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.write("hapax.toml", "namespace = 'of-file'\n");
    mode(&file, 0o644);
    std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
    assert_eq!(namespace(&sandbox, &[], &[]), "default");
    sandbox.hapax(&["keys", "list"]).exits(0).says("belongs to another user");
    // Neither is one that another user's link leads to.
    let own = sandbox.write("own.toml", "namespace = 'of-file'\n");
    mode(&own, 0o644);
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&own, &file).unwrap();
    assert_eq!(namespace(&sandbox, &[], &[]), "of-file");
    std::os::unix::fs::lchown(&file, Some(12_345), None).unwrap();
    assert_eq!(namespace(&sandbox, &[], &[]), "default");
}

#[test]
fn what_is_no_file_is_not_used() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("hapax.toml")).unwrap();
    mode(&sandbox.path("hapax.toml"), 0o755);
    sandbox.hapax(&["keys", "list"]).exits(0).says("no file");
}

#[test]
fn wrong_settings_are_refused_and_nothing_is_run() {
    let sandbox = Sandbox::new();
    let config = |text: &str| {
        let file = sandbox.write("hapax.toml", text);
        mode(&file, 0o600);
        sandbox.sh(&["once", "k"], "echo x > ran").exits(2)
    };
    config("stroe = 'sqlite:a.db'\n").says("did you mean `store`?");
    config("token = 'x'\n").says("no setting `token`");
    config("namespace = 5\n").says("quotes");
    let ran = config("namespace = 'x'\nstore = redis://:secret@h\n").says("line 2");
    assert!(!ran.stderr.contains("secret"), "{ran:?}");
    assert!(!sandbox.path("ran").exists());
    sandbox.sh(&["once", "k", "--config", "nowhere.toml"], "exit 0").exits(2).says("nowhere.toml");
    let object = sandbox.hapax(&["keys", "list", "--config", "nowhere.toml", "--json"]).exits(2).json();
    assert_eq!(object["error"]["code"], "command.config");
}
