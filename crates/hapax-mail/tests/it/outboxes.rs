//! Mails as files.

use crate::{
    kit::{Kit, code, keyed, other},
    support::plain,
};
use hapax_core::{Clock, ManualClock, SystemClock};
use hapax_mail::{
    Commit, IdempotencyTransport, MailCategory, Mailer, Message, OnUnknown, Outbox, Outcome, RawMessage,
    Receipt, SendContext, Transport,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

fn folder() -> (tempfile::TempDir, PathBuf, Outbox) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("deep/er/outbox");
    let outbox = Outbox::new(&dir);
    (parent, dir, outbox)
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

async fn send(outbox: &Outbox, message: &Message) -> Receipt {
    outbox.send(message, &SendContext::default()).await
}

#[tokio::test]
async fn mail_becomes_a_file_with_its_bytes_alone() {
    let (_parent, dir, outbox) = folder();
    let message = plain().bcc("hidden@example.com").idempotency_key("k").build().unwrap();
    let receipt = send(&outbox, &message).await;
    assert!(receipt.is_accepted() && !receipt.deduplicated);
    assert_eq!(receipt.accepted, ["ada@example.com", "hidden@example.com"]);
    assert_eq!((&*receipt.provider, receipt.attempts.len()), ("file", 1));
    let path = outbox.path_of(&receipt).unwrap();
    assert_eq!(names(&dir), BTreeSet::from([path.file_name().unwrap().to_str().unwrap().to_owned()]));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("Subject: Welcome\r\n") && text.ends_with("\r\n"));
    assert!(text.contains(&format!("Message-ID: {}\r\n", receipt.message_id)));
    assert!(!text.contains("hidden@"));
    assert!(!text.lines().any(|line| line.starts_with("X-")));
    assert_eq!(path.file_stem().unwrap().len(), 64);
}

#[tokio::test]
async fn same_mail_is_in_the_folder_once_and_its_bytes_are_not_touched() {
    let (_parent, dir, outbox) = folder();
    let first = send(&outbox, &keyed("k")).await;
    let path = outbox.path_of(&first).unwrap();
    let (bytes, changed) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    let second = send(&outbox, &keyed("k")).await;
    assert!(second.is_accepted() && second.deduplicated);
    assert_eq!(second.provider_id, first.provider_id);
    assert_eq!(
        (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()),
        (bytes, changed)
    );
    assert_eq!(names(&dir).len(), 1);
    // Another key or another message is another mail.
    assert!(!send(&outbox, &keyed("j")).await.deduplicated);
    assert!(!send(&outbox, &other("k")).await.deduplicated);
    assert_eq!(names(&dir).len(), 3);
}

#[tokio::test]
async fn mails_without_a_key_are_all_kept() {
    let (_parent, dir, outbox) = folder();
    let message = plain().build().unwrap();
    for _ in 0..3 {
        assert!(!send(&outbox, &message).await.deduplicated);
    }
    assert_eq!(names(&dir).len(), 3);
}

#[tokio::test]
async fn namespace_and_scope_are_part_of_the_name() {
    let (_parent, dir, outbox) = folder();
    let kit = Kit::new();
    let transport = IdempotencyTransport::new(outbox.clone()).with_idempotency(&kit.idem);
    let elsewhere = transport.clone().with_idempotency(&kit.idem.with_namespace("elsewhere"));
    let _ = transport.send(&keyed("k")).await;
    let _ = transport.clone().with_scope("mail").send(&keyed("k")).await;
    let _ = elsewhere.send(&keyed("k")).await;
    assert_eq!(names(&dir).len(), 3);
    // When the store has forgotten, the folder has not.
    let forgotten = IdempotencyTransport::new(outbox).with_idempotency(&Kit::new().idem);
    assert!(forgotten.send(&keyed("k")).await.deduplicated);
    assert_eq!(names(&dir).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sends_of_one_mail_at_once_leave_one_file() {
    let (_parent, dir, outbox) = folder();
    let second = Outbox::new(&dir);
    let sends = (0..32).map(|i| {
        let outbox = if i % 2 == 0 { outbox.clone() } else { second.clone() };
        tokio::spawn(async move { send(&outbox, &keyed("k")).await })
    });
    let receipts = futures_util::future::join_all(sends).await;
    let fresh = receipts.iter().filter(|r| !r.as_ref().unwrap().deduplicated).count();
    assert!(receipts.iter().all(|r| r.as_ref().unwrap().is_accepted()));
    assert_eq!(fresh, 1);
    assert_eq!(names(&dir).len(), 1, "{:?}", names(&dir));
}

#[tokio::test]
async fn files_that_dead_processes_left_are_removed_after_an_hour() {
    let (_parent, dir, outbox) = folder();
    fs::create_dir_all(&dir).unwrap();
    let now =
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(SystemClock.now().as_millis()).unwrap());
    for (name, age) in [
        (".hapax-0123.tmp", Duration::from_mins(61)),
        (".hapax-4567.tmp", Duration::from_mins(59)),
        (".hapax-89ab.other", Duration::from_hours(9)),
        (".somebody.tmp", Duration::from_hours(9)),
        ("visible.tmp", Duration::from_hours(9)),
        ("old.eml", Duration::from_hours(9)),
    ] {
        let file = fs::File::create(dir.join(name)).unwrap();
        file.set_modified(now - age).unwrap();
    }
    let receipt = send(&outbox, &keyed("k")).await;
    let mut expected: BTreeSet<_> =
        [".hapax-4567.tmp", ".hapax-89ab.other", ".somebody.tmp", "visible.tmp", "old.eml"]
            .map(ToOwned::to_owned)
            .into();
    expected.insert(receipt.provider_id.unwrap());
    assert_eq!(names(&dir), expected);
}

#[tokio::test]
async fn no_hidden_file_stays_behind() {
    let (_parent, dir, outbox) = folder();
    for i in 0..20 {
        let _ = send(&outbox, &keyed(&format!("k:{i}"))).await;
    }
    assert!(names(&dir).iter().all(|name| name.len() == 64 + ".eml".len()));
}

fn failure(receipt: &Receipt) -> (&str, MailCategory, bool) {
    let Outcome::Failed(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    (&failure.code, failure.category, failure.retryable)
}

#[tokio::test]
async fn file_where_the_folder_should_be_is_said_to_be_one() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("outbox"), "").unwrap();
    let receipt = send(&Outbox::new(parent.path().join("outbox")), &keyed("k")).await;
    assert_eq!(failure(&receipt), ("file.not_a_folder", MailCategory::Configuration, false));
    let receipt = send(&Outbox::new(parent.path().join("outbox/below")), &keyed("k")).await;
    assert_eq!(failure(&receipt), ("file.not_a_folder", MailCategory::Configuration, false));
}

#[tokio::test]
async fn something_else_under_the_name_of_the_mail_is_no_delivery() {
    let (_parent, dir, outbox) = folder();
    let name = send(&outbox, &keyed("k")).await.provider_id.unwrap();
    fs::remove_file(dir.join(&name)).unwrap();
    fs::create_dir(dir.join(&name)).unwrap();
    assert_eq!(failure(&send(&outbox, &keyed("k")).await).0, "file.name_taken");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn folder_that_cannot_be_written_fails_for_certain_and_frees_the_key() {
    // A file system that nobody may write, root neither.
    let outbox = Outbox::new("/proc/hapax-outbox");
    let kit = Kit::new();
    let transport = IdempotencyTransport::new(outbox).with_idempotency(&kit.idem).with_scope("mail:stub");
    let receipt = transport.send(&keyed("k")).await;
    assert!(matches!(&receipt.outcome, Outcome::Failed(f) if f.code.starts_with("file.")), "{receipt:?}");
    assert!(kit.record("k").await.is_none());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_fails_for_certain_and_leaves_nothing() {
    // Needs the right to mount; where that is missing there is nothing to show.
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("small");
    fs::create_dir(&dir).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(&dir)
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        eprintln!("not shown: no right to mount a small file system");
        return;
    }
    let outbox = Outbox::new(&dir);
    let big = plain().attach("a.bin", "application/octet-stream", vec![7; 256 * 1024]).idempotency_key("big");
    let receipt = send(&outbox, &big.build().unwrap()).await;
    let small = send(&outbox, &keyed("small")).await;
    let left = names(&dir);
    let _ = std::process::Command::new("umount").arg(&dir).status();
    assert_eq!(failure(&receipt), ("file.disk_full", MailCategory::Service, true));
    assert!(small.is_accepted());
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn folder_that_vanishes_is_made_again() {
    let (_parent, dir, outbox) = folder();
    let _ = send(&outbox, &keyed("a")).await;
    fs::remove_dir_all(&dir).unwrap();
    assert!(send(&outbox, &keyed("b")).await.is_accepted());
    assert_eq!(names(&dir).len(), 1);
}

#[tokio::test]
async fn send_that_is_stopped_before_it_starts_leaves_nothing() {
    let (_parent, dir, outbox) = folder();
    let context = SendContext::default();
    context.cancel.cancel();
    let receipt = outbox.send(&keyed("k"), &context).await;
    assert_eq!(code(&receipt), "mail.cancelled");
    assert!(!context.is_committed() && !dir.exists());
}

#[tokio::test]
async fn commit_flag_is_set_by_the_time_the_mail_is_there() {
    let (_parent, _dir, outbox) = folder();
    let context = SendContext::default();
    assert_eq!(outbox.commit(), Commit::Supported);
    assert!(outbox.send(&keyed("k"), &context).await.is_accepted());
    assert!(context.is_committed());
    let failing = SendContext::default();
    let parent = tempfile::NamedTempFile::new().unwrap();
    let _ = Outbox::new(parent.path()).send(&keyed("k"), &failing).await;
    assert!(!failing.is_committed());
}

#[tokio::test]
async fn raw_mail_is_checked_and_written_as_it_is() {
    let (_parent, dir, outbox) = folder();
    let bytes =
        "Message-ID: <own@example.com>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nSubject: hi\r\n\r\nhi\r\n";
    let raw = RawMessage::new("shop@example.com", ["ada@example.com"], bytes).with_idempotency_key("raw");
    let receipt = outbox.send_raw(&raw, &SendContext::default()).await;
    assert_eq!((&*receipt.message_id, receipt.accepted.len()), ("<own@example.com>", 1));
    assert_eq!(fs::read_to_string(outbox.path_of(&receipt).unwrap()).unwrap(), bytes);
    assert!(outbox.send_raw(&raw, &SendContext::default()).await.deduplicated);
    let shows_bcc =
        RawMessage::new("shop@example.com", ["ada@example.com"], "Bcc: x@example.com\r\n\r\nhi\r\n");
    let receipt = outbox.send_raw(&shows_bcc, &SendContext::default()).await;
    assert_eq!(failure(&receipt), ("message.bcc", MailCategory::Validation, false));
    assert_eq!(names(&dir).len(), 1);
}

#[tokio::test]
async fn batch_of_mails_becomes_a_folder_of_files_once() {
    let (_parent, dir, outbox) = folder();
    let kit = Kit::new();
    let mailer =
        Mailer::via(outbox).idempotent(&kit.idem).on_unknown(OnUnknown::RetryIfDeduped).build().unwrap();
    let messages: Vec<_> = (0..200).map(|i| keyed(&format!("k:{i}"))).collect();
    let receipts = mailer.send_many(&messages).concurrency(8).collect().await;
    assert!(receipts.iter().all(|r| r.is_accepted() && !r.replayed));
    let receipts = mailer.send_many(&messages).concurrency(8).collect().await;
    assert!(receipts.iter().all(|r| r.replayed));
    assert_eq!(names(&dir).len(), 200);
}

#[tokio::test]
async fn date_of_a_mail_is_that_of_its_reservation() {
    let (_parent, _dir, outbox) = folder();
    let kit = Kit::new();
    let transport = IdempotencyTransport::new(
        outbox.clone().with_clock(Arc::new(ManualClock::new().ahead(Duration::from_hours(99)))),
    )
    .with_idempotency(&kit.idem);
    let receipt = transport.send(&keyed("k")).await;
    let text = fs::read_to_string(outbox.path_of(&receipt).unwrap()).unwrap();
    assert!(text.contains("Date: Thu, 1 Jan 2026 00:00:00 +0000\r\n"), "{text}");
}

#[tokio::test]
async fn a_check_says_what_a_send_would_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("out/box");
    Outbox::new(&place).check().await.unwrap();
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    fs::write(dir.path().join("file"), "").unwrap();
    let failed = Outbox::new(dir.path().join("file/box")).check().await.unwrap_err();
    assert_eq!((&*failed.code, failed.category), ("file.not_a_folder", MailCategory::Configuration));
}
