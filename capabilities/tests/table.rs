//! Runs the cases in `cases/*.toml`, which say how every rule is meant.

use std::collections::BTreeSet;
use std::path::Path;

use jsonschema::Validator;
use serde::Deserialize;
use thermae_capabilities::{Arguments, At, Call, InMemory, Rules, Schemas, Set, Tree, covers, decide};
use thermae_testkit::page;

/// One file of cases.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    calls: Vec<Calls>,
    constraint: Vec<OneConstraint>,
    malformed: Vec<Malformed>,
    covers: Vec<Covers>,
}

/// Calls under one set: the tool, its arguments, and what comes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    about: String,
    set: String,
    /// Sets that narrow the first one.
    #[serde(default)]
    narrowed: Vec<String>,
    /// Whether all calls are made under the same counts.
    #[serde(default)]
    counted: bool,
    cases: Vec<[String; 3]>,
}

/// Calls of the tool `t` under one constraint: the arguments, and what comes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneConstraint {
    about: String,
    constraint: String,
    cases: Vec<[String; 2]>,
}

/// Texts that are no sets, and a part of the error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Malformed {
    about: String,
    /// What is around the text, with `@` in its place.
    #[serde(default)]
    around: Option<String>,
    cases: Vec<[String; 2]>,
}

/// Whether the first set covers the second: `yes` or `no`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Covers {
    about: String,
    #[serde(default)]
    around: Option<String>,
    cases: Vec<[String; 3]>,
}

/// Checks schemas without a bound on the work.
struct Compiled<'a>(&'a Rules);

impl Compiled<'_> {
    fn check(schema: &Tree, value: &Tree) -> Result<(), String> {
        let schema: Validator = jsonschema::validator_for(&schema.to_value()).unwrap();
        schema.validate(&value.to_value()).map_err(|error| error.to_string())
    }
}

impl Schemas for Compiled<'_> {
    fn arguments(&self, at: At, arguments: &Arguments) -> Result<(), String> {
        arguments.judge(self.0.get(at).unwrap().arguments().unwrap(), None, Self::check)
    }

    fn result(&self, at: At, result: &Tree, _: usize) -> Result<(), String> {
        Self::check(self.0.get(at).unwrap().result().unwrap(), result)
    }
}

/// What comes of a call: `ok` and the places of the capabilities, or an error.
fn outcome(rules: &Rules, counts: &InMemory, tool: &str, arguments: &str) -> String {
    let arguments = match Arguments::read(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return format!("unread: {error}"),
    };
    match decide(rules, Call { tool, arguments: &arguments }, &Compiled(rules), counts) {
        Ok(grant) => {
            let by: Vec<_> = grant.by.iter().map(|at| at.capability.to_string()).collect();
            format!("ok {}", by.join("+"))
        }
        Err(denied) => denied.to_string(),
    }
}

/// Compares what came with what a case wants: `ok` with or without the places, or a part of the error.
fn compare(wrong: &mut Vec<String>, about: &str, case: &[String], got: &str) {
    let want = case.last().unwrap();
    let allowed = got.strip_prefix("ok ").is_some_and(|by| want == "ok" || want.strip_prefix("ok ") == Some(by));
    let refused = !got.starts_with("ok ") && !want.starts_with("ok") && got.contains(want.as_str()) && !want.is_empty();
    if !allowed && !refused {
        wrong.push(format!("{about}\n  case {case:?}\n  got  {got}"));
    }
}

fn around(around: Option<&String>, text: &str) -> String {
    around.map_or_else(|| text.to_owned(), |around| around.replace('@', text))
}

fn rules(set: &str) -> Rules {
    Rules::new(Set::from_json(set).unwrap_or_else(|error| panic!("{set}: {error}")))
}

impl File {
    fn run(&self, wrong: &mut Vec<String>) -> usize {
        let mut ran = 0;
        for Calls { about, set, narrowed, counted, cases } in &self.calls {
            let rules = narrowed.iter().fold(rules(set), |all, set| all.narrow(rules(set)).unwrap());
            let mut counts = InMemory::default();
            for case in cases {
                compare(wrong, about, case, &outcome(&rules, &counts, &case[0], &case[1]));
                if !counted {
                    counts = InMemory::default();
                }
                ran += 1;
            }
        }
        for OneConstraint { about, constraint, cases } in &self.constraint {
            let rules = rules(&format!(r#"[{{"pattern": "t", "constraints": [{constraint}]}}]"#));
            for case in cases {
                compare(wrong, about, case, &outcome(&rules, &InMemory::default(), "t", &case[0]));
                ran += 1;
            }
        }
        for Malformed { about, around: with, cases } in &self.malformed {
            for case in cases {
                let read = Set::from_json(&around(with.as_ref(), &case[0]));
                let got = read.map_or_else(|error| error.to_string(), |set| format!("ok {set}"));
                compare(wrong, about, case, &got);
                ran += 1;
            }
        }
        for Covers { about, around: with, cases } in &self.covers {
            for case in cases {
                let [a, b] = [0, 1].map(|side| rules(&around(with.as_ref(), &case[side])));
                let got = if covers(&a, &b) { "yes" } else { "no" };
                if got != case[2] {
                    wrong.push(format!("{about}\n  case {case:?}\n  got  {got}"));
                }
                ran += 1;
            }
        }
        ran
    }
}

#[test]
fn the_pages_show_sets() {
    for (_, blocks) in page::all(page::Kind::Set) {
        blocks.iter().for_each(|block| drop(rules(&block.text)));
    }
}

#[test]
fn every_case_is_as_the_tables_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files: BTreeSet<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        ran += file.run(&mut wrong);
    }
    assert!(wrong.is_empty(), "{} of {ran} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    println!("{ran} cases");
    assert!(ran >= 200, "only {ran} cases ran");
}
