//! Mails under keys, by a transport that does nothing, beside effects under keys with a result of the same size, in turns.
//!
//! `cargo bench -p hapax --features mail,sqlite,redis,postgres --bench mail [-- STORE]`; without a URL it makes a file of SQLite.
//!
//! | row | what it does |
//! |---|---|
//! | run | `Idempotency::run` with the fingerprint of a mail that was just built, and a result as long as its receipt |
//! | mail | `Mailer::send` |
//! | batches | `Mailer::send_many` of 64 at a time, whose outcomes are known together: two round trips for each |

#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing, reason = "a measurement")]

use futures_util::{StreamExt as _, stream};
use hapax::{
    EffectExt as _, Hapax,
    mail::{Mailer, Message, Receipt, Stub, fingerprint},
};
use std::{convert::Infallible, time::Duration};
use tokio::time::Instant;

const ROUNDS: usize = 5;
const EACH: Duration = Duration::from_secs(1);
const BATCH: usize = 64;

fn message(key: &str) -> Message {
    Message::builder()
        .from("Shop <shop@example.com>")
        .to("ada@example.com")
        .subject("Welcome")
        .text("Welcome aboard.\n")
        .idempotency_key(key)
        .build()
        .unwrap()
}

#[derive(Clone, Copy)]
enum Row {
    Run,
    Mail,
    Batch,
}

/// Keys a second.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
async fn rate(hapax: &Hapax, mailer: &Mailer, row: Row, callers: usize) -> f64 {
    let (run, idem) = (fastrand::u64(..), hapax.idempotency("bench"));
    let stored = Receipt::accepted().with_message_id(format!("<{}@example.com>", "x".repeat(26)));
    let stored = stored.with_provider("stub").with_accepted(["ada@example.com".to_owned()]).to_stored();
    // A text has two quotes more.
    let result = "x".repeat(stored.bytes.len() - 2);
    let begun = Instant::now();
    let caller = async |caller: usize| {
        let mut done = 0;
        while begun.elapsed() < EACH {
            let key = |n: usize| format!("{run:x}-{caller}-{n}");
            match row {
                Row::Run => {
                    let (key, mail) = (key(done), message("k"));
                    let effect = || async { Ok::<_, Infallible>(result.clone()) }.never_unknown();
                    let kept: String = idem.run(&key, fingerprint(&mail), effect).await.unwrap().unwrap();
                    assert_eq!(kept.len(), result.len());
                    done += 1;
                }
                Row::Mail => {
                    assert!(mailer.send(&message(&key(done))).await.is_accepted());
                    done += 1;
                }
                Row::Batch => {
                    let messages: Vec<_> = (done..done + BATCH).map(|n| message(&key(n))).collect();
                    let receipts: Vec<Receipt> = mailer.send_many(messages).collect().await;
                    assert!(receipts.len() == BATCH && receipts.iter().all(Receipt::is_accepted));
                    done += BATCH;
                }
            }
        }
        done
    };
    let counts: Vec<usize> = stream::iter(0..callers).map(caller).buffer_unordered(callers).collect().await;
    counts.iter().sum::<usize>() as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let given = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let store = given.unwrap_or_else(|| format!("sqlite:{}", folder.path().join("bench.db").display()));
    let hapax = hapax::connect(&store).await.unwrap();
    let mailer = Mailer::via(Stub::forgetful()).idempotent(&hapax.idempotency("mail")).build().unwrap();
    let rows = [
        ("run, 64 callers", Row::Run, BATCH),
        ("mail, 64 callers", Row::Mail, BATCH),
        ("batches of 64, 4 callers", Row::Batch, 4),
        ("batches of 64, one caller", Row::Batch, 1),
        ("run, one caller", Row::Run, 1),
        ("mail, one caller", Row::Mail, 1),
    ];
    let mut found = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for ((_, row, callers), rates) in rows.iter().zip(&mut found) {
            rates.push(rate(&hapax, &mailer, *row, *callers).await);
        }
    }
    let medians: Vec<f64> = found.into_iter().map(median).collect();
    for ((name, ..), median) in rows.iter().zip(&medians) {
        println!("{name}: {median:.0}/s");
    }
    println!("mail / run, 64 callers: {:.2}", medians[1] / medians[0]);
    println!("mail / run, one caller: {:.2}", medians[5] / medians[4]);
    println!("batches, 4 callers / mail, 64 callers: {:.2}", medians[2] / medians[1]);
    println!("batches / mail, one caller: {:.2}", medians[3] / medians[5]);
    assert!(hapax.close().await.is_clean());
}
