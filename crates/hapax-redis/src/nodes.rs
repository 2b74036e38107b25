//! The primaries of a Cluster; one server is its own only one.

use crate::{ask::Ask, error::Failure, line::Routed, lines::Request, store::RedisStore};
use hapax_core::doctor::{Examination, Finding};
use redis::{Cmd, Value, from_redis_value};

/// A server that holds keys.
pub(crate) struct Primary {
    /// One of its slots.
    pub(crate) slot: u16,
    /// As the Cluster names it.
    pub(crate) address: String,
}

impl RedisStore {
    pub(crate) async fn primaries(&self) -> Result<Vec<Primary>, Failure> {
        let place = &self.connector().place;
        if !self.connector().is_cluster() {
            return Ok(vec![Primary { slot: 0, address: place.clone() }]);
        }
        let ask = Ask::Plain(String::new(), redis::cmd("CLUSTER").arg("SLOTS").to_owned());
        let reply = self.lines.call(&[ask], true).await.pop();
        let nonsense = || Failure::nonsense(place);
        let reply = reply.unwrap_or_else(|| Err(nonsense()))?;
        let ranges: Vec<Vec<Value>> = from_redis_value(reply).map_err(|_| nonsense())?;
        let mut known: Vec<(Value, Primary)> = Vec::new();
        for range in ranges {
            let mut parts = range.into_iter();
            let (Some(start), Some(node)) = (parts.next(), parts.nth(1)) else { return Err(nonsense()) };
            if !known.iter().any(|(other, _)| *other == node) {
                let slot = from_redis_value(start).map_err(|_| nonsense())?;
                let primary = Primary { slot, address: address(&node).ok_or_else(nonsense)? };
                known.push((node, primary));
            }
        }
        Ok(known.into_iter().map(|(_, primary)| primary).collect())
    }
}

fn address(node: &Value) -> Option<String> {
    let Value::Array(parts) = node else { return None };
    let host: String = redis::from_redis_value_ref(parts.first()?).unwrap_or_default();
    let port: u16 = redis::from_redis_value_ref(parts.get(1)?).ok()?;
    Some(format!("{host}:{port}"))
}

/// A command for the primary of a slot.
pub(crate) struct On<'a>(pub(crate) &'a Primary, pub(crate) Cmd);

impl Request for On<'_> {
    fn routed(&self, to_cluster: bool) -> Routed {
        if to_cluster {
            Routed::to_slot(self.0.slot, self.1.clone())
        } else {
            Routed::anywhere(self.1.clone())
        }
    }
}

/// One list for all nodes: what is not so on every one says where it is.
pub(crate) fn together(all: &mut Examination, nodes: &[(&str, Examination)]) {
    let Some((_, first)) = nodes.first() else { return };
    all.facts.extend(first.facts.iter().cloned());
    let mut seen: Vec<(&Finding, Vec<&str>)> = Vec::new();
    for (address, found) in nodes {
        for finding in &found.findings {
            match seen.iter_mut().find(|(other, _)| *other == finding) {
                Some((_, places)) => places.push(address),
                None => seen.push((finding, vec![address])),
            }
        }
    }
    for (finding, places) in seen {
        let mut finding = finding.clone();
        if places.len() < nodes.len() {
            finding.reason = format!("on {}: {}", places.join(", "), finding.reason);
        }
        all.findings.push(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::doctor::Severity;

    #[test]
    fn what_is_so_on_some_nodes_says_where() {
        let node = |checks: &[&'static str]| {
            let mut found = Examination::default();
            found.fact("version", "7");
            for check in checks {
                found.find(check, Severity::Error, "bad", "mend it");
            }
            found
        };
        let mut all = Examination::default();
        together(&mut all, &[("a:1", node(&["eviction"])), ("b:2", node(&["eviction", "persistence"]))]);
        let said: Vec<_> = all.findings.iter().map(|finding| (finding.check, &*finding.reason)).collect();
        assert_eq!(said, [("eviction", "bad"), ("persistence", "on b:2: bad")]);
        assert_eq!(all.facts, [("version", "7".to_owned())]);
    }
}
