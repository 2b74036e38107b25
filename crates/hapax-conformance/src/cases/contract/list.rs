//! Listing the records of a namespace.

use crate::{
    cases::list,
    fixture::{Fixture, Stop, Verdict, holds, same, says},
    harness::Client,
    requests::{A, B, LEASE, TTL, done, name_in, reserve, unknown},
    shown::Shown,
};
use hapax_core::{
    Key, Name, Namespace, Scope,
    idempotency::{List, StateFilter},
};

list!("contract":
    an_empty_namespace_has_an_empty_list,
    list_shows_live_records_and_no_others,
    list_gives_the_records_that_read_gives,
    list_is_ordered_by_scope_and_then_key,
    list_keeps_to_its_scope,
    list_keeps_to_its_namespace,
    list_finds_a_prefix_to_the_letter,
    list_picks_by_state,
    pages_of_any_size_give_each_record_once,
    pages_pass_over_names_that_are_kept_hashed,
    pages_go_on_after_a_record_that_is_gone,
    a_page_of_a_filtered_list_goes_on,
    list_takes_any_limit,
);

fn all(namespace: &str) -> Result<List, Stop> {
    Ok(List { limit: 10_000, ..List::new(Namespace::new(namespace)?) })
}

/// The names as `scope/key`, in the order of the answer.
async fn names(store: &Client, request: &List) -> Result<Vec<String>, Stop> {
    let page = store.list(request).await?;
    Ok(page.records.iter().map(|(name, _)| shown(name)).collect())
}

fn shown(name: &Name) -> String {
    format!("{}/{}", name.scope(), name.key())
}

/// All pages, one after another.
async fn pages(store: &Client, request: &List) -> Result<Vec<String>, Stop> {
    let (mut found, mut request) = (Vec::new(), request.clone());
    for _ in 0..10_000 {
        let page = store.list(&request).await?;
        holds(page.records.len() <= request.limit, || format!("{} on a page", page.records.len()))?;
        found.extend(page.records.iter().map(|(name, _)| shown(name)));
        let Some((last, _)) = page.records.last().filter(|_| page.more) else { return Ok(found) };
        request.after = Some((Scope::from_shown(last.scope())?, Key::from_shown(last.key())?));
    }
    Err(crate::fixture::failed("the pages have no end"))
}

async fn an_empty_namespace_has_an_empty_list(fx: Fixture) -> Verdict {
    let page = fx.a.list(&all("nowhere")?).await?;
    holds(page.records.is_empty(), || format!("{} records", page.records.len()))?;
    holds(!page.more, || "there may be more".into())
}

async fn list_shows_live_records_and_no_others(fx: Fixture) -> Verdict {
    let k = |key: &str| name_in("n", "s", key);
    fx.held(&k("dead"), A).await?;
    fx.late_success(&k("late"), "paid").await?;
    fx.elapse(LEASE).await;
    fx.held(&k("freed"), A).await?;
    says(&fx.a.release(&k("freed"), &A).await?, "applied")?;
    fx.held(&k("held"), A).await?;
    fx.succeeded(&k("ended"), A, "paid").await?;
    let page = fx.b.list(&all("n")?).await?;
    let found: Vec<_> =
        page.records.iter().map(|(name, record)| (name.key().to_owned(), record.shown())).collect();
    let expected = [("ended", "done A paid"), ("held", "pending A"), ("late", "done A paid")];
    let expected: Vec<_> =
        expected.iter().map(|(key, record)| ((*key).to_owned(), (*record).to_owned())).collect();
    same("the list", &found, &expected)?;
    fx.elapse(TTL).await;
    same("the list", &names(&fx.a, &all("n")?).await?, &Vec::new())
}

async fn list_gives_the_records_that_read_gives(fx: Fixture) -> Verdict {
    let k = |key: &str| name_in("n", "s", key);
    fx.late_success(&k("late"), "paid").await?;
    fx.held(&k("held"), A).await?;
    fx.succeeded(&k("ended"), A, "paid").await?;
    fx.unsure(&k("lost"), A, "sent?").await?;
    let page = fx.b.list(&all("n")?).await?;
    same("how many", &page.records.len(), &4)?;
    for (name, record) in page.records {
        if fx.exact() {
            same("the record", &fx.a.read(&name).await?, &Some(record))?;
        } else {
            says(&fx.a.read(&name).await?, &record.shown())?;
        }
    }
    Ok(())
}

async fn list_is_ordered_by_scope_and_then_key(fx: Fixture) -> Verdict {
    // Texts whose order differs by length, by case, by collation and by UTF-16 unit.
    let texts = [
        "a",
        "aa",
        "B",
        "b",
        "Z",
        "é",
        "e\u{301}",
        "z",
        "\u{ff5e}",
        "\u{1f389}",
        "0",
        "10",
        "2",
        "a b",
        "a:b",
    ];
    let mut expected = Vec::new();
    for scope in texts {
        for key in texts {
            fx.held(&name_in("n", scope, key), A).await?;
            expected.push((scope, key));
        }
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.iter().map(|(scope, key)| format!("{scope}/{key}")).collect();
    same("the list", &names(&fx.b, &all("n")?).await?, &expected)?;
    for limit in [1, 7] {
        let request = List { limit, ..all("n")? };
        same("the pages", &pages(&fx.b, &request).await?, &expected)?;
    }
    Ok(())
}

async fn list_keeps_to_its_scope(fx: Fixture) -> Verdict {
    let scopes = ["s", "S", "ss", "s:", "t", "s%", "s_"];
    for scope in scopes {
        fx.held(&name_in("n", scope, "k"), A).await?;
    }
    for scope in scopes {
        let request = List { scope: Some(Scope::new(scope)?), ..all("n")? };
        same("the list", &names(&fx.b, &request).await?, &vec![format!("{scope}/k")])?;
    }
    let none = List { scope: Some(Scope::new("other")?), ..all("n")? };
    same("the list of another scope", &names(&fx.b, &none).await?, &Vec::new())
}

async fn list_keeps_to_its_namespace(fx: Fixture) -> Verdict {
    let namespaces = ["n", "N", "nn", "n:", "1:n", "n%", "n_", "m", "n\0"];
    for (at, namespace) in namespaces.into_iter().enumerate() {
        fx.held(&name_in(namespace, "s", &format!("k{at}")), A).await?;
    }
    for (at, namespace) in namespaces.into_iter().enumerate() {
        same("the list", &names(&fx.b, &all(namespace)?).await?, &vec![format!("s/k{at}")])?;
    }
    Ok(())
}

async fn list_finds_a_prefix_to_the_letter(fx: Fixture) -> Verdict {
    let keys = [
        "order-1",
        "order-2",
        "Order-1",
        "order_1",
        "orderX1",
        "order%1",
        "%",
        "_",
        "%%",
        "*",
        "?",
        "[a]",
        "a",
        "\\",
        "\\%",
        "\\_",
        "'",
        "\"",
        "\0",
        "\0a",
        "é",
        "éa",
        "e",
        "e\u{301}",
        "\u{1f389}",
        "\u{1f389}!",
        "\u{10ffff}",
        "\u{10ffff}a",
        "{a}",
        "{a}b",
    ];
    for key in keys {
        fx.held(&name_in("n", "s", key), A).await?;
    }
    let asked = ["", "o", "order", "order-", "order_", "order%", "ORDER", "order-1", "order-11", "zzz"];
    for prefix in asked.into_iter().chain(keys) {
        let mut expected: Vec<_> = keys.into_iter().filter(|key| key.starts_with(prefix)).collect();
        expected.sort_unstable();
        let expected: Vec<_> = expected.iter().map(|key| format!("s/{key}")).collect();
        let request = List { prefix: prefix.to_owned(), ..all("n")? };
        same(&format!("the list of {prefix:?}"), &names(&fx.b, &request).await?, &expected)?;
        let paged = List { limit: 2, ..request };
        same(&format!("the pages of {prefix:?}"), &pages(&fx.b, &paged).await?, &expected)?;
    }
    Ok(())
}

async fn list_picks_by_state(fx: Fixture) -> Verdict {
    let k = |key: &str| name_in("n", "s", key);
    fx.late_success(&k("done-late"), "paid").await?;
    fx.late_unknown(&k("unknown-late"), "sent?").await?;
    fx.elapse(LEASE).await;
    fx.succeeded(&k("done"), A, "paid").await?;
    fx.unsure(&k("unknown"), A, "sent?").await?;
    fx.held(&k("pending"), A).await?;
    fx.late_success(&k("pending-late"), "paid").await?;
    // Its lease went by with the scene before.
    fx.held(&k("pending"), A).await?;
    let states = [
        (Some(StateFilter::Pending), vec!["s/pending", "s/pending-late"]),
        (Some(StateFilter::Done), vec!["s/done", "s/done-late"]),
        (Some(StateFilter::Unknown), vec!["s/unknown", "s/unknown-late"]),
        (None, vec!["s/done", "s/done-late", "s/pending", "s/pending-late", "s/unknown", "s/unknown-late"]),
    ];
    for (state, expected) in states {
        let request = List { state, ..all("n")? };
        let expected: Vec<_> = expected.into_iter().map(String::from).collect();
        same("the list", &names(&fx.b, &request).await?, &expected)?;
    }
    Ok(())
}

async fn pages_of_any_size_give_each_record_once(fx: Fixture) -> Verdict {
    let mut expected = Vec::new();
    for scope in ["s", "t", "u"] {
        for n in 0..9 {
            fx.held(&name_in("n", scope, &format!("k{n}")), A).await?;
            expected.push(format!("{scope}/k{n}"));
        }
    }
    for limit in [1, 2, 3, 9, 10, 26, 27, 28, 1000] {
        let request = List { limit, ..all("n")? };
        same(&format!("the pages of {limit}"), &pages(&fx.b, &request).await?, &expected)?;
        let one = List { scope: Some(Scope::new("t")?), ..request };
        let of_t = expected.get(9..18).unwrap_or_default().to_vec();
        same(&format!("the pages of {limit} in a scope"), &pages(&fx.b, &one).await?, &of_t)?;
    }
    Ok(())
}

async fn pages_pass_over_names_that_are_kept_hashed(fx: Fixture) -> Verdict {
    let mut expected = Vec::new();
    for scope in ["s".to_owned(), "s".repeat(600), "t".repeat(600), "t".to_owned()] {
        for key in ["k".to_owned(), "k".repeat(600), "l".repeat(600)] {
            let k = name_in("n", &scope, &key);
            fx.held(&k, A).await?;
            expected.push((k.scope().to_owned(), k.key().to_owned()));
        }
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.iter().map(|(scope, key)| format!("{scope}/{key}")).collect();
    for limit in [1, 2, 5, 100] {
        let request = List { limit, ..all("n")? };
        same(&format!("the pages of {limit}"), &pages(&fx.b, &request).await?, &expected)?;
    }
    Ok(())
}

async fn pages_go_on_after_a_record_that_is_gone(fx: Fixture) -> Verdict {
    for key in ["a", "b", "c", "d"] {
        fx.held(&name_in("n", "s", key), A).await?;
    }
    says(&fx.a.release(&name_in("n", "s", "b"), &A).await?, "applied")?;
    let request = List { after: Some((Scope::new("s")?, Key::new("b")?)), ..all("n")? };
    same("the list", &names(&fx.b, &request).await?, &vec!["s/c".into(), "s/d".into()])?;
    let before = List { after: Some((Scope::new("r")?, Key::new("z")?)), ..all("n")? };
    same("how many", &names(&fx.b, &before).await?.len(), &3)?;
    let beyond = List { after: Some((Scope::new("t")?, Key::new("a")?)), ..all("n")? };
    same("the list", &names(&fx.b, &beyond).await?, &Vec::new())
}

async fn a_page_of_a_filtered_list_goes_on(fx: Fixture) -> Verdict {
    let mut expected = Vec::new();
    for n in 0..40 {
        let k = name_in("n", "s", &format!("k{n:02}"));
        says(&fx.a.reserve(&reserve(&k, A)).await?, "yours")?;
        // One in ten, so that a page of plain records holds few or none of them.
        if n % 10 == 7 {
            says(&fx.a.complete(&unknown(&k, A, "sent?")).await?, "stored")?;
            expected.push(shown(&k));
        } else if n % 2 == 0 {
            says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored")?;
        }
    }
    says(&fx.b.reserve(&reserve(&name_in("n", "s", "k07"), B)).await?, "held: unknown A sent?")?;
    for limit in [1, 2, 3, 4, 5] {
        let request = List { state: Some(StateFilter::Unknown), limit, ..all("n")? };
        same("the pages", &pages(&fx.b, &request).await?, &expected)?;
    }
    Ok(())
}

async fn list_takes_any_limit(fx: Fixture) -> Verdict {
    fx.held(&name_in("n", "s", "k"), A).await?;
    for limit in [1, 2, 100, usize::MAX] {
        let request = List { limit, ..all("n")? };
        same("the list", &names(&fx.b, &request).await?, &vec!["s/k".into()])?;
    }
    let request = List { limit: 0, ..all("n")? };
    same("a page of none", &names(&fx.b, &request).await?, &Vec::new())
}
