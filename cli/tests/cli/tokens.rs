//! Tests of capability tokens on the embedded fleet.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use serde_json::json;
use thermae_schemas::{Capabilities, TenantName};
use thermae_tokens::{Grant, Issuer, SecretKey, TokenId};

use crate::page::bash;
use crate::serve::{Serving, TOKEN};
use crate::thermae::Thermae;

const CODE: &str = "
for amount in [1, 500]:
    try:
        print(await pay(amount=amount))
    except ToolError as error:
        print(str(error).split(':')[0])
";

/// A token of the embedded fleet's tenant for small payments.
fn grant(calls: Option<u32>) -> Grant {
    let set = r#"[{"pattern": "pay", "constraints": [{"path": "amount", "op": "<", "value": 100}]}]"#;
    Grant {
        id: TokenId::random(),
        tenant: TenantName::new("local").unwrap(),
        answers: None,
        not_before: None,
        expires: SystemTime::now() + Duration::from_secs(3600),
        set: Capabilities::from_json(set).unwrap(),
        calls: calls.and_then(NonZeroU32::new),
    }
}

/// An issuer whose public key is in the folder `keys`.
fn issuer(thermae: &Thermae) -> Issuer {
    let key = SecretKey::generate().unwrap();
    thermae.file("keys/1.pem", &key.public().to_pem());
    Issuer::new(1, key)
}

#[test]
fn a_program_makes_the_calls_that_its_token_allows() {
    let thermae = Thermae::with("main.py", CODE);
    let (issuer, small) = (issuer(&thermae), grant(None));
    thermae.file("token", &format!("{}\n", issuer.mint(&small).unwrap().as_str()));
    let run = ["run", "main.py", "--tool", "pay=echo 7", "--capability-token", "token"];
    let trusting = [&run[..], &["--token-keys", "keys"]].concat();
    let allowed = thermae.call(&[&trusting[..], &["--audit", "calls.jsonl"]].concat());
    assert_eq!((allowed.status, allowed.stdout.as_str()), (0, "7\ncapability_refused\n"), "{allowed:?}");
    let told = thermae.call(&["audit", "calls.jsonl"]);
    let token = format!("token    {}  lines: 4\n", small.id);
    assert!(told.stdout.starts_with("5 lines, unbroken\n") && told.stdout.ends_with(&token), "{told:?}");

    let refused = thermae.call(&run);
    assert!(refused.status == 2 && refused.stderr.contains("token_unsupported"), "{refused:?}");
    thermae.file("token", "");
    let refused = thermae.call(&trusting);
    assert!(refused.status == 2 && refused.stderr.contains("token_malformed"), "{refused:?}");

    // A fleet that began after the token was made can't know how often it was used.
    thermae.file("token", issuer.mint(&grant(Some(5))).unwrap().as_str());
    let counted = thermae.call(&trusting);
    assert_eq!(
        (counted.status, counted.stdout.as_str()),
        (0, "token_counts_lost\ncapability_refused\n"),
        "{counted:?}"
    );
}

#[test]
fn a_fleet_counts_the_calls_of_tokens_that_were_made_after_its_start() {
    // Runs the job in the file job.json, answers its calls, and prints what it printed.
    const RUN: &str = r#"
ask() { curl -sS --fail-with-body -H "Authorization: Bearer $THERMAE_TOKEN" "$URL/v1/runs$1" "${@:2}"; }
of_run() { python3 -c "import json, sys; run = json.load(sys.stdin); print($1, end='')" <<< "$run"; }
run=$(ask '?wait=30s&until=call' --json @job.json)
while [ "$(of_run 'run["state"]')" = underway ]; do
  for call in $(of_run '*(call["call"] for call in run["calls"])'); do
    ask "/$(of_run 'run["id"]')/calls/$call" --json '{"ok": 7}'
  done
  run=$(ask "/$(of_run 'run["id"]')?wait=30s&until=call")
done
of_run 'run["outcome"]["stdout"]'
"#;
    let thermae = Thermae::new();
    let issuer = issuer(&thermae);
    let mint = || issuer.mint(&grant(Some(1))).unwrap();
    let old = mint();
    let serving = Serving::start(&thermae, Some(TOKEN), &["--token-keys", "keys"]);
    let new = mint();
    let (lost, none, one) = ("token_counts_lost", "capability_refused", "7");
    for (token, first) in [(&old, lost), (&new, one), (&new, none), (&old, lost)] {
        let job = json!({ "code": CODE, "tools": [{ "name": "pay" }], "token": token.as_str() });
        thermae.file("job.json", &job.to_string());
        let said = bash(&thermae, &[("URL", &serving.url), ("THERMAE_TOKEN", TOKEN)], RUN);
        assert_eq!(said.lines().collect::<Vec<_>>(), [first, none]);
    }
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn keys_that_can_not_be_used_are_told() {
    let thermae = Thermae::with("main.py", "print(1)");
    let nowhere = thermae.call(&["run", "main.py", "--token-keys", "nowhere"]);
    assert!(nowhere.status != 0 && nowhere.stderr.contains("nowhere"), "{nowhere:?}");
    let useless = thermae.call(&["run", "main.py", "--token-revoked", "list"]);
    assert!(useless.status == 2 && useless.stderr.contains("--token-keys"), "{useless:?}");
    let remote = thermae.call(&["run", "main.py", "--token-keys", "keys", "--amqp", "amqp://a:a@127.0.0.1:1"]);
    assert!(remote.status == 2 && remote.stderr.contains("tokens.keys"), "{remote:?}");
}
