//! What is particular to locks on Redis. What all stores of locks promise is in the conformance suite.

use crate::support::{at, open, raw, run, span, until};
use hapax_core::{
    Applied, Coded as _, Name, Namespace, StoreErrorKind, Token,
    lock::{
        Acquire, Acquired, Extended, Fence, Grant, Guarded, Holder, ListLocks, LockInfo, LockStore, Write,
    },
};
use hapax_redis::{Guard, RedisLocks};
use hapax_testkit::{Fault, Proxy, redis::Redis};
use redis::{Value, aio::MultiplexedConnection};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

crate::list!("locks", &[];
    a_lock_whose_key_was_deleted_is_lost_to_its_holder,
    a_step_whose_reply_was_lost_is_answered_as_the_first_time,
    a_lock_is_two_commands,
    every_key_of_a_lock_has_an_end,
    who_waits_is_woken_by_the_release,
    a_wait_that_is_dropped_keeps_no_mark_from_others,
    many_who_wait_share_a_question,
    a_wait_ends_with_the_lease,
    who_may_not_ask_for_a_mark_looks_now_and_then,
    a_full_server_refuses_new_locks_and_takes_what_ends_old_ones,
    what_is_no_lock_is_left_alone,
    a_grant_that_too_few_replicas_have_is_none,
    the_listed_commands_are_enough_for_locks,
    a_guard_tells_holders_apart,
    a_guarded_write_whose_reply_was_lost_is_a_repeat,
    a_guard_remembers_no_write_that_failed,
);

const LEASE: Duration = Duration::from_mins(1);

async fn locks(url: &str) -> RedisLocks {
    RedisLocks::of(&Arc::new(open(url).await))
}

fn name(key: &str) -> Name {
    hapax_core::lock::name(&Namespace::default(), key).unwrap()
}

/// Where the lock of [`name`] lies.
fn place(key: &str) -> String {
    format!("hapax{{l7:default4:lock{key}}}")
}

fn acquire(key: &str, lease: Duration) -> Acquire {
    Acquire {
        name: name(key),
        token: Token::random().unwrap(),
        lease: span(lease),
        holder: Holder::new("test"),
    }
}

async fn granted(store: &RedisLocks, req: &Acquire) -> Grant {
    match store.acquire(req).await.unwrap() {
        Acquired::Yours(grant) => grant,
        Acquired::Busy { rest } => panic!("busy for {rest:?}"),
    }
}

/// How often a command came over the wire since the last reset.
async fn calls(probe: &mut MultiplexedConnection, command: &str) -> u64 {
    let stats: String = run(probe, "INFO commandstats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

async fn somebody_waits(server: &Redis) {
    let mut probe = raw(&server.url()).await;
    until("somebody waits", async || {
        run::<String>(&mut probe, "INFO clients").await.contains("blocked_clients:1\r\n")
    })
    .await;
}

async fn a_lock_whose_key_was_deleted_is_lost_to_its_holder() {
    let server = Redis::start();
    let store = locks(&server.url()).await;
    let (first, second) = (acquire("k", LEASE), acquire("k", LEASE));
    let before = granted(&store, &first).await;
    assert_eq!(server.ask(&format!("DEL {}", place("k"))), ":1\r\n");
    let extended = store.extend(&first.name, &first.token, span(LEASE)).await.unwrap();
    assert_eq!(extended, Extended::Fenced);
    assert_eq!(store.release(&first.name, &first.token).await.unwrap(), Write::Fenced);
    let after = granted(&store, &second).await;
    assert!(after.fence > before.fence, "{after:?} after {before:?}");
}

async fn a_step_whose_reply_was_lost_is_answered_as_the_first_time() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = locks(&format!("redis://127.0.0.1:{}?timeout=5s", proxy.port())).await;
    // The server knows the scripts by then: else the first answer is that it does not.
    let warm = acquire("warm", LEASE);
    granted(&store, &warm).await;
    let _ = store.extend(&warm.name, &warm.token, span(LEASE)).await.unwrap();
    let _ = store.release(&warm.name, &warm.token).await.unwrap();
    let req = acquire("k", LEASE);
    proxy.arm(Fault::CutAfter);
    let grant = granted(&store, &req).await;
    assert_eq!(store.show(&req.name).await.unwrap().fence, Some(grant.fence));
    proxy.arm(Fault::CutAfter);
    let extended = store.extend(&req.name, &req.token, span(LEASE * 2)).await.unwrap();
    assert!(matches!(extended, Extended::Until(_)));
    proxy.arm(Fault::CutAfter);
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
    assert_eq!(proxy.happened(), 3);
    // Sent again, a break would meet the next holder.
    let next = acquire("k", LEASE);
    granted(&store, &next).await;
    assert!(store.break_lock(&name("warm")).await.unwrap().is_none());
    proxy.arm(Fault::CutAfter);
    assert_eq!(store.break_lock(&next.name).await.unwrap_err().applied(), Applied::Unknown);
    assert!(store.show(&next.name).await.unwrap().held.is_none());
}

async fn a_lock_is_two_commands() {
    let server = Redis::start();
    let store = locks(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    for key in ["warm", "k"] {
        let () = run(&mut probe, "CONFIG RESETSTAT").await;
        let req = acquire(key, LEASE);
        granted(&store, &req).await;
        assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
    }
    assert_eq!(calls(&mut probe, "evalsha").await, 2);
    // Nobody waited: nothing but the lock was written, and that in place where it was given back.
    let written = [calls(&mut probe, "set").await, calls(&mut probe, "setrange").await];
    assert_eq!((written, calls(&mut probe, "zadd").await), ([1, 1], 0));
}

async fn every_key_of_a_lock_has_an_end() {
    let server = Redis::start();
    let store = locks(&server.url()).await;
    let (held, freed) = (acquire("held", LEASE), acquire("freed", LEASE));
    granted(&store, &held).await;
    granted(&store, &freed).await;
    store.wait(&held.name, Duration::from_millis(30)).await.unwrap();
    store.wait(&freed.name, Duration::from_millis(30)).await.unwrap();
    let _ = store.release(&freed.name, &freed.token).await.unwrap();
    let _ = store.seed_fence(&name("seeded"), Fence::MAX).await.unwrap();
    let mut probe = raw(&server.url()).await;
    let keys: Vec<String> = run(&mut probe, "KEYS hapax{l*").await;
    assert!(keys.len() >= 3, "{keys:?}");
    for key in keys {
        let left: i64 = run(&mut probe, &format!("PTTL {key}")).await;
        assert!(left > 0, "{key}: {left}");
    }
}

async fn who_waits_is_woken_by_the_release() {
    let server = Redis::start();
    let (store, other) = (locks(&server.url()).await, locks(&server.url()).await);
    let req = acquire("k", LEASE);
    granted(&store, &req).await;
    let waits = tokio::spawn(async move { other.wait(&name("k"), LEASE).await.map(|()| Instant::now()) });
    somebody_waits(&server).await;
    let released = Instant::now();
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
    let woken = waits.await.unwrap().unwrap();
    assert!(woken - released < Duration::from_secs(5), "{:?}", woken - released);
    // By the mark, which is gone.
    assert_eq!(server.ask(&format!("EXISTS {}w", place("k"))), ":0\r\n");
    let mut probe = raw(&server.url()).await;
    assert_eq!(calls(&mut probe, "zadd").await, 1);
}

async fn a_wait_that_is_dropped_keeps_no_mark_from_others() {
    let server = Redis::start();
    let (store, gone, other) =
        (locks(&server.url()).await, locks(&server.url()).await, locks(&server.url()).await);
    let req = acquire("k", LEASE);
    granted(&store, &req).await;
    let left = tokio::spawn(async move { gone.wait(&name("k"), LEASE).await });
    somebody_waits(&server).await;
    left.abort();
    let waits = tokio::spawn(async move { other.wait(&name("k"), LEASE).await });
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
    tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap().unwrap().unwrap();
}

async fn many_who_wait_share_a_question() {
    let server = Redis::start();
    let (store, others) = (locks(&server.url()).await, Arc::new(locks(&server.url()).await));
    let req = acquire("k", LEASE);
    granted(&store, &req).await;
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let start = Instant::now();
    let waits = (0..100).map(|_| {
        let others = Arc::clone(&others);
        tokio::spawn(async move { others.wait(&name("k"), LEASE).await })
    });
    let waits: Vec<_> = waits.collect();
    somebody_waits(&server).await;
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
    for wait in waits {
        tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap().unwrap().unwrap();
    }
    let (asked, seconds) = (calls(&mut probe, "bzpopmin").await, start.elapsed().as_secs());
    assert!(asked <= seconds + 2, "{asked} questions in {seconds} s");
}

async fn a_wait_ends_with_the_lease() {
    let server = Redis::start();
    let store = locks(&server.url()).await;
    granted(&store, &acquire("k", Duration::from_millis(300))).await;
    store.wait(&name("k"), LEASE).await.unwrap();
    granted(&store, &acquire("k", LEASE)).await;
}

async fn who_may_not_ask_for_a_mark_looks_now_and_then() {
    let server = Redis::start();
    let user = "ACL SETUSER ada on >pw allkeys +@all -bzpopmin";
    assert!(server.ask(user).starts_with("+OK"));
    let store = locks(&at(&server, "ada:pw")).await;
    let req = acquire("k", LEASE);
    granted(&store, &req).await;
    let other = locks(&at(&server, "ada:pw")).await;
    let waits = tokio::spawn(async move { other.wait(&name("k"), LEASE).await });
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
    tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap().unwrap().unwrap();
}

async fn a_full_server_refuses_new_locks_and_takes_what_ends_old_ones() {
    let server = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
    let store = locks(&server.url()).await;
    let req = acquire("k", LEASE);
    granted(&store, &req).await;
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "CONFIG SET maxmemory 1mb").await;
    let error = store.acquire(&acquire("new", LEASE)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("store.full", Applied::No), "{error}");
    let extended = store.extend(&req.name, &req.token, span(LEASE * 2)).await.unwrap();
    assert!(matches!(extended, Extended::Until(_)));
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
}

async fn what_is_no_lock_is_left_alone() {
    let server = Redis::start();
    let store = locks(&server.url()).await;
    granted(&store, &acquire("sound", LEASE)).await;
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, &format!("SET {} another-programs-text", place("k"))).await;
    let () = run(&mut probe, &format!("LPUSH {} x", place("list"))).await;
    for key in ["k", "list"] {
        let error = store.acquire(&acquire(key, LEASE)).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Corrupt, Applied::No), "{error}");
    }
    let page = store.list(&ListLocks::new(Namespace::default())).await.unwrap();
    let names: Vec<_> = page.locks.iter().map(|(name, _)| name.key()).collect();
    assert_eq!(names, ["sound"]);
    let text: String = run(&mut probe, &format!("GET {}", place("k"))).await;
    assert_eq!(text, "another-programs-text");
}

async fn a_grant_that_too_few_replicas_have_is_none() {
    let server = Redis::start();
    // The server knows the script by then: else half of the time is spent on hearing that it does not.
    granted(&locks(&server.url()).await, &acquire("warm", LEASE)).await;
    let store = locks(&format!("{}?wait_replicas=1&timeout=2s", server.url())).await;
    let req = acquire("k", LEASE);
    let error = store.acquire(&req).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("store.unavailable", Applied::Unknown), "{error}");
    // Whoever gives up can give it back all the same.
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
}

/// As the documentation of the crate lists them.
const COMMANDS: &str = "+get +set +setrange +del +time +evalsha +eval +scan +zadd +pexpire +bzpopmin";

async fn the_listed_commands_are_enough_for_locks() {
    let server = Redis::start();
    let keys = "~hapax{}* ~hapax{l*";
    let user = format!("ACL SETUSER ada on >pw resetkeys {keys} resetchannels -@all {COMMANDS}");
    assert!(server.ask(&user).starts_with("+OK"));
    for more in ["", "?protocol=3", "?commands=6.2"] {
        assert!(server.ask("FLUSHALL").starts_with("+OK"));
        let store = locks(&format!("{}{more}", at(&server, "ada:pw"))).await;
        let req = acquire("k", LEASE);
        let grant = granted(&store, &req).await;
        store.wait(&req.name, Duration::from_millis(100)).await.unwrap();
        let _ = store.extend(&req.name, &req.token, span(LEASE * 2)).await.unwrap();
        assert_eq!(store.list(&ListLocks::new(Namespace::default())).await.unwrap().locks.len(), 1);
        assert_eq!(store.seed_fence(&req.name, grant.fence).await.unwrap(), grant.fence);
        assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
        let free = LockInfo { held: None, fence: Some(grant.fence) };
        assert_eq!(store.show(&req.name).await.unwrap(), free);
        assert!(store.break_lock(&req.name).await.unwrap().is_none());
    }
}

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

fn set(value: &str) -> redis::Cmd {
    let mut set = redis::cmd("SET");
    set.arg("{account}").arg(value);
    set
}

async fn a_guard_tells_holders_apart() {
    let server = Redis::start();
    let mut connection = raw(&server.url()).await;
    let guard = Guard::new("{account}:fence").keep(span(LEASE));
    // Far beyond what a number of the script's language shows by default.
    let last = 1_764_459_377_123_456;
    let mut said = Vec::new();
    for (number, value) in
        [(last, "a"), (last, "b"), (last - 1, "c"), (last + 1, "d"), (last, "e"), (last + 1, "f")]
    {
        let written = guard.write(&mut connection, fence(number), &["{account}"], &set(value)).await;
        said.push(written.unwrap().0);
    }
    let [applied, repeat, stale] = [Guarded::Applied, Guarded::Repeat, Guarded::Stale];
    assert_eq!(said, [applied, repeat, stale, applied, stale, repeat]);
    assert_eq!(run::<String>(&mut connection, "GET {account}").await, "d");
    assert_eq!(run::<u64>(&mut connection, "GET {account}:fence").await, last + 1);
    assert!(run::<i64>(&mut connection, "PTTL {account}:fence").await > 0);
    // What the command says is handed on.
    let mut read = redis::cmd("GET");
    read.arg("{account}");
    let (_, said) = guard.write(&mut connection, Fence::MAX, &["{account}"], &read).await.unwrap();
    assert_eq!(said, Some(Value::BulkString(b"d".to_vec())));
}

async fn a_guarded_write_whose_reply_was_lost_is_a_repeat() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let guard = Guard::new("{account}:fence");
    let mut connection = raw(&format!("redis://127.0.0.1:{}", proxy.port())).await;
    // The server knows the script by then: else the first answer is that it does not.
    let _ = guard.write(&mut connection, fence(1), &["{account}"], &set("a")).await.unwrap();
    proxy.arm(Fault::CutAfter);
    let error = guard.write(&mut connection, fence(2), &["{account}"], &set("b")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    let mut connection = raw(&server.url()).await;
    let again = guard.write(&mut connection, fence(2), &["{account}"], &set("b")).await.unwrap();
    assert_eq!(again, (Guarded::Repeat, None));
    assert_eq!(run::<String>(&mut connection, "GET {account}").await, "b");
}

async fn a_guard_remembers_no_write_that_failed() {
    let server = Redis::start();
    let mut connection = raw(&server.url()).await;
    let guard = Guard::new("{account}:fence");
    let _ = guard.write(&mut connection, fence(1), &["{account}"], &set("a")).await.unwrap();
    let mut push = redis::cmd("LPUSH");
    push.arg("{account}").arg("x");
    let error = guard.write(&mut connection, fence(2), &["{account}"], &push).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Corrupt, Applied::No), "{error}");
    let refused = redis::cmd("NOSUCHCOMMAND");
    let error = guard.write(&mut connection, fence(2), &["{account}"], &refused).await.unwrap_err();
    assert_eq!(error.applied(), Applied::No, "{error}");
    let (written, _) = guard.write(&mut connection, fence(2), &["{account}"], &set("b")).await.unwrap();
    assert_eq!(written, Guarded::Applied);
}
