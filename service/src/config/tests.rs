use std::collections::BTreeMap;
use std::io::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::secret::Secret;
use crate::units::{ByteSize, Millis};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Options {
    /// Log filter.
    log: String,
    pools: BTreeMap<String, Pool>,
    names: Vec<String>,
    drain: Millis,
}

impl Default for Options {
    fn default() -> Self {
        Self { log: "info".into(), pools: BTreeMap::new(), names: Vec::new(), drain: Millis::from_secs(30) }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Pool {
    slots: u32,
    memory: ByteSize,
}

impl Default for Pool {
    fn default() -> Self {
        Self { slots: 2, memory: ByteSize::mib(256) }
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new("THERMAE", variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn load(text: &str, variables: &[(&str, &str)], overrides: Overrides) -> Result<Options, Error> {
    load_from(Some(file(text).path()), environment(variables), overrides)
}

#[test]
fn nothing_given_means_the_defaults() {
    assert_eq!(load_from::<Options>(None, environment(&[]), vec![]).unwrap(), Options::default());
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let text = "log = 'file'\ndrain = '1s'\n[pools.default]\nslots = 3\nmemory = '1GiB'\n";
    let variables = [("THERMAE_LOG", "env"), ("THERMAE_POOLS__DEFAULT__SLOTS", "4"), ("THERMAE_DRAIN", "2s")];
    let options = load(text, &variables, vec![("drain".into(), json!("3s")), ("log".into(), json!(null))]).unwrap();
    assert_eq!(options.log, "env");
    assert_eq!(options.drain, Millis::from_secs(3));
    assert_eq!(options.pools["default"], Pool { slots: 4, memory: ByteSize::gib(1) });
}

#[test]
fn text_that_looks_like_a_number_stays_text_and_lists_are_toml() {
    let variables =
        [("THERMAE_LOG", "007"), ("THERMAE_NAMES", "['a', 'b']"), ("THERMAE_POOLS", "{ big = { slots = 9 } }")];
    let options = load_from::<Options>(None, environment(&variables), vec![]).unwrap();
    assert_eq!(options.log, "007");
    assert_eq!(options.names, ["a", "b"]);
    assert_eq!(options.pools["big"].slots, 9);
}

#[test]
fn an_error_names_the_key_and_where_it_stands() {
    let message = |text: &str, variables: &[(&str, &str)]| load(text, variables, vec![]).unwrap_err().to_string();

    let unknown = message("[pools.default]\nslotz = 3\n", &[]);
    assert!(unknown.contains("`pools.default.slotz`") && unknown.contains(".toml"), "{unknown}");
    assert!(unknown.contains("unknown field"), "{unknown}");

    let kind = message("[pools.default]\nslots = 'many'\n", &[]);
    assert!(kind.contains("`pools.default.slots`") && kind.contains(".toml") && kind.contains("\"many\""), "{kind}");

    let variable = message("", &[("THERMAE_POOLS__DEFAULT__MEMORY", "huge")]);
    assert!(variable.contains("`pools.default.memory` (from THERMAE_POOLS__DEFAULT__MEMORY)"), "{variable}");

    let list = message("", &[("THERMAE_NAMES", "[")]);
    assert!(list.contains("`names` (from THERMAE_NAMES)"), "{list}");

    let flag = load("", &[], vec![("drain".into(), json!("soon"))]).unwrap_err().to_string();
    assert!(flag.contains("`drain` (from the command line)"), "{flag}");

    let syntax = message("log = \n", &[]);
    assert!(syntax.contains("not valid TOML") && syntax.contains(".toml"), "{syntax}");
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let error =
        load_from::<Options>(Some(Path::new("/nonexistent/thermae.toml")), environment(&[]), vec![]).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
}

#[test]
fn variables_for_others_are_left_alone_but_listed() {
    let variables = environment(&[("THERMAE_LOGG", "x"), ("THERMAE_LOG", "y"), ("OTHER", "z"), ("THERMAE_NAMES", "")]);
    let options = load_from::<Options>(None, variables.clone(), vec![]).unwrap();
    assert_eq!((options.log.as_str(), options.names.len()), ("y", 0));
    assert_eq!(variables.others(&Secrets::of::<Options>().keys()), ["THERMAE_LOGG"]);
}

#[derive(Debug, JsonSchema)]
struct Both {
    #[serde(flatten)]
    _guarded: Guarded,
    #[serde(flatten)]
    _options: Options,
}

#[test]
fn two_structures_share_a_table_and_errors_still_name_the_key() {
    let load = |text: &str, variables: &[(&str, &str)]| {
        load_both_from::<Both, Guarded, Options>(Some(file(text).path()), environment(variables), vec![])
    };
    let (_dir, path) = with_secret("hunter2");
    let text = format!("log = 'debug'\namqp_file = {path:?}\n[pools.default]\nslots = 3\n");
    let (guarded, options) = load(&text, &[("THERMAE_POOLS__DEFAULT__MEMORY", "1GiB")]).unwrap();
    assert_eq!((guarded.amqp.expose(), options.log.as_str()), ("hunter2", "debug"));
    assert_eq!(options.pools["default"], Pool { slots: 3, memory: ByteSize::gib(1) });

    let message = |text: &str, variables: &[(&str, &str)]| load(text, variables).unwrap_err().to_string();
    let deep = message("[pools.default]\nslotz = 3\n", &[]);
    assert!(deep.contains("`pools.default.slotz` (from ") && deep.contains("unknown field `slotz`"), "{deep}");
    let kind = message("[store]\nsigning_key = 3\noptions = 4\n", &[]);
    assert!(kind.contains("`store.options` (from ") && kind.contains("expected a map"), "{kind}");
    let variable = message("", &[("THERMAE_POOLS__DEFAULT__MEMORY", "huge")]);
    assert!(variable.contains("`pools.default.memory` (from THERMAE_POOLS__DEFAULT__MEMORY)"), "{variable}");
    let unknown = message("logg = 'debug'\n", &[]);
    assert!(
        unknown.contains("`logg` (from ") && unknown.contains("unknown field `logg`, expected one of"),
        "{unknown}"
    );
    assert!(unknown.contains("`amqp`") && unknown.contains("`pools`"), "{unknown}");
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Guarded {
    /// A URL.
    amqp: Secret,
    /// A password.
    password: Option<Secret>,
    store: Store,
    tls_file: String,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Store {
    signing_key: Option<Secret>,
    #[schemars(extend("x-own-files" = ["token_file"]))]
    options: BTreeMap<String, Secret>,
}

/// A folder with a file named `secret` that contains this text, and the file's path.
fn with_secret(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

#[test]
fn every_secret_can_be_given_as_a_file_from_every_source() {
    let (_dir, path) = with_secret("[hunter2\n");
    let text = format!(
        "password_file = {path:?}\n[store]\nsigning_key_file = {path:?}\noptions = {{ key_file = {path:?}, token_file = 't' }}\n"
    );
    let variables = [("THERMAE_AMQP_FILE", path.as_str()), ("THERMAE_TLS_FILE", "plain")];
    let all: Guarded = load_from(Some(file(&text).path()), environment(&variables), vec![]).unwrap();
    assert_eq!(all.amqp.expose(), "[hunter2");
    assert_eq!(all.password.as_ref().unwrap().expose(), "[hunter2");
    assert_eq!(all.store.signing_key.as_ref().unwrap().expose(), "[hunter2");
    assert_eq!(all.store.options["key"].expose(), "[hunter2");
    assert_eq!(all.store.options["token_file"].expose(), "t", "an option whose own name ends like that");
    assert_eq!(all.tls_file, "plain", "no secret, so a key like any other");
    let deep = [("THERMAE_STORE__SIGNING_KEY_FILE", path.as_str()), ("THERMAE_STORE__OPTIONS__KEY_FILE", &path)];
    let flags = vec![("password_file".to_owned(), json!(path))];
    let all: Guarded = load_from(None, environment(&deep), flags).unwrap();
    assert_eq!(all.store.signing_key.unwrap().expose(), "[hunter2");
    assert_eq!(all.store.options["key"].expose(), "[hunter2");
    assert_eq!(all.password.unwrap().expose(), "[hunter2");
}

#[test]
fn the_later_source_wins_whether_it_names_a_secret_or_its_file() {
    let (_dir, path) = with_secret("of the file");
    let of = |text: &str, variable: (&str, &str)| -> String {
        let all: Guarded = load_from(Some(file(text).path()), environment(&[variable]), vec![]).unwrap();
        all.amqp.expose().to_owned()
    };
    assert_eq!(of("amqp = 'first'", ("THERMAE_AMQP_FILE", &path)), "of the file");
    assert_eq!(of(&format!("amqp_file = {path:?}"), ("THERMAE_AMQP", "last")), "last");
    assert_eq!(of(&format!("amqp_file = {path:?}"), ("THERMAE_AMQP", "[last")), "[last", "a secret is never parsed");
}

#[test]
fn what_is_wrong_with_a_secret_is_said_without_it() {
    let (_dir, path) = with_secret("hunter2");
    let message = |text: &str, variables: &[(&str, &str)]| {
        let error = load_from::<Guarded>(Some(file(text).path()), environment(variables), vec![]).unwrap_err();
        let message = format!("{error} {error:?}");
        assert!(!message.contains("hunter2"), "{message}");
        message
    };
    let both = message(&format!("amqp = 'amqp://u:hunter2@h'\namqp_file = {path:?}"), &[]);
    assert!(both.contains("`amqp_file`") && both.contains("one of the two"), "{both}");
    let missing = message("", &[("THERMAE_AMQP_FILE", "/nonexistent/secret")]);
    assert!(missing.contains("/nonexistent/secret") && missing.contains("THERMAE_AMQP_FILE"), "{missing}");
    let syntax = message("\namqp = 'amqp://u:hunter2@h\n", &[]);
    assert!(syntax.contains("in line 2"), "{syntax}");
    message("amqp = ['hunter2']", &[]);
    message("amqp = { hunter2 = 'hunter2' }", &[]);
    message("[store]\nsigning_key = ['hunter2']", &[]);
    message("password_file = ['hunter2']", &[]);
    let all: Guarded = load_from(None, environment(&[("THERMAE_AMQP", "amqp://u:hunter2@h")]), vec![]).unwrap();
    assert!(!format!("{all:?}").contains("hunter2"));
}
