//! Finding the primary by its Sentinels.

use crate::{
    address::Address,
    connect::Connector,
    error::Failure,
    line::{Line, Routed},
};
use hapax_core::StoreErrorKind;

/// Asks one Sentinel after another. The first that knows decides.
pub(crate) async fn primary(
    connector: &Connector,
    nodes: &[(String, u16)],
    master: &str,
) -> Result<(String, u16), Failure> {
    let mut last = Failure::unreachable(&connector.place);
    for (host, port) in nodes {
        let address = Address::Tcp(host.clone(), *port);
        match ask(connector, &address, master).await {
            Ok(Some(primary)) => return Ok(primary),
            Ok(None) => {
                let reason = format!("the sentinel at {address} knows no primary of the name `{master}`");
                last = Failure::new(StoreErrorKind::Config, reason);
            }
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

async fn ask(
    connector: &Connector,
    address: &Address,
    master: &str,
) -> Result<Option<(String, u16)>, Failure> {
    let limit = connector.options.timeout / 4;
    let asked = async {
        let line = connector.one(address, &connector.options.sentinel_login, 0).await?;
        let question = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).take();
        one(&line, &address.to_string(), question).await
    };
    let answer = match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer?,
        Err(_) => return Err(Failure::timeout(&address.to_string(), limit)),
    };
    Ok(redis::from_redis_value(answer).unwrap_or_default())
}

/// Sentinels may be behind: only a server that says so itself is the primary.
pub(crate) async fn check(line: &Line, address: &Address) -> Result<(), Failure> {
    let place = address.to_string();
    let role = one(line, &place, redis::cmd("ROLE")).await?;
    let role: Vec<redis::Value> = redis::from_redis_value(role).unwrap_or_default();
    let role: Option<String> = role.into_iter().next().and_then(|role| redis::from_redis_value(role).ok());
    if role.as_deref() == Some("master") { Ok(()) } else { Err(Failure::unreachable(&place)) }
}

async fn one(line: &Line, place: &str, question: redis::Cmd) -> Result<redis::Value, Failure> {
    match line.send_one(Routed::anywhere(question)).await {
        Ok(redis::Value::ServerError(error)) => Err(Failure::of_reply(place, error.into())),
        Ok(answer) => Ok(answer),
        Err(error) => Err(Failure::of_connect(place, error)),
    }
}
