//! `thermae-gateway key`: makes, lists and revokes API keys in the store.

mod failure;
mod show;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use thermae_keys::{Keys, Limits, NewKey, Query};
use thermae_schemas::TenantName;

use self::failure::Failure;
use self::show::{entry, line};
use crate::args::{Common, Verb};
use crate::now_ms;
use crate::store::File;

/// Runs a command, from its arguments to the exit status.
pub(crate) fn run(common: &Common, verb: &Verb) -> ExitCode {
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(&error))
        .and_then(|runtime| runtime.block_on(act(common, verb)))
        .and_then(|text| {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::unwritten(&error))
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(verb.as_json()),
    }
}

/// Reads when a key expires: a time from now, or a moment. Gives milliseconds since 1970.
pub(crate) fn expiry(text: &str) -> Result<u64, String> {
    expiry_from(text, now_ms())
}

fn expiry_from(text: &str, now_ms: u64) -> Result<u64, String> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if let Ok(time) = humantime::parse_duration(text) {
        return Ok(now_ms.saturating_add(millis(time)));
    }
    let moment: SystemTime = humantime::parse_rfc3339(text)
        .map_err(|_| "a time such as 12h or 90d, or a moment such as 2027-01-31T00:00:00Z".to_owned())?;
    Ok(millis(moment.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// Does it, and gives what to print.
async fn act(common: &Common, verb: &Verb) -> Result<String, Failure> {
    let place = common.place().map_err(|why| Failure::usage(why.to_string()))?;
    let keys = Keys::new(place.open(File::Make).await?);
    match verb {
        Verb::Create { tenant, scopes, name, expires, rate, runs, json } => {
            let new = NewKey {
                name: name.clone(),
                tenant: tenant.clone(),
                scopes: scopes.iter().copied().collect(),
                limits: Limits { requests_per_minute: *rate, runs_at_once: *runs },
                expires_ms: *expires,
            };
            let made = keys.create(&new, now_ms()).await?;
            if *json {
                let mut shown = entry(&made.key, now_ms());
                shown["key"] = json!(made.text.as_str());
                return Ok(format!("{shown}\n"));
            }
            eprintln!("API key {}, for {} ({}). It is shown this once:", made.key.id, tenant, new.scopes);
            Ok(format!("{}\n", made.text.as_str()))
        }
        Verb::List { tenant, json } => list(&keys, tenant.as_ref(), *json).await,
        Verb::Revoke { id, tenant, json } => {
            let revoked = keys.revoke(id, tenant.as_ref(), now_ms()).await?;
            let key = revoked.ok_or_else(|| Failure::unknown(id))?;
            if *json {
                return Ok(format!("{}\n", entry(&key, now_ms())));
            }
            Ok(format!("The API key {id} is revoked. Gateways refuse it within five seconds.\n"))
        }
    }
}

async fn list(keys: &Keys, tenant: Option<&TenantName>, json: bool) -> Result<String, Failure> {
    let mut query = Query { tenant: tenant.cloned(), ..Query::default() };
    let mut text = String::new();
    loop {
        let page = keys.list(&query).await?;
        let now = now_ms();
        for key in &page.keys {
            text += &if json { format!("{}\n", entry(key, now)) } else { line(key, now) };
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_expiry_is_a_time_from_now_or_a_moment() {
        assert_eq!(expiry_from("90d", 1000), Ok(1000 + 90 * 86_400_000));
        assert_eq!(expiry_from("1970-01-02T00:00:00Z", 5), Ok(86_400_000));
        for bad in ["", "soon", "90", "2027-01-31", "-1h"] {
            assert!(expiry_from(bad, 0).is_err(), "{bad}");
        }
        assert!(expiry_from("500000000y", 0).is_ok_and(|end| end > 0), "a far end is refused when the key is made");
    }

    #[tokio::test]
    async fn all_pages_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let store = thermae_keys::Sqlite::open(folder.path().join("keys.db")).await.unwrap();
        let keys = Keys::new(Arc::new(store));
        for number in 0..205 {
            let tenant = TenantName::new(if number == 7 { "globex" } else { "acme" }).unwrap();
            let scopes = [thermae_keys::Scope::Run].into_iter().collect();
            let new = NewKey { name: "k".to_owned(), tenant, scopes, limits: Limits::default(), expires_ms: None };
            keys.create(&new, now_ms()).await.unwrap();
        }
        let count = async |tenant: Option<&str>| {
            let tenant = tenant.map(|name| TenantName::new(name).unwrap());
            list(&keys, tenant.as_ref(), false).await.map(|text| text.lines().count()).ok()
        };
        assert_eq!([count(None).await, count(Some("globex")).await, count(Some("x")).await], [205, 1, 0].map(Some));
    }
}
