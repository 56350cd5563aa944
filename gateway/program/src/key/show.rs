//! How entries of keys are shown. There is no secret in them.

use serde_json::{Value, json};
use thermae_keys::{Key, Scope};

/// What a key is at this time.
fn state(key: &Key, now_ms: u64) -> &'static str {
    match (key.revoked_ms, key.expires_ms) {
        (Some(_), _) => "revoked",
        (None, Some(end)) if end <= now_ms => "expired",
        _ => "valid",
    }
}

/// An entry as JSON. Times are milliseconds since 1970.
pub(super) fn entry(key: &Key, now_ms: u64) -> Value {
    let scopes: Vec<_> = key.scopes.iter().map(Scope::as_str).collect();
    let mut shown = json!({
        "id": key.id.as_str(),
        "name": key.name,
        "tenant": key.tenant.as_str(),
        "scopes": scopes,
        "state": state(key, now_ms),
        "created_ms": key.created_ms,
    });
    let numbers = [
        ("expires_ms", key.expires_ms),
        ("last_used_ms", key.last_used_ms),
        ("revoked_ms", key.revoked_ms),
        ("requests_per_minute", key.limits.requests_per_minute.map(|limit| limit.get().into())),
        ("runs_at_once", key.limits.runs_at_once.map(|limit| limit.get().into())),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            shown[name] = json!(number);
        }
    }
    shown
}

/// An entry in a line.
pub(super) fn line(key: &Key, now_ms: u64) -> String {
    // The store may have a name that this program did not write.
    let name: String = key.name.chars().filter(|letter| !letter.is_control()).collect();
    format!("{}  {:7}  {:16}  {}  {name}\n", key.id, state(key, now_ms), key.tenant.as_str(), key.scopes)
}

#[cfg(test)]
mod tests {
    use thermae_keys::Limits;
    use thermae_schemas::TenantName;

    use super::*;

    #[test]
    fn an_entry_says_what_the_key_is_now() {
        let mut key = Key {
            id: "0123456789abcdef".parse().unwrap(),
            name: "a\u{1b}[2Jb".to_owned(),
            tenant: TenantName::new("acme").unwrap(),
            scopes: [Scope::Read, Scope::Run].into_iter().collect(),
            limits: Limits::default(),
            created_ms: 1,
            expires_ms: Some(10),
            last_used_ms: None,
            revoked_ms: None,
        };
        assert_eq!(line(&key, 9), "0123456789abcdef  valid    acme              run read  a[2Jb\n");
        let shown = entry(&key, 10);
        assert_eq!((&shown["state"], &shown["expires_ms"]), (&json!("expired"), &json!(10)));
        assert_eq!((&shown["scopes"], shown.get("revoked_ms")), (&json!(["run", "read"]), None));
        key.revoked_ms = Some(5);
        assert_eq!(entry(&key, 9)["state"], "revoked");
    }
}
