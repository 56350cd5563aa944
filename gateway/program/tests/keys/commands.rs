//! `thermae-gateway key`, and what the program makes of a wrong configuration.

use serde_json::{Value, json};

use crate::program::Program;

#[test]
fn a_key_is_made_listed_and_revoked() {
    let program = Program::new();
    let create =
        ["key", "create", "--tenant", "acme", "--scope", "run,read", "--scope", "answer", "--name", "night run"];
    let output = program.call(&create);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("thm_") && text.lines().count() == 1, "{text}");
    let said = String::from_utf8(output.stderr).unwrap();
    let (id, secret) = (&text[4..20], &text.trim()[21..]);
    assert!(said.contains(id) && !said.contains(secret), "{said}");

    let args =
        ["key", "create", "--tenant", "globex", "--scope", "read", "--expires", "90d", "--rate", "60", "--runs", "5"];
    let made: Value = serde_json::from_str(&program.told(&[&args[..], &["--json"]].concat())).unwrap();
    assert_eq!(
        (&made["tenant"], &made["scopes"], &made["state"]),
        (&json!("globex"), &json!(["read"]), &json!("valid"))
    );
    assert_eq!((&made["requests_per_minute"], &made["runs_at_once"]), (&json!(60), &json!(5)));
    let day = 86_400_000;
    let lives = made["expires_ms"].as_u64().unwrap() - made["created_ms"].as_u64().unwrap();
    assert!((89 * day..=90 * day).contains(&lives), "{made}");
    assert!(made["key"].as_str().unwrap().starts_with(&format!("thm_{}_", made["id"].as_str().unwrap())), "{made}");

    let listed = program.told(&["key", "list"]);
    assert!(listed.contains("night run") && listed.lines().count() == 2, "{listed}");
    assert!(!listed.contains(secret) && !program.told(&["key", "list", "--json"]).contains(secret));
    let globex = program.told(&["key", "list", "--tenant", "globex", "--json"]);
    let only: Value = serde_json::from_str(&globex).unwrap();
    assert_eq!((&only["id"], only.get("key")), (&made["id"], None));

    let not_theirs = program.call(&["key", "revoke", id, "--tenant", "globex", "--json"]);
    assert_eq!(not_theirs.status.code(), Some(2));
    let error: Value = serde_json::from_slice(&not_theirs.stdout).unwrap();
    assert_eq!(error["error"]["code"], "key_unknown");
    assert!(program.told(&["key", "revoke", id, "--tenant", "acme"]).contains("is revoked"));
    assert!(program.told(&["key", "list", "--tenant", "acme"]).contains("revoked"));
    // Nothing of the secret is in the store's files.
    for file in std::fs::read_dir(program.path()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{:?}", file.path());
    }
}

#[test]
fn wrong_arguments_make_no_key() {
    let program = Program::new();
    for wrong in [
        &["--scope", "run"][..],
        &["--tenant", "acme"],
        &["--tenant", "a.b", "--scope", "run"],
        &["--tenant", "acme", "--scope", "root"],
        &["--tenant", "acme", "--scope", "run", "--rate", "0"],
        &["--tenant", "acme", "--scope", "run", "--expires", "yesterday"],
        &["--tenant", "acme", "--scope", "run", "--expires", "1999-12-31T00:00:00Z"],
        &["--tenant", "acme", "--scope", "run", "--name", "two\nlines"],
    ] {
        let output = program.call(&[&["key", "create"], wrong].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{wrong:?}: {output:?}");
    }
    assert_eq!(program.told(&["key", "list"]), "");
}

#[test]
fn a_wrong_configuration_is_said_at_once_and_without_secrets() {
    let program = Program::new();
    let good = "[gateway]\nlisten = '127.0.0.1:0'\nkeys = 'sqlite:keys.db'\n";
    let said = |text: &str, args: &[&str]| {
        program.configure(&format!("listen = '127.0.0.1:0'\n{text}"));
        let output = program.call(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        text
    };
    for (more, word) in [
        ("", "gateway.tenants_folder"),
        ("tenants_folder = '/nowhere'", "/nowhere"),
        ("amqp = 'amqp://fleet:hunter2@h'\ntenants_folder = '.'", "gateway.amqp"),
        ("tenants = { acme = 'amqp://fleet:hunter2@h' }", "gateway.tenants.acme"),
        ("tenants = { acme = 'hunter2' }\nmax_runs = 0", "gateway.max_runs"),
        ("tenants = { 'a b' = 'hunter2' }", "a b"),
        ("keyz = 1", "gateway.keyz"),
    ] {
        let text = said(&format!("{good}{more}\n"), &[]);
        assert!(text.contains(word), "{more}: {text}");
    }
    for (keys, word) in [("", "gateway.keys"), ("keys = 'mysql://u:hunter2@h/d'", "gateway.keys")] {
        let text = said(&format!("[gateway]\n{keys}\n"), &[]);
        assert!(text.contains(word), "{text}");
        assert!(said(&format!("[gateway]\n{keys}\n"), &["key", "list"]).contains("error[usage]"));
    }
    let text = said(good, &["key", "list", "--keys", "postgres://u:hunter2@h/d"]);
    assert!(text.contains("THERMAE_GATEWAY__KEYS_FILE"), "{text}");
}

#[test]
fn a_store_that_can_not_be_opened_is_an_error_with_its_code() {
    let program = Program::with_store("sqlite:/nowhere/keys.db");
    let output = program.call(&["key", "list", "--json"]);
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &error["error"]["code"]), (Some(3), &json!("keys_unavailable")));
}
