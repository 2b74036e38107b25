//! What a program reads and writes.

use super::{
    LIMIT, command,
    driver::Driver,
    product::{Exit, Input, Output},
    run, sh, text, until,
};
use bytes::Bytes;
use std::{
    fs,
    io::{PipeReader, Read, pipe},
    process::Child,
    time::Duration,
};

#[tokio::test]
async fn stdin_is_the_bytes_given() {
    let mut spec = command("cat", &[]);
    // More than a pipe holds.
    let payload = Bytes::from("0123456789abcde\n".repeat(20_000));
    spec.stdin = Input::Bytes(payload.clone());
    spec.output = Output::Record { limit: 1 << 20 };
    assert_eq!(run(spec).await.unwrap().stdout.head, payload);
}

#[tokio::test]
async fn stdin_need_not_be_read() {
    let mut spec = sh("exit 4");
    spec.stdin = Input::Bytes(Bytes::from(vec![b'x'; 1 << 20]));
    assert_eq!(run(spec).await.unwrap().exit, Exit::Code(4));
}

#[tokio::test]
async fn stdin_can_be_empty() {
    assert_eq!(run(command("wc", &["-c"])).await.unwrap().stdout.head, b"0\n");
}

#[tokio::test]
async fn streams_are_recorded_apart() {
    let ended = run(sh("echo out; echo err >&2")).await.unwrap();
    assert_eq!((text(&ended.stdout.head), text(&ended.stderr.head)), ("out\n", "err\n"));
    assert!(!ended.stdout.is_cut());
}

#[tokio::test]
async fn long_output_is_cut_and_counted() {
    let ended = run(sh("head -c 10000000 /dev/zero; echo end >&2")).await.unwrap();
    assert_eq!((ended.exit, ended.stdout.total, ended.stdout.head.len()), (Exit::Code(0), 10_000_000, LIMIT));
    assert!(ended.stdout.is_cut());
    assert_eq!(text(&ended.stderr.head), "end\n");
}

#[tokio::test]
async fn what_a_child_writes_at_once_belongs_to_the_output() {
    let ended =
        run(sh("(echo child; exec sleep 1000 >/dev/null 2>&1) & wait_for=$!; sleep 0.05; kill $wait_for"))
            .await;
    assert_eq!(text(&ended.unwrap().stdout.head), "child\n");
}

const LONG: Duration = Duration::from_mins(10);

/// Starts the driver with a pipe as its stdout, and reads that up to some text.
fn read_until(driver: &Driver, wanted: &str) -> (Child, PipeReader) {
    let (mut from, to) = pipe().unwrap();
    let owner = driver.command().stdout(to).spawn().unwrap();
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(wanted.as_bytes()) {
        from.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
    (owner, from)
}

#[tokio::test]
async fn output_is_copied_as_it_comes() {
    let driver = Driver::new("echo first; until [ -e $DIR/go ]; do sleep 0.01; done; echo second", LONG);
    let (mut owner, mut from) = read_until(&driver, "first\n");
    fs::write(driver.file("go"), "").unwrap();
    let mut rest = String::new();
    from.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("second\n"), "{rest}");
    assert!(owner.wait().unwrap().success());
}

#[tokio::test]
async fn closed_stdout_ends_the_output_and_not_the_work() {
    let script = "echo first; until [ -e $DIR/go ]; do sleep 0.01; done; head -c 1000000 /dev/zero && echo 1 > $DIR/done";
    let driver = Driver::new(script, LONG);
    let (mut owner, from) = read_until(&driver, "first\n");
    drop(from);
    fs::write(driver.file("go"), "").unwrap();
    until(|| driver.result().is_some()).await;
    assert_eq!(driver.result().unwrap(), "Code(0) None None");
    assert_eq!((driver.number("done"), driver.number("ended")), (Some(1), Some(1_000_006)));
    owner.wait().unwrap();
}

#[tokio::test]
async fn reader_that_does_not_read_does_not_hold_up_the_outcome() {
    // More than the pipe behind our stdout holds, and less than that and the command's own.
    let driver = Driver::new("echo first; head -c 100000 /dev/zero; echo last", LONG);
    let (mut owner, mut from) = read_until(&driver, "first\n");
    until(|| driver.number("ended") == Some(100_011)).await;
    assert_eq!(driver.result(), None);
    let mut rest = Vec::new();
    from.read_to_end(&mut rest).unwrap();
    assert!(rest.windows(5).any(|window| window == b"last\n"));
    assert!(owner.wait().unwrap().success());
}

#[tokio::test]
async fn command_waits_for_a_reader_that_does_not_read() {
    let driver = Driver::new("echo first; head -c 10000000 /dev/zero; echo last", LONG);
    let (mut owner, mut from) = read_until(&driver, "first\n");
    let (mut zeros, mut buffer) = (0, [0; 4096]);
    while zeros < 1_000_000 {
        zeros += from.read(&mut buffer).unwrap();
    }
    // It cannot be further than what all the pipes and buffers between us hold.
    assert_eq!(driver.number("ended"), None);
    let mut rest = Vec::new();
    from.read_to_end(&mut rest).unwrap();
    assert!(rest.windows(5).any(|window| window == b"last\n"));
    assert!(owner.wait().unwrap().success());
}

#[tokio::test]
async fn untouched_output_is_the_very_same_file() {
    let script = "link=$(readlink /proc/$$/fd/1); echo $link > $DIR/link";
    let (untouched, copied) = (Driver::new(script, LONG).untouched(), Driver::new(script, LONG));
    for driver in [&untouched, &copied] {
        let out = fs::File::create(driver.file("out")).unwrap();
        assert!(driver.command().stdout(out).status().unwrap().success());
    }
    let link = |driver: &Driver| fs::read_to_string(driver.file("link")).unwrap();
    assert_eq!(link(&untouched).trim(), untouched.file("out").to_str().unwrap());
    assert!(link(&copied).starts_with("pipe:"));
}
