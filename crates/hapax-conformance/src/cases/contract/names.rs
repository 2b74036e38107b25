//! Names: what is different stays different, and any text will do.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, holds, same, says},
    requests::{
        A, B, C, H, LEASE, R, did_not, done, happened, name_in, nth_token, reserve, retake, span, unknown,
    },
    shown::Shown,
};
use hapax_core::{
    Key, Name, Namespace,
    idempotency::{List, Reserved},
};
use std::collections::HashSet;

list!("contract":
    names_that_look_alike_do_not_meet,
    every_step_works_under_an_awkward_name,
    long_keys_do_not_meet,
    names_come_back_from_a_list_as_they_were,
);

/// Keys that something between here and a disk may change or confuse.
const AWKWARD: &[&str] = &[
    "k",
    "K",
    "k ",
    " k",
    "k\t",
    "k\n",
    "k\r\n",
    "k\0",
    "\0k",
    "\0",
    "k\0k",
    "kk",
    "\u{feff}k",
    "k\u{200b}",
    "k\u{301}",
    "é",
    "e\u{301}",
    "É",
    "ß",
    "ss",
    "SS",
    "ẞ",
    "ı",
    "i",
    "İ",
    "I",
    "ﬁ",
    "fi",
    "Å",
    "\u{212b}",
    "ａ",
    "a",
    "日本語",
    "שלום",
    "\u{1f389}",
    "\u{1f389}\u{fe0f}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{7f}",
    "\u{85}",
    "{k}",
    "{k}k",
    "k{k}",
    "{k",
    "k}",
    "{}",
    "{}k",
    ":",
    "k:",
    ":k",
    "k:k",
    "k::k",
    "1:k",
    "1:k1:k",
    "\\",
    "\\:",
    "k\\",
    "/",
    "k/k",
    "..",
    "../k",
    "%",
    "_",
    "*",
    "?",
    "[k]",
    "%k",
    "'",
    "''",
    "\"",
    "`",
    "k'; DROP TABLE keys; --",
    "$1",
    "?1",
    "0",
    "00",
    "0.0",
    "1e0",
    "1",
    "-1",
    "null",
    "NULL",
    "true",
    "undefined",
    "NaN",
    "{\"k\":1}",
    "[]",
    "#",
    "#sha256:",
    "#k",
];

/// Triples of which some would be one text when joined with too little care.
const TRIPLES: &[(&str, &str, &str)] = &[
    ("a", "b", "c"),
    ("ab", "c", "d"),
    ("a", "bc", "d"),
    ("a", "b", "cd"),
    ("abc", "d", "e"),
    ("a:b", "c", "d"),
    ("a", "b:c", "d"),
    ("a", "b", "c:d"),
    ("a:", "b", "c"),
    ("a", ":b", "c"),
    ("a", "b:", "c"),
    ("a", "b", ":c"),
    ("1", "1:a", "b"),
    ("1:1", "a", "b"),
    ("1", "1", ":ab"),
    ("a1:b", "c", "d"),
    ("a", "b1:c", "d"),
    ("a", "b", "1:cd"),
    ("a\0b", "c", "d"),
    ("a", "b\0c", "d"),
    ("a", "b", "c\0d"),
    ("a\0", "b", "c"),
    ("a", "\0b", "c"),
    ("{a}", "b", "c"),
    ("a", "{b}", "c"),
    ("a", "b", "{c}"),
    ("{a", "b}", "c"),
    ("a", "{b", "c}"),
    ("a/b", "c", "d"),
    ("a", "b/c", "d"),
    ("a", "b", "c/d"),
    ("A", "b", "c"),
    ("a", "B", "c"),
    ("a", "b", "C"),
    ("a ", "b", "c"),
    ("a", "b ", "c"),
    ("a", "b", "c "),
    ("a%", "b", "c"),
    ("a", "_", "c"),
    ("11:a", "b", "c"),
    ("1:a", "b", "c"),
    ("a\\", "b", "c"),
    ("a", "\\b", "c"),
];

fn different_names() -> Vec<Name> {
    let long = |end: &str| "x".repeat(512) + end;
    let edges =
        ["x".repeat(511), long(""), long("y"), long("z"), "x".repeat(65_536), "x".repeat(65_535) + "y"];
    let keys = AWKWARD.iter().map(|key| name_in("n", "s", key));
    let scopes = AWKWARD.iter().map(|scope| name_in("n", scope, "key"));
    let namespaces = AWKWARD.iter().map(|namespace| name_in(namespace, "scope", "key"));
    let triples = TRIPLES.iter().map(|(namespace, scope, key)| name_in(namespace, scope, key));
    let edges = edges.iter().map(|key| name_in("n", "s", key));
    keys.chain(scopes).chain(namespaces).chain(triples).chain(edges).collect()
}

async fn names_that_look_alike_do_not_meet(fx: Fixture) -> Verdict {
    let names = different_names();
    same("how many are different", &names.iter().collect::<HashSet<_>>().len(), &names.len())?;
    for (n, k) in names.iter().enumerate() {
        let answer = fx.a.reserve(&reserve(k, nth_token(n))).await?;
        holds(matches!(answer, Reserved::Yours { .. }), || format!("{:?} is {}", shown(k), answer.shown()))?;
    }
    for (n, k) in names.iter().enumerate() {
        let version = fx.b.read(k).await?.map(|record| record.version());
        same(&shown(k), &version, &Some(nth_token(n).version()))?;
        if n % 2 == 0 {
            says(&fx.b.complete(&done(k, nth_token(n), &n.to_string())).await?, "stored")?;
        } else {
            says(&fx.b.release(k, &nth_token(n)).await?, "applied")?;
        }
    }
    for (n, k) in names.iter().enumerate() {
        let expected = if n % 2 == 0 { format!("done ? {n}") } else { "vacant".into() };
        let got = fx.a.read(k).await?.shown();
        holds(got == expected, || format!("{:?} is {got:?}, not {expected:?}", shown(k)))?;
    }
    Ok(())
}

fn shown(name: &Name) -> String {
    let key: String = name.key().chars().take(40).collect();
    format!("{}/{}/{key}", name.namespace(), name.scope())
}

async fn every_step_works_under_an_awkward_name(fx: Fixture) -> Verdict {
    for key in [
        "{a}b",
        "a:b",
        "a\0b",
        "\u{1f389}",
        "É",
        "e\u{301}",
        "' OR 1=1 --",
        "%_",
        "\\",
        &"long ".repeat(13_107),
    ] {
        let k = name_in(key, key, key);
        fx.taken_over(&k).await?;
        says(&fx.a.complete(&unknown(&k, A, "sent?")).await?, "stored late")?;
        says(&fx.b.extend(&k, &B, span(LEASE)).await?, "extended")?;
        says(&fx.b.release(&k, &B).await?, "applied")?;
        says(&fx.a.retake_unknown(&retake(&k, R)).await?, "yours")?;
        says(&fx.a.drop_unknown(&k, &R).await?, "dropped")?;
        says(&fx.b.force_release(&k).await?, "applied")?;
        fx.unsure(&k, C, "sent?").await?;
        says(&fx.b.resolve(&did_not(&k, H)).await?, "applied")?;
        fx.unsure(&k, C, "sent?").await?;
        says(&fx.b.resolve(&happened(&k, H, "sent")).await?, "applied")?;
        says(&fx.a.reserve(&reserve(&k, B)).await?, "held: done H sent")?;
        let page = fx.b.list(&List::new(Namespace::new(key)?)).await?;
        same("the list", &page.records.iter().map(|(name, _)| name).collect::<Vec<_>>(), &vec![&k])?;
    }
    Ok(())
}

async fn long_keys_do_not_meet(fx: Fixture) -> Verdict {
    let long = "x".repeat(60_000);
    let other = "x".repeat(59_999) + "y";
    // A text that is a long key's hash as it is shown.
    let hash = Key::new(&long)?.as_str().to_owned();
    for (text, token) in [(&long, A), (&other, B), (&hash, C)] {
        fx.held(&name_in("n", "s", text), token).await?;
    }
    says(&fx.b.read(&name_in("n", "s", &long)).await?, "pending A")?;
    says(&fx.b.read(&name_in("n", "s", &other)).await?, "pending B")?;
    says(&fx.b.read(&name_in("n", "s", &hash)).await?, "pending C")
}

async fn names_come_back_from_a_list_as_they_were(fx: Fixture) -> Verdict {
    let names = different_names();
    for k in &names {
        fx.held(k, A).await?;
    }
    let namespaces: HashSet<_> = names.iter().map(Name::namespace).collect();
    let mut found = HashSet::new();
    for namespace in namespaces {
        let request = List { limit: 10_000, ..List::new(Namespace::from_shown(namespace)?) };
        found.extend(fx.b.list(&request).await?.records.into_iter().map(|(name, _)| name));
    }
    for k in &names {
        holds(found.contains(k), || format!("{:?} is not listed", shown(k)))?;
    }
    same("how many are listed", &found.len(), &names.len())
}
