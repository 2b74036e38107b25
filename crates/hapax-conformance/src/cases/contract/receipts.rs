//! Receipts come back byte for byte, wherever they have lain.

use crate::{
    cases::list,
    fixture::{Fixture, Stop, Verdict, failed, holds, says},
    harness::Client,
    requests::{A, B, C, R, TTL, did_not, done, name, print, retake, span, unknown},
};
use hapax_core::{
    Name,
    idempotency::{Complete, Completed, Receipt, RecordState, Reserve, Reserved, Resolution, Resolve},
};

list!("contract":
    receipts_come_back_byte_for_byte,
    receipts_of_any_content_come_back,
    large_receipts_come_back,
    the_codec_comes_back,
    a_late_receipt_comes_back_byte_for_byte,
    a_receipt_that_was_asked_about_comes_back_byte_for_byte,
    a_receipt_given_by_a_verdict_comes_back_byte_for_byte,
    the_superseded_receipt_comes_back_byte_for_byte,
);

fn bytes() -> Vec<u8> {
    (0..=u8::MAX).chain((0..=u8::MAX).rev()).collect()
}

fn receipt(bytes: Vec<u8>) -> Receipt {
    Receipt::new("bytes/1", bytes)
}

async fn kept(store: &Client, k: &Name) -> Result<Receipt, Stop> {
    match store.read(k).await?.map(|record| record.state) {
        Some(RecordState::Settled { receipt, .. }) => Ok(receipt),
        other => Err(failed(format!("there is no result but {other:?}"))),
    }
}

#[track_caller]
fn equal(got: &Receipt, want: &Receipt) -> Verdict {
    let differs = || got.bytes.iter().zip(&want.bytes).position(|(a, b)| a != b);
    holds(got == want, || format!("got {got:?}, stored {want:?}; the first difference is at {:?}", differs()))
}

async fn comes_back(fx: &Fixture, k: &Name, receipt: Receipt) -> Verdict {
    fx.held(k, A).await?;
    says(&fx.a.complete(&Complete { receipt: receipt.clone(), ..done(k, A, "") }).await?, "stored")?;
    equal(&kept(&fx.b, k).await?, &receipt)?;
    match fx.b.reserve(&crate::requests::reserve(k, B)).await? {
        Reserved::Held(record) => match record.state {
            RecordState::Settled { receipt: replayed, .. } => equal(&replayed, &receipt),
            other => Err(failed(format!("there is no result but {other:?}"))),
        },
        Reserved::Yours { .. } => Err(failed("a done key was reserved")),
    }
}

async fn receipts_come_back_byte_for_byte(fx: Fixture) -> Verdict {
    comes_back(&fx, &name("all"), receipt(bytes())).await?;
    comes_back(&fx, &name("none"), receipt(Vec::new())).await?;
    for byte in [0, b'\n', b'\r', b'\'', b'"', b'\\', 0x1a, 0x7f, 0x80, 0xc3, 0xff] {
        comes_back(&fx, &name(&format!("{byte}")), receipt(vec![byte])).await?;
        comes_back(&fx, &name(&format!("{byte} thrice")), receipt(vec![byte; 3])).await?;
    }
    Ok(())
}

async fn receipts_of_any_content_come_back(fx: Fixture) -> Verdict {
    // Texts that a codec in between would change or refuse.
    let nested = "[".repeat(2_000) + &"]".repeat(2_000);
    let texts = [
        "null",
        "[]",
        "{}",
        "[[],{}]",
        r#"{"n":9007199254740993}"#,
        "12345678901234567890",
        "1.0",
        "1e400",
        "-0",
        "NaN",
        r#""\ud800""#,
        r#"{"a":1,"a":2}"#,
        " {} ",
        "\u{feff}{}",
        "not json",
        "true",
        "0",
        "",
        "\0",
        &nested,
    ];
    for (n, text) in texts.iter().enumerate() {
        comes_back(&fx, &name(&format!("k{n}")), receipt(text.as_bytes().to_vec())).await?;
    }
    Ok(())
}

async fn large_receipts_come_back(fx: Fixture) -> Verdict {
    for size in [4_095, 4_096, 4_097, 16_384, 65_535, 65_536, 262_145, 1_048_576] {
        let bytes = bytes().into_iter().cycle().take(size).collect();
        comes_back(&fx, &name(&format!("{size} bytes")), receipt(bytes)).await?;
    }
    Ok(())
}

async fn the_codec_comes_back(fx: Fixture) -> Verdict {
    for codec in ["json/1", "a", "application/vnd.example+json; v=2", "näme/7", &"c".repeat(200)] {
        comes_back(&fx, &name(codec), Receipt::new(codec.to_owned(), bytes())).await?;
    }
    Ok(())
}

async fn a_late_receipt_comes_back_byte_for_byte(fx: Fixture) -> Verdict {
    for (n, size) in [0, 512, 1_048_576].into_iter().enumerate() {
        let k = name(&format!("k{n}"));
        let receipt = receipt(bytes().into_iter().cycle().take(size).collect());
        fx.taken_over(&k).await?;
        says(
            &fx.a.complete(&Complete { receipt: receipt.clone(), ..done(&k, A, "") }).await?,
            "stored late",
        )?;
        says(&fx.b.release(&k, &B).await?, "applied")?;
        equal(&kept(&fx.a, &k).await?, &receipt)?;
    }
    Ok(())
}

async fn a_receipt_that_was_asked_about_comes_back_byte_for_byte(fx: Fixture) -> Verdict {
    let k = name("k");
    let receipt = receipt(bytes());
    let lost = Complete { receipt: receipt.clone(), ttl: span(TTL), ..unknown(&k, A, "") };
    says(&fx.a.complete(&lost).await?, "stored")?;
    says(&fx.b.retake_unknown(&retake(&k, R)).await?, "yours")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    equal(&kept(&fx.a, &k).await?, &receipt)
}

async fn a_receipt_given_by_a_verdict_comes_back_byte_for_byte(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    let receipt = receipt(bytes());
    let resolution = Resolution::Happened { receipt: receipt.clone(), ttl: span(TTL) };
    says(&fx.b.resolve(&Resolve { resolution, ..did_not(&k, R) }).await?, "applied")?;
    equal(&kept(&fx.a, &k).await?, &receipt)
}

async fn the_superseded_receipt_comes_back_byte_for_byte(fx: Fixture) -> Verdict {
    let k = name("k");
    let receipt = receipt(bytes());
    let first = Reserve { fingerprint: print("other"), ..crate::requests::reserve(&k, A) };
    says(&fx.a.reserve(&first).await?, "yours")?;
    says(&fx.a.complete(&Complete { receipt: receipt.clone(), ..unknown(&k, A, "") }).await?, "stored")?;
    for request in [unknown(&k, B, "x"), done(&k, C, "sent")] {
        match fx.b.complete(&request).await? {
            Completed::Superseded(record) => match record.state {
                RecordState::Settled { receipt: earlier, .. } => equal(&earlier, &receipt)?,
                other => return Err(failed(format!("there is no result but {other:?}"))),
            },
            other => return Err(failed(format!("the answer is {other:?}"))),
        }
    }
    Ok(())
}
