//! Attachments in files: looked at first, read later.

use crate::support::faults;
use hapax_mail::{Message, MessageJson, Stamp};
use std::{
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

fn line(path: &str) -> MessageJson {
    let line = format!(
        r#"{{"from":"shop@example.com","to":"ada@example.com","text":"hi","attachments":[{{"base64":"aGk=","filename":"in.txt"}},{{"path":"{path}"}}]}}"#
    );
    Message::from_json_line(&line).unwrap()
}

#[test]
fn file_is_read_and_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("terms.pdf"), b"%PDF").unwrap();
    let json = line("terms.pdf");
    assert!(json.has_files());
    assert!(json.message().attachments()[1].bytes().is_empty());
    let stamp = json.inspect(folder.path()).unwrap();
    let message = json.load(folder.path(), Some(stamp)).unwrap();
    assert_eq!(message.attachments()[1].filename(), Some("terms.pdf"));
    assert_eq!(message.attachments()[1].content_type(), "application/pdf");
    assert_eq!(&message.attachments()[1].bytes()[..], b"%PDF");
    assert_eq!(&message.attachments()[0].bytes()[..], b"hi");
}

#[test]
fn what_cannot_be_read_is_found_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    let look = |path: &str| line(path).inspect(folder.path());
    assert_eq!(faults(look("missing")), ["attachments[1].path message.attachment_unreadable"]);
    assert_eq!(faults(look("folder")), ["attachments[1].path message.attachment_unreadable"]);
    assert_eq!(look("missing").unwrap_err().faults[0].reason, "the file does not exist");
    assert_eq!(look("folder").unwrap_err().faults[0].reason, "it is a directory");
    assert_eq!(
        faults(line("missing").load(folder.path(), None)),
        ["attachments[1].path message.attachment_unreadable"]
    );
}

#[cfg(unix)]
#[test]
fn pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    assert_eq!(line("pipe").inspect(folder.path()).unwrap_err().faults[0].reason, "it is no regular file");
}

/// The file as it is after `change`, with the stamp from before.
fn after(change: impl FnOnce(&Path)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, b"one").unwrap();
    let stamp = line("a.txt").inspect(folder.path()).unwrap();
    change(&path);
    faults(line("a.txt").load(folder.path(), Some(stamp)))
}

#[test]
fn change_between_check_and_send_is_found() {
    assert_eq!(after(|_| {}), [""; 0]);
    assert_eq!(after(|path| fs::write(path, b"longer").unwrap()), [" message.changed"]);
    let later = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    assert_eq!(
        after(|path| fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap()),
        [" message.changed"]
    );
    assert_eq!(
        after(|path| fs::remove_file(path).unwrap()),
        ["attachments[1].path message.attachment_unreadable"]
    );
}

#[cfg(unix)]
#[test]
fn file_put_in_its_place_with_the_same_size_and_time_is_found() {
    let result = after(|path| {
        let time = fs::metadata(path).unwrap().modified().unwrap();
        let other = path.with_extension("new");
        fs::write(&other, b"two").unwrap();
        fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        fs::rename(&other, path).unwrap();
    });
    assert_eq!(result, [" message.changed"]);
}

#[test]
fn changed_line_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), b"one").unwrap();
    fs::write(folder.path().join("b.txt"), b"one").unwrap();
    let stamp = line("a.txt").inspect(folder.path()).unwrap();
    assert_eq!(Stamp::from_bytes(stamp.to_bytes()), stamp);
    assert_eq!(faults(line("b.txt").load(folder.path(), Some(stamp))), [" message.changed"]);
}

#[test]
fn files_count_for_the_size() {
    let folder = tempfile::tempdir().unwrap();
    // Sparse: it takes no room.
    fs::File::create(folder.path().join("big.bin")).unwrap().set_len(41 * 1024 * 1024).unwrap();
    assert_eq!(faults(line("big.bin").inspect(folder.path())), ["attachments message.size"]);
    assert_eq!(faults(line("big.bin").load(folder.path(), None)), ["attachments message.size"]);
}

#[test]
fn attached_mail_is_checked_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.eml"), "Subject: ü\n\n").unwrap();
    let line = r#"{"from":"a@example.com","to":"b@example.com","text":"x","attachments":[{"path":"a.eml","content_type":"message/rfc822"}]}"#;
    let json = Message::from_json_line(line).unwrap();
    assert_eq!(faults(json.load(folder.path(), None)), ["attachments[0] message.attachment"]);
}

#[test]
fn line_without_files_needs_no_folder() {
    let json =
        Message::from_json_line(r#"{"from":"a@example.com","to":"b@example.com","text":"x"}"#).unwrap();
    let nowhere = Path::new("/nonexistent");
    let stamp = json.inspect(nowhere).unwrap();
    assert!(!json.has_files());
    json.load(nowhere, Some(stamp)).unwrap();
}
