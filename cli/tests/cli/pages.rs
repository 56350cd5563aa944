//! The blocks of the documentation's pages, each as its reader would use it. `thermae_testkit::page` says which blocks
//! are tested elsewhere.

use std::path::Path;

use serde_json::Value;
use thermae_testkit::page::{self as pages, Kind, fits};

use crate::page;
use crate::serve::{Serving, TOKEN};
use crate::thermae::Thermae;

/// The gateway that the pages show: the one that `thermae serve` is by default.
const SHOWN: &str = "http://127.0.0.1:8420";

#[test]
fn the_commands_of_the_pages_work() {
    for (name, blocks) in pages::all(Kind::Commands) {
        let thermae = page::folder();
        // The issuer's keys come later, as they do if an operator adds one.
        std::fs::create_dir(thermae.path().join("keys")).unwrap();
        let serving = Serving::start(&thermae, Some(TOKEN), &["--token-keys", "keys"]);
        page::runs(&thermae, &[("THERMAE_TOKEN", TOKEN)], name, &blocks, (SHOWN, &serving.url));
        assert_eq!(serving.end(), Some(0));
    }
}

#[test]
fn a_gateway_greets_as_the_pages_say() {
    for (name, blocks) in pages::all(Kind::Serve) {
        for block in blocks {
            let [(command, shown)] = &block.commands()[..] else { panic!("{name}: {block:?}") };
            assert_eq!(command, "thermae serve", "{name}");
            let thermae = Thermae::new();
            let mut serving = Serving::start(&thermae, None, &[]);
            let greeting = serving.greeting().join("\n").replace(&serving.url, SHOWN).replace("(2 ", "(4 ");
            assert!(fits(shown, &greeting), "{name} shows\n{shown}\nand it is\n{greeting}");
            assert_eq!(serving.end(), Some(0));
        }
    }
}

#[test]
fn a_person_sees_in_the_terminal_what_the_page_shows() {
    let thermae = page::folder();
    let [(command, shown)] = &pages::only(Kind::Terminal).commands()[..] else { panic!("it is one command") };
    let words: Vec<_> = command.split_whitespace().filter(|word| *word != "\\").collect();
    let ask = "Make this call?";
    let answers = shown.lines().filter(|line| line.starts_with(ask)).map(|line| line.rsplit_once("] ").unwrap().1);
    let typed: Vec<_> = answers.map(|answer| format!("{answer}\n")).collect();
    let typed: Vec<_> = typed.iter().map(|answer| (ask, answer.as_str())).collect();
    assert!(words[0] == "thermae" && !typed.is_empty(), "{command}\n{shown}");
    let answer = thermae.call_and_type(&words[1..], &typed);
    assert_eq!(answer.status, 0, "{answer:?}");
    let seen = anstream::adapter::strip_str(&answer.stdout).to_string().replace("\r\n", "\n");
    assert!(fits(shown, &seen), "the page shows\n{shown}\nand it is\n{seen}");
}

#[test]
fn the_user_of_the_page_is_that_of_the_definitions() {
    let definitions: Value = serde_json::from_str(&pages::text("images/rabbitmq/definitions.json")).unwrap();
    let user = "acme.approver";
    let rows = |table: &str, command: &str, fields: &[&str]| -> Vec<String> {
        let rows = definitions[table].as_array().unwrap().iter().filter(|row| row["user"] == user);
        let words =
            |row: &Value| -> String { fields.iter().map(|at| row[at].as_str().unwrap().to_owned() + "\n").collect() };
        rows.map(|row| format!("{command}\n{user}\n{}", words(row))).collect()
    };
    let mut wanted = vec![format!("add_user\n{user}\n")];
    wanted.extend(rows("permissions", "set_permissions", &["configure", "write", "read"]));
    wanted.extend(rows("topic_permissions", "set_topic_permissions", &["exchange", "write", "read"]));
    let script = format!("rabbitmqctl() {{ printf '%s\\n' \"$@\" --; }}\n{}", pages::only(Kind::User).text);
    let shown = page::bash(&Thermae::new(), &[], &script);
    assert_eq!(shown.split_terminator("--\n").collect::<Vec<_>>(), wanted);
}

#[test]
fn the_options_of_the_pages_are_a_workers() {
    for (name, blocks) in pages::all(Kind::Worker) {
        for block in blocks {
            let options = thermae_service::config::parse::<thermae_worker::Options>(
                Path::new(name),
                &block.text,
                thermae_service::config::ENV_PREFIX,
            );
            options.unwrap_or_else(|error| panic!("{name}, line {}: {error}", block.line));
        }
    }
}

#[test]
fn the_examples_print_what_they_say() {
    let thermae = page::folder();
    let serving = Serving::start(&thermae, Some(TOKEN), &[]);
    let variables = [("THERMAE_TOKEN", TOKEN), ("THERMAE_URL", serving.url.as_str())];
    let examples = std::fs::read_dir(pages::path("examples/http")).unwrap().map(|entry| entry.unwrap().path());
    let mut ran = 0;
    for example in examples {
        let printed = page::bash(&thermae, &variables, &format!("bash {}", example.display()));
        assert_eq!(printed, page::promised(&std::fs::read_to_string(&example).unwrap()), "{}", example.display());
        ran += 1;
    }
    assert!(ran >= 3, "only {ran} examples ran");
    assert_eq!(serving.end(), Some(0));
}
