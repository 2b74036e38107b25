//! Where else a key may be that is not where somebody looks for it.

use crate::{duration, failure::Failure, text};
use hapax::{
    Hapax, Key,
    core::{
        Name, Namespace, Scope,
        idempotency::{List, Record},
    },
};

/// The scope of mails that are delivered.
const MAIL: &str = "mail";
/// What the scopes of rehearsals begin with: mails to `file:` and `stub:`.
const REHEARSAL: &str = "mail-rehearsal:";
/// So many records are looked at.
const LOOKED_AT: usize = 500;

/// Why nothing is under a key, if that can be told.
pub(super) async fn of_key(hapax: &Hapax, name: &Name) -> Result<Option<String>, Failure> {
    match name.scope() {
        "once" => window_of(hapax, name).await,
        MAIL => rehearsals(hapax, name.namespace(), name.key(), |found| found == name.key()).await,
        _ => Ok(None),
    }
}

/// Why nothing is listed, if that can be told.
pub(super) async fn of_list(hapax: &Hapax, list: &List) -> Result<Option<String>, Failure> {
    match &list.scope {
        Some(scope) if scope.as_str() == MAIL => {
            rehearsals(hapax, list.namespace.as_str(), &list.prefix, |_| true).await
        }
        _ => Ok(None),
    }
}

/// With `--every` the window is part of the key.
async fn window_of(hapax: &Hapax, name: &Name) -> Result<Option<String>, Failure> {
    let (namespace, scope) = (Namespace::new(name.namespace())?, Scope::new("once")?);
    let mut list = List::new(namespace);
    (list.scope, list.prefix, list.limit) = (Some(scope), format!("{}@", name.key()), LOOKED_AT);
    let page = hapax.backend().idempotency.list(&list).await?;
    let windows = page.records.iter().filter_map(|(found, _)| {
        let (every, number) = found.key().strip_prefix(&list.prefix)?.rsplit_once('#')?;
        duration::parse(every).ok()?;
        Some((number.parse::<i64>().ok()?, found.key()))
    });
    let latest = windows.max().map(|(_, key)| key);
    Ok(latest.map(|key| {
        format!("with `once --every` the window is part of the key; the latest here is {}", text::quoted(key))
    }))
}

/// What is kept under a key in all scopes that begin so, as far as a page of such records goes.
pub(crate) async fn with_key(
    hapax: &Hapax,
    namespace: &Namespace,
    scopes: &str,
    key: &Key,
) -> Result<Vec<(Name, Record)>, Failure> {
    let mut list = List::new(namespace.clone());
    // In the order of scopes and keys: all that begin so come after it, and their own name among them.
    list.after = Some((Scope::from_shown(scopes)?, Key::new("\0")?));
    (list.prefix, list.limit) = (key.as_str().to_owned(), LOOKED_AT);
    let page = hapax.backend().idempotency.list(&list).await?;
    let is_meant =
        |(name, _): &(Name, Record)| name.scope().starts_with(scopes) && name.key() == key.as_str();
    Ok(page.records.into_iter().filter(is_meant).collect())
}

/// Mails to a folder or to nowhere have scopes of their own.
async fn rehearsals(
    hapax: &Hapax,
    namespace: &str,
    prefix: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Option<String>, Failure> {
    let mut list = List::new(Namespace::new(namespace)?);
    // All scopes that begin so come after it.
    list.after = Some((Scope::from_shown(REHEARSAL)?, Key::new("-")?));
    (list.prefix, list.limit) = (prefix.to_owned(), LOOKED_AT);
    let page = hapax.backend().idempotency.list(&list).await?;
    let of_rehearsal = |(name, _): &&(Name, Record)| name.scope().starts_with(REHEARSAL);
    let mut scopes: Vec<_> = page
        .records
        .iter()
        .take_while(of_rehearsal)
        .filter(|(name, _)| is_meant(name.key()))
        .map(|(name, _)| text::quoted(name.scope()))
        .collect();
    scopes.dedup();
    if scopes.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "mails sent via file: or stub: are in scopes of their own: --scope {}",
        scopes.join(", or --scope ")
    )))
}
